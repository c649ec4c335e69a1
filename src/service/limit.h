/* Limit: the three algorithms, as pure functions over a small state and a time. They know neither keys nor where a
 * state is kept: limit_memory.h and limit_table.h do, and so give the same answers.
 *
 *   fixed    units counted in clock-aligned windows. Cheap and easy to explain; up to twice the limit can pass in
 *            a short time around a window's edge.
 *   sliding  the same count, plus the previous window's, weighted by how much of it the last window's length still
 *            overlaps. No doubling at the edge; an estimate, which takes the previous window as evenly spread.
 *   gcra     the generic cell rate algorithm: units drain at limit / period, and `burst` may be taken at once.
 *            No windows, so no edge. A month counts as 30 days.
 *
 * What always holds: arithmetic is exact (128-bit integers, no rounding that adds up); a state is a few numbers,
 * whatever was asked; time never goes back for a state: a clock that does counts on in the latest window seen; a
 * refusal takes nothing.
 *
 * A rule may block: a key that was refused then stays refused for block_us, however much drains meanwhile. Asking while
 * it is blocked does not prolong that, and a refund does not end it. */
#ifndef SERVICE_LIMIT_H
#define SERVICE_LIMIT_H

#include "base/bytes.h"

/* ---- windows ----
 *
 * The clock-aligned stretches of time that limits count in: whole seconds to weeks, or calendar months, all in UTC.
 * Windows of a fixed length are laid end to end from Monday, 1 January of the year 1, as Go's time.Truncate lays
 * them: so rows that such code wrote before go on in the same windows, and weeks begin on Monday. */

enum {
	LIMIT_PERIOD_S_MAX = 366 * 86400, /* a year */
	LIMIT_TIME_TEXT = 20,             /* "2026-05-04T12:00:00Z" */
};

/* The year 10000: no time in a state is that late. */
#define LIMIT_TIME_MAX_US (INT64_C(253402300800) * 1000000)

struct limit_period {
	int64_t us; /* 0: calendar months */
};

struct limit_window {
	int64_t start_us, end_us; /* the end is the next one's start */
};

/* The window that holds the time. */
struct limit_window limit_window_at(struct limit_period period, int64_t time_us);

/* ISO 8601 in UTC, whole seconds: sorts as time does. Without a NUL. */
void limit_time_format(int64_t time_us, char text[LIMIT_TIME_TEXT]);

/* The same back; false if it is not exactly that form or no such time. */
bool limit_time_parse(struct bytes text, int64_t *time_us);

/* ---- algorithms ---- */

enum {
	LIMIT_UNITS_MAX = 1000000000, /* of a limit, a burst, a cost */
	LIMIT_NEAR_WHOLE = 1000,      /* near_permille is at most this */
};

#define LIMIT_DRAIN_US_MAX (INT64_C(100) * 366 * 86400 * 1000000) /* of a whole burst: a century */

#define LIMIT_NEVER INT64_C(-1) /* a wait that does not end: the cost is more than there ever is */

enum limit_algorithm { LIMIT_NONE, LIMIT_FIXED, LIMIT_SLIDING, LIMIT_GCRA };

struct limit_rule {
	enum limit_algorithm algorithm;
	uint64_t             limit; /* units a period, at least 1 */
	struct limit_period  period;
	uint64_t             burst;         /* GCRA: units that may be taken at once, at least 1 */
	uint32_t             near_permille; /* used share from which an answer says `near`; 0: never */
	int64_t              block_us;      /* how long a refused key stays refused; 0: until there is room */
};

/* What is kept of one key. All zeros: nothing was taken yet. */
struct limit_state {
	enum limit_algorithm algorithm; /* that wrote it: another one takes it as empty */
	int64_t  start_us;   /* of the window; GCRA: when all is drained (TAT), whole microseconds */
	uint64_t count;      /* in this window; GCRA: the rest of TAT, in 1/limit microseconds */
	uint64_t previous;   /* SLIDING: in the window before */
	int64_t  blocked_us; /* since when the key is blocked; 0: it is not, or not known to be */
};

/* Why, where the numbers do not say it. X(id, as answers say it) */
#define LIMIT_REASONS(X)                                                                                     \
	X(LIMIT_NO_REASON, "")                                                                               \
	X(LIMIT_COST_ABOVE, "cost_above_limit") /* there are never as many units */                          \
	X(LIMIT_BLOCKED, "blocked")             /* for a while, because it was refused */                    \
	X(LIMIT_ON_DENY_LIST, "deny_list")                                                                   \
	X(LIMIT_ON_ALLOW_LIST, "allow_list")                                                                 \
	X(LIMIT_UNLIMITED, "unlimited")

enum limit_reason {
#define X(id, name) id,
	LIMIT_REASONS(X)
#undef X
};

const char *limit_reason_name(enum limit_reason reason);

struct limit_answer {
	bool              allowed;
	bool              near;
	uint64_t          limit;          /* as configured; of GCRA, units a period, not the burst */
	uint64_t          remaining;      /* how many could be taken now */
	int64_t           reset_us;       /* until all of them are there again, if nobody asks */
	int64_t           retry_after_us; /* 0 if allowed; LIMIT_NEVER */
	enum limit_reason reason;
};

/* Takes `cost` units if there are as many. Cost 0 only looks, and is allowed if one unit could be taken. *state changes
 * exactly if the answer is allowed and the cost is not 0. */
void limit_take(const struct limit_rule *rule, struct limit_state *state, int64_t now_us, uint64_t cost,
                struct limit_answer *out);

/* limit_take refused this cost: blocks the key, if the rule says so and it is not blocked already. True if it does;
 * the answer then says so. */
bool limit_block(const struct limit_rule *rule, struct limit_state *state, int64_t now_us, uint64_t cost,
                 struct limit_answer *out);

/* Gives back up to `cost` units, never more than are taken now. The answer is that of a look afterwards, and
 * always allowed. */
void limit_give(const struct limit_rule *rule, struct limit_state *state, int64_t now_us, uint64_t cost,
                struct limit_answer *out);

/* Does a burst drain within LIMIT_DRAIN_US_MAX? A rule for which it does not is never used. */
bool limit_rule_drains(const struct limit_rule *rule);

/* From when on the state says no more than an empty one. */
int64_t limit_expiry(const struct limit_rule *rule, const struct limit_state *state);

/* The number of units a key has at most. */
static inline uint64_t limit_capacity(const struct limit_rule *rule)
{
	return rule->algorithm == LIMIT_GCRA ? rule->burst : rule->limit;
}

/* Is so little left that an answer says so? */
static inline bool limit_is_near(const struct limit_rule *rule, uint64_t remaining)
{
	uint64_t all = limit_capacity(rule);

	return rule->near_permille > 0 && (all - remaining) * LIMIT_NEAR_WHOLE >= rule->near_permille * all;
}

#endif
