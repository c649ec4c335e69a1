/* Crew: threads that work on one engine, each with a memory of its own. cmocka's asserts belong to the main
 * thread, so a worker notes what it saw go wrong, and crew_end fails the test with the first note. */
#ifndef TESTS_ENGINE_CREW_H
#define TESTS_ENGINE_CREW_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/fixture.h"

enum { CREW_MAX = 16 };

/* Things p, s with an n, by which an index orders them that holds nothing but keys. */
#define TABLE_BY_N                                                                                           \
	"{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'AttributeName':'p'" \
	",'AttributeType':'S'},{'AttributeName':'s','AttributeType':'N'},{'AttributeName':'n','"             \
	"AttributeType':'N'}],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'},{'AttributeName':'s',"     \
	"'KeyType':'RANGE'}],'LocalSecondaryIndexes':[{'IndexName':'by-n','KeySchema':[{'AttributeName':"    \
	"'p','KeyType':'HASH'},{'AttributeName':'n','KeyType':'RANGE'}],'Projection':{'ProjectionType':"     \
	"'KEYS_ONLY'}}]}"

struct worker {
	struct crew *crew;
	pthread_t    thread;
	int          number;
	bool         keeps_on; /* until the others are done, rather than to its end */
	void (*work)(struct worker *w);
	struct arena arena;
	struct err   err;
	char         note[256]; /* what went wrong */
};

struct crew {
	struct fixture f;
	struct worker  workers[CREW_MAX];
	int            count;
	atomic_bool    over; /* for those who keep on */
};

static inline bool worker_goes_on(struct worker *w)
{
	arena_reset(&w->arena);
	return w->note[0] == '\0' && !atomic_load(&w->crew->over);
}

__attribute__((format(printf, 2, 3))) static inline void worker_note(struct worker *w, const char *format,
                                                                     ...)
{
	va_list args;

	if (w->note[0] != '\0')
		return;
	va_start(args, format);
	vsnprintf(w->note, sizeof(w->note), format, args);
	va_end(args);
}

static inline void *worker_main(void *arg)
{
	struct worker *w = arg;

	arena_init(&w->arena);
	w->work(w);
	arena_release(&w->arena);
	return NULL;
}

static inline void crew_hire(struct crew *c, int count, bool keeps_on, void (*work)(struct worker *w))
{
	for (int i = 0; i < count; i++) {
		struct worker *w = &c->workers[c->count++];

		assert_true(c->count <= CREW_MAX);
		*w = (struct worker){.crew = c, .number = i, .keeps_on = keeps_on, .work = work};
	}
}

/* Starts all, waits for those who come to an end, stops the others. */
static inline void crew_work(struct crew *c)
{
	for (int i = 0; i < c->count; i++)
		assert_int_equal(pthread_create(&c->workers[i].thread, NULL, worker_main, &c->workers[i]), 0);
	for (int i = 0; i < c->count; i++)
		if (!c->workers[i].keeps_on)
			pthread_join(c->workers[i].thread, NULL);
	atomic_store(&c->over, true);
	for (int i = 0; i < c->count; i++)
		if (c->workers[i].keeps_on)
			pthread_join(c->workers[i].thread, NULL);
	for (int i = 0; i < c->count; i++)
		if (c->workers[i].note[0] != '\0')
			fail_msg("%s", c->workers[i].note);
}

/* ---- calls without JSON: they cost less, and share nothing ---- */

/* A key of table "things": p "p", s the number. */
static inline struct item key_numbered(struct arena *a, int64_t number)
{
	struct value p = value_string(BYTES("p")), s = value_i64(number);
	struct item  key = {0};

	key = item_with(a, &key, BYTES("p"), &p);
	return item_with(a, &key, BYTES("s"), &s);
}

static inline struct expr_action action_on(struct arena *a, enum expr_action_kind kind, const char *name,
                                           struct value value)
{
	struct expr_step *step = arena_zalloc(a, sizeof(*step));

	step->name = bytes_of(name);
	return (struct expr_action){.kind = kind,
	                            .path = {step, 1},
	                            .term = {.kind = TERM_VALUE, .value = value},
	                            .value = value};
}

/* ADD n :by; returns the item after. */
static inline struct table_write counting(struct arena *a, int64_t number, int64_t by)
{
	struct expr_update *u = arena_zalloc(a, sizeof(*u));

	u->actions = arena_zalloc(a, sizeof(*u->actions));
	u->actions[0] = action_on(a, ACTION_ADD, "n", value_i64(by));
	u->count = 1;
	return (struct table_write){.kind = TABLE_UPDATE,
	                            .table = BYTES("things"),
	                            .key = key_numbered(a, number),
	                            .update = u,
	                            .returns = RETURN_ALL_NEW};
}

struct crew_write {
	struct turn_request          base;
	struct worker               *worker;
	const struct table_write    *writes; /* more than one: a transaction */
	uint32_t                     count;
	struct table_write_result    result;
	struct table_transact_result transacted;
};

static inline enum err_code crew_write_run(struct turn_request *base, struct table *t)
{
	struct crew_write          *w = (struct crew_write *)base;
	struct table_transact_write q = {.writes = w->writes, .count = w->count};

	if (w->count == 1)
		return t->backend->write(t, &w->worker->arena, w->writes, &w->result, &base->err);
	return t->backend->transact_write(t, &w->worker->arena, &q, &w->transacted, &base->err);
}

/* False, with a note, if it was refused. */
static inline bool worker_write(struct worker *w, struct crew_write *q)
{
	q->base.run = crew_write_run;
	q->base.cost_bytes = 100;
	q->worker = w;
	if (engine_run(w->crew->f.engine, &q->base, &w->err) == ERR_NONE)
		return true;
	worker_note(w, "a write: %s", w->err.text);
	return false;
}

/* The n of an item; 0 if it has none. */
static inline int64_t count_in(const struct item *item)
{
	const struct value *v = item_get(item, BYTES("n"));
	int64_t             n = 0;

	if (v != NULL)
		number_to_i64(&v->number, &n);
	return n;
}

static inline int64_t number_in(const struct item *item)
{
	int64_t number = -1;

	number_to_i64(&item_get(item, BYTES("s"))->number, &number);
	return number;
}

static inline bool worker_get(struct worker *w, int64_t number, int64_t *n)
{
	struct table_get        q = {.table = BYTES("things"), .key = key_numbered(&w->arena, number)};
	struct table_get_result r;
	struct engine_session   reader;
	enum err_code           rc;

	engine_session_init(&reader, w->crew->f.engine);
	rc = reader.base.backend->get(&reader.base, &w->arena, &q, &r, &w->err);
	engine_session_release(&reader);
	if (rc != ERR_NONE)
		worker_note(w, "a get: %s", w->err.text);
	*n = rc == ERR_NONE && r.found ? count_in(&r.item) : 0;
	return rc == ERR_NONE;
}

/* A query or scan on a session of its own. */
static inline enum err_code worker_query(struct worker *w, const struct table_query *q,
                                         struct table_query_result *r)
{
	struct engine_session reader;
	enum err_code         rc;

	engine_session_init(&reader, w->crew->f.engine);
	rc = reader.base.backend->query(&reader.base, &w->arena, q, r, &w->err);
	engine_session_release(&reader);
	return rc;
}

/* All of partition p of a table or index. */
static inline struct table_query query_p(struct arena *a, const char *index)
{
	struct expr_key_condition *key = arena_zalloc(a, sizeof(*key));

	*key = (struct expr_key_condition){.hash_name = BYTES("p"), .hash = value_string(BYTES("p"))};
	return (struct table_query){.table = BYTES("things"), .index = bytes_of(index), .key = key};
}

#endif
