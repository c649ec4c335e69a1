/* The spool, while records come late: in the middle of a flush, or while the file is written anew. Whether that goes well or not, none is said to be durable that is
 * not, and none is lost that was. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "service/spool_world.h"

#include <dlfcn.h>

/* ---- the disk: in front of the library's own calls ---- */

static struct {
	struct world *world;
	const char   *text;   /* the record that comes when a file is next flushed; NULL: none does */
	uint64_t      number; /* that it got */
} late;

static void come_late(void)
{
	const char *text = late.text;

	late.text = NULL;
	if (text != NULL)
		assert_int_equal(spool_append(late.world->spool, &(struct spool_record){1, bytes_of(text)},
		                              &late.number, &late.world->err),
		                 ERR_NONE);
}

static int flush_really(const char *call, int fd)
{
	return ((int (*)(int))(uintptr_t)dlsym(RTLD_NEXT, call))(fd);
}

int fdatasync(int fd)
{
	come_late();
	return flush_really("fdatasync", fd);
}

int fsync(int fd)
{
	come_late();
	return flush_really("fsync", fd);
}

/* ---- the tests ---- */

enum { BYTES_MAX = 1000, RECORDS_MAX = 10 };

static void open_with_a(struct world *w)
{
	world_open(w, BYTES_MAX, RECORDS_MAX);
	assert_int_equal(add(w, 1, "a"), ERR_NONE);
	late.world = w;
}

/* b, and meanwhile c. */
static enum err_code add_two(struct world *w)
{
	enum err_code rc;

	late.text = "c";
	rc = add(w, 1, "b");
	assert_null(late.text);
	return rc;
}

static void assert_kept(struct world *w, const char *expected)
{
	assert_int_equal(reopen(w, BYTES_MAX, RECORDS_MAX), ERR_NONE);
	if (!bytes_is(drain(w), expected))
		fail_msg("not %s", expected);
	world_close(w);
}

TEST(spool_late, a_record_that_came_during_a_flush_is_durable_after_the_next_one)
{
	struct world w;

	open_with_a(&w);
	assert_int_equal(add_two(&w), ERR_NONE);
	take(&w, "a");
	assert_int_equal(spool_sync(w.spool, late.number, &w.err), ERR_NONE);
	assert_kept(&w, "abc");
}

/* The flush that was for it: those before it are untouched, and it is cut off. */
TEST(spool_late, a_flush_that_fails_halfway_takes_along_only_what_came_late)
{
	for (int recovers = 0; recovers < 2; recovers++) {
		struct world w;

		open_with_a(&w);
		assert_int_equal(add_two(&w), ERR_NONE);
		fault_arm(FAULT_SPOOL, 0);
		assert_int_equal(spool_sync(w.spool, late.number, &w.err), ERR_STORAGE);
		assert_int_equal(spool_sync(w.spool, late.number - 1, &w.err), ERR_NONE); /* b is durable */
		fault_disarm(FAULT_SPOOL);
		if (recovers == 1)
			assert_int_equal(spool_recover(w.spool, &w.err), ERR_NONE);
		assert_int_equal(spool_sync(w.spool, late.number, &w.err), recovers ? ERR_NONE : ERR_STORAGE);
		assert_kept(&w, recovers == 1 ? "abc" : "ab");
	}
}

/* The flush during which it came: it was not part of that, and is not known to be durable either. Nothing is written behind the torn frame. */
TEST(spool_late, a_record_that_came_during_a_flush_that_failed_is_as_unknown_and_not_lost)
{
	for (int recovers = 0; recovers < 2; recovers++) {
		struct world w;

		open_with_a(&w);
		fault_arm(FAULT_SPOOL, 0);
		assert_int_equal(add_two(&w), ERR_STORAGE);
		fault_disarm(FAULT_SPOOL);
		assert_int_equal(spool_sync(w.spool, late.number, &w.err), ERR_STORAGE);
		assert_int_equal(spool_trim(w.spool, &w.err), ERR_STORAGE);
		if (recovers == 1)
			assert_int_equal(spool_recover(w.spool, &w.err), ERR_NONE);
		assert_int_equal(spool_sync(w.spool, late.number, &w.err), recovers ? ERR_NONE : ERR_STORAGE);
		assert_kept(&w, recovers == 1 ? "abc" : "a");
	}
}

/* It is not in the file that was written anew, and must not be said to be. */
TEST(spool_late, a_record_that_came_while_the_file_was_written_anew_has_a_flush_of_its_own)
{
	for (int synced = 0; synced < 2; synced++) {
		struct world w;

		open_with_a(&w);
		fault_arm(FAULT_SPOOL, 0);
		assert_int_equal(add(&w, 1, "b"), ERR_STORAGE);
		fault_disarm(FAULT_SPOOL);
		late.text = "c";
		assert_int_equal(spool_recover(w.spool, &w.err), ERR_NONE);
		assert_null(late.text);
		if (synced == 1)
			assert_int_equal(spool_sync(w.spool, late.number, &w.err), ERR_NONE);
		assert_kept(&w, synced == 1 ? "abc" : "ab");
	}
}

/* And if that flush fails halfway, all are written anew once more. */
TEST(spool_late, a_second_failure_after_the_file_was_written_anew_loses_nothing)
{
	struct world w;

	open_with_a(&w);
	fault_arm(FAULT_SPOOL, 0);
	assert_int_equal(add(&w, 1, "b"), ERR_STORAGE);
	fault_disarm(FAULT_SPOOL);
	late.text = "c";
	assert_int_equal(spool_recover(w.spool, &w.err), ERR_NONE);
	fault_arm(FAULT_SPOOL, 0);
	assert_int_equal(spool_sync(w.spool, late.number, &w.err), ERR_STORAGE);
	fault_disarm(FAULT_SPOOL);
	late.text = "d";
	assert_int_equal(spool_recover(w.spool, &w.err), ERR_NONE);
	assert_int_equal(spool_sync_all(w.spool, &w.err), ERR_NONE);
	assert_kept(&w, "abcd");
}
