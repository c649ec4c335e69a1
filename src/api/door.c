/* Door: a call (call.h) on the right threads.
 *
 *   loop thread                                   writer thread
 *   door_handle: who is it
 *   work: decode, may it; READ: run on a reader
 *   conclude: encode, respond
 *     WRITE: submit -------------------------->   write_run: run in its turn
 *                                                 write_done: committed, or failed
 *   write_answer: encode, respond  <------------- http_resume
 *
 * The work for a caller whose last requests were heavy is done on another thread (late.h), so that the loop's other
 * connections do not wait for it. Its writes are rehearsed there (table/store.h), so that the writer's other callers do not
 * either; and so is a write that turns out to be too heavy for its turn.
 *
 * What always holds: every request is answered exactly once; a write is answered only after done; nothing of
 * a request is touched after http_respond, nor by this thread between submit and resume. */
#include "api/door.h"

#include <inttypes.h>
#include <stdio.h>
#include <zlib.h>

#include "api/act.h"
#include "api/auth.h"
#include "api/call.h"
#include "api/ceiling.h"
#include "api/late.h"
#include "api/permit.h"
#include "api/request_log.h"
#include "base/list.h"

#define CONTENT_TYPE "application/x-amz-json-1.0"

struct door_write {
	struct turn_request  base; /* first: the writer hands back a pointer to it */
	struct call          call;
	struct http_request *http;
	struct caller        who; /* until it is answered */
	struct table *reader;  /* of a read, and for what policies ask; from work on. NULL: none, or ended */
	struct late_work late; /* if the work is done on the late thread */
	bool             decided;         /* a rehearsal has shown that it fails: it needs no turn */
	size_t           rehearsal_bytes; /* what that took of the arena */
	char             key_id[CREDENTIAL_ID_BYTES]; /* of the caller, for the log */
	size_t           key_id_len;
};

/* ---- answers ---- */

/* Before the answer is sent: whoever has it finds it counted. A request that was refused before it was
 * decoded is counted with the operation it named. */
static void note(struct api_loop *l, struct http_request *r, enum err_code outcome, struct bytes id)
{
	const struct door_write *w = r->user;
	const struct operation  *operation = w->call.operation;
	struct request_note      n = {.id = id,
	                              .outcome = outcome,
	                              .status = err_status(outcome),
	                              .micros = clock_steady_us(l->api->parts.clock) - r->received_us,
	                              .key_id = {w->key_id, w->key_id_len}};

	if (operation == NULL)
		operation = call_operation(http_header_get(r, "x-amz-target"));
	meter_note(l->meter, meter_operation_row(operation), outcome, n.micros);
	act_write(l->api->parts.audit, &(struct act_note){&w->call, outcome, id, n.key_id});
	if (!request_log_wants(l->api->parts.log_requests, n.status))
		return;
	n.operation = operation_label(operation);
	n.traceparent = http_header_get(r, "traceparent");
	request_log(&n);
}

static void end_reading(struct api_loop *l, struct door_write *w)
{
	struct store *store = l->api->parts.store;

	if (w->reader != NULL)
		store->backend->read_end(store, w->reader);
	w->reader = NULL;
}

static void respond(struct api_loop *l, struct http_request *r, enum err_code outcome, struct bytes body)
{
	struct door_write *w = r->user;
	char               id[REQUEST_ID_LENGTH], sum[16];
	unsigned long      crc = crc32_z(0, (const unsigned char *)body.data, body.len);
	struct http_header headers[3] = {
	        {BYTES("x-amzn-RequestId"), {id, sizeof(id)}},
	        {BYTES("x-amz-crc32"), {sum, (size_t)snprintf(sum, sizeof(sum), "%lu", crc)}},
	        {BYTES("Retry-After"), BYTES("1")},
	};
	struct http_response response = {.status = err_status(outcome),
	                                 .content_type = CONTENT_TYPE,
	                                 .headers = headers,
	                                 .body = body,
	                                 .close = ceiling_ends(r, outcome)};

	api_loop_request_id(l, id);
	response.header_count = response.status == 503 ? 3 : 2;
	note(l, r, outcome, (struct bytes){id, sizeof(id)});
	auth_release(&w->who);
	end_reading(l, w); /* what is encoded may have belonged to it */
	http_respond(r, &response);
}

static void answer_error(struct api_loop *l, struct http_request *r, enum err_code code,
                         const struct err *err)
{
	struct buf *out = api_loop_answer(l);

	call_encode_error(&r->arena, code, err, out);
	respond(l, r, code, buf_bytes(out));
}

static void answer(struct api_loop *l, struct http_request *r, struct call *c, enum err_code rc,
                   const struct err *err)
{
	struct buf *out;

	if (rc != ERR_NONE) {
		answer_error(l, r, rc, err);
		return;
	}
	out = api_loop_answer(l);
	rc = call_encode(c, out);
	respond(l, r, rc, buf_bytes(out));
}

/* What was done on this thread, which others waited for. Decoding and reading are counted by the memory they took. */
static void note_work(struct api_loop *l, const struct http_request *r, size_t examined_bytes)
{
	const struct door_write *w = r->user;

	/* Not since it was received: late work may have waited for longer than a debt lasts. */
	debts_add(&l->debts, w->base.caller, r->body.len + r->arena.used_bytes + examined_bytes,
	          clock_steady_us(l->api->parts.clock));
}

/* ---- on the late thread ---- */

static void conclude(struct http_request *r);

static void do_late(struct api_loop *l, struct door_write *w,
                    void (*run)(struct late_work *late, struct json_reader *json))
{
	w->late.run = run;
	w->base.too_heavy = false;
	if (late_submit(l->late, &w->late))
		return;
	w->base.rc = err_set(&w->base.err, ERR_THROTTLED,
	                     "too many heavy requests are waiting; try again shortly");
	conclude(w->http);
}

/* Nobody waits for the answer any more. */
static bool abandoned(struct door_write *w)
{
	if (!http_abandoned(w->http))
		return false;
	w->base.rc = err_set(&w->base.err, ERR_THROTTLED, "the connection ended before its turn");
	return true;
}

/* ---- writes ---- */

static size_t bytes_held(const struct door_write *w)
{
	return w->http->body.len + w->http->arena.used_bytes - w->rehearsal_bytes;
}

static enum err_code write_run(struct turn_request *base, struct table *t)
{
	struct door_write *w = (struct door_write *)base;
	enum err_code      rc = permit_check_puts(&w->who, t, &w->call, &w->base.err);

	if (rc == ERR_NONE)
		rc = call_run(&w->call, t, &w->base.err);
	base->cost_bytes = bytes_held(w); /* large items were read, maybe */
	return rc;
}

/* Has it conditions to test before its turn? */
static bool can_rehearse(struct api_loop *l, const struct door_write *w)
{
	const struct call *c = &w->call;

	return l->late != NULL && l->api->parts.store->backend->rehearse != NULL &&
	       (c->operation->form == FORM_TRANSACT_WRITE ||
	        (c->operation->form == FORM_WRITE && c->request.write.condition != NULL));
}

/* On the late thread. */
static void rehearse(struct api_loop *l, struct door_write *w)
{
	struct store *store = l->api->parts.store;
	size_t        before = w->http->arena.used_bytes;

	end_reading(l, w);
	w->reader = store->backend->read_begin(store, &w->http->arena);
	store->backend->rehearse(store, w->reader, &w->http->arena);
	w->base.rehearsal = w->reader;
	w->base.rc = write_run(&w->base, w->reader);
	w->decided = store->backend->rehearsed(store, w->reader);
	if (!w->decided)
		w->base.rc = ERR_NONE;
	w->rehearsal_bytes = w->http->arena.used_bytes - before;
}

static void rehearse_late(struct late_work *late, struct json_reader *json)
{
	struct door_write *w = LIST_ENTRY(late, struct door_write, late);

	(void)json;
	if (!abandoned(w))
		rehearse(w->http->loop_data, w);
	http_resume(w->http, conclude);
}

static void write_answer(struct http_request *r)
{
	struct api_loop   *l = r->loop_data;
	struct door_write *w = r->user;

	if (w->base.too_heavy)
		do_late(l, w, rehearse_late);
	else
		answer(l, r, &w->call, w->base.rc, &w->base.err);
}

static void write_done(struct turn_request *base)
{
	struct door_write *w = (struct door_write *)base;

	http_resume(w->http, write_answer);
}

static void write_submit(struct api_loop *l, struct http_request *r, struct door_write *w)
{
	struct store *store = l->api->parts.store;
	struct err    err;
	enum err_code rc;

	if (w->base.rehearsal == NULL)
		end_reading(l, w);
	w->base.run = write_run;
	w->base.done = write_done;
	w->base.cost_bytes = bytes_held(w);
	w->base.rehearses = can_rehearse(l, w);
	rc = store->backend->submit(store, &w->base, &err);
	if (rc != ERR_NONE)
		answer_error(l, r, rc, &err);
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

static void keep_key_id(struct door_write *w, const struct caller *who)
{
	if (who->key == NULL || who->key->id.len > sizeof(w->key_id))
		return;
	memcpy(w->key_id, who->key->id.data, who->key->id.len);
	w->key_id_len = who->key->id.len;
}

/* Decoding a large body takes memory and time: it is not begun for those who could never have it done, and the memory
 * counts like the body's own. What is decoded takes about as much as the tree of it. */
static enum err_code foresee(struct http_request *r, const struct caller *who, struct bytes target,
                             struct err *err)
{
	const struct operation *operation = call_operation(target);

	if (operation == NULL || r->body.len <= HTTP_SMALL_BODY_BYTES)
		return ERR_NONE;
	if (permit_foresee(who, operation, err) != ERR_NONE)
		return err->code;
	if (!http_charge(r, r->body.len + 2 * JSON_VALUE_BYTES * json_count(r->body)))
		return err_set(err, ERR_OVERLOADED, "too many large requests at once; try again shortly");
	return ERR_NONE;
}

/* Who it is, and whether its request is worth decoding. */
static enum err_code identify(struct api_loop *l, struct http_request *r, struct door_write *w,
                              struct err *err)
{
	enum err_code rc;

	if (!is_json(http_header_get(r, "content-type")))
		return err_set(err, ERR_UNKNOWN_OPERATION, "%s", "");
	rc = auth_identify(l, r, &r->arena, &w->who, err);
	if (rc != ERR_NONE)
		return rc;
	keep_key_id(w, &w->who);
	w->base.caller = w->who.key != NULL ? w->who.key->use : NULL;
	rc = r->body_refused ? auth_refused_body(err) : ceiling_check(l, r, &w->who, err);
	if (rc == ERR_NONE)
		rc = foresee(r, &w->who, http_header_get(r, "x-amz-target"), err);
	return rc;
}

/* ---- the work ---- */

/* What it is, whether it may, and what is read: with the reader of whichever thread this is. */
static void work(struct door_write *w, struct json_reader *json)
{
	struct http_request *r = w->http;
	struct err          *err = &w->base.err;
	struct bytes         target = http_header_get(r, "x-amz-target");
	struct api_loop     *l = r->loop_data;
	struct store        *store = l->api->parts.store;

	w->reader =
	        store->backend->read_begin(store, &r->arena); /* here: late work sees what there is by then */
	w->base.rc = call_decode(&w->call, &r->arena, json, target, r->body, err);
	if (w->base.rc == ERR_NONE)
		w->base.rc = permit_check(&w->who, w->reader, &w->call, err);
	if (w->base.rc != ERR_NONE)
		return;
	w->call.request.host = host_of(r);
	w->call.request.arn_home = bytes_of(l->api->arn_home);
	if (w->call.operation->kind != WRITE)
		w->base.rc = call_run(&w->call, w->reader, err);
}

static void conclude(struct http_request *r)
{
	struct api_loop   *l = r->loop_data;
	struct door_write *w = r->user;

	note_work(l, r, w->reader != NULL ? w->reader->cost.spent : 0); /* NULL: it was refused before */
	if (w->base.rc == ERR_NONE && w->call.operation->kind == WRITE && !w->decided)
		write_submit(l, r, w);
	else
		answer(l, r, &w->call, w->base.rc, &w->base.err);
}

static void work_late(struct late_work *late, struct json_reader *json)
{
	struct door_write *w = LIST_ENTRY(late, struct door_write, late);

	if (!abandoned(w)) {
		work(w, json);
		if (w->base.rc == ERR_NONE && can_rehearse(w->http->loop_data, w))
			rehearse(w->http->loop_data, w);
	}
	http_resume(w->http, conclude);
}

static struct door_write *begin(struct http_request *r)
{
	struct door_write *w = arena_alloc(&r->arena, sizeof(*w));

	w->call.operation = NULL;
	w->who = (struct caller){0};
	w->reader = NULL;
	w->decided = false;
	w->rehearsal_bytes = 0;
	w->base.rehearsal = NULL;
	w->base.too_heavy = false;
	w->key_id_len = 0;
	r->user = w;
	return w;
}

void door_refuse(struct api_loop *l, struct http_request *r, const struct err *err)
{
	begin(r);
	answer_error(l, r, err->code, err);
}

void door_handle(struct api_loop *l, struct http_request *r)
{
	struct door_write *w = begin(r);
	enum err_code      rc;

	w->http = r;
	rc = identify(l, r, w, &w->base.err);
	if (rc != ERR_NONE) {
		answer_error(l, r, rc, &w->base.err);
		return;
	}
	if (l->late == NULL || !debts_owe(&l->debts, w->base.caller, r->received_us)) {
		work(w, l->json);
		conclude(r);
	} else {
		do_late(l, w, work_late);
	}
}
