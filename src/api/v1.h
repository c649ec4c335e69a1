/* V1: the identity API, HTTP + JSON, for the dispatcher (dispatch.h). A route is a row of a table: method and path, what
 * it is called in policies and metrics, and four functions: name; decode; run, in its turn if it writes; encode.
 *
 * run reads and decides; it puts what is to be written into call->ctx and does not write itself, so that
 * one place commits (and retries, where others may have written in between: run may be called again), and an
 * Idempotency-Key is kept in the same commit.
 *
 * Errors are problem+json (api.h); codes and statuses are in base/err.h. */
#ifndef API_V1_H
#define API_V1_H

#include "api/dispatch.h"
#include "json/write.h"
#include "service/context.h"
#include "service/idempotency.h"
#include "service/user_filter.h"

enum {
	V1_PARAMS_MAX = 4,
	V1_RESOURCES_MAX = 512, /* as many as there may be journeys, and some */
	V1_HEADERS_MAX = 8,
	V1_HELD_MAX = 4,
	V1_BODY_BYTES_MAX = 64 * 1024, /* unless a route says otherwise */
	V1_PARAM_BYTES_MAX = 1024,
};

/* For body_bytes_max: whatever is sent as a body is not looked at. */
#define V1_BODY_IGNORED UINT32_MAX

/* For query: whatever stands there is not looked at, or the route looks itself. */
#define V1_QUERY_ANY "*"

struct v1_call;

struct spooled;
struct rules;
struct attempt;

struct v1_route {
	enum http_method method; /* HTTP_OTHER: any */
	const char      *path;   /* "/v1/subjects/{id}": a segment in braces is a parameter, in order; {*} at
	                               the end: whatever follows, or nothing */
	enum call_kind   kind;   /* decode may make a call of one that writes a READ */
	const char      *action; /* "RecordAttempt": gatehouse:RecordAttempt in policies, and in metrics */
	uint32_t         body_bytes_max; /* 0: it takes no body */
	const char      *query; /* the parameters it knows: "journey name"; "" for none, V1_QUERY_ANY */

	/* Says what policies are asked about (v1_resource), by what the path, the query or the body name, and reads nothing else.
	 * Its errors are about those names, and do not depend on what exists. NULL: the action has no resource, "*". */
	enum err_code (*name)(struct v1_call *c, struct err *err);
	/* Once that is allowed: fills call->request, from params, query and body. */
	enum err_code (*decode)(struct v1_call *c, struct err *err);
	/* Fills call->result and the changes of call->ctx. */
	enum err_code (*run)(struct v1_call *c, struct err *err);
	/* Writes the body, and may set status and headers. On the loop, or in the turn. */
	void (*encode)(struct v1_call *c, struct json_writer *w);

	/* What few routes need; NULL: nothing. On the loop, before the call is answered, and exactly one of the two.
	 *
	 * committed: it holds. What it changes is durable (a READ changes nothing). */
	void (*committed)(struct v1_call *c);
	/* refused: it does not hold. Gives back what run took. With an error, run or its commit failed, or run was
	 * never called; returns ERR_NONE if the route filled the result instead, which is then the answer. With
	 * ERR_NONE, an earlier answer is replayed. */
	enum err_code (*refused)(struct v1_call *c, enum err_code rc, struct err *err);
};

/* How a call has to do with a resource. */
enum v1_use {
	V1_OWN,     /* it is about it: the call must be allowed there */
	V1_LOOKED,  /* a limit that it only looks at: as if it had asked POST /v1/allow */
	V1_TOUCHED, /* it finds or changes something of it: the call must not be denied there */
};

/* What policies are asked about: journey/SIGN_IN. */
struct v1_resource {
	const char  *kind;
	struct bytes name;
	enum v1_use  use;
};

/* A lock that was changed. */
struct v1_changed {
	struct bytes subject, journey, name;
};

struct v1_call {
	struct call            call;
	struct context         ctx; /* its time: when the call came, and from run on the table's */
	const struct v1_route *route;
	struct bytes           params[V1_PARAMS_MAX]; /* percent-decoded */
	const struct json     *body;                  /* NULL if there is none */
	struct json_reader    *json;                  /* this thread's, in decode */

	/* What policies are asked about; none of V1_OWN: "*". Set by name. */
	struct v1_resource *resources;
	uint32_t            resource_count;
	bool                any_will_do; /* one that is allowed is enough: the answer leaves the others out */
	bool                too_many;    /* more than V1_RESOURCES_MAX */
	bool everything; /* it is about whatever there is: a key that is denied some of it is denied this */
	bool all_users;  /* the same of users alone */
	bool asked;      /* policies were: it is too late for another resource */

	/* The route's own, in the arena: v1_request. What it asks and what it is answered; each run begins with it as it was before the
	 * first of its turn (context.h, run_state). Only what must outlive a run, such as units that are taken, is behind a pointer. */
	void  *request, *result;
	size_t request_bytes;
	void (*release)(struct v1_call *c); /* set by decode, called once, before it is answered */
	/* Set by decode: shall it have another turn (dispatch.h)? NULL: never. */
	bool (*again)(struct v1_call *c, enum err_code rc, bool last, int64_t *pause_us);
	/* Set by decode or run: shall its answer wait, is it a stream (dispatch.h)? NULL: no. */
	bool (*waits)(struct v1_call *c);
	bool (*stream)(struct v1_call *c);
	struct document    *held[V1_HELD_MAX]; /* documents in force that it reads: v1_hold */
	const struct rules *rules;             /* v1_rules; NULL: not asked for yet */
	unsigned            held_count;
	unsigned            held_before; /* of them, those that were held when the turn began */
	const struct rules *rules_before;

	/* Set by decode, if an answer with a secret can be made whole again for a replay: the body, from what was kept. */
	struct bytes (*rebuild)(struct v1_call *c, struct bytes kept);
	struct idempotency once; /* from run on: of a keyed request, its key is not empty */

	/* Of a route that goes on while tables do not answer (service/outage.h). Set by decode: whom it is about, NULL: it is refused then;
	 * and, if it writes, what is recorded of it, NULL: it is answered if it is refused, and else it fails. */
	const struct attempt *who;
	void (*record)(struct v1_call *c, struct spooled *out);

	/* Set by decode or run: the subject, if neither the path nor `changed` names it. For the audit log and for a kept answer. */
	struct bytes about;

	struct http_header headers[V1_HEADERS_MAX];

	/* ---- set by run and encode: all zeros, and 200, before each run ---- */

	unsigned    header_count;
	int         status;
	const char *content_type; /* NULL: JSON */

	/* For the audit log, of a route that changes what its path does not name: all of it. */
	struct v1_changed *changed;
	uint32_t           changed_count;

	/* The answer tells something that must not be stored. Then encode is called twice for a keyed
	 * request, once with `keeping`: what a replay is answered, without it. */
	bool               has_secret, keeping;
	struct kept_answer kept;     /* of a keyed request: the answer, this one's or the first one's */
	bool               replayed; /* it was the first one's */
	bool               denies;   /* the answer refuses whoever it is about */
	bool               changes_something; /* run did, whatever is kept with it */
};

/* ---- for routes ---- */

/* In decode: memory for call->request, all zeros. */
void *v1_request(struct v1_call *c, size_t bytes);

/* ERR_INVALID if the query has a parameter that is not among `known` ("journey name"), or one twice. */
enum err_code v1_query_check(struct v1_call *c, const char *known, struct err *err);

/* A query parameter, percent-decoded; NULL data if absent. ERR_INVALID if it cannot be decoded. */
enum err_code v1_query(struct v1_call *c, const char *name, struct bytes *out, struct err *err);
void          v1_header(struct v1_call *c, struct bytes name, struct bytes value);

/* Only in name; the first is V1_OWN. */
void v1_resource(struct v1_call *c, const char *kind, struct bytes name);
void v1_resource_used(struct v1_call *c, enum v1_use use, const char *kind, struct bytes name);

/* ---- what turns up after the caller's policy was asked. Any thread; quick for keys that are denied nothing ---- */

/* What the policy says of this call on KIND/NAME. Unless it is allowed, *err is filled; err may be NULL. */
enum decision v1_decide(const struct v1_call *c, const char *kind, struct bytes name, struct err *err);

/* Is it allowed? For rows that are resources themselves. */
bool v1_allowed(const struct v1_call *c, const char *kind, struct bytes name);

/* Is it denied by name? For rows that are about something else as well: a device of a user, an event about one. The key need not be
 * allowed that. */
bool v1_denied(const struct v1_call *c, const char *kind, struct bytes name);

/* Could this call be denied something of that kind? */
bool v1_could_deny(const struct v1_call *c, const char *kind);

/* The users whom it denies to this call, for services. Lives as long as the call. */
struct user_filter v1_users_denied(const struct v1_call *c);

/* ERR_ACCESS if it is denied by name. */
enum err_code v1_check_denied(const struct v1_call *c, const char *kind, struct bytes name, struct err *err);

/* Is another action allowed there, as if it was called? */
bool v1_allowed_to(const struct v1_call *c, const char *action, const char *kind, struct bytes name);

/* Does the policy allow gatehouse:ACTION on everything, without a Deny for anything? */
bool v1_may_all(const struct v1_call *c, const char *action);

/* Takes over a reference, until the call is answered. */
void v1_hold(struct v1_call *c, struct document *document);

/* ---- for the dispatcher, metrics, tests ---- */

extern const struct protocol v1_protocol;

const struct v1_route *v1_route_at(unsigned index);
unsigned               v1_route_index(const struct v1_route *route);

/* A path under /v1 is answered here, with 404 and 405 too. */
void v1_handle(struct api_loop *l, struct http_request *r);

/* ---- for v1_outage.c ---- */

/* To be decided anew, on that table. */
void v1_reset(struct v1_call *c, struct table *t);

/* One decision and its commit, after v1_reset. */
enum err_code v1_run_once(struct v1_call *c, struct table *t, struct err *err);

/* Whom a call is about, if it is one subject; as it is stored. */
struct bytes v1_subject_of(const struct v1_call *c);

/* ---- for lambda.c, whose protocol is this one but for how it identifies and answers ---- */

struct v1_match;
enum err_code     v1_foresee(struct call *call, struct err *err);
enum err_code     v1_name(struct call *call, struct json_reader *json, struct err *err);
enum err_code     v1_decode(struct call *call, struct json_reader *json, struct err *err);
enum err_code     v1_authorise(struct call *call, struct err *err);
enum err_code     v1_run(struct call *call, struct table *t, struct err *err);
bool              v1_again(struct call *call, enum err_code rc, bool last, int64_t *pause_us);
struct call_label v1_label(const struct call *call);
void              v1_audit(const struct call *call, enum err_code outcome, struct audit *audit);
void              v1_release(struct call *call);

/* A call of that route. */
struct v1_call *v1_call_begin(struct api_loop *l, struct http_request *r, const struct v1_match *match,
                              const struct protocol *protocol);

/* How the call ended, once its route was told. */
enum err_code v1_conclude(struct v1_call *c, enum err_code rc, struct err *err);

#endif
