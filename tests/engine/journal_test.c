/* The journal's files (journal.h): what was appended is read back, also after a crash, on disks with large sectors and on file systems that do not go
 * along. What is missing or damaged is in journal_damage_test.c. */
#define _GNU_SOURCE
#include "engine/journal_desk.h"

#include <errno.h>
#include <sys/mount.h>

#include "base/fault.h"

/* ---- reading back ---- */

TEST(journal, a_directory_that_is_not_there_is_an_empty_journal)
{
	struct desk d;

	desk_open(&d);
	start(&d, "");
	append(&d, 1, "one");
	stop(&d);
	read_from(&d, beginning, "one\n");
	desk_close(&d);
}

TEST(journal, what_was_appended_is_read_back_across_segments_and_openings)
{
	struct desk          d;
	struct journal_place end;

	desk_open(&d);
	start(&d, "");
	append(&d, 1, "one");
	append(&d, 2, "two");
	next_segment(&d);
	append(&d, 3, "three");
	stop(&d);
	start(&d, "one\ntwo\nthree\n");
	append(&d, 4, "four");
	stop(&d);
	end = read_from(&d, beginning, "one\ntwo\nthree\nfour\n");
	assert_int_equal(end.segment, 4);
	assert_int_equal(end.record, 5);
	assert_int_equal(end.time_us, 4 * DAY_US);
	desk_close(&d);
}

static enum err_code refuse(void *ctx, const struct record *r, struct err *err)
{
	(void)ctx;
	return r->number < 2 ? ERR_NONE : err_set(err, ERR_STORAGE, "not this one");
}

TEST(journal, a_reader_that_fails_ends_the_reading_with_its_error)
{
	struct journal_reader reader = {.each = refuse};
	struct journal_place  end;
	struct desk           d;

	desk_open(&d);
	start(&d, "");
	for (int i = 1; i <= 3; i++)
		append(&d, i, "body");
	assert_int_equal(journal_read(&d.site, &beginning, &reader, &end, &d.err), ERR_STORAGE);
	assert_string_equal(d.err.text, "not this one");
	desk_close(&d);
}

TEST(journal, an_empty_segment_is_used_anew_however_often_nothing_is_written)
{
	struct desk d;

	desk_open(&d);
	for (int i = 0; i < 3; i++) {
		start(&d, "");
		next_segment(&d); /* there is one already */
		stop(&d);
	}
	assert_true(there_is(&d, 1));
	assert_false(there_is(&d, 2));
	start(&d, "");
	append(&d, 1, "one");
	stop(&d);
	for (int i = 0; i < 3; i++) {
		start(&d, "one\n");
		stop(&d);
	}
	assert_true(there_is(&d, 2));
	assert_false(there_is(&d, 3));
	desk_close(&d);
}

TEST(journal, a_segment_is_long_once_it_has_its_size)
{
	struct desk d;

	desk_open(&d);
	start(&d, "");
	append_bytes(&d, 1, large(&d, body_filling(SEGMENT_BYTES / SECTOR_BYTES - 2), 1));
	assert_false(journal_is_long(d.open));
	append(&d, 2, "two");
	assert_true(journal_is_long(d.open));
	next_segment(&d);
	assert_false(journal_is_long(d.open));
	assert_int_equal(journal_newest(d.open).segment, 2);
	assert_int_equal(journal_newest(d.open).record, 3);
	assert_int_equal(journal_newest(d.open).time_us, 2 * DAY_US);
	desk_close(&d);
}

TEST(journal, records_larger_than_what_is_filled_ahead_are_read_back_and_zeros_follow_them)
{
	const size_t sizes[] = {
	        10,     FIRST_FILL_BYTES - 5000, 3000, 3000, 70 << 10, 300 << 10, 3 << 20, 2 << 20, 1, 5000,
	        1 << 20};
	const int   count = sizeof(sizes) / sizeof(*sizes);
	struct desk d;
	struct buf  expected;
	int         fd;
	char        last[4 * SECTOR_BYTES] = {1};

	desk_open(&d);
	buf_init(&expected, &d.arena);
	start(&d, "");
	for (int i = 0; i < count; i++) {
		struct bytes body = large(&d, sizes[i], (uint64_t)i);

		append_bytes(&d, i + 1, body);
		buf_add_bytes(&expected, body);
		buf_add_byte(&expected, '\n');
	}
	stop(&d);
	buf_add_byte(&expected, 0);
	read_from(&d, beginning, expected.data);
	assert_int_equal(size_of(&d, 1) % SECTOR_BYTES, 0);
	fd = open(path_of_segment(&d, 1), O_RDONLY);
	assert_int_equal(pread(fd, last, sizeof(last), size_of(&d, 1) - (off_t)sizeof(last)), sizeof(last));
	close(fd);
	for (size_t i = 0; i < sizeof(last); i++)
		assert_int_equal(last[i], 0);
	desk_close(&d);
}

enum { LARGE_BYTES = 20000 }; /* a commit that is written and flushed at once, where that can be done */

/* On other file systems than those of aio.h this only shows that nothing is broken. */
TEST(journal, a_large_commit_of_which_a_part_was_written_is_written_whole)
{
	struct desk  d;
	struct bytes body;
	struct buf   expected;

	desk_open(&d);
	body = large(&d, LARGE_BYTES, 1);
	start(&d, "");
	append(&d, 1, "one");
	fault_arm(FAULT_AIO_SHORT, 0);
	append_bytes(&d, 2, body);
	fault_disarm(FAULT_AIO_SHORT);
	stop(&d);
	buf_init(&expected, &d.arena);
	buf_add_bytes(&expected, BYTES("one\n"));
	buf_add_bytes(&expected, body);
	buf_add(&expected, "\n", 2);
	read_from(&d, beginning, expected.data);
	desk_close(&d);
}

TEST(journal, a_large_commit_that_fails_is_not_acknowledged)
{
	struct desk  d;
	bool         at_once;
	struct bytes body;

	desk_open(&d);
	body = large(&d, LARGE_BYTES, 1);
	start(&d, "");
	at_once = is_for_aio(&d);
	fault_arm(FAULT_AIO_FAILS, 0);
	assert_int_equal(journal_append(d.open, DAY_US, body, &d.err), at_once ? ERR_STORAGE : ERR_NONE);
	fault_disarm(FAULT_AIO_FAILS);
	if (at_once)
		assert_string_equal(d.err.text, "write the journal: Input/output error");
	desk_close(&d);
}

TEST(journal, a_commit_that_could_not_be_read_back_is_refused)
{
	struct desk  d;
	struct bytes body = {"", (size_t)RECORD_BODY_BYTES_MAX + 1}; /* it is not looked at */

	desk_open(&d);
	start(&d, "");
	assert_int_equal(journal_append(d.open, DAY_US, body, &d.err), ERR_STORAGE);
	append(&d, 1, "one");
	stop(&d);
	read_from(&d, beginning, "one\n");
	desk_close(&d);
}

/* ---- crashes ---- */

TEST(journal, a_torn_end_is_passed_over_and_another_crash_later_too)
{
	struct desk d;

	desk_open(&d);
	start(&d, "");
	append(&d, 1, "one");
	append_bytes(&d, 2, large(&d, 2000, 1));
	stop(&d);
	forget_sector(&d, 1, 3);
	start(&d, "one\n"); /* the first crash */
	append(&d, 2, "two");
	append_bytes(&d, 3, large(&d, 2000, 2));
	stop(&d);
	forget_sector(&d, 2, 2); /* the first of record 3 */
	start(&d, "one\ntwo\n"); /* and the second */
	stop(&d);
	start(&d, "one\ntwo\n"); /* at once a third */
	append(&d, 3, "three");
	stop(&d);
	read_from(&d, beginning, "one\ntwo\nthree\n");
	desk_close(&d);
}

TEST(journal, the_first_record_of_a_segment_that_is_torn_leaves_it_empty)
{
	struct desk d;

	desk_open(&d);
	start(&d, "");
	append(&d, 1, "one");
	next_segment(&d);
	append_bytes(&d, 2, large(&d, 4 * FIRST_FILL_BYTES, 1)); /* and nothing of it stays */
	stop(&d);
	forget_sector(&d, 2, 2);
	start(&d, "one\n");
	append(&d, 2, "two");
	stop(&d);
	read_from(&d, beginning, "one\ntwo\n");
	assert_false(there_is(&d, 3));
	desk_close(&d);
}

/* What a crash can leave of a segment that was being made: it has no name yet. */
TEST(journal, a_segment_whose_making_was_cut_short_is_made_anew)
{
	const off_t sizes[] = {0, 100, SECTOR_BYTES, 8 * SECTOR_BYTES, FIRST_FILL_BYTES};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct desk d;
		char        aside[128];

		desk_open(&d);
		start(&d, "");
		append(&d, 1, "one");
		stop(&d);
		snprintf(aside, sizeof(aside), "%s/00000002.new", d.journal);
		close(open(aside, O_WRONLY | O_CREAT, 0600));
		assert_int_equal(truncate(aside, sizes[i]), 0);
		start(&d, "one\n");
		append(&d, 2, "two");
		stop(&d);
		read_from(&d, beginning, "one\ntwo\n");
		assert_int_not_equal(access(aside, F_OK), 0);
		desk_close(&d);
	}
}

/* The crash came after it got its name, and before it was written down as the newest. */
TEST(journal, a_segment_that_is_not_written_down_yet_is_used_anew)
{
	struct desk d;
	char        newest[128], before[128];

	desk_open(&d);
	start(&d, "");
	append(&d, 1, "one");
	snprintf(newest, sizeof(newest), "%s/newest", d.journal);
	snprintf(before, sizeof(before), "%s/before", d.journal);
	assert_int_equal(link(newest, before), 0);
	next_segment(&d);
	stop(&d);
	assert_int_equal(rename(before, newest), 0);
	start(&d, "one\n");
	append(&d, 2, "two");
	stop(&d);
	read_from(&d, beginning, "one\ntwo\n");
	desk_close(&d);
}

/* Format 3 named a segment before it was whole. */
TEST(journal, before_seals_a_segment_of_zeros_was_made_and_never_written)
{
	const off_t sizes[] = {0, SECTOR_BYTES, 8 * SECTOR_BYTES, FIRST_FILL_BYTES};

	for (int i = 0; i < 4; i++) {
		struct desk d;

		desk_open(&d);
		start(&d, "");
		append(&d, 1, "one");
		next_segment(&d);
		stop(&d);
		cut(&d, 2, 0);
		cut(&d, 2, sizes[i]);
		refuses(&d, "00000002.log", "is damaged at byte 0");
		d.site.sealed = false;
		start(&d, "one\n");
		append(&d, 2, "two");
		stop(&d);
		read_from(&d, beginning, "one\ntwo\n");
		desk_close(&d);
	}
}

/* ---- (J5) disks whose sectors are larger than they say ---- */

/* A physical sector as a power failure may leave it: nothing of what it held. */
static void lose_unit(struct desk *d, unsigned segment, off_t unit)
{
	static const char zeros[PHYSICAL_BYTES];

	overwrite(d, segment, unit * PHYSICAL_BYTES, zeros, sizeof(zeros));
}

TEST(journal, a_commit_rewrites_no_physical_sector_that_holds_an_acknowledged_one)
{
	struct desk d;

	desk_open(&d);
	d.options.unit_bytes = PHYSICAL_BYTES;
	start(&d, "");
	append(&d, 1, "one");
	append(&d, 2, "two");
	append_bytes(&d, 3, large(&d, PHYSICAL_BYTES, 1)); /* of two */
	append(&d, 4, "four");
	stop(&d);
	lose_unit(&d, 1, 5); /* the head is in the first, the commits follow */
	assert_int_equal(read_from(&d, beginning,
	                           arena_printf(&d.arena, "one\ntwo\n%.*s\n", PHYSICAL_BYTES,
	                                        large(&d, PHYSICAL_BYTES, 1).data)
	                                   .data)
	                         .record,
	                 4);
	lose_unit(&d, 1, 4);
	lose_unit(&d, 1, 3);
	read_from(&d, beginning, "one\ntwo\n");
	lose_unit(&d, 1, 2);
	read_from(&d, beginning, "one\n");
	lose_unit(&d, 1, 1);
	read_from(&d, beginning, "");
	desk_close(&d);
}

TEST(journal, what_fills_a_physical_sector_is_zeros_and_anything_else_is_damage)
{
	struct desk d;

	desk_open(&d);
	d.options.unit_bytes = PHYSICAL_BYTES;
	start(&d, "");
	append(&d, 1, "one");
	append(&d, 2, "two");
	stop(&d);
	for (off_t at = SECTOR_BYTES; at < 3 * PHYSICAL_BYTES; at += 7) {
		if (at % PHYSICAL_BYTES < SECTOR_BYTES)
			continue;
		overwrite(&d, 1, at, "?", 1);
		refuses(&d, "00000001.log is damaged", "");
		overwrite(&d, 1, at, "", 1);
	}
	read_from(&d, beginning, "one\ntwo\n");
	desk_close(&d);
}

TEST(journal, segments_of_different_units_follow_one_another)
{
	const size_t units[] = {SECTOR_BYTES, PHYSICAL_BYTES, UNIT_BYTES_MAX, SECTOR_BYTES};
	const char  *bodies[] = {"", "1\n", "1\n2\n", "1\n2\n3\n", "1\n2\n3\n4\n"};
	struct desk  d;

	desk_open(&d);
	for (int i = 0; i < 4; i++) {
		d.options.unit_bytes = units[i];
		start(&d, bodies[i]);
		append(&d, i + 1, arena_printf(&d.arena, "%d", i + 1).data);
		stop(&d);
	}
	read_from(&d, beginning, bodies[4]);
	desk_close(&d);
}

TEST(journal, the_disk_says_how_large_its_sectors_are)
{
	struct desk d;
	char        head[SECTOR_BYTES], text[SECTOR_BYTES] = "";
	int         fd;
	off_t       unit = SECTOR_BYTES;

	desk_open(&d);
	d.options.unit_bytes = 0;
	start(&d, "");
	append(&d, 1, "one");
	stop(&d);
	fd = open(path_of_segment(&d, 1), O_RDONLY);
	assert_int_equal(pread(fd, head, sizeof(head), 0), sizeof(head));
	while (memcmp(text, "\0\0\0", 3) == 0 && unit <= UNIT_BYTES_MAX) {
		assert_int_equal(pread(fd, text, sizeof(text), unit), sizeof(text));
		unit *= 2;
	}
	close(fd);
	assert_true(unit_is_valid((uint64_t)unit / 2)); /* where the first commit lies */
	read_from(&d, beginning, "one\n");
	desk_close(&d);
}

/* ---- a file system that does not go along ---- */

TEST(journal, a_directory_that_cannot_be_read_is_not_taken_for_an_empty_journal)
{
	struct desk d;
	int         fd;

	desk_open(&d);
	fd = open(d.journal, O_WRONLY | O_CREAT, 0600); /* a file: opendir fails, for root too */
	close(fd);
	refuses(&d, d.journal, "Not a directory");
	desk_close(&d);
}

TEST(journal, a_segment_that_cannot_be_read_or_made_is_refused)
{
	struct journal_place end = {2, 2, 0};
	struct desk          d;

	fill_three(&d);
	lose(&d, 2);
	assert_int_equal(mkdir(path_of_segment(&d, 2), 0700), 0);
	refuses(&d, "00000002.log", "Is a directory");
	assert_int_equal(journal_open(&d.open, &d.site, &end, &d.options, &d.err), ERR_STORAGE);
	assert_non_null(strstr(d.err.text, "00000002.log"));
	snprintf(d.journal, sizeof(d.journal), "%s/none/journal", d.dir);
	assert_int_equal(journal_open(&d.open, &d.site, &end, &d.options, &d.err), ERR_STORAGE);
	desk_close(&d);
}

/* A disk of half a megabyte; false if this user may not have one. */
static bool mount_tiny(struct desk *d)
{
	char options[32];

	snprintf(options, sizeof(options), "size=%d", TINY_DISK_BYTES);
	return mount("tmpfs", d->dir, "tmpfs", 0, options) == 0;
}

/* What room is left, is taken by others. */
static void use_up(struct desk *d)
{
	static char zeros[4096];
	int fd = open(arena_printf(&d->arena, "%s/other", d->dir).data, O_WRONLY | O_CREAT | O_APPEND, 0600);

	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	assert_int_equal(errno, ENOSPC);
	close(fd);
}

TEST(journal, a_full_disk_takes_nothing_of_a_commit_and_what_was_appended_before_is_read_back)
{
	struct desk          d;
	struct journal_place end;
	int64_t              number = 1;

	desk_open(&d);
	if (!mount_tiny(&d)) {
		print_message("skipped: mounting a small disk: %s\n", strerror(errno));
		desk_close(&d);
		skip();
	}
	start(&d, "");
	while (journal_append(d.open, number * DAY_US, large(&d, 20000, (uint64_t)number), &d.err) ==
	       ERR_NONE)
		number++;
	assert_int_equal(d.err.code, ERR_DISK_FULL);
	assert_non_null(strstr(d.err.text, "No space left"));
	assert_true(number > 5 && number < 30);
	use_up(&d);
	assert_int_equal(journal_next_segment(d.open, &d.err), ERR_DISK_FULL);
	assert_int_equal(journal_append(d.open, number * DAY_US, large(&d, 200000, 1), &d.err),
	                 ERR_DISK_FULL);
	append(&d, number++, "small"); /* the segment was filled ahead, and is still written to */
	stop(&d);
	assert_int_equal(try_read(&d, beginning, &end), ERR_NONE);
	assert_int_equal(end.record, number);
	assert_int_equal(journal_open(&d.open, &d.site, &end, &d.options, &d.err), ERR_DISK_FULL);
	assert_null(d.open);
	assert_int_equal(try_read(&d, beginning, &end), ERR_NONE); /* what that left is no damage */
	assert_int_equal(umount(d.dir), 0);
	desk_close(&d);
}
