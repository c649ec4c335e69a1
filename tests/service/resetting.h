/* Resets of alice, for tests. */
#ifndef TESTS_SERVICE_RESETTING_H
#define TESTS_SERVICE_RESETTING_H

#include "service/turn.h"

#include "service/reset.h"

struct reset_turn {
	struct turn         turn;
	struct bytes        name;
	struct reset_result r;
};

static inline enum err_code reset_run(struct turn *turn, struct table *t, struct err *err)
{
	struct reset_turn  *r = (struct reset_turn *)turn;
	const struct rules *rules = turn->s->rules;

	return subject_reset(rules, rules_reset(rules, r->name), BYTES("alice"), turn->table, t,
	                     &turn->changes, &r->r, err);
}

static inline struct reset_result reset(struct service *s)
{
	struct reset_turn r = {.name = BYTES("PASSWORD")};

	turn_take(s, &r.turn, reset_run);
	return r.r;
}

static inline struct reset_result prove_identity(struct service *s)
{
	struct reset_turn r = {.name = BYTES("IDENTITY")};

	turn_take(s, &r.turn, reset_run);
	return r.r;
}

#endif
