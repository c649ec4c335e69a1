/* Write-back: committed rows wait in the cache and come into the store in steps; nobody who reads can tell. Money moves
 * from one account to others while readers add it up, with every size of cache, and checkpoints under way. */
#include "engine/filter_builder.h"
#include "engine/crew.h"

#include "base/fault.h"
#include "engine/layout.h"
#include "engine/settled.h"
#include "engine/waiting.h"
#include "random.h"

enum {
	ACCOUNTS = 90, /* more than there are shards, and not more than one transaction can read */
	WRITERS = 2,
	ROUNDS = 150,
	SMALL_CACHE = 64 << 10,
	LARGE_CACHE = 64 << 20,
	SMALL_SEGMENT = 32 << 10,
	ONE_ROW_BYTES = 190, /* room for a small one, and not for two */
};

/* An engine with a table, and a cache of this size. */
static void open_with_cache(struct fixture *f, size_t cache_bytes)
{
	char dir[] = "/tmp/gatehouse-test-XXXXXX";

	assert_non_null(mkdtemp(dir));
	fixture_init(f, dir);
	f->options.cache_bytes_max = cache_bytes;
	f->options.journal_segment_bytes = SMALL_SEGMENT;
	fixture_start(f);
	fixture_ok(f, "CreateTable", TABLE_BY_N);
}

static void put(struct fixture *f, int number, int n, int pad)
{
	static char xs[200 << 10];
	struct buf  body;

	memset(xs, 'x', sizeof(xs));
	buf_init(&body, &f->arena);
	buf_add_bytes(&body, arena_printf(&f->arena,
	                                  "{'TableName':'things','Item':{'p':{'S':'p'},'s':{'N':'%d'},"
	                                  "'n':{'N':'%d'},'pad':{'S':'%.*s'}}}",
	                                  number, n, pad, xs));
	buf_add_byte(&body, 0);
	fixture_ok(f, "PutItem", body.data);
}

/* ---- where a row is ---- */

static bool is_in_store(struct fixture *f, int number)
{
	struct item               key = key_numbered(&f->arena, number);
	struct buf                row_key, value;
	bool                      found;
	struct bytes              name = BYTES("things");
	const struct table_entry *entry = catalog_find(f->engine->catalog, name);

	buf_init(&row_key, &f->arena);
	buf_init(&value, &f->arena);
	layout_row(&row_key, entry->id, &entry->schema.keys, &key);
	assert_int_equal(rocks_get(f->engine->rocks, NULL, buf_bytes(&row_key), &value, &found, &f->err),
	                 ERR_NONE);
	return found;
}

static uint32_t scan_count(struct fixture *f)
{
	return fixture_ok(f, "Scan", "{'TableName':'things'}").query.count;
}

static void assert_n(struct fixture *f, int number, int n)
{
	union answer r = fixture_ok(
	        f, "GetItem",
	        arena_printf(&f->arena, "{'TableName':'things','Key':{'p':{'S':'p'},'s':{'N':'%d'}}}", number)
	                .data);

	assert_int_equal(r.get.found, n != 0);
	if (n != 0)
		assert_int_equal(count_in(&r.get.item), n);
}

TEST(write_back, a_row_waits_whoever_reads_it)
{
	struct fixture f;

	open_with_cache(&f, LARGE_CACHE);
	put(&f, 1, 7, 0);
	assert_false(is_in_store(&f, 1));
	assert_n(&f, 1, 7);
	assert_false(is_in_store(&f, 1)); /* reading it does not bring it there */
	assert_int_equal(scan_count(&f), 1);
	assert_false(is_in_store(&f, 1));
	fixture_settle(&f);
	assert_true(is_in_store(&f, 1));
	fixture_close(&f);
}

TEST(write_back, a_checkpoint_that_failed_is_made_at_the_next_tick)
{
	struct fixture f;

	open_with_cache(&f, LARGE_CACHE);
	f.options.journal_segment_bytes = 20 << 20; /* two of them are not too many by themselves */
	fixture_restart(&f);
	fault_arm(FAULT_CHECKPOINT, 1); /* the store has taken the rows, and they are not in its files */
	for (int i = 0; i < 36 << 20; i += 200 << 10)
		put(&f, i, 1, 200 << 10);
	engine_tick(f.engine);
	assert_int_equal(checkpoint_lag(f.engine), 1);
	fault_disarm(FAULT_CHECKPOINT);
	engine_tick(f.engine);
	assert_int_equal(checkpoint_lag(f.engine), 0);
	fixture_close(&f);
}

TEST(write_back, a_row_that_was_deleted_waits_too)
{
	struct fixture f;

	open_with_cache(&f, LARGE_CACHE);
	put(&f, 1, 7, 0);
	fixture_settle(&f);
	fixture_ok(&f, "DeleteItem", "{'TableName':'things','Key':{'p':{'S':'p'},'s':{'N':'1'}}}");
	assert_true(is_in_store(&f, 1));
	assert_n(&f, 1, 0);
	assert_int_equal(scan_count(&f), 0);
	assert_true(is_in_store(&f, 1));
	fixture_settle(&f);
	assert_false(is_in_store(&f, 1));
	fixture_close(&f);
}

TEST(write_back, a_deleted_table_takes_rows_along_that_still_waited)
{
	struct fixture f;

	open_with_cache(&f, LARGE_CACHE);
	put(&f, 1, 7, 0);
	fixture_ok(&f, "DeleteTable", "{'TableName':'things'}");
	fixture_ok(&f, "CreateTable", TABLE_BY_N);
	assert_int_equal(scan_count(&f), 0);
	assert_verified(&f); /* no row of a table that is not */
	fixture_restart(&f);
	assert_verified(&f);
	fixture_close(&f);
}

/* (B2) Each commit is larger than the bound. */
TEST(write_back, no_more_than_the_bound_waits_after_a_commit)
{
	struct fixture f;
	size_t         most = 0;

	open_with_cache(&f, 1 << 20);
	for (int i = 0; i < 60; i++) {
		size_t bytes;

		put(&f, i, 1, i % 3 == 0 ? 190 << 10 : 60 << 10);
		bytes = cache_dirty_bytes(f.engine->cache);
		assert_true(bytes <= f.engine->write_back.dirty_bytes_max);
		most = bytes > most ? bytes : most;
		arena_reset(&f.arena);
	}
	assert_true(most > 0);
	assert_int_equal(f.engine->write_back.dirty_bytes_max, 1 << 18);
	fixture_close(&f);
}

/* Without a cache a row goes as soon as it is written back, and is read from the store again. */
TEST(write_back, a_row_that_was_written_back_and_evicted_is_read_back_new)
{
	const size_t  sizes[] = {0, SMALL_CACHE};
	struct random random = {1};

	for (int c = 0; c < 2; c++) {
		int            expected[ACCOUNTS] = {0};
		struct fixture f;

		open_with_cache(&f, sizes[c]);
		for (int i = 1; i < 600; i++) {
			int number = (int)random_below(&random, ACCOUNTS);

			if (random_below(&random, 50) == 0)
				engine_tick(f.engine);
			put(&f, number, i, 500);
			expected[number] = i;
			number = (int)random_below(&random, ACCOUNTS);
			assert_n(&f, number, expected[number]);
			arena_reset(&f.arena);
		}
		assert_true(engine_stats(f.engine).cache_misses > 50);
		for (int number = 0; number < ACCOUNTS; number++)
			assert_n(&f, number, expected[number]);
		assert_verified(&f);
		fixture_restart(&f);
		for (int number = 0; number < ACCOUNTS; number++)
			assert_n(&f, number, expected[number]);
		fixture_close(&f);
	}
}

/* ---- expiry entries ---- */

enum { EXPIRING = 1500 }; /* more than wait at once */

static bool has_entries_in_store(struct fixture *f)
{
	const char           low[1] = {KIND_EXPIRY}, high[1] = {KIND_EXPIRY + 1};
	struct rocks_cursor *c = rocks_cursor_open(f->engine->rocks, NULL, (struct bytes){low, 1},
	                                           (struct bytes){high, 1}, false);
	struct bytes         key, value;
	bool                 found = rocks_cursor_at(c, &key, &value);

	rocks_cursor_close(c);
	return found;
}

/* Later than rows lapse (engine/lapse.h): they have expiry entries. */
enum { FAR_S = START_S + 500 * 86400 };

static void put_expiring(struct fixture *f, int number, int64_t second)
{
	fixture_ok(
	        f, "PutItem",
	        arena_printf(&f->arena,
	                     "{'TableName':'things','Item':{'p':{'S':'p'},'s':{'N':'%d'},'t':{'N':'%lld'}}}",
	                     number, (long long)second)
	                .data);
	arena_reset(&f->arena);
}

static void open_expiring(struct fixture *f)
{
	open_with_cache(f, LARGE_CACHE);
	filter_builder_round(
	        f->engine->filter_builder); /* it reads the store, and so has what waits written */
	fixture_ok(f, "UpdateTimeToLive",
	           "{'TableName':'things','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'t'}}");
	engine_tick(f->engine);
}

/* Did they wait? Not if the ticker's own round came in between. */
static bool sweep_finds_entries(void)
{
	struct fixture f;
	bool           waited;

	open_expiring(&f);
	put_expiring(&f, 1, FAR_S + 100);
	put_expiring(&f, 2, FAR_S + 100000);
	waited = !has_entries_in_store(&f);
	fixture_set_clock(&f, FAR_S + 5000);
	engine_tick(f.engine);
	assert_int_equal(engine_stats(f.engine).swept_rows, 1);
	assert_true(has_entries_in_store(&f));
	assert_verified(&f);
	fixture_close(&f);
	return waited;
}

TEST(write_back, expiry_entries_wait_and_a_sweep_finds_them_all_the_same)
{
	bool waited = false;

	for (int tries = 0; tries < 5 && !waited; tries++)
		waited = sweep_finds_entries();
	assert_true(waited);
}

/* Each row's time moves, so that entries come and go; of those that wait the last counts. */
TEST(write_back, of_the_changes_of_an_expiry_entry_the_last_counts)
{
	struct fixture f;

	open_expiring(&f);
	for (int i = 0; i < EXPIRING; i++) {
		put_expiring(&f, i % 7, FAR_S + 1000 + 600 * (i % 3));
		if (i % 400 == 399)
			assert_verified(&f);
	}
	put_expiring(&f, 3, FAR_S + 100000);
	fixture_restart(&f);
	assert_verified(&f);
	fixture_set_clock(&f, FAR_S + 5000);
	engine_tick(f.engine);
	assert_int_equal(engine_stats(f.engine).swept_rows, 6);
	assert_int_equal(scan_count(&f), 1);
	assert_verified(&f);
	fixture_close(&f);
}

/* ---- who waits for whom ---- */

enum {
	WAITING_ROWS = 40000,
	FEW = 8 * 512, /* some times ROWS_AT_ONCE of write_back.c: a tenth of all */
};

/* Rows that wait, of no table that there is. */
static void commit_many(struct fixture *f)
{
	for (int i = 0; i < WAITING_ROWS; i++) {
		struct bytes key = arena_printf(&f->arena, "rTTTT%08xkey", (unsigned)i * 2654435761u);

		cache_commit(f->engine->cache, hash_bytes(f->engine->hash_key, key),
		             &(struct cache_row){.key = key, .value = BYTES("value")});
	}
}

static void *write_all(void *arg)
{
	struct fixture *f = arg;
	struct err      err;

	assert_int_equal(write_back_all(&f->engine->write_back, &err), ERR_NONE);
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return (x > y) - (x < y);
}

/* Until the other thread has the lock; then so much is dirty. */
static size_t await_other(struct fixture *f)
{
	struct write_back *b = &f->engine->write_back;
	size_t             dirty = cache_dirty_bytes(f->engine->cache);

	while (dirty > 0 && pthread_mutex_trylock(&b->lock) == 0) {
		pthread_mutex_unlock(&b->lock);
		sched_yield();
		dirty = cache_dirty_bytes(f->engine->cache);
	}
	return dirty;
}

/* A commit that comes while much is written back waits for a little of it, not for all. It is told by what was written while it waited, not by the
 * time: it may have waited for a core as well. Then it asked late, and the other thread had gone on; but not most times. (Threads that queue nowhere get in
 * between on a busy machine, too: this can fail on a quiet one only.) */
TEST(write_back, others_get_in_between)
{
	static size_t  waits[WAITING_ROWS]; /* bytes that were written during each */
	struct fixture f;
	pthread_t      thread;
	size_t         all, before, count = 0;

	open_with_cache(&f, LARGE_CACHE);
	commit_many(&f);
	all = cache_dirty_bytes(f.engine->cache);
	assert_int_equal(pthread_create(&thread, NULL, write_all, &f), 0);
	while ((before = await_other(&f)) > 0) {
		write_back_hold_rest(&f.engine->write_back);
		waits[count++] = before - cache_dirty_bytes(f.engine->cache);
		write_back_let_go(&f.engine->write_back);
	}
	pthread_join(thread, NULL);
	qsort(waits, count, sizeof(waits[0]), by_size);
	if (count == 0 || waits[count / 2] > all / WAITING_ROWS * FEW)
		fail_msg("got in between %zu times; half of them waited for %zu of %zu bytes", count,
		         waits[count / 2], all);
	fixture_close(&f);
}

/* ---- the cache alone ---- */

static void commit(struct cache *c, const char *key, const char *value)
{
	cache_commit(c, 0, &(struct cache_row){.key = bytes_of(key), .value = bytes_of(value)});
}

static void clean_first(struct cache *c)
{
	struct cache_some some = {0};
	struct cache_row  row;

	cache_dirty(c, &some, &row, 1);
	cache_clean(c, &some);
}

static void commit_and_clean(struct cache *c, const char *key, const char *value)
{
	commit(c, key, value);
	clean_first(c);
}

/* NULL: it has no such row. */
static bool holds(struct cache *c, const char *key, const char *value)
{
	struct cache_ticket ticket;
	struct bytes        found;
	struct arena        a;
	bool                same;

	arena_init(&a);
	if (cache_get(c, 0, bytes_of(key), &a, &found, &ticket) == CACHE_MISS)
		same = value == NULL;
	else
		same = value != NULL && bytes_is(found, value);
	arena_release(&a);
	return same;
}

static struct cache_ticket miss(struct cache *c, const char *key)
{
	struct cache_ticket ticket;
	struct bytes        found;

	assert_int_equal(cache_get(c, 0, bytes_of(key), NULL, &found, &ticket), CACHE_MISS);
	return ticket;
}

TEST(cache, a_row_that_waits_stays_whatever_the_bound_and_goes_once_it_is_written_back)
{
	struct cache *c = cache_open(0, HASH_KEY_STABLE);

	commit(c, "key", "new");
	assert_true(holds(c, "key", "new"));
	assert_true(cache_dirty_bytes(c) > 0);
	clean_first(c);
	assert_true(holds(c, "key", NULL));
	assert_int_equal(cache_dirty_bytes(c), 0);
	cache_close(c);
}

/* (A1) However the new one left the cache again meanwhile. */
TEST(cache, what_a_reader_took_from_the_store_is_not_kept_if_there_was_a_commit_since)
{
	struct cache       *c = cache_open(CACHE_SHARDS * ONE_ROW_BYTES, HASH_KEY_STABLE);
	struct cache_ticket ticket = miss(c, "key");

	cache_offer(c, &ticket, 0, BYTES("key"), BYTES("old"), false);
	assert_true(holds(c, "key", "old")); /* there was none */
	commit_and_clean(c, "another", "x");
	commit_and_clean(c, "a third", "x");
	ticket = miss(c, "key");
	commit_and_clean(c, "key", "new");
	commit_and_clean(c, "another", "x"); /* takes its room */
	assert_true(holds(c, "key", NULL));
	cache_offer(c, &ticket, 0, BYTES("key"), BYTES("old"), false);
	assert_true(holds(c, "key", NULL));
	cache_close(c);
}

/* Whatever a value follows: one that fits into its place, one that does not, none, on either side of write-back. */
TEST(cache, holds_the_newest_value_and_counts_what_waits)
{
	static const char *const values[] = {
	        "a",  "",
	        "bb", "a value that is longer than the place of the first",
	        "c",  "one that is longer again than any of those before it was, by far"};
	struct cache     *c = cache_open(1 << 20, HASH_KEY_STABLE);
	struct cache_row  rows[4];
	struct cache_some some = {0};
	struct random     random = {7};

	for (int i = 0; i < 2000; i++) {
		const char *value = values[random_below(&random, 6)];
		bool        absent = random_below(&random, 4) == 0;

		cache_commit(c, 0,
		             &(struct cache_row){.key = BYTES("key"),
		                                 .value = absent ? BYTES("") : bytes_of(value),
		                                 .absent = absent});
		cache_dirty(c, &some, rows, 4);
		assert_int_equal(some.count, 1);
		assert_true(cache_dirty_bytes(c) > 0);
		assert_int_equal(rows[0].absent, absent);
		assert_true(bytes_is(rows[0].value, absent ? "" : value));
		assert_true(absent || holds(c, "key", value));
		if (random_below(&random, 3) > 0)
			continue;
		cache_clean(c, &some);
		cache_dirty(c, &some, rows, 4);
		assert_int_equal(some.count, 0);
		assert_int_equal(cache_dirty_bytes(c), 0);
		assert_true(absent || holds(c, "key", value));
	}
	cache_close(c);
}

/* ---- very many rows: the cache grows with them, while others look at what it was ---- */

enum { VERY_MANY = 30000 };

struct watching {
	struct cache *cache;
	atomic_bool   over;
};

static uint64_t numbered_key(int number, char key[32])
{
	snprintf(key, 32, "rTTTT%04dkey-%d", number % 5000, number);
	return hash_bytes(HASH_KEY_STABLE, bytes_of(key));
}

static void *expect_all(void *arg)
{
	struct watching *w = arg;
	char             key[32];

	while (!atomic_load(&w->over)) {
		for (int i = 0; i < VERY_MANY; i++) {
			uint64_t hash = numbered_key(i, key);

			cache_expect(w->cache, &hash, 1);
		}
	}
	return NULL;
}

static bool finds(struct cache *c, int number)
{
	struct cache_ticket ticket;
	struct bytes        value;
	struct arena        a;
	char                key[32];
	uint64_t            hash = numbered_key(number, key);
	bool                found;

	arena_init(&a);
	found = cache_get(c, hash, bytes_of(key), &a, &value, &ticket) == CACHE_FOUND &&
	        bytes_equal(value, bytes_of(key));
	arena_release(&a);
	return found;
}

TEST(cache, finds_each_of_very_many_rows_and_the_rows_of_each_partition)
{
	struct watching      w = {.cache = cache_open(64 << 20, HASH_KEY_STABLE)};
	struct cache_rows    rows;
	struct waiting_range range, part;
	struct tail          none;
	struct arena         a;
	pthread_t            thread;
	char                 key[32], high[36];

	tail_init(&none);
	assert_int_equal(pthread_create(&thread, NULL, expect_all, &w), 0);
	for (int i = 0; i < VERY_MANY; i++) {
		uint64_t hash = numbered_key(i, key);

		cache_commit(w.cache, hash,
		             &(struct cache_row){.key = bytes_of(key), .value = bytes_of(key)});
	}
	atomic_store(&w.over, true);
	pthread_join(thread, NULL);
	arena_init(&a);
	for (int i = 0; i < VERY_MANY; i++)
		assert_true(finds(w.cache, i));
	for (int i = 0; i < 5000; i++) {
		snprintf(key, sizeof(key), "rTTTT%04d", i);
		snprintf(high, sizeof(high), "%s~", key); /* of the same partition */
		range = (struct waiting_range){.low = bytes_of(key), .high = bytes_of(high)};
		waiting_take((struct waiting_places){w.cache, &none}, &range, &a, &rows, &part);
		assert_int_equal(rows.count, VERY_MANY / 5000);
	}
	arena_release(&a);
	tail_release(&none);
	cache_close(w.cache);
}

TEST(cache, does_not_keep_the_room_of_a_row_that_has_become_short_or_gone)
{
	char          large[40000];
	struct cache *c = cache_open(1 << 20, HASH_KEY_STABLE);

	memset(large, 'x', sizeof(large));
	cache_commit(c, 0, &(struct cache_row){.key = BYTES("key"), .value = {large, sizeof(large)}});
	assert_true(cache_stats(c).bytes > sizeof(large));
	cache_commit(c, 0, &(struct cache_row){.key = BYTES("key"), .value = BYTES(""), .absent = true});
	assert_true(cache_stats(c).bytes < 1000 && cache_dirty_bytes(c) < 1000);
	cache_close(c);
}

/* ---- money ---- */

/* From account 0 to any others: theirs only grow, and all together stay as much. */
static void pay_out(struct worker *w)
{
	struct random random = {(uint64_t)w->number};

	for (int i = 0; i < ROUNDS && worker_goes_on(w); i++) {
		int                first = 1 + (int)random_below(&random, ACCOUNTS - 2);
		struct table_write moves[3] = {counting(&w->arena, 0, -5), counting(&w->arena, first, 2),
		                               counting(&w->arena, first + 1, 3)};
		struct crew_write  q = {.writes = moves, .count = 3};

		for (int k = 0; k < 3; k++)
			moves[k].returns = RETURN_NONE;
		if (worker_write(w, &q) && q.transacted.cancelled)
			worker_note(w, "a transfer was cancelled");
	}
}

/* What a reader has seen of each account. */
struct ledger {
	int64_t seen[ACCOUNTS];
};

static void note_account(struct worker *w, struct ledger *l, int64_t number, int64_t n, const char *how)
{
	if (number < 0 || number >= ACCOUNTS)
		worker_note(w, "%s found account %lld", how, (long long)number);
	else if (number > 0 && n < l->seen[number])
		worker_note(w, "%s: account %lld went from %lld back to %lld", how, (long long)number,
		            (long long)l->seen[number], (long long)n);
	else
		l->seen[number] = n;
}

static void add_up(struct worker *w, struct ledger *l, const struct table_query *q, const char *how)
{
	struct table_query_result r;
	int64_t                   sum = 0;

	if (worker_query(w, q, &r) != ERR_NONE) {
		worker_note(w, "%s: %s", how, w->err.text);
		return;
	}
	for (uint32_t i = 0; i < r.count; i++) {
		sum += count_in(&r.items[i]);
		note_account(w, l, number_in(&r.items[i]), count_in(&r.items[i]), how);
	}
	if (r.count != ACCOUNTS || sum != 0)
		worker_note(w, "%s: %u accounts hold %lld", how, r.count, (long long)sum);
}

static void add_up_in_transaction(struct worker *w, struct ledger *l)
{
	struct table_get              gets[ACCOUNTS];
	struct table_batch_get        q = {gets, ACCOUNTS};
	struct table_batch_get_result r;
	struct engine_session         reader;
	int64_t                       sum = 0;

	for (int i = 0; i < ACCOUNTS; i++)
		gets[i] = (struct table_get){.table = BYTES("things"), .key = key_numbered(&w->arena, i)};
	engine_session_init(&reader, w->crew->f.engine);
	if (reader.base.backend->transact_get(&reader.base, &w->arena, &q, &r, &w->err) != ERR_NONE)
		worker_note(w, "a transaction: %s", w->err.text);
	for (int i = 0; i < ACCOUNTS && w->note[0] == '\0'; i++) {
		sum += count_in(&r.results[i].item);
		note_account(w, l, i, count_in(&r.results[i].item), "a transaction");
	}
	engine_session_release(&reader);
	if (sum != 0)
		worker_note(w, "a transaction saw %lld in all", (long long)sum);
}

static void audit(struct worker *w)
{
	struct ledger l = {{0}};

	while (worker_goes_on(w)) {
		struct table_query query = query_p(&w->arena, ""), index = query_p(&w->arena, "by-n"),
		                   rows_of_index = query_p(&w->arena, "by-n"),
		                   scan = {.table = BYTES("things")};
		int64_t n;

		rows_of_index.all_attributes = true;
		for (int i = w->number; i < ACCOUNTS; i += 7)
			if (worker_get(w, i, &n))
				note_account(w, &l, i, n, "get");
		add_up(w, &l, w->number % 2 ? &query : &scan, "query or scan");
		add_up(w, &l, w->number % 2 ? &rows_of_index : &index, "index");
		add_up_in_transaction(w, &l);
	}
}

/* Gets alone write nothing back: rows wait meanwhile. */
static void watch_single(struct worker *w)
{
	struct ledger l = {{0}};
	int64_t       n;

	while (worker_goes_on(w))
		for (int i = 1; i < ACCOUNTS; i++)
			if (worker_get(w, i, &n))
				note_account(w, &l, i, n, "get");
}

/* An index alone writes nothing back either; who has seen its entries then looks at the rows. */
static void watch_index(struct worker *w)
{
	struct ledger l = {{0}};
	int64_t       n;

	while (worker_goes_on(w)) {
		struct table_query index = query_p(&w->arena, "by-n");

		add_up(w, &l, &index, "index");
		for (int i = ACCOUNTS - 1; i > 0; i--)
			if (worker_get(w, i, &n))
				note_account(w, &l, i, n, "get after index");
	}
}

static void make_checkpoints(struct worker *w)
{
	while (worker_goes_on(w))
		engine_tick(w->crew->f.engine);
}

static void assert_money_stays(size_t cache_bytes, int auditors)
{
	static struct crew   c;
	static struct worker last;

	memset(&c, 0, sizeof(c));
	open_with_cache(&c.f, cache_bytes);
	for (int i = 0; i < ACCOUNTS; i++)
		put(&c.f, i, 0, 100 * (i % 5));
	crew_hire(&c, WRITERS, false, pay_out);
	crew_hire(&c, auditors, true, audit);
	crew_hire(&c, 1, true, watch_single);
	crew_hire(&c, 1, true, watch_index);
	crew_hire(&c, 1, true, make_checkpoints);
	crew_work(&c);
	last = (struct worker){.crew = &c};
	arena_init(&last.arena);
	add_up_in_transaction(&last, &(struct ledger){{0}});
	assert_string_equal(last.note, "");
	assert_n(&c.f, 0, -5 * WRITERS * ROUNDS);
	fixture_restart(&c.f);
	add_up_in_transaction(&last, &(struct ledger){{0}});
	assert_string_equal(last.note, "");
	arena_release(&last.arena);
	assert_verified(&c.f);
	fixture_close(&c.f);
}

TEST(write_back, no_reader_sees_money_come_or_go_while_rows_wait)
{
	assert_money_stays(LARGE_CACHE, 2);
}

TEST(write_back, no_reader_sees_money_come_or_go_while_rows_are_written_back_in_steps)
{
	assert_money_stays(SMALL_CACHE, 2);
	assert_money_stays(SMALL_CACHE, 0); /* only by the writer and checkpoints */
}

TEST(write_back, no_reader_sees_money_come_or_go_without_a_cache)
{
	assert_money_stays(0, 2);
}
