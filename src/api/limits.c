/* POST /v1/allow, POST /v1/refund, GET /v1/limits/top. */
#include "api/limit_call.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"

enum { TOP_DEFAULT = 20, TOP_MAX = 100, STATUS_LIMITED = 429 };

struct limits_call {
	struct limit_call call;
	bool              enforce;
};

/* ---- allow and refund ---- */

/* To be answered once under its Idempotency-Key: that takes a turn, whatever it asks. */
static bool is_keyed(const struct v1_call *c)
{
	return http_header_get(c->call.http, "idempotency-key").data != NULL;
}

/* {policy, key, cost} or {all: […]}. */
static enum err_code call_decode(struct v1_call *c, enum limit_deed deed, struct err *err)
{
	struct limits_call    *l = arena_zalloc(c->arena, sizeof(*l));
	struct limit_policies *set = limit_call_policies(c);
	struct fields          f;

	c->request = l;
	l->call.deed = deed;
	fields_init(&f, c->body, err);
	if (fields_has(&f, "all"))
		limit_call_read_list(c, &f, "all", set, &l->call);
	else
		limit_call_read(c, &f, set, &l->call);
	if (fields_end(&f) != ERR_NONE)
		return err->code;
	l->enforce = v1_enforces_status(c, err);
	if (err->code == ERR_NONE && !is_keyed(c) &&
	    !limits_needs_turn(c->services->limits, &l->call, c->ctx.now_us))
		c->call.kind = READ;
	c->call.tableless = !limits_needs_table(&l->call);
	return err->code;
}

static enum err_code call_run(struct v1_call *c, struct err *err)
{
	struct limits_call *l = c->request;

	return limits_run(&c->ctx, &l->call, err);
}

static void call_encode(struct v1_call *c, struct json_writer *w)
{
	struct limits_call *l = c->request;

	if (l->enforce && !l->call.allowed)
		c->status = STATUS_LIMITED;
	limit_call_headers(c, &l->call, c->ctx.now_us);
	json_begin_object(w);
	limit_call_write(w, &l->call, c->ctx.now_us);
	json_end_object(w);
}

void allow_committed(struct v1_call *c)
{
	struct limits_call *l = c->request;

	limits_kept(c->services->limits, &l->call, c->ctx.now_us);
}

enum err_code allow_refused(struct v1_call *c, enum err_code rc, struct err *err)
{
	struct limits_call *l = c->request;

	return limits_failed(c->services->limits, &l->call, c->ctx.now_us, rc, err);
}

enum err_code allow_decode(struct v1_call *c, struct err *err)
{
	return call_decode(c, LIMIT_TAKE, err);
}

enum err_code allow_run(struct v1_call *c, struct err *err)
{
	return call_run(c, err);
}

void allow_encode(struct v1_call *c, struct json_writer *w)
{
	call_encode(c, w);
}

enum err_code refund_decode(struct v1_call *c, struct err *err)
{
	return call_decode(c, LIMIT_GIVE, err);
}

enum err_code refund_run(struct v1_call *c, struct err *err)
{
	return call_run(c, err);
}

void refund_encode(struct v1_call *c, struct json_writer *w)
{
	call_encode(c, w);
}

/* ---- what is hot ---- */

struct top_call {
	uint64_t max;
};

enum err_code limits_top_decode(struct v1_call *c, struct err *err)
{
	struct top_call *t = arena_zalloc(c->arena, sizeof(*t));
	struct bytes     max;

	c->request = t;
	t->max = TOP_DEFAULT;
	err->code = ERR_NONE;
	max = v1_query(c, "max", err);
	if (err->code == ERR_NONE && max.data != NULL &&
	    (!bytes_to_u64(max, TOP_MAX, &t->max) || t->max == 0))
		err_field(err, ERR_INVALID, "max", "?max: must be from 1 to %d", TOP_MAX);
	return err->code;
}

enum err_code limits_top_run(struct v1_call *c, struct err *err)
{
	(void)c;
	(void)err;
	return ERR_NONE;
}

static void write_top(struct v1_call *c, struct json_writer *w, const char *name, enum limits_list which)
{
	const struct top_call      *t = c->request;
	unsigned                    count;
	const struct limit_top_key *list = limit_top_read(limits_top(c->services->limits, which), c->arena,
	                                                  (unsigned)t->max, c->ctx.now_us, &count);

	json_name(w, bytes_of(name));
	json_begin_array(w);
	for (unsigned i = 0; i < count; i++) {
		json_begin_object(w);
		v1_write_text(w, BYTES("key"), list[i].key);
		v1_write_i64(w, BYTES("count"), (int64_t)list[i].count);
		v1_write_i64(w, BYTES("doubt"), (int64_t)list[i].doubt);
		json_end_object(w);
	}
	json_end_array(w);
}

void limits_top_encode(struct v1_call *c, struct json_writer *w)
{
	json_begin_object(w);
	write_top(c, w, "hot", LIMITS_HOT);
	write_top(c, w, "denied", LIMITS_DENIED);
	json_end_object(w);
}
