/* Parse: expression text to trees. Linear time and bounded depth on any text; errors carry DynamoDB's texts,
 * e.g. Invalid UpdateExpression: Syntax error; token: "…", near: "…" where the leading words name the request
 * field. */
#ifndef EXPR_PARSE_H
#define EXPR_PARSE_H

#include "base/err.h"
#include "expr/expr.h"

/* ExpressionAttributeNames and ExpressionAttributeValues of one request. All expressions of the request share
 * it, because DynamoDB refuses a placeholder that none of them uses. */
struct expr_name {
	struct bytes placeholder; /* "#n" */
	struct bytes name;
	bool         used;
};

struct expr_value {
	struct bytes placeholder; /* ":v" */
	struct value value;
	bool         used;
};

struct expr_scope {
	struct expr_name  *names; /* sorted by placeholder (expr_scope_sort) */
	struct expr_value *values;
	uint32_t           name_count, value_count;
};

/* Sorts the placeholders, for look-up. ERR_INVALID if a placeholder is malformed or occurs twice. */
enum err_code expr_scope_sort(struct expr_scope *scope, struct err *err);

/* ERR_INVALID with DynamoDB's text if a placeholder was never used. Called after all expressions were parsed.
 */
enum err_code expr_scope_check_used(const struct expr_scope *scope, struct err *err);

/* The scope must be sorted. A ConditionExpression and a FilterExpression differ in their error texts only. */
enum err_code expr_parse_condition(struct arena *a, struct bytes text, struct expr_scope *scope,
                                   struct expr **out, struct err *err);
enum err_code expr_parse_filter(struct arena *a, struct bytes text, struct expr_scope *scope,
                                struct expr **out, struct err *err);

enum err_code expr_parse_update(struct arena *a, struct bytes text, struct expr_scope *scope,
                                struct expr_update *out, struct err *err);

enum err_code expr_parse_projection(struct arena *a, struct bytes text, struct expr_scope *scope,
                                    struct expr_projection *out, struct err *err);

/* A KeyConditionExpression, checked for its form: one equality, and at most one further condition on another
 * name. Which of the two is the hash key is decided later, when the backend knows the schema; if both are
 * equalities, the first is reported as the hash. */
enum err_code expr_parse_key_condition(struct arena *a, struct bytes text, struct expr_scope *scope,
                                       struct expr_key_condition *out, struct err *err);

/* Is it one of the 573 reserved words (any case)? */
bool expr_is_reserved(struct bytes word);

#endif
