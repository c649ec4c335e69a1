/* Reservations: an attempt in two steps. `begin` counts it as a failure before the password is hashed, `finish` says what came
 * of it. So parallel guesses cost the attacker's budget, not the server's CPU: of 64 that begin at once against a maximum of
 * 6, six are allowed to hash.
 *
 * What always holds
 * (1) Begin counts as a recorded failure does, with all that follows from reaching a maximum. If something stands against
 *     the attempt nothing is reserved and nothing is counted.
 * (2) Finished as a failure, or not finished, it stays counted.
 * (3) Finished as a success before it lapses, its own count is taken back, and what reaching a maximum by it did: the lock
 *     that it set is withdrawn and the counts are as before. Then the success does what successes do. What others changed
 *     since stays as it is: a lock that another attempt set stays, and so does any row that is not as begin left it. The lock of
 *     a source does not stay if the source's count, without those that were right, is below its maximum.
 * (4) It was allowed when it began: locks that rules set since do not stop its success. What people set does, and states and
 *     its user's status do.
 *     So of N parallel guesses, of which one is right, that one is let in, if it was one of those that were allowed.
 * (5) It is finished once. Later than its lapse it cannot be finished: the verdict is `lapsed`, and nothing changes.
 * (6) A reset of its credential ends it: if a reset of one of its subjects named its type since it began, its success is answered as
 *     if it had lapsed. Which resets there were before is noted when it begins, so that no clock is asked.
 * (7) If its type is no longer in the policies, it is finished under those that it began with.
 *
 * Rows: ATTEMPT#name / RESERVATION; the name is a hash of the id that the caller has. ATTEMPT#name / RIGHT_SINCE#…: how many in
 * a count that a lock removed were right since. A subject's
 * JOURNEY#RESET#TYPE: when its credential was last reset. Personal values are hashed, as they are everywhere. */
#ifndef SERVICE_RESERVATION_H
#define SERVICE_RESERVATION_H

#include "service/attempt.h"

enum {
	RESERVATION_NAME_CHARS = 32,
	RESERVATION_KEEP_S = 3600,       /* how long it is known after its lapse */
	RESET_NOTE_S = LAPSE_MAX_S + 60, /* longer than any can be open */
};

/* In the row of a reset: its time, in microseconds. It is only compared with itself. (6) */
#define ROW_RESET_US "reset_us"

/* The sort key of that row. */
struct bytes key_reset(struct arena *a, const struct rule_ref *type);

/* The name under which an id is kept. */
void reservation_name(struct bytes id, char name[RESERVATION_NAME_CHARS]);

struct reservation {
	struct bytes       name;
	struct attempt     q; /* as it began */
	struct item        row;
	struct device_lane lane;      /* that it began in */
	bool               in_shadow; /* a rule in shadow mode would have refused it */
	int64_t            version;   /* of the policies that it began under */

	/* Set by reservation_take_back: counts that reaching the maximum removed, and that the success clears. */
	struct cleared *removed;
	uint32_t        removed_count;
};

struct begin_result {
	struct attempt_result attempt; /* the verdict is allow if it was reserved */
	bool                  reserved;
	bool                  locked; /* it set a lock, for as long as it is not finished as a success */
	int64_t               lapses_us;
};

enum err_code attempt_begin(struct context *ctx, const struct attempt *q, struct bytes name,
                            struct begin_result *out, struct err *err);

/* What was reserved under that name. ERR_NOT_FOUND: nothing, or too long ago. Its rule is NULL if these rules have none for it: then
 * reservation_under comes next, with those that it began under. (7) */
enum err_code reservation_find(struct context *ctx, struct bytes name, const struct rules *rules,
                               struct reservation *out, struct err *err);

/* False: these rules have none for it. */
bool reservation_under(struct reservation *r, const struct rules *rules, struct arena *a);

/* OUTCOME_FAILURE or OUTCOME_SUCCESS. r->q may have been given what a new device token is made of.
 * ERR_FINISHED: it is finished already. */
enum err_code attempt_finish(struct context *ctx, struct reservation *r, enum outcome outcome,
                             struct attempt_result *out, struct err *err);

/* attempt.c's, before a success that finishes a reservation does anything else. (3) */
enum err_code reservation_take_back(struct context *ctx, struct reservation *r, bool clears_own,
                                    struct err *err);

/* Is it counted in that row? */
bool reservation_counts(const struct reservation *r, const struct count_row *row);

#endif
