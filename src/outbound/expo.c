/* Expo: see expo.h. */
#include "outbound/expo.h"

#include <assert.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/crypto.h"
#include "json/json.h"
#include "json/write.h"

#define SECOND_US INT64_C(1000000)

struct expo {
	struct arena     arena;
	struct clock    *clock;
	struct outbound *target;
	struct bytes     authorization; /* empty: none */
	int64_t          call_us;
};

/* (1) */
static const struct retry_profile once = {.attempts_max = 1, .quota_max = 1, .cost = 1, .throttled_cost = 1};

/* ---- opening ---- */

static bool is_header_text(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] <= ' ' || text.data[i] > '~')
			return false;
	return text.len <= EXPO_ACCESS_TOKEN_BYTES_MAX;
}

static enum err_code target_open(struct expo *e, const struct expo_options *o, struct err *err)
{
	struct bytes            url = o->url.len > 0 ? o->url : BYTES(EXPO_URL);
	struct outbound_options target = {.name = "expo",
	                                  .allow_private = o->allow_private,
	                                  .calls_max = o->calls_max,
	                                  .waits_max = o->calls_max,
	                                  .connect_us = e->call_us / 3,
	                                  .attempt_us = e->call_us,
	                                  .body_bytes_max = EXPO_ANSWER_BYTES_MAX,
	                                  .retry = &once,
	                                  .circuit = {20, SECOND_US, 30 * SECOND_US},
	                                  .clock = o->clock};
	struct err              why;

	if (!bytes_starts_with(url, BYTES("https://")) &&
	    !(o->allow_private && bytes_starts_with(url, BYTES("http://"))))
		return err_field(err, ERR_INVALID, "url",
		                 "must begin with https://; http:// is for `allow_private: true` only");
	if (!is_header_text(o->access_token))
		return err_field(err, ERR_INVALID, "access_token",
		                 "must be one line of at most %d printable characters",
		                 EXPO_ACCESS_TOKEN_BYTES_MAX);
	target.url = arena_printf(&e->arena, "%.*s", BYTES_ARG(url)).data;
	if (o->ca_file != NULL)
		target.ca_file = arena_printf(&e->arena, "%s", o->ca_file).data;
	if (o->access_token.len > 0)
		e->authorization = arena_printf(&e->arena, "Bearer %.*s", BYTES_ARG(o->access_token));
	if (outbound_open(&target, &e->target, &why) != ERR_NONE)
		return err_field(err, ERR_INVALID, "url", "%s", why.text);
	return ERR_NONE;
}

enum err_code expo_open(const struct expo_options *options, struct expo **out, struct err *err)
{
	struct expo *e = mem_zalloc(sizeof(*e));

	arena_init(&e->arena);
	e->clock = options->clock;
	e->call_us = (options->call_s > 0 ? options->call_s : EXPO_CALL_S) * SECOND_US;
	if (target_open(e, options, err) != ERR_NONE) {
		expo_close(e);
		return err->code;
	}
	*out = e;
	return ERR_NONE;
}

void expo_stop(struct expo *e)
{
	outbound_stop(e->target);
}

void expo_close(struct expo *e)
{
	if (e == NULL)
		return;
	if (e->target != NULL)
		outbound_close(e->target);
	if (e->authorization.len > 0)
		crypto_wipe((char *)(uintptr_t)e->authorization.data, e->authorization.len);
	arena_release(&e->arena);
	free(e);
}

/* ---- requests ---- */

/* One recipient is a text, several are a list: both mean the same to Expo. */
static void message_write(struct json_writer *w, const struct expo_message *m)
{
	json_begin_object(w);
	json_key(w, BYTES("to"));
	if (m->to_count == 1) {
		json_string(w, m->to[0]);
	} else {
		json_begin_array(w);
		for (uint32_t i = 0; i < m->to_count; i++)
			json_string(w, m->to[i]);
		json_end_array(w);
	}
	if (m->members.len > 0) {
		buf_add_byte(w->out, ',');
		buf_add_bytes(w->out, m->members);
	}
	json_end_object(w);
}

struct bytes expo_body(const struct expo_message *list, uint32_t count, struct arena *a)
{
	struct json_writer w;
	struct buf         out;

	buf_init(&out, a);
	json_writer_init(&w, &out);
	json_begin_array(&w);
	for (uint32_t i = 0; i < count; i++)
		message_write(&w, &list[i]);
	json_end_array(&w);
	return buf_bytes(&out);
}

/* False: as it is. */
static bool compress_body(struct bytes body, struct arena *a, struct bytes *out)
{
	z_stream z = {0};
	uLong    most;
	bool     good;

	if (body.len <= EXPO_GZIP_BYTES || deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16,
	                                                8, Z_DEFAULT_STRATEGY) != Z_OK)
		return false;
	most = deflateBound(&z, body.len);
	z.next_in = (Bytef *)(uintptr_t)body.data;
	z.avail_in = (uInt)body.len;
	z.next_out = arena_alloc(a, most);
	z.avail_out = (uInt)most;
	*out = (struct bytes){(const char *)z.next_out, 0};
	good = deflate(&z, Z_FINISH) == Z_STREAM_END;
	out->len = z.total_out;
	deflateEnd(&z);
	return good;
}

static enum err_code call(struct expo *e, struct outbound_request *r, struct arena *a,
                          struct outbound_response *out, struct err *err)
{
	struct bytes packed;

	r->method = BYTES("POST");
	r->deadline_us = clock_steady_us(e->clock) + e->call_us;
	outbound_header_add(r, BYTES("Accept"), BYTES("application/json"));
	outbound_header_add(r, BYTES("Content-Type"), BYTES("application/json"));
	outbound_header_add(r, BYTES("User-Agent"), BYTES("gatehouse"));
	if (e->authorization.len > 0)
		outbound_header_add(r, BYTES("Authorization"), e->authorization);
	if (compress_body(r->body, a, &packed)) {
		r->body = packed;
		outbound_header_add(r, BYTES("Content-Encoding"), BYTES("gzip"));
	}
	return outbound_call(e->target, r, a, out, err);
}

/* ---- answers ---- */

static const struct json *tree_of(struct bytes body, struct arena *a)
{
	struct json_reader *reader = json_reader_open();
	struct json        *tree = NULL;
	struct err          err;

	if (json_read(reader, a, body, &tree, &err) != ERR_NONE)
		tree = NULL;
	json_reader_close(reader);
	return tree;
}

static struct bytes text_of(const struct json *object, const char *name)
{
	const struct json *v = json_get(object, bytes_of(name));

	return v != NULL && v->type == JSON_STRING && json_text(v).len <= EXPO_TEXT_BYTES_MAX
	               ? json_text(v)
	               : (struct bytes){NULL, 0};
}

/* Of a ticket or a receipt. */
static bool is_ok(const struct json *one)
{
	return bytes_is(text_of(one, "status"), "ok");
}

static struct bytes error_of(const struct json *one)
{
	const struct json *details = json_get(one, BYTES("details"));

	return details == NULL ? (struct bytes){NULL, 0} : text_of(details, "error");
}

static struct expo_ticket ticket_of(const struct json *one)
{
	return (struct expo_ticket){.ok = is_ok(one), .id = text_of(one, "id"), .error = error_of(one)};
}

static bool is_ticket(const struct json *one)
{
	return one->type == JSON_OBJECT && (is_ok(one) || bytes_is(text_of(one, "status"), "error"));
}

/* (3) */
static bool tickets_read(const struct json *data, uint32_t recipients, struct arena *a,
                         struct expo_answer *out)
{
	const struct json *one = data;
	uint32_t           count = 1;

	if (data != NULL && data->type == JSON_ARRAY) {
		one = json_children(data);
		count = data->count;
	}
	if (data == NULL || count != recipients)
		return false;
	out->tickets = arena_array(a, count, sizeof(*out->tickets));
	for (; one != NULL && out->ticket_count < count; one = data->type == JSON_ARRAY ? one->next : NULL) {
		if (!is_ticket(one))
			return false;
		out->tickets[out->ticket_count++] = ticket_of(one);
	}
	return out->ticket_count == recipients;
}

/* details: {"@owner/project": ["ExponentPushToken[…]", …], …} */
static void projects_read(const struct json *details, struct arena *a, struct expo_answer *out)
{
	if (details == NULL || details->type != JSON_OBJECT)
		return;
	out->projects = arena_array(a, EXPO_PROJECTS_MAX, sizeof(*out->projects));
	for (const struct json *m = json_children(details);
	     m != NULL && out->project_count < EXPO_PROJECTS_MAX; m = m->next) {
		struct expo_project *p = &out->projects[out->project_count];

		if (m->type != JSON_ARRAY || m->count == 0 || m->name.len == 0 ||
		    m->name.len > EXPO_TEXT_BYTES_MAX)
			continue;
		*p = (struct expo_project){.name = m->name,
		                           .tokens = arena_array(a, m->count, sizeof(*p->tokens))};
		for (const struct json *t = json_children(m); t != NULL; t = t->next)
			if (t->type == JSON_STRING)
				p->tokens[p->token_count++] = json_text(t);
		out->project_count++;
	}
}

/* 502 and 504 come from a gateway that passed the request on and got no good answer: nobody knows. */
static enum expo_end end_of_status(int status)
{
	if (status == 502 || status == 504 || (status >= 200 && status < 300))
		return EXPO_UNKNOWN;
	return status == 400 || status == 413 || status == 422 ? EXPO_REFUSED : EXPO_LATER;
}

struct expo_answer expo_read(int status, struct bytes body, uint32_t recipients, struct arena *a)
{
	const struct json *tree = tree_of(body, a), *errors = NULL;
	struct expo_answer out = {.end = end_of_status(status), .status = status};

	if (tree != NULL)
		errors = json_get(tree, BYTES("errors"));
	if (errors != NULL && errors->type == JSON_ARRAY && errors->count > 0) {
		out.code = text_of(json_children(errors), "code");
		if (bytes_is(out.code, "PUSH_TOO_MANY_EXPERIENCE_IDS"))
			projects_read(json_get(json_children(errors), BYTES("details")), a, &out);
		if (status == 200)
			out.end = EXPO_REFUSED;
		if (bytes_is(out.code, "TOO_MANY_REQUESTS") || bytes_is(out.code, "UNAUTHORIZED"))
			out.end = EXPO_LATER;
		return out;
	}
	if (status == 200 && tree != NULL && tickets_read(json_get(tree, BYTES("data")), recipients, a, &out))
		out.end = EXPO_ANSWERED;
	return out;
}

struct expo_answer expo_send(struct expo *e, const struct expo_message *list, uint32_t count, struct arena *a)
{
	struct outbound_request  r = {.path = BYTES("/--/api/v2/push/send"),
	                              .body = expo_body(list, count, a)};
	struct outbound_response answer;
	struct expo_answer       out;
	struct err               err;
	uint32_t                 recipients = 0;
	enum err_code            rc;

	for (uint32_t i = 0; i < count; i++)
		recipients += list[i].to_count;
	assert(recipients <= EXPO_RECIPIENTS_MAX);
	rc = call(e, &r, a, &answer, &err);
	if (rc != ERR_NONE) /* (2): nothing reached it, or (1) */
		return (struct expo_answer){.end = rc == ERR_OVERLOADED ? EXPO_LATER : EXPO_UNKNOWN};
	out = expo_read(answer.status, answer.body, recipients, a);
	out.wait_s = outbound_wait_s(&answer);
	return out;
}

/* ---- receipts ---- */

struct expo_receipts expo_read_receipts(int status, struct bytes body, const struct bytes *ids,
                                        uint32_t count, struct arena *a)
{
	const struct json   *tree = status == 200 ? tree_of(body, a) : NULL;
	const struct json   *data = tree == NULL ? NULL : json_get(tree, BYTES("data"));
	struct expo_receipts out = {.status = status};

	if (data == NULL || data->type != JSON_OBJECT || data->count > EXPO_RECEIPTS_MAX)
		return out;
	out.answered = true;
	out.list = arena_array(a, count + 1, sizeof(*out.list));
	for (uint32_t i = 0; i < count; i++) {
		const struct json *one = json_get(data, ids[i]);

		out.list[i] = one == NULL || !is_ticket(one)
		                      ? (struct expo_receipt){0}
		                      : (struct expo_receipt){true, is_ok(one), error_of(one)};
	}
	return out;
}

struct expo_receipts expo_receipts(struct expo *e, const struct bytes *ids, uint32_t count, struct arena *a)
{
	struct outbound_request  r = {.path = BYTES("/--/api/v2/push/getReceipts"), .repeatable = true};
	struct outbound_response answer;
	struct expo_receipts     out;
	struct json_writer       w;
	struct buf               body;
	struct err               err;

	assert(count <= EXPO_RECEIPTS_MAX);
	buf_init(&body, a);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	json_key(&w, BYTES("ids"));
	json_begin_array(&w);
	for (uint32_t i = 0; i < count; i++)
		json_string(&w, ids[i]);
	json_end_array(&w);
	json_end_object(&w);
	r.body = buf_bytes(&body);
	if (call(e, &r, a, &answer, &err) != ERR_NONE)
		return (struct expo_receipts){0};
	out = expo_read_receipts(answer.status, answer.body, ids, count, a);
	out.wait_s = outbound_wait_s(&answer);
	return out;
}
