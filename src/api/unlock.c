/* POST /v1/unlock: clears the locks of some subjects, or of a journey, a page at a time. A dry run says what
 * would be cleared, and is a read. What a person set stays, unless the request names its kind or who set it. */
#include "api/lock_list.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "service/cursor.h"
#include "service/lock.h"

struct unlock_call {
	struct lock_search q;
	struct bytes       subjects[UNLOCK_SUBJECTS_MAX];
	bool               dry_run;
	struct lock_page   page;
};

static bool has_subject(const struct unlock_call *u, struct bytes id)
{
	for (uint32_t i = 0; i < u->q.subject_count; i++)
		if (bytes_equal(u->subjects[i], id))
			return true;
	return false;
}

static void read_subjects(struct v1_call *c, struct fields *f, struct unlock_call *u)
{
	const struct json *many = fields_array(f, "subjects", UNLOCK_SUBJECTS_MAX);

	if (many == NULL)
		return;
	if (many->count == 0)
		fields_fail(f, "subjects", ERR_INVALID, "must not be empty");
	for (const struct json *m = many->children; m != NULL; m = m->next) {
		struct bytes id = identifier_read(&c->services->identifiers, c->arena, f, "subjects", m);

		if (id.len > 0 && !has_subject(u, id))
			u->subjects[u->q.subject_count++] = id;
	}
	u->q.subjects = u->subjects;
}

static bool read_where(struct v1_call *c, struct fields *f, struct unlock_call *u)
{
	const struct json  *where = fields_object(f, "where", 4);
	const struct rules *rules = v1_rules(c);
	struct fields       in;

	if (where == NULL) {
		v1_every_journey(c, rules);
		return false;
	}
	fields_enter(&in, f, BYTES("where"), where);
	u->q.kind = v1_read_name(&in, "kind", true);
	u->q.set_by = fields_text_or(&in, "set_by", LOCK_SET_BY_MAX, (struct bytes){NULL, 0});
	if (f->err->code == ERR_NONE && u->q.kind.len > 0 && rules_kind(rules, u->q.kind) == NULL)
		fields_fail(&in, "kind", ERR_INVALID,
		            "unknown lock kind %.*s; the policies list them under `locks`",
		            BYTES_ARG(u->q.kind));
	if (fields_has(&in, "journey") || (u->q.kind.len == 0 && u->q.set_by.len == 0))
		u->q.journey = v1_read_journey(c, &in, rules);
	else
		v1_every_journey(c, rules);
	u->q.name = v1_read_name(&in, "name", true);
	if (f->err->code == ERR_NONE && u->q.name.len > 0 && u->q.journey.len == 0)
		fields_fail(&in, "journey", ERR_INVALID,
		            "missing: `name` needs the journey whose lock it is");
	if (f->err->code == ERR_NONE && u->q.name.len > 0 && !rules_has_lock(rules, u->q.journey, u->q.name))
		fields_fail(&in, "name", ERR_INVALID,
		            "unknown lock: the journey %.*s has no lock %.*s in the policies",
		            BYTES_ARG(u->q.journey), BYTES_ARG(u->q.name));
	fields_end(&in);
	return true;
}

enum err_code unlock_decode(struct v1_call *c, struct err *err)
{
	struct unlock_call *u = arena_zalloc(c->arena, sizeof(*u));
	struct bytes        cursor;
	struct fields       f;

	c->request = u;
	fields_init(&f, c->body, err);
	read_subjects(c, &f, u);
	if (!read_where(c, &f, u) && u->q.subject_count == 0)
		fields_fail(&f, "subjects", ERR_INVALID,
		            "missing: `subjects` or `where` must say which locks to lift");
	u->q.limit = (uint32_t)fields_i64_or(&f, "limit", 1, UNLOCK_MAX, UNLOCK_MAX);
	u->dry_run = fields_bool_or(&f, "dry_run", false);
	cursor = fields_text_or(&f, "cursor", CURSOR_BYTES_MAX, (struct bytes){NULL, 0});
	if (cursor.len > 0 && !cursor_read(c->arena, cursor, &u->q.after_pk, &u->q.after_sk))
		fields_fail(&f, "cursor", ERR_INVALID, "not a cursor returned by this API");
	u->q.not_persons = u->q.kind.len == 0 && u->q.set_by.len == 0;
	if (u->dry_run)
		c->call.kind = READ;
	return fields_end(&f);
}

/* For the audit log; and rows may be of journeys that the policies no longer have, and that nobody was asked about. */
static enum err_code note_unlocked(struct v1_call *c, const struct unlock_call *u, struct err *err)
{
	c->changed = arena_array(c->arena, u->page.count, sizeof(*c->changed));
	c->changed_count = u->page.count;
	for (uint32_t i = 0; i < u->page.count; i++) {
		struct key_parts key = key_split(u->page.list[i].sk);

		c->changed[i] = (struct v1_changed){u->page.list[i].pk, key.journey, key.classifier};
		if (v1_check_sees(c, key.journey, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

enum err_code unlock_run(struct v1_call *c, struct err *err)
{
	struct unlock_call *u = c->request;

	if ((u->dry_run ? locks_find(&c->ctx, &u->q, &u->page, err)
	                : locks_unlock(&c->ctx, &u->q, &u->page, err)) != ERR_NONE)
		return err->code;
	return note_unlocked(c, u, err);
}

void unlock_encode(struct v1_call *c, struct json_writer *w)
{
	const struct unlock_call *u = c->request;

	json_begin_object(w);
	v1_write_bool(w, BYTES("dry_run"), u->dry_run);
	lock_page_write(w, BYTES("unlocked"), &u->page, c->arena, c->ctx.now_us);
	if (u->page.kept > 0)
		v1_write_i64(w, BYTES("operator_locks_kept"), u->page.kept);
	json_end_object(w);
}
