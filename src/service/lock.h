/* Locks: rows JOURNEY#LOCK#NAME. Attempts set them through lock_add; people set, clear and list them
 * (lock_list.h). A row whose count is 0 is no lock: it says that there is none. */
#ifndef SERVICE_LOCK_H
#define SERVICE_LOCK_H

#include "service/context.h"
#include "service/rules.h"
#include "service/verdict.h"

/* One that is to be set. */
struct lock_new {
	struct bytes            pk, journey, type, name, qualifier;
	const struct lock_kind *kind;
	int64_t                 duration_s;                     /* instead of the kind's; 0: the kind's */
	struct bytes            method_type, notification_type; /* empty: none */
	struct bytes            cause;          /* the rule that set it; empty: a person did */
	struct bytes            set_by, reason; /* of a person's: who, and why; empty: not said */
	int64_t                 version;        /* of the policies */
	struct bytes            history;        /* the attempts behind it; empty: none */
};

enum { LOCK_REASON_MAX = 256, LOCK_SET_BY_MAX = 128 };

/* A lock that holds is never made shorter: of the old end and the new one the later counts. One that a person set
 * stays that person's, also where a rule sets it again. */
enum err_code lock_add(struct context *ctx, const struct lock_new *lock, struct verdict *out,
                       struct err *err);

/* Removes it, and how often it was set. *held says whether it held. */
enum err_code lock_clear(struct context *ctx, struct bytes pk, struct bytes sk, bool *held, struct err *err);

/* The same, and leaves a row with count 0 in its place, for readers that look for one. */
enum err_code lock_open(struct context *ctx, struct bytes pk, struct bytes sk, bool *held, struct err *err);

/* Does the row of a lock hold at that time? */
bool lock_holds(const struct item *row, int64_t now_us);

/* Did a person set it? Then a person lifts it: no reset does, and no bulk unlock that was not asked to. It holds in every
 * lane. One that a rule set does not, whatever its kind: else strangers could lock an owner out until someone helps her. */
bool lock_is_persons(const struct item *row);

/* The rule, JOURNEY/TYPE; or who it was, as far as that is known: LOCK_BY_SOMEONE. */
#define LOCK_BY_SOMEONE "an operator"
struct bytes lock_set_by(const struct item *row);

/* Whom a lock is of. False if the key is not that of a lock which can stop anything. */
bool lock_reach(struct bytes pk, struct bytes sk, enum lock_reach *out);

/* Would /v1/check say that it holds, to somebody? */
bool lock_enforced(const struct rules *rules, struct bytes pk, const struct item *row);

#endif
