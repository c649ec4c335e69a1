/* Legacy: the parameters that came before expressions (Expected, AttributeUpdates, KeyConditions,
 * QueryFilter, ScanFilter, AttributesToGet, ConditionalOperator), turned into the same trees that expressions
 * become. Nothing below this file knows that they exist. */
#ifndef DYNAMO_LEGACY_H
#define DYNAMO_LEGACY_H

#include "dynamo/reader.h"

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
