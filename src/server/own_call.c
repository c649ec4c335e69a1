/* Own calls: see own_call.h. */
#include "server/own_call.h"

#include "service/event.h"

void own_call_init(struct own_call *c, struct services *services, struct store *store)
{
	*c = (struct own_call){.store = store};
	arena_init(&c->arena);
	c->ctx = (struct context){.services = services, .arena = &c->arena, .caller = BYTES("gatehouse")};
}

void own_call_release(struct own_call *c)
{
	arena_release(&c->arena);
}

void own_call_read(struct own_call *c)
{
	ctx_begin(&c->ctx, c->store->backend->read_begin(c->store, &c->arena));
}

void own_call_read_end(struct own_call *c)
{
	c->store->backend->read_end(c->store, c->ctx.table);
}

static enum err_code run_in_turn(struct turn_request *w, struct table *t)
{
	struct own_call *c = (struct own_call *)w;
	unsigned         decisions = 0;
	enum err_code    rc;

	do {
		ctx_begin(&c->ctx, t);
		ctx_foresee(&c->ctx);
		do {
			rc = c->step->decide(c, &w->err);
			if (rc == ERR_NONE)
				rc = changes_commit(&c->ctx.changes, t, &w->err);
		} while (ctx_again(&c->ctx, &rc, &w->err));
	} while (ctx_decides_again(&c->ctx, rc, ++decisions));
	return rc;
}

enum err_code own_call_run(struct own_call *c, const struct own_step *step, struct err *err)
{
	enum err_code rc;

	c->base = (struct turn_request){.run = run_in_turn, .cost_bytes = step->cost_bytes};
	c->step = step;
	ctx_state(&c->ctx, c + 1, step->whole_bytes - sizeof(*c));
	rc = store_run(c->store, &c->base, err);
	ctx_state(&c->ctx, NULL, 0); /* what it found is the caller's now, also if it reads once more */
	if (rc == ERR_NONE)
		ctx_published(&c->ctx);
	return rc;
}
