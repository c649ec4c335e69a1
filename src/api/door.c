/* Door: a call (call.h) on the right threads.
 *
 *   loop thread                                   writer thread
 *   door_handle: decode
 *     READ: run on a reader, encode, respond
 *     WRITE: engine_submit ------------------->   write_run: run in its turn
 *                                                 write_done: committed, or failed
 *   write_answer: encode, respond  <------------- http_resume
 *
 * What always holds: every request is answered exactly once; a write is answered only after done; nothing of
 * a request is touched after http_respond, nor by this thread between submit and resume. */
#include "api/door.h"

#include <inttypes.h>
#include <stdio.h>
#include <zlib.h>

#include "api/call.h"

#define CONTENT_TYPE "application/x-amz-json-1.0"

struct door_write {
	struct writer_request base; /* first: the writer hands back a pointer to it */
	struct call           call;
	struct http_request  *http;
};

/* ---- answers ---- */

static void respond(struct api_loop *l, struct http_request *r, int status, struct bytes body)
{
	char               id[REQUEST_ID_LENGTH], sum[16];
	unsigned long      crc = crc32_z(0, (const unsigned char *)body.data, body.len);
	struct http_header headers[3] = {
	        {BYTES("x-amzn-RequestId"), {id, sizeof(id)}},
	        {BYTES("x-amz-crc32"), {sum, (size_t)snprintf(sum, sizeof(sum), "%lu", crc)}},
	        {BYTES("Retry-After"), BYTES("1")},
	};
	struct http_response response = {
	        .status = status, .content_type = CONTENT_TYPE, .headers = headers, .body = body};

	api_loop_request_id(l, id);
	response.header_count = status == 503 ? 3 : 2;
	http_respond(r, &response);
}

void door_answer_error(struct api_loop *l, struct http_request *r, enum err_code code, const struct err *err)
{
	struct buf *out = api_loop_answer(l);
	int         status = call_encode_error(&r->arena, code, err, out);

	respond(l, r, status, buf_bytes(out));
}

static void answer(struct api_loop *l, struct http_request *r, struct call *c, enum err_code rc,
                   const struct err *err)
{
	struct buf *out;
	int         status;

	if (rc != ERR_NONE) {
		door_answer_error(l, r, rc, err);
		return;
	}
	out = api_loop_answer(l);
	status = call_encode(c, out);
	respond(l, r, status, buf_bytes(out));
}

/* ---- writes ---- */

static enum err_code write_run(struct writer_request *base, struct table *t)
{
	struct door_write *w = (struct door_write *)base;

	return call_run(&w->call, t, &w->base.err);
}

static void write_answer(struct http_request *r)
{
	struct door_write *w = r->user;

	answer(r->loop_data, r, &w->call, w->base.rc, &w->base.err);
}

static void write_done(struct writer_request *base)
{
	struct door_write *w = (struct door_write *)base;

	http_resume(w->http, write_answer);
}

static void write_submit(struct api_loop *l, struct http_request *r, struct door_write *w)
{
	struct err    err;
	enum err_code rc;

	w->http = r;
	w->base.run = write_run;
	w->base.done = write_done;
	w->base.cost_bytes = r->body.len + r->arena.used_bytes;
	w->base.rc = ERR_NONE;
	w->base.next = NULL;
	r->user = w;
	rc = engine_submit(l->api->engine, &w->base, &err);
	if (rc != ERR_NONE)
		door_answer_error(l, r, rc, &err);
}

/* ---- reads ---- */

static void read_answer(struct api_loop *l, struct http_request *r, struct call *c)
{
	struct engine_reader reader;
	struct err           err;
	enum err_code        rc;

	engine_reader_init(&reader, l->api->engine);
	rc = call_run(c, &reader.base, &err);
	engine_reader_release(&reader);
	answer(l, r, c, rc, &err);
}

/* ---- the way in ---- */

/* Absent, or some JSON: SDKs send application/x-amz-json-1.0, people with curl what they like. */
static bool is_json(struct bytes content_type)
{
	return content_type.data == NULL ||
	       bytes_starts_with(content_type, BYTES("application/x-amz-json-1.")) ||
	       bytes_starts_with(content_type, BYTES("application/json"));
}

/* It may end up in a JSON answer. */
static struct bytes host_of(const struct http_request *r)
{
	struct bytes host = http_header_get(r, "host");

	return bytes_is_utf8(host) ? host : BYTES("localhost");
}

void door_handle(struct api_loop *l, struct http_request *r)
{
	struct door_write *w = arena_alloc(&r->arena, sizeof(*w));
	struct bytes       target = http_header_get(r, "x-amz-target");
	struct err        *err = &w->base.err;
	enum err_code      rc;

	if (!is_json(http_header_get(r, "content-type"))) {
		err_set(err, ERR_UNKNOWN_OPERATION, "%s", "");
		door_answer_error(l, r, ERR_UNKNOWN_OPERATION, err);
		return;
	}
	rc = call_decode(&w->call, &r->arena, l->json, target, r->body, err);
	if (rc != ERR_NONE) {
		door_answer_error(l, r, rc, err);
		return;
	}
	w->call.request.host = host_of(r);
	if (w->call.operation->kind == WRITE)
		write_submit(l, r, w);
	else
		read_answer(l, r, &w->call);
}
