/* Check: one verdict over several actions and limits, and what each would meet, without counting or taking anything.
 *
 * The verdict is the gravest of all. It ends when the last of what stands against the caller ends: someone who comes
 * back then, and not before, meets none of it any more. */
#ifndef SERVICE_CHECK_H
#define SERVICE_CHECK_H

#include "service/assess.h"
#include "service/limits.h"
#include "service/state.h"

enum { CHECK_ACTIONS_MAX = 16 };

struct check {
	struct attempt     who; /* without a rule: that is each action's */
	const struct rule *actions[CHECK_ACTIONS_MAX];
	uint32_t           action_count;
	struct limit_call *limits; /* LIMIT_LOOK; NULL: none */
};

struct check_action {
	struct verdict     verdict, shadow;
	bool               known_device;
	struct count_shown nearest;
};

struct checked {
	struct check_action    actions[CHECK_ACTIONS_MAX];
	uint32_t               action_count; /* as many as were asked about */
	struct verdict         verdict;      /* of all together */
	struct verdict_wait    wait;         /* for the last of it */
	struct states_required required;
};

/* Changes nothing. Where a table of limits fails, their policies say whether it
 * goes on without them. */
enum err_code check_run(struct context *ctx, const struct check *q, struct checked *out, struct err *err);

/* One more that stands against it: the longest wait is told, and none if one of them has no end. */
void check_join(struct checked *c, const struct verdict *v, struct verdict_wait wait);

#endif
