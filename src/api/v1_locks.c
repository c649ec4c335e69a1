/* Locks that people and other systems set, list and clear:
 *   PUT and DELETE /v1/subjects/{id}/locks/{journey}/{name}
 *   GET /v1/locks: those that hold, of all subjects, a page at a time
 *   POST /v1/unlock: clears those of some subjects, or of a journey */
#include "api/v1_journeys.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_write.h"
#include "service/cursor.h"
#include "service/account.h"
#include "service/lock.h"
#include "service/row.h"

/* Of a path: which lock. */
struct lock_call {
	struct lock_new lock;
	struct err unknown; /* DELETE: what is said if there is no such row; no code: it is in the policies */
	bool       locked;  /* false: it is to be open */
	bool       held;    /* before */
	struct verdict verdict;
};

static enum err_code read_path(struct v1_call *c, struct lock_new *lock, struct err *err)
{
	lock->journey = c->params[1];
	lock->name = c->params[2];
	lock->type = BYTES(KEY_LOCK);
	return v1_subject_param(c, 0, &lock->pk, err);
}

static struct bytes lock_key(struct v1_call *c, const struct lock_new *lock)
{
	return key_name(c->ctx.arena, lock->journey, lock->type, lock->name, lock->qualifier);
}

/* ---- setting ---- */

/* A lock that no rule in force heeds would answer `locked` and stop nobody. */
static void check_heeded(struct fields *f, const struct rules *rules, const struct lock_new *lock,
                         struct bytes sk)
{
	struct heed_lock heed = {.ref = {lock->journey, lock->name}, .persons = true, .set_s = HEED_ALWAYS};

	if (lock_reach(lock->pk, sk, &heed.reach) && rules_heed(rules, &heed) &&
	    !(heed.reach == REACH_QUALIFIER && identifier_is(lock->pk, IDENTIFIER_IP)))
		return;
	if (lock->qualifier.len > 0)
		fields_fail(f, "qualifier", ERR_INVALID,
		            "%.*s/%.*s does not count by it for this subject; leave it out to lock the whole "
		            "type",
		            BYTES_ARG(lock->journey), BYTES_ARG(lock->name));
	else
		fields_fail(
		        f, "name", ERR_INVALID,
		        "the lock %.*s/%.*s would block nothing: first name it in the `blocked_by` of a type",
		        BYTES_ARG(lock->journey), BYTES_ARG(lock->name));
}

static bool is_one_line(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
			return false;
	return true;
}

/* Why, and who says so: unless a person is named, the access key. */
static void read_person(struct v1_call *c, struct fields *f, struct lock_new *lock)
{
	lock->reason = fields_text_or(f, "reason", LOCK_REASON_MAX, (struct bytes){NULL, 0});
	lock->set_by = fields_text_or(f, "set_by", LOCK_SET_BY_MAX, (struct bytes){NULL, 0});
	if (!is_one_line(lock->reason))
		fields_fail(f, "reason", ERR_INVALID, "must not contain control characters");
	if (!is_one_line(lock->set_by))
		fields_fail(f, "set_by", ERR_INVALID, "must not contain control characters");
	if (lock->set_by.len == 0)
		lock->set_by = c->call.who.key != NULL ? c->call.who.key->name : BYTES(LOCK_BY_SOMEONE);
}

/* {"locked": false} writes the row that says there is no lock; nothing else can be said of it. */
static void read_kind(struct fields *f, const struct rules *rules, struct lock_call *l)
{
	struct bytes name;

	l->locked = fields_bool_or(f, "locked", true);
	if (!l->locked)
		return;
	name = v1_read_name(f, "kind", false);
	l->lock.duration_s = fields_i64_or(f, "duration", 1, RULE_SECONDS_MAX, 0);
	l->lock.method_type = v1_read_name(f, "method_type", true);
	l->lock.notification_type = v1_read_name(f, "notification_type", true);
	if (fields_failed(f))
		return;
	l->lock.kind = rules_kind(rules, name);
	if (l->lock.kind == NULL)
		fields_fail(f, "kind", ERR_INVALID,
		            "unknown lock kind %.*s; the policies list them under `locks`", BYTES_ARG(name));
	else if (l->lock.kind->duration_s == 0 && l->lock.duration_s > 0)
		fields_fail(f, "duration", ERR_INVALID,
		            "not valid for the lock kind %.*s, which is permanent", BYTES_ARG(name));
}

/* Its row also holds the failures in a row, which would be gone when the lock expires. */
static void check_streak(struct fields *f, const struct rules *rules, const struct lock_new *lock,
                         struct bytes sk)
{
	if (bytes_equal(sk, rules->consecutive.sk) && lock->kind->duration_s > 0)
		fields_fail(
		        f, "kind", ERR_INVALID,
		        "must be permanent for %.*s: a lock that expires would take the failures in a row "
		        "with it; lock a type instead",
		        BYTES_ARG(rules->consecutive.name));
}

enum err_code lock_set_decode(struct v1_call *c, struct err *err)
{
	struct lock_call   *l = v1_request(c, sizeof(*l));
	const struct rules *rules = v1_rules(c);
	struct fields       f;

	if (read_path(c, &l->lock, err) != ERR_NONE ||
	    v1_check_lock(rules, l->lock.journey, l->lock.name, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	l->lock.qualifier = v1_read_qualifier(c, &f, "qualifier");
	read_kind(&f, rules, l);
	if (l->locked)
		read_person(c, &f, &l->lock);
	if (l->locked && !fields_failed(&f))
		check_heeded(&f, rules, &l->lock, lock_key(c, &l->lock));
	if (l->locked && !fields_failed(&f))
		check_streak(&f, rules, &l->lock, lock_key(c, &l->lock));
	return fields_end(&f);
}

/* A user that is named by an address is locked itself too: the lock stays if the address goes. */
static enum err_code set_on_person(struct v1_call *c, struct lock_call *l, struct err *err)
{
	struct account *found = arena_alloc(c->ctx.arena, sizeof(*found));
	struct lock_new lock = l->lock;

	if (account_find(&c->ctx, l->lock.pk, found, err) != ERR_NONE)
		return err->code;
	if (found->users[0].len > 0) {
		lock.pk = found->users[0];
		lock.others = &l->lock.pk;
		lock.other_count = 1;
	}
	return lock_add(&c->ctx, &lock, &l->verdict, err);
}

enum err_code lock_set_run(struct v1_call *c, struct err *err)
{
	struct lock_call *l = c->request;

	l->verdict = (struct verdict){0};
	if (l->locked)
		return set_on_person(c, l, err);
	return lock_open(&c->ctx, l->lock.pk, lock_key(c, &l->lock), &l->held, err);
}

void lock_set_encode(struct v1_call *c, struct json_writer *w)
{
	const struct lock_call *l = c->request;

	json_begin_object(w);
	json_member_text(w, BYTES("subject"), l->lock.pk);
	v1_write_verdict(w, &l->verdict, c->ctx.now_us);
	json_member_text(w, BYTES("set_by"), l->lock.set_by);
	json_end_object(w);
}

/* ---- clearing: any row that there is, also of names that the policies do not have, or no longer ---- */

enum err_code lock_clear_decode(struct v1_call *c, struct err *err)
{
	struct lock_call *l = v1_request(c, sizeof(*l));

	if (read_path(c, &l->lock, err) != ERR_NONE ||
	    v1_query_qualifier(c, "qualifier", &l->lock.qualifier, err) != ERR_NONE)
		return err->code;
	if (identifier_is(l->lock.qualifier, IDENTIFIER_IP)) /* of a subject from one source */
		l->lock.type = BYTES(KEY_SOURCE_LOCK);
	if (v1_check_lock(v1_rules(c), l->lock.journey, l->lock.name, &l->unknown) == ERR_NONE)
		l->unknown.code = ERR_NONE;
	else if (!rule_name_is(l->lock.journey) || !rule_name_is(l->lock.name))
		return (*err = l->unknown).code; /* no name: it could be part of another key */
	return ERR_NONE;
}

enum err_code lock_clear_run(struct v1_call *c, struct err *err)
{
	struct lock_call *l = c->request;
	struct account   *found = arena_alloc(c->ctx.arena, sizeof(*found));
	uint32_t          before = c->ctx.changes.count;
	bool              held;

	l->held = false;
	if (account_writable(&c->ctx, l->lock.pk, err) != ERR_NONE ||
	    account_find(&c->ctx, l->lock.pk, found, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < found->id_count; i++) {
		if (lock_clear(&c->ctx, found->ids[i], lock_key(c, &l->lock), &held, err) != ERR_NONE)
			return err->code;
		l->held |= held;
	}
	if (l->unknown.code == ERR_NONE || c->ctx.changes.count > before)
		return ERR_NONE;
	*err = l->unknown; /* there is none of them: a slip of the pen */
	return err->code;
}

void lock_clear_encode(struct v1_call *c, struct json_writer *w)
{
	const struct lock_call *l = c->request;

	json_begin_object(w);
	json_member_bool(w, BYTES("cleared"), l->held);
	json_end_object(w);
}

/* ---- the list, and how a page of locks is written ---- */

/* Names of locks, journeys and kinds that the policies do not have may be those of rows that hold still. If there is none, it was
 * a slip of the pen. */
struct list_call {
	struct lock_search q;
	struct err         unknown; /* what is said then; no code: the policies have them all */
	struct lock_page   page;
};

static enum err_code check_found(const struct lock_search *q, const struct lock_page *page,
                                 const struct err *unknown, struct err *err)
{
	if (unknown->code == ERR_NONE || page->count + page->kept > 0 || page->more || q->after_pk.len > 0)
		return ERR_NONE;
	*err = *unknown;
	return err->code;
}

enum { LOCKS_PAGE_DEFAULT = 100 };

static enum err_code read_limit(struct v1_call *c, uint32_t *limit, struct err *err)
{
	struct bytes text;
	uint64_t     number = LOCKS_PAGE_DEFAULT;

	if (v1_query(c, "limit", &text, err) != ERR_NONE)
		return err->code;
	if (text.data != NULL && (!bytes_to_u64(text, LOCKS_PAGE_MAX, &number) || number < 1))
		return err_field(err, ERR_INVALID, "limit", "limit: must be from 1 to %d", LOCKS_PAGE_MAX);
	*limit = (uint32_t)number;
	return ERR_NONE;
}

static bool name_known(const struct rules *rules, struct bytes name)
{
	for (uint32_t i = 0; i < rules->journey_count; i++)
		if (rules_has_lock(rules, rules->journeys[i].name, name))
			return true;
	return false;
}

enum err_code lock_list_name(struct v1_call *c, struct err *err)
{
	struct bytes journey;

	if (v1_query(c, "journey", &journey, err) != ERR_NONE)
		return err->code;
	if (journey.data != NULL)
		v1_resource(c, "journey", journey);
	else
		v1_any_journey(c, v1_rules(c));
	return ERR_NONE;
}

/* A name alone is of any journey. */
static enum err_code check_filter(const struct rules *rules, const struct lock_search *q, struct err *err)
{
	if (q->journey.data != NULL)
		return v1_check_lock(rules, q->journey, q->name, err);
	if (q->name.data != NULL && !name_known(rules, q->name))
		return err_field(err, ERR_INVALID, "name",
		                 "name: unknown; no journey in the policies has a lock of this name");
	return ERR_NONE;
}

static bool is_name_if_sent(struct bytes name)
{
	return name.data == NULL || rule_name_is(name);
}

static enum err_code read_filter(struct v1_call *c, struct list_call *l, struct err *err)
{
	struct lock_search *q = &l->q;

	if (v1_query(c, "journey", &q->journey, err) != ERR_NONE ||
	    v1_query(c, "name", &q->name, err) != ERR_NONE)
		return err->code;
	if (check_filter(v1_rules(c), q, &l->unknown) == ERR_NONE)
		l->unknown.code = ERR_NONE;
	else if (!is_name_if_sent(q->journey) || !is_name_if_sent(q->name))
		return (*err = l->unknown).code;
	return ERR_NONE;
}

enum err_code lock_list_decode(struct v1_call *c, struct err *err)
{
	struct list_call *l = v1_request(c, sizeof(*l));
	struct bytes      cursor;

	if (read_filter(c, l, err) != ERR_NONE || read_limit(c, &l->q.limit, err) != ERR_NONE ||
	    v1_query(c, "cursor", &cursor, err) != ERR_NONE)
		return err->code;
	if (cursor.data != NULL && !cursor_read(&c->ctx, cursor, &l->q.after_pk, &l->q.after_sk))
		return err_field(err, ERR_INVALID, "cursor", "cursor: not a cursor returned by this API");
	return ERR_NONE;
}

enum err_code lock_list_run(struct v1_call *c, struct err *err)
{
	struct list_call *l = c->request;

	l->q.sees = v1_sees;
	l->q.sees_ctx = c;
	if (locks_find(&c->ctx, &l->q, &l->page, err) != ERR_NONE)
		return err->code;
	return check_found(&l->q, &l->page, &l->unknown, err);
}

/* ---- locks in answers ---- */

static struct bytes lane_of(struct bytes type)
{
	return bytes_is(type, KEY_SOURCE_LOCK) ? BYTES("source") : BYTES("subject");
}

static void lock_seen_write(struct v1_call *c, struct json_writer *w, const struct lock_seen *seen)
{
	struct key_parts p = key_split(seen->sk);

	json_begin_object(w);
	json_member_text(w, BYTES("subject"), seen->pk);
	json_member_text(w, BYTES("journey"), p.journey);
	json_member_text(w, BYTES("name"), p.classifier);
	json_member_text(w, BYTES("qualifier"), p.qualifier);
	json_member_text(w, BYTES("lane"), lane_of(p.type));
	json_member_text(w, BYTES("kind"), seen->kind);
	json_member_text(w, BYTES("cause"), seen->cause);
	if (seen->cause.len == 0)
		json_member_text(w, BYTES("set_by"), seen->set_by);
	json_member_text(w, BYTES("reason"), seen->reason);
	v1_write_time(w, BYTES("since"), seen->set_s);
	v1_write_time(w, BYTES("until"), seen->until_s);
	if (seen->until_s > 0)
		json_member_i64(w, BYTES("retry_after"), clock_seconds_left(seen->until_s, c->ctx.now_us));
	json_member_bool(w, BYTES("enforced"), lock_enforced(v1_rules(c), seen->pk, &seen->row));
	json_end_object(w);
}

/* `name`: [{subject, journey, name, …}], `more`, and the `cursor` of the next page if there is one. */
static void page_write(struct v1_call *c, struct json_writer *w, struct bytes name,
                       const struct lock_page *page)
{
	json_name(w, name);
	json_begin_array(w);
	for (uint32_t i = 0; i < page->count; i++)
		lock_seen_write(c, w, &page->list[i]);
	json_end_array(w);
	json_member_bool(w, BYTES("more"), page->more);
	if (page->more)
		json_member_text(w, BYTES("cursor"), cursor_write(&c->ctx, page->last_pk, page->last_sk));
}

void lock_list_encode(struct v1_call *c, struct json_writer *w)
{
	const struct list_call *l = c->request;

	json_begin_object(w);
	page_write(c, w, BYTES("locks"), &l->page);
	json_end_object(w);
}

/* ---- unlocking, a page at a time ----
 *
 * A dry run says what would be cleared, and is a read. What a person set stays, unless the request names its kind or who
 * set it. */

struct unlock_call {
	struct lock_search q;
	struct err         unknown; /* as of a list */
	struct bytes       named[UNLOCK_SUBJECTS_MAX];
	uint32_t           named_count;
	struct bytes       subjects[2 * UNLOCK_SUBJECTS_MAX]; /* with their users */
	bool               dry_run;
	struct lock_page   page;
};

static void id_add(struct bytes *list, uint32_t *count, struct bytes id)
{
	for (uint32_t i = 0; i < *count; i++)
		if (bytes_equal(list[i], id))
			return;
	if (id.len > 0)
		list[(*count)++] = id;
}

static void read_subjects(struct v1_call *c, struct fields *f, struct unlock_call *u)
{
	const struct json *many = fields_array(f, "subjects", UNLOCK_SUBJECTS_MAX);

	if (many == NULL)
		return;
	if (many->count == 0)
		fields_fail(f, "subjects", ERR_INVALID, "must not be empty");
	for (const struct json *m = fields_first(f, many); m != NULL; m = fields_next(f, m)) {
		v1_check_listed(f, "subjects", m);
		id_add(u->named, &u->named_count,
		       identifier_read(&c->ctx.services->identifiers, c->ctx.arena, f, "subjects", m));
	}
}

/* What the policies do not have is noted, not refused. */
static void check_where(struct v1_call *c, const struct fields *f, struct unlock_call *u)
{
	const struct rules *rules = v1_rules(c);
	struct fields       in = *f;

	in.err = &u->unknown;
	if (u->q.kind.len > 0 && rules_kind(rules, u->q.kind) == NULL)
		fields_fail(&in, "kind", ERR_INVALID,
		            "unknown lock kind %.*s; the policies list them under `locks`",
		            BYTES_ARG(u->q.kind));
	if (u->q.journey.len > 0)
		(void)v1_read_journey(c, &in, rules);
	if (u->q.name.len > 0 && !rules_has_lock(rules, u->q.journey, u->q.name))
		fields_fail(&in, "name", ERR_INVALID,
		            "unknown lock: the journey %.*s has no lock %.*s in the policies",
		            BYTES_ARG(u->q.journey), BYTES_ARG(u->q.name));
}

static bool read_where(struct v1_call *c, struct fields *f, struct unlock_call *u)
{
	const struct json *where = fields_object(f, "where", FIELDS_MEMBERS_MAX);
	struct fields      in;

	if (where == NULL)
		return false;
	fields_enter(&in, f, BYTES("where"), where);
	u->q.kind = v1_read_name(&in, "kind", true);
	u->q.set_by = fields_text_or(&in, "set_by", LOCK_SET_BY_MAX, (struct bytes){NULL, 0});
	if (fields_has(&in, "journey") || (u->q.kind.len == 0 && u->q.set_by.len == 0))
		u->q.journey = v1_read_name(&in, "journey", false);
	u->q.name = v1_read_name(&in, "name", true);
	if (!fields_failed(f) && u->q.name.len > 0 && u->q.journey.len == 0)
		fields_fail(&in, "journey", ERR_INVALID,
		            "missing: `name` needs the journey whose lock it is");
	if (fields_end(&in) == ERR_NONE)
		check_where(c, &in, u);
	return true;
}

/* Without a journey it is about all. */
enum err_code unlock_name(struct v1_call *c, struct err *err)
{
	const struct json *where;
	struct fields      f, in;

	fields_init(&f, c->body, err);
	where = fields_object(&f, "where", FIELDS_MEMBERS_MAX);
	if (where != NULL)
		fields_enter(&in, &f, BYTES("where"), where);
	if (where != NULL && fields_has(&in, "journey"))
		v1_resource(c, "journey", v1_read_name(&in, "journey", false));
	else
		v1_every_journey(c, v1_rules(c));
	return fields_failed(&f) ? err->code : ERR_NONE;
}

enum err_code unlock_decode(struct v1_call *c, struct err *err)
{
	struct unlock_call *u = v1_request(c, sizeof(*u));
	struct bytes        cursor;
	struct fields       f;

	fields_init(&f, c->body, err);
	read_subjects(c, &f, u);
	if (!read_where(c, &f, u) && u->named_count == 0)
		fields_fail(&f, "subjects", ERR_INVALID,
		            "missing: `subjects` or `where` must say which locks to lift");
	u->q.limit = (uint32_t)fields_i64_or(&f, "limit", 1, UNLOCK_MAX, UNLOCK_MAX);
	u->dry_run = fields_bool_or(&f, "dry_run", false);
	cursor = fields_text_or(&f, "cursor", CURSOR_BYTES_MAX, (struct bytes){NULL, 0});
	if (cursor.len > 0 && !cursor_read(&c->ctx, cursor, &u->q.after_pk, &u->q.after_sk))
		fields_fail(&f, "cursor", ERR_INVALID, "not a cursor returned by this API");
	u->q.not_persons = u->q.kind.len == 0 && u->q.set_by.len == 0;
	if (u->dry_run)
		c->call.kind = READ;
	return fields_end(&f);
}

/* For the audit log; and rows may be of journeys that the policies no longer have, and that nobody was asked about. */
static enum err_code note_unlocked(struct v1_call *c, const struct unlock_call *u, struct err *err)
{
	c->changed = arena_array(c->ctx.arena, u->page.count, sizeof(*c->changed));
	c->changed_count = u->page.count;
	for (uint32_t i = 0; i < u->page.count; i++) {
		struct key_parts key = key_split(u->page.list[i].sk);

		c->changed[i] = (struct v1_changed){u->page.list[i].pk, key.journey, key.classifier};
		if (v1_check_sees(c, key.journey, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

/* A lock of a person is on its user's id, whatever name was used. */
static enum err_code users_add(struct v1_call *c, struct unlock_call *u, struct err *err)
{
	struct account *found = arena_alloc(c->ctx.arena, sizeof(*found));

	u->q.subjects = u->subjects;
	u->q.subject_count = 0;
	for (uint32_t i = 0; i < u->named_count; i++) {
		if (account_find(&c->ctx, u->named[i], found, err) != ERR_NONE)
			return err->code;
		id_add(u->subjects, &u->q.subject_count, u->named[i]);
		id_add(u->subjects, &u->q.subject_count, found->users[0]);
	}
	return ERR_NONE;
}

enum err_code unlock_run(struct v1_call *c, struct err *err)
{
	struct unlock_call *u = c->request;

	if (users_add(c, u, err) != ERR_NONE)
		return err->code;
	if ((u->dry_run ? locks_find(&c->ctx, &u->q, &u->page, err)
	                : locks_unlock(&c->ctx, &u->q, &u->page, err)) != ERR_NONE ||
	    check_found(&u->q, &u->page, &u->unknown, err) != ERR_NONE)
		return err->code;
	return note_unlocked(c, u, err);
}

void unlock_encode(struct v1_call *c, struct json_writer *w)
{
	const struct unlock_call *u = c->request;

	json_begin_object(w);
	json_member_bool(w, BYTES("dry_run"), u->dry_run);
	page_write(c, w, BYTES("unlocked"), &u->page);
	if (u->page.kept > 0)
		json_member_i64(w, BYTES("operator_locks_kept"), u->page.kept);
	json_end_object(w);
}
