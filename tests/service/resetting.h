/* A password reset of alice, for tests. */
#ifndef TESTS_SERVICE_RESETTING_H
#define TESTS_SERVICE_RESETTING_H

#include "service/turn.h"

#include "service/reset.h"

struct reset_turn {
	struct turn         turn;
	struct reset_result r;
};

static inline enum err_code reset_run(struct turn *turn, struct table *t, struct err *err)
{
	const struct rules *rules = turn->s->rules;

	return subject_reset(rules, rules_reset(rules, BYTES("PASSWORD")), BYTES("alice"), turn->table, t,
	                     &turn->changes, &((struct reset_turn *)turn)->r, err);
}

static inline struct reset_result reset(struct service *s)
{
	struct reset_turn r = {0};

	turn_take(s, &r.turn, reset_run);
	return r.r;
}

#endif
