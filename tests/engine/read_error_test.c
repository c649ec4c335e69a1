/* Read errors: a block of the store's files is damaged, so that a walk over many rows, of which many wait, cannot read on in the middle of a part
 * (waiting.h). It says so, and returns no page with a hole; pages before and behind the damage have each row once, in order. */
#define _GNU_SOURCE /* memmem */
#include "engine/crew.h"

#include <fcntl.h>

#include "engine/layout.h"
#include "engine/state.h"
#include "engine/waiting.h"
#include "random.h"

enum {
	ROWS = 4 * WAITING_ROWS_MAX,
	AT_ONCE = 25,  /* in a BatchWriteItem */
	DAMAGED = 700, /* the row whose block cannot be read: in the middle of the first part, forward */
	DAMAGED_BACK = 3400, /* … and backward */
	NEAR = 100,          /* rows around it that may be of the same block, and do not wait */
	PAD_BYTES = 60,
	PAGE_ROWS = 150,
	FILE_MAX = 8 << 20,
};

/* ---- the rows, and the files ---- */

static bool is_near(int number)
{
	return (number > DAMAGED - NEAR && number < DAMAGED + NEAR) ||
	       (number > DAMAGED_BACK - NEAR && number < DAMAGED_BACK + NEAR);
}

/* A text that no other row has, so that it is in the file as it is, however that is compressed. */
static const char *marker_of(int number)
{
	static char   marker[PAD_BYTES + 1];
	struct random random = {(uint64_t)number + 1};

	for (int i = 0; i < PAD_BYTES; i++)
		marker[i] = (char)('a' + random_below(&random, 26));
	return marker;
}

/* Its n is its number in this round. Every other row waits after the second round. They come backward: a partition that grew at its end would be a log, of whose
 * files the store reads some by itself (rocks.h), also the damaged one. */
static void put_all(struct fixture *f, int round)
{
	struct buf body;
	int        count = 0;

	for (int i = ROWS - 1; i >= 0; i--) {
		if (round > 1 && (i % 2 == 0 || is_near(i)) && i != 0)
			continue;
		if (count++ % AT_ONCE == 0) {
			arena_reset(&f->arena);
			buf_init(&body, &f->arena);
			buf_add_bytes(&body, BYTES("{'RequestItems':{'things':["));
		}
		buf_add_bytes(&body, arena_printf(&f->arena,
		                                  "%s{'PutRequest':{'Item':{'p':{'S':'p'},'s':{'N':'%d'},"
		                                  "'n':{'N':'%d'},'pad':{'S':'%s'}}}}",
		                                  count % AT_ONCE == 1 ? "" : ",", i, round, marker_of(i)));
		if (count % AT_ONCE == 0 || i == 0) {
			buf_add(&body, "]}}", sizeof("]}}"));
			fixture_ok(f, "BatchWriteItem", body.data);
		}
	}
}

static int n_of(int number)
{
	return number != 0 && (number % 2 == 0 || is_near(number)) ? 1 : 2;
}

/* Flips a bit of the row, in whichever file of the store holds it. A second time it is as before. */
static void flip(const struct fixture *f, int number)
{
	static char bytes[FILE_MAX];
	const char *marker = marker_of(number);
	char        path[PATH_MAX];
	int         flipped = 0;
	FILE       *list;

	snprintf(path, sizeof(path), "ls %s/store/*.sst", f->dir);
	list = popen(path, "r");
	assert_non_null(list);
	while (fgets(path, sizeof(path), list) != NULL) {
		int     fd;
		ssize_t len;
		char   *at;

		path[strcspn(path, "\n")] = '\0';
		fd = open(path, O_RDWR);
		len = read(fd, bytes, sizeof(bytes));
		assert_in_range(len, 1, sizeof(bytes) - 1);
		at = memmem(bytes, (size_t)len, marker + 1, PAD_BYTES - 1);
		if (at != NULL) {
			char byte = (char)(*(at - 1) ^ 1);

			assert_int_equal(pwrite(fd, &byte, 1, at - 1 - bytes), 1);
			flipped++;
		}
		close(fd);
	}
	pclose(list);
	assert_int_equal(flipped, 1);
}

/* All rows are in the store's files, then many of them wait too. */
static void open_damaged(struct fixture *f, size_t filter_bytes)
{
	fixture_open(f);
	f->options.block_cache_bytes = 64 << 10; /* nothing is remembered of the time before */
	f->options.checks_absent = false;        /* it would read ahead of the test, and say nothing */
	f->options.filter_bytes_max = filter_bytes;
	fixture_restart(f);
	fixture_ok(f, "CreateTable", TABLE_BY_N);
	put_all(f, 1);
	engine_close(f->engine);
	flip(f, DAMAGED);
	flip(f, DAMAGED_BACK);
	fixture_start(f);
	put_all(f, 2);
	assert_true(cache_dirty_bytes(f->engine->cache) > 0);
}

static void close_mended(struct fixture *f)
{
	flip(f, DAMAGED);
	flip(f, DAMAGED_BACK);
	fixture_restart(f);
	assert_verified(f);
	fixture_close(f);
}

/* ---- walking ---- */

struct walk {
	struct fixture *f;
	struct table   *table;
	bool            backward, scan;
	int             next; /* the row that is to come */
};

/* Pages of so many rows, until one fails or all were seen. */
static enum err_code walk_on(struct walk *w, uint32_t limit)
{
	struct arena             *a = &w->f->arena;
	struct table_query        q = query_p(a, "");
	struct table_query_result r = {.more = true};
	struct item               start = key_numbered(a, w->next + (w->backward ? 1 : -1));

	q.key = w->scan ? NULL : q.key;
	q.backward = w->backward;
	q.limit = limit;
	q.start = w->next > 0 && w->next < ROWS - 1 ? &start : NULL;
	while (r.more) {
		if (w->table->backend->query(w->table, a, &q, &r, &w->f->err) != ERR_NONE)
			return w->f->err.code;
		for (uint32_t i = 0; i < r.count; i++, w->next += w->backward ? -1 : 1) {
			assert_int_equal(number_in(&r.items[i]), w->next);
			assert_int_equal(count_in(&r.items[i]), n_of(w->next));
		}
		start = r.last_key;
		q.start = &start;
	}
	return ERR_NONE;
}

static void assert_damage(struct walk *w)
{
	assert_int_equal(w->f->err.code, ERR_STORAGE);
	if (strstr(w->f->err.text, "block checksum mismatch") == NULL)
		fail_msg("%s", w->f->err.text);
}

/* To the damage, and on behind it. */
static void walk_across(struct walk w, int first, int second)
{
	int way = w.backward ? -1 : 1, reached;

	w.next = w.backward ? ROWS - 1 : 0;
	assert_int_equal(walk_on(&w, PAGE_ROWS), ERR_STORAGE);
	assert_damage(&w);
	reached = w.next;
	assert_in_range((first - reached) * way, 0, PAGE_ROWS + NEAR);
	assert_int_equal(walk_on(&w, PAGE_ROWS), ERR_STORAGE); /* again, and no row was passed by */
	assert_int_equal(w.next, reached);
	assert_int_equal(walk_on(&w, 1), ERR_STORAGE); /* row by row up to the block */
	assert_in_range((first - w.next) * way, 0, NEAR);
	w.next = first + NEAR * way; /* behind it */
	assert_int_equal(walk_on(&w, PAGE_ROWS), ERR_STORAGE);
	assert_in_range((second - w.next) * way, 0, PAGE_ROWS + NEAR);
	w.next = second + NEAR * way;
	assert_int_equal(walk_on(&w, PAGE_ROWS), ERR_NONE);
	assert_int_equal(w.next, w.backward ? -1 : ROWS);
}

/* One page would hold all; the parts behind the one with the damage can be read. */
static void walk_at_once(struct fixture *f, struct table *t, bool backward)
{
	struct walk w = {.f = f, .table = t, .backward = backward, .next = backward ? ROWS - 1 : 0};

	assert_int_equal(walk_on(&w, 0), ERR_STORAGE);
	assert_damage(&w);
}

static void walk_everywhere(struct fixture *f, struct table *t)
{
	size_t waiting = cache_dirty_bytes(f->engine->cache);

	walk_across((struct walk){.f = f, .table = t}, DAMAGED, DAMAGED_BACK);
	walk_across((struct walk){.f = f, .table = t, .backward = true}, DAMAGED_BACK, DAMAGED);
	walk_across((struct walk){.f = f, .table = t, .scan = true}, DAMAGED, DAMAGED_BACK);
	flip(f, DAMAGED_BACK);
	walk_at_once(f, t, false);
	flip(f, DAMAGED_BACK);
	flip(f, DAMAGED);
	walk_at_once(f, t, true);
	flip(f, DAMAGED);
	assert_int_equal(cache_dirty_bytes(f->engine->cache), waiting); /* so that there were parts */
}

TEST(read_error, a_walk_reports_a_block_that_cannot_be_read_and_neither_skips_nor_repeats_rows)
{
	struct fixture        f;
	struct fixture_reader reader;

	open_damaged(&f, 0); /* building a filter writes all back */
	fixture_reader_begin(&reader, &f);
	walk_everywhere(&f, reader.table);
	fixture_reader_end(&reader);
	close_mended(&f);
}

TEST(read_error, a_walk_in_a_turn_does_so_too)
{
	struct fixture f;

	open_damaged(&f, 0); /* building a filter writes all back */
	f.in_turn = walk_everywhere;
	fixture_ok(&f, "PutItem",
	           "{'TableName':'things','Item':{'p':{'S':'p'},'s':{'N':'1'},'n':{'N':'2'}}}");
	close_mended(&f);
}

TEST(read_error, a_filter_whose_walk_could_not_read_on_is_not_in_use)
{
	struct fixture        f;
	struct fixture_reader reader;

	open_damaged(&f, 1 << 20);
	engine_build_filter(f.engine);
	assert_false(filter_stats(f.engine->filter).complete);
	fixture_reader_begin(&reader, &f);
	for (int i = 0; i < ROWS; i++) {
		struct table_get        q = {.table = BYTES("things"), .key = key_numbered(&f.arena, i)};
		struct table_get_result r;

		if (is_near(i))
			continue;
		assert_int_equal(reader.table->backend->get(reader.table, &f.arena, &q, &r, &f.err),
		                 ERR_NONE);
		assert_true(r.found);
	}
	fixture_reader_end(&reader);
	flip(&f, DAMAGED);
	flip(&f, DAMAGED_BACK);
	engine_build_filter(f.engine);
	assert_true(filter_stats(f.engine->filter).complete);
	fixture_close(&f);
}

/* As the walk would if it lost an error on its way. */
static void hide_a_row(struct fixture *f, int number)
{
	const struct table_entry *t = catalog_find(f->engine->catalog, BYTES("things"));
	struct item               item = key_numbered(&f->arena, number);
	struct rocks_batch       *b = rocks_batch_open(f->engine->rocks);
	struct buf                key;

	buf_init(&key, &f->arena);
	layout_row(&key, t->id, &t->schema.keys, &item);
	rocks_batch_delete(b, buf_bytes(&key));
	assert_int_equal(rocks_apply(f->engine->rocks, b, &f->err), ERR_NONE);
	rocks_batch_close(b);
}

static uint64_t builds_after_another(struct fixture *f)
{
	filter_note_deleted(f->engine->filter, UINT32_MAX); /* which makes it due */
	engine_build_filter(f->engine);
	return filter_stats(f->engine->filter).builds;
}

TEST(read_error, a_filter_whose_walk_came_to_fewer_rows_than_are_counted_is_not_in_use)
{
	struct fixture f;
	uint64_t       builds;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_BY_N);
	f.options.checks_absent = false; /* it would end the process */
	fixture_restart(&f);
	put_all(&f, 1);
	builds = builds_after_another(&f);
	assert_int_equal(builds_after_another(&f), builds + 1);
	hide_a_row(&f, 5);
	assert_int_equal(builds_after_another(&f), builds + 1);
	fixture_close(&f);
}
