/* Reader: what all request decoders share: the fields found, common shapes, and the expressions of a request
 * with their placeholders. Only request_*.c and legacy.c include it. */
#ifndef DYNAMO_READER_H
#define DYNAMO_READER_H

#include "dynamo/request.h"
#include "dynamo/shape.h"
#include "expr/parse.h"

struct request_reader {
	struct arena      *arena;
	struct err        *err;
	const struct json *slots[SHAPE_FIELDS_MAX];
	struct expr_scope  scope;
};

/* Shapes that many requests use. */
extern const struct shape shape_text;       /* any string */
extern const struct shape shape_truth;      /* a boolean */
extern const struct shape shape_table;      /* a table's name or ARN */
extern const struct shape shape_new_table;  /* a name only */
extern const struct shape shape_index_name; /* 3 to 255 */
extern const struct shape shape_item;       /* attribute values by name */
extern const struct shape shape_names;      /* ExpressionAttributeNames */
extern const struct shape shape_attributes; /* AttributesToGet */
extern const struct shape shape_capacity;   /* ReturnConsumedCapacity */
extern const struct shape shape_metrics;    /* ReturnItemCollectionMetrics */
extern const struct shape shape_on_failure; /* ReturnValuesOnConditionCheckFailure */
extern const struct shape shape_operator;   /* ConditionalOperator */
extern const struct shape shape_conditions; /* QueryFilter, ScanFilter, KeyConditions */
extern const struct shape shape_expected;   /* Expected */
extern const struct shape shape_updates;    /* AttributeUpdates */

/* A parameter by name, absent if json is NULL. */
struct parameter {
	const char        *name;
	const struct json *json;
};

/* Step 3 for requests with expressions: legacy and expression parameters exclude each other; placeholders
 * need expressions. values_allowed of the expressions, the last ones, may use values (a projection cannot).
 */
enum err_code parameters_check(struct request_reader *r, const struct parameter *expressions,
                               unsigned expression_count, const struct parameter *legacy,
                               unsigned legacy_count, const struct json *names, const struct json *values);

/* Fills r->scope; either may be NULL. */
enum err_code scope_read(struct request_reader *r, const struct json *names, const struct json *values);

/* text NULL: *out is NULL. */
enum err_code condition_read(struct request_reader *r, const char *field, const struct json *text,
                             const struct expr **out);
enum err_code projection_read(struct request_reader *r, const struct json *text,
                              const struct expr_projection **out);

enum err_code table_read(struct request_reader *r, const struct json *name, struct bytes *out);
enum err_code arn_table_read(struct request_reader *r, struct bytes name_or_arn, struct bytes *out);

bool text_is(const struct json *json, const char *text); /* false if json is NULL */
bool truth_of(const struct json *json);                  /* false if json is NULL */

void capacity_read(const struct json *json, struct dynamo_request *out);

#endif
