/* Reader: what all request decoders share: the fields found, common shapes, table names, and the expressions of a
 * request with their placeholders. Internal to dynamo/. */
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
extern const struct shape shape_tags;       /* Tags (request_admin.c) */
extern const struct shape shape_demand;     /* OnDemandThroughput (request_throughput.c) */
extern const struct shape shape_warm;       /* WarmThroughput */

/* A parameter by name, absent if json is NULL. */
struct parameter {
	const char        *name;
	const struct json *json;
};

/* The parameters of a request that has expressions. */
struct parameters {
	const struct parameter *expressions;
	unsigned                expression_count;
	const struct parameter *legacy;
	unsigned                legacy_count;
	const struct json      *names, *values;
};

/* Step 3 for requests with expressions: legacy and expression parameters exclude each other; placeholders
 * need expressions; values need one other than a projection. */
enum err_code parameters_check(struct request_reader *r, const struct parameters *p);

/* Fills r->scope; either may be NULL. */
enum err_code scope_read(struct request_reader *r, const struct json *names, const struct json *values);

/* text NULL: *out is NULL. */
enum err_code projection_read(struct request_reader *r, const struct json *text,
                              const struct expr_projection **out);

/* ---- table names ----
 * An ARN of a table is arn:aws:dynamodb:REGION:ACCOUNT:table/NAME. This server has one region and one account,
 * which its caller knows; where a request names others, only the table's name counts. */

/* The table's name: `text` itself, or the name within an ARN, which then is between TABLE_NAME_MIN and
 * TABLE_NAME_MAX long. ERR_INVALID with `message` if it is an ARN of something else. */
enum err_code arn_table(struct bytes text, const char *message, struct bytes *name, struct err *err);

enum err_code table_read(struct request_reader *r, struct bytes name_or_arn, struct bytes *out);

/* What PutItem, UpdateItem, DeleteItem and Query refuse before they look at the table begins with "1 validation error
 * detected: ", as constraints do. A value without a type, or with several, is refused by the reader of the JSON in DynamoDB, and has
 * no such beginning. (docs/decisions/053) */
enum err_code detected(struct request_reader *r, enum err_code rc);

/* ---- small things ---- */

bool text_is(const struct json *json, const char *text); /* false if json is NULL */
bool truth_of(const struct json *json);                  /* false if json is NULL */

void capacity_read(const struct json *json, struct dynamo_request *out);

/* Sorted by key, each key once. tags NULL: none. (request_admin.c) */
enum err_code tags_read(struct request_reader *r, const struct json *tags, struct tag **out, uint32_t *count);

/* Either may be NULL. 0: not said; -1 of a maximum: it is to go. (request_throughput.c) */
enum err_code throughput_read(struct request_reader *r, const struct json *demand, const struct json *warm,
                              struct throughput *out);

/* ---- legacy.c: the parameters that came before expressions ----
 * Expected, AttributeUpdates, KeyConditions, QueryFilter, ScanFilter, AttributesToGet, ConditionalOperator become
 * the same trees as expressions. Nothing else knows that they exist. */

/* A filter: attribute names to conditions. Absent or empty: *out is NULL. */
enum err_code legacy_filter(struct request_reader *r, const struct json *conditions,
                            const struct json *conditional_operator, const struct expr **out);

enum err_code legacy_expected(struct request_reader *r, const struct json *expected,
                              const struct json *conditional_operator, const struct expr **out);

enum err_code legacy_updates(struct request_reader *r, const struct json *updates,
                             const struct expr_update **out);

enum err_code legacy_projection(struct request_reader *r, const struct json *attributes,
                                const struct expr_projection **out);

enum err_code legacy_key_condition(struct request_reader *r, const struct json *conditions,
                                   struct expr_key_condition *out);

#endif
