/* Attempts: counting, and what follows from it. One call counts, evaluates, locks, records and answers: all of
 * it is committed together, or none.
 *
 * What always holds
 * (1) While something stands against an attempt (a lock, a state, its user's status, a count at its maximum) it is not counted, it
 *     extends nothing, and a success clears nothing.
 * (2) The attempt that reaches a maximum sets the lock and deletes the count that caused it. A count that is full without having locked (its
 *     maximum was lowered, or its rule was in shadow mode) stands against the next attempt, which sets the lock.
 * (3) Of N attempts against a maximum of L exactly L are counted.
 * (4) A rule in shadow mode counts, reports what it would have said, and never says it. Who is over the line then is over it
 *     when the rule comes into force. */
#ifndef SERVICE_ATTEMPT_H
#define SERVICE_ATTEMPT_H

#include "service/assess.h"

enum {
	HISTORY_BYTES_MAX = 384,  /* of attempts that a row remembers, for explain */
	HISTORY_LINE_BYTES = 128, /* one of them at most, and some */
};

struct cleared {
	struct bytes pk, sk;
	int64_t      count;
};

struct attempt_result {
	struct verdict         verdict; /* as it is now, this attempt included */
	struct verdict         shadow;  /* of a rule in shadow mode: what it would have been */
	struct states_required required;
	bool                   counted;
	bool                   first_time;     /* this attempt set the lock, or signed out */
	bool                   locked_now;     /* this attempt set a lock */
	bool                   source_locked;  /* of its source */
	bool                   known_device;   /* it ran in the lane of a known device */
	bool                   device_revoked; /* this failure used up its budget: the device is forgotten */
	struct device_issued   device;
	struct device_lane     lane; /* as it was before */
	const struct account  *account;
	struct bytes           device_name, device_of; /* of the device that it came from (assess.h) */
	struct count_shown     nearest;
	struct cleared        *cleared; /* counts that success removed, for the audit */
	uint32_t               cleared_count;
};

/* Reads, decides, and adds to the changes. */
enum err_code attempt_record(struct context *ctx, const struct attempt *q, enum outcome outcome,
                             struct attempt_result *out, struct err *err);

/* What a known device that used up its budget is told, beside what stands against strangers: where the maximum signs out, so does this. */
void attempt_device_spent(const struct rule *rule, struct verdict *v);

#endif
