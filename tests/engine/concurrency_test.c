/* Concurrency: many threads write while others read, create and delete. These are the tests to run under the
 * thread sanitizer. What must hold: no addition is lost, an acknowledged write is seen by whoever reads
 * afterwards, no reader ever sees time or a count go back or half a transaction, and the indexes agree with
 * their tables at the end. */
#include "engine/crew.h"

enum { KEYS = 8, WRITERS = 4, READERS = 2, ROUNDS = 400 };

#define THINGS                                                                                               \
	"{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'AttributeName':'p'" \
	","                                                                                                  \
	"'AttributeType':'S'},{'AttributeName':'s','AttributeType':'N'},{'AttributeName':'n','"              \
	"AttributeType':'N'}],"                                                                              \
	"'KeySchema':[{'AttributeName':'p','KeyType':'HASH'},{'AttributeName':'s','KeyType':'RANGE'}],"      \
	"'LocalSecondaryIndexes':[{'IndexName':'by-n','KeySchema':[{'AttributeName':'p','KeyType':'HASH'},"  \
	"{'AttributeName':'n','KeyType':'RANGE'}],'Projection':{'ProjectionType':'KEYS_ONLY'}}]}"

static void crew_open(struct crew *c)
{
	memset(c, 0, sizeof(*c));
	fixture_open(&c->f);
	fixture_ok(&c->f, "CreateTable", THINGS);
	for (int i = 0; i < KEYS; i++) {
		char body[200];

		snprintf(body, sizeof(body),
		         "{'TableName':'things','Item':{'p':{'S':'p'},'s':{'N':'%d'},'n':{'N':'0'}}}", i);
		fixture_ok(&c->f, "PutItem", body);
	}
}

static void crew_close(struct crew *c)
{
	assert_verified(&c->f);
	fixture_close(&c->f);
}

/* ---- those who write ---- */

static void count_up(struct worker *w)
{
	for (int i = 0; i < ROUNDS && worker_goes_on(w); i++) {
		struct table_write one = counting(&w->arena, (w->number + i) % KEYS, 1);
		struct crew_write  q = {.writes = &one, .count = 1};

		worker_write(w, &q);
	}
}

/* Takes one from a key and gives it to the next. */
static void transfer(struct worker *w)
{
	for (int i = 0; i < ROUNDS && worker_goes_on(w); i++) {
		int                from = (w->number + i) % KEYS;
		struct table_write two[2] = {counting(&w->arena, from, -1),
		                             counting(&w->arena, (from + 1) % KEYS, 1)};
		struct crew_write  q = {.writes = two, .count = 2};

		two[0].returns = two[1].returns = RETURN_NONE;
		if (worker_write(w, &q) && q.transacted.cancelled)
			worker_note(w, "a transfer was cancelled");
	}
}

/* ---- those who read ---- */

/* Compares what is seen now with what was seen before. */
static void note_if_back(struct worker *w, int64_t seen[KEYS], int64_t key, int64_t n, const char *how)
{
	if (key < 0 || key >= KEYS)
		worker_note(w, "%s found key %lld", how, (long long)key);
	else if (n < seen[key])
		worker_note(w, "%s: key %lld went from %lld back to %lld", how, (long long)key,
		            (long long)seen[key], (long long)n);
	else
		seen[key] = n;
}

static void see_all(struct worker *w, const struct table_query *q, int64_t seen[KEYS], const char *how)
{
	struct table_query_result r;

	if (worker_query(w, q, &r) != ERR_NONE) {
		worker_note(w, "%s: %s", how, w->err.text);
		return;
	}
	if (r.count != KEYS)
		worker_note(w, "%s found %u items", how, r.count);
	for (uint32_t i = 0; i < r.count; i++)
		note_if_back(w, seen, number_in(&r.items[i]), count_in(&r.items[i]), how);
}

static void watch_counts(struct worker *w)
{
	int64_t seen[KEYS] = {0}, n;

	while (worker_goes_on(w)) {
		struct table_query query = query_p(&w->arena, ""), local = query_p(&w->arena, "by-n");
		struct table_query scan = {.table = BYTES("things")};

		for (int key = 0; key < KEYS; key++)
			if (worker_get(w, key, &n))
				note_if_back(w, seen, key, n, "get");
		see_all(w, &query, seen, "query");
		see_all(w, &local, seen, "query of an index");
		see_all(w, &scan, seen, "scan");
	}
}

static void note_if_torn(struct worker *w, int64_t sum, const char *how)
{
	if (sum != 0)
		worker_note(w, "%s saw half a transaction: %lld", how, (long long)sum);
}

static int64_t sum_of(struct worker *w, const struct table_query *q)
{
	struct table_query_result r;
	int64_t                   sum = 0;

	if (worker_query(w, q, &r) != ERR_NONE)
		worker_note(w, "a query: %s", w->err.text);
	else
		for (uint32_t i = 0; i < r.count; i++)
			sum += count_in(&r.items[i]);
	return sum;
}

static int64_t sum_in_transaction(struct worker *w)
{
	struct table_get              gets[KEYS];
	struct table_batch_get        q = {gets, KEYS};
	struct table_batch_get_result r;
	struct engine_session         reader;
	int64_t                       sum = 0;
	enum err_code                 rc;

	for (int i = 0; i < KEYS; i++)
		gets[i] = (struct table_get){.table = BYTES("things"), .key = key_numbered(&w->arena, i)};
	engine_session_init(&reader, w->crew->f.engine);
	rc = reader.base.backend->transact_get(&reader.base, &w->arena, &q, &r, &w->err);
	engine_session_release(&reader);
	if (rc != ERR_NONE)
		worker_note(w, "transact_get: %s", w->err.text);
	for (int i = 0; i < KEYS && rc == ERR_NONE; i++)
		sum += count_in(&r.results[i].item);
	return sum;
}

static void watch_sum(struct worker *w)
{
	while (worker_goes_on(w)) {
		struct table_query query = query_p(&w->arena, ""), local = query_p(&w->arena, "by-n");
		struct table_query scan = {.table = BYTES("things")};

		note_if_torn(w, sum_in_transaction(w), "transact_get");
		note_if_torn(w, sum_of(w, &query), "query");
		note_if_torn(w, sum_of(w, &local), "query of an index");
		note_if_torn(w, sum_of(w, &scan), "scan");
	}
}

/* ---- counting ---- */

TEST(concurrency, no_addition_is_lost_and_no_reader_sees_a_count_go_back)
{
	struct crew c;
	int64_t     sum = 0;

	crew_open(&c);
	crew_hire(&c, WRITERS, false, count_up);
	crew_hire(&c, READERS, true, watch_counts);
	crew_work(&c);
	for (int i = 0; i < KEYS; i++) {
		char         body[128];
		union answer r;

		snprintf(body, sizeof(body), "{'TableName':'things','Key':{'p':{'S':'p'},'s':{'N':'%d'}}}",
		         i);
		r = fixture_ok(&c.f, "GetItem", body);
		sum += count_in(&r.get.item);
	}
	assert_int_equal(sum, WRITERS * ROUNDS);
	crew_close(&c);
}

TEST(concurrency, no_reader_sees_half_a_transaction)
{
	struct crew c;

	crew_open(&c);
	crew_hire(&c, WRITERS, false, transfer);
	crew_hire(&c, READERS, true, watch_sum);
	crew_work(&c);
	crew_close(&c);
}

/* Each worker has a key to itself. */
static void read_own_writes(struct worker *w)
{
	for (int64_t i = 1; i <= ROUNDS && worker_goes_on(w); i++) {
		struct table_write one = counting(&w->arena, w->number, 1);
		struct crew_write  q = {.writes = &one, .count = 1};
		int64_t            n;

		if (!worker_write(w, &q) || !worker_get(w, w->number, &n))
			return;
		if (count_in(&q.result.item) != i || n != i)
			worker_note(w, "after %lld additions one returned %lld and the next get %lld",
			            (long long)i, (long long)count_in(&q.result.item), (long long)n);
	}
}

TEST(concurrency, what_was_acknowledged_is_seen_by_the_next_read)
{
	struct crew c;

	crew_open(&c);
	c.f.options.cache_bytes_max = 64 * 1024; /* room for a few rows a shard, so that they come and go */
	fixture_restart(&c.f);
	crew_hire(&c, KEYS, false, read_own_writes);
	crew_work(&c);
	crew_close(&c);
}

/* ---- pages, while what they show changes ---- */

/* Takes n away, so that the item leaves the index, and gives it back. */
static void come_and_go(struct worker *w)
{
	for (int i = 0; i < ROUNDS && worker_goes_on(w); i++) {
		struct table_write one = counting(&w->arena, i % KEYS, 1);
		struct crew_write  q = {.writes = &one, .count = 1};
		struct expr_action remove = action_on(&w->arena, ACTION_REMOVE, "n", value_i64(0));
		struct expr_update gone = {&remove, 1};
		struct table_write away = one;
		struct crew_write  first = {.writes = &away, .count = 1};

		away.update = &gone;
		if (!worker_write(w, &first) || !worker_write(w, &q))
			return;
	}
}

/* Pages of one item through the local index, with attributes that it does not hold. */
static void page_through(struct worker *w)
{
	while (worker_goes_on(w)) {
		struct table_query        q = query_p(&w->arena, "by-n");
		struct table_query_result r;
		struct item               start; /* not in r, which the next call clears */

		q.limit = 1;
		q.all_attributes = true;
		do {
			if (worker_query(w, &q, &r) != ERR_NONE) {
				worker_note(w, "a page: %s", w->err.text);
				return;
			}
			if (r.more && r.last_key.count != 3)
				worker_note(w, "the last key of a page has %u attributes", r.last_key.count);
			for (uint32_t i = 0; i < r.count; i++)
				if (item_get(&r.items[i], BYTES("n")) == NULL)
					worker_note(w, "a query of an index found an item that is not in it");
			start = r.last_key;
			q.start = &start;
		} while (r.more && w->note[0] == '\0');
	}
}

TEST(concurrency, a_page_of_an_index_shows_what_is_in_it_and_ends_at_a_key_that_the_next_page_takes)
{
	struct crew c;

	crew_open(&c);
	crew_hire(&c, 2, false, come_and_go);
	crew_hire(&c, READERS, true, page_through);
	crew_work(&c);
	crew_close(&c);
}

/* ---- tables and indexes that come and go ---- */

/* Runs one call on the writer's thread. */
struct admin {
	struct turn_request        base;
	struct worker             *worker;
	const struct table_alter  *alter;
	const struct table_schema *create;
	struct bytes               remove;
	struct table_description   r;
};

static enum err_code admin_run(struct turn_request *base, struct table *t)
{
	struct admin *q = (struct admin *)base;
	struct arena *a = &q->worker->arena;

	if (q->alter != NULL)
		return t->backend->alter(t, a, q->alter, &q->r, &base->err);
	if (q->create != NULL)
		return t->backend->create(t, a, q->create, &q->r, &base->err);
	return t->backend->remove(t, a, q->remove, &q->r, &base->err);
}

static bool worker_admin(struct worker *w, struct admin *q)
{
	q->base.run = admin_run;
	q->worker = w;
	if (engine_run(w->crew->f.engine, &q->base, &w->err) == ERR_NONE)
		return true;
	worker_note(w, "a change of tables: %s", w->err.text);
	return false;
}

static void make_tables(struct worker *w)
{
	while (worker_goes_on(w)) {
		struct table_schema schema = {.name = arena_printf(&w->arena, "extra-%d", w->number),
		                              .keys = {.hash = {BYTES("p"), VALUE_S}},
		                              .on_demand = true};
		struct admin        made = {.create = &schema}, gone = {.remove = schema.name};

		if (!worker_admin(w, &made) || !worker_admin(w, &gone))
			return;
	}
}

/* Makes an index on s, waits until it is filled, and removes it. */
static void make_indexes(struct worker *w)
{
	while (worker_goes_on(w)) {
		struct table_change make = {.kind = CHANGE_CREATE_INDEX},
		                    drop = {.kind = CHANGE_DELETE_INDEX};
		struct table_alter make_it = {BYTES("things"), &make, 1},
		                   drop_it = {BYTES("things"), &drop, 1};
		struct admin made = {.alter = &make_it}, gone = {.alter = &drop_it};

		make.index = (struct index_schema){
		        .name = arena_printf(&w->arena, "by-s-%d", w->number),
		        .keys = {.hash = {BYTES("p"), VALUE_S}, .range = {BYTES("s"), VALUE_N}},
		        .projection = PROJECT_ALL};
		drop.index.name = make.index.name;
		if (!worker_admin(w, &made))
			return;
		engine_tick(w->crew->f.engine);
		if (!worker_admin(w, &gone))
			return;
	}
}

/* The index is there whole, or not at all. */
static void query_indexes(struct worker *w)
{
	while (worker_goes_on(w)) {
		for (int i = 0; i < 2; i++) {
			char                      name[32];
			struct table_query        q;
			struct table_query_result r;

			snprintf(name, sizeof(name), "by-s-%d", i);
			q = query_p(&w->arena, name);
			if (worker_query(w, &q, &r) == ERR_NONE && r.count != KEYS && r.count != 0)
				worker_note(w, "an index shows %u items", r.count);
		}
	}
}

TEST(concurrency, tables_and_indexes_come_and_go_under_load)
{
	struct crew c;

	crew_open(&c);
	crew_hire(&c, WRITERS, false, count_up);
	crew_hire(&c, 2, true, make_tables);
	crew_hire(&c, 2, true, make_indexes);
	crew_hire(&c, 1, true, query_indexes);
	crew_hire(&c, 1, true, watch_counts);
	crew_work(&c);
	crew_close(&c);
}

/* ---- time ---- */

enum { STEP_S = 700, AHEAD_S = 100 * STEP_S };

/* Renews its key's time to live again and again: it may never be missing. */
static void renew(struct worker *w)
{
	for (int64_t i = 1; i <= ROUNDS && worker_goes_on(w); i++) {
		int64_t            now_s = clock_wall_us(&w->crew->f.clock.base) / 1000000;
		struct expr_action both[2] = {
		        action_on(&w->arena, ACTION_ADD, "n", value_i64(1)),
		        action_on(&w->arena, ACTION_SET, "e", value_i64(now_s + AHEAD_S))};
		struct expr_update u = {both, 2};
		struct table_write one = counting(&w->arena, w->number, 1);
		struct crew_write  q = {.writes = &one, .count = 1};

		one.update = &u;
		if (worker_write(w, &q) && count_in(&q.result.item) != i)
			worker_note(w, "after %lld renewals the count is %lld", (long long)i,
			            (long long)count_in(&q.result.item));
	}
}

/* Writes what expires at the clock's next step. */
static void litter(struct worker *w)
{
	while (worker_goes_on(w)) {
		int64_t            now_s = clock_wall_us(&w->crew->f.clock.base) / 1000000;
		struct expr_action set = action_on(&w->arena, ACTION_SET, "e", value_i64(now_s + 1));
		struct expr_update u = {&set, 1};
		struct table_write one = counting(&w->arena, KEYS + w->number, 1);
		struct crew_write  q = {.writes = &one, .count = 1};

		one.update = &u;
		worker_write(w, &q);
	}
}

/* Moves the clock, in all far less than a renewal lasts at a time, and sweeps. */
static void sweep(struct worker *w)
{
	int64_t now_s = START_S;

	for (int i = 0; i < AHEAD_S / STEP_S / 2 && worker_goes_on(w); i++) {
		now_s += STEP_S;
		clock_manual_set(&w->crew->f.clock, now_s * 1000000);
		engine_tick(w->crew->f.engine);
	}
}

TEST(concurrency, the_sweeper_takes_only_what_has_expired)
{
	struct crew c;

	crew_open(&c);
	fixture_ok(&c.f, "UpdateTimeToLive",
	           "{'TableName':'things','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'e'}}");
	crew_hire(&c, WRITERS, false, renew);
	crew_hire(&c, 1, false, sweep);
	crew_hire(&c, 2, true, litter);
	crew_work(&c);
	clock_manual_set(&c.f.clock, ((int64_t)START_S + AHEAD_S) * 1000000);
	engine_tick(c.f.engine);
	assert_true(engine_stats(c.f.engine).swept_rows > 0);
	crew_close(&c);
}

/* ---- closing ---- */

struct last_request {
	struct crew_write base;
	atomic_int       *done;
};

static void last_done(struct turn_request *base)
{
	atomic_fetch_add(((struct last_request *)base)->done, 1);
}

TEST(concurrency, closing_finishes_all_that_was_submitted)
{
	enum { MANY = 500 };
	static struct last_request requests[MANY];
	struct crew                c;
	struct worker              w = {.crew = &c};
	struct table_write         one;
	atomic_int                 done = 0;

	crew_open(&c);
	arena_init(&w.arena);
	one = counting(&w.arena, 0, 1);
	for (int i = 0; i < MANY; i++) {
		requests[i] = (struct last_request){.base = {.writes = &one, .count = 1, .worker = &w},
		                                    .done = &done};
		requests[i].base.base.run = crew_write_run;
		requests[i].base.base.done = last_done;
		assert_int_equal(engine_submit(c.f.engine, &requests[i].base.base, &c.f.err), ERR_NONE);
	}
	engine_close(c.f.engine);
	assert_int_equal(atomic_load(&done), MANY);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(requests[i].base.base.rc, ERR_NONE);
		assert_int_equal(count_in(&requests[i].base.result.item), i + 1); /* in the order submitted */
	}
	arena_release(&w.arena);
	fixture_start(&c.f);
	crew_close(&c);
}
