/* Operations: DynamoDB's, as one table that the door, the fuzzer and the tests read. */
#ifndef API_OPERATIONS_H
#define API_OPERATIONS_H

#include "dynamo/request.h"
#include "dynamo/result.h"

enum operation_kind {
	READ,       /* runs at once, on what is committed */
	WRITE,      /* waits for its turn with the writer */
	ADMINISTER, /* a write that the audit log is told of; routes of /v1 only */
};

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
	struct bytes        name;
	enum operation_kind kind;
	enum request_form   form;
	enum err_code (*decode)(struct arena *a, const struct json *body, struct dynamo_request *out,
	                        struct err *err);
	enum err_code (*run)(struct table *t, struct arena *a, const struct dynamo_request *q,
	                     struct dynamo_result *r, struct err *err);
	enum err_code (*encode)(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
	                        const struct dynamo_result *r);
};

/* NULL if there is none. */
const struct operation *operation_named(struct bytes name);

/* In the order of the table; NULL past its end. */
const struct operation *operation_at(unsigned index);

#endif
