/* Resets of alice, for tests. */
#ifndef TESTS_SERVICE_RESETTING_H
#define TESTS_SERVICE_RESETTING_H

#include "service/turn.h"

#include "service/subject.h"

struct reset_turn {
	struct turn         turn;
	struct bytes        name;
	bool                operator_locks;
	struct reset_result r;
};

static inline enum err_code reset_run(struct turn *turn, struct err *err)
{
	struct reset_turn   *r = (struct reset_turn *)turn;
	struct reset_request q = {.rules = turn->s->rules,
	                          .reset = rules_reset(turn->s->rules, r->name),
	                          .subject = BYTES("alice"),
	                          .operator_locks = r->operator_locks};

	return subject_reset(&turn->ctx, &q, &r->r, err);
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
