/* Attempts in two steps, in tests: BEGIN(&s, …) as FAIL is written, and finish. */
#ifndef TESTS_SERVICE_BEGUN_H
#define TESTS_SERVICE_BEGUN_H

#include "service/resetting.h"

#include "service/reservation.h"

struct step {
	struct turn           turn;
	struct attempt        q;
	struct bytes          name;
	enum outcome          outcome;
	struct begin_result   begun;
	struct attempt_result r;
};

static inline enum err_code begin_run(struct turn *turn, struct err *err)
{
	struct step *step = (struct step *)turn;

	return attempt_begin(&turn->ctx, &step->q, step->name, &step->begun, err);
}

static inline enum err_code finish_run(struct turn *turn, struct err *err)
{
	struct step       *step = (struct step *)turn;
	struct reservation r;

	if (reservation_find(&turn->ctx, step->name, turn->s->rules, &r, err) != ERR_NONE)
		return err->code;
	r.q.making = step->q.making;
	return attempt_finish(&turn->ctx, &r, step->outcome, &step->r, err);
}

/* Each begins under a name of its own. */
static inline struct step begin_one(struct service *s, struct try t)
{
	struct step step = {.q = attempt_of(s, &t)};

	step.name = arena_printf(&s->f.arena, "attempt-%d", s->next_device);
	turn_take(s, &step.turn, begin_run);
	return step;
}

#define BEGIN(s, ...) begin_one(s, (struct try){__VA_ARGS__})

static inline struct attempt_result finish(struct service *s, struct step *step, enum outcome outcome)
{
	step->turn = (struct turn){0};
	step->outcome = outcome;
	turn_take(s, &step->turn, finish_run);
	return step->r;
}

static inline enum err_code finish_try(struct service *s, struct step *step, enum outcome outcome)
{
	step->turn = (struct turn){0};
	step->outcome = outcome;
	return turn_try(s, &step->turn, finish_run);
}

#endif
