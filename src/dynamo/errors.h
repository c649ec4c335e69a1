/* Errors: how DynamoDB says no: {"__type": "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException",
 * "message": "…"}. The HTTP status and the name come from base/err.h; here is what only the wire knows. */
#ifndef DYNAMO_ERRORS_H
#define DYNAMO_ERRORS_H

#include "base/err.h"
#include "json/write.h"
#include "table/table.h"

/* The whole body. */
void error_write(struct json_writer *w, struct arena *a, enum err_code code, struct bytes text);

/* One of DynamoDB's that has no code here. */
void error_write_named(struct json_writer *w, struct arena *a, const char *name, struct bytes text);

/* ConditionalCheckFailedException; item NULL: without it. */
void error_write_condition(struct json_writer *w, struct arena *a, const struct item *item);

/* TransactionCanceledException, with a reason for each action. */
void error_write_cancelled(struct json_writer *w, struct arena *a, const struct table_reason *reasons,
                           uint32_t count);

#endif
