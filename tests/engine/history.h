/* History: random commits on a few tables, by a process that is then killed, with the state after each of them. Every
 * step puts its number beside what it changes, into the same commit: so each record of the journal, and the store's
 * own files, tell which state they hold.
 *
 *   parent   history_run forks ----------------------------------> apart forks
 *   child          opens an engine, steps, notes states, dies
 *   child                                                              looks at the directory that is left
 *
 * The states are a model of their own, in memory that both share: nothing in them was read from the engine. */
#ifndef TESTS_ENGINE_HISTORY_H
#define TESTS_ENGINE_HISTORY_H

#include "base/fault.h"
#include "engine/write_back.h"
#include "engine/apart.h"
#include "engine/fixture.h"
#include "engine/layout.h"
#include "engine/turn.h"
#include "random.h"

enum {
	TABLES = 3,
	KEYS = 10,
	STEPS_MAX = 400,
	PAD_MAX = 1500, /* so that some records take several sectors */
	STEP_S = 2,     /* the clock is even, expiry times are odd: neither is ever the other */
	LEAP_S = 7800,  /* now and then: whatever expires has lapsed then (engine/lapse.h) */
};

struct thing {
	bool    there;
	int     n, g; /* g -1: it has none, and is not in the index */
	int64_t ttl;  /* 0: none */
	size_t  pad;
};

struct shelf {
	bool         there, expires, indexed;
	struct thing things[KEYS];
};

struct state {
	int64_t      second;
	struct shelf shelves[TABLES];
};

struct history {
	/* set by the test */
	char     dir[40];
	uint64_t seed;
	unsigned steps;
	size_t   cache_bytes, segment_bytes, unit_bytes;
	int      tick_every;      /* steps; 0: only where a table was changed */
	int      checkpoint_ends; /* in the last quarter, after this many of its steps; -1: it does not */

	/* set by the child */
	struct state  states[STEPS_MAX + 1];
	unsigned      step; /* at work on it, or the last one */
	struct random random;
};

/* The key under which a step puts its number. */
#define STEP_KEY "mtest-step"

static inline struct history *history_open(void)
{
	struct history *h = shared_open(sizeof(*h));

	h->checkpoint_ends = -1;
	return h;
}

static inline void history_close(struct history *h)
{
	shared_close(h, sizeof(*h));
}

static inline bool thing_lives(const struct state *s, int table, int key)
{
	const struct shelf *shelf = &s->shelves[table];
	const struct thing *t = &shelf->things[key];

	return shelf->there && t->there && !(shelf->expires && t->ttl != 0 && t->ttl <= s->second);
}

/* ---- one step, in the child ---- */

struct stepper {
	struct fixture  f;
	struct history *h;
	struct state   *s; /* after this step */
};

static inline void note_step(struct fixture *f, struct table *t)
{
	struct stepper *st = (struct stepper *)f;

	turn_put(((struct engine_session *)t)->turn, BYTES(STEP_KEY),
	         (struct bytes){(const char *)&st->h->step, sizeof(st->h->step)}, TURN_SOMETHING);
}

static inline int pick(struct stepper *st, int below)
{
	return (int)random_below(&st->h->random, (uint64_t)below);
}

static inline const char *key_json(struct stepper *st, int key)
{
	return arena_printf(&st->f.arena, "{'p':{'S':'k%d'}}", key).data;
}

static inline const char *item_json(struct stepper *st, int key, const struct thing *t)
{
	static char xs[PAD_MAX + 1];
	struct buf  out;

	memset(xs, 'x', PAD_MAX);
	buf_init(&out, &st->f.arena);
	buf_add_bytes(&out, arena_printf(&st->f.arena, "{'p':{'S':'k%d'},'n':{'N':'%d'}", key, t->n));
	if (t->g >= 0)
		buf_add_bytes(&out, arena_printf(&st->f.arena, ",'g':{'S':'g%d'}", t->g));
	if (t->ttl != 0)
		buf_add_bytes(&out, arena_printf(&st->f.arena, ",'ttl':{'N':'%lld'}", (long long)t->ttl));
	if (t->pad > 0)
		buf_add_bytes(&out, arena_printf(&st->f.arena, ",'pad':{'S':'%.*s'}", (int)t->pad, xs));
	buf_add(&out, "}", 2);
	return out.data;
}

static inline struct thing random_thing(struct stepper *st)
{
	return (struct thing){.there = true,
	                      .n = pick(st, 1000),
	                      .g = pick(st, 4) - 1,
	                      .ttl = pick(st, 2) ? 0 : st->s->second + 1 + 2 * pick(st, 40),
	                      .pad = pick(st, 3) ? 0 : (size_t)pick(st, PAD_MAX)};
}

/* One change of a row as an action of a transaction; the model changes with it. */
static inline const char *action_json(struct stepper *st, int table, int key)
{
	struct thing *t = &st->s->shelves[table].things[key];
	struct arena *a = &st->f.arena;

	switch (pick(st, 4)) {
	case 0:
		*t = (struct thing){0};
		return arena_printf(a, "{'Delete':{'TableName':'table-%d','Key':%s}}", table,
		                    key_json(st, key))
		        .data;
	case 1:
		if (!thing_lives(st->s, table, key))
			*t = (struct thing){.there = true, .g = -1};
		t->n++;
		return arena_printf(
		               a,
		               "{'Update':{'TableName':'table-%d','Key':%s,'UpdateExpression':'ADD n :1',"
		               "'ExpressionAttributeValues':{':1':{'N':'1'}}}}",
		               table, key_json(st, key))
		        .data;
	default:
		*t = random_thing(st);
		return arena_printf(a, "{'Put':{'TableName':'table-%d','Item':%s}}", table,
		                    item_json(st, key, t))
		        .data;
	}
}

/* One to four rows, of any tables that are there. */
static inline void step_rows(struct stepper *st)
{
	int        count = pick(st, 2) ? 1 : 1 + pick(st, 4);
	bool       taken[TABLES][KEYS] = {0};
	struct buf body;

	buf_init(&body, &st->f.arena);
	buf_add_bytes(&body, BYTES("{'TransactItems':["));
	for (int i = 0; i < count;) {
		int table = pick(st, TABLES), key = pick(st, KEYS);

		if (!st->s->shelves[table].there || taken[table][key])
			continue;
		taken[table][key] = true;
		buf_add_bytes(&body, bytes_of(i++ == 0 ? "" : ","));
		buf_add_bytes(&body, bytes_of(action_json(st, table, key)));
	}
	buf_add(&body, "]}", 3);
	assert_false(fixture_ok(&st->f, "TransactWriteItems", body.data).transact.cancelled);
}

#define GSI "'IndexName':'by-g','KeySchema':[{'AttributeName':'g','KeyType':'HASH'}]"

static inline void create_table(struct stepper *st, int table)
{
	struct shelf *shelf = &st->s->shelves[table];

	*shelf = (struct shelf){.there = true, .indexed = pick(st, 2)};
	fixture_ok(&st->f, "CreateTable",
	           arena_printf(&st->f.arena,
	                        "{'TableName':'table-%d','BillingMode':'PAY_PER_REQUEST',"
	                        "'AttributeDefinitions':[{'AttributeName':'p','AttributeType':'S'}%s],"
	                        "'KeySchema':[{'AttributeName':'p','KeyType':'HASH'}]%s}",
	                        table, shelf->indexed ? ",{'AttributeName':'g','AttributeType':'S'}" : "",
	                        shelf->indexed ? ",'GlobalSecondaryIndexes':[{" GSI
	                                         ",'Projection':{'ProjectionType':'ALL'}}]"
	                                       : "")
	                   .data);
}

static inline void change_index(struct stepper *st, int table)
{
	struct shelf *shelf = &st->s->shelves[table];
	const char   *update = shelf->indexed ? "{'Delete':{'IndexName':'by-g'}}"
	                                      : "{'Create':{" GSI ",'Projection':{'ProjectionType':'ALL'}}}";

	shelf->indexed = !shelf->indexed;
	fixture_ok(&st->f, "UpdateTable",
	           arena_printf(&st->f.arena,
	                        "{'TableName':'table-%d','AttributeDefinitions':[{'AttributeName':'g',"
	                        "'AttributeType':'S'}],'GlobalSecondaryIndexUpdates':[%s]}",
	                        table, update)
	                   .data);
}

static inline void expire_table(struct stepper *st, int table)
{
	st->s->shelves[table].expires = true;
	fixture_ok(&st->f, "UpdateTimeToLive",
	           arena_printf(&st->f.arena,
	                        "{'TableName':'table-%d','TimeToLiveSpecification':{'Enabled':true,"
	                        "'AttributeName':'ttl'}}",
	                        table)
	                   .data);
}

static inline void delete_table(struct stepper *st, int table)
{
	st->s->shelves[table] = (struct shelf){0};
	fixture_ok(&st->f, "DeleteTable", arena_printf(&st->f.arena, "{'TableName':'table-%d'}", table).data);
}

static inline void step_table(struct stepper *st, int table)
{
	struct shelf *shelf = &st->s->shelves[table];
	int           what = pick(st, 4);

	if (!shelf->there)
		create_table(st, table);
	else if (what == 0)
		delete_table(st, table);
	else if (what < 3 || shelf->expires)
		change_index(st, table);
	else
		expire_table(st, table);
}

/* Table 0 is made first and never deleted, so that there always is one. */
static inline void step(struct stepper *st, unsigned number)
{
	int  table = number == 1 ? 0 : 1 + pick(st, TABLES - 1);
	bool alters = number == 1 || pick(st, 8) == 0;

	st->h->step = number;
	st->s = &st->h->states[number];
	*st->s = st->h->states[number - 1];
	st->s->second += pick(st, 30) == 0 ? LEAP_S : STEP_S;
	fixture_set_clock(&st->f, st->s->second);
	if (alters)
		step_table(st, table);
	else
		step_rows(st);
	if ((alters && pick(st, 2)) || (st->h->tick_every > 0 && number % (unsigned)st->h->tick_every == 0))
		engine_tick(st->f.engine);
	arena_reset(&st->f.arena);
}

/* ---- the whole ---- */

/* Lives in its directory until it is killed: here, where what the engine's threads use is still there. */
static inline void history_live_and_die(void *ctx)
{
	struct history *h = ctx;
	struct stepper  st = {.h = h};

	h->random = (struct random){h->seed};
	h->states[0] = (struct state){.second = START_S};
	fixture_init(&st.f, h->dir);
	st.f.options.cache_bytes_max = h->cache_bytes;
	st.f.options.journal_segment_bytes = h->segment_bytes;
	st.f.options.journal_unit_bytes = h->unit_bytes;
	st.f.in_turn = note_step;
	fixture_start(&st.f);
	for (unsigned i = 1; i <= h->steps; i++) {
		if (i == h->steps * 3 / 4 && h->checkpoint_ends >= 0) {
			engine_tick(
			        st.f.engine); /* the writer has begun its segment, and woken the ticker … */
			engine_tick(st.f.engine); /* … which is done with that: no checkpoint is under way */
			fault_arm(FAULT_CHECKPOINT, h->checkpoint_ends);
		}
		step(&st, i);
	}
	if (h->checkpoint_ends >= 0) /* if none was due since */
		assert_int_not_equal(checkpoint_run(st.f.engine, &st.f.err), ERR_NONE);
	kill(getpid(), SIGKILL);
}

static inline void history_run(struct history *h)
{
	int status;

	assert_true(h->steps <= STEPS_MAX);
	status = apart(history_live_and_die, h);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(h->step, h->steps);
}

#endif
