/* V1: what the dispatcher asks of the protocol, and what routes share. See v1.h. */
#include "api/v1.h"

#include <assert.h>

#include "api/authorise.h"
#include "api/api.h"
#include "api/meter.h"
#include "api/v1_outage.h"
#include "api/v1_routes.h"
#include "service/assess.h"
#include "service/event.h"

/* ---- who it is, what it asks ---- */

static enum err_code identify(struct call *call, struct err *err)
{
	return auth_identify_v1(call->http, &call->who, err);
}

enum err_code v1_foresee(struct call *call, struct err *err)
{
	return authorise_foresee_v1(&call->who, ((struct v1_call *)call)->route->action, &call->reach, err);
}

static enum err_code read_body(struct v1_call *c, struct json_reader *json, struct err *err)
{
	struct bytes body = c->call.http->body;
	struct json *tree;

	if (body.len == 0 || c->route->body_bytes_max == V1_BODY_IGNORED)
		return ERR_NONE;
	if (c->route->body_bytes_max == 0)
		return err_set(err, ERR_SERIALIZATION, "this call takes no body; send none");
	if (body.len > c->route->body_bytes_max)
		return err_set(err, ERR_TOO_LARGE, "the body must have at most %u bytes",
		               c->route->body_bytes_max);
	if (json_read(json, c->ctx.arena, body, &tree, err) != ERR_NONE)
		return err->code;
	c->body = tree;
	return ERR_NONE;
}

/* What the body says of itself comes first: it does not depend on anything else. */
enum err_code v1_name(struct call *call, struct json_reader *json, struct err *err)
{
	struct v1_call *c = (struct v1_call *)call;

	c->json = json;
	if (call->key_id.len > 0)
		c->ctx.caller = call->key_id;
	if (read_body(c, json, err) != ERR_NONE)
		return err->code;
	return c->route->name != NULL ? c->route->name(c, err) : ERR_NONE;
}

/* What makes two requests the same: who sends what where. A body is compared by what it means, not by its bytes: a retry
 * may be written anew, by a library that orders members in its own way. Digest and key are
 * stored as keyed hashes: a body holds emails and addresses, a key what its caller made it of, and nobody should be able
 * to try those out. */
static enum err_code read_once(struct v1_call *c, struct err *err)
{
	struct http_request *r = c->call.http;
	struct bytes         key = http_header_get(r, "idempotency-key");
	struct json_writer   writer;
	struct buf           whole;

	/* A route that ignores the body is asked by headers, which the digest does not cover, for others. */
	if (key.data == NULL || c->route->kind == READ || c->route->body_bytes_max == V1_BODY_IGNORED)
		return ERR_NONE;
	if (key.len < 1 || key.len > IDEMPOTENCY_KEY_MAX || !bytes_is_utf8(key))
		return err_field(err, ERR_INVALID, "Idempotency-Key",
		                 "Idempotency-Key: must have 1 to %d bytes of UTF-8", IDEMPOTENCY_KEY_MAX);
	buf_init(&whole, c->ctx.arena);
	buf_add_bytes(&whole, arena_printf(c->ctx.arena, "%d %.*s\n", (int)r->method, BYTES_ARG(r->target)));
	if (c->body != NULL) {
		json_writer_init(&writer, &whole);
		json_tree_canonical(&writer, c->body, c->ctx.arena);
	}
	hmac_sha256(&c->ctx.services->identifiers.hmac, buf_bytes(&whole), c->once.digest);
	c->once.key =
	        identifier_hash_text(&c->ctx.services->identifiers, c->ctx.arena, "idempotency-key", key);
	c->once.caller = c->ctx.caller;
	return ERR_NONE;
}

/* ---- may it? ---- */

static struct v1_question question_of(const struct v1_call *c, const char *action)
{
	return (struct v1_question){&c->call.who, c->ctx.now_us / 1000000, c->ctx.arena, action};
}

static enum err_code check(const struct v1_call *c, const char *action, const struct v1_resource *r,
                           struct err *err)
{
	struct v1_question p = question_of(c, action);
	enum decision d = authorise_v1(&p, r == NULL ? NULL : r->kind, r == NULL ? BYTES("") : r->name, err);

	return d == DECISION_ALLOWED ? ERR_NONE : err->code;
}

/* What it is about itself. */
static enum err_code check_own(const struct v1_call *c, struct err *err)
{
	enum err_code rc = ERR_NONE;
	bool          any = false;

	if (c->call.reach == REACH_ALL)
		return ERR_NONE;
	for (uint32_t i = 0; i < c->resource_count; i++) {
		if (c->resources[i].use != V1_OWN)
			continue;
		any = true;
		rc = check(c, c->route->action, &c->resources[i], err);
		if ((rc == ERR_NONE) == c->any_will_do)
			return rc;
	}
	return any ? rc : check(c, c->route->action, NULL, err);
}

static enum err_code check_others(const struct v1_call *c, struct err *err)
{
	enum err_code rc = ERR_NONE;

	for (uint32_t i = 0; i < c->resource_count && rc == ERR_NONE; i++) {
		const struct v1_resource *r = &c->resources[i];

		if (r->use == V1_LOOKED && c->call.who.key != NULL)
			rc = check(c, "Allow", r, err);
		else if (r->use == V1_TOUCHED)
			rc = v1_check_denied(c, r->kind, r->name, err);
	}
	return rc;
}

static enum err_code check_whole(const struct v1_call *c, struct err *err)
{
	if (c->call.reach == REACH_ALL || (!c->everything && !(c->all_users && v1_could_deny(c, "user"))))
		return ERR_NONE;
	return err_set(err, ERR_ACCESS,
	               "the key's policy must %s gatehouse:%s on %s, because the call is about every user",
	               c->everything ? "allow" : "not deny", c->route->action,
	               c->everything ? "* and deny it nowhere" : "any user");
}

enum err_code v1_authorise(struct call *call, struct err *err)
{
	struct v1_call *c = (struct v1_call *)call;

	c->asked = true;
	if (c->too_many) /* none goes unasked */
		return err_set(err, ERR_LIMIT,
		               "one call may concern at most %d journeys, limits, states and resets together",
		               V1_RESOURCES_MAX);
	if (call->reach == REACH_SOME && (c->route->kind == READ || c->everything) &&
	    v1_may_all(c, c->route->action))
		call->reach = REACH_ALL; /* under conditions, which hold: rows need not be asked about */
	if (check_own(c, err) != ERR_NONE || check_whole(c, err) != ERR_NONE)
		return err->code;
	return check_others(c, err);
}

/* ---- the rest of it ---- */

/* At last, what makes it one that was answered before. */
enum err_code v1_decode(struct call *call, struct json_reader *json, struct err *err)
{
	struct v1_call *c = (struct v1_call *)call;

	(void)json;
	if (strcmp(c->route->query, V1_QUERY_ANY) != 0 && v1_query_check(c, c->route->query, err) != ERR_NONE)
		return err->code;
	c->status = 200;
	call->kind = c->route->kind == READ ? READ : WRITE;
	if (c->route->decode != NULL && c->route->decode(c, err) != ERR_NONE)
		return err->code;
	if (c->who != NULL && c->who->subject_count > 0)
		call->turn.subject = c->who->subjects[0];
	return read_once(c, err);
}

/* ---- running ---- */

static void encode(struct v1_call *c, struct buf *out)
{
	struct json_writer writer;

	json_writer_init(&writer, out);
	c->route->encode(c, &writer);
	buf_add(out, "\n", 1);
}

struct bytes v1_subject_of(const struct v1_call *c)
{
	struct bytes path = bytes_of(c->route->path);
	bool         in_path = bytes_starts_with(path, BYTES("/v1/subjects/{")) ||
	               bytes_starts_with(path, BYTES("/v1/users/{"));

	return in_path ? c->params[0] : c->about;
}

/* The answer is made in the turn, to be committed with what it answers. */
static void keep_answer(struct v1_call *c)
{
	struct buf out;

	buf_init(&out, c->ctx.arena);
	c->keeping = true;
	encode(c, &out);
	c->keeping = false;
	c->kept = (struct kept_answer){true, c->status, buf_bytes(&out)};
	c->once.about = v1_subject_of(c);
	idempotency_keep(&c->ctx, &c->once, c->status, c->kept.body);
	if (c->has_secret) { /* this time it is told */
		buf_init(&out, c->ctx.arena);
		c->header_count = 0;
		encode(c, &out);
		c->kept.body = buf_bytes(&out);
	}
}

static void release_to(struct v1_call *c, unsigned count)
{
	while (c->held_count > count)
		document_release(c->held[--c->held_count]);
}

/* It may be decided anew: nothing that a run set is left. */
static void call_fresh(struct v1_call *c)
{
	size_t from = offsetof(struct v1_call, header_count);

	memset((char *)c + from, 0, sizeof(*c) - from);
	c->status = 200;
	release_to(c, c->held_before);
	c->rules = c->rules_before;
}

static void turn_begin(struct v1_call *c)
{
	c->held_before = c->held_count;
	c->rules_before = c->rules;
	ctx_state(&c->ctx, c->request, c->request_bytes);
}

void v1_reset(struct v1_call *c, struct table *t)
{
	ctx_begin(&c->ctx, t);
	call_fresh(c);
}

enum err_code v1_run_once(struct v1_call *c, struct table *t, struct err *err)
{
	bool keyed = c->once.key.len > 0;

	if (keyed && idempotency_find(&c->ctx, &c->once, &c->kept, err) != ERR_NONE)
		return err->code;
	c->replayed = c->kept.found;
	if (c->replayed)
		return ERR_NONE;
	if (c->route->run(c, err) != ERR_NONE)
		return err->code;
	c->changes_something = c->ctx.changes.count > 0;
	if (keyed && (c->changes_something ||
	              !c->ctx.degraded)) /* what did nothing is decided anew, once tables answer */
		keep_answer(c);
	return changes_commit(&c->ctx.changes, t, err);
}

/* ---- a turn ---- */

static enum err_code contended(struct err *err)
{
	return err_set(err, ERR_CONTENDED, "too many requests changed this at once; try again");
}

/* Others were in its way until its time was over. Then the table did not fail: it answered all along. */
static bool lost_until_late(const struct v1_call *c, const struct table *t, enum err_code rc,
                            unsigned decisions)
{
	return decisions > 1 && (rc == ERR_OVERLOADED || rc == ERR_THROTTLED) && !c->ctx.changes.unsure &&
	       !v1_is_out(c, t);
}

/* A READ asks for no changes. */
static enum err_code run_here(struct v1_call *c, struct table *t, struct err *err)
{
	unsigned      decisions = 0;
	enum err_code rc;

	do {
		ctx_begin(&c->ctx, t);
		ctx_foresee(&c->ctx);
		do {
			call_fresh(c);
			rc = c->call.kind == READ ? c->route->run(c, err) : v1_run_once(c, t, err);
		} while (ctx_again(&c->ctx, &rc, err));
		if (c->call.kind == READ)
			return rc;
	} while (ctx_decides_again(&c->ctx, rc, ++decisions));
	return lost_until_late(c, t, rc, decisions) ? contended(err) : rc;
}

enum err_code v1_run(struct call *call, struct table *t, struct err *err)
{
	struct v1_call *c = (struct v1_call *)call;
	enum err_code   rc;

	turn_begin(c);
	if (v1_is_out(c, t))
		return v1_run_degraded(c, t, err);
	if (v1_is_denied(c, t))
		return ERR_NONE;
	rc = run_here(c, t, err);
	if (rc == ERR_NONE)
		v1_note_denied(c, t);
	else if (v1_may_take_over(c, rc))
		return v1_run_degraded(c, t, err);
	return rc == ERR_CONDITION ? contended(err) : rc;
}

/* ---- the way out ---- */

/* The route may answer what could not be written; what was made to be kept with it is void. */
static enum err_code refused(struct v1_call *c, enum err_code rc, struct err *err)
{
	if (rc != ERR_NONE) {
		c->kept = (struct kept_answer){0};
		c->replayed = false;
		c->header_count = 0;
		c->status = 200;
	}
	return c->route->refused(c, rc, err);
}

/* A route that takes something outside its changes keeps it here (`committed`) or gives it back (`refused`): one of the
 * two, once. */
enum err_code v1_conclude(struct v1_call *c, enum err_code rc, struct err *err)
{
	if (rc == ERR_NONE && !c->replayed) {
		ctx_published(&c->ctx);
		if (c->route->committed != NULL)
			c->route->committed(c);
		return ERR_NONE;
	}
	return c->call.admitted && c->route->refused != NULL ? refused(c, rc, err) : rc;
}

static void answer_body(struct v1_call *c, struct http_response *out)
{
	struct buf *text;

	out->content_type = c->content_type != NULL ? c->content_type : "application/json";
	if (c->kept.found) {
		if (bytes_starts_with(c->kept.body, BYTES("{\"type\":\"" ERR_TYPE_PREFIX)))
			out->content_type = PROBLEM_CONTENT_TYPE; /* of a replay only the text is known */
		out->status = c->kept.status;
		out->body = c->replayed && c->rebuild != NULL ? c->rebuild(c, c->kept.body) : c->kept.body;
		return;
	}
	text = api_loop_answer(c->call.loop);
	encode(c, text);
	out->status = c->status;
	out->body = buf_bytes(text);
}

static void answer_error(struct v1_call *c, enum err_code rc, const struct err *err,
                         struct http_response *out)
{
	struct buf *text = api_loop_answer(c->call.loop);

	c->header_count = 0;
	problem_write_err(text, rc, err);
	out->status = err_v1_status(rc);
	out->content_type = PROBLEM_CONTENT_TYPE;
	out->body = buf_bytes(text);
}

static bool has_header(const struct v1_call *c, const char *name)
{
	for (unsigned i = 0; i < c->header_count; i++)
		if (bytes_is(c->headers[i].name, name))
			return true;
	return false;
}

static enum err_code answer(struct call *call, enum err_code rc, struct err *err, struct http_response *out)
{
	struct v1_call *c = (struct v1_call *)call;

	rc = v1_conclude(c, rc, err);
	if (rc == ERR_NONE)
		answer_body(c, out);
	else
		answer_error(c, rc, err, out);
	v1_header(c, BYTES("X-Request-Id"), call->request_id);
	if (c->replayed)
		v1_header(c, BYTES("Idempotency-Replayed"), BYTES("true"));
	if ((out->status == 503 || rc == ERR_CALLER_THROTTLED) && !has_header(c, "Retry-After"))
		v1_header(c, BYTES("Retry-After"), BYTES("1"));
	if (out->status == 401 && !has_header(c, "WWW-Authenticate"))
		v1_header(c, BYTES("WWW-Authenticate"), BYTES("Bearer"));
	out->headers = c->headers;
	out->header_count = c->header_count;
	return rc;
}

struct call_label v1_label(const struct call *call)
{
	const struct v1_route *route = ((const struct v1_call *)call)->route;

	return (struct call_label){meter_route_row(v1_route_index(route)), bytes_of(route->action)};
}

void v1_release(struct call *call)
{
	struct v1_call *c = (struct v1_call *)call;

	if (c->release != NULL)
		c->release(c);
	release_to(c, 0);
}

/* ---- the protocol ---- */

bool v1_again(struct call *call, enum err_code rc, bool last, int64_t *pause_us)
{
	struct v1_call *c = (struct v1_call *)call;

	return c->again != NULL && c->again(c, rc, last, pause_us);
}

static bool waits(struct call *call)
{
	struct v1_call *c = (struct v1_call *)call;

	return c->waits != NULL && c->waits(c);
}

static bool stream(struct call *call)
{
	struct v1_call *c = (struct v1_call *)call;

	return c->stream(c);
}

const struct protocol v1_protocol = {
        .identify = identify,
        .foresee = v1_foresee,
        .name = v1_name,
        .authorise = v1_authorise,
        .decode = v1_decode,
        .run = v1_run,
        .answer = answer,
        .again = v1_again,
        .waits = waits,
        .stream = stream,
        .label = v1_label,
        .audit = v1_audit,
        .release = v1_release,
};

struct v1_call *v1_call_begin(struct api_loop *l, struct http_request *r, const struct v1_match *match,
                              const struct protocol *protocol)
{
	struct v1_call *c = arena_alloc(&r->arena, sizeof(*c));
	struct store   *store = l->api->parts.store;

	call_init(&c->call, protocol, r);
	memset((char *)c + sizeof(c->call), 0, sizeof(*c) - sizeof(c->call));
	c->route = match->route;
	c->ctx = (struct context){.services = l->api->parts.services,
	                          .arena = &r->arena,
	                          .caller = BYTES("-"),
	                          .now_us = store->backend->now_us(store)};
	c->ctx.trace = traceparent_trace_id(http_header_get(r, "traceparent"));
	memcpy(c->params, match->params, sizeof(match->params));
	return c;
}

void v1_handle(struct api_loop *l, struct http_request *r)
{
	struct v1_match match;

	switch (v1_match(r, &match)) {
	case V1_MATCHED:
		dispatch(&v1_call_begin(l, r, &match, &v1_protocol)->call);
		break;
	case V1_OTHER_METHOD:
		problem_answer_method(l, r, match.allowed);
		break;
	case V1_BAD_PATH:
		problem_answer(l, r, ERR_SERIALIZATION, "the path is not valid percent-encoding");
		break;
	case V1_NO_PATH:
		problem_answer(l, r, ERR_NOT_FOUND, "unknown path; GET /openapi.yaml lists every call");
		break;
	}
}

/* ---- for routes ---- */

void *v1_request(struct v1_call *c, size_t bytes)
{
	c->request = arena_zalloc(c->ctx.arena, bytes);
	c->request_bytes = bytes;
	return c->request;
}

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

enum decision v1_decide(const struct v1_call *c, const char *kind, struct bytes name, struct err *err)
{
	struct v1_question p = question_of(c, c->route->action);

	return c->call.reach == REACH_ALL ? DECISION_ALLOWED : authorise_v1(&p, kind, name, err);
}

bool v1_allowed(const struct v1_call *c, const char *kind, struct bytes name)
{
	return v1_decide(c, kind, name, NULL) == DECISION_ALLOWED;
}

bool v1_denied(const struct v1_call *c, const char *kind, struct bytes name)
{
	return c->call.reach == REACH_DENIES && v1_decide(c, kind, name, NULL) == DECISION_DENIED_EXPLICITLY;
}

bool v1_could_deny(const struct v1_call *c, const char *kind)
{
	struct v1_question p = question_of(c, c->route->action);

	return c->call.reach == REACH_DENIES && authorise_could_deny_v1(&p, kind);
}

static bool is_denied_user(const void *denial, struct bytes user)
{
	return v1_denial_names(denial, user);
}

struct user_filter v1_users_denied(const struct v1_call *c)
{
	struct v1_question p = question_of(c, c->route->action);
	struct v1_denial  *denial;

	if (!v1_could_deny(c, "user"))
		return (struct user_filter){0};
	denial = arena_alloc(c->ctx.arena, sizeof(*denial));
	v1_denial_init(denial, &p, "user");
	return (struct user_filter){is_denied_user, denial};
}

enum err_code v1_check_denied(const struct v1_call *c, const char *kind, struct bytes name, struct err *err)
{
	if (!v1_denied(c, kind, name))
		return ERR_NONE;
	v1_decide(c, kind, name, err);
	return err->code;
}

bool v1_allowed_to(const struct v1_call *c, const char *action, const char *kind, struct bytes name)
{
	struct v1_question p = question_of(c, action);

	return c->call.who.key == NULL || authorise_v1(&p, kind, name, NULL) == DECISION_ALLOWED;
}

bool v1_may_all(const struct v1_call *c, const char *action)
{
	struct v1_question p = question_of(c, action);

	return c->call.who.key == NULL || authorise_all_v1(&p);
}

void v1_resource(struct v1_call *c, const char *kind, struct bytes name)
{
	v1_resource_used(c, V1_OWN, kind, name);
}

void v1_resource_used(struct v1_call *c, enum v1_use use, const char *kind, struct bytes name)
{
	assert(!c->asked);
	if (c->resource_count == V1_RESOURCES_MAX) {
		c->too_many = true;
		return;
	}
	if (c->resource_count % 16 == 0) {
		struct v1_resource *more = arena_array(c->ctx.arena, c->resource_count + 16, sizeof(*more));

		if (c->resource_count > 0)
			memcpy(more, c->resources, c->resource_count * sizeof(*more));
		c->resources = more;
	}
	c->resources[c->resource_count++] = (struct v1_resource){kind, name, use};
}
