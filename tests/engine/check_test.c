/* Check: what is sound is called sound and left as it is; damage of each kind is found and named. */
#include "fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "engine/check.h"
#include "engine/layout.h"
#include "engine/salvage.h"
#include "item/codec.h"
#include "random.h"

enum { TEXT_MAX = 8192, ITEM_BYTES = 300 * 1024, FLIPS = 40, FOOTER_BYTES = 64 };

#define TABLE_INDEXED                                                                                        \
	"{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'AttributeName':'p'" \
	",'AttributeType':'S'},{'AttributeName':'g','AttributeType':'S'}],'KeySchema':[{'AttributeName':'p'" \
	",'KeyType':'HASH'}],'GlobalSecondaryIndexes':[{'IndexName':'by-g','KeySchema':[{'AttributeName':"   \
	"'g','KeyType':'HASH'}],'Projection':{'ProjectionType':'ALL'}}]}"

/* A check, and what it said. */
struct inspection {
	struct check_found found;
	enum err_code      rc;
	struct err         err;
	char               problems[TEXT_MAX];
	unsigned           percents[2]; /* last of each phase */
};

static void on_progress(void *ctx, enum check_phase phase, unsigned percent, const struct check_found *found)
{
	struct inspection *i = ctx;

	assert_ptr_equal(found, &i->found);
	assert_true(percent >= i->percents[phase] && percent <= 100);
	i->percents[phase] = percent;
}

static void on_problem(void *ctx, const char *text)
{
	struct inspection *i = ctx;
	size_t             len = strlen(i->problems);

	snprintf(i->problems + len, sizeof(i->problems) - len, "%s\n", text);
}

static struct inspection inspect(struct fixture *f)
{
	struct inspection  i = {0};
	struct check_watch watch = {.ctx = &i, .progress = on_progress, .problem = on_problem};

	i.rc = engine_check(f->dir, &watch, &i.found, &i.err);
	return i;
}

static void assert_sound(struct fixture *f)
{
	struct inspection i = inspect(f);

	if (i.rc != ERR_NONE || !check_is_sound(&i.found))
		fail_msg("%s%s", i.problems, i.rc != ERR_NONE ? i.err.text : "");
	assert_string_equal(i.problems, "");
	assert_int_equal(i.percents[CHECK_BLOCKS], 100);
	assert_int_equal(i.percents[CHECK_ROWS], 100);
}

/* Three things, two in the index, one that expired before it was written: such a row has an expiry entry (engine/lapse.h). */
static void open_with_things(struct fixture *f)
{
	fixture_open(f);
	fixture_ok(f, "CreateTable", TABLE_INDEXED);
	fixture_ok(f, "UpdateTimeToLive",
	           "{'TableName':'things','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'ttl'}}");
	engine_tick(f->engine);
	fixture_ok(f, "PutItem", "{'TableName':'things','Item':{'p':{'S':'a'},'g':{'S':'x'}}}");
	fixture_ok(f, "PutItem", "{'TableName':'things','Item':{'p':{'S':'b'},'g':{'S':'x'}}}");
	fixture_ok(f, "PutItem", "{'TableName':'things','Item':{'p':{'S':'c'},'ttl':{'N':'1788990000'}}}");
	engine_close(f->engine);
}

static void close_things(struct fixture *f)
{
	fixture_start(f); /* fixture_close ends it */
	fixture_close(f);
}

TEST(check, a_sound_directory_is_counted_and_left_as_it_is)
{
	struct fixture    f;
	struct inspection i;
	char              before[64], after[64];

	open_with_things(&f);
	fixture_fingerprint(&f, before);
	assert_sound(&f);
	i = inspect(&f);
	assert_int_equal(i.found.counts.rows, 3);
	assert_int_equal(i.found.counts.index_entries, 2);
	assert_int_equal(i.found.counts.expiry_entries, 1);
	assert_int_equal(i.found.counts.leftovers, 0);
	fixture_fingerprint(&f, after);
	assert_string_equal(before, after);
	close_things(&f);
}

TEST(check, what_has_expired_or_waits_to_be_filled_stays_so)
{
	struct fixture f;

	open_with_things(&f);
	fixture_set_clock(&f, START_S + 100000); /* the row is long expired; check's own clock says so too */
	fixture_start(&f);
	fixture_ok(&f, "UpdateTable",
	           "{'TableName':'things','AttributeDefinitions':[{'AttributeName':'h','AttributeType':'S'}],"
	           "'GlobalSecondaryIndexUpdates':[{'Create':{'IndexName':'by-h','KeySchema':"
	           "[{'AttributeName':'h','KeyType':'HASH'}],'Projection':{'ProjectionType':'ALL'}}}]}");
	engine_close(f.engine);
	for (int i = 0; i < 3; i++) {
		struct inspection seen = inspect(&f);

		assert_int_equal(seen.rc, ERR_NONE);
		assert_true(check_is_sound(&seen.found));
	}
	close_things(&f);
}

TEST(check, a_directory_that_is_open_or_is_none_is_not_checked)
{
	struct fixture    f;
	struct inspection i;
	char              dir[64];

	fixture_open(&f);
	i = inspect(&f);
	assert_int_equal(i.rc, ERR_STORAGE);
	assert_non_null(strstr(i.err.text, "in use by another process"));
	memcpy(dir, f.dir, sizeof(dir));
	snprintf(f.dir, sizeof(f.dir), "/tmp/gatehouse-none-%d", getpid());
	i = inspect(&f);
	assert_int_equal(i.rc, ERR_STORAGE);
	assert_int_not_equal(access(f.dir, F_OK), 0);
	memcpy(f.dir, dir, sizeof(dir));
	fixture_close(&f);
}

/* ---- differences ---- */

static struct rocks *store_open(struct fixture *f)
{
	struct rocks *r;
	char          path[96];

	snprintf(path, sizeof(path), "%s/store", f->dir);
	assert_int_equal(rocks_open(&r, path, &(struct rocks_options){.block_cache_bytes = 1 << 20}, &f->err),
	                 ERR_NONE);
	return r;
}

/* The first key of a kind, and its value, copied. */
static struct bytes first_key(struct fixture *f, struct rocks *r, char kind, struct bytes *value)
{
	const char             low[1] = {kind}, high[1] = {(char)(kind + 1)};
	struct rocks_snapshot *snapshot = rocks_snapshot_open(r);
	struct rocks_cursor   *c =
	        rocks_cursor_open(r, snapshot, (struct bytes){low, 1}, (struct bytes){high, 1}, false);
	struct bytes key;

	assert_true(rocks_cursor_at(c, &key, value));
	key = arena_copy(&f->arena, key);
	*value = arena_copy(&f->arena, *value);
	rocks_cursor_close(c);
	rocks_snapshot_close(r, snapshot);
	return key;
}

/* Puts (or, without a value, deletes) a key behind the engine's back. */
static void tamper(struct fixture *f, struct rocks *r, struct bytes key, struct bytes value)
{
	struct rocks_batch *b = rocks_batch_open(r);

	if (value.data != NULL)
		rocks_batch_put(b, key, value);
	else
		rocks_batch_delete(b, key);
	assert_int_equal(rocks_apply(r, b, &f->err), ERR_NONE);
	assert_int_equal(rocks_flush(r, &f->err), ERR_NONE);
	rocks_batch_close(b);
}

/* An entry of "by-g" as builds made it that took rows with keys of any length into an index when they filled it. */
static void long_entry_put(struct fixture *f, const char *g)
{
	struct rocks     *r = store_open(f);
	struct value      p = value_string(BYTES("a")), v = value_string(bytes_of(g));
	struct item       item = {0};
	struct key_schema keys = {.hash = {BYTES("p"), VALUE_S}}, by_g = {.hash = {BYTES("g"), VALUE_S}};
	struct buf        key, value;

	item = item_with(&f->arena, &item, BYTES("p"), &p);
	item = item_with(&f->arena, &item, BYTES("g"), &v);
	buf_init(&key, &f->arena);
	buf_init(&value, &f->arena);
	layout_index(&key, TABLE_ID_FIRST, INDEX_ID_FIRST, &by_g, &keys, &item);
	item_encode(&value, &item);
	tamper(f, r, buf_bytes(&key), buf_bytes(&value));
	rocks_close(r);
}

TEST(check, an_entry_that_is_too_long_is_no_damage_and_goes_with_its_row)
{
	struct fixture f;
	char           g[3001];
	union answer   r;

	memset(g, 'x', sizeof(g) - 1);
	g[sizeof(g) - 1] = '\0';
	fixture_open(&f);
	fixture_ok(&f, "CreateTable",
	           "{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'"
	           "AttributeName':"
	           "'p','AttributeType':'S'}],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'}]}");
	fixture_ok(&f, "PutItem",
	           arena_printf(&f.arena, "{'TableName':'things','Item':{'p':{'S':'a'},'g':{'S':'%s'}}}", g)
	                   .data);
	fixture_ok(&f, "UpdateTable",
	           "{'TableName':'things','AttributeDefinitions':[{'AttributeName':'g','AttributeType':'S'}],"
	           "'GlobalSecondaryIndexUpdates':[{'Create':{'IndexName':'by-g','KeySchema':"
	           "[{'AttributeName':'g','KeyType':'HASH'}],'Projection':{'ProjectionType':'ALL'}}}]}");
	engine_tick(f.engine);
	engine_close(f.engine);
	long_entry_put(&f, g);
	assert_null(strstr(inspect(&f).problems, "does not belong to its row"));
	fixture_start(&f);
	r = fixture_ok(&f, "Scan", "{'TableName':'things','IndexName':'by-g'}");
	assert_int_equal(r.query.count, 1);
	fixture_ok(&f, "DeleteItem", "{'TableName':'things','Key':{'p':{'S':'a'}}}");
	r = fixture_ok(&f, "Scan", "{'TableName':'things','IndexName':'by-g'}");
	assert_int_equal(r.query.count, 0);
	fixture_close(&f);
}

static const struct bytes nothing = {NULL, 0};

/* Changes one byte of a copy. */
static struct bytes changed(struct fixture *f, struct bytes b, size_t at)
{
	struct bytes copy = arena_copy(&f->arena, b);

	((char *)(uintptr_t)copy.data)[at] ^= 1;
	return copy;
}

static void assert_found(struct fixture *f, uint64_t differences, const char *text)
{
	struct inspection i = inspect(f);

	assert_int_equal(i.rc, ERR_NONE);
	assert_false(check_is_sound(&i.found));
	assert_int_equal(i.found.counts.differences, differences);
	if (strstr(i.problems, text) == NULL)
		fail_msg("%s is not in: %s", text, i.problems);
}

TEST(check, an_index_entry_that_is_missing_wrong_or_without_a_row_is_found_and_its_index_named)
{
	struct fixture f;
	struct rocks  *r;
	struct bytes   key, value;

	open_with_things(&f);
	r = store_open(&f);
	key = first_key(&f, r, KIND_INDEX, &value);
	tamper(&f, r, key, nothing);
	rocks_close(r);
	assert_found(&f, 1, "table things, index by-g: a row has no entry");
	r = store_open(&f);
	tamper(&f, r, key, changed(&f, value, value.len - 1));
	rocks_close(r);
	assert_found(&f, 2, "table things, index by-g: an entry is not what its row projects");
	r = store_open(&f);
	tamper(&f, r, key, value);
	tamper(&f, r, changed(&f, key, key.len - 2), value);
	rocks_close(r);
	assert_found(&f, 1, "table things, index by-g: an entry does not belong to its row");
	r = store_open(&f);
	tamper(&f, r, changed(&f, key, key.len - 2), nothing);
	tamper(&f, r, changed(&f, key, 6), value);
	rocks_close(r);
	assert_found(&f, 1, "an index entry belongs to no index");
	r = store_open(&f);
	tamper(&f, r, changed(&f, key, 6), nothing);
	rocks_close(r);
	assert_sound(&f);
	close_things(&f);
}

TEST(check, a_row_that_cannot_be_read_is_elsewhere_or_of_no_table_is_found)
{
	struct fixture f;
	struct rocks  *r;
	struct bytes   key, value;

	open_with_things(&f);
	r = store_open(&f);
	key = first_key(&f, r, KIND_ROW, &value);
	tamper(&f, r, key, (struct bytes){value.data, value.len / 2});
	rocks_close(r);
	assert_found(&f, 2, "table things: a row cannot be read"); /* and its index entry finds none */
	r = store_open(&f);
	tamper(&f, r, key, value);
	tamper(&f, r, changed(&f, key, key.len - 2), value);
	rocks_close(r);
	assert_found(&f, 1, "table things: a row is not where its key says");
	r = store_open(&f);
	tamper(&f, r, changed(&f, key, key.len - 2), nothing);
	tamper(&f, r, changed(&f, key, 1), value);
	rocks_close(r);
	assert_found(&f, 1, "a row belongs to no table");
	r = store_open(&f);
	tamper(&f, r, changed(&f, key, 1), nothing);
	rocks_close(r);
	assert_sound(&f);
	close_things(&f);
}

TEST(check, an_expiry_entry_that_is_missing_or_damaged_is_found_and_one_left_over_is_counted)
{
	struct fixture    f;
	struct rocks     *r;
	struct bytes      key, value;
	struct inspection i;

	open_with_things(&f);
	r = store_open(&f);
	key = first_key(&f, r, KIND_EXPIRY, &value);
	tamper(&f, r, key, nothing);
	rocks_close(r);
	assert_found(&f, 1, "table things: a row that expires has no expiry entry");
	r = store_open(&f);
	tamper(&f, r, key, BYTES("something"));
	rocks_close(r);
	assert_found(&f, 1, "an expiry entry cannot be read");
	r = store_open(&f);
	tamper(&f, r, key, BYTES(""));
	tamper(&f, r, changed(&f, key, 2), BYTES("")); /* another time */
	tamper(&f, r, changed(&f, key, 6), BYTES("")); /* a table that is gone */
	rocks_close(r);
	assert_sound(&f);
	i = inspect(&f);
	assert_int_equal(i.found.counts.expiry_entries, 3);
	assert_int_equal(i.found.counts.leftovers, 2);
	close_things(&f);
}

static struct bytes count_of(struct fixture *f, const char *item)
{
	struct item decoded = fixture_item(f, item);
	struct buf  value;

	buf_init(&value, &f->arena);
	item_encode(&value, &decoded);
	return buf_bytes(&value);
}

static void on_line(void *text, const char *line)
{
	snprintf(text, TEXT_MAX, "%s", line);
}

TEST(check, a_wrong_count_of_a_table_or_an_index_is_found_and_salvage_has_it_counted_again)
{
	struct fixture       f;
	struct rocks        *r;
	struct bytes         key, value;
	struct salvage_found salvaged;
	char                 text[TEXT_MAX] = "";

	open_with_things(&f);
	r = store_open(&f);
	key = first_key(&f, r, KIND_COUNTS, &value);
	tamper(&f, r, key, count_of(&f, "{'0':{'L':[{'N':'4'},{'N':'9'}]},'1':{'L':[{'N':'1'},{'N':'9'}]}}"));
	rocks_close(r);
	assert_found(&f, 2, "table things: 3 items are there, but 4 are counted");
	assert_found(&f, 2, "table things, index by-g: 2 items are there, but 1 are counted");
	r = store_open(&f);
	tamper(&f, r, key, count_of(&f, "{'0':{'L':[{'N':'3'},{'N':'9'}]},'1':{'L':[{'N':'1'},{'N':'9'}]}}"));
	rocks_close(r);
	assert_found(&f, 2, "bytes are there, but 9 are counted");
	assert_int_equal(
	        engine_salvage(f.dir, true, &(struct salvage_watch){text, on_line}, &salvaged, &f.err),
	        ERR_NONE);
	assert_string_equal(text, "the numbers of rows were wrong: the next start counts them");
	assert_false(salvaged.damaged);
	assert_sound(&f); /* it counts as a start would */
	close_things(&f);
}

/* ---- blocks ---- */

struct largest {
	char     name[48];
	uint64_t bytes;
};

static void take_larger(void *ctx, const char *name, uint64_t bytes)
{
	struct largest *l = ctx;

	if (bytes < l->bytes)
		return;
	l->bytes = bytes;
	snprintf(l->name, sizeof(l->name), "%.40s", name);
}

/* The largest file that the store counts as its own. */
static void store_file(struct fixture *f, char path[128])
{
	struct largest largest = {0};
	struct rocks  *r;

	snprintf(path, 128, "%s/store", f->dir);
	assert_int_equal(rocks_open_read_only(&r, path, 1 << 20, &f->err), ERR_NONE);
	rocks_each_file(r, take_larger, &largest);
	rocks_close(r);
	assert_true(largest.bytes > ITEM_BYTES);
	snprintf(path, 128, "%s/store%s", f->dir, largest.name);
}

static void put_large(struct fixture *f, int number, struct random *random)
{
	char *text = malloc(ITEM_BYTES + 200);
	int len = snprintf(text, 200, "{'TableName':'things','Item':{'p':{'S':'big-%d'},'v':{'S':'", number);

	for (int j = 0; j < ITEM_BYTES; j++)
		text[len++] = (char)('a' + random_below(random, 26));
	strcpy(text + len, "'}}}");
	fixture_ok(f, "PutItem", text);
	arena_reset(&f->arena);
	free(text);
}

/* Has the store put its memory into a file, and ends. */
static void fill_a_file(struct fixture *f, char path[128])
{
	struct random random = {1};

	fixture_start(f);
	for (int i = 0; i < 60; i++)
		put_large(f, i, &random);
	engine_close(f->engine);
	store_file(f, path);
}

static void flip(const char *path, off_t at, int bit)
{
	int     fd = open(path, O_RDWR);
	uint8_t byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte = (uint8_t)(byte ^ 1u << bit);
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

TEST(check, a_bit_that_flipped_anywhere_in_a_file_is_found_and_the_file_named)
{
	struct random  random = {2};
	struct fixture f;
	struct stat    st;
	char           path[128];

	open_with_things(&f);
	fill_a_file(&f, path);
	assert_sound(&f);
	assert_int_equal(stat(path, &st), 0);
	for (int i = 0; i < FLIPS; i++) {
		/* half of them at the end, where filters, index and properties are */
		off_t from = i % 2 ? 0 : st.st_size - FOOTER_BYTES - 3000;
		off_t at = from + (off_t)random_below(&random, (uint64_t)(st.st_size - FOOTER_BYTES - from));
		int   bit = (int)random_below(&random, 8);
		struct inspection seen;

		flip(path, at, bit);
		seen = inspect(&f);
		if (seen.rc == ERR_NONE) {
			assert_int_equal(seen.found.damaged_files, 1);
			assert_false(seen.found.compared);
		}
		assert_false(seen.rc == ERR_NONE && check_is_sound(&seen.found));
		if (strstr(seen.rc == ERR_NONE ? seen.problems : seen.err.text, strrchr(path, '/') + 1) ==
		    NULL)
			fail_msg("%s is not named: %s %s", path, seen.problems, seen.err.text);
		flip(path, at, bit);
	}
	assert_sound(&f);
	close_things(&f);
}

static void copy_file(const char *from, const char *to)
{
	char command[300];

	snprintf(command, sizeof(command), "cp %s %s", from, to);
	assert_int_equal(system(command), 0);
}

/* The store does not open then; the file is named all the same. */
TEST(check, a_file_that_was_cut_short_is_found_and_named)
{
	struct fixture    f;
	struct inspection seen;
	struct stat       st;
	char              path[128], away[140];

	open_with_things(&f);
	fill_a_file(&f, path);
	snprintf(away, sizeof(away), "%s.away", path);
	copy_file(path, away);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size / 2), 0);
	seen = inspect(&f);
	assert_int_equal(seen.rc, ERR_NONE);
	assert_int_equal(seen.found.damaged_files, 1);
	assert_false(check_is_sound(&seen.found));
	assert_non_null(strstr(seen.problems, strrchr(path, '/') + 1));
	assert_int_equal(rename(away, path), 0);
	assert_sound(&f);
	close_things(&f);
}

TEST(check, a_file_that_is_missing_is_found_and_named)
{
	struct fixture    f;
	struct inspection seen;
	char              path[128], away[140], number[8];

	open_with_things(&f);
	fill_a_file(&f, path);
	snprintf(away, sizeof(away), "%s.away", path);
	assert_int_equal(rename(path, away), 0);
	seen = inspect(&f);
	assert_false(seen.rc == ERR_NONE && check_is_sound(&seen.found));
	snprintf(number, sizeof(number), "%.6s", strrchr(path, '/') + 1);
	assert_non_null(strstr(seen.rc == ERR_NONE ? seen.problems : seen.err.text, number));
	assert_int_equal(rename(away, path), 0);
	assert_sound(&f);
	close_things(&f);
}
