/* The rough store: an engine as a service finds it that is not alone. Requests run side by side, as over a network:
 *
 *   - every call of a request is a turn of its own, and between any two calls other requests get on;
 *   - a batch of reads is two turns, with others in between: only a transaction reads all at one moment;
 *   - nothing is kept between calls but rows: results are copied to the caller, and what they were copied from is destroyed;
 *   - at random a call is answered late, or refused for the moment (nothing was written), or nobody says whether it was
 *     done, or a transaction is cancelled because of a conflict.
 *
 * One request runs at a time. The seed says which one goes on at each call, and what goes wrong: with the same seed, requests
 * that were submitted in the same order do the same. ROUGH_VARIABLE holds a seed and puts suites on this store: with it a
 * failure is replayed.
 *
 * A session for reads alone (read_begin) is answered by the engine itself. */
#ifndef TESTS_ROUGH_STORE_H
#define TESTS_ROUGH_STORE_H

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "random.h"

#define ROUGH_VARIABLE "GATEHOUSE_ROUGH"

/* The engine's own store; a program that puts this one in its place has another name for it. */
#ifndef ROUGH_ENGINE_STORE
#define ROUGH_ENGINE_STORE engine_store
#endif

enum {
	ROUGH_FAULTS_IN_A_ROW_MAX = 2, /* of one request: it would give up at some point, and rightly */
	ROUGH_LATE_CALLS_MAX = 6,      /* of others, that go before a late answer */
};

struct rough;

/* A request under way, in a thread of its own. */
struct rough_task {
	struct table         base; /* first: its session */
	struct rough        *rough;
	struct turn_request *request;
	struct rough_task   *next;
	pthread_cond_t       chosen;
	unsigned             faults;     /* in a row */
	bool                 unanswered; /* what it wrote last was done, and nobody said so */
};

struct rough {
	struct store             base;
	_Atomic(struct engine *) engine; /* any thread may say that it was started anew */
	uint64_t                 seed;
	bool                     calm;  /* nothing goes wrong; others still run in between */
	bool                     blind; /* conditions are left out: a control, to see that tests notice */
	bool                     in_the_way; /* a writer is in the way of every transaction that reads */
	void (*between)(struct rough *r,
	                void *ctx); /* between the two turns of a batch of reads, once; NULL: nothing */
	void *between_ctx;

	/* shared, under the lock */
	pthread_mutex_t    lock;
	pthread_cond_t     ended; /* somebody is done */
	struct random      random;
	struct rough_task *first;   /* those under way */
	struct rough_task *running; /* the one that goes on */
	unsigned           count, live;
	bool               held; /* nobody goes on */
	unsigned           conflicts, faults, calls;
	unsigned           snapshots; /* transactions that read */
	unsigned           actions;   /* of the last transaction that writes */
};

/* ---- whose turn it is ---- */

static inline void rough_choose(struct rough *r)
{
	struct rough_task *task = r->first;

	r->running = NULL;
	if (r->count == 0 || r->held)
		return;
	for (uint64_t n = random_below(&r->random, r->count); n > 0; n--)
		task = task->next;
	r->running = task;
	pthread_cond_signal(&task->chosen);
}

static inline void rough_await(struct rough_task *task)
{
	while (task->rough->running != task)
		pthread_cond_wait(&task->chosen, &task->rough->lock);
}

/* Others may go first, so many times. */
static inline void rough_yield(struct rough_task *task, unsigned times)
{
	pthread_mutex_lock(&task->rough->lock);
	for (unsigned i = 0; i < times; i++) {
		rough_choose(task->rough);
		rough_await(task);
	}
	pthread_mutex_unlock(&task->rough->lock);
}

static inline uint64_t rough_draw(struct rough *r, uint64_t bound)
{
	uint64_t n;

	pthread_mutex_lock(&r->lock);
	n = random_below(&r->random, bound);
	pthread_mutex_unlock(&r->lock);
	return n;
}

/* ---- what goes wrong ---- */

enum rough_fate { ROUGH_FINE, ROUGH_REFUSED, ROUGH_LOST, ROUGH_UNANSWERED, ROUGH_CONFLICT };

/* LOST: it was not done, UNANSWERED: it was; nobody says so. CONFLICT: only of transactions, and not of one that was
 * done: it is known by its token. */
static inline enum rough_fate rough_fate(struct rough_task *task, bool transaction)
{
	struct rough   *r = task->rough;
	uint64_t        n = rough_draw(r, 100);
	enum rough_fate fate = n < 4                   ? ROUGH_REFUSED
	                       : n < 7                 ? ROUGH_LOST
	                       : n < 10                ? ROUGH_UNANSWERED
	                       : n < 20 && transaction ? ROUGH_CONFLICT
	                                               : ROUGH_FINE;

	if (r->calm || task->faults >= ROUGH_FAULTS_IN_A_ROW_MAX ||
	    (fate == ROUGH_CONFLICT && task->unanswered))
		fate = ROUGH_FINE;
	if (transaction && fate != ROUGH_REFUSED && fate != ROUGH_LOST)
		task->unanswered = fate == ROUGH_UNANSWERED;
	task->faults = fate == ROUGH_FINE ? 0 : task->faults + 1;
	r->faults += fate != ROUGH_FINE;
	r->calls++;
	return fate;
}

static inline enum err_code rough_fail(struct rough_task *task, enum rough_fate fate, struct err *err)
{
	if (fate != ROUGH_REFUSED)
		return err_set(err, ERR_STORAGE, "rough store: no answer");
	return rough_draw(task->rough, 2) == 0 ? err_set(err, ERR_THROTTLED, "rough store: slow down")
	                                       : err_set(err, ERR_OVERLOADED, "rough store: busy");
}

/* ---- copies: the caller's arena holds all that is left of an answer ---- */

static inline struct capacity rough_copy_capacity(struct arena *a, const struct capacity *c)
{
	struct capacity copy = *c;

	copy.table = arena_copy(a, c->table);
	copy.indexes = NULL; /* no service looks */
	copy.index_count = 0;
	return copy;
}

static inline void rough_copy_get(struct arena *a, struct table_get_result *r)
{
	r->item = item_copy(a, &r->item);
	r->capacity = rough_copy_capacity(a, &r->capacity);
}

static inline void rough_copy_write(struct arena *a, struct table_write_result *r)
{
	r->item = item_copy(a, &r->item);
	r->collection_name = arena_copy(a, r->collection_name);
	if (r->has_collection)
		r->collection_key = value_copy(a, &r->collection_key);
	r->capacity = rough_copy_capacity(a, &r->capacity);
}

static inline void rough_copy_query(struct arena *a, struct table_query_result *r)
{
	struct item *items = arena_array(a, r->count + 1, sizeof(*items));

	for (uint32_t i = 0; i < r->count; i++)
		items[i] = item_copy(a, &r->items[i]);
	r->items = items;
	r->last_key = item_copy(a, &r->last_key);
	r->capacity = rough_copy_capacity(a, &r->capacity);
}

static inline void rough_copy_batch(struct arena *a, struct table_batch_get_result *r, uint32_t count)
{
	struct table_get_result *results = arena_array(a, count + 1, sizeof(*results));
	bool                    *skipped = arena_zalloc(a, count + 1);

	for (uint32_t i = 0; i < count; i++) {
		results[i] = r->results[i];
		rough_copy_get(a, &results[i]);
		skipped[i] = r->skipped != NULL && r->skipped[i];
	}
	r->results = results;
	r->skipped = skipped;
}

/* `count` actions were done of those that were asked for: all, unless checks were left out. */
static inline void rough_copy_transact(struct arena *a, struct table_transact_result *r, uint32_t count,
                                       uint32_t asked)
{
	struct table_reason       *reasons = arena_zalloc(a, (asked + 1) * sizeof(*reasons));
	struct table_write_result *results = arena_zalloc(a, (asked + 1) * sizeof(*results));

	for (uint32_t i = 0; i < count && r->cancelled; i++) {
		reasons[i] = r->reasons[i];
		reasons[i].item = item_copy(a, &reasons[i].item);
		if (reasons[i].text != NULL)
			reasons[i].text = arena_printf(a, "%s", reasons[i].text).data;
	}
	for (uint32_t i = 0; i < count && !r->cancelled; i++) {
		results[i] = r->results[i];
		rough_copy_write(a, &results[i]);
	}
	r->reasons = reasons;
	r->results = results;
}

/* ---- calls ---- */

/* One call, as a turn of the engine. */
struct rough_call {
	struct turn_request base;
	struct arena       *arena;
	const void         *q;
	void               *r;
	struct bytes        name;
};

static inline enum err_code rough_turn(struct rough_task *task, struct rough_call *c, enum rough_fate fate,
                                       struct err *err)
{
	enum err_code rc = ERR_NONE;

	rough_yield(task, 1);
	if (fate != ROUGH_REFUSED && fate != ROUGH_LOST) {
		c->base.cost_bytes = 100;
		rc = engine_run(task->rough->engine, &c->base, err);
	}
	if (rough_draw(task->rough, 8) == 0) /* late */
		rough_yield(task, (unsigned)rough_draw(task->rough, ROUGH_LATE_CALLS_MAX));
	return fate == ROUGH_FINE ? rc : rough_fail(task, fate, err);
}

/* `copy` names the result r of a call q, in the caller's arena a. */
#define ROUGH(member, query_type, result_type, copy)                                                         \
	static inline enum err_code rough_##member##_run(struct turn_request *w, struct table *t)            \
	{                                                                                                    \
		struct rough_call *c = (struct rough_call *)w;                                               \
                                                                                                             \
		return t->backend->member(t, c->arena, c->q, c->r, &w->err);                                 \
	}                                                                                                    \
	static inline enum err_code rough_##member(struct table *t, struct arena *a, const query_type *q,    \
	                                           result_type *r, struct err *err)                          \
	{                                                                                                    \
		struct rough_task *task = (struct rough_task *)t;                                            \
		struct arena       own;                                                                      \
		struct rough_call  c = {                                                                     \
		         .base = {.run = rough_##member##_run}, .arena = &own, .q = q, .r = r};              \
		enum err_code rc;                                                                            \
                                                                                                             \
		arena_init(&own);                                                                            \
		*r = (result_type){0};                                                                       \
		rc = rough_turn(task, &c, rough_fate(task, false), err);                                     \
		if (rc == ERR_NONE)                                                                          \
			copy;                                                                                \
		arena_release(&own);                                                                         \
		return rc;                                                                                   \
	}

ROUGH(get, struct table_get, struct table_get_result, rough_copy_get(a, r))
ROUGH(query, struct table_query, struct table_query_result, rough_copy_query(a, r))
ROUGH(batch_get, struct table_batch_get, struct table_batch_get_result, rough_copy_batch(a, r, q->count))
ROUGH(transact_get, struct table_batch_get, struct table_batch_get_result, rough_copy_batch(a, r, q->count))

static inline enum err_code rough_snapshot(struct table *t, struct arena *a, const struct table_batch_get *q,
                                           struct table_batch_get_result *r, struct err *err)
{
	struct rough *rough = ((struct rough_task *)t)->rough;

	if (rough->in_the_way) {
		rough->calls++;
		return err_set(err, ERR_CONDITION, "rough store: a writer is in the way");
	}
	rough->snapshots++;
	return rough_transact_get(t, a, q, r, err);
}

/* Those rows of a batch whose `later` is this. */
static inline enum err_code rough_part_get(struct rough_task *task, struct arena *a,
                                           const struct table_batch_get *q, const bool *later, bool part,
                                           struct table_batch_get_result *r, struct err *err)
{
	struct table_get             *gets = arena_array(a, q->count + 1, sizeof(*gets));
	struct table_batch_get        some = {gets, 0};
	struct table_batch_get_result got = {0};
	struct rough_call c = {.base = {.run = rough_batch_get_run}, .arena = a, .q = &some, .r = &got};
	enum err_code     rc;

	for (uint32_t i = 0; i < q->count; i++)
		if (later[i] == part)
			gets[some.count++] = q->gets[i];
	if (some.count == 0)
		return ERR_NONE;
	rc = rough_turn(task, &c, ROUGH_FINE, err);
	for (uint32_t i = 0, n = 0; rc == ERR_NONE && i < q->count; i++)
		if (later[i] == part) {
			r->skipped[i] = got.skipped != NULL && got.skipped[n];
			r->results[i] = got.results[n++];
		}
	return rc;
}

static inline enum err_code rough_torn_get(struct table *t, struct arena *a, const struct table_batch_get *q,
                                           struct table_batch_get_result *r, struct err *err)
{
	struct rough_task *task = (struct rough_task *)t;
	struct rough      *rough = task->rough;
	enum rough_fate    fate = rough_fate(task, false);
	struct arena       own;
	bool              *later;
	enum err_code      rc;

	if (fate != ROUGH_FINE)
		return rough_fail(task, fate, err);
	arena_init(&own);
	later = arena_zalloc(&own, q->count + 1);
	*r = (struct table_batch_get_result){.results =
	                                             arena_zalloc(&own, (q->count + 1) * sizeof(*r->results)),
	                                     .skipped = arena_zalloc(&own, q->count + 1)};
	for (uint32_t i = 0; i < q->count; i++)
		later[i] = rough->between != NULL ? i == 0 : rough_draw(rough, 2) == 1;
	rc = rough_part_get(task, &own, q, later, false, r, err);
	if (rough->between != NULL) {
		rough->between(rough, rough->between_ctx);
		rough->between = NULL;
	}
	if (rc == ERR_NONE)
		rc = rough_part_get(task, &own, q, later, true, r, err);
	if (rc == ERR_NONE)
		rough_copy_batch(a, r, q->count);
	arena_release(&own);
	return rc;
}

static inline enum err_code rough_transact_run(struct turn_request *w, struct table *t)
{
	struct rough_call *c = (struct rough_call *)w;

	return t->backend->transact_write(t, c->arena, c->q, c->r, &w->err);
}

static inline void rough_conflict(struct arena *a, struct table_transact_result *r, uint32_t count)
{
	r->cancelled = true;
	r->reasons = arena_zalloc(a, (count + 1) * sizeof(*r->reasons));
	r->reasons[0] = (struct table_reason){.code = ERR_CONDITION, .text = "rough store: conflict"};
}

/* What a service would ask for that leaves out its conditions. */
static inline void rough_blind(struct arena *a, struct table_transact_write *q)
{
	struct table_write *writes = arena_array(a, q->count + 1, sizeof(*writes));
	uint32_t            count = 0;

	for (uint32_t i = 0; i < q->count; i++) {
		if (q->writes[i].kind == TABLE_CHECK)
			continue;
		writes[count] = q->writes[i];
		writes[count++].condition = NULL;
	}
	q->writes = writes;
	q->count = count;
}

static inline enum err_code rough_transact_write(struct table *t, struct arena *a,
                                                 const struct table_transact_write *asked,
                                                 struct table_transact_result *r, struct err *err)
{
	struct rough_task          *task = (struct rough_task *)t;
	struct table_transact_write q = *asked;
	struct arena                own;
	struct rough_call           c = {.base = {.run = rough_transact_run}, .arena = &own, .q = &q, .r = r};
	enum rough_fate             fate = rough_fate(task, true);
	enum err_code               rc = ERR_NONE;

	*r = (struct table_transact_result){0};
	task->rough->actions = q.count;
	arena_init(&own);
	if (task->rough->blind)
		rough_blind(&own, &q);
	if (fate == ROUGH_CONFLICT)
		rough_conflict(&own, r, q.count);
	else if (q.count > 0)
		rc = rough_turn(task, &c, fate, err);
	if (rc == ERR_NONE) {
		rough_copy_transact(a, r, q.count, asked->count);
		task->rough->conflicts += r->cancelled;
	}
	arena_release(&own);
	return rc;
}

static inline enum err_code rough_write_run(struct turn_request *w, struct table *t)
{
	struct rough_call *c = (struct rough_call *)w;

	return t->backend->write(t, c->arena, c->q, c->r, &w->err);
}

static inline enum err_code rough_write(struct table *t, struct arena *a, const struct table_write *asked,
                                        struct table_write_result *r, struct err *err)
{
	struct rough_task *task = (struct rough_task *)t;
	struct table_write q = *asked;
	struct arena       own;
	struct rough_call  c = {.base = {.run = rough_write_run}, .arena = &own, .q = &q, .r = r};
	/* Services ask what the row was, and settle what became of a write (single.h). Who comes by DynamoDB's door does not. */
	enum rough_fate fate = asked->return_old_on_failure ? rough_fate(task, true) : ROUGH_FINE;
	enum err_code   rc;

	*r = (struct table_write_result){0};
	task->rough->actions = 1;
	if (task->rough->blind)
		q.condition = NULL;
	if (fate == ROUGH_CONFLICT)
		return err_set(err, ERR_CONTENDED, "rough store: conflict");
	arena_init(&own);
	rc = rough_turn(task, &c, fate, err);
	if (rc == ERR_NONE) {
		rough_copy_write(a, r);
		task->rough->conflicts += r->condition_failed;
	}
	arena_release(&own);
	return rc;
}

/* ---- what services do not call, or seldom: answered in the caller's arena, and always ---- */

#define ROUGH_TABLE(member, query_type, result_type)                                                         \
	static inline enum err_code rough_##member##_run(struct turn_request *w, struct table *t)            \
	{                                                                                                    \
		struct rough_call *c = (struct rough_call *)w;                                               \
                                                                                                             \
		return t->backend->member(t, c->arena, c->q, c->r, &w->err);                                 \
	}                                                                                                    \
	static inline enum err_code rough_##member(struct table *t, struct arena *a, const query_type *q,    \
	                                           result_type *r, struct err *err)                          \
	{                                                                                                    \
		struct rough_call c = {.base = {.run = rough_##member##_run}, .arena = a, .q = q, .r = r};   \
                                                                                                             \
		return rough_turn((struct rough_task *)t, &c, ROUGH_FINE, err);                              \
	}

ROUGH_TABLE(batch_write, struct table_batch_write, struct table_batch_write_result)
ROUGH_TABLE(list, struct table_list, struct table_list_result)
ROUGH_TABLE(create, struct table_schema, struct table_description)
ROUGH_TABLE(alter, struct table_alter, struct table_description)

#define ROUGH_NAMED(member)                                                                                  \
	static inline enum err_code rough_##member##_run(struct turn_request *w, struct table *t)            \
	{                                                                                                    \
		struct rough_call *c = (struct rough_call *)w;                                               \
                                                                                                             \
		return t->backend->member(t, c->arena, c->name, c->r, &w->err);                              \
	}                                                                                                    \
	static inline enum err_code rough_##member(struct table *t, struct arena *a, struct bytes name,      \
	                                           struct table_description *r, struct err *err)             \
	{                                                                                                    \
		struct rough_call c = {                                                                      \
		        .base = {.run = rough_##member##_run}, .arena = a, .name = name, .r = r};            \
                                                                                                             \
		return rough_turn((struct rough_task *)t, &c, ROUGH_FINE, err);                              \
	}

ROUGH_NAMED(describe)
ROUGH_NAMED(remove)

static inline void rough_pause(struct table *t, int64_t us)
{
	struct rough_task *task = (struct rough_task *)t;

	(void)us;
	rough_yield(task, 1 + (unsigned)rough_draw(task->rough, ROUGH_LATE_CALLS_MAX));
}

static const struct table_backend rough_table_backend = {.name = "rough",
                                                         .reads_wait = true,
                                                         .get = rough_get,
                                                         .write = rough_write,
                                                         .query = rough_query,
                                                         .batch_get = rough_torn_get,
                                                         .transact_get = rough_snapshot,
                                                         .transact_write = rough_transact_write,
                                                         .create = rough_create,
                                                         .describe = rough_describe,
                                                         .list = rough_list,
                                                         .remove = rough_remove,
                                                         .batch_write = rough_batch_write,
                                                         .alter = rough_alter,
                                                         .pause = rough_pause};

/* ---- the store ---- */

static inline void *rough_run(void *ctx)
{
	struct rough_task   *task = ctx;
	struct rough        *r = task->rough;
	struct turn_request *w = task->request;

	pthread_mutex_lock(&r->lock);
	rough_await(task);
	pthread_mutex_unlock(&r->lock);
	task->base.now_us = engine_now_us(r->engine);
	w->rc = w->run(w, &task->base);
	pthread_mutex_lock(&r->lock);
	for (struct rough_task **at = &r->first; *at != NULL; at = &(*at)->next)
		if (*at == task) {
			*at = task->next;
			break;
		}
	r->count--;
	rough_choose(r);
	pthread_mutex_unlock(&r->lock);
	w->done(w);
	free(task);
	pthread_mutex_lock(&r->lock);
	r->live--;
	pthread_cond_broadcast(&r->ended);
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

static inline enum err_code rough_submit(struct store *s, struct turn_request *w, struct err *err)
{
	struct rough      *r = (struct rough *)s;
	struct rough_task *task = calloc(1, sizeof(*task)), **last = &r->first;
	pthread_t          thread;

	(void)err;
	*task = (struct rough_task){.base = {.backend = &rough_table_backend},
	                            .rough = r,
	                            .request = w,
	                            .chosen = PTHREAD_COND_INITIALIZER};
	pthread_mutex_lock(&r->lock);
	while (*last != NULL)
		last = &(*last)->next;
	*last = task;
	r->count++;
	r->live++;
	if (r->running == NULL)
		rough_choose(r);
	pthread_mutex_unlock(&r->lock);
	if (pthread_create(&thread, NULL, rough_run, task) != 0)
		abort();
	pthread_detach(thread);
	return ERR_NONE;
}

static inline void rough_gathered(struct store *s)
{
	(void)s;
}

static inline struct store *rough_engine(const struct store *s)
{
	return ROUGH_ENGINE_STORE(((const struct rough *)s)->engine);
}

static inline struct table *rough_read_begin(struct store *s, struct arena *a)
{
	return rough_engine(s)->backend->read_begin(rough_engine(s), a);
}

static inline void rough_read_end(struct store *s, struct table *t)
{
	rough_engine(s)->backend->read_end(rough_engine(s), t);
}

static inline int64_t rough_now_us(struct store *s)
{
	return engine_now_us(((struct rough *)s)->engine);
}

static inline bool rough_ready(const struct store *s)
{
	return rough_engine(s)->backend->ready(rough_engine(s));
}

static inline void rough_stats(struct store *s, struct store_stats *out)
{
	rough_engine(s)->backend->stats(rough_engine(s), out);
}

static const struct store_backend rough_backend = {.name = "rough",
                                                   .read_begin = rough_read_begin,
                                                   .read_end = rough_read_end,
                                                   .submit = rough_submit,
                                                   .gathered = rough_gathered,
                                                   .now_us = rough_now_us,
                                                   .ready = rough_ready,
                                                   .stats = rough_stats};

static inline struct rough *rough_open(struct engine *engine, uint64_t seed)
{
	struct rough *r = calloc(1, sizeof(*r));

#ifdef TESTS_REMOTE_FAR_FIXTURE_H
	if (far_world.name != NULL)
		far_leave(far_world.f); /* the test is about this store, and the suite runs on another */
#endif
	mallopt(M_PERTURB, 0xa5); /* what is freed is no longer what it was */
	*r = (struct rough){.base = {&rough_backend},
	                    .engine = engine,
	                    .seed = seed,
	                    .lock = PTHREAD_MUTEX_INITIALIZER,
	                    .ended = PTHREAD_COND_INITIALIZER,
	                    .random = {seed}};
	return r;
}

/* Waits until nobody is under way. */
static inline void rough_finish(struct rough *r)
{
	pthread_mutex_lock(&r->lock);
	while (r->live > 0)
		pthread_cond_wait(&r->ended, &r->lock);
	pthread_mutex_unlock(&r->lock);
}

static inline void rough_close(struct rough *r)
{
	rough_finish(r);
	free(r);
}

/* What is submitted from here on waits for rough_release: so all of it begins at once, in an order that a seed fixes. */
static inline void rough_hold(struct rough *r)
{
	pthread_mutex_lock(&r->lock);
	r->held = true;
	pthread_mutex_unlock(&r->lock);
}

static inline void rough_release(struct rough *r)
{
	pthread_mutex_lock(&r->lock);
	r->held = false;
	if (r->running == NULL)
		rough_choose(r);
	pthread_mutex_unlock(&r->lock);
}

/* ---- suites that run on either store ---- */

/* A rough store over this engine, or NULL: the suite runs on the engine itself. */
static inline struct rough *rough_open_if_asked(struct engine *engine)
{
	const char *text = getenv(ROUGH_VARIABLE);

	if (text == NULL || *text == '\0')
		return NULL;
	return rough_open(engine, strtoull(text, NULL, 10));
}

static inline void rough_close_if_open(struct rough *r)
{
	if (r != NULL)
		rough_close(r);
}

/* Runs the request on one or the other, and again if others came first, as the dispatcher does. */
static inline enum err_code rough_or_engine_run(struct rough *r, struct engine *engine,
                                                struct turn_request *w, struct err *err)
{
	enum err_code rc;
	int           decisions = 0;

	if (r == NULL)
		return engine_run(engine, w, err);
	r->engine = engine; /* it may have been started anew */
	do
		rc = store_run(&r->base, w, err);
	while (rc == ERR_CONDITION && ++decisions < 100);
	return rc;
}

#endif
