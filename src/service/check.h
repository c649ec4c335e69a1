/* Check: one verdict over several actions, and what each would meet, without counting anything. */
#ifndef SERVICE_CHECK_H
#define SERVICE_CHECK_H

#include "service/assess.h"
#include "service/state.h"

enum { CHECK_ACTIONS_MAX = 16 };

struct check_action {
	const struct rule *rule;
	struct verdict     verdict, shadow;
	bool               known_device;
	struct count_shown nearest;
};

struct check {
	struct attempt         who; /* its rule is that of each action in turn */
	struct check_action    actions[CHECK_ACTIONS_MAX];
	uint32_t               action_count;
	struct verdict         verdict; /* of all together */
	struct states_required required;
};

enum err_code check_run(struct check *c, struct bytes table, struct table *t, struct arena *a,
                        struct err *err);

#endif
