/* Results: what the backend answered, as DynamoDB's JSON. One function per operation. */
#ifndef DYNAMO_RESULT_H
#define DYNAMO_RESULT_H

#include "dynamo/request.h"
#include "json/write.h"

struct dynamo_result {
	union {
		struct table_get_result         get;
		struct table_write_result       write;
		struct table_query_result       query;
		struct table_batch_get_result   gets; /* BatchGetItem, TransactGetItems */
		struct table_batch_write_result batch_write;
		struct table_transact_result    transact;
		struct table_description        table;
		struct table_list_result        list;
	};
};

/* X(suffix): result_SUFFIX writes the answer of that operation. */
#define RESULT_ENCODERS(X)                                                                                   \
	X(get)                                                                                               \
	X(write)                                                                                             \
	X(query)                                                                                             \
	X(batch_get)                                                                                         \
	X(batch_write)                                                                                       \
	X(transact_get)                                                                                      \
	X(transact_write)                                                                                    \
	X(table)                                                                                             \
	X(described_table)                                                                                   \
	X(deleted_table)                                                                                     \
	X(list_tables)                                                                                       \
	X(ttl_updated)                                                                                       \
	X(ttl)                                                                                               \
	X(tags)                                                                                              \
	X(limits)                                                                                            \
	X(endpoints)                                                                                         \
	X(nothing)                                                                                           \
	X(backups)                                                                                           \
	X(insights)                                                                                          \
	X(destinations)                                                                                      \
	X(scaling)                                                                                           \
	X(no_policy)                                                                                         \
	X(no_global_table)                                                                                   \
	X(no_import)                                                                                         \
	X(no_export)                                                                                         \
	X(no_backup)                                                                                         \
	X(empty_insights)                                                                                    \
	X(empty_global_tables)                                                                               \
	X(empty_imports)                                                                                     \
	X(empty_exports)                                                                                     \
	X(empty_backups)

/* ERR_NONE, or ERR_CONDITION, ERR_CANCELLED or ERR_NO_RESOURCE where DynamoDB reports that result as an error: then the body
 * is the error's, and err_status the answer's status. The arena is for scratch. */
#define X(suffix)                                                                                            \
	enum err_code result_##suffix(struct json_writer *w, struct arena *a,                                \
	                              const struct dynamo_request *q, const struct dynamo_result *r);
RESULT_ENCODERS(X)
#undef X

#endif
