/* PUT and DELETE /v1/subjects/{id}/locks/{journey}/{name}: locks that people and other systems set and clear. */
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "service/key_names.h"
#include "service/lock.h"

/* Of a path: which lock. */
struct lock_call {
	struct lock_new lock;
	bool            locked; /* false: it is to be open */
	bool            held;   /* before */
	struct verdict  verdict;
};

static enum err_code read_path(struct v1_call *c, const struct rules *rules, struct lock_new *lock,
                               struct err *err)
{
	lock->journey = c->params[1];
	lock->name = c->params[2];
	lock->type = BYTES(KEY_LOCK);
	if (v1_subject_param(c, 0, &lock->pk, err) != ERR_NONE)
		return err->code;
	if (v1_check_lock(rules, lock->journey, lock->name, err) != ERR_NONE)
		return err->code;
	v1_resource(c, "journey", lock->journey);
	return ERR_NONE;
}

static struct bytes lock_key(struct v1_call *c, const struct lock_new *lock)
{
	return key_name(c->arena, lock->journey, lock->type, lock->name, lock->qualifier);
}

/* ---- setting ---- */

/* A lock that no rule in force heeds would answer `locked` and stop nobody. */
static void check_heeded(struct fields *f, const struct rules *rules, const struct lock_new *lock,
                         struct bytes sk)
{
	struct rule_ref ref = {lock->journey, lock->name};
	enum lock_reach reach;

	if (lock_reach(lock->pk, sk, &reach) && rules_heed(rules, &ref, reach, true) &&
	    !(reach == REACH_QUALIFIER && identifier_is(lock->pk, IDENTIFIER_IP)))
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
	if (lock->set_by.len == 0 && c->call.who.key != NULL)
		lock->set_by = c->call.who.key->name;
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
	if (f->err->code != ERR_NONE)
		return;
	l->lock.kind = rules_kind(rules, name);
	if (l->lock.kind == NULL)
		fields_fail(f, "kind", ERR_INVALID,
		            "unknown lock kind %.*s; the policies list them under `locks`", BYTES_ARG(name));
	else if (l->lock.kind->duration_s == 0 && l->lock.duration_s > 0)
		fields_fail(f, "duration", ERR_INVALID,
		            "not valid for the lock kind %.*s, which is permanent", BYTES_ARG(name));
}

enum err_code lock_set_decode(struct v1_call *c, struct err *err)
{
	struct lock_call   *l = arena_zalloc(c->arena, sizeof(*l));
	const struct rules *rules = v1_rules(c);
	struct fields       f;

	c->request = l;
	if (read_path(c, rules, &l->lock, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	l->lock.qualifier = v1_read_qualifier(c, &f, "qualifier");
	read_kind(&f, rules, l);
	if (l->locked) {
		read_person(c, &f, &l->lock);
		check_heeded(&f, rules, &l->lock, lock_key(c, &l->lock));
	}
	return fields_end(&f);
}

enum err_code lock_set_run(struct v1_call *c, struct err *err)
{
	struct lock_call *l = c->request;

	l->verdict = (struct verdict){0};
	if (l->locked)
		return lock_add(&c->ctx, &l->lock, &l->verdict, err);
	return lock_open(&c->ctx, l->lock.pk, lock_key(c, &l->lock), &l->held, err);
}

void lock_set_encode(struct v1_call *c, struct json_writer *w)
{
	const struct lock_call *l = c->request;

	json_begin_object(w);
	v1_write_text(w, BYTES("subject"), l->lock.pk);
	v1_write_verdict(w, &l->verdict, c->ctx.now_us);
	v1_write_text(w, BYTES("set_by"), l->lock.set_by);
	json_end_object(w);
}

/* ---- clearing ---- */

enum err_code lock_clear_decode(struct v1_call *c, struct err *err)
{
	struct lock_call *l = arena_zalloc(c->arena, sizeof(*l));

	c->request = l;
	if (read_path(c, v1_rules(c), &l->lock, err) != ERR_NONE)
		return err->code;
	l->lock.qualifier = v1_query_qualifier(c, "qualifier", err);
	return err->code;
}

enum err_code lock_clear_run(struct v1_call *c, struct err *err)
{
	struct lock_call *l = c->request;

	return lock_clear(&c->ctx, l->lock.pk, lock_key(c, &l->lock), &l->held, err);
}

void lock_clear_encode(struct v1_call *c, struct json_writer *w)
{
	const struct lock_call *l = c->request;

	json_begin_object(w);
	v1_write_bool(w, BYTES("cleared"), l->held);
	json_end_object(w);
}
