/* Call: one request of DynamoDB's protocol, from bytes to bytes, without a socket or an engine: decode, run
 * on any struct table, encode. door.c does these steps on the right threads; tests do them in a row.
 *
 * A call belongs to one thread at a time, and lives as long as its arena. */
#ifndef API_CALL_H
#define API_CALL_H

#include "api/operations.h"

#define CALL_TARGET_PREFIX "DynamoDB_20120810."

struct call {
	struct arena           *arena;
	const struct operation *operation; /* set once decoded */
	struct dynamo_request   request;
	struct dynamo_result    result;
};

/* The operation that an X-Amz-Target header names; NULL if none. */
const struct operation *call_operation(struct bytes target);

/* target: the X-Amz-Target header. ERR_UNKNOWN_OPERATION if it names none. */
enum err_code call_decode(struct call *c, struct arena *a, struct json_reader *reader, struct bytes target,
                          struct bytes body, struct err *err);

enum err_code call_run(struct call *c, struct table *t, struct err *err);

/* Appends the answer to a call that was run. The outcome is ERR_NONE or one of the results that DynamoDB
 * reports as errors (a false condition, a cancelled transaction); err_status says its HTTP status. */
enum err_code call_encode(struct call *c, struct buf *out);

/* Appends the answer to one that failed, at any step. */
int call_encode_error(struct arena *a, enum err_code code, const struct err *err, struct buf *out);

#endif
