/* Tables: those that services own. They are made when first written to, so that someone who only uses DynamoDB's protocol
 * sees only tables of his own; until then reading one finds nothing. */
#ifndef SERVICE_TABLES_H
#define SERVICE_TABLES_H

#include "table/table.h"

/* As the documents draw them. X(id, name, hash key, range key or "", TTL attribute or "", index or "", what it holds); all keys are texts,
 * and tables.c has those of the indexes. GSI1 is for others to read; services ask it for addresses that others wrote without markers. This is the one list: `gatehouse tables`,
 * the rights it prints and the checks of a start go by it, and a test compares packaging/terraform with it. */
#define SERVICE_TABLES(X)                                                                                    \
	X(TABLE_AUTH_STATE, "auth-state", "PK", "SK", "ttl", "", "counts, locks and states")                 \
	X(TABLE_RATE_LIMITS, "rate-limits", "PK", "", "TTL", "", "limits kept in a table")                   \
	X(TABLE_POLICIES, "gatehouse-policies", "PK", "", "", "", "policies set with PUT /v1/policies")      \
	X(TABLE_IDEMPOTENCY, "gatehouse-idempotency", "PK", "", "ttl", "", "answers kept for retries")       \
	X(TABLE_EVENTS, "gatehouse-events", "PK", "SK", "", "", "events and their readers")                  \
	X(TABLE_USERS, "users", "PK", "SK", "ttl", "GSI1", "users and their addresses")                      \
	X(TABLE_REVOCATIONS, "gatehouse-revocations", "PK", "", "ttl", "", "revoked tokens")                 \
	X(TABLE_JOBS, "gatehouse-jobs", "PK", "SK", "ttl", "", "jobs")                                       \
	X(TABLE_SYNC, "gatehouse-sync", "PK", "SK", "ttl", "", "dead letters and sign-outs")                 \
	X(TABLE_DEVICES, "device-tokens", "userId", "deviceId", "expiresAt", DEVICE_INDEX,                   \
	  "registered devices")                                                                              \
	X(TABLE_PUSH_TOKENS, "gatehouse-push-tokens", "PK", "", "expiresAt", "",                             \
	  "which device has a push token")                                                                   \
	X(TABLE_PUSH, "gatehouse-push", "PK", "SK", "ttl", "", "push messages")                              \
	X(TABLE_OUTBOX, "outbox", "PK", "SK", "", "", "events that a poller passes on")

#define DEVICE_INDEX "PlatformIsActiveIndex" /* made only where it is switched on */

enum { EVENT_SHARDS_MAX = 100 }; /* of the log of events (event_shards.h) */

enum { DEVICE_SHARDS_MAX = 1000, DEVICE_SHARDS_DEFAULT = 16 }; /* of that index, per platform */

enum service_table {
#define X(id, ...) id,
	SERVICE_TABLES(X)
#undef X
	        SERVICE_TABLE_COUNT
};

/* One of them, as it is made. */
struct service_table_shape {
	const char *name, *hash, *range, *ttl, *index; /* "": it has none */
	const char *holds;                             /* for people */
};

const struct service_table_shape *service_table_shape(enum service_table which);

/* What they are called here. */
struct service_tables {
	struct bytes names[SERVICE_TABLE_COUNT];
	bool         device_index; /* DEVICE_INDEX is switched on */
	bool         never_made;   /* they are there, or somebody else's to make */
};

struct service_tables service_tables_default(void);

/* Which of ours has that name; SERVICE_TABLE_COUNT: none. */
enum service_table tables_which(const struct service_tables *tables, struct bytes name);

/* ERR_INVALID if two are called alike. */
enum err_code service_tables_check(const struct service_tables *tables, struct err *err);

/* One of them as it is to be: name, keys, index (if it is switched on) and time to live; on demand. */
struct table_schema service_table_schema(const struct service_tables *tables, enum service_table which,
                                         struct arena *a);

/* Can services use what is there under that name, whoever made it? ERR_INVALID: no, since it has other keys. */
enum err_code service_table_check(const struct service_tables *tables, enum service_table which,
                                  const struct table_schema *there, struct err *err);

/* The same of the table at the store, if there is one. */
enum err_code tables_check_keys(const struct service_tables *tables, enum service_table which,
                                struct table *t, struct arena *a, struct err *err);

/* Makes the table of that name if it is one of ours and absent. ERR_OVERLOADED: it is absent, and not ours to make. */
enum err_code tables_ensure(const struct service_tables *tables, struct table *t, struct arena *a,
                            struct bytes name, struct err *err);

/* Adds the index that is switched on to its table, if the table was made without it. */
enum err_code tables_index_ensure(const struct service_tables *tables, struct table *t, struct arena *a,
                                  struct err *err);

#endif
