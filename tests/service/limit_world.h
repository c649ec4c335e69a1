/* World: the limits service over an engine with a clock that tests set, called in each of the ways it is used:
 *
 *   memory  policies of the memory engine
 *   table   policies of the table engine, each call in one turn of the writer, as the server runs them
 *   apart   the same policies, but every call to the table is a turn of its own, so that others come in between: as on
 *           a remote engine, where only conditions keep calls apart */
#ifndef TESTS_SERVICE_LIMIT_WORLD_H
#define TESTS_SERVICE_LIMIT_WORLD_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/random.h>

#include "engine/fixture.h"
#include "remote/far_fixture.h"
#include "rough_store.h"
#include "service/limits.h"
#include "service/single.h"

enum way { MEMORY, TABLE, APART, WAYS };

/* As often as the server decides anew; more where many write one row of GCRA, which they can only do one by one. */
enum { APART_TRIES_MAX = CHANGES_DECISIONS_APART_MAX, APART_TRIES_GCRA = 1000 };

struct world {
	struct fixture  f;
	struct rough   *rough; /* NULL: what takes a turn takes it on the engine itself */
	struct limits  *limits;
	struct services all;
	enum way        way;
	atomic_uint     turns;            /* calls that needed one */
	void (*between)(struct world *w); /* APART, for the next call: see struct apart */
};

/* Policies as JSON with ' for ", and %ENGINE for the way's engine. */
static inline void world_use(struct world *w, const char *policies)
{
	struct document *set;
	struct buf       text;

	buf_init(&text, &w->f.arena);
	for (const char *p = policies; *p != '\0'; p++) {
		if (strncmp(p, "%ENGINE", 7) == 0) {
			buf_add_bytes(&text, bytes_of(w->way == MEMORY ? "memory" : "table"));
			p += 6;
		} else {
			buf_add_byte(&text, (uint8_t)*p);
		}
	}
	buf_add_byte(&text, '\0');
	if (limit_policies_parse(fixture_json(&w->f, text.data), &set, &w->f.err) != ERR_NONE)
		fail_msg("%s", w->f.err.text);
	document_put(limits_holder(w->limits), set);
}

static inline void world_random(void *out, size_t len)
{
	assert_int_equal(getrandom(out, len, 0), len);
}

static inline void world_open(struct world *w, enum way way, const char *policies)
{
	near_or_far_open(&w->f);
	w->rough = rough_open_if_asked(w->f.engine);
	w->way = way;
	atomic_init(&w->turns, 0);
	w->between = NULL;
	w->all = (struct services){.tables = service_tables_default(), .random = world_random};
	w->limits = w->all.limits = limits_open(
	        &(struct limits_options){.memory_bytes_max = LIMIT_MAP_BYTES_MIN, .seed = {1, 2}});
	document_holder_init(limits_holder(w->limits));
	world_use(w, policies);
}

static inline void world_close(struct world *w)
{
	document_holder_release(limits_holder(w->limits));
	limits_close(w->limits);
	rough_close_if_open(w->rough);
	near_or_far_close(&w->f);
}

static inline int64_t world_now_us(struct world *w)
{
	struct store *store = w->f.store != NULL ? w->f.store : engine_store(w->f.engine);

	return store->backend->now_us(store);
}

/* ---- a table whose every call is a turn of its own ---- */

struct apart {
	struct table   base;
	struct engine *engine;
	/* Something that others do after this one has read and before it writes; once. */
	void (*between)(struct world *w);
	struct world *w;
};

struct apart_call {
	struct turn_request base;
	struct arena       *arena;
	const void         *q;
	void               *r;
	struct bytes        name;
};

#define APART(member, query_type, result_type)                                                               \
	static inline enum err_code apart_##member##_run(struct turn_request *w, struct table *t)            \
	{                                                                                                    \
		struct apart_call *c = (struct apart_call *)w;                                               \
                                                                                                             \
		return t->backend->member(t, c->arena, c->q, c->r, &w->err);                                 \
	}                                                                                                    \
	static inline enum err_code apart_##member(struct table *t, struct arena *a, const query_type *q,    \
	                                           result_type *r, struct err *err)                          \
	{                                                                                                    \
		struct apart_call c = {.base = {.run = apart_##member##_run, .cost_bytes = 100},             \
		                       .arena = a,                                                           \
		                       .q = q,                                                               \
		                       .r = r};                                                              \
                                                                                                             \
		return engine_run(((struct apart *)t)->engine, &c.base, err);                                \
	}

APART(get, struct table_get, struct table_get_result)
APART(transact_get, struct table_batch_get, struct table_batch_get_result)
APART(transact_write, struct table_transact_write, struct table_transact_result)

static inline enum err_code apart_write_late(struct table *t, struct arena *a,
                                             const struct table_transact_write *q,
                                             struct table_transact_result *r, struct err *err)
{
	struct apart *me = (struct apart *)t;
	void (*between)(struct world * w) = me->between;

	me->between = NULL;
	if (between != NULL)
		between(me->w);
	return apart_transact_write(t, a, q, r, err);
}

APART(write, struct table_write, struct table_write_result)

static inline enum err_code apart_single_late(struct table *t, struct arena *a, const struct table_write *q,
                                              struct table_write_result *r, struct err *err)
{
	struct apart *me = (struct apart *)t;
	void (*between)(struct world * w) = me->between;

	me->between = NULL;
	if (between != NULL)
		between(me->w);
	return apart_write(t, a, q, r, err);
}

APART(create, struct table_schema, struct table_description)
APART(alter, struct table_alter, struct table_description)

static inline enum err_code apart_describe_run(struct turn_request *w, struct table *t)
{
	struct apart_call *c = (struct apart_call *)w;

	return t->backend->describe(t, c->arena, c->name, c->r, &w->err);
}

static inline enum err_code apart_describe(struct table *t, struct arena *a, struct bytes name,
                                           struct table_description *r, struct err *err)
{
	struct apart_call c = {
	        .base = {.run = apart_describe_run, .cost_bytes = 100}, .arena = a, .r = r, .name = name};

	return engine_run(((struct apart *)t)->engine, &c.base, err);
}

static const struct table_backend apart_backend = {.name = "apart",
                                                   .get = apart_get,
                                                   .transact_get = apart_transact_get,
                                                   .transact_write = apart_write_late,
                                                   .write = apart_single_late,
                                                   .create = apart_create,
                                                   .alter = apart_alter,
                                                   .describe = apart_describe};

/* ---- calling ---- */

struct world_call {
	struct turn_request base;
	struct world       *w;
	struct limit_call  *call;
	struct arena       *arena;
};

static inline enum err_code world_step(struct world *w, struct limit_call *c, struct table *t,
                                       struct arena *a, struct err *err)
{
	struct context ctx = {.services = &w->all, .arena = a, .caller = BYTES("-")};

	ctx_begin(&ctx, t);
	if (limits_run(&ctx, c, err) != ERR_NONE)
		return err->code;
	return changes_commit(&ctx.changes, t, err);
}

static inline enum err_code world_in_turn(struct turn_request *base, struct table *t)
{
	struct world_call *c = (struct world_call *)base;

	return world_step(c->w, c->call, t, c->arena, &base->err);
}

static inline enum err_code world_in_turns(struct world *w, struct limit_call *c, struct arena *a,
                                           struct err *err)
{
	struct apart t = {{.backend = &apart_backend, .now_us = world_now_us(w)}, w->f.engine, w->between, w};
	enum err_code rc = ERR_CONDITION;
	int           tries = APART_TRIES_MAX;

	if (t.between != NULL) /* where many threads call, there is none */
		w->between = NULL;
	for (unsigned i = 0; i < c->count; i++)
		if (c->asks[i].policy->rule.algorithm == LIMIT_GCRA)
			tries = APART_TRIES_GCRA;
	for (int i = 0; i < tries && rc == ERR_CONDITION; i++)
		rc = world_step(w, c, &t.base, a, err);
	return rc;
}

static inline enum err_code world_without_turn(struct world *w, struct limit_call *c, struct arena *a,
                                               struct err *err)
{
	struct fixture_reader reader;
	enum err_code         rc;

	fixture_reader_begin(&reader, &w->f);
	rc = world_step(w, c, reader.table, a, err);
	fixture_reader_end(&reader);
	return rc;
}

/* As the server does it. */
static inline enum err_code world_run(struct world *w, struct limit_call *c, struct arena *a, struct err *err)
{
	struct world_call turn = {
	        .base = {.run = world_in_turn, .cost_bytes = 100}, .w = w, .call = c, .arena = a};

	enum err_code rc;

	if (!limits_needs_turn(w->limits, c, world_now_us(w))) {
		rc = world_without_turn(w, c, a, err);
	} else {
		if (w->between != NULL && w->f.store != NULL)
			fixture_engine(&w->f); /* nothing comes in between there */
		atomic_fetch_add(&w->turns, 1);
		rc = w->way == APART && w->f.store == NULL ? world_in_turns(w, c, a, err)
		     : w->f.store != NULL                  ? far_run(&w->f, &turn.base, err)
		                          : rough_or_engine_run(w->rough, w->f.engine, &turn.base, err);
	}
	if (rc == ERR_NONE)
		limits_kept(w->limits, c, world_now_us(w));
	return rc;
}

static inline void call_init(struct limit_call *c, enum limit_verb verb)
{
	memset(c, 0, sizeof(*c));
	c->verb = verb;
}

static inline void call_add(struct world *w, struct limit_call *c, const char *policy, const char *key,
                            uint64_t cost)
{
	struct limit_policies     *set = limits_policies(w->limits);
	const struct limit_policy *p = limit_policies_find(set, bytes_of(policy));
	struct limit_key           named = limit_key_plain(bytes_of(key));

	assert_non_null(p);
	assert_true(limit_call_add(c, &w->f.arena, p, &named, cost));
	limit_policies_release(set); /* no test changes the policies during a call */
}

/* One ask; its call, for what else is to be seen. */
static inline struct limit_call ask(struct world *w, enum limit_verb verb, const char *policy,
                                    const char *key, uint64_t cost)
{
	struct limit_call c;

	call_init(&c, verb);
	call_add(w, &c, policy, key, cost);
	if (world_run(w, &c, &w->f.arena, &w->f.err) != ERR_NONE)
		fail_msg("%s", w->f.err.text);
	return c;
}

static inline bool allowed(struct world *w, const char *policy, const char *key)
{
	return ask(w, LIMIT_TAKE, policy, key, 1).allowed;
}

static inline uint64_t remaining(struct world *w, const char *policy, const char *key)
{
	return ask(w, LIMIT_TAKE, policy, key, 0).asks[0].answer.remaining;
}

/* ---- many at once: of the first policy ---- */

struct client {
	struct world *w;
	const char   *key;
	pthread_t     thread;
	unsigned      requests, allowed;
	bool          failed;
};

static inline void *client_main(void *arg)
{
	struct client *me = arg;
	struct arena   a;
	struct err     err;

	arena_init(&a);
	for (unsigned i = 0; i < me->requests; i++) {
		struct limit_policies *set = limits_policies(me->w->limits);
		struct limit_call      c;

		call_init(&c, LIMIT_TAKE);
		limit_call_add(&c, &a, &set->list[0], &(struct limit_key){.text = bytes_of(me->key)}, 1);
		me->failed = me->failed || world_run(me->w, &c, &a, &err) != ERR_NONE;
		me->allowed += c.allowed;
		limit_policies_release(set);
	}
	arena_release(&a);
	return NULL;
}

static inline unsigned clients_run(struct world *w, const char *key, unsigned count, unsigned requests)
{
	struct client clients[64];
	unsigned      sum = 0;

	for (unsigned i = 0; i < count; i++) {
		clients[i] = (struct client){.w = w, .key = key, .requests = requests};
		assert_int_equal(pthread_create(&clients[i].thread, NULL, client_main, &clients[i]), 0);
	}
	for (unsigned i = 0; i < count; i++) {
		pthread_join(clients[i].thread, NULL);
		assert_false(clients[i].failed);
		sum += clients[i].allowed;
	}
	return sum;
}

/* All of a limit pass, and no more. The rough store loses answers: if others wrote in between, a unit may then count twice, never too rarely (single.h, 2). */
enum { LOST_MAX = 20 };

static inline void assert_all_pass(const struct world *w, enum way way, unsigned passed, unsigned limit)
{
	assert_in_range(passed, w->rough != NULL && way == TABLE ? limit - LOST_MAX : limit, limit);
}

/* The row of a key, or one without attributes. As the documents of such limiters draw it: without who wrote it last (single.h). */
static inline struct item world_row(struct world *w, const char *pk)
{
	struct row              row;
	struct fixture_reader   reader;
	struct value            key = value_string(bytes_of(pk));
	struct item             none = {0};
	struct table_get        q = {.table = BYTES("rate-limits"),
	                             .key = item_with(&w->f.arena, &none, BYTES("PK"), &key)};
	struct table_get_result r;
	enum err_code           rc;

	fixture_reader_begin(&reader, &w->f);
	rc = reader.table->backend->get(reader.table, &w->f.arena, &q, &r, &w->f.err);
	fixture_reader_end(&reader);
	if (rc != ERR_NONE || !r.found)
		return none;
	row_from(&row, &w->f.arena, &r.item);
	row_remove(&row, SINGLE_NONCE);
	return row_item(&row);
}

#endif
