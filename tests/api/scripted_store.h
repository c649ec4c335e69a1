/* A store that follows a script: it refuses, fails, and keeps requests waiting until a test ends them. Its tables have one row, of whatever key. */
#ifndef TESTS_API_SCRIPTED_STORE_H
#define TESTS_API_SCRIPTED_STORE_H

#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "table/store.h"

enum ending { COMMITS, FAILS, THROTTLES, TOO_HEAVY };

struct scripted_store {
	struct store  base;
	struct table  table;
	struct clock *clock;
	bool          refuses; /* submit does */
	enum err_code write_fails;
	atomic_int    sessions; /* that read, open now */
	atomic_uint   rehearsals;
	bool          rehearsal_decides;

	/* a row of an Idempotency-Key, if one was written */
	struct arena arena;
	bool         has_row;
	struct item  row;

	/* under lock */
	pthread_mutex_t      lock;
	pthread_cond_t       arrived;
	struct turn_request *waiting; /* at most one */
};

static inline struct table *store_read_begin(struct store *s, struct arena *a)
{
	struct scripted_store *store = (struct scripted_store *)s;
	struct table          *t = arena_alloc(a, sizeof(*t));

	atomic_fetch_add(&store->sessions, 1);
	*t = store->table;
	return t;
}

static inline void store_read_end(struct store *s, struct table *t)
{
	memset(t, 0xdd, sizeof(*t)); /* nobody may use it any more */
	atomic_fetch_sub(&((struct scripted_store *)s)->sessions, 1);
}

static inline enum err_code store_submit(struct store *s, struct turn_request *w, struct err *err)
{
	struct scripted_store *store = (struct scripted_store *)s;

	if (store->refuses)
		return err_set(err, ERR_OVERLOADED, "as the script says");
	pthread_mutex_lock(&store->lock);
	assert_null(store->waiting);
	store->waiting = w;
	pthread_cond_signal(&store->arrived);
	pthread_mutex_unlock(&store->lock);
	return ERR_NONE;
}

static inline void store_rehearse(struct store *s, struct table *t, struct arena *a)
{
	(void)t;
	(void)a;
	atomic_fetch_add(&((struct scripted_store *)s)->rehearsals, 1);
}

static inline bool store_rehearsed(struct store *s, struct table *t)
{
	(void)t;
	return ((struct scripted_store *)s)->rehearsal_decides;
}

static inline void store_gathered(struct store *s)
{
	(void)s;
}

static inline int64_t store_now_us(struct store *s)
{
	return clock_steady_us(((struct scripted_store *)s)->clock);
}

/* Waits for a request, which is then the test's to end. */
static inline struct turn_request *store_take(struct scripted_store *s)
{
	struct turn_request *w;

	pthread_mutex_lock(&s->lock);
	while (s->waiting == NULL)
		pthread_cond_wait(&s->arrived, &s->lock);
	w = s->waiting;
	s->waiting = NULL;
	pthread_mutex_unlock(&s->lock);
	return w;
}

static inline void store_end(struct scripted_store *s, struct turn_request *w, enum ending how)
{
	struct table session = s->table;

	w->too_heavy = how == TOO_HEAVY;
	if (how == THROTTLES || how == TOO_HEAVY)
		w->rc = err_set(&w->err, how == THROTTLES ? ERR_CALLER_THROTTLED : ERR_THROTTLED,
		                "as the script says");
	else
		w->rc = w->run(w, &session);
	if (how == FAILS)
		w->rc = err_set(&w->err, ERR_STORAGE, "as the script says");
	w->done(w);
}

/* ---- its tables: one row, of whatever key ---- */

static struct scripted_store *script; /* of the house that is open */

static inline enum err_code table_get(struct table *t, struct arena *a, const struct table_get *q,
                                      struct table_get_result *r, struct err *err)
{
	(void)t;
	(void)a;
	(void)q;
	(void)err;
	*r = (struct table_get_result){.found = script->has_row, .item = script->row};
	return ERR_NONE;
}

static inline enum err_code table_keep(const struct table_write *w, struct err *err)
{
	if (script->write_fails != ERR_NONE)
		return err_set(err, script->write_fails, "as the script says");
	if (w->kind == TABLE_PUT && item_get(&w->item, BYTES("digest")) != NULL) {
		script->row = item_copy(&script->arena, &w->item);
		script->has_row = true;
	}
	return ERR_NONE;
}

static inline enum err_code table_write(struct table *t, struct arena *a, const struct table_write *q,
                                        struct table_write_result *r, struct err *err)
{
	(void)t;
	(void)a;
	memset(r, 0, sizeof(*r));
	return table_keep(q, err);
}

static inline enum err_code table_transact(struct table *t, struct arena *a,
                                           const struct table_transact_write *q,
                                           struct table_transact_result *r, struct err *err)
{
	(void)t;
	*r = (struct table_transact_result){.results = arena_zalloc(a, q->count * sizeof(*r->results))};
	for (uint32_t i = 0; i < q->count; i++)
		if (table_keep(&q->writes[i], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

static inline enum err_code table_create(struct table *t, struct arena *a, const struct table_schema *q,
                                         struct table_description *r, struct err *err)
{
	(void)t;
	(void)err;
	*r = (struct table_description){.schema = schema_copy(a, q)};
	return ERR_NONE;
}

static const struct table_backend scripted_table = {.name = "scripted",
                                                    .get = table_get,
                                                    .write = table_write,
                                                    .transact_write = table_transact,
                                                    .create = table_create};

static const struct store_backend scripted_backend = {.name = "scripted",
                                                      .read_begin = store_read_begin,
                                                      .read_end = store_read_end,
                                                      .rehearse = store_rehearse,
                                                      .rehearsed = store_rehearsed,
                                                      .submit = store_submit,
                                                      .gathered = store_gathered,
                                                      .now_us = store_now_us};

#endif
