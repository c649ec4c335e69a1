/* Full disk: where even the reserve is gone, writing ends with an error and not in a hang, and whatever was
 * acknowledged is there once there is room again. On a small disk in memory; skipped where none may be mounted. */
#include "fixture.h"

#include <errno.h>
#include <sys/mount.h>

#include "random.h"

enum {
	DISK_BYTES = 40 << 20,
	SMALLER_DISK_BYTES = 30 << 20,
	ROW_BYTES = 100 << 10,
	ROWS_MAX = 1000,
	SMALL_SEGMENT = 2 << 20,
};

static bool disk_resize(const char *dir, bool mounted, size_t bytes)
{
	char options[32];

	snprintf(options, sizeof(options), "size=%zu", bytes);
	return mount("tmpfs", dir, "tmpfs", mounted ? MS_REMOUNT : 0, options) == 0;
}

static enum err_code put(struct fixture *f, int number, int round)
{
	static char   xs[ROW_BYTES];
	struct random random = {(uint64_t)round};
	union answer  r;

	for (size_t i = 0; i < sizeof(xs); i++)
		xs[i] = (char)('a' + random_below(&random, 26)); /* what the store cannot compress */
	return fixture_try(f, "PutItem",
	                   arena_printf(&f->arena,
	                                "{'TableName':'things','Item':{'p':{'S':'%d'},'s':{'S':'s'},"
	                                "'n':{'N':'%d'},'pad':{'S':'%.*s'}}}",
	                                number, round, ROW_BYTES, xs)
	                           .data,
	                   &r);
}

static int round_of(struct fixture *f, int number)
{
	struct bytes body = arena_printf(
	        &f->arena, "{'TableName':'things','Key':{'p':{'S':'%d'},'s':{'S':'s'}}}", number);
	union answer r = fixture_ok(f, "GetItem", body.data);
	int64_t      n = -1;

	if (r.get.found)
		assert_true(number_to_i64(&item_get(&r.get.item, BYTES("n"))->number, &n));
	return (int)n;
}

/* Writes until that fails; returns how many were acknowledged. `rows` are written again and again. */
static int fill(struct fixture *f, int rows)
{
	int i = 0;

	while (i < ROWS_MAX && put(f, i % rows, i) == ERR_NONE) {
		arena_reset(&f->arena);
		i++;
	}
	assert_true(i < ROWS_MAX);
	assert_true(f->err.code == ERR_STORAGE || f->err.code == ERR_DISK_FULL);
	return i;
}

/* The last round of each row that was acknowledged, or the one whose outcome is unknown. */
static void assert_all_there(struct fixture *f, int rows, int acknowledged)
{
	for (int number = 0; number < rows && number < acknowledged; number++) {
		int last = number + (acknowledged - 1 - number) / rows * rows, found = round_of(f, number);

		if (found != last && !(found == acknowledged && acknowledged % rows == number))
			fail_msg("row %d is of round %d, expected %d of %d", number, found, last,
			         acknowledged);
		arena_reset(&f->arena);
	}
	assert_verified(f);
}

static void assert_survives(int rows, size_t disk_bytes, size_t segment_bytes)
{
	char           dir[] = "/tmp/gatehouse-test-XXXXXX";
	struct fixture f;
	int            acknowledged;

	assert_non_null(mkdtemp(dir));
	fixture_init(&f, dir);
	if (!disk_resize(dir, false, disk_bytes)) {
		print_message("skipped: mounting a small disk: %s\n", strerror(errno));
		rmdir(dir);
		skip();
	}
	f.options.disk_reserve_bytes = 0;
	f.options.journal_segment_bytes = segment_bytes;
	fixture_start(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	acknowledged = fill(&f, rows);
	assert_true(acknowledged > 50);
	engine_close(f.engine);
	assert_true(disk_resize(dir, true, 3 * disk_bytes));
	fixture_start(&f);
	assert_all_there(&f, rows, acknowledged);
	assert_int_equal(put(&f, 0, 0), ERR_NONE);
	engine_close(f.engine);
	json_reader_close(f.json);
	arena_release(&f.arena);
	assert_int_equal(umount(dir), 0);
	assert_int_equal(rmdir(dir), 0);
}

TEST(full_disk, what_was_acknowledged_survives_where_all_rows_are_new)
{
	assert_survives(ROWS_MAX, DISK_BYTES, SMALL_SEGMENT);
}

TEST(full_disk, what_was_acknowledged_survives_where_few_rows_change)
{
	assert_survives(200, DISK_BYTES, SMALL_SEGMENT);
}

/* The store's memory is full before the journal is long. */
TEST(full_disk, what_was_acknowledged_survives_where_the_store_cannot_write_its_files)
{
	assert_survives(ROWS_MAX, SMALLER_DISK_BYTES, (size_t)1 << 30);
}
