/* Turn: any service function in a turn of the writer, committed, as the API runs it. A test fills a struct that
 * begins with `struct turn`, and a function that calls the service with it. */
#ifndef TESTS_SERVICE_TURN_H
#define TESTS_SERVICE_TURN_H

#include "service/fixture.h"

struct turn {
	struct turn_request base; /* first: the writer hands back a pointer to it */
	struct service     *s;
	struct context      ctx;
	enum err_code (*run)(struct turn *turn, struct err *err);
};

static inline enum err_code turn_in_turn(struct turn_request *w, struct table *t)
{
	struct turn  *turn = (struct turn *)w;
	enum err_code rc;

	turn->ctx = service_context(turn->s, t);
	ctx_foresee(&turn->ctx);
	do {
		rc = turn->run(turn, &w->err);
		if (rc == ERR_NONE)
			rc = changes_commit(&turn->ctx.changes, t, &w->err);
	} while (ctx_again(&turn->ctx, &rc, &w->err));
	return rc;
}

static inline enum err_code turn_try(struct service *s, struct turn *turn,
                                     enum err_code (*run)(struct turn *, struct err *))
{
	turn->base = (struct turn_request){.run = turn_in_turn, .cost_bytes = 100};
	turn->s = s;
	turn->run = run;
	return service_run(s, &turn->base);
}

/* … where it must succeed. */
static inline void turn_take(struct service *s, struct turn *turn,
                             enum err_code (*run)(struct turn *, struct err *))
{
	if (turn_try(s, turn, run) != ERR_NONE)
		fail_msg("%s", s->f.err.text);
}

/* Is there such a row? */
static inline bool row_there(struct service *s, const char *pk, const char *sk)
{
	struct item item;

	return row_find(s, bytes_of(pk), bytes_of(sk), &item);
}

/* Writes a row as it stands here, through DynamoDB's protocol. */
static inline void row_put(struct service *s, const char *item)
{
	struct bytes body = arena_printf(&s->f.arena, "{'TableName':'auth-state','Item':%s}", item);

	fixture_ok(&s->f, "PutItem", body.data);
}

#endif
