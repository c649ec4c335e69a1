/* Dispatch: the steps of a call, and the one way out. See dispatch.h. */
#include "api/dispatch.h"

#include "api/meter.h"
#include "base/audit.h"
#include "base/list.h"

static struct store *store_of(const struct call *c)
{
	return c->loop->api->parts.store;
}

void call_reader_end(struct call *c)
{
	struct store *store = store_of(c);

	if (c->reader != NULL)
		store->backend->read_end(store, c->reader);
	c->reader = NULL;
}

/* ---- the way out ---- */

/* Before the answer is sent: whoever has it finds it counted. */
static void note(struct call *c, enum err_code outcome, int status)
{
	struct api_loop    *l = c->loop;
	struct call_label   label = c->protocol->label(c);
	struct request_note n = {.id = c->request_id,
	                         .operation = label.name,
	                         .outcome = meter_outcome_name(label.row, outcome),
	                         .status = status,
	                         .micros = clock_steady_us(l->api->parts.clock) - c->http->received_us,
	                         .key_id = c->key_id};

	meter_note(l->meter, label.row, outcome, n.micros);
	c->protocol->audit(c, outcome, l->api->parts.audit);
	if (!request_log_wants(l->api->parts.log_requests, status))
		return;
	n.traceparent = http_header_get(c->http, "traceparent");
	request_log(&n);
}

/* It was counted before it was known that there is no room for it, and is counted for what it is as well. */
static void refuse_stream(struct call *c)
{
	note(c, ERR_OVERLOADED, err_v1_status(ERR_OVERLOADED));
	problem_answer(c->loop, c->http, ERR_OVERLOADED,
	               "there is no room for another stream; try again later");
}

/* (D1) What is encoded may belong to the reader, so that ends after it; and all lives in the arena, which ends with
 * http_respond. */
static void finish(struct call *c, enum err_code rc, struct err *err)
{
	struct http_response response = {0};
	enum err_code        outcome;
	bool                 streams;

	api_loop_request_id(c->loop, c->id_text);
	c->request_id = (struct bytes){c->id_text, sizeof(c->id_text)};
	outcome = c->protocol->answer(c, rc, err, &response);
	response.close = key_limits_end(c->http, outcome);
	note(c, outcome, response.status);
	streams = c->streams && outcome == ERR_NONE;
	if (!streams)
		auth_release(&c->who);
	call_reader_end(c);
	if (c->protocol->release != NULL)
		c->protocol->release(c);
	if (!streams)
		http_respond(c->http, &response);
	else if (!c->protocol->stream(c))
		refuse_stream(c);
}

/* It ended well: it waits for what it asks for, or is answered. */
static void settle(struct call *c)
{
	if (c->protocol->waits == NULL || !c->protocol->waits(c))
		finish(c, ERR_NONE, &c->turn.err);
}

/* ---- writes ---- */

static void conclude(struct http_request *r);

/* What a request holds: large items were read, maybe. */
static size_t held_bytes(const struct call *c)
{
	return c->http->body.len + c->http->arena.used_bytes;
}

static enum err_code turn_run(struct turn_request *turn, struct table *t)
{
	struct call  *c = (struct call *)turn;
	enum err_code rc = c->protocol->run(c, t, &turn->err);

	turn->cost_bytes = held_bytes(c);
	return rc;
}

static bool can_rehearse(const struct call *c)
{
	return c->conditional && c->loop->late != NULL && store_of(c)->backend->rehearse != NULL;
}

/* On the late thread. The large items that it read are given back before the turn: many may wait for that. */
static void rehearse(struct call *c)
{
	struct store *store = store_of(c);
	struct arena *arena = &c->http->arena, before;

	call_reader_end(c);
	c->turn.rehearsal = call_reader(c);
	store->backend->rehearse(store, c->reader, arena);
	before = *arena;
	c->turn.rc = turn_run(&c->turn, c->reader);
	c->decided = store->backend->rehearsed(store, c->reader);
	if (c->decided)
		return;
	c->turn.rc = ERR_NONE;
	arena_rewind(arena, before);
}

/* Nobody waits for the answer any more. */
static bool is_abandoned(struct call *c)
{
	if (!http_abandoned(c->http))
		return false;
	c->turn.rc = err_set(&c->turn.err, ERR_CALLER_THROTTLED, "the connection ended before its turn");
	return true;
}

static void rehearse_late(struct late_work *late, struct json_reader *json)
{
	struct call *c = LIST_ENTRY(late, struct call, late);

	(void)json;
	if (!is_abandoned(c))
		rehearse(c);
	http_resume(c->http, conclude);
}

static void do_late(struct call *c, void (*run)(struct late_work *late, struct json_reader *json))
{
	c->late.run = run;
	c->turn.too_heavy = false;
	if (late_submit(c->loop->late, &c->late))
		return;
	c->turn.rc = err_set(&c->turn.err, ERR_CALLER_THROTTLED,
	                     "too many heavy requests are waiting; try again shortly");
	conclude(c->http);
}

static void submit(struct call *c);

/* The pause before another turn is over. A peer that has gone does not end the call: what it asked for is still to be done. */
static void pause_over(struct http_request *r, enum http_end why)
{
	struct call *c = r->user;

	c->last = why == HTTP_END_GONE || why == HTTP_END_STOPPING;
	submit(c);
}

/* A write has failed: another turn, or the end. */
static void turn_failed(struct call *c)
{
	int64_t pause_us = 0;

	if (c->kind == READ || c->protocol->again == NULL ||
	    !c->protocol->again(c, c->turn.rc, c->last, &pause_us))
		finish(c, c->turn.rc, &c->turn.err);
	else if (pause_us == 0 ||
	         !http_park(c->http, clock_steady_us(c->loop->api->parts.clock) + pause_us, pause_over))
		submit(c);
}

static void turn_answer(struct http_request *r)
{
	struct call *c = r->user;

	if (c->turn.too_heavy)
		do_late(c, rehearse_late);
	else if (c->turn.rc != ERR_NONE)
		turn_failed(c);
	else
		settle(c);
}

static void turn_done(struct turn_request *turn)
{
	http_resume_with(((struct call *)turn)->http, turn_answer, turn->wakes);
}

static void submit(struct call *c)
{
	struct store *store = store_of(c);
	struct err    err;

	if (c->turn.rehearsal == NULL)
		call_reader_end(c);
	c->turn.run = turn_run;
	c->turn.done = turn_done;
	c->turn.cost_bytes = held_bytes(c);
	c->turn.rehearses = can_rehearse(c);
	c->turn.reads = c->kind == READ;
	if (store->backend->submit(store, &c->turn, &err) == ERR_NONE)
		return;
	c->turn.rc = err.code;
	c->turn.err = err;
	turn_failed(c);
}

/* ---- the work ---- */

/* A READ that would have this thread wait for a network. */
static bool is_read_elsewhere(const struct call *c)
{
	return c->kind == READ && !c->tableless && store_of(c)->backend->reads_wait;
}

static enum err_code run_read(struct call *c, struct err *err)
{
	struct store *store = store_of(c);

	if (!c->tableless)
		return c->protocol->run(c, call_reader(c), err);
	c->tableless_table = (struct table){.now_us = store->backend->now_us(store), .alone = true};
	return c->protocol->run(c, &c->tableless_table, err);
}

/* What it is, whether it may, and what is read: on whichever thread this is, with a JSON reader of its own. */
static enum err_code work(struct call *c, struct json_reader *json, struct err *err)
{
	enum err_code rc = c->protocol->name(c, json, err);

	if (rc == ERR_NONE)
		rc = c->protocol->authorise(c, err);
	if (rc == ERR_NONE)
		rc = c->protocol->decode(c, json, err);
	if (rc != ERR_NONE)
		return rc;
	c->admitted = true;
	return c->kind == WRITE || is_read_elsewhere(c) ? ERR_NONE : run_read(c, err);
}

/* The work was done, on this thread or for it, and others waited meanwhile. It is counted by the memory it took, and from
 * now on: late work may have waited for longer than a debt lasts. */
static void conclude(struct http_request *r)
{
	struct call     *c = r->user;
	struct api_loop *l = r->loop_data;
	size_t           bytes = held_bytes(c) + (c->reader != NULL ? c->reader->cost.spent : 0);

	if (bytes >= DEBT_HEAVY_BYTES)
		debts_add(&l->debts, c->turn.caller, bytes, clock_steady_us(l->api->parts.clock));
	if (c->turn.rc != ERR_NONE || c->decided)
		finish(c, c->turn.rc, &c->turn.err);
	else if (c->kind == WRITE || is_read_elsewhere(c))
		submit(c);
	else
		settle(c);
}

void dispatch_resume(struct call *c, bool once_more)
{
	if (once_more && (c->kind == WRITE || is_read_elsewhere(c))) {
		submit(c);
		return;
	}
	if (once_more)
		c->turn.rc = run_read(c, &c->turn.err);
	if (once_more && c->turn.rc == ERR_NONE)
		settle(c);
	else
		finish(c, c->turn.rc, &c->turn.err);
}

static void work_late(struct late_work *late, struct json_reader *json)
{
	struct call *c = LIST_ENTRY(late, struct call, late);

	if (!is_abandoned(c)) {
		c->turn.rc = work(c, json, &c->turn.err);
		if (c->turn.rc == ERR_NONE && can_rehearse(c))
			rehearse(c);
	}
	http_resume(c->http, conclude);
}

/* ---- the way in ---- */

static void keep_key_id(struct call *c)
{
	const struct credential *key = c->who.key;

	if (key == NULL || key->id.len > sizeof(c->key_id_text))
		return;
	memcpy(c->key_id_text, key->id.data, key->id.len);
	c->key_id = (struct bytes){c->key_id_text, key->id.len};
}

/* Bodies are taken as they are. (A proxy that asks about a request sends the headers of that, and no body.) */
static enum err_code check_encoding(const struct http_request *r, struct err *err)
{
	struct bytes encoding = http_header_get(r, "content-encoding");

	if (r->body.len == 0 || encoding.len == 0 || bytes_equal_lower(BYTES("identity"), encoding))
		return ERR_NONE;
	return err_set(err, ERR_ENCODING, "Content-Encoding '%.*s' is not supported: send the body as it is",
	               encoding.len < 64 ? (int)encoding.len : 64, encoding.data);
}

/* Who it is, and whether its request is worth decoding: nothing is decoded for a stranger, nor for a key that may not. */
static enum err_code admit(struct call *c, struct err *err)
{
	enum err_code rc = c->protocol->identify(c, err);

	if (rc == ERR_NONE)
		rc = check_encoding(c->http, err);
	if (rc != ERR_NONE)
		return rc;
	keep_key_id(c);
	c->turn.caller = c->who.key != NULL ? c->who.key->use : NULL;
	rc = c->http->body_refused ? auth_refused_body(err) : key_limits_check(c->http, &c->who, err);
	return rc == ERR_NONE ? c->protocol->foresee(c, err) : rc;
}

void dispatch(struct call *c)
{
	struct api_loop *l = c->loop;
	struct err      *err = &c->turn.err;
	enum err_code    rc = admit(c, err);

	if (rc != ERR_NONE) {
		finish(c, rc, err);
	} else if (l->late == NULL || !debts_owe(&l->debts, c->turn.caller, c->http->received_us)) {
		c->turn.rc = work(c, l->json, err);
		conclude(c->http);
	} else {
		do_late(c, work_late);
	}
}

void dispatch_refuse(struct call *c, const struct err *err)
{
	c->turn.err = *err;
	finish(c, err->code, &c->turn.err);
}

/* The turn holds room for a long error text, which need not be zeroed. */
void call_init(struct call *c, const struct protocol *p, struct http_request *r)
{
	memset((char *)c + sizeof(c->turn), 0, sizeof(*c) - sizeof(c->turn));
	c->turn.caller = NULL;
	c->turn.subject = (struct bytes){NULL, 0};
	c->turn.rehearsal = NULL;
	c->turn.too_heavy = false;
	c->turn.wakes = NULL;
	c->protocol = p;
	c->http = r;
	c->loop = r->loop_data;
	r->user = c;
}

struct table *call_reader(struct call *c)
{
	struct store *store = store_of(c);

	if (c->reader == NULL)
		c->reader = store->backend->read_begin(store, &c->http->arena);
	return c->reader;
}
