/* Tables: those that services own. They are made when first written to, so that someone who only uses
 * DynamoDB's door sees only tables of his own; until then reading one finds nothing. */
#ifndef SERVICE_TABLES_H
#define SERVICE_TABLES_H

#include "table/table.h"

/* As the documents draw them. X(id, name, hash key, range key or "", TTL attribute or "") */
#define SERVICE_TABLES(X)                                                                                    \
	X(TABLE_AUTH_STATE, "auth-state", "PK", "SK", "ttl")                                                 \
	X(TABLE_RATE_LIMITS, "rate-limits", "PK", "", "TTL")                                                 \
	X(TABLE_POLICIES, "gatehouse-policies", "PK", "", "")                                                \
	X(TABLE_IDEMPOTENCY, "gatehouse-idempotency", "PK", "", "ttl")                                       \
	X(TABLE_EVENTS, "gatehouse-events", "PK", "SK", "")

enum service_table {
#define X(id, name, hash, range, ttl) id,
	SERVICE_TABLES(X)
#undef X
	        SERVICE_TABLE_COUNT
};

/* One of them, as it is made. */
struct service_table_shape {
	const char *name, *hash, *range, *ttl; /* "": it has none */
};

const struct service_table_shape *service_table_shape(enum service_table which);

/* What they are called here. */
struct service_tables {
	struct bytes names[SERVICE_TABLE_COUNT];
};

struct service_tables service_tables_default(void);

/* Which of ours has that name; SERVICE_TABLE_COUNT: none. */
enum service_table tables_which(const struct service_tables *tables, struct bytes name);

/* ERR_INVALID if two are called alike. */
enum err_code service_tables_check(const struct service_tables *tables, struct err *err);

/* If it is there already, whoever made it: does it have the keys that ours has? ERR_INVALID. */
enum err_code tables_check_keys(const struct service_tables *tables, enum service_table which,
                                struct table *t, struct arena *a, struct err *err);

/* Makes the table of that name if it is one of ours and absent. */
enum err_code tables_ensure(const struct service_tables *tables, struct table *t, struct arena *a,
                            struct bytes name, struct err *err);

/* Like the backend's get and query, but an absent table is an empty one, and one that somebody made with other keys is
 * ERR_RESOURCE_IN_USE. */
enum err_code tables_get(struct table *t, struct arena *a, const struct table_get *q,
                         struct table_get_result *r, struct err *err);
/* transact_get of rows of one table. */
enum err_code tables_get_together(struct table *t, struct arena *a, const struct table_batch_get *q,
                                  struct table_batch_get_result *r, struct err *err);
enum err_code tables_query(struct table *t, struct arena *a, const struct table_query *q,
                           struct table_query_result *r, struct err *err);

/* The row of that key (PK, SK), if it is there and has not expired. */
enum err_code tables_look(struct table *t, struct arena *a, struct bytes table, struct bytes pk,
                          struct bytes sk, bool *found, struct item *item, struct err *err);

/* One of a list of rows to look at. */
struct looked {
	struct looked *next;
	struct bytes   pk, sk;
	struct member  key[2]; /* the same, as a key */
	bool           answered;
	bool           found;
	struct item    item; /* if found */
};

void looked_init(struct looked *l, struct bytes pk, struct bytes sk);

/* The same for all of the list, in as few calls as it takes. A row may come twice. */
enum err_code tables_look_all(struct table *t, struct arena *a, struct bytes table, struct looked *first,
                              struct err *err);

#endif
