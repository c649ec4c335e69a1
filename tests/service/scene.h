/* Scene: acts on a rough store. An act is a function of a service's that reads, decides and commits; several may be
 * played together. A scene that is opened anywhere is at an endpoint if the suite runs on one; then a test that needs the rough store
 * (scene_rough) ends as skipped. */
#ifndef TESTS_SERVICE_SCENE_H
#define TESTS_SERVICE_SCENE_H

#include "service/fixture.h"

#include "rough_store.h"
#include "service/context.h"

struct scene {
	struct service s;
	struct rough  *rough; /* NULL: at an endpoint */
	struct store  *store; /* the one or the other */
};

static inline void scene_open_with(struct scene *x, const char *rules, uint64_t seed)
{
	service_open(&x->s, rules);
	x->rough = rough_open(x->s.f.engine, seed);
	x->store = &x->rough->base;
}

static inline void scene_open(struct scene *x, uint64_t seed, bool calm)
{
	scene_open_with(x, NULL, seed);
	x->rough->calm = calm;
}

static inline void scene_open_anywhere(struct scene *x, uint64_t seed, bool calm)
{
	const char *endpoint = getenv(ENDPOINT_VARIABLE);

	if (endpoint == NULL || *endpoint == '\0') {
		scene_open(x, seed, calm);
		return;
	}
	service_open(&x->s, NULL);
	x->rough = NULL;
	x->store = x->s.f.store;
}

static inline struct rough *scene_rough(struct scene *x)
{
	if (x->rough == NULL)
		x->s.f.leave(&x->s.f);
	return x->rough;
}

static inline void scene_close(struct scene *x)
{
	rough_close_if_open(x->rough);
	service_close(&x->s);
}

struct act {
	struct turn_request base;
	struct scene       *x;
	struct context      ctx;
	enum err_code (*run)(struct act *act, struct err *err);
	int n;
};

static inline void act_begin(struct act *act, struct table *t)
{

	act->ctx.services = &act->x->s.all;
	act->ctx.arena = &act->x->s.f.arena;
	act->ctx.caller = BYTES("-");
	ctx_begin(&act->ctx, t);
}

static inline enum err_code act_run(struct turn_request *w, struct table *t)
{
	struct act *act = (struct act *)w;

	act_begin(act, t);
	return act->run(act, &w->err);
}

/* As the dispatcher does it: decides again if others came first. */
static inline enum err_code act_run_again(struct turn_request *w, struct table *t)
{
	struct act   *act = (struct act *)w;
	unsigned      decisions = 0;
	enum err_code rc;

	do {
		act_begin(act, t);
		ctx_foresee(&act->ctx);
		do
			rc = act->run(act, &w->err);
		while (ctx_again(&act->ctx, &rc, &w->err));
	} while (changes_decide_again(&act->ctx.changes, t, rc, ++decisions));
	return rc;
}

static inline enum err_code play(struct scene *x, enum err_code (*run)(struct act *, struct err *), int n)
{
	struct act act = {.base = {.run = act_run}, .x = x, .run = run, .n = n};

	return store_run(x->store, &act.base, &x->s.f.err);
}

static inline void act_done(struct turn_request *w)
{
	(void)w;
}

/* All at once, each as often as it takes. */
static inline void play_together(struct scene *x, struct act *acts, int count)
{
	rough_hold(scene_rough(x));
	for (int i = 0; i < count; i++) {
		acts[i].base = (struct turn_request){.run = act_run_again, .done = act_done};
		acts[i].x = x;
		assert_int_equal(rough_submit(&x->rough->base, &acts[i].base, &x->s.f.err), ERR_NONE);
	}
	rough_release(x->rough);
	rough_finish(x->rough);
	for (int i = 0; i < count; i++)
		if (acts[i].base.rc != ERR_NONE)
			fail_msg("seed %lu: %s", x->rough->seed, acts[i].base.err.text);
}

static inline enum err_code commit(struct act *act, struct err *err)
{
	return changes_commit(&act->ctx.changes, act->ctx.table, err);
}

/* ---- rows, and others who write them ---- */

static inline struct item row_with_count(struct context *ctx, const char *pk, const char *sk, int64_t count)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", bytes_of(pk));
	row_set_text(&row, "SK", bytes_of(sk));
	row_set_i64(&row, "count", count);
	return row_item(&row);
}

/* Others, in a call of their own. */
static inline void others_put(struct act *act, const char *pk, const char *sk, int64_t count)
{
	struct context ctx = act->ctx;
	struct err     err;

	ctx_begin(&ctx, act->ctx.table);
	ctx_put(&ctx, TABLE_AUTH_STATE, row_with_count(&ctx, pk, sk, count));
	assert_int_equal(changes_commit(&ctx.changes, ctx.table, &err), ERR_NONE);
}

/* Plays a scene of this seed: does what it is to show hold? `blind`: without the conditions of commits. */
typedef bool scene_holds(uint64_t seed, bool blind);

/* It holds with every seed; and blind it is lost with at least one: else it would show nothing. */
static inline void scene_show(scene_holds *holds, uint64_t seeds, uint64_t blind_seeds)
{
	bool lost = false;

	for (uint64_t seed = 1; seed <= seeds; seed++)
		if (!holds(seed, false))
			fail_msg("lost with seed %lu", seed);
	for (uint64_t seed = 1; seed <= blind_seeds && !lost; seed++)
		lost = !holds(seed, true);
	assert_true(lost);
}

#endif
