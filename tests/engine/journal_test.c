/* Journal: what was appended is read back in order from the files, whatever a crash left of the last one; what is
 * missing or damaged is refused, and the file named. */
#define _GNU_SOURCE
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/log.h"
#include "engine/aio.h"
#include "engine/journal.h"
#include "random.h"

enum {
	DAY_US = 1000,
	SEGMENT_BYTES = 64 << 10,
	FIRST_FILL_BYTES = 64 << 10,
	TINY_DISK_BYTES = 512 << 10,
	PHYSICAL_BYTES = 4096,
	RECORD_HEAD_BYTES = 32
};

struct desk {
	char                   dir[64], journal[96];
	struct journal        *open;
	struct journal_site    site; /* sealed from the first start on */
	struct journal_options options;
	struct buf             bodies; /* that were read, each with a newline */
	uint64_t               next;   /* number of the record to be read */
	struct arena           arena;
	struct err             err;
};

static void desk_open(struct desk *d)
{
	*d = (struct desk){.dir = "/tmp/gatehouse-test-XXXXXX", .options = {SEGMENT_BYTES, SECTOR_BYTES}};
	assert_non_null(mkdtemp(d->dir));
	snprintf(d->journal, sizeof(d->journal), "%s/journal", d->dir);
	d->site = (struct journal_site){.dir = d->journal, .id = "directory 0001"};
	log_set_level(LOG_ERROR);
	arena_init(&d->arena);
	buf_init(&d->bodies, &d->arena);
}

static void desk_close(struct desk *d)
{
	char command[128];

	if (d->open != NULL)
		journal_close(d->open);
	arena_release(&d->arena);
	snprintf(command, sizeof(command), "rm -rf %s", d->dir);
	assert_int_equal(system(command), 0);
}

static enum err_code take(void *ctx, const struct record *r, struct err *err)
{
	struct desk *d = ctx;

	(void)err;
	assert_int_equal(r->number, d->next++);
	assert_int_equal(r->time_us, (int64_t)r->number * DAY_US);
	buf_add_bytes(&d->bodies, r->body);
	buf_add_byte(&d->bodies, '\n');
	return ERR_NONE;
}

static enum err_code try_read(struct desk *d, struct journal_place from, struct journal_place *end)
{
	struct journal_reader reader = {.ctx = d, .each = take};

	buf_reset(&d->bodies);
	d->next = from.segment == 0 ? 1 : from.record;
	return journal_read(&d->site, &from, &reader, end, &d->err);
}

static struct journal_place read_from(struct desk *d, struct journal_place from, const char *bodies)
{
	struct journal_place end;

	if (try_read(d, from, &end) != ERR_NONE)
		fail_msg("%s", d->err.text);
	assert_int_equal(end.record, d->next);
	assert_bytes(buf_bytes(&d->bodies), bodies);
	return end;
}

static const struct journal_place beginning = {0};

/* As a process that begins: reads, and goes on where that ended. */
static void start_from(struct desk *d, struct journal_place from, const char *bodies)
{
	struct journal_place end = read_from(d, from, bodies);

	if (journal_open(&d->open, &d->site, &end, &d->options, &d->err) != ERR_NONE)
		fail_msg("%s", d->err.text);
	d->site.sealed = true;
}

static void start(struct desk *d, const char *bodies)
{
	start_from(d, beginning, bodies);
}

static void stop(struct desk *d)
{
	journal_close(d->open);
	d->open = NULL;
}

/* Appends it as the record with this number. */
static void append_bytes(struct desk *d, int64_t number, struct bytes body)
{
	if (journal_append(d->open, number * DAY_US, body, &d->err) != ERR_NONE)
		fail_msg("%s", d->err.text);
}

static void append(struct desk *d, int64_t number, const char *body)
{
	append_bytes(d, number, bytes_of(body));
}

static void next_segment(struct desk *d)
{
	assert_int_equal(journal_next_segment(d->open, &d->err), ERR_NONE);
}

static void refuses_from(struct desk *d, struct journal_place from, const char *file, const char *why)
{
	struct journal_place end;

	assert_int_equal(try_read(d, from, &end), ERR_STORAGE);
	if (strstr(d->err.text, file) == NULL || strstr(d->err.text, why) == NULL)
		fail_msg("%s and %s are not in: %s", file, why, d->err.text);
}

static void refuses(struct desk *d, const char *file, const char *why)
{
	refuses_from(d, beginning, file, why);
}

/* ---- what happens to files ---- */

static const char *path_of_segment(struct desk *d, unsigned segment)
{
	return arena_printf(&d->arena, "%s/%08u.log", d->journal, segment).data;
}

static bool there_is(struct desk *d, unsigned segment)
{
	return access(path_of_segment(d, segment), F_OK) == 0;
}

static void lose(struct desk *d, unsigned segment)
{
	assert_int_equal(unlink(path_of_segment(d, segment)), 0);
}

static off_t size_of(struct desk *d, unsigned segment)
{
	struct stat st;

	assert_int_equal(stat(path_of_segment(d, segment), &st), 0);
	return st.st_size;
}

static void cut(struct desk *d, unsigned segment, off_t size)
{
	assert_int_equal(truncate(path_of_segment(d, segment), size), 0);
}

static void overwrite(struct desk *d, unsigned segment, off_t at, const void *data, size_t len)
{
	int fd = open(path_of_segment(d, segment), O_WRONLY);

	assert_int_equal(pwrite(fd, data, len, at), len);
	close(fd);
}

static void forget_sector(struct desk *d, unsigned segment, unsigned sector)
{
	static const char zeros[SECTOR_BYTES];

	overwrite(d, segment, (off_t)sector * SECTOR_BYTES, zeros, sizeof(zeros));
}

static struct bytes large(struct desk *d, size_t len, uint64_t seed)
{
	struct random random = {seed};
	char         *data = arena_alloc(&d->arena, len);

	for (size_t i = 0; i < len; i++)
		data[i] = (char)('a' + random_below(&random, 26));
	return (struct bytes){data, len};
}

/* Does the directory's file system do what aio.h needs? */
static bool is_for_aio(struct desk *d)
{
	int  fd = open(path_of_segment(d, 1), O_RDONLY | O_DIRECT);
	bool is = fd >= 0 && aio_is_for(fd);

	if (fd >= 0)
		close(fd);
	return is;
}

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

/* The length of a body that fills so many sectors. */
static size_t body_filling(size_t sectors)
{
	return sectors * SECTOR_DATA_BYTES - RECORD_HEAD_BYTES;
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

/* ---- loss of what was acknowledged last ---- */

TEST(journal, a_segment_that_was_cut_to_any_length_is_refused)
{
	struct desk d;
	off_t       size;

	desk_open(&d);
	start(&d, "");
	append(&d, 1, "one");
	next_segment(&d);
	append(&d, 2, "two");
	append_bytes(&d, 3, large(&d, 100 << 10, 1)); /* more zeros were needed for it */
	append(&d, 4, "four");
	stop(&d);
	size = size_of(&d, 2);
	for (off_t at = size - 1; at >= 0; at -= at % SECTOR_BYTES == 0     ? 1
	                                         : at % SECTOR_BYTES == 511 ? 255
	                                                                    : 256) {
		cut(&d, 2, at);
		refuses(&d, "00000002.log",
		        at % SECTOR_BYTES != 0 ? ""
		        : at == 0              ? "is damaged at byte 0"
		                               : "was cut short");
	}
	desk_close(&d);
}

TEST(journal, the_zeros_behind_the_last_record_are_there_also_where_it_ends_with_them)
{
	struct desk d;

	desk_open(&d);
	start(&d, "");
	append_bytes(&d, 1,
	             large(&d, body_filling(FIRST_FILL_BYTES / SECTOR_BYTES), 1)); /* all that was filled */
	stop(&d);
	assert_true(size_of(&d, 1) >= 2 * SECTOR_BYTES + FIRST_FILL_BYTES);
	cut(&d, 1, SECTOR_BYTES + FIRST_FILL_BYTES);
	refuses(&d, "00000001.log", "was cut short");
	desk_close(&d);
}

TEST(journal, a_newest_segment_that_is_missing_is_refused)
{
	struct desk d;

	desk_open(&d);
	start(&d, "");
	append(&d, 1, "one");
	next_segment(&d);
	append(&d, 2, "two");
	stop(&d);
	lose(&d, 2);
	refuses(&d, d.journal, "the segment 2 of the journal is missing");
	desk_close(&d);
}

TEST(journal, what_names_the_newest_segment_must_be_there_and_every_bit_of_it_as_it_was_written)
{
	struct desk d;
	char        path[128];
	uint8_t     sector[SECTOR_BYTES];
	int         fd;

	desk_open(&d);
	start(&d, "");
	append(&d, 1, "one");
	stop(&d);
	snprintf(path, sizeof(path), "%s/newest", d.journal);
	fd = open(path, O_RDWR);
	assert_int_equal(pread(fd, sector, sizeof(sector), 0), sizeof(sector));
	for (size_t bit = 0; bit < 8 * sizeof(sector); bit++) {
		uint8_t byte = (uint8_t)(sector[bit / 8] ^ 1u << bit % 8);

		assert_int_equal(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
		refuses(&d, "newest", "");
		assert_int_equal(pwrite(fd, &sector[bit / 8], 1, (off_t)(bit / 8)), 1);
	}
	read_from(&d, beginning, "one\n");
	assert_int_equal(ftruncate(fd, 100), 0);
	refuses(&d, "newest", "is damaged");
	close(fd);
	assert_int_equal(unlink(path), 0);
	refuses(&d, "newest", "is missing");
	desk_close(&d);
}

TEST(journal, a_segment_of_another_directory_is_refused)
{
	struct desk d;

	desk_open(&d);
	start(&d, "");
	append(&d, 1, "one");
	stop(&d);
	d.site.id[0]++;
	refuses(&d, "00000001.log", "belongs to another data directory");
	desk_close(&d);
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

/* ---- segments that are missing, left over, or not what they should be ---- */

/* Three segments of a record each, and nothing open. */
static void fill_three(struct desk *d)
{
	desk_open(d);
	start(d, "");
	append(d, 1, "one");
	next_segment(d);
	append(d, 2, "two");
	next_segment(d);
	append(d, 3, "three");
	stop(d);
}

TEST(journal, a_first_or_middle_segment_that_is_missing_is_refused)
{
	struct desk d;

	fill_three(&d);
	refuses_from(&d, (struct journal_place){4, 4, 0}, d.journal,
	             "the segment 4 of the journal is missing");
	lose(&d, 2);
	refuses(&d, d.journal, "the segment 2 of the journal is missing");
	lose(&d, 1);
	refuses(&d, d.journal, "the segment 1 of the journal is missing");
	refuses_from(&d, (struct journal_place){2, 2, 0}, d.journal,
	             "the segment 2 of the journal is missing");
	read_from(&d, (struct journal_place){3, 3, 0}, "three\n");
	desk_close(&d);
}

TEST(journal, what_lies_before_the_place_is_not_looked_at_and_then_removed)
{
	struct desk d;

	fill_three(&d);
	overwrite(&d, 1, 0, "rubbish", 7);
	lose(&d, 2);
	start_from(&d, (struct journal_place){3, 3, 0}, "three\n");
	journal_drop_before(d.open, 3);
	assert_false(there_is(&d, 1));
	assert_true(there_is(&d, 3));
	assert_true(there_is(&d, 4));
	append(&d, 4, "four");
	stop(&d);
	read_from(&d, (struct journal_place){3, 3, 0}, "three\nfour\n");
	desk_close(&d);
}

TEST(journal, a_gap_in_the_numbers_of_records_is_refused)
{
	struct desk d;
	int         i;

	fill_three(&d);
	for (i = 1; i < (int)(size_of(&d, 2) / SECTOR_BYTES); i++)
		forget_sector(&d, 2,
		              (unsigned)i); /* its record, as if it had been torn: but the next one follows */
	refuses(&d, "00000003.log", "begins with commit 3 instead of 2");
	forget_sector(&d, 2, 0);
	refuses(&d, "00000002.log", "is damaged at byte 0");
	d.site.sealed = false;
	refuses(&d, "00000003.log", "begins with commit 3 instead of 2");
	cut(&d, 2, 0);
	refuses(&d, "00000003.log", "begins with commit 3 instead of 2");
	desk_close(&d);
}

TEST(journal, a_place_that_does_not_fit_the_segment_is_refused)
{
	struct desk d;

	fill_three(&d);
	refuses_from(&d, (struct journal_place){2, 3, 0}, "00000002.log", "begins with commit 2");
	desk_close(&d);
}

TEST(journal, a_segment_under_anothers_name_is_refused)
{
	struct desk d;

	fill_three(&d);
	assert_int_equal(rename(path_of_segment(&d, 3), path_of_segment(&d, 2)), 0);
	refuses(&d, "00000002.log", "is damaged at byte 0");
	desk_close(&d);
}

TEST(journal, damage_is_named_with_its_file_and_byte)
{
	struct desk d;

	desk_open(&d);
	start(&d, "");
	append(&d, 1, "one");
	next_segment(&d);
	append_bytes(&d, 2, large(&d, 2000, 1)); /* sectors 1 to 4 */
	append(&d, 3, "three");
	append(&d, 4, "four");
	stop(&d);
	overwrite(&d, 2, 6 * SECTOR_BYTES + 40, "?", 1);
	refuses(&d, "/00000002.log is damaged at byte 3072", "and after it cannot be read");
	assert_int_equal(d.next, 4);
	overwrite(&d, 2, 2 * SECTOR_BYTES, "?", 1);
	refuses(&d, "/00000002.log is damaged at byte 512", "");
	assert_int_equal(d.next, 2);
	overwrite(&d, 1, 3, "?", 1);
	refuses(&d, "/00000001.log is damaged at byte 0", "");
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
