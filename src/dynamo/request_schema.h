/* The parts of CreateTable and UpdateTable that describe keys and indexes (request_schema.c reads them,
 * request_table.c uses them). */
#ifndef DYNAMO_REQUEST_SCHEMA_H
#define DYNAMO_REQUEST_SCHEMA_H

#include "dynamo/reader.h"

extern const struct shape shape_definitions; /* AttributeDefinitions */
extern const struct shape shape_key_schema;
extern const struct shape shape_throughput;
extern const struct shape shape_locals;       /* LocalSecondaryIndexes */
extern const struct shape shape_globals;      /* GlobalSecondaryIndexes */
extern const struct shape shape_global_index; /* one of them */

enum { UNITS_MAX = 1000000000 }; /* a thousand million, far beyond what DynamoDB sells */

/* definitions: AttributeDefinitions, or NULL. ERR_INVALID if a key is not defined there. */
enum err_code keys_read(struct request_reader *r, const struct json *key_schema,
                        const struct json *definitions, struct key_schema *out);

enum err_code index_read(struct request_reader *r, const struct json *index, const struct json *definitions,
                         bool local, struct index_schema *out);

enum err_code units_read(struct request_reader *r, const struct json *throughput, int64_t *read_units,
                         int64_t *write_units);

/* Are all definitions used by a key of the table or an index, each once? */
enum err_code definitions_check(struct request_reader *r, const struct table_schema *schema,
                                const struct json *definitions);

#endif
