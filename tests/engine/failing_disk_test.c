/* Failing disk: calls of the store's own files that fail once, by taking the place of the C library's: the store's list of files, and the file of a log on its
 * way into the store. Whatever fails, what was acknowledged is there after the next start. */
#define _GNU_SOURCE
#include "engine/crew.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "engine/journal.h"
#include "engine/partition.h"
#include "engine/state.h"

enum {
	LOG_ROWS = PARTITION_WHOLE_ROWS_MAX + ENDS_IN_ORDER + 25, /* after which a log has a tail */
	FILE_ROWS = 400,
	AT_ONCE = 25, /* in a BatchWriteItem */
};

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

/* ---- an engine with a log ---- */

struct trial {
	struct fixture f;
	int            end; /* the next number to append */
	bool           told;
};

static void note_failure(void *ctx)
{
	((struct trial *)ctx)->told = true;
}

static void append(struct trial *t, int count)
{
	for (int done = 0; done < count; done += AT_ONCE) {
		struct buf body;

		buf_init(&body, &t->f.arena);
		buf_add_bytes(&body, BYTES("{'RequestItems':{'things':["));
		for (int i = 0; i < AT_ONCE; i++, t->end++)
			buf_add_bytes(&body, arena_printf(&t->f.arena,
			                                  "%s{'PutRequest':{'Item':{'p':{'S':'p'},'s':{'N':"
			                                  "'%d'}}}}",
			                                  i == 0 ? "" : ",", t->end));
		buf_add(&body, "]}}", sizeof("]}}"));
		fixture_ok(&t->f, "BatchWriteItem", body.data);
		arena_reset(&t->f.arena);
	}
}

static enum err_code next_segment_run(struct turn_request *w, struct table *t)
{
	return journal_next_segment(((struct engine_session *)t)->engine->journal, &w->err);
}

static enum err_code checkpoint_try(struct trial *t)
{
	struct turn_request next = {.run = next_segment_run};

	assert_int_equal(engine_run(t->f.engine, &next, &t->f.err), ERR_NONE);
	return checkpoint_run(t->f.engine, &t->f.err);
}

static void checkpoint(struct trial *t)
{
	if (checkpoint_try(t) != ERR_NONE)
		fail_msg("%s", t->f.err.text);
}

static uint64_t files_of(struct trial *t)
{
	return atomic_load(&t->f.engine->write_back.tail.files);
}

/* Every row, in order. */
static void assert_all(struct trial *t)
{
	struct table_query        q = query_p(&t->f.arena, "");
	struct table_query_result r;
	struct fixture_reader     reader;
	struct item               start;
	int                       next = 1;

	fixture_reader_begin(&reader, &t->f);
	do {
		if (reader.table->backend->query(reader.table, &t->f.arena, &q, &r, &t->f.err) != ERR_NONE)
			fail_msg("%s", t->f.err.text);
		for (uint32_t i = 0; i < r.count; i++)
			assert_int_equal(number_in(&r.items[i]), next++);
		start = r.last_key;
		q.start = &start;
	} while (r.more);
	assert_int_equal(next, t->end);
	fixture_reader_end(&reader);
	assert_verified(&t->f);
	arena_reset(&t->f.arena);
}

/* Its next checkpoint makes a file of FILE_ROWS. */
static void open_trial(struct trial *t)
{
	*t = (struct trial){.end = 1};
	fixture_open(&t->f);
	engine_close(t->f.engine);
	log_set_level((enum log_level)(LOG_ERROR + 1)); /* failures are no news here */
	t->f.options.on_failure = note_failure;
	t->f.options.failure_ctx = t;
	fixture_start(&t->f);
	t->f.engine->write_back.tail.file_bytes_min = 1;
	fixture_ok(&t->f, "CreateTable", TABLE_BY_N);
	engine_build_filter(t->f.engine);
	append(t, LOG_ROWS);
	checkpoint(t); /* from here on it is a log */
	append(t, FILE_ROWS);
}

/* ---- the list of files ---- */

/* From then on nobody knows which files the list on the disk names: none is deleted, none is added, and the process is to start again (W3). */
static void assert_stopped(struct trial *t)
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
	static struct trial t;

	open_trial(&t);
	fail_some(call, "/store/MANIFEST-", from, to);
	if (checkpoint_try(&t) == ERR_NONE && !has_failed()) {
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
	assert_all(&t);
	append(&t, LOG_ROWS);
	checkpoint(&t);
	fixture_restart(&t.f);
	assert_all(&t);
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
	static struct trial t;

	open_trial(&t);
	fixture_die(&t.f);
	fail_next(CALL_SYNC, "/store/MANIFEST-");
	assert_int_equal(engine_open(&t.f.engine, &t.f.options, &t.f.err), ERR_STORAGE);
	assert_non_null(strstr(t.f.err.text, "MANIFEST"));
	fixture_start(&t.f);
	assert_all(&t);
	fixture_close(&t.f);
}

/* ---- the file of a log ---- */

/* RocksDB links the file, and then removes the name that it was written under. If that name stays, what is written under it next must be another file. */
TEST(failing_disk, a_log_s_file_whose_first_name_could_not_be_removed_is_not_written_over)
{
	static struct trial t;

	open_trial(&t);
	fail_next(CALL_UNLINK, "/store/log.run");
	checkpoint(&t);
	assert_true(has_failed());
	assert_int_equal(files_of(&t), 1);
	append(&t, FILE_ROWS);
	checkpoint(&t);
	assert_int_equal(files_of(&t), 2);
	assert_all(&t);
	fixture_restart(&t.f);
	assert_all(&t);
	fixture_close(&t.f);
}

/* … and if it still cannot be removed then, rows go into the store one by one. */
TEST(failing_disk, a_log_s_rows_find_their_way_while_an_old_name_cannot_be_removed)
{
	static struct trial t;

	open_trial(&t);
	fail_next(CALL_UNLINK, "/store/log.run");
	checkpoint(&t);
	append(&t, FILE_ROWS);
	fail_next(CALL_UNLINK, "/store/log.run");
	checkpoint(&t);
	assert_true(has_failed());
	assert_all(&t);
	fixture_restart(&t.f);
	assert_all(&t);
	fixture_close(&t.f);
}
