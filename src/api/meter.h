/* Meter: what was answered, counted and logged: by operation and outcome, and how long it took. Both sets are tables of
 * ours (dynamodb.c, v1_routes.c, base/err.h), so a peer cannot make them grow.
 *
 * Each loop adds to a shard of its own (with many loops some share one), so that adding stays off the other
 * cores' cache lines; reading adds the shards up. Any thread may read. */
#ifndef API_METER_H
#define API_METER_H

#include <stdalign.h>

#include "base/err.h"
#include "base/metric.h"
#include "service/push_feedback.h"

struct operation;

#define METER_ONE_MORE(...) +1

enum {
	METER_SHARDS = 8,
	METER_OPERATIONS_MAX = 47, /* DynamoDB's; a test holds the table to it */
	METER_ROUTES_MAX = 128,    /* those of /v1 */
	METER_ROWS = 1 + METER_OPERATIONS_MAX + METER_ROUTES_MAX,
	METER_OUTCOMES = 1 ERR_CODES(METER_ONE_MORE), /* ERR_NONE and every code */
};

struct meter_row {
	struct metric_counter   outcomes[METER_OUTCOMES];
	struct metric_histogram latency; /* microseconds */
};

/* Tokens of known devices: issued; sent and good for a lane, or not; spent, and their device forgotten. */
enum meter_device {
	METER_DEVICE_ISSUED,
	METER_DEVICE_KNOWN,
	METER_DEVICE_UNKNOWN,
	METER_DEVICE_SPENT,
	METER_DEVICES
};

/* Users: codes that were asked for, entries of codes, and what two wanted at once. X(id, family, label) */
#define METER_USERS(X)                                                                                       \
	X(METER_CODE_MADE, "codes", "made")                                                                  \
	X(METER_CODE_REFUSED, "codes", "refused")                                                            \
	X(METER_ENTRY_RIGHT, "entries", "right")                                                             \
	X(METER_ENTRY_WRONG, "entries", "wrong")                                                             \
	X(METER_ENTRY_NO_CODE, "entries", "no_code")                                                         \
	X(METER_ENTRY_LOST, "entries", "lost")                                                               \
	X(METER_ENTRY_REFUSED, "entries", "refused")                                                         \
	X(METER_CONFLICT_EMAIL, "conflicts", "email")                                                        \
	X(METER_CONFLICT_ID, "conflicts", "id")                                                              \
	X(METER_CONFLICT_VERSION, "conflicts", "version")                                                    \
	X(METER_REVOKED_TOKEN, "revocations", "token")                                                       \
	X(METER_REVOKED_USER, "revocations", "user")                                                         \
	X(METER_REVOKED_CLIENT, "revocations", "client")                                                     \
	X(METER_REVOKED_ALL, "revocations", "all")

enum meter_user {
#define X(id, family, label) id,
	METER_USERS(X)
#undef X
	        METER_USER_COUNT
};

/* Registered devices: registered for the first time, or again; that lost a token to another, or went to make room. */
enum meter_push {
	METER_PUSH_CREATED,
	METER_PUSH_REFRESHED,
	METER_PUSH_MOVED,
	METER_PUSH_TRIMMED,
	METER_PUSHES
};

struct meter_shard {
	alignas(64) struct meter_row rows[METER_ROWS]; /* the first: no operation of ours */
	struct metric_counter devices[METER_DEVICES];
	struct metric_counter users[METER_USER_COUNT];
	struct metric_counter push[METER_PUSHES];
	struct metric_counter push_feedback[FEEDBACK_OUTCOMES];
};

struct meter {
	struct meter_shard shards[METER_SHARDS];
};

/* Which row: of an operation (NULL if the request named none of ours), of a route by its index. */
unsigned meter_operation_row(const struct operation *operation);
unsigned meter_route_row(unsigned index);

/* One answer. */
void meter_note(struct meter_shard *s, unsigned row, enum err_code outcome, int64_t micros);

/* All shards together. The counter is one within a shard. */
uint64_t              meter_sum(const struct meter *m, const struct metric_counter *in_first_shard);
uint64_t              meter_requests(const struct meter *m, unsigned row, enum err_code outcome);
struct metric_reading meter_latency(const struct meter *m, unsigned row);

/* How the outcomes of a row are called, in metrics and logs: "ok", or the error as its caller sees it: DynamoDB's exception, or
 * the type of /v1's problem, without its prefix ("not-found"). */
bool         meter_is_route(unsigned row);
struct bytes meter_outcome_name(unsigned row, enum err_code outcome);
int          meter_outcome_status(unsigned row, enum err_code outcome); /* of an error */

/* ---- the log: one line for each request that was dispatched, as base/log.h writes it:
 *
 *   {"time": …, "level": …, "msg": "request", "request_id": …, "operation": …, "outcome": …, "status": …,
 *    "micros": …, "trace_id": …, "key_id": …}
 *
 * Failures of ours (5xx) always, everything else only if asked for. Every value comes from a table of ours
 * or has a fixed alphabet and length: no key, attribute, header or address of a peer's can get in. */

enum { TRACE_ID_LENGTH = 32 };

struct request_note {
	struct bytes id;
	struct bytes operation; /* operation_label, or a route's action */
	struct bytes outcome;   /* meter_outcome_name */
	int          status;
	int64_t      micros;      /* from received to answered */
	struct bytes traceparent; /* the header, as it came */
	struct bytes key_id;      /* of an authenticated caller; else empty */
};

/* Should this status be logged, if all requests are, or only failures? */
bool request_log_wants(bool all, int status);
void request_log(const struct request_note *note);

/* The trace id of a W3C traceparent header; empty if the header is absent or malformed. */
struct bytes traceparent_trace_id(struct bytes header);
#endif
