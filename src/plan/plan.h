/* Plan: from users and logins to units, bytes and dollars. Pure arithmetic over the data of data.h, in doubles: every input has a
 * maximum, and with all of them at it the results are far from where a double ends.
 *
 * A day is a day of the month's 30. A GB is 10^9 bytes, which is at most 7 % too much if the bill counts 2^30. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "plan/data.h"

enum {
	PLAN_ITEM_OVERHEAD = 100, /* bytes that DynamoDB adds to each item */
	PLAN_MONTH_DAYS = 30,
	PLAN_MONTH_HOURS = 720,
	PLAN_ROTATIONS_PAID = 2, /* of a KMS key; later ones cost nothing more */
	PLAN_COSTS_MAX = 10,
	PLAN_COUNT_LIFE_S = 7200, /* of a count of failures, as shipped */

	/* Events: of a user with an address, of a device, of a lock that is set and ends. */
	PLAN_USER_EVENTS = 2,
	PLAN_DEVICE_EVENTS = 1,
	PLAN_LOCK_EVENTS = 2,

	PLAN_LINES = PLAN_CALL_COUNT + PLAN_WORK_COUNT + 1 + PLAN_IDLE_COUNT,
	PLAN_IDLE_LINE = PLAN_CALL_COUNT + PLAN_WORK_COUNT, /* from here on: what waits, and has no peak */
};

/* Whole numbers, as options give them. */
struct plan_input {
	uint64_t users, devices_per_user, logins_per_day;
	uint64_t failed_percent, second_factor_percent; /* of the logins */
	uint64_t locks_per_day, locked_per_day, new_users_per_day, new_devices_per_day;
	uint64_t checks_per_login, limits_per_login, limit_keys;
	uint64_t user_reads_per_day, device_refreshes_per_day, device_lists_per_day;
	uint64_t messages_per_day, broadcast_messages_per_day, targets, consumers;
	uint64_t peak_factor, utilisation_percent;
	uint64_t processes, event_days;
	uint64_t backups, kms_rotations, stream_reads_per_day;
	bool     no_events, pitr, kms;
};

struct plan_line {
	const char *name, *label;
	double      count;         /* calls per day; things that are stored */
	double      reads, writes; /* units per day */
	double      bytes;
};

struct plan_money {
	const char *name, *label;
	double      on_demand, provisioned; /* dollars per month */
	bool        unverified;
};

struct plan {
	struct plan_line  calls[PLAN_LINES];
	unsigned          call_count;
	struct plan_line  stores[PLAN_STORE_COUNT];
	struct plan_cost  per_day, average, peak;        /* units; the latter two per second */
	double            write_capacity, read_capacity; /* provisioned */
	double            bytes;
	struct plan_money costs[PLAN_COSTS_MAX];
	unsigned          cost_count;
	double            on_demand, provisioned;
	bool              unverified; /* any price that was used */
};

void plan_make(const struct plan_input *in, const struct plan_units *units, const struct plan_prices *prices,
               struct plan *out);

/* ---- estimates of others ---- */

/* Within so much of what is computed a claim is right: people round. */
#define PLAN_CLAIM_TOLERANCE 0.05

struct plan_verdict {
	double computed;
	bool   made, right;
	double times; /* too high, or if below 1, too low */
};

void plan_compare(const struct plan_estimate *e, const struct plan_prices *prices,
                  struct plan_verdict out[PLAN_CLAIM_COUNT]);

#endif
