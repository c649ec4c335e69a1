/* Items: every table call about items, as requests to the endpoint. See table/table.h for what each does. */
#ifndef REMOTE_ITEMS_H
#define REMOTE_ITEMS_H

#include "remote/expiry.h"
#include "remote/schemas.h"

enum err_code items_get(struct table *t, struct arena *a, const struct table_get *q,
                        struct table_get_result *r, struct err *err);
enum err_code items_write(struct table *t, struct arena *a, const struct table_write *q,
                          struct table_write_result *r, struct err *err);
enum err_code items_query(struct table *t, struct arena *a, const struct table_query *q,
                          struct table_query_result *r, struct err *err);
enum err_code items_batch_get(struct table *t, struct arena *a, const struct table_batch_get *q,
                              struct table_batch_get_result *r, struct err *err);
enum err_code items_batch_write(struct table *t, struct arena *a, const struct table_batch_write *q,
                                struct table_batch_write_result *r, struct err *err);
enum err_code items_transact_get(struct table *t, struct arena *a, const struct table_batch_get *q,
                                 struct table_batch_get_result *r, struct err *err);
enum err_code items_transact_write(struct table *t, struct arena *a, const struct table_transact_write *q,
                                   struct table_transact_result *r, struct err *err);

/* ---- shared by them ---- */

/* A data call was refused: the table is gone, so what is known of it is dropped. Returns rc. */
enum err_code items_failed(struct remote_session *s, struct bytes table, enum err_code rc);

/* What was read of one item: absent if it has expired, else projected as asked. */
void items_settle(const struct remote_session *s, struct arena *a, const struct table_schema *schema,
                  const struct table_get *q, struct table_get_result *r);

/* One schema for each get. */
enum err_code items_schemas(struct remote_session *s, struct arena *a, const struct table_batch_get *q,
                            struct table_schema *out, struct err *err);

static inline struct expiry items_expiry(const struct remote_session *s, struct arena *a,
                                         const struct table_schema *schema)
{
	return (struct expiry){a, schema, s->base.now_us};
}

/* What its answer is held against. */
struct client_action items_action(struct arena *a, const struct table_schema *schema,
                                  const struct table_write *as);

/* A consistent read of the whole item, without looking at its time. */
enum err_code items_fetch(struct remote_session *s, struct arena *a, struct bytes table,
                          const struct item *key, struct table_get_result *r, struct err *err);

#endif
