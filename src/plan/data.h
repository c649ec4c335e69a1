/* Data of plans: what calls cost in units, as measured (units.yaml), what units cost, as of a date (prices.yaml), and estimates
 * that others made. The first two are part of the program; a file in the same form can take the place of the prices.
 *
 * A text is read strictly, as everywhere: what is wrong with it is told by path and line. Texts live in the arena. */
#ifndef PLAN_DATA_H
#define PLAN_DATA_H

#include "base/arena.h"
#include "base/err.h"

enum {
	PLAN_FILE_BYTES_MAX = 100 * 1000,
	PLAN_UNITS_MAX = 100000, /* of one call */
	PLAN_BYTES_MAX = 400000, /* of one item */
	PLAN_USD_MAX = 1000000,  /* of one price */
	PLAN_REGIONS_MAX = 100,
	PLAN_SOURCE_BYTES_MAX = 400,
};

/* X(id, as the file names it, as people read it) */
#define PLAN_CALLS(X)                                                                                        \
	X(PLAN_USER_CREATED, "user_created", "users created")                                                \
	X(PLAN_SIGN_IN, "sign_in", "sign-ins, first try")                                                    \
	X(PLAN_SIGN_IN_AFTER, "sign_in_after_failure", "sign-ins after a failure")                           \
	X(PLAN_FAILURE, "failure", "failed attempts")                                                        \
	X(PLAN_LOCK, "lock", "failures that set a lock")                                                     \
	X(PLAN_LOCKED, "locked", "attempts while locked")                                                    \
	X(PLAN_SECOND_FACTOR, "second_factor", "second factors")                                             \
	X(PLAN_CHECK, "check", "checks")                                                                     \
	X(PLAN_LIMIT, "limit", "limits asked (table engine)")                                                \
	X(PLAN_USER_READ, "user_read", "users read")                                                         \
	X(PLAN_DEVICE_REGISTERED, "device_registered", "devices registered")                                 \
	X(PLAN_DEVICE_REFRESHED, "device_refreshed", "devices refreshed")                                    \
	X(PLAN_DEVICES_LISTED, "devices_listed", "lists of devices")

/* Work that goes on after a call, and what waits for work. */
#define PLAN_WORKS(X)                                                                                        \
	X(PLAN_MESSAGE, "message", "push messages to users")                                                 \
	X(PLAN_BROADCAST_MESSAGE, "broadcast_message", "push messages of broadcasts")                        \
	X(PLAN_RECEIPT, "receipt", "receipts of push messages")                                              \
	X(PLAN_EVENT_DELIVERED, "event_delivered", "events to targets")                                      \
	X(PLAN_EVENT_CONSUMED, "event_consumed", "events to consumers")

#define PLAN_IDLES(X)                                                                                        \
	X(PLAN_IDLE_TARGET, "target", "targets that wait")                                                   \
	X(PLAN_IDLE_CONSUMER, "consumer", "consumers that wait")

#define PLAN_STORES(X)                                                                                       \
	X(PLAN_STORE_USER, "user", "users")                                                                  \
	X(PLAN_STORE_DEVICE, "device", "devices")                                                            \
	X(PLAN_STORE_FAILURE, "failure", "counts of failures")                                               \
	X(PLAN_STORE_LIMIT, "limit", "keys of limits")                                                       \
	X(PLAN_STORE_USER_EVENTS, "user_events", "events of new users")                                      \
	X(PLAN_STORE_DEVICE_EVENTS, "device_events", "events of new devices")

#define PLAN_PRICES(X)                                                                                       \
	X(PLAN_WRITE, "write_per_million", "writes, on demand")                                              \
	X(PLAN_READ, "read_per_million", "reads, on demand")                                                 \
	X(PLAN_WRITE_HOUR, "write_unit_hour", "write capacity")                                              \
	X(PLAN_READ_HOUR, "read_unit_hour", "read capacity")                                                 \
	X(PLAN_STORAGE, "storage_gb_month", "storage")                                                       \
	X(PLAN_PITR, "pitr_gb_month", "point-in-time recovery")                                              \
	X(PLAN_BACKUP, "backup_gb_month", "backups")                                                         \
	X(PLAN_STREAM, "stream_read_per_million", "reads of streams")                                        \
	X(PLAN_KMS_KEY, "kms_key_month", "KMS key")                                                          \
	X(PLAN_KMS_ROTATION, "kms_rotation_month", "KMS key, rotations")

#define X(id, name, label) id,
enum plan_call { PLAN_CALLS(X) PLAN_CALL_COUNT };
enum plan_work { PLAN_WORKS(X) PLAN_WORK_COUNT };
enum plan_idle { PLAN_IDLES(X) PLAN_IDLE_COUNT };
enum plan_store { PLAN_STORES(X) PLAN_STORE_COUNT };
enum plan_price_kind { PLAN_PRICES(X) PLAN_PRICE_COUNT };
#undef X

struct plan_name {
	const char *name, *label;
};

extern const struct plan_name plan_calls[PLAN_CALL_COUNT], plan_works[PLAN_WORK_COUNT],
        plan_idles[PLAN_IDLE_COUNT], plan_stores[PLAN_STORE_COUNT], plan_price_kinds[PLAN_PRICE_COUNT];

struct plan_cost {
	double reads, writes; /* units */
};

struct plan_units {
	struct bytes     measured;                  /* the day */
	struct plan_cost calls[2][PLAN_CALL_COUNT]; /* without events, with events */
	double           tables;                    /* that the calls use */
	double           stores[PLAN_STORE_COUNT];  /* bytes */
	struct plan_cost background;                /* of one process, per second */
	struct plan_cost works[PLAN_WORK_COUNT];
	struct plan_cost idles[PLAN_IDLE_COUNT]; /* of each, per second */
};

struct plan_price {
	double       usd;
	bool         unverified;
	struct bytes source;
};

struct plan_prices {
	struct bytes      dated, region;
	struct plan_price list[PLAN_PRICE_COUNT];
};

/* An estimate for a table, with what it says; a claim that it does not make is negative. */
enum plan_claim {
	PLAN_SAYS_BYTES,
	PLAN_SAYS_WRITES_PER_SECOND,
	PLAN_SAYS_READS_PER_SECOND,
	PLAN_SAYS_WRITE_USD_PER_DAY,
	PLAN_SAYS_READ_USD_PER_DAY,
	PLAN_SAYS_USD_PER_MONTH,
	PLAN_SAYS_PITR_USD_PER_MONTH,
	PLAN_CLAIM_COUNT,
};

extern const struct plan_name plan_claims[PLAN_CLAIM_COUNT];

struct plan_estimate {
	struct bytes title;
	double       items, item_bytes, writes_per_day, reads_per_day;
	double       units_per_write, units_per_read; /* 1 unless said */
	double       says[PLAN_CLAIM_COUNT];
};

/* Those of the program, or of a text in the same form. */
struct bytes  plan_units_text(void);
struct bytes  plan_prices_text(void);
enum err_code plan_units_read(struct bytes text, struct arena *a, struct plan_units *out, struct err *err);

/* Of one region; ERR_INVALID names those that there are. */
enum err_code plan_prices_read(struct bytes text, struct bytes region, struct arena *a,
                               struct plan_prices *out, struct err *err);
enum err_code plan_estimate_read(struct bytes text, struct arena *a, struct plan_estimate *out,
                                 struct err *err);

#endif
