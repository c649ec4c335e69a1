/* Full disk: where even the reserve is gone, writing ends with an error, and whatever was acknowledged is there once
 * there is room again. (Or it ends with the process: Debian's RocksDB, built with its asserts, sometimes aborts where a
 * file of its own could not be written.) On a small disk in memory; skipped where none may be mounted. */
#include "fixture.h"

#include <errno.h>
#include <sys/mount.h>

#include "engine/apart.h"
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

/* One filling and its consequences; shared by the processes. */
struct filling {
	char   dir[32];
	size_t disk_bytes, segment_bytes;
	int    rows; /* that are written, again and again */
	int    acknowledged;
	bool   refused; /* and the code was right */
};

static void start(struct fixture *f, const struct filling *x)
{
	fixture_init(f, x->dir);
	f->options.disk_reserve_bytes = 0;
	f->options.journal_segment_bytes = x->segment_bytes;
	fixture_start(f);
}

/* Writes until that fails. */
static void fill(void *ctx)
{
	struct filling *x = ctx;
	struct fixture  f;

	start(&f, x);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	while (x->acknowledged < ROWS_MAX &&
	       put(&f, x->acknowledged % x->rows, x->acknowledged) == ERR_NONE) {
		arena_reset(&f.arena);
		x->acknowledged++;
	}
	x->refused = f.err.code == ERR_STORAGE || f.err.code == ERR_DISK_FULL;
	engine_close(f.engine);
}

/* The last round of each row that was acknowledged, or the one whose outcome is unknown. */
static void assert_all_there(void *ctx)
{
	const struct filling *x = ctx;
	struct fixture        f;

	start(&f, x);
	for (int number = 0; number < x->rows && number < x->acknowledged; number++) {
		int last = number + (x->acknowledged - 1 - number) / x->rows * x->rows;
		int found = round_of(&f, number);

		if (found != last && !(found == x->acknowledged && x->acknowledged % x->rows == number))
			fail_msg("row %d is of round %d, expected %d of %d", number, found, last,
			         x->acknowledged);
		arena_reset(&f.arena);
	}
	assert_verified(&f);
	assert_int_equal(put(&f, 0, 0), ERR_NONE);
	engine_close(f.engine);
}

static void assert_survives(int rows, size_t disk_bytes, size_t segment_bytes)
{
	struct filling *x = shared_open(sizeof(*x));
	int             status;

	*x = (struct filling){"/tmp/gatehouse-test-XXXXXX", disk_bytes, segment_bytes, rows, 0, false};
	assert_non_null(mkdtemp(x->dir));
	if (!disk_resize(x->dir, false, disk_bytes)) {
		print_message("skipped: mounting a small disk: %s\n", strerror(errno));
		rmdir(x->dir);
		skip();
	}
	status = apart(fill, x);
	assert_true(x->acknowledged > 50 && x->acknowledged < ROWS_MAX);
	assert_true((status == 0 && x->refused) || (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
	assert_true(disk_resize(x->dir, true, 3 * disk_bytes));
	status = apart(assert_all_there, x);
	assert_int_equal(umount(x->dir), 0);
	assert_int_equal(rmdir(x->dir), 0);
	assert_int_equal(status, 0);
	shared_close(x, sizeof(*x));
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
