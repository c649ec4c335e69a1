/* Tables: those that services own. They are made when first written to, so that someone who only uses
 * DynamoDB's protocol sees only tables of his own; until then reading one finds nothing. */
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

/* A row that is looked at: its key, and what was there. */
struct looked {
	struct looked *next; /* of a list */
	struct bytes   pk, sk;
	struct member  key[2]; /* the same, as a key */
	bool           answered;
	bool           found;
	struct item    item; /* if found */
};

void looked_init(struct looked *l, struct bytes pk, struct bytes sk); /* sk.data NULL: there is none */

#endif
