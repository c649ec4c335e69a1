/* Client: the protocol from its other side: requests as a client sends them, and answers as it reads them. request.h and
 * result.h are the server's side. remote/ sends and reads with these.
 *
 * Expressions are printed from the trees that the embedded engine evaluates (expr/print.h), with placeholders for every
 * name and value: nothing needs quoting, and no word is reserved.
 *
 * Answers come from elsewhere. Each is held against what was asked, here and nowhere else, so that services can rely on table.h whatever an endpoint
 * says: an item has the key that was asked for, a page no more items than its limit, a batch nothing that nobody asked for. One that is not what
 * DynamoDB sends is ERR_STORAGE, since nobody knows what was done. What is read lives in the arena and points into the JSON tree. */
#ifndef DYNAMO_CLIENT_H
#define DYNAMO_CLIENT_H

#include "json/json.h"
#include "json/write.h"
#include "table/table.h"

/* ---- requests: the body; the arena is for scratch ---- */

struct client {
	struct json_writer *w;
	struct arena       *arena;
};

void client_get(struct client c, const struct table_get *q);

/* PutItem, UpdateItem or DeleteItem. */
const char *client_write_operation(enum table_action_kind kind);
void        client_write(struct client c, const struct table_write *q);

/* Query, or Scan if there is no key condition. */
void client_query(struct client c, const struct table_query *q);

/* Grouped by table. Of a table one projection counts, that of its first item, and reads are consistent if any is to be. */
void client_batch_get(struct client c, const struct table_batch_get *q);
void client_batch_write(struct client c, const struct table_batch_write *q);

void client_transact_get(struct client c, const struct table_batch_get *q);
void client_transact_write(struct client c, const struct table_transact_write *q);

/* Without the time to live, which UpdateTimeToLive sets. kms_key: the ARN of a key of the customer's; empty: one that the endpoint owns. */
void client_create_table(struct client c, const struct table_schema *q, struct bytes kms_key);
/* UpdateTable: a key of the customer's from now on. */
void client_update_encryption(struct client c, struct bytes table, struct bytes kms_key);
/* UpdateContinuousBackups: point-in-time recovery on. */
void client_update_recovery(struct client c, struct bytes table);
/* Changes of an index, of billing and of protection. */
void client_update_table(struct client c, const struct table_alter *q);
void client_update_ttl(struct client c, struct bytes table, struct bytes attribute, bool enabled);
void client_tag(struct client c, struct bytes arn, const struct tag *tags, uint32_t count);
void client_untag(struct client c, struct bytes arn, const struct tag *tags, uint32_t count);
void client_list_tables(struct client c, const struct table_list *q);
/* {"TableName": …}: DescribeTable, DeleteTable, DescribeTimeToLive, DescribeContinuousBackups. */
void client_table_name(struct client c, struct bytes table);
/* {"ResourceArn": …}: ListTagsOfResource. */
void client_arn(struct client c, struct bytes arn);

/* ---- answers ---- */

/* A GetItem of that key, without a projection. */
enum err_code client_read_get(struct arena *a, const struct json *body, const struct item *key,
                              struct table_get_result *out, struct err *err);

/* What a write asked for. */
struct client_action {
	struct item        key;
	enum return_values returns;
	bool               conditional;
};

/* It was done. */
enum err_code client_read_write(struct arena *a, const struct json *body, const struct client_action *q,
                                struct table_write_result *out, struct err *err);
/* A transaction was. */
enum err_code client_read_done(const struct json *body, struct err *err);
/* Its condition was false. */
enum err_code client_read_refusal(struct arena *a, const struct json *body, const struct client_action *q,
                                  struct table_write_result *out, struct err *err);

/* What a page was asked with. */
struct client_page {
	const struct table_query  *q; /* as it was sent */
	const struct table_schema *schema;
	const struct index_schema *index; /* NULL: the table itself, or an index that is not known */
};

enum err_code client_read_query(struct arena *a, const struct json *body, const struct client_page *asked,
                                struct table_query_result *out, struct err *err);

/* Items come in any order: each is given to the get that has its key, found by the names of that key's attributes. What
 * was not processed is skipped. */
enum err_code client_read_batch_get(struct arena *a, const struct json *body, const struct table_batch_get *q,
                                    struct table_batch_get_result *out, struct err *err);

/* Which of the writes were not processed: left[i]. */
enum err_code client_read_batch_write(struct arena *a, const struct json *body,
                                      const struct table_batch_write *q, bool *left, struct err *err);

enum err_code client_read_transact_get(struct arena *a, const struct json *body,
                                       const struct table_batch_get *q, struct table_batch_get_result *out,
                                       struct err *err);

/* A table, as its description tells of it: all but time to live and tags. */
struct client_table {
	struct table_description description;
	struct bytes             status; /* "ACTIVE" */
	struct bytes             arn;
	struct bytes             kms_key; /* its ARN; empty: encrypted with a key that the endpoint owns */
};

/* Of the table of that name. */
enum err_code client_read_table(struct arena *a, const struct json *body, struct bytes name,
                                struct client_table *out, struct err *err);
/* Empty: it is off, or being switched off. */
enum err_code client_read_ttl(struct arena *a, const struct json *body, struct bytes *attribute,
                              struct err *err);
/* Is point-in-time recovery on? */
enum err_code client_read_recovery(const struct json *body, bool *on, struct err *err);
/* Sorted by key. */
enum err_code client_read_tags(struct arena *a, const struct json *body, struct table_schema *out,
                               struct err *err);
enum err_code client_read_list(struct arena *a, const struct json *body, const struct table_list *q,
                               struct table_list_result *out, struct err *err);

/* ---- errors ---- */

/* What an error's name means here: ConditionalCheckFailedException is ERR_CONDITION, and so on; names that say that the endpoint
 * is busy are ERR_THROTTLED. ERR_NONE: it means nothing here. */
enum err_code client_error_code(struct bytes type);

/* "message" or "Message", of an object; empty if there is none. */
struct bytes client_error_text(const struct json *body);

/* May DynamoDB refuse that operation so? A read has no condition that could be false. */
bool client_error_fits(const char *operation, enum err_code code);

/* Of a transaction. */
struct client_actions {
	const struct client_action *list; /* NULL: of a TransactGetItems */
	uint32_t                    count;
};

/* Why a transaction was cancelled. A conflict with another transaction is ERR_CONDITION: decide again. *busy: the endpoint had no
 * room for one of the actions, and nothing was decided. */
enum err_code client_read_reasons(struct arena *a, const struct json *body, const struct client_actions *q,
                                  struct table_reason *out, bool *busy, struct err *err);

#endif
