/* Full disk: where even the reserve is gone, writes are refused and reads go on; nothing ends the process. Once there is room
 * writing goes on by itself, and whatever was acknowledged is there. On a small disk in memory; skipped where none may be
 * mounted. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/fault.h"

#include "engine/apart.h"
#include "engine/rocks.h"
#include "random.h"

enum {
	DISK_BYTES = 40 << 20,
	SMALLER_DISK_BYTES = 30 << 20,
	ROW_BYTES = 100 << 10,
	ROWS_MAX = 1000,
	SMALL_SEGMENT = 2 << 20,
	BALLAST_BYTES = 8 << 20,
	PATIENCE_ROUNDS = 1000,
	ROUND_NS = 10000000,
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
	int    restarts; /* that the engine asked for */
};

static void count_restart(void *ctx)
{
	((struct filling *)ctx)->restarts++;
}

static void start(struct fixture *f, struct filling *x)
{
	fixture_init(f, x->dir);
	log_set_level(LOG_ERROR + 1);
	f->options.disk_reserve_bytes = 0;
	f->options.journal_segment_bytes = x->segment_bytes;
	f->options.on_failure = count_restart;
	f->options.failure_ctx = x;
	fixture_start(f);
}

static void stop(struct fixture *f)
{
	engine_close(f->engine);
	json_reader_close(f->json);
	arena_release(&f->arena);
}

/* The last round of each row that was acknowledged. */
static void assert_rows(struct fixture *f, const struct filling *x)
{
	for (int number = 0; number < x->rows && number < x->acknowledged; number++) {
		int last = number + (x->acknowledged - 1 - number) / x->rows * x->rows;
		int found = round_of(f, number);

		if (found != last)
			fail_msg("row %d is of round %d, expected %d of %d", number, found, last,
			         x->acknowledged);
		arena_reset(&f->arena);
	}
}

/* Writes until that is refused. */
static void fill_rows(struct fixture *f, struct filling *x)
{
	while (x->acknowledged < ROWS_MAX && put(f, x->acknowledged % x->rows, x->acknowledged) == ERR_NONE) {
		arena_reset(&f->arena);
		x->acknowledged++;
	}
	assert_true(x->acknowledged > 50 && x->acknowledged < ROWS_MAX);
	assert_int_equal(f->err.code, ERR_DISK_FULL);
	assert_false(engine_ready(f->engine));
}

static bool is_there_room(struct fixture *f, struct filling *x)
{
	const struct timespec moment = {.tv_nsec = ROUND_NS};

	for (int i = 0; i < PATIENCE_ROUNDS; i++) {
		engine_tick(f->engine);
		if (put(f, x->acknowledged % x->rows, x->acknowledged) == ERR_NONE) {
			x->acknowledged++;
			return true;
		}
		assert_int_equal(f->err.code, ERR_DISK_FULL);
		nanosleep(&moment, NULL);
	}
	return false;
}

/* What is not used yet is used by someone else. */
static void use_up(const struct filling *x)
{
	static char zeros[64 << 10];
	char        path[64];
	int         fd;

	snprintf(path, sizeof(path), "%s/other", x->dir);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	assert_true(fd >= 0);
	for (size_t len = sizeof(zeros); len > 0; len /= 2)
		while (write(fd, zeros, len) > 0)
			;
	assert_int_equal(errno, ENOSPC);
	close(fd);
}

/* ---- the lives of a process ---- */

static void fill(void *ctx)
{
	struct filling *x = ctx;
	struct fixture  f;

	start(&f, x);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fill_rows(&f, x);
	assert_rows(&f, x); /* reads go on */
	stop(&f);
	assert_int_equal(x->restarts, 0);
}

static void fill_and_wait_for_room(void *ctx)
{
	struct filling *x = ctx;
	struct fixture  f;

	start(&f, x);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fill_rows(&f, x);
	use_up(x);
	assert_rows(&f, x);
	assert_true(disk_resize(x->dir, true, 3 * x->disk_bytes));
	assert_true(is_there_room(&f, x));
	assert_rows(&f, x);
	assert_verified(&f);
	stop(&f);
	assert_int_equal(x->restarts, 0);
}

/* No ballast, and not a byte of room. */
static void open_full(void *ctx)
{
	struct filling *x = ctx;
	struct fixture  f;
	union answer    r;

	use_up(x);
	start(&f, x);
	assert_true(engine_starved(f.engine));
	assert_rows(&f, x);
	memset(&r, 0, sizeof(r));
	fixture_ok(&f, "Query",
	           "{'TableName':'things','KeyConditionExpression':'p=:p','ExpressionAttributeValues':{':p':"
	           "{'S':'1'}}}");
	assert_int_equal(put(&f, 0, 0), ERR_DISK_FULL);
	engine_tick(f.engine);
	assert_int_equal(x->restarts, 0);
	assert_true(disk_resize(x->dir, true, 3 * x->disk_bytes));
	engine_tick(f.engine);
	engine_tick(f.engine);
	assert_int_equal(x->restarts, 1); /* it asks for it once */
	assert_int_equal(put(&f, 0, 0), ERR_DISK_FULL);
	assert_rows(&f, x);
	stop(&f);
}

static void write_some_rows(void *ctx)
{
	struct filling *x = ctx;
	struct fixture  f;

	start(&f, x);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	while (x->acknowledged < x->rows && put(&f, x->acknowledged, x->acknowledged) == ERR_NONE)
		x->acknowledged++;
	assert_int_equal(x->acknowledged, x->rows);
	stop(&f);
}

/* There is room for bytes, but not for one more file: some file systems say so when they are full. */
static void open_without_files(void *ctx)
{
	struct filling *x = ctx;
	struct fixture  f;
	struct statvfs  v;
	char            options[64];

	assert_int_equal(statvfs(x->dir, &v), 0);
	snprintf(options, sizeof(options), "nr_inodes=%lu", (unsigned long)(v.f_files - v.f_ffree));
	assert_int_equal(mount("tmpfs", x->dir, "tmpfs", MS_REMOUNT, options), 0);
	start(&f, x);
	assert_true(engine_starved(f.engine));
	assert_rows(&f, x);
	assert_int_equal(put(&f, 0, 0), ERR_DISK_FULL);
	stop(&f);
	assert_int_equal(mount("tmpfs", x->dir, "tmpfs", MS_REMOUNT, "nr_inodes=1000"), 0);
}

/* A start that is the first of this format has to write FORMAT before anything else. */
static void open_older_with_ballast(void *ctx)
{
	struct filling *x = ctx;
	struct fixture  f;
	char            path[48];
	FILE           *file;
	int             fd;

	snprintf(path, sizeof(path), "%s/FORMAT", x->dir);
	file = fopen(path, "w");
	assert_true(file != NULL && fputs("gatehouse 3\n", file) > 0 && fclose(file) == 0);
	snprintf(path, sizeof(path), "%s/ballast", x->dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && posix_fallocate(fd, 0, BALLAST_BYTES) == 0);
	close(fd);
	use_up(x);
	fixture_init(&f, x->dir);
	log_set_level(LOG_ERROR + 1);
	f.options.disk_reserve_bytes = BALLAST_BYTES;
	fixture_start(&f);
	assert_false(engine_starved(f.engine));
	assert_rows(&f, x);
	stop(&f);
}

static void assert_all_there(void *ctx)
{
	struct filling *x = ctx;
	struct fixture  f;

	start(&f, x);
	assert_false(engine_starved(f.engine));
	assert_rows(&f, x);
	assert_verified(&f);
	assert_int_equal(put(&f, 0, 0), ERR_NONE);
	stop(&f);
}

/* ---- the tests ---- */

static struct filling *filling_open(int rows, size_t disk_bytes, size_t segment_bytes)
{
	struct filling *x = shared_open(sizeof(*x));

	*x = (struct filling){"/tmp/gatehouse-test-XXXXXX", disk_bytes, segment_bytes, rows, 0, 0};
	assert_non_null(mkdtemp(x->dir));
	if (!disk_resize(x->dir, false, disk_bytes)) {
		print_message("skipped: mounting a small disk: %s\n", strerror(errno));
		rmdir(x->dir);
		skip();
	}
	return x;
}

static void filling_close(struct filling *x)
{
	assert_int_equal(umount(x->dir), 0);
	assert_int_equal(rmdir(x->dir), 0);
	shared_close(x, sizeof(*x));
}

static void assert_survives(int rows, size_t disk_bytes, size_t segment_bytes)
{
	struct filling *x = filling_open(rows, disk_bytes, segment_bytes);
	int             filled = apart(fill, x), opened = -1;

	if (filled == 0 && disk_resize(x->dir, true, 3 * disk_bytes))
		opened = apart(assert_all_there, x);
	filling_close(x);
	assert_int_equal(filled, 0);
	assert_int_equal(opened, 0);
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

TEST(full_disk, writing_goes_on_by_itself_once_there_is_room)
{
	for (int i = 0; i < 2; i++) {
		struct filling *x = filling_open(i == 0 ? ROWS_MAX : 200, DISK_BYTES, SMALL_SEGMENT);
		int             status = apart(fill_and_wait_for_room, x);

		if (status == 0)
			status = apart(assert_all_there, x);
		filling_close(x);
		assert_int_equal(status, 0);
	}
}

TEST(full_disk, without_any_room_it_opens_for_reading_and_asks_to_start_again_when_there_is_some)
{
	struct filling *x = filling_open(200, DISK_BYTES, SMALL_SEGMENT);
	int             status = apart(fill, x);

	if (status == 0)
		status = apart(open_full, x);
	if (status == 0)
		status = apart(assert_all_there, x);
	filling_close(x);
	assert_int_equal(status, 0);
}

/* ---- the same without a disk: only the store's files find no room ---- */

static void wait_in_store(void *ctx)
{
	const struct timespec moment = {.tv_nsec = ROUND_NS};
	struct filling       *x = ctx;
	struct fixture        f;

	start(&f, x);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fault_arm(FAULT_STORE_FULL, 0);
	for (; engine_ready(f.engine) && x->acknowledged < ROWS_MAX; x->acknowledged++)
		if (put(&f, x->acknowledged, x->acknowledged) != ERR_NONE)
			break;
	for (int i = 0; i < PATIENCE_ROUNDS && engine_ready(f.engine); i++)
		nanosleep(&moment, NULL);
	assert_int_equal(put(&f, 0, 0), ERR_DISK_FULL); /* the ticker waits too, with a checkpoint */
	assert_rows(&f, x);
	if (x->restarts == 0) {
		fault_disarm(FAULT_STORE_FULL);
		assert_true(is_there_room(&f, x));
	}
	stop(&f); /* with the fault, it is closed while something waits */
}

TEST(full_disk, a_store_that_finds_no_room_waits_and_is_closed_while_it_waits)
{
	for (int closed_waiting = 0; closed_waiting < 2; closed_waiting++) {
		struct filling *x = shared_open(sizeof(*x));
		char            command[64];
		int             status;

		*x = (struct filling){
		        "/tmp/gatehouse-test-XXXXXX", 0, SMALL_SEGMENT, ROWS_MAX, 0, closed_waiting};
		assert_non_null(mkdtemp(x->dir));
		status = apart(wait_in_store, x);
		if (status == 0)
			status = apart(assert_all_there, x);
		snprintf(command, sizeof(command), "rm -rf %s", x->dir);
		assert_int_equal(system(command), 0);
		assert_int_equal(status, 0);
		shared_close(x, sizeof(*x));
	}
}

static void never_full(void *ctx)
{
	(void)ctx;
}

static void flush_frozen(void *dir)
{
	struct rocks_options options = {.block_cache_bytes = 1 << 20, .on_full = never_full};
	struct rocks_batch  *batch;
	struct rocks        *r;
	struct err           err;

	assert_int_equal(rocks_open(&r, dir, &options, &err), ERR_NONE);
	batch = rocks_batch_open(r);
	rocks_batch_put(batch, BYTES("key"), BYTES("value"));
	assert_int_equal(rocks_apply(r, batch, &err), ERR_NONE);
	rocks_freeze(r);
	assert_int_equal(rocks_flush(r, &err), ERR_DISK_FULL);
	assert_string_equal(err.text, "the disk is full: the store writes no files");
	rocks_batch_close(batch);
	rocks_close(r);
}

/* What was to be flushed is dropped, so it is no success. Nor is it believed what the store then says of its files. */
TEST(full_disk, a_store_that_was_frozen_says_that_it_writes_no_files)
{
	char dir[] = "/tmp/gatehouse-test-XXXXXX", command[64];
	int  status;

	assert_non_null(mkdtemp(dir));
	status = apart(flush_frozen, dir);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
	assert_int_equal(status, 0);
}

static void assert_opens(void (*how)(void *ctx))
{
	struct filling *x = filling_open(20, DISK_BYTES, SMALL_SEGMENT);
	int             status = apart(write_some_rows, x);

	if (status == 0)
		status = apart(how, x);
	if (status == 0 && disk_resize(x->dir, true, 3 * x->disk_bytes))
		status = apart(assert_all_there, x);
	filling_close(x);
	assert_int_equal(status, 0);
}

TEST(full_disk, without_room_for_a_file_it_opens_for_reading)
{
	assert_opens(open_without_files);
}

TEST(full_disk, a_directory_of_an_older_format_is_taken_over_with_what_the_ballast_gives)
{
	assert_opens(open_older_with_ballast);
}
