/* Step: what happens between two looks at the world: a group of writing requests at once, some reads, the
 * clock, the sweeper, a restart. */
#ifndef TESTS_MODEL_STEP_H
#define TESTS_MODEL_STEP_H

#include "base/fault.h"
#include "base/log.h"
#include "model/log.h"
#include "model/prepare.h"

enum {
	CALLS_MAX = HASHES * RANGES + 1, /* deleting everything, and one more */
	GROUP_MAX = 20,
};

/* Some calls in one turn. If one of them is refused, or the request itself gives up at the end, all are
 * undone. */
struct request {
	struct turn_request base;
	struct driver      *driver;
	struct call        *calls[CALLS_MAX];
	unsigned            count;
	bool                gives_up;
	enum err_code       expected;
};

/* ---- preparing ---- */

static inline bool request_add(struct request *r, struct call *c)
{
	assert(r->count < CALLS_MAX);
	r->calls[r->count++] = c;
	r->expected = c->code;
	return c->code == ERR_NONE;
}

/* Whether an expired row is still stored depends on the sweeper; so that no one can tell, they go before time
 * to live is switched off. */
static inline void prepare_ttl_request(struct request *r)
{
	struct driver *d = r->driver;
	int            sheet = any_sheet(&d->world);
	struct sheet  *s = &d->world.sheets[sheet];

	for (int h = 0; h < HASHES && s->ttl; h++)
		for (int i = 0; i < RANGES; i++) {
			struct write q = {.kind = TABLE_DELETE, .sheet = sheet, .hash = h, .range = i};

			if (s->records[h][i].present && record_expired(&d->world, s, &s->records[h][i]))
				request_add(r, prepare_this_write(d, &q));
		}
	request_add(r, prepare_ttl(d, sheet));
}

static inline struct call *prepare_tables(struct driver *d)
{
	int dice = pick(&d->world, 85);

	return dice < 40 ? prepare_create(d) : dice < 50 ? prepare_remove(d) : prepare_side(d);
}

static inline struct call *prepare_any(struct driver *d, bool alone)
{
	if (!alone && chance(&d->world, 1))
		return prepare_tables(d);
	return chance(&d->world, alone ? 5 : 40) ? prepare_read(d) : prepare_write(d, alone);
}

static inline void prepare_items_request(struct request *r)
{
	struct driver *d = r->driver;
	int            calls = chance(&d->world, 80) ? 1 : 2 + pick(&d->world, 4);

	for (int i = 0; i < calls; i++)
		if (!request_add(r, prepare_any(d, calls == 1)))
			return;
	r->gives_up = calls > 1 && chance(&d->world, 20);
}

static inline struct request *prepare_request(struct driver *d, bool tables)
{
	struct request *r = arena_zalloc(&d->arena, sizeof(*r));

	r->driver = d;
	if (!tables)
		prepare_items_request(r);
	else if (chance(&d->world, 15))
		prepare_ttl_request(r);
	else
		request_add(r, prepare_tables(d));
	if (r->gives_up)
		r->expected = ERR_LIMIT;
	if (r->expected != ERR_NONE)
		world_undo(&d->world, 0);
	else
		world_keep(&d->world);
	return r;
}

/* ---- running ---- */

static inline enum err_code request_run(struct turn_request *base, struct table *t)
{
	struct request *r = (struct request *)base;

	for (unsigned i = 0; i < r->count; i++) {
		enum err_code rc = call_run(r->calls[i], t);

		if (rc != ERR_NONE) {
			base->err = r->driver->err;
			return rc;
		}
	}
	return r->gives_up ? err_set(&base->err, ERR_LIMIT, "gives up") : ERR_NONE;
}

static inline void request_done(struct turn_request *base)
{
	struct driver *d = ((struct request *)base)->driver;

	pthread_mutex_lock(&d->lock);
	d->done++;
	pthread_cond_signal(&d->finished);
	pthread_mutex_unlock(&d->lock);
}

static inline void requests_run(struct driver *d, struct request **requests, unsigned count)
{
	struct err    refused;
	enum err_code rc;

	d->done = 0;
	for (unsigned i = 0; i < count; i++) {
		requests[i]->base.run = request_run;
		requests[i]->base.done = request_done;
		requests[i]->base.cost_bytes = 100;
		rc = engine_submit(d->engine, &requests[i]->base, &refused);
		if (rc == ERR_NONE)
			continue;
		if (rc != d->lost)
			call_differ(requests[i]->calls[0], "submitting", BYTES("accepted"),
			            bytes_of(refused.text));
		requests[i]->base.rc = rc;
		request_done(&requests[i]->base);
	}
	engine_gathered(d->engine);
	pthread_mutex_lock(&d->lock);
	while (d->done < count)
		pthread_cond_wait(&d->finished, &d->lock);
	pthread_mutex_unlock(&d->lock);
	for (unsigned i = 0; i < count; i++)
		if (d->lost == ERR_NONE || requests[i]->base.rc != d->lost)
			check_number(requests[i]->calls[0], "how the request ended", requests[i]->expected,
			             requests[i]->base.rc);
}

static inline void step_group(struct driver *d, bool tables)
{
	struct request *requests[GROUP_MAX];
	int             count = chance(&d->world, 10) ? 1 : 2 + pick(&d->world, GROUP_MAX - 1);

	for (int i = 0; i < count; i++)
		requests[i] = prepare_request(d, tables && chance(&d->world, 30));
	requests_run(d, requests, (unsigned)count);
}

static inline void step_reads(struct driver *d)
{
	struct engine_session reader;
	int                   count = 1 + pick(&d->world, 12);

	engine_session_init(&reader, d->engine);
	for (int i = 0; i < count; i++)
		call_run(prepare_read(d), &reader.base);
	engine_session_release(&reader);
}

static inline void clock_forward(struct driver *d, int64_t by_s)
{
	d->world.now_s += by_s;
	clock_manual_set(&d->clock, d->world.now_s * 1000000 + pick(&d->world, 1000000));
}

/* Someone sets the wall clock, forward or back. Nobody may notice. */
static inline void clock_jump(struct driver *d, int64_t by_s)
{
	clock_manual_jump(&d->clock, by_s * 1000000);
}

static inline void step_clock(struct driver *d)
{
	struct world *w = &d->world;
	int           dice = pick(w, 100);

	if (dice < 60)
		clock_forward(d, 1 + pick(w, 4));
	else if (dice < 90)
		clock_forward(d, pick(w, 90));
	else if (dice < 93)
		clock_forward(d, 700);
	else if (dice < 95)
		clock_forward(d, 3600 + pick(w, 7200)); /* hours close, and their rows vanish */
	else
		clock_jump(d, pick(w, 2000) - 1000);
}

static inline void step_tick(struct driver *d)
{
	engine_tick(d->engine);
	for (int s = 0; s < SHEETS; s++)
		for (int i = 0; i < SIDES; i++)
			d->world.sheets[s].sides[i].filling = false;
}

/* With another cache each time: none, one that rows leave all the time, one that they leave now and then, and one that has room for all. In half of
 * them rows that are gone are in the store for as long as it does not merge its files by itself. */
static inline void driver_start(struct driver *d)
{
	static const size_t caches[] = {0, 64 * 400, 64 * 1500, 8 << 20};

	d->options.cache_bytes_max = caches[pick(&d->world, 4)];
	d->options.keeps_gone = chance(&d->world, 50);
	if (engine_open(&d->engine, &d->options, &d->err) == ERR_NONE)
		return;
	printf("seed %llu: cannot open the engine: %s\n", (unsigned long long)d->seed, d->err.text);
	exit(1);
}

/* The stored clock is not exact, and a wall clock that is ahead is taken on: the restarted engine is given the
 * right one, at the second's end, which is not before any time it saw. */
static inline void step_restart(struct driver *d)
{
	engine_close(d->engine);
	clock_manual_jump(&d->clock, -d->clock.shift_us);
	clock_manual_set(&d->clock, d->world.now_s * 1000000 + 999999);
	driver_start(d);
}

/* The disk takes nothing of a group. Either there is no room for it, and once there is some, all goes on; or the commit fails, and the process that
 * opens the directory next has what was committed before, from the journal. */
static inline void step_lost(struct driver *d)
{
	struct world_copy *before = world_copy(&d->world, &d->arena);
	bool               full = chance(&d->world, 50);

	log_set_level((enum log_level)(LOG_ERROR + 1)); /* what it says is no news */
	fault_arm(full ? FAULT_NO_ROOM : FAULT_COMMIT, 0);
	if (full)
		fault_arm(FAULT_DISK_FULL, 0); /* or the ticker may find room before the group has ended */
	d->lost = full ? ERR_DISK_FULL : ERR_STORAGE;
	step_group(d, chance(&d->world, 30));
	d->lost = ERR_NONE;
	fault_disarm(full ? FAULT_NO_ROOM : FAULT_COMMIT);
	fault_disarm(FAULT_DISK_FULL);
	world_go_back(&d->world, before);
	if (full)
		step_tick(d);
	else
		step_restart(d);
	log_set_level(LOG_ERROR);
}

/* A tick makes a checkpoint, if one is due (model.c): it may fail after any of its steps. */
static inline void step_log(struct driver *d)
{
	bool fails = chance(&d->world, 20);

	if (chance(&d->world, 80)) {
		log_step(d);
		return;
	}
	log_set_level((enum log_level)(LOG_ERROR + 1));
	if (fails)
		fault_arm(FAULT_CHECKPOINT, pick(&d->world, LOG_CHECKPOINT_STEPS));
	step_tick(d);
	fault_disarm(FAULT_CHECKPOINT);
	log_set_level(LOG_ERROR);
}

static inline void step(struct driver *d)
{
	int dice = pick(&d->world, 1000);

	if (dice < 480)
		step_group(d, false);
	else if (dice < 520)
		step_log(d);
	else if (dice < 920)
		step_reads(d);
	else if (dice < 960)
		step_clock(d);
	else if (dice < 980)
		step_tick(d);
	else if (dice < 994)
		step_group(d, true);
	else if (dice < 998)
		step_lost(d);
	else
		step_restart(d);
	arena_reset(&d->arena);
}

#endif
