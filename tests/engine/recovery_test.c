/* Recovery: whatever a crash leaves of the journal, the engine opens with exactly the state after some number of
 * commits: as many as there are whole records. `gatehouse check` sees the same before, and changes nothing.
 *
 * RECOVERY_SEEDS=100 runs a hundred histories of each kind instead of one. */
#include "history.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "counted.h"
#include "engine/check.h"
#include "engine/write_back.h"

enum {
	RECORDS_MAX = 2000,
	STEPS = 120,
	CUTS = 5,
	SMALL_SEGMENT = 4096,
	MIDDLE_SEGMENT = 8 << 10,
	CHECKPOINT_STEPS = 4,
	LARGE_CACHE = 64 << 20,
	LARGE_UNIT = 4096,
};

/* A record where it lies, and the state after it. */
struct spot {
	uint64_t segment;
	off_t    at;
	size_t   bytes;
	unsigned step;
	int64_t  time_us;
};

/* What a killed process left. */
struct remains {
	char                 dead[48], copy[56];
	struct history      *history;
	struct journal_place place;
	unsigned             stored_step; /* the newest whose commit the store's files hold anything of */
	struct spot          spots[RECORDS_MAX];
	size_t               count;
	struct arena         arena;
	char                 what[96]; /* is done with it, for messages */
};

static void shell(const char *command, const char *a, const char *b)
{
	char line[256];

	snprintf(line, sizeof(line), command, a, b);
	assert_int_equal(system(line), 0);
}

/* ---- where the records are ---- */

static unsigned step_of(const struct record *r, unsigned before)
{
	struct bytes body = r->body;
	struct op    op;
	unsigned     found = before;

	while (body.len > 0) {
		assert_true(op_decode(&body, &op));
		if (op.kind == OP_PUT && bytes_is(op.key, STEP_KEY))
			memcpy(&found, op.value.data, sizeof(found));
	}
	return found;
}

static bool file_read(struct remains *r, uint64_t segment, struct buf *out)
{
	char    path[96];
	ssize_t n;
	int     fd;

	snprintf(path, sizeof(path), "%s/journal/%08llu.log", r->dead, (unsigned long long)segment);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return false;
	buf_reserve(out, 64 << 20);
	n = read(fd, out->data, out->cap);
	assert_true(n >= 0 && (size_t)n < out->cap);
	out->len = (size_t)n;
	close(fd);
	return true;
}

static void find_in_segment(struct remains *r, uint64_t segment, struct bytes all)
{
	struct segment_head head;
	struct record       record;
	size_t              at, used;
	unsigned            step = r->count == 0 ? 0 : r->spots[r->count - 1].step;

	if (segment_head_decode(all, &head) != RECORD_WHOLE)
		return;
	at = head.unit;
	for (uint64_t number = head.first;
	     record_decode(&r->arena, (struct bytes){all.data + at, all.len - at}, number, &record, &used) ==
	     RECORD_WHOLE;
	     number++, at += (used + head.unit - 1) / head.unit * head.unit) {
		step = step_of(&record, step);
		assert_true(r->count < RECORDS_MAX);
		r->spots[r->count++] = (struct spot){segment, (off_t)at, used, step, record.time_us};
	}
}

static void look_at_store(struct remains *r)
{
	struct rocks *rocks;
	struct buf    value;
	struct err    err;
	char          path[96];
	bool          found = false;

	snprintf(path, sizeof(path), "%s/store", r->dead);
	buf_init(&value, &r->arena);
	if (rocks_open_read_only(&rocks, path, 1 << 20, &err) != ERR_NONE ||
	    checkpoint_place(rocks, &r->place, &err) != ERR_NONE ||
	    rocks_get(rocks, NULL, BYTES(STEP_KEY), &value, &found, &err) != ERR_NONE)
		fail_msg("%s", err.text);
	if (found)
		memcpy(&r->stored_step, value.data, sizeof(r->stored_step));
	rocks_close(rocks);
}

static void remains_open(struct remains *r, struct history *h)
{
	struct buf all;

	*r = (struct remains){.history = h};
	snprintf(r->dead, sizeof(r->dead), "%s", h->dir);
	snprintf(r->copy, sizeof(r->copy), "%s-copy", h->dir);
	arena_init(&r->arena);
	shell("rm -f %s/ballast", r->dead, "");
	look_at_store(r);
	buf_init(&all, NULL);
	for (uint64_t segment = r->place.segment; file_read(r, segment, &all); segment++)
		find_in_segment(r, segment, buf_bytes(&all));
	buf_release(&all);
}

static void remains_close(struct remains *r)
{
	arena_release(&r->arena);
	shell("rm -rf %s %s", r->dead, r->copy);
}

/* The state after so many records. Fewer than remains_least are no crash that can be: what the store's files hold
 * was in the journal before. */
static unsigned step_after(const struct remains *r, size_t records)
{
	unsigned step = records == 0 ? 0 : r->spots[records - 1].step;

	return step > r->stored_step ? step : r->stored_step;
}

static size_t remains_least(const struct remains *r)
{
	for (size_t i = r->count; i > 0; i--)
		if (r->spots[i - 1].step <= r->stored_step)
			return i;
	return 0;
}

/* ---- cutting ---- */

static int segment_open(struct remains *r, uint64_t segment)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/journal/%08llu.log", r->copy, (unsigned long long)segment);
	return open(path, O_RDWR);
}

static void cut_behind(int fd, off_t at)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(ftruncate(fd, at), 0);
	assert_int_equal(ftruncate(fd, st.st_size), 0); /* zeros */
}

/* Writes some of its sectors again, not all. */
static void tear(int fd, const struct spot *spot, const char *sectors, struct random *random)
{
	size_t count = spot->bytes / SECTOR_BYTES, missing = random_below(random, count);

	for (size_t i = 0; i < count; i++) {
		if (i == missing || random_below(random, 2) == 0)
			continue;
		assert_int_equal(pwrite(fd, sectors + i * SECTOR_BYTES, SECTOR_BYTES,
		                        spot->at + (off_t)(i * SECTOR_BYTES)),
		                 SECTOR_BYTES);
	}
}

/* A copy with the first records only; with `torn`, a part of the next one too. */
static void cut_copy(struct remains *r, size_t records, bool torn, struct random *random)
{
	const struct spot *next = &r->spots[records];
	char              *sectors;
	int                fd;

	snprintf(r->what, sizeof(r->what), "seed %llu, %zu of %zu records%s",
	         (unsigned long long)r->history->seed, records, r->count, torn ? " and a torn one" : "");
	shell("rm -rf %2$s && cp -r %1$s %2$s", r->dead, r->copy);
	if (records == r->count)
		return;
	fd = segment_open(r, next->segment);
	sectors = arena_alloc(&r->arena, next->bytes);
	assert_int_equal(pread(fd, sectors, next->bytes, next->at), next->bytes);
	cut_behind(fd, next->at);
	if (torn)
		tear(fd, next, sectors, random);
	close(fd);
	/* that segment was the newest then */
	shell("head -c 512 %1$s/journal/%2$s >%1$s/journal/newest", r->copy,
	      arena_printf(&r->arena, "%08llu.log", (unsigned long long)next->segment).data);
	for (uint64_t segment = next->segment + 1; (fd = segment_open(r, segment)) >= 0; segment++) {
		close(fd);
		shell("rm %s/journal/%s", r->copy,
		      arena_printf(&r->arena, "%08llu.log", (unsigned long long)segment).data);
	}
}

/* ---- comparing ---- */

static int64_t number_of(const struct item *item, const char *name, int64_t otherwise)
{
	const struct value *v = item_get(item, bytes_of(name));
	int64_t             number = otherwise;

	if (v != NULL)
		assert_true(number_to_i64(&v->number, &number));
	return number;
}

static struct bytes text_of(const struct item *item, const char *name)
{
	const struct value *v = item_get(item, bytes_of(name));

	return v == NULL ? (struct bytes){"", 0} : v->text;
}

static struct thing thing_of(const struct item *item)
{
	struct bytes g = text_of(item, "g");

	return (struct thing){.there = true,
	                      .n = (int)number_of(item, "n", 0),
	                      .g = g.len == 0 ? -1 : g.data[1] - '0',
	                      .ttl = number_of(item, "ttl", 0),
	                      .pad = text_of(item, "pad").len};
}

static bool same_thing(const struct thing *a, const struct thing *b)
{
	return a->n == b->n && a->g == b->g && a->ttl == b->ttl && a->pad == b->pad;
}

/* All rows of the table, or of its index, are those of the state. */
static void compare_rows(struct remains *r, struct fixture *f, const struct state *s, int table, bool index)
{
	union answer rows = fixture_ok(f, "Scan",
	                               arena_printf(&f->arena, "{'TableName':'table-%d'%s}", table,
	                                            index ? ",'IndexName':'by-g'" : "")
	                                       .data);
	uint32_t     expected = 0;

	for (int key = 0; key < KEYS; key++)
		expected += thing_lives(s, table, key) && (!index || s->shelves[table].things[key].g >= 0);
	for (uint32_t i = 0; i < rows.query.count; i++) {
		struct thing thing = thing_of(&rows.query.items[i]);
		int          key = text_of(&rows.query.items[i], "p").data[1] - '0';

		if (!thing_lives(s, table, key) || !same_thing(&thing, &s->shelves[table].things[key]))
			fail_msg("%s: table %d%s, key %d is another one", r->what, table,
			         index ? ", index" : "", key);
	}
	if (rows.query.count != expected)
		fail_msg("%s: table %d%s has %u rows, expected %u", r->what, table, index ? ", index" : "",
		         rows.query.count, expected);
}

static void compare_table(struct remains *r, struct fixture *f, const struct state *s, int table)
{
	const struct shelf *shelf = &s->shelves[table];
	struct bytes        name = arena_printf(&f->arena, "{'TableName':'table-%d'}", table);
	union answer        described;

	memset(&described, 0, sizeof(described));
	if ((fixture_try(f, "DescribeTable", name.data, &described) == ERR_NONE) != shelf->there)
		fail_msg("%s: table %d is there, or not, as it should not be", r->what, table);
	if (!shelf->there)
		return;
	compare_rows(r, f, s, table, false);
	if (described.table.schema.index_count != shelf->indexed)
		fail_msg("%s: table %d has %u indexes", r->what, table, described.table.schema.index_count);
	if (shelf->indexed && described.table.schema.indexes[0].status == INDEX_ACTIVE)
		compare_rows(r, f, s, table, true);
	if ((described.table.schema.ttl_attribute.len > 0) != shelf->expires)
		fail_msg("%s: table %d expires, or not, as it should not", r->what, table);
}

static void compare_all(struct remains *r, struct fixture *f, const struct state *s)
{
	for (int table = 0; table < TABLES; table++)
		compare_table(r, f, s, table);
	if (engine_verify(f->engine, &f->err) != ERR_NONE)
		fail_msg("%s: %s", r->what, f->err.text);
	assert_counted(f);
}

/* The state after so many records. A sweep that a full segment brings about may commit when the clock stands at the next
 * step already, and time does not go back behind a commit. */
static struct state state_after(const struct remains *r, size_t records)
{
	struct state s = r->history->states[step_after(r, records)];
	int64_t      time_us = records == 0 ? r->place.time_us : r->spots[records - 1].time_us;

	if (time_us / 1000000 > s.second)
		s.second = time_us / 1000000;
	return s;
}

/* Opens the copy, which must hold this state; goes on with it, and opens it once more. */
static void assert_recovers(struct remains *r, const struct state *s)
{
	struct fixture f;

	fixture_init(&f, r->copy);
	fixture_set_clock(&f, s->second);
	f.options.journal_segment_bytes = r->history->segment_bytes;
	f.options.journal_unit_bytes = r->history->unit_bytes;
	if (engine_open(&f.engine, &f.options, &f.err) != ERR_NONE)
		fail_msg("%s: %s", r->what, f.err.text);
	compare_all(r, &f, s);
	engine_tick(f.engine); /* a checkpoint, and indexes are filled */
	compare_all(r, &f, s);
	fixture_restart(&f);
	compare_all(r, &f, s);
	fixture_close(&f);
}

/* ---- checking ---- */

static void on_progress(void *ctx, enum check_phase phase, unsigned percent, const struct check_found *found)
{
	(void)ctx;
	(void)phase;
	(void)percent;
	(void)found;
}

static void on_problem(void *ctx, const char *text)
{
	struct remains *r = ctx;

	fail_msg("%s: %s", r->what, text);
}

/* How many rows and entries of each kind there are is the same, whoever looks. */
static void assert_check_is_sound(struct remains *r)
{
	struct check_watch watch = {.ctx = r, .progress = on_progress, .problem = on_problem};
	struct check_found found;
	struct fixture     f = {0};
	char               before[64], after[64];

	snprintf(f.dir, sizeof(f.dir), "%s", r->copy);
	fixture_fingerprint(&f, before);
	if (engine_check(r->copy, &watch, &found, &f.err) != ERR_NONE)
		fail_msg("%s: %s", r->what, f.err.text);
	assert_true(check_is_sound(&found));
	fixture_fingerprint(&f, after);
	assert_string_equal(before, after);
}

/* ---- the property ---- */

static void assert_prefixes(void *ctx)
{
	static struct remains r;
	static struct state   state;
	struct history       *h = ctx;
	struct random         random = {h->seed};
	size_t                least;
	struct buf            before;

	buf_init(&before, NULL);
	remains_open(&r, h);
	if (h->segment_bytes <= MIDDLE_SEGMENT)
		assert_true(r.place.segment > 1); /* there was a checkpoint */
	if (h->checkpoint_ends == CHECKPOINT_STEPS - 1)
		assert_true(file_read(&r, r.place.segment - 1, &before));
	least = remains_least(&r);
	for (int i = 0; i < CUTS; i++) {
		size_t records = i == 0   ? r.count
		                 : i == 1 ? least
		                          : least + random_below(&random, r.count - least + 1);
		bool   torn = records < r.count && i % 2;

		cut_copy(&r, records, torn, &random);
		if (i % 3 == 0)
			assert_check_is_sound(&r);
		state = state_after(&r, records);
		assert_recovers(&r, &state);
		arena_reset(&r.arena);
	}
	assert_int_equal(step_after(&r, r.count), h->steps); /* what was acknowledged is there */
	buf_release(&before);
	remains_close(&r);
}

static void assert_history(struct history *h)
{
	snprintf(h->dir, sizeof(h->dir), "/tmp/gatehouse-test-XXXXXX");
	assert_non_null(mkdtemp(h->dir));
	history_run(h);
	assert_int_equal(apart(assert_prefixes, h), 0);
}

static uint64_t seeds(void)
{
	const char *text = getenv("RECOVERY_SEEDS");

	if (text == NULL)
		return 1;
	alarm(0); /* it takes as long as it takes */
	return (uint64_t)atoi(text);
}

static void assert_histories(size_t cache_bytes, size_t segment_bytes, int tick_every)
{
	struct history *h = history_open();

	h->steps = STEPS;
	h->cache_bytes = cache_bytes;
	h->segment_bytes = segment_bytes;
	h->tick_every = tick_every;
	h->unit_bytes = SECTOR_BYTES;
	for (h->seed = 1; h->seed <= seeds(); h->seed++)
		assert_history(h);
	history_close(h);
}

TEST(recovery, the_state_is_that_after_as_many_commits_as_there_are_whole_records)
{
	assert_histories(LARGE_CACHE, 32 << 20, 0);
}

TEST(recovery, so_it_is_where_rows_do_not_wait_in_the_cache)
{
	assert_histories(0, 32 << 20, 0);
}

TEST(recovery, so_it_is_where_checkpoints_come_in_between)
{
	assert_histories(LARGE_CACHE, SMALL_SEGMENT, 30);
}

TEST(recovery, so_it_is_where_checkpoints_come_in_between_and_rows_do_not_wait)
{
	assert_histories(0, SMALL_SEGMENT, 50);
}

TEST(recovery, so_it_is_where_each_commit_has_physical_sectors_of_its_own)
{
	struct history *h = history_open();

	h->steps = STEPS;
	h->cache_bytes = LARGE_CACHE;
	h->segment_bytes = 8 * LARGE_UNIT;
	h->unit_bytes = LARGE_UNIT;
	h->tick_every = 30;
	for (h->seed = 1; h->seed <= seeds(); h->seed++)
		assert_history(h);
	history_close(h);
}

/* After the first step rows are in the store's memory, after the second the place is too, after the third all is in
 * its files; the old segments are still there. */
TEST(recovery, so_it_is_where_a_checkpoint_got_no_further_than_one_of_its_steps)
{
	struct history *h = history_open();

	h->steps = STEPS;
	h->cache_bytes = LARGE_CACHE;
	h->segment_bytes =
	        MIDDLE_SEGMENT; /* so many that the writer would see to it itself do not come together */
	h->tick_every = 10;
	h->unit_bytes = SECTOR_BYTES;
	for (h->seed = 1; h->seed <= seeds(); h->seed++)
		for (h->checkpoint_ends = 0; h->checkpoint_ends < CHECKPOINT_STEPS; h->checkpoint_ends++)
			assert_history(h);
	history_close(h);
}
