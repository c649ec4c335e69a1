/* DynamoDB: its protocol, for the dispatcher (dispatch.h): POST /, an operation named by a header, JSON.
 *
 * An operation is a row of a table: read, decode, run on any struct table, encode. The steps need no socket, no store and
 * no dispatcher: tests and the fuzzer do them in a row. */
#ifndef API_DYNAMODB_H
#define API_DYNAMODB_H

#include "api/dispatch.h"
#include "dynamo/request.h"
#include "dynamo/result.h"

#define DYNAMODB_TARGET_PREFIX "DynamoDB_20120810."

/* Which member of struct dynamo_request's union an operation uses. */
enum request_form {
	FORM_GET,
	FORM_WRITE,
	FORM_QUERY,
	FORM_BATCH,
	FORM_TRANSACT_GET,
	FORM_TRANSACT_WRITE, /* up to here: items, and ReturnConsumedCapacity */
	FORM_CREATE,
	FORM_ALTER,
	FORM_TTL,
	FORM_TABLE,
	FORM_NONE, /* it names no table: list, or nothing */
};

struct operation {
	struct bytes      name;
	enum call_kind    kind;
	enum request_form form;
	enum err_code (*decode)(struct arena *a, const struct json *body, struct dynamo_request *out,
	                        struct err *err);
	enum err_code (*run)(struct table *t, struct arena *a, const struct dynamo_request *q,
	                     struct dynamo_result *r, struct err *err);
	enum err_code (*encode)(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
	                        const struct dynamo_result *r);
};

/* In the order of the table; NULL past its end. */
const struct operation *operation_at(unsigned index);

/* The operation that an X-Amz-Target header names; NULL if none. */
const struct operation *operation_named(struct bytes target);

/* What it is called in the log and in metrics; "unknown" if it is NULL. */
struct bytes operation_label(const struct operation *operation);

/* A call belongs to one thread at a time, and lives as long as its arena. */
struct dynamodb_call {
	struct call             call;
	struct arena           *arena;
	const struct operation *operation; /* set once read */
	const struct json      *body;      /* the same */
	struct dynamo_request   request;
	struct dynamo_result    result;
	struct http_header      headers[3]; /* of the answer */
	char                    crc[16];    /* of its body, in decimal */
};

/* Its arena is set. target: the X-Amz-Target header. ERR_UNKNOWN_OPERATION if it names none. */
enum err_code dynamodb_read(struct dynamodb_call *c, struct json_reader *json, struct bytes target,
                            struct bytes body, struct err *err);

/* Of one that was read. */
enum err_code dynamodb_decode(struct dynamodb_call *c, struct err *err);

enum err_code dynamodb_run(struct dynamodb_call *c, struct table *t, struct err *err);

/* Appends the answer to a call that was run. The outcome is ERR_NONE or one of the results that DynamoDB
 * reports as errors (a false condition, a cancelled transaction); err_status says its HTTP status. */
enum err_code dynamodb_encode(struct dynamodb_call *c, struct buf *out);

/* Appends the answer to one that failed, at any step. Returns its HTTP status. */
int dynamodb_encode_error(struct arena *a, enum err_code code, const struct err *err, struct buf *out);

/* ---- for routes ---- */

void dynamodb_handle(struct api_loop *l, struct http_request *r);

/* Answers with this error, whatever was asked. */
void dynamodb_refuse(struct http_request *r, const struct err *err);

#endif
