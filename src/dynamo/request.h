/* Requests: what a client sends, decoded into the structs of table/table.h. One function per operation; all of
 * them check in DynamoDB's order:
 *   1. JSON types                      SerializationException
 *   2. constraints of single fields    "N validation errors detected: …"
 *   3. which parameters go together    e.g. expressions and legacy parameters
 *   4. values, keys, expressions, and that every placeholder is used
 * What needs the table's schema is checked later, by the backend. Unknown fields are ignored, as DynamoDB
 * does; known ones that this server cannot honour are refused by name.
 *
 * A decoded request lives in the arena and points into the JSON tree, which must stay as long. */
#ifndef DYNAMO_REQUEST_H
#define DYNAMO_REQUEST_H

#include "json/json.h"
#include "table/table.h"

enum capacity_report { CAPACITY_NONE, CAPACITY_TOTAL, CAPACITY_INDEXES };

/* A table's share of a batch: items first to first + count - 1 of the flat list. */
struct batch_table {
	struct bytes       name;  /* as sent: a name or an ARN */
	const struct json *asked; /* BatchGetItem: KeysAndAttributes, for UnprocessedKeys */
	uint32_t           first, count;
};

struct request_batch {
	struct batch_table *tables;
	uint32_t            table_count;
	struct table_get   *gets;   /* BatchGetItem */
	struct table_write *writes; /* BatchWriteItem */
	uint32_t            count;
};

/* UpdateTable, TagResource, UntagResource. */
struct request_alter {
	struct table_alter alter;
	bool provisioned_only; /* units without a BillingMode: refused if the table is on demand */
};

struct request_ttl {
	struct bytes table;
	bool         enabled;
	struct bytes attribute;
};

struct dynamo_request {
	enum capacity_report capacity;
	bool                 collection_metrics;
	/* set by the caller, for answers */
	struct bytes host;     /* DescribeEndpoints: whom the client thinks it talks to */
	struct bytes arn_home; /* what this server's ARNs begin with: "arn:aws:dynamodb:REGION:ACCOUNT:" */
	union {
		struct table_get            get;
		struct table_write          write;
		struct table_query          query;
		struct request_batch        batch;
		struct table_batch_get      transact_get;
		struct table_transact_write transact_write;
		struct table_schema         create;
		struct request_alter        alter;
		struct table_list           list;
		struct request_ttl          ttl;
		struct bytes table; /* DescribeTable, DeleteTable, DescribeTimeToLive, ListTagsOfResource */
	};
};

/* X(suffix): request_SUFFIX decodes that operation. */
#define REQUEST_DECODERS(X)                                                                                  \
	X(get)                                                                                               \
	X(put)                                                                                               \
	X(update)                                                                                            \
	X(delete)                                                                                            \
	X(query)                                                                                             \
	X(scan)                                                                                              \
	X(batch_get)                                                                                         \
	X(batch_write)                                                                                       \
	X(transact_get)                                                                                      \
	X(transact_write)                                                                                    \
	X(create_table)                                                                                      \
	X(update_table)                                                                                      \
	X(table_name)                                                                                        \
	X(list_tables)                                                                                       \
	X(update_ttl)                                                                                        \
	X(tag)                                                                                               \
	X(untag)                                                                                             \
	X(list_tags)                                                                                         \
	X(nothing)

#define X(suffix)                                                                                            \
	enum err_code request_##suffix(struct arena *a, const struct json *body, struct dynamo_request *out, \
	                               struct err *err);
REQUEST_DECODERS(X)
#undef X

#endif
