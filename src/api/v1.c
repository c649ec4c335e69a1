/* V1: a call on the right threads; see v1.h. What always holds is what door.c says of its own: answered
 * exactly once, a write only after done, nothing touched after http_respond or between submit and resume. */
#include "api/v1.h"

#include <assert.h>
#include <stdio.h>

#include "api/ceiling.h"
#include "api/act.h"
#include "api/permit.h"
#include "api/problem.h"
#include "api/request_log.h"
#include "api/v1_match.h"
#include "service/idempotency.h"

enum { V1_TRIES_MAX = 5 }; /* how often a call decides again when others wrote in between */

/* A call and what it takes to answer it. */
struct v1_work {
	struct turn_request base; /* first: the writer hands back a pointer to it */
	struct v1_call      call;
	struct idempotency  once;
	struct table       *reader; /* of a read; NULL: none */
	struct kept_answer  kept;   /* of a keyed request: the answer, this one's or the first one's */
	bool                replayed;
	bool                admitted;                    /* it was decoded, and its caller may */
	char                key_id[CREDENTIAL_ID_BYTES]; /* of the caller, for the log */
	size_t              key_id_len;
};

/* ---- answers ---- */

static void note(struct api_loop *l, struct v1_work *w, enum err_code outcome, int status, struct bytes id)
{
	struct http_request *r = w->call.http;
	struct request_note  n = {.id = id,
	                          .operation = bytes_of(w->call.route->action),
	                          .outcome = outcome,
	                          .status = status,
	                          .micros = clock_steady_us(l->api->parts.clock) - r->received_us,
	                          .key_id = {w->key_id, w->key_id_len}};

	meter_note(l->meter, meter_route_row(v1_route_index(w->call.route)), outcome, n.micros);
	if (!request_log_wants(l->api->parts.log_requests, status))
		return;
	n.traceparent = http_header_get(r, "traceparent");
	request_log(&n);
}

static void respond(struct api_loop *l, struct v1_work *w, enum err_code outcome,
                    struct http_response *response)
{
	struct v1_call *c = &w->call;
	struct store   *store = l->api->parts.store;
	char            id[REQUEST_ID_LENGTH];

	api_loop_request_id(l, id);
	v1_header(c, BYTES("X-Request-Id"), (struct bytes){id, sizeof(id)});
	if (w->replayed)
		v1_header(c, BYTES("Idempotency-Replayed"), BYTES("true"));
	if (response->status == 503 || outcome == ERR_THROTTLED)
		v1_header(c, BYTES("Retry-After"), BYTES("1"));
	if (response->status == 401)
		v1_header(c, BYTES("WWW-Authenticate"), BYTES("Bearer"));
	response->close = ceiling_ends(c->http, outcome);
	response->headers = c->headers;
	response->header_count = c->header_count;
	note(l, w, outcome, response->status, (struct bytes){id, sizeof(id)});
	if (c->route->kind == ADMINISTER && c->kind == WRITE && !w->replayed) /* a dry run changes nothing */
		act_write_v1(l->api->parts.audit,
		             &(struct act_v1_note){c, outcome, {id, sizeof(id)}, {w->key_id, w->key_id_len}});
	v1_let_go(c);
	if (w->reader != NULL)
		store->backend->read_end(store, w->reader);
	http_respond(c->http, response);
}

static void answer_error(struct api_loop *l, struct v1_work *w, enum err_code code, const struct err *err)
{
	struct http_response response = {.status = err_v1_status(code), .content_type = PROBLEM_CONTENT_TYPE};
	struct buf          *out = api_loop_answer(l);

	w->call.header_count = 0;
	problem_write_err(out, code, err);
	response.body = buf_bytes(out);
	respond(l, w, code, &response);
}

static void encode(struct v1_call *c, struct buf *out)
{
	struct json_writer writer;

	json_writer_init(&writer, out);
	c->route->encode(c, &writer);
	buf_add(out, "\n", 1);
}

static void answer(struct api_loop *l, struct v1_work *w, enum err_code rc, const struct err *err)
{
	struct http_response response = {.content_type = "application/json"};
	struct buf          *out;

	if (rc != ERR_NONE) {
		answer_error(l, w, rc, err);
		return;
	}
	if (w->kept.found) {
		response.status = w->kept.status;
		response.body = w->replayed && w->call.rebuild != NULL
		                        ? w->call.rebuild(&w->call, w->kept.body)
		                        : w->kept.body;
	} else {
		out = api_loop_answer(l);
		encode(&w->call, out);
		response.status = w->call.status;
		response.body = buf_bytes(out);
	}
	respond(l, w, ERR_NONE, &response);
}

/* ---- running ---- */

/* The answer is made in the turn, to be committed with what it answers. */
static void keep_answer(struct v1_work *w)
{
	struct v1_call *c = &w->call;
	struct buf      out;

	buf_init(&out, c->arena);
	c->keeping = true;
	encode(c, &out);
	c->keeping = false;
	w->kept = (struct kept_answer){true, c->status, buf_bytes(&out)};
	idempotency_keep(&c->ctx, &w->once, c->status, w->kept.body);
	if (c->has_secret) { /* this time it is told */
		buf_init(&out, c->arena);
		c->header_count = 0;
		encode(c, &out);
		w->kept.body = buf_bytes(&out);
	}
}

static enum err_code run_once(struct v1_work *w, struct table *t, struct err *err)
{
	struct v1_call *c = &w->call;
	bool            keyed = w->once.key.len > 0;

	ctx_begin(&c->ctx, t);
	c->status = 200; /* it may be decided anew */
	c->header_count = 0;
	c->has_secret = false;
	if (keyed && idempotency_find(&c->ctx, &w->once, &w->kept, err) != ERR_NONE)
		return err->code;
	w->replayed = w->kept.found;
	if (w->replayed)
		return ERR_NONE;
	if (c->route->run(c, err) != ERR_NONE)
		return err->code;
	if (keyed)
		keep_answer(w);
	return changes_commit(&c->ctx.changes, t, err);
}

static enum err_code run(struct v1_work *w, struct table *t, struct err *err)
{
	enum err_code rc = run_once(w, t, err);

	for (int tries = 1; rc == ERR_CONDITION && tries < V1_TRIES_MAX; tries++) {
		w->kept = (struct kept_answer){0};
		rc = run_once(w, t, err);
	}
	return rc == ERR_CONDITION
	               ? err_set(err, ERR_OVERLOADED, "too many requests changed this at once; try again")
	               : rc;
}

static enum err_code write_run(struct turn_request *base, struct table *t)
{
	struct v1_work *w = (struct v1_work *)base;
	enum err_code   rc = run(w, t, &base->err);

	base->cost_bytes = w->call.http->body.len + w->call.arena->used_bytes;
	return rc;
}

/* ---- the way out ---- */

/* The route may answer what could not be written; what was made to be kept with it is void. */
static enum err_code refused(struct v1_work *w, enum err_code rc, struct err *err)
{
	if (rc != ERR_NONE) {
		w->kept = (struct kept_answer){0};
		w->replayed = false;
		w->call.header_count = 0;
		w->call.status = 200;
	}
	return w->call.route->refused(&w->call, rc, err);
}

/* Every call leaves through here, once: read, committed, replayed, or failed wherever it got to. A route that takes
 * something outside its changes keeps it here (`committed`) or gives it back (`refused`). */
static void finish(struct api_loop *l, struct v1_work *w, enum err_code rc, struct err *err)
{
	const struct v1_route *route = w->call.route;

	if (rc == ERR_NONE && !w->replayed) {
		if (route->committed != NULL)
			route->committed(&w->call);
	} else if (w->admitted && route->refused != NULL) {
		rc = refused(w, rc, err);
	}
	answer(l, w, rc, err);
}

static void write_answer(struct http_request *r)
{
	struct v1_work *w = r->user;

	finish(r->loop_data, w, w->base.rc, &w->base.err);
}

static void write_done(struct turn_request *base)
{
	http_resume(((struct v1_work *)base)->call.http, write_answer);
}

static void write_submit(struct api_loop *l, struct v1_work *w)
{
	struct http_request *r = w->call.http;
	struct store        *store = l->api->parts.store;
	struct err           err;
	enum err_code        rc;

	w->base.run = write_run;
	w->base.done = write_done;
	w->base.cost_bytes = r->body.len + r->arena.used_bytes;
	w->base.rehearsal = NULL;
	w->base.rehearses = false;
	w->base.rc = ERR_NONE;
	w->base.next = NULL;
	rc = store->backend->submit(store, &w->base, &err);
	if (rc != ERR_NONE)
		finish(l, w, rc, &err);
}

static void read_answer(struct api_loop *l, struct v1_work *w, struct table *t)
{
	struct err    err;
	enum err_code rc;

	ctx_begin(&w->call.ctx, t);
	rc = w->call.route->run(&w->call, &err);
	finish(l, w, rc, &err);
}

static void read_run(struct api_loop *l, struct v1_work *w)
{
	struct store *store = l->api->parts.store;

	if (w->call.tableless) {
		read_answer(l, w, &(struct table){.now_us = store->backend->now_us(store)});
		return;
	}
	w->reader = store->backend->read_begin(store, w->call.arena);
	read_answer(l, w, w->reader);
}

/* ---- the way in ---- */

static enum err_code read_body(struct v1_call *c, struct api_loop *l, struct err *err)
{
	struct bytes body = c->http->body;
	struct json *tree;

	if (body.len == 0 || c->route->body_bytes_max == V1_BODY_IGNORED)
		return ERR_NONE;
	if (c->route->body_bytes_max == 0)
		return err_set(err, ERR_SERIALIZATION, "this call takes no body; send none");
	if (body.len > c->route->body_bytes_max)
		return err_set(err, ERR_TOO_LARGE, "the body must have at most %u bytes",
		               c->route->body_bytes_max);
	if (json_read(l->json, c->arena, body, &tree, err) != ERR_NONE)
		return err->code;
	c->body = tree;
	return ERR_NONE;
}

/* What makes two requests the same: who sends what where. A body is compared by what it means, not by its bytes: a retry
 * may be written anew, by a library that orders members in its own way. Digest and key are
 * stored as keyed hashes: a body holds emails and addresses, a key what its caller made it of, and nobody should be able
 * to try those out. */
static enum err_code read_once(struct v1_work *w, struct err *err)
{
	struct http_request *r = w->call.http;
	struct bytes         key = http_header_get(r, "idempotency-key");
	struct json_writer   writer;
	struct buf           whole;

	/* A route that ignores the body is asked by headers, which the digest does not cover, for others. */
	if (key.data == NULL || w->call.route->kind == READ ||
	    w->call.route->body_bytes_max == V1_BODY_IGNORED)
		return ERR_NONE;
	if (key.len < 1 || key.len > IDEMPOTENCY_KEY_MAX || !bytes_is_utf8(key))
		return err_field(err, ERR_INVALID, "Idempotency-Key",
		                 "Idempotency-Key: must have 1 to %d bytes of UTF-8", IDEMPOTENCY_KEY_MAX);
	buf_init(&whole, w->call.arena);
	buf_add_bytes(&whole, arena_printf(w->call.arena, "%d %.*s\n", (int)r->method, BYTES_ARG(r->target)));
	if (w->call.body != NULL) {
		json_writer_init(&writer, &whole);
		json_tree_canonical(&writer, w->call.body, w->call.arena);
	}
	hmac_sha256(&w->call.services->identifiers.hmac, buf_bytes(&whole), w->once.digest);
	w->once.key =
	        identifier_hash_text(&w->call.services->identifiers, w->call.arena, "idempotency-key", key);
	w->once.caller = w->call.ctx.caller;
	return ERR_NONE;
}

static void keep_key_id(struct v1_work *w, const struct caller *who)
{
	if (who->key == NULL || who->key->id.len > sizeof(w->key_id))
		return;
	memcpy(w->key_id, who->key->id.data, who->key->id.len);
	w->key_id_len = who->key->id.len;
	w->call.ctx.caller = (struct bytes){w->key_id, w->key_id_len};
}

static enum err_code decode(struct v1_work *w, struct api_loop *l, struct err *err)
{
	struct v1_call *c = &w->call;

	if (strcmp(c->route->query, V1_QUERY_ANY) != 0 && v1_query_check(c, c->route->query, err) != ERR_NONE)
		return err->code;
	if (read_body(c, l, err) != ERR_NONE)
		return err->code;
	c->status = 200;
	c->kind = c->route->kind == READ ? READ : WRITE;
	return c->route->decode == NULL ? ERR_NONE : c->route->decode(c, err);
}

static enum err_code check(const struct v1_call *c, const char *action, struct bytes resource,
                           struct err *err)
{
	struct permit_v1 p = {&c->who, ctx_now_s(&c->ctx), c->arena, action};
	enum decision    decision;

	return permit_check_v1(&p, resource, &decision, err);
}

/* Limits that a call looks at are asked about as if it had asked /v1/allow. */
static enum err_code permit(const struct v1_call *c, struct err *err)
{
	uint32_t      own = c->resource_count - c->looked_count;
	enum err_code rc = own > 0 ? ERR_NONE : check(c, c->route->action, (struct bytes){NULL, 0}, err);

	for (uint32_t i = 0; i < own && rc == ERR_NONE; i++) {
		rc = check(c, c->route->action, c->resources[i], err);
		if (c->any_will_do && rc == ERR_NONE)
			break;
		if (c->any_will_do && i + 1 < own)
			rc = ERR_NONE;
	}
	for (uint32_t i = own; i < c->resource_count && rc == ERR_NONE; i++)
		rc = check(c, "Allow", c->resources[i], err);
	return rc;
}

/* Who it is, what it is, whether it may. Nothing is decoded for a stranger. */
static enum err_code admit(struct api_loop *l, struct v1_work *w, struct err *err)
{
	struct v1_call *c = &w->call;
	enum err_code   rc = auth_identify_v1(l, c->http, c->arena, &c->who, err);

	if (rc != ERR_NONE)
		return rc;
	keep_key_id(w, &c->who);
	w->base.caller = c->who.key != NULL ? c->who.key->use : NULL;
	rc = c->http->body_refused ? auth_refused_body(err) : ceiling_check(l, c->http, &c->who, err);
	if (rc == ERR_NONE && c->http->body.len > HTTP_SMALL_BODY_BYTES)
		rc = permit_foresee_v1(&c->who, c->route->action, err);
	if (rc == ERR_NONE)
		rc = decode(w, l, err);
	if (rc == ERR_NONE && c->too_many) /* none goes unasked */
		rc = err_set(err, ERR_LIMIT,
		             "one call may concern at most %d journeys, limits, states and resets together",
		             V1_RESOURCES_MAX);
	if (rc == ERR_NONE)
		rc = permit(c, err);
	if (rc == ERR_NONE)
		rc = read_once(w, err);
	return rc;
}

static void handle(struct api_loop *l, struct http_request *r, const struct v1_match *match)
{
	struct v1_work *w = arena_alloc(&r->arena, sizeof(*w));
	struct store   *store = l->api->parts.store;
	enum err_code   rc;

	/* all but the writer's part, which holds room for a long error text */
	memset((char *)w + sizeof(w->base), 0, sizeof(*w) - sizeof(w->base));
	r->user = w;
	w->call.arena = &r->arena;
	w->call.http = r;
	w->call.route = match->route;
	w->call.once = &w->once;
	w->call.services = l->api->parts.services;
	w->call.ctx = (struct context){.services = w->call.services,
	                               .arena = w->call.arena,
	                               .caller = BYTES("-"),
	                               .now_us = store->backend->now_us(store)};
	memcpy(w->call.params, match->params, sizeof(match->params));
	rc = admit(l, w, &w->base.err);
	w->admitted = rc == ERR_NONE;
	if (rc != ERR_NONE)
		finish(l, w, rc, &w->base.err);
	else if (w->call.kind == WRITE)
		write_submit(l, w);
	else
		read_run(l, w);
}

bool v1_is_path(struct bytes path)
{
	return bytes_starts_with(path, BYTES("/v1/"));
}

void v1_handle(struct api_loop *l, struct http_request *r)
{
	struct v1_match match;

	switch (v1_match(r, &match)) {
	case V1_MATCHED:
		handle(l, r, &match);
		break;
	case V1_OTHER_METHOD:
		problem_answer_method(l, r, match.allowed);
		break;
	case V1_BAD_PATH:
		problem_answer(l, r, ERR_SERIALIZATION, "the path is not valid percent-encoding");
		break;
	case V1_NO_PATH:
		problem_answer(l, r, ERR_NOT_FOUND, "unknown path");
		break;
	}
}

/* ---- for routes ---- */

void v1_header(struct v1_call *c, struct bytes name, struct bytes value)
{
	if (c->header_count < V1_HEADERS_MAX)
		c->headers[c->header_count++] = (struct http_header){name, value};
}

void v1_hold(struct v1_call *c, struct document *document)
{
	assert(c->held_count < V1_HELD_MAX);
	c->held[c->held_count++] = document;
}

void v1_let_go(struct v1_call *c)
{
	if (c->release != NULL)
		c->release(c);
	while (c->held_count > 0)
		document_release(c->held[--c->held_count]);
	auth_release(&c->who);
}

enum decision v1_decide(const struct v1_call *c, const char *kind, struct bytes name, struct err *err)
{
	struct permit_v1 p = {&c->who, ctx_now_s(&c->ctx), c->arena, c->route->action};
	enum decision    decision;

	if (c->who.key != NULL)
		permit_check_v1(&p, arena_printf(c->arena, "%s/%.*s", kind, BYTES_ARG(name)), &decision, err);
	else
		decision = DECISION_ALLOWED;
	return decision;
}

void v1_resource(struct v1_call *c, const char *kind, struct bytes name)
{
	size_t len = strlen(kind);
	char  *text;

	if (c->resource_count == V1_RESOURCES_MAX) {
		c->too_many = true;
		return;
	}
	if (c->resource_count % 16 == 0) {
		struct bytes *more = arena_array(c->arena, c->resource_count + 16, sizeof(*more));

		if (c->resource_count > 0)
			memcpy(more, c->resources, c->resource_count * sizeof(*more));
		c->resources = more;
	}
	text = arena_alloc(c->arena, len + 1 + name.len); /* not printf: every call comes by here */
	memcpy(text, kind, len);
	text[len] = '/';
	if (name.len > 0) /* nothing, if what was sent has none */
		memcpy(text + len + 1, name.data, name.len);
	c->resources[c->resource_count++] = (struct bytes){text, len + 1 + name.len};
}

/* Any other value is a mistake: whoever relies on statuses must not find out by letting everyone in. */
bool v1_enforces_status(struct v1_call *c, struct err *err)
{
	struct bytes enforce = v1_query(c, "enforce", err);

	if (enforce.data == NULL || err->code != ERR_NONE)
		return false;
	if (!bytes_is(enforce, "status"))
		err_field(err, ERR_INVALID, "enforce", "?enforce: must be status");
	return true;
}
