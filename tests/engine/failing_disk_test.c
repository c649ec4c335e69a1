/* Failing disk: calls of the store's own files that fail once, by taking the place of the C library's: the store's list of files, and the file of a log on its
 * way into the store. Whatever fails, what was acknowledged is there after the next start. */
#define _GNU_SOURCE
#include "engine/long_log.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* ---- the calls ---- */

enum call { CALL_NONE, CALL_SYNC, CALL_WRITE, CALL_UNLINK };

static atomic_int  failing; /* an enum call: those of files with this name in their path fail … */
static const char *failing_name;
static atomic_int  failing_from, failing_to; /* … from so many of them on, up to so many */

static void fail_some(enum call call, const char *name, int from, int to)
{
	failing_name = name;
	atomic_store(&failing_from, from);
	atomic_store(&failing_to, to);
	atomic_store(&failing, (int)call);
}

static void fail_next(enum call call, const char *name)
{
	fail_some(call, name, 0, 1);
}

static bool has_failed(void)
{
	return atomic_load(&failing_from) < 0;
}

static bool fails(enum call call, const char *path)
{
	return atomic_load(&failing) == (int)call && strstr(path, failing_name) != NULL &&
	       atomic_fetch_sub(&failing_to, 1) > 0 && atomic_fetch_sub(&failing_from, 1) <= 0;
}

static bool fails_at(enum call call, int fd)
{
	char    link[64], path[PATH_MAX];
	ssize_t n;

	if (atomic_load(&failing) != (int)call)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	return fails(call, path);
}

static int io_error(void)
{
	errno = EIO;
	return -1;
}

int fdatasync(int fd)
{
	return fails_at(CALL_SYNC, fd) ? io_error() : (int)syscall(SYS_fdatasync, fd);
}

/* Half of it gets there. */
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
	if (!fails_at(CALL_WRITE, fd))
		return syscall(SYS_pwrite64, fd, data, bytes, at);
	syscall(SYS_pwrite64, fd, data, bytes / 2, at);
	return io_error();
}

/* Of a file that has another name. */
int unlink(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_nlink > 1 && fails(CALL_UNLINK, path)
	               ? io_error()
	               : (int)syscall(SYS_unlink, path);
}

/* ---- the list of files ---- */

/* From then on nobody knows which files the list on the disk names: none is deleted, none is added, and the process is to start again (W3). */
static void assert_stopped(struct long_log *t)
{
	assert_true(has_failed());
	assert_int_equal(t->f.err.code, ERR_STORAGE);
	assert_non_null(strstr(t->f.err.text, "MANIFEST"));
	engine_tick(t->f.engine);
	assert_true(t->told);
	assert_false(engine_ready(t->f.engine));
	fixture_fails(&t->f, "PutItem", "{'TableName':'things','Item':{'p':{'S':'p'},'s':{'N':'0'}}}",
	              ERR_STORAGE, MSG_WRITER_FAILED);
	assert_int_equal(checkpoint_run(t->f.engine, &t->f.err), ERR_STORAGE);
}

enum after { AFTER_CLOSE, AFTER_KILL };

/* One call of a checkpoint fails, or all from that one on. False if there are not as many. */
static bool survives(enum call call, int from, int to, enum after after)
{
	static struct long_log t;

	long_log_open(&t);
	fail_some(call, "/store/MANIFEST-", from, to);
	if (long_log_try(&t) == ERR_NONE && !has_failed()) {
		fail_next(CALL_NONE, "");
		fixture_close(&t.f);
		return false;
	}
	assert_stopped(&t);
	if (after == AFTER_KILL)
		fixture_die(&t.f);
	else
		engine_close(t.f.engine);
	fail_next(CALL_NONE, "");
	fixture_start(&t.f);
	assert_long_log(&t);
	long_log_append(&t, LOG_ROWS);
	long_log_checkpoint(&t);
	fixture_restart(&t.f);
	assert_long_log(&t);
	fixture_close(&t.f);
	return true;
}

/* A file of a log is taken with two records, and files of the store's own with two or more. */
static void assert_survives_each(enum call call, int times, enum after after)
{
	int from = 0;

	while (survives(call, from, times == 1 ? from + 1 : INT_MAX, after))
		from++;
	assert_in_range(from, 3, 20);
}

TEST(failing_disk, a_flush_of_the_list_of_files_that_failed_loses_nothing)
{
	assert_survives_each(CALL_SYNC, 1, AFTER_CLOSE);
}

/* The record is in the list for whoever reads it, and so must be the file that it names. */
TEST(failing_disk, a_list_of_files_that_cannot_be_flushed_any_more_leaves_what_opens)
{
	assert_survives_each(CALL_SYNC, INT_MAX, AFTER_KILL);
}

TEST(failing_disk, a_write_to_the_list_of_files_that_failed_halfway_loses_nothing)
{
	assert_survives_each(CALL_WRITE, 1, AFTER_KILL);
}

TEST(failing_disk, a_start_whose_list_of_files_cannot_be_flushed_fails_and_the_next_one_has_all)
{
	static struct long_log t;

	long_log_open(&t);
	fixture_die(&t.f);
	fail_next(CALL_SYNC, "/store/MANIFEST-");
	assert_int_equal(engine_open(&t.f.engine, &t.f.options, &t.f.err), ERR_STORAGE);
	assert_non_null(strstr(t.f.err.text, "MANIFEST"));
	fixture_start(&t.f);
	assert_long_log(&t);
	fixture_close(&t.f);
}

/* ---- the file of a log ---- */

/* RocksDB links the file, and then removes the name that it was written under. If that name stays, what is written under it next must be another file. */
TEST(failing_disk, a_log_s_file_whose_first_name_could_not_be_removed_is_not_written_over)
{
	static struct long_log t;

	long_log_open(&t);
	fail_next(CALL_UNLINK, "/store/log.run");
	long_log_checkpoint(&t);
	assert_true(has_failed());
	assert_int_equal(long_log_files(&t), 1);
	long_log_append(&t, FILE_ROWS);
	long_log_checkpoint(&t);
	assert_int_equal(long_log_files(&t), 2);
	assert_long_log(&t);
	fixture_restart(&t.f);
	assert_long_log(&t);
	fixture_close(&t.f);
}

/* … and if it still cannot be removed then, rows go into the store one by one. */
TEST(failing_disk, a_log_s_rows_find_their_way_while_an_old_name_cannot_be_removed)
{
	static struct long_log t;

	long_log_open(&t);
	fail_next(CALL_UNLINK, "/store/log.run");
	long_log_checkpoint(&t);
	long_log_append(&t, FILE_ROWS);
	fail_next(CALL_UNLINK, "/store/log.run");
	long_log_checkpoint(&t);
	assert_true(has_failed());
	assert_long_log(&t);
	fixture_restart(&t.f);
	assert_long_log(&t);
	fixture_close(&t.f);
}
