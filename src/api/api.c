/* API: the handler for http/: loops, routes, health, and the answers that belong to no protocol. */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access/policy.h"
#include "api/auth.h"
#include "api/description.h"
#include "api/dynamodb.h"
#include "api/event_schemas.h"
#include "api/lambda.h"
#include "api/late.h"
#include "api/scraper.h"
#include "api/v1.h"
#include "dynamo/sigv4.h"
#include "json/write.h"

void api_init(struct api *api, const struct api_parts *parts)
{
	memset(api, 0, sizeof(*api));
	api->parts = *parts;
	pthread_mutex_init(&api->late_lock, NULL);
	snprintf(api->arn_home, sizeof(api->arn_home), "arn:aws:dynamodb:%.*s:" ACCESS_ACCOUNT ":",
	         BYTES_ARG(parts->region));
	api->started_us = clock_wall_us(parts->clock);
}

void api_watch(struct api *api, const struct http_server *http)
{
	atomic_store(&api->http, http);
}

/* ---- what each loop has ---- */

static unsigned share_of(const struct api_loop *l)
{
	return l->number / 2 % LATE_THREADS_MAX;
}

static void share_late(struct api_loop *l)
{
	struct api *api = l->api;

	pthread_mutex_lock(&api->late_lock);
	if (api->shared[share_of(l)].loops++ == 0)
		api->shared[share_of(l)].late = late_open();
	l->late = api->shared[share_of(l)].late;
	pthread_mutex_unlock(&api->late_lock);
}

static void leave_late(struct api_loop *l)
{
	struct api *api = l->api;

	pthread_mutex_lock(&api->late_lock);
	if (--api->shared[share_of(l)].loops == 0)
		late_close(l->late);
	pthread_mutex_unlock(&api->late_lock);
}

static void *loop_open(void *ctx)
{
	struct api      *api = ctx;
	struct api_loop *l = mem_zalloc(sizeof(*l));
	unsigned         number = atomic_fetch_add(&api->loop_count, 1);
	struct bytes     own = {(const char *)&number, sizeof(number)};

	l->api = api;
	l->json = json_reader_open();
	l->signatures = sigv4_key_cache_open(api->parts.seed);
	l->number = number;
	share_late(l);
	l->meter = &api->meter.shards[number % METER_SHARDS];
	l->id_state = api->parts.seed.k0;
	l->id_fixed = hash_bytes(api->parts.seed, own);
	buf_init(&l->answer, NULL);
	return l;
}

static void loop_close(void *ctx, void *loop)
{
	struct api_loop *l = loop;

	(void)ctx;
	leave_late(l);
	json_reader_close(l->json);
	sigv4_key_cache_close(l->signatures);
	buf_release(&l->answer);
	free(l);
}

struct buf *api_loop_answer(struct api_loop *l)
{
	if (l->answer.cap > ANSWER_KEEP_BYTES_MAX)
		buf_release(&l->answer);
	buf_reset(&l->answer);
	return &l->answer;
}

/* A bijection that spreads every bit (the finalizer of SplitMix64). */
static uint64_t spread(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

enum { ID_DIGITS = 13 }; /* of five bits: all of a 64-bit number */

static void digits_put(char id[ID_DIGITS], uint64_t bits)
{
	static const char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUV";

#pragma GCC unroll 13
	for (unsigned i = 0; i < ID_DIGITS; i++)
		id[i] = alphabet[bits >> 5 * i & 31];
}

/* The first number is the counter, spread, and so never repeats within a loop; the second mixes in what differs
 * between loops; the rest is noise. */
void api_loop_request_id(struct api_loop *l, char id[REQUEST_ID_LENGTH])
{
	uint64_t x = spread(l->id_state++);

	digits_put(id, x);
	digits_put(id + ID_DIGITS, x ^ l->id_fixed);
	digits_put(id + 2 * ID_DIGITS, spread(x + l->id_fixed));
	digits_put(id + 3 * ID_DIGITS, spread(x ^ ~l->id_fixed));
}

/* ---- problems ---- */

static void write_text(struct json_writer *w, const char *name, struct bytes text)
{
	if (text.len == 0)
		return;
	json_name(w, bytes_of(name));
	json_string(w, bytes_is_utf8(text) ? text : BYTES("(not UTF-8)"));
}

/* What only some problems have: a cursor to go on from; how many locks would end. */
static void write_more(struct json_writer *w, enum err_code code, const struct err *err)
{
	if (code == ERR_GONE)
		write_text(w, "after", bytes_of(err->after));
	if (code != ERR_LOCKS_END)
		return;
	json_name(w, BYTES("locks"));
	json_i64(w, err->count);
	json_name(w, BYTES("more"));
	json_bool(w, err->more);
}

/* err NULL: it has nothing more to say. */
static void write_problem(struct buf *out, enum err_code code, int status, struct bytes detail,
                          const struct err *err)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_begin_object(&w);
	write_text(&w, "type", bytes_of(err_v1_type(code)));
	write_text(&w, "title", bytes_of(err_v1_title(code)));
	json_name(&w, BYTES("status"));
	json_i64(&w, status);
	write_text(&w, "detail", detail);
	if (err != NULL) {
		write_text(&w, "field", bytes_of(err->field));
		write_more(&w, code, err);
	}
	json_end_object(&w);
	buf_add(out, "\n", 1);
}

void problem_write_http(struct buf *out, int status, const char *detail)
{
	write_problem(out, ERR_HTTP, status, bytes_of(detail), NULL);
}

void problem_write_err(struct buf *out, enum err_code code, const struct err *err)
{
	write_problem(out, code, err_v1_status(code), bytes_of(err->text), err);
}

/* `headers` is the response's, with room for one more. */
static void answer(struct api_loop *l, struct http_request *r, struct http_response *response,
                   struct http_header *headers, enum err_code code, const char *detail)
{
	struct buf *out = api_loop_answer(l);
	char        id[REQUEST_ID_LENGTH];

	api_loop_request_id(l, id);
	headers[response->header_count++] = (struct http_header){BYTES("X-Request-Id"), {id, sizeof(id)}};
	response->headers = headers;

	response->status = err_v1_status(code);
	write_problem(out, code, response->status, bytes_of(detail), NULL);
	response->content_type = PROBLEM_CONTENT_TYPE;
	response->body = buf_bytes(out);
	http_respond(r, response);
}

void problem_answer(struct api_loop *l, struct http_request *r, enum err_code code, const char *detail)
{
	struct http_header headers[1];

	answer(l, r, &(struct http_response){0}, headers, code, detail);
}

void problem_answer_method(struct api_loop *l, struct http_request *r, const char *allowed)
{
	struct http_header   headers[2] = {{BYTES("Allow"), bytes_of(allowed)}};
	struct http_response response = {.header_count = 1};

	answer(l, r, &response, headers, ERR_METHOD,
	       "this path does not accept the method; the Allow header lists those it does");
}

/* ---- health: alive is that this runs at all; ready is whether work should be sent here ---- */

static void answer_text(struct http_request *r, int status, struct bytes text)
{
	struct http_header   retry = {BYTES("Retry-After"), BYTES("1")};
	struct http_response response = {.status = status,
	                                 .content_type = "text/plain; charset=utf-8",
	                                 .headers = &retry,
	                                 .header_count = status == 503 ? 1 : 0,
	                                 .body = text};

	http_respond(r, &response);
}

static void health_home(struct api_loop *l, struct http_request *r)
{
	(void)l;
	answer_text(r, 200,
	            BYTES("Gatehouse: the state behind a login page, and durable tables.\n"
	                  "/v1/...   the identity API (GET /openapi.yaml describes every call)\n"
	                  "GET /schemas/events   the schemas of events\n"
	                  "POST /    DynamoDB's protocol, with X-Amz-Target: DynamoDB_20120810.<operation>\n"
	                  "GET /livez, GET /readyz, GET /metrics\n"));
}

static void health_live(struct api_loop *l, struct http_request *r)
{
	(void)l;
	answer_text(r, 200, BYTES("ok\n"));
}

/* "degraded", or "degraded: the spool …" if there is more to say than that the tables do not answer. */
static void answer_health(struct http_request *r, int status, const char *word, const struct err *why)
{
	char text[sizeof(why->text) + 32];
	int  len = snprintf(text, sizeof(text), "%s%s%s\n", word, why->code == ERR_NONE ? "" : ": ",
                           why->code == ERR_NONE ? "" : why->text);

	answer_text(r, status, (struct bytes){text, (size_t)len});
}

static void health_ready(struct api_loop *l, struct http_request *r)
{
	const struct api_parts *p = &l->api->parts;
	struct err              why = {.code = ERR_NONE};
	bool                    degraded = p->degraded != NULL && p->degraded(p->ready_ctx, &why);

	if (!p->ready(p->ready_ctx))
		answer_health(r, 503, "not ready", &why);
	else
		answer_health(r, 200, degraded ? "degraded" : "ready", &why);
}

/* ---- routes ---- */

static const struct route routes[] = {
        {HTTP_POST, BYTES_INIT("/"), dynamodb_handle},
        {HTTP_GET, BYTES_INIT("/"), health_home},
        {HTTP_GET, BYTES_INIT("/livez"), health_live},
        {HTTP_GET, BYTES_INIT("/readyz"), health_ready},
        {HTTP_GET, BYTES_INIT("/metrics"), metrics_handle},
        {HTTP_GET, BYTES_INIT("/openapi.yaml"), description_handle},
};

enum { ROUTE_COUNT = sizeof(routes) / sizeof(routes[0]) };

const struct route *route_at(unsigned index)
{
	return index < ROUTE_COUNT ? &routes[index] : NULL;
}

/* What a path allows, for the Allow header: bit by method. */
static const char *allowed_print(unsigned methods)
{
	bool get = methods >> HTTP_GET & 1, post = methods >> HTTP_POST & 1;

	return get && post ? "GET, HEAD, POST" : get ? "GET, HEAD" : "POST";
}

/* "." or "..", also percent-encoded: whoever stands between would take another path for the same. */
static bool is_dots(struct bytes segment)
{
	unsigned dots = 0;

	for (size_t i = 0; i < segment.len; dots++) {
		bool encoded = segment.len - i >= 3 && segment.data[i] == '%' && segment.data[i + 1] == '2' &&
		               (segment.data[i + 2] == 'e' || segment.data[i + 2] == 'E');

		if (!encoded && segment.data[i] != '.')
			return false;
		i += encoded ? 3 : 1;
	}
	return dots == 1 || dots == 2;
}

static bool has_dot_segment(struct bytes path)
{
	for (size_t start = 0, end = 0; start <= path.len; start = end + 1) {
		for (end = start; end < path.len && path.data[end] != '/';)
			end++;
		if (is_dots((struct bytes){path.data + start, end - start}))
			return true;
	}
	return false;
}

static bool is_v1(struct bytes path)
{
	return bytes_starts_with(path, BYTES("/v1/"));
}

/* In the form that the caller understands. */
static void refuse_origin(struct api_loop *l, struct http_request *r, const struct err *err)
{
	if (is_v1(r->path) || r->method != HTTP_POST)
		problem_answer(l, r, err->code, err->text);
	else
		dynamodb_refuse(r, err);
}

static void handle(void *api, struct http_request *r)
{
	struct api_loop *l = r->loop_data;
	enum http_method method = r->method == HTTP_HEAD ? HTTP_GET : r->method;
	unsigned         methods = 0;
	struct err       err;

	if (origin_check(api, r, &err) != ERR_NONE) {
		refuse_origin(l, r, &err);
		return;
	}
	if (has_dot_segment(r->path)) {
		problem_answer(l, r, ERR_SERIALIZATION, "the path must not contain a segment . or ..");
		return;
	}
	if (is_v1(r->path)) {
		v1_handle(l, r);
		return;
	}
	if (bytes_starts_with(r->path, BYTES(LAMBDA_PATH))) {
		lambda_handle(l, r);
		return;
	}
	if (event_schemas_is(r->path)) {
		event_schemas_handle(l, r);
		return;
	}
	for (unsigned i = 0; i < ROUTE_COUNT; i++) {
		if (!bytes_equal(routes[i].path, r->path))
			continue;
		if (routes[i].method == method) {
			routes[i].handle(l, r);
			return;
		}
		methods |= 1u << routes[i].method;
	}
	if (methods == 0)
		problem_answer(l, r, ERR_NOT_FOUND, "unknown path; GET /openapi.yaml lists every call");
	else
		problem_answer_method(l, r, allowed_print(methods));
}

/* ---- the handler ---- */

/* Errors that the HTTP server finds before there is a request. The too large and the overload are in DynamoDB's form,
 * because its clients act on them, unless they are about a path of /v1. */
static struct bytes error_body(void *ctx, struct arena *a, const struct http_error *e,
                               const char **content_type)
{
	enum err_code code = e->status == 413 ? ERR_TOO_LARGE : e->status == 503 ? ERR_OVERLOADED : ERR_HTTP;
	struct buf    out;
	struct err    err;

	(void)ctx;
	buf_init(&out, a);
	*content_type = PROBLEM_CONTENT_TYPE;
	if (code == ERR_HTTP) {
		problem_write_http(&out, e->status, e->text);
		return buf_bytes(&out);
	}
	err_set(&err, code, "%s", e->text);
	if (is_v1(e->path)) {
		problem_write_err(&out, code, &err);
	} else {
		dynamodb_encode_error(a, code, &err, &out);
		*content_type = "application/x-amz-json-1.0";
	}
	return buf_bytes(&out);
}

/* Writes that came in one round of a loop have their turn in one batch. */
static void gathered(void *ctx)
{
	struct api *api = ctx;

	api->parts.store->backend->gathered(api->parts.store);
}

struct http_handler api_handler(struct api *api)
{
	return (struct http_handler){.ctx = api,
	                             .loop_open = loop_open,
	                             .loop_close = loop_close,
	                             .handle = handle,
	                             .admits = auth_admits,
	                             .digests = api->parts.keyring != NULL, /* signatures are over them */
	                             .round = gathered,
	                             .conn_end = key_limits_conn_end,
	                             .error_body = error_body};
}
