/* Check: an assessment for each action. */
#include "service/check.h"

static void action_fill(struct check_action *action, const struct assessment *now)
{
	action->verdict = now->verdict;
	action->shadow = now->shadow;
	action->known_device = now->known_device;
	for (uint32_t i = 0; i < now->counter_count; i++)
		counter_show(&now->counters[i], &action->nearest);
}

enum err_code check_run(struct check *c, struct bytes table, struct table *t, struct arena *a,
                        struct err *err)
{
	if (assess_states(&c->who, table, t, a, &c->verdict, err) != ERR_NONE ||
	    states_required(c->who.subjects, c->who.subject_count, table, t, a, &c->required, err) !=
	            ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < c->action_count; i++) {
		struct assessment now;

		c->who.rule = c->actions[i].rule;
		if (assess(&c->who, table, t, a, &now, err) != ERR_NONE)
			return err->code;
		action_fill(&c->actions[i], &now);
		verdict_add(&c->verdict, &now.verdict);
	}
	return ERR_NONE;
}
