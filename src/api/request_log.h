/* Request log: one line for each request that was dispatched, as base/log.h writes it:
 *
 *   {"time": …, "level": …, "msg": "request", "request_id": …, "operation": …, "outcome": …, "status": …,
 *    "micros": …, "trace_id": …, "key_id": …}
 *
 * Failures of ours (5xx) always, everything else only if asked for. Every value comes from a table of ours
 * or has a fixed alphabet and length: no key, attribute, header or address of a peer's can get in. */
#ifndef API_REQUEST_LOG_H
#define API_REQUEST_LOG_H

#include "base/err.h"

enum { TRACE_ID_LENGTH = 32 };

struct request_note {
	struct bytes  id;
	struct bytes  operation; /* operation_label, or a route's action */
	enum err_code outcome;
	int           status;
	int64_t       micros;      /* from received to answered */
	struct bytes  traceparent; /* the header, as it came */
	struct bytes  key_id;      /* of an authenticated caller; else empty */
};

/* Should this status be logged, if all requests are, or only failures? */
bool request_log_wants(bool all, int status);
void request_log(const struct request_note *note);

/* The trace id of a W3C traceparent header; empty if the header is absent or malformed. */
struct bytes traceparent_trace_id(struct bytes header);

/* How outcomes are called, here and in the metrics: "ok" or the error's public name. */
struct bytes outcome_name(enum err_code outcome);

#endif
