/* Targets of events:
 *   GET /v1/targets, PUT, GET and DELETE /v1/targets/{name}
 *   POST /v1/targets/{name}/enable, …/disable, …/rotate-secret, …/seek, …/test */
#include "api/v1_events.h"
#include "api/v1_name.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_write.h"
#include "service/delivery.h"

enum { FROM_CHARS_MAX = 32, TEST_LOOK_US = 20000, TEST_LOOKS_MAX = 2000 };

struct target_call {
	struct bytes         name;
	struct target_new    q;
	struct target_put    put;
	struct target_switch onoff;
	struct target_rotate rotate;
	struct v1_seek       seek;
	struct event_move    move;
	struct target        target;
	struct targets       all;
	struct event_cursor  last;   /* of the log */
	struct event_lag     lag;    /* of one */
	uint64_t             ticket; /* of a test; 0: not begun */
	unsigned             looks;
	struct target_ping   ping;
};

enum err_code v1_target_name(struct v1_call *c, struct bytes *out, struct err *err)
{
	*out = c->params[0];
	if (!target_name_is(*out))
		return err_field(err, ERR_INVALID, "name",
		                 "name: must have 1 to %d letters, digits, '-', '_' and '.'",
		                 TARGET_NAME_BYTES_MAX);
	return ERR_NONE;
}

static enum err_code name_decode(struct v1_call *c, struct target_call **out, struct err *err)
{
	struct target_call *t = v1_request(c, sizeof(*t));

	*out = t;
	return v1_target_name(c, &t->name, err);
}

static void told(const struct v1_call *c)
{
	const struct target_post *post = &c->ctx.services->target_post;

	if (post->changed != NULL)
		post->changed(post->ctx);
}

void target_changed_committed(struct v1_call *c)
{
	told(c);
}

/* ---- answers ---- */

static void write_errors(struct json_writer *w, const struct target *t)
{
	json_key(w, BYTES("lastErrors"));
	json_begin_array(w);
	for (uint32_t i = 0; i < t->error_count; i++) {
		json_begin_object(w);
		v1_write_time(w, BYTES("at"), t->errors[i].at_s);
		if (t->errors[i].status != 0)
			json_member_i64(w, BYTES("status"), t->errors[i].status);
		json_member_text(w, BYTES("error"), t->errors[i].error);
		json_member_text(w, BYTES("event"), t->errors[i].event);
		json_end_object(w);
	}
	json_end_array(w);
}

/* Without the values of secret ones. */
static void write_headers(struct json_writer *w, const struct target *t)
{
	if (t->header_count == 0)
		return;
	json_key(w, BYTES("headers"));
	json_begin_array(w);
	for (uint32_t i = 0; i < t->header_count; i++) {
		json_begin_object(w);
		json_member_text(w, BYTES("name"), t->headers[i].name);
		if (t->headers[i].secret)
			json_member_bool(w, BYTES("secret"), true);
		else
			json_member_text(w, BYTES("value"), t->headers[i].value);
		json_end_object(w);
	}
	json_end_array(w);
}

static bool is_webhook(const struct target_type *type)
{
	return type != NULL && strcmp(type->name, "webhook") == 0;
}

static void write_settings(struct json_writer *w, const struct target *t)
{
	for (uint32_t i = 0; i < t->settings.count; i++) {
		json_name(w, t->settings.members[i].name);
		json_string(w, value_text(&t->settings.members[i].value));
	}
	if (t->pattern_count > 0) {
		json_key(w, BYTES("types"));
		json_begin_array(w);
		for (uint32_t i = 0; i < t->pattern_count; i++)
			json_string(w, t->patterns[i]);
		json_end_array(w);
	}
	write_headers(w, t);
	json_member_i64(w, BYTES("lanes"), t->lanes);
	json_member_i64(w, BYTES("tries"), t->tries);
	if (t->rate > 0)
		json_member_i64(w, BYTES("rate"), t->rate);
	if (is_webhook(t->type))
		json_member_i64(w, BYTES("timeout"), t->call_s);
	json_member_i64(w, BYTES("disableAfter"), t->disable_after_s);
	json_member_bool(w, BYTES("enabled"), t->enabled);
	json_member_text(w, BYTES("disabledReason"), t->reason);
}

static void write_progress(struct v1_call *c, struct json_writer *w, const struct target *t)
{
	const struct target_call *call = c->request;

	json_member_text(w, BYTES("state"),
	                 !t->enabled        ? BYTES("disabled")
	                 : t->failing_s > 0 ? BYTES("failing")
	                                    : BYTES("well"));
	json_member_text(w, BYTES("position"), event_cursor_text(c->ctx.arena, &t->after));
	if (call->last.shards > 0)
		json_member_i64(w, BYTES("lagEvents"), event_cursor_distance(&t->after, &call->last));
	json_member_i64(w, BYTES("sent"), t->sent);
	if (!v1_could_deny(c, "user")) { /* they would count those of users that are denied */
		json_member_i64(w, BYTES("waiting"), t->waiting);
		json_member_i64(w, BYTES("deadLetters"), t->dead);
	}
	json_member_i64(w, BYTES("skipped"), t->skipped);
	v1_write_time(w, BYTES("lastSuccessAt"), t->success_s);
	v1_write_time(w, BYTES("failingSince"), t->failing_s);
	if (t->previous_until_s > c->ctx.now_s)
		v1_write_time(w, BYTES("previousSecretUntil"), t->previous_until_s);
	json_member_text(w, BYTES("createdAt"), t->created_at);
	json_member_text(w, BYTES("updatedAt"), t->updated_at);
	write_errors(w, t);
}

static void write_target(struct v1_call *c, struct json_writer *w, const struct target *t)
{
	json_member_text(w, BYTES("name"), t->name);
	json_member_text(w, BYTES("type"), row_text(&t->row, "type"));
	write_settings(w, t);
	write_progress(c, w, t);
}

/* ---- PUT ---- */

static void read_patterns(struct v1_call *c, struct fields *f, struct target_new *q)
{
	const struct json *list = fields_array(f, "types", TARGET_PATTERNS_MAX);
	struct bytes      *patterns;

	if (list == NULL)
		return;
	patterns = arena_array(c->ctx.arena, list->count, sizeof(*patterns));
	for (const struct json *at = fields_first(f, list); at != NULL; at = fields_next(f, at)) {
		if (at->type != JSON_STRING || event_types_of(json_text(at)) == 0) {
			fields_fail(f, "types", ERR_INVALID,
			            "must be a list of types (\"lock.set\"), groups of them (\"lock.*\") or "
			            "\"*\"");
			return;
		}
		patterns[q->pattern_count++] = json_text(at);
	}
	q->patterns = patterns;
}

static void read_header(struct fields *f, const struct json *each, struct target_header *out)
{
	struct fields h;

	fields_enter(&h, f, BYTES("headers"), each);
	out->name = fields_text(&h, "name", TARGET_HEADER_NAME_BYTES_MAX);
	out->value = fields_text_or(&h, "value", TARGET_HEADER_BYTES_MAX, (struct bytes){NULL, 0});
	out->secret = fields_bool_or(&h, "secret", false);
	fields_end(&h);
}

static void read_headers(struct v1_call *c, struct fields *f, struct target_new *q)
{
	const struct json *list = fields_array(f, "headers", TARGET_HEADERS_MAX);

	q->headers = arena_array(c->ctx.arena, TARGET_HEADERS_MAX, sizeof(*q->headers));
	for (const struct json *each = fields_first(f, list); each != NULL; each = fields_next(f, each)) {
		const char *wrong;

		read_header(f, each, &q->headers[q->header_count]);
		if (fields_failed(f))
			return;
		wrong = target_header_wrong(&q->headers[q->header_count]);
		if (wrong == NULL && target_header_is_again(q->headers, q->header_count))
			wrong = "must have each header once";
		if (wrong != NULL)
			fields_fail(f, "headers", ERR_INVALID, "%s", wrong);
		q->header_count++;
	}
}

/* "last", "first", or a moment. */
static void read_from(struct fields *f, struct target_new *q)
{
	struct bytes from = fields_text_or(f, "from", FROM_CHARS_MAX, BYTES("last"));
	int64_t      seconds = 0;

	q->from_given = fields_has(f, "from");
	if (bytes_is(from, "last"))
		q->from = TARGET_FROM_NOW;
	else if (bytes_is(from, "first"))
		q->from = TARGET_FROM_START;
	else if (v1_time_is(from, &seconds))
		q->from = TARGET_FROM_TIME;
	else if (!fields_failed(f))
		fields_fail(f, "from", ERR_INVALID,
		            "must be \"last\", \"first\" or a time like 2026-11-15T22:00:00Z");
	q->from_us = seconds * 1000000;
}

static void read_type(struct v1_call *c, struct fields *f, struct target_new *q)
{
	struct bytes type = fields_text(f, "type", 32);
	struct row   settings, secrets;

	q->type = target_type_find(type);
	if (q->type == NULL && !fields_failed(f))
		fields_fail(f, "type", ERR_INVALID, "must be webhook, eventbridge, sqs or nats");
	row_init(&settings, c->ctx.arena);
	row_init(&secrets, c->ctx.arena);
	for (const struct target_field *at = q->type == NULL ? NULL : q->type->fields;
	     at != NULL && at->name != NULL; at++) {
		struct bytes text =
		        at->required ? fields_text(f, at->name, at->bytes_max)
		                     : fields_text_or(f, at->name, at->bytes_max, (struct bytes){NULL, 0});

		if (!fields_failed(f) && text.len > 0)
			row_set_text(at->secret ? &secrets : &settings, at->name, text);
	}
	q->settings = row_item(&settings);
	q->secrets = row_item(&secrets);
}

/* The same with the secrets that are stored, so that it can be checked as a whole. One that is made later is good. */
static enum err_code whole(struct v1_call *c, const struct target_new *q, struct target_new *out,
                           struct err *err)
{
	struct context ctx = c->ctx;
	struct target  stored = {0};
	struct err     none;
	struct row     secrets;

	*out = *q;
	ctx_begin(&ctx, call_reader(&c->call));
	if (target_get(&ctx, q->name, &stored, &none) != ERR_NONE)
		stored = (struct target){0};
	row_from(&secrets, c->ctx.arena, &q->secrets);
	for (const struct target_field *at = q->type->fields; at->name != NULL; at++) {
		struct bytes text = {NULL, 0};

		if (!at->secret || row_text(&q->secrets, at->name).len > 0)
			continue;
		if (stored.type == q->type && target_secret_stays(q, bytes_of(at->name)) &&
		    target_secret(&ctx, &stored, at->name, &text, err) != ERR_NONE)
			text = (struct bytes){NULL, 0}; /* it must be set anew, which this call may do */
		if (text.len == 0 && strcmp(at->name, TARGET_SECRET) == 0)
			text = BYTES("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
		if (text.len > 0)
			row_set_text(&secrets, at->name, text);
	}
	out->secrets = row_item(&secrets);
	return ERR_NONE;
}

static enum err_code check(struct v1_call *c, const struct target_new *q, struct err *err)
{
	const struct target_post *post = &c->ctx.services->target_post;
	struct target_new         all;
	struct err                why;

	if (post->check == NULL)
		return ERR_NONE;
	if (whole(c, q, &all, err) != ERR_NONE)
		return err->code;
	if (post->check(post->ctx, &all, &why) == ERR_NONE)
		return ERR_NONE;
	return err_field(err, why.code, why.field, "%s%s%s", why.field, why.field[0] != '\0' ? ": " : "",
	                 why.text); /* a sender knows the setting, not that it is a field */
}

/* Of a key that is denied a user, no event about that user is sent elsewhere. */
enum err_code target_put_name(struct v1_call *c, struct err *err)
{
	c->all_users = true;
	return v1_name_target(c, err);
}

enum err_code target_put_decode(struct v1_call *c, struct err *err)
{
	struct target_call *t;
	struct fields       f;

	if (name_decode(c, &t, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	t->q.name = t->name;
	read_type(c, &f, &t->q);
	read_patterns(c, &f, &t->q);
	read_from(&f, &t->q);
	t->q.lanes = fields_i64_or(&f, "lanes", 1, TARGET_LANES_MAX, TARGET_LANES);
	t->q.tries = fields_i64_or(&f, "tries", 1, TARGET_TRIES_MAX, TARGET_TRIES);
	t->q.rate = fields_i64_or(&f, "rate", 1, TARGET_RATE_MAX, 0);
	if (is_webhook(t->q.type)) {
		read_headers(c, &f, &t->q);
		t->q.call_s = fields_i64_or(&f, "timeout", 1, TARGET_CALL_S_MAX, TARGET_CALL_S);
	}
	t->q.disable_after_s = fields_i64_or(&f, "disableAfter", 60, TARGET_DISABLE_S_MAX, TARGET_DISABLE_S);
	t->q.enabled = fields_bool_or(&f, "enabled", true);
	return fields_end(&f) == ERR_NONE ? check(c, &t->q, err) : err->code;
}

/* A key that is denied a type does not have it sent elsewhere: nor what the target has had so far, for events of that may wait. It need not be allowed each: to
 * make targets is a right of its own. */
static enum err_code types_check(struct v1_call *c, const struct target_new *q, struct err *err)
{
	uint64_t      types = q->pattern_count == 0 ? EVENTS_ALL_TYPES : 0;
	struct target now;
	struct err    ignored;

	for (uint32_t i = 0; i < q->pattern_count; i++)
		types |= event_types_of(q->patterns[i]);
	if (target_get(&c->ctx, q->name, &now, &ignored) == ERR_NONE)
		types |= now.types;
	return v1_events_check_denied(c, types, err);
}

enum err_code target_put_run(struct v1_call *c, struct err *err)
{
	struct target_call *t = c->request;

	if (types_check(c, &t->q, err) != ERR_NONE)
		return err->code;
	if (target_put(&c->ctx, &t->q, &t->put, err) != ERR_NONE)
		return err->code;
	c->has_secret = t->put.secret.len > 0;
	return ERR_NONE;
}

static void write_put(struct v1_call *c, struct json_writer *w)
{
	const struct target_call *t = c->request;

	json_begin_object(w);
	write_target(c, w, &t->put.target);
	if (!c->keeping)
		json_member_text(w, BYTES("secret"), t->put.secret);
	json_end_object(w);
}

void target_put_encode(struct v1_call *c, struct json_writer *w)
{
	c->status = ((const struct target_call *)c->request)->put.created ? 201 : 200;
	write_put(c, w);
}

/* ---- reading ---- */

static enum err_code log_end(struct v1_call *c, struct target_call *t, struct err *err)
{
	struct event_bounds bounds;

	if (events_bounds(&c->ctx, &bounds, err) != ERR_NONE)
		return err->code;
	event_cursor_last(&bounds, &t->last);
	return ERR_NONE;
}

enum err_code target_get_decode(struct v1_call *c, struct err *err)
{
	struct target_call *t;

	return name_decode(c, &t, err);
}

enum err_code target_get_run(struct v1_call *c, struct err *err)
{
	struct target_call *t = c->request;

	if (target_get(&c->ctx, t->name, &t->target, err) != ERR_NONE || log_end(c, t, err) != ERR_NONE)
		return err->code;
	return events_lag(&c->ctx, &t->target.after, t->target.types, &t->lag, err);
}

void target_get_encode(struct v1_call *c, struct json_writer *w)
{
	const struct target_call *t = c->request;

	json_begin_object(w);
	write_target(c, w, &t->target);
	json_member_i64(w, BYTES("lagSeconds"), t->lag.seconds);
	json_end_object(w);
}

enum err_code targets_list_decode(struct v1_call *c, struct err *err)
{
	(void)err;
	v1_request(c, sizeof(struct target_call));
	return ERR_NONE;
}

enum err_code targets_list_run(struct v1_call *c, struct err *err)
{
	struct target_call *t = c->request;

	if (targets_all(&c->ctx, &t->all, err) != ERR_NONE)
		return err->code;
	return log_end(c, t, err);
}

/* Those that the key may not see are left out. */
void targets_list_encode(struct v1_call *c, struct json_writer *w)
{
	const struct target_call *t = c->request;

	json_begin_object(w);
	json_key(w, BYTES("targets"));
	json_begin_array(w);
	for (uint32_t i = 0; i < t->all.count; i++) {
		if (!v1_allowed(c, "target", t->all.list[i].name))
			continue;
		json_begin_object(w);
		write_target(c, w, &t->all.list[i]);
		json_end_object(w);
	}
	json_end_array(w);
	json_end_object(w);
}

/* ---- DELETE, enable, disable ---- */

enum err_code target_delete_decode(struct v1_call *c, struct err *err)
{
	struct target_call *t;

	return name_decode(c, &t, err);
}

enum err_code target_delete_run(struct v1_call *c, struct err *err)
{
	return target_delete(&c->ctx, ((struct target_call *)c->request)->name, err);
}

void target_delete_encode(struct v1_call *c, struct json_writer *w)
{
	(void)c;
	json_begin_object(w);
	json_member_bool(w, BYTES("deleted"), true);
	json_end_object(w);
}

void target_delete_committed(struct v1_call *c)
{
	told(c);
	jobs_wake(c->ctx.services);
}

static enum err_code switch_decode(struct v1_call *c, bool on, struct err *err)
{
	struct target_call *t;

	if (name_decode(c, &t, err) != ERR_NONE)
		return err->code;
	t->onoff = (struct target_switch){.name = t->name, .on = on};
	return ERR_NONE;
}

static enum err_code switch_run(struct v1_call *c, struct err *err)
{
	struct target_call *t = c->request;

	return target_switch(&c->ctx, &t->onoff, &t->target, err);
}

static void switch_encode(struct v1_call *c, struct json_writer *w)
{
	json_begin_object(w);
	write_target(c, w, &((const struct target_call *)c->request)->target);
	json_end_object(w);
}

enum err_code target_enable_decode(struct v1_call *c, struct err *err)
{
	return switch_decode(c, true, err);
}

enum err_code target_enable_run(struct v1_call *c, struct err *err)
{
	return switch_run(c, err);
}

void target_enable_encode(struct v1_call *c, struct json_writer *w)
{
	switch_encode(c, w);
}

enum err_code target_disable_decode(struct v1_call *c, struct err *err)
{
	return switch_decode(c, false, err);
}

enum err_code target_disable_run(struct v1_call *c, struct err *err)
{
	return switch_run(c, err);
}

void target_disable_encode(struct v1_call *c, struct json_writer *w)
{
	switch_encode(c, w);
}

/* ---- POST …/seek ---- */

enum err_code target_seek_name(struct v1_call *c, struct err *err)
{
	return target_put_name(c, err);
}

enum err_code target_seek_decode(struct v1_call *c, struct err *err)
{
	struct target_call *t;
	struct fields       f;

	if (name_decode(c, &t, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	v1_seek_read(c, &f, &t->seek);
	return fields_end(&f);
}

/* What is sent again must not be denied to the key, as when it makes a target. */
enum err_code target_seek_run(struct v1_call *c, struct err *err)
{
	struct target_call *t = c->request;
	struct target_seek  q = {.name = t->name};

	if (target_get(&c->ctx, t->name, &t->target, err) != ERR_NONE ||
	    v1_events_check_denied(c, t->target.types, err) != ERR_NONE ||
	    v1_seek_find(c, &t->seek, err) != ERR_NONE)
		return err->code;
	q.to = t->seek.to;
	if (target_seek(&c->ctx, &q, &t->target, &t->move, err) != ERR_NONE)
		return err->code;
	return log_end(c, t, err);
}

void target_seek_encode(struct v1_call *c, struct json_writer *w)
{
	const struct target_call *t = c->request;

	json_begin_object(w);
	write_target(c, w, &t->target);
	v1_write_move(w, &t->move);
	json_end_object(w);
}

/* ---- POST …/rotate-secret ---- */

enum err_code target_rotate_decode(struct v1_call *c, struct err *err)
{
	static const struct json nothing = {.type = JSON_OBJECT};
	struct target_new        q = {.type = target_type_find(BYTES("webhook"))};
	struct target_call      *t;
	struct fields            f;
	struct row               secrets, settings;

	if (name_decode(c, &t, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body == NULL ? &nothing : c->body, err);
	t->rotate.name = t->name;
	t->rotate.secret = fields_text_or(&f, "secret", 128, (struct bytes){NULL, 0});
	t->rotate.keep_s = fields_i64_or(&f, "keepOld", 0, TARGET_SECRET_S_MAX, TARGET_SECRET_S);
	if (fields_end(&f) != ERR_NONE)
		return err->code;
	if (t->rotate.secret.len == 0 || c->ctx.services->target_post.check == NULL)
		return ERR_NONE;
	row_init(&secrets, c->ctx.arena);
	row_set_text(&secrets, TARGET_SECRET, t->rotate.secret);
	row_init(&settings, c->ctx.arena);
	row_set_text(&settings, "url", BYTES("https://example.org"));
	q.name = t->name;
	q.secrets = row_item(&secrets);
	q.settings = row_item(&settings);
	return c->ctx.services->target_post.check(c->ctx.services->target_post.ctx, &q, err);
}

enum err_code target_rotate_run(struct v1_call *c, struct err *err)
{
	struct target_call *t = c->request;

	if (target_rotate(&c->ctx, &t->rotate, &t->put, err) != ERR_NONE)
		return err->code;
	c->has_secret = t->put.secret.len > 0;
	return ERR_NONE;
}

void target_rotate_encode(struct v1_call *c, struct json_writer *w)
{
	write_put(c, w);
}

/* ---- POST …/test: it waits for the answer, without a thread ---- */

static bool test_again(struct v1_call *c, enum err_code rc, bool last, int64_t *pause_us)
{
	struct target_call *t = c->request;

	*pause_us = TEST_LOOK_US;
	return rc == ERR_OVERLOADED && t->ticket != 0 && !last && ++t->looks < TEST_LOOKS_MAX;
}

enum err_code target_test_decode(struct v1_call *c, struct err *err)
{
	struct target_call *t;

	c->again = test_again;
	return name_decode(c, &t, err);
}

enum err_code target_test_run(struct v1_call *c, struct err *err)
{
	const struct target_post *post = &c->ctx.services->target_post;
	struct target_call       *t = c->request;

	if (target_get(&c->ctx, t->name, &t->target, err) != ERR_NONE)
		return err->code;
	if (post->ping == NULL)
		return err_set(err, ERR_OVERLOADED, "this server does not deliver events");
	if (ctx_guesses(&c->ctx)) /* it is sent once */
		return ERR_NONE;
	if (t->ticket == 0 && post->ping(post->ctx, t->name, &t->ticket, err) != ERR_NONE)
		return err->code;
	if (!post->pinged(post->ctx, t->ticket, &t->ping) || t->ping.done)
		return ERR_NONE;
	return err_set(err, ERR_OVERLOADED, "the target has not answered the test yet; try again");
}

void target_test_encode(struct v1_call *c, struct json_writer *w)
{
	const struct target_call *t = c->request;

	json_begin_object(w);
	json_member_bool(w, BYTES("sent"), t->ping.sent);
	if (t->ping.status != 0)
		json_member_i64(w, BYTES("status"), t->ping.status);
	json_member_text(w, BYTES("error"), bytes_of(t->ping.error));
	json_member_i64(w, BYTES("milliseconds"), t->ping.took_us / 1000);
	json_end_object(w);
}
