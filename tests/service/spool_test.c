/* The spool: durable, bounded, in order; a torn end is cut off, damage is named. */
#include "service/spool_world.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/hash.h"

static off_t file_bytes(struct world *w)
{
	struct stat st;

	assert_int_equal(stat(path_of(w), &st), 0);
	return st.st_size;
}

static void file_cut(struct world *w, off_t bytes)
{
	assert_int_equal(truncate(path_of(w), bytes), 0);
}

static void file_flip_bit(struct world *w, off_t at, int bit)
{
	int  fd = open(path_of(w), O_RDWR);
	char byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte = (char)(byte ^ 1 << bit);
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static void file_flip(struct world *w, off_t at)
{
	file_flip_bit(w, at, 2);
}

TEST(spool, keeps_what_waits_across_a_restart_in_its_order)
{
	struct world w;
	uint64_t     a;

	world_open(&w, 1000, 10);
	assert_int_equal(add(&w, 1, "a"), ERR_NONE);
	assert_int_equal(add(&w, 2, "x"), ERR_NONE);
	assert_int_equal(add(&w, 1, "b"), ERR_NONE);
	a = take(&w, "a");
	take(&w, "x"); /* and never done */
	spool_done(w.spool, a);
	assert_int_equal(spool_trim(w.spool, &w.err), ERR_NONE);
	assert_int_equal(reopen(&w, 1000, 10), ERR_NONE);
	assert_int_equal(add(&w, 1, "c"), ERR_NONE);
	assert_true(bytes_is(drain(&w), "xbc"));
	assert_int_equal(spool_trim(w.spool, &w.err), ERR_NONE);
	assert_int_equal(reopen(&w, 1000, 10), ERR_NONE);
	assert_true(bytes_is(drain(&w), ""));
	world_close(&w);
}

/* Also if the one in between is about both, and was read from the file. */
TEST(spool, gives_out_nothing_that_has_a_line_in_common_with_something_earlier)
{
	struct world w;
	uint64_t     a, ab, b;

	world_open(&w, 1000, 10);
	assert_int_equal(add(&w, 1, "a"), ERR_NONE);
	assert_int_equal(add(&w, 1 | 2, "ab"), ERR_NONE);
	assert_int_equal(add(&w, 2, "b"), ERR_NONE);
	assert_int_equal(add(&w, 4, "c"), ERR_NONE);
	assert_int_equal(reopen(&w, 1000, 10), ERR_NONE);
	a = take(&w, "a");
	take(&w, "c");
	take(&w, "");
	spool_done(w.spool, a);
	ab = take(&w, "ab");
	take(&w, "");
	spool_done(w.spool, ab);
	b = take(&w, "b");
	spool_done(w.spool, b);
	take(&w, "");
	world_close(&w);
}

/* Its lines meant something else: as sets of bits these two would have none in common. */
TEST(spool, of_an_older_version_is_merged_one_record_after_the_other)
{
	static const char old[] = {1, 1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 'a',
	                           1, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 'b'};
	struct bytes      content = {old, sizeof(old)};
	uint64_t          sum = hash_bytes(HASH_KEY_STABLE, content), a;
	char              head[16] = {'G', 'H', 'S', 'P', sizeof(old), 0, 0, 0};
	struct world      w;
	FILE             *file;

	world_open(&w, 1000, 10);
	for (int i = 0; i < 8; i++)
		head[8 + i] = (char)(sum >> (8 * i));
	file = fopen(path_of(&w), "w");
	assert_int_equal(fwrite(head, 1, 16, file) + fwrite(old, 1, sizeof(old), file), 16 + sizeof(old));
	fclose(file);
	assert_int_equal(reopen(&w, 1000, 10), ERR_NONE);
	a = take(&w, "a");
	take(&w, "");
	spool_done(w.spool, a);
	take(&w, "b");
	world_close(&w);
}

/* (1) Whoever merges it before it is flushed, and crashes, would have merged what nobody was told of. */
TEST(spool, gives_out_nothing_that_is_not_flushed)
{
	struct world w;
	uint64_t     number;

	world_open(&w, 1000, 10);
	assert_int_equal(spool_append(w.spool, &(struct spool_record){1, BYTES("a")}, &number, &w.err),
	                 ERR_NONE);
	take(&w, "");
	assert_int_equal(spool_sync(w.spool, number, &w.err), ERR_NONE);
	take(&w, "a");
	world_close(&w);
}

/* (4) */
TEST(spool, whose_flush_failed_says_so_until_it_is_written_anew_and_then_has_lost_nothing)
{
	struct world w;
	uint64_t     a;

	world_open(&w, 1000, 10);
	assert_int_equal(add(&w, 1, "a"), ERR_NONE);
	fault_arm(FAULT_SPOOL, 0);
	assert_int_equal(add(&w, 1, "b"), ERR_STORAGE); /* its outcome is unknown */
	assert_int_equal(spool_check_room(w.spool, 1, &w.err), ERR_OVERLOADED);
	assert_non_null(strstr(w.err.text, "cannot be written (a fault of a test)"));
	assert_int_equal(add(&w, 1, "c"),
	                 ERR_STORAGE); /* it had asked before that: also unknown, and not lost */
	assert_true(spool_read(w.spool).failed);
	assert_int_equal(spool_sync_all(w.spool, &w.err), ERR_STORAGE);
	assert_int_equal(spool_recover(w.spool, &w.err), ERR_STORAGE);
	fault_disarm(FAULT_SPOOL);
	assert_int_equal(spool_check_room(w.spool, 1, &w.err), ERR_OVERLOADED);
	assert_int_equal(spool_recover(w.spool, &w.err), ERR_NONE);
	assert_false(spool_read(w.spool).failed);
	assert_int_equal(spool_sync_all(w.spool, &w.err), ERR_NONE);
	assert_int_equal(add(&w, 1, "d"), ERR_NONE);
	assert_int_equal(reopen(&w, 1000, 10), ERR_NONE);
	a = take(&w, "a");
	spool_done(w.spool, a);
	assert_true(bytes_is(drain(&w), "bcd"));
	world_close(&w);
}

/* (4) Else whoever they are about would be kept waiting by a disk that nobody needs any more. */
TEST(spool, whose_flush_failed_gives_out_what_waits)
{
	struct world w;

	world_open(&w, 1000, 10);
	fault_arm(FAULT_SPOOL, 0);
	assert_int_equal(add(&w, 1, "a"), ERR_STORAGE);
	assert_true(bytes_is(drain(&w), "a"));
	fault_disarm(FAULT_SPOOL);
	assert_int_equal(spool_recover(w.spool, &w.err), ERR_NONE);
	assert_int_equal(file_bytes(&w), 0);
	world_close(&w);
}

/* … and a crash before it is written anew finds what was flushed before. */
TEST(spool, whose_flush_failed_loses_nothing_that_was_flushed_before_it)
{
	struct world w;

	world_open(&w, 1000, 10);
	assert_int_equal(add(&w, 1, "a"), ERR_NONE);
	fault_arm(FAULT_SPOOL, 0);
	assert_int_equal(add(&w, 1, "b"), ERR_STORAGE);
	fault_disarm(FAULT_SPOOL);
	assert_int_equal(reopen(&w, 1000, 10), ERR_NONE);
	assert_true(bytes_is(drain(&w), "a"));
	world_close(&w);
}

/* (1) */
TEST(spool, forgets_a_done_that_was_not_flushed_and_nothing_else)
{
	struct world w;

	world_open(&w, 1000, 10);
	assert_int_equal(add(&w, 1, "a"), ERR_NONE);
	assert_true(bytes_is(drain(&w), "a"));
	assert_int_equal(reopen(&w, 1000, 10), ERR_NONE);
	assert_true(bytes_is(drain(&w), "a"));
	world_close(&w);
}

/* (5) The second would merge what the first has, and cut its file off below it. */
TEST(spool, belongs_to_one_process_at_a_time)
{
	struct world         w;
	struct spool_options options;
	struct spool        *second;

	world_open(&w, 100, 10);
	options = (struct spool_options){w.dir, 100, 10};
	assert_int_equal(add(&w, 1, "promised"), ERR_NONE);
	assert_int_equal(spool_open(&second, &options, &w.err), ERR_STORAGE);
	assert_null(second);
	assert_non_null(strstr(w.err.text, "is in use by another process"));
	assert_int_equal(reopen(&w, 100, 10), ERR_NONE); /* whoever ends leaves it to the next */
	assert_true(bytes_is(drain(&w), "promised"));
	world_close(&w);
}

TEST(spool, all_that_was_appended_is_found_again_once_it_is_synced)
{
	struct world w;
	uint64_t     number;

	world_open(&w, 100, 10);
	assert_int_equal(spool_sync_all(w.spool, &w.err), ERR_NONE);
	spool_append(w.spool, &(struct spool_record){1, BYTES("a")}, &number, &w.err);
	spool_append(w.spool, &(struct spool_record){1, BYTES("b")}, &number, &w.err);
	assert_int_equal(spool_sync_all(w.spool, &w.err), ERR_NONE);
	assert_int_equal(reopen(&w, 100, 10), ERR_NONE);
	assert_true(bytes_is(drain(&w), "ab"));
	world_close(&w);
}

/* (3) */
TEST(spool, takes_as_many_records_and_bytes_as_it_may_and_no_more)
{
	struct world w;

	world_open(&w, 10, 3);
	assert_int_equal(add(&w, 1, "1234567890"), ERR_NONE);
	assert_int_equal(add(&w, 1, "1"), ERR_OVERLOADED);
	assert_true(spool_check_room(w.spool, 1, &w.err) != ERR_NONE);
	drain(&w);
	for (int i = 0; i < 3; i++)
		assert_int_equal(add(&w, 1, "r"), ERR_NONE);
	assert_int_equal(add(&w, 1, "r"), ERR_OVERLOADED);
	assert_int_equal(reopen(&w, 10, 3), ERR_NONE);
	assert_int_equal(add(&w, 1, "r"), ERR_OVERLOADED);
	assert_int_equal(spool_read(w.spool).records, 3);
	world_close(&w);
}

TEST(spool, a_record_may_have_as_many_bytes_as_said_and_not_one_more)
{
	static char  long_text[SPOOL_RECORD_BYTES_MAX + 2];
	struct world w;

	memset(long_text, 'a', SPOOL_RECORD_BYTES_MAX + 1);
	world_open(&w, 1 << 20, 10);
	assert_int_equal(add(&w, 1, long_text), ERR_OVERLOADED);
	assert_int_equal(add(&w, 1, long_text + 1), ERR_NONE);
	assert_int_equal(reopen(&w, 1 << 20, 10), ERR_NONE);
	assert_int_equal(drain(&w).len, SPOOL_RECORD_BYTES_MAX);
	world_close(&w);
}

TEST(spool, file_stays_bounded_however_much_goes_through_it)
{
	struct world w;

	world_open(&w, 1000, 1000);
	assert_int_equal(add(&w, 2, "stays"), ERR_NONE);
	take(&w, "stays");
	for (int i = 0; i < 2000; i++) {
		assert_int_equal(add(&w, 1, "passes"), ERR_NONE);
		drain(&w);
		assert_int_equal(spool_trim(w.spool, &w.err), ERR_NONE);
		assert_true(file_bytes(&w) <= SPOOL_FILE_FACTOR * 1000);
	}
	assert_int_equal(reopen(&w, 1000, 1000), ERR_NONE);
	assert_true(bytes_is(drain(&w), "stays"));
	assert_int_equal(spool_trim(w.spool, &w.err), ERR_NONE);
	assert_int_equal(file_bytes(&w), 0);
	world_close(&w);
}

/* (2) */
TEST(spool, torn_end_is_cut_off_wherever_it_is_torn)
{
	struct world w;
	off_t        whole, all;

	world_open(&w, 1000, 10);
	assert_int_equal(add(&w, 1, "kept"), ERR_NONE);
	whole = file_bytes(&w);
	assert_int_equal(add(&w, 1, "torn"), ERR_NONE);
	all = file_bytes(&w);
	for (off_t cut = all - 1; cut >= whole; cut--) {
		file_cut(&w, cut);
		assert_int_equal(reopen(&w, 1000, 10), ERR_NONE);
		assert_int_equal(spool_read(w.spool).records, 1);
		assert_int_equal(file_bytes(&w), whole);
		assert_int_equal(add(&w, 1, "torn"), ERR_NONE);
	}
	world_close(&w);
}

/* (2) */
TEST(spool, damage_before_a_whole_frame_is_named_and_nothing_is_thrown_away)
{
	struct world w;
	off_t        first;

	world_open(&w, 1000, 10);
	assert_int_equal(add(&w, 1, "first"), ERR_NONE);
	first = file_bytes(&w);
	assert_int_equal(add(&w, 1, "second"), ERR_NONE);
	for (off_t at = 0; at < first; at++) {
		file_flip(&w, at);
		assert_int_equal(reopen(&w, 1000, 10), ERR_STORAGE);
		assert_non_null(strstr(w.err.text, "is damaged, and whole ones follow it"));
		assert_null(w.spool);
		file_flip(&w, at);
	}
	assert_int_equal(reopen(&w, 1000, 10), ERR_NONE);
	assert_true(bytes_is(drain(&w), "firstsecond"));
	world_close(&w);
}

/* (2) A frame that was flushed is damaged, not torn. Of several lengths: its last byte may be alone in a sector. */
TEST(spool, every_flipped_bit_of_the_last_frame_is_named_and_nothing_is_thrown_away)
{
	static char  text[600];
	struct world w;
	off_t        first, all;

	memset(text, 'x', sizeof(text) - 1);
	for (size_t len = 420; len < 600; len += 7) {
		world_open(&w, 10000, 10);
		assert_int_equal(add(&w, 1, "first"), ERR_NONE);
		first = file_bytes(&w);
		text[len] = '\0';
		assert_int_equal(add(&w, 1, text), ERR_NONE);
		text[len] = 'x';
		all = file_bytes(&w);
		for (off_t at = first; at < all; at += at < first + 40 || at > all - 20 ? 1 : 37)
			for (int bit = 0; bit < 8; bit++) {
				file_flip_bit(&w, at, bit);
				assert_int_equal(reopen(&w, 10000, 10), ERR_STORAGE);
				assert_non_null(strstr(w.err.text, "is damaged"));
				assert_int_equal(file_bytes(&w), all);
				file_flip_bit(&w, at, bit);
			}
		assert_int_equal(reopen(&w, 10000, 10), ERR_NONE);
		assert_int_equal(spool_read(w.spool).records, 2);
		world_close(&w);
	}
}

/* … also if all that it says is that something is done, in zeros for the most part. */
TEST(spool, every_flipped_bit_of_a_frame_of_what_is_done_is_named)
{
	struct world w;
	off_t        first, all;
	uint64_t     a;
	char         pad[512];

	for (size_t len = 440; len < 480; len++) {
		memset(pad, 'x', len);
		pad[len] = '\0';
		world_open(&w, 10000, 10);
		assert_int_equal(add(&w, 1, pad), ERR_NONE);
		first = file_bytes(&w);
		a = take(&w, pad);
		spool_done(w.spool, a);
		assert_int_equal(spool_sync_all(w.spool, &w.err), ERR_NONE);
		assert_int_equal(add(&w, 1, ""), ERR_NONE);
		all = file_bytes(&w);
		assert_true(all > first);
		for (off_t at = first; at < all; at++) {
			file_flip(&w, at);
			assert_int_equal(reopen(&w, 10000, 10), ERR_STORAGE);
			file_flip(&w, at);
		}
		assert_int_equal(reopen(&w, 10000, 10), ERR_NONE);
		world_close(&w);
	}
}

static void file_zero(struct world *w, off_t from, off_t to)
{
	int fd = open(path_of(w), O_RDWR);

	for (; from < to; from++)
		assert_int_equal(pwrite(fd, "", 1, from), 1);
	close(fd);
}

/* (2) The file's new length reached the disk, and not all of its sectors did. */
TEST(spool, last_frame_of_which_a_sector_is_missing_is_torn)
{
	enum { SECTOR = 512 };
	static char  text[3000];
	struct world w;
	off_t        first, all;

	memset(text, 'x', sizeof(text) - 1);
	world_open(&w, 10000, 10);
	assert_int_equal(add(&w, 1, "kept"), ERR_NONE);
	first = file_bytes(&w);
	for (int missing = 0; missing < 6; missing++) {
		assert_int_equal(add(&w, 1, text), ERR_NONE);
		all = file_bytes(&w);
		assert_in_range(all, 5 * SECTOR + 1, 6 * SECTOR);
		file_zero(&w, missing == 0 ? first : missing * SECTOR,
		          missing == 5 ? all : (missing + 1) * SECTOR);
		assert_int_equal(reopen(&w, 10000, 10), ERR_NONE);
		assert_int_equal(spool_read(w.spool).records, 1);
		assert_int_equal(file_bytes(&w), first);
	}
	world_close(&w);
}

/* ---- many threads ---- */

enum { WRITERS = 6, EACH = 200 };

struct writer {
	pthread_t     thread;
	struct world *w;
	uint32_t      line;
};

static void *write_many(void *ctx)
{
	struct writer *x = ctx;
	struct err     err;
	uint64_t       number;
	char           text[16];

	for (int i = 0; i < EACH; i++) {
		snprintf(text, sizeof(text), "%c%03d", (int)('a' + x->line), i);
		if (spool_append(x->w->spool, &(struct spool_record){1U << x->line, {text, 4}}, &number,
		                 &err) != ERR_NONE ||
		    spool_sync(x->w->spool, number, &err) != ERR_NONE)
			return NULL;
	}
	return x;
}

/* One that merges works meanwhile, and asks how it is, as metrics do. */
TEST(spool, many_writers_at_once_lose_nothing_and_keep_the_order_of_each)
{
	struct writer writers[WRITERS];
	int           next[WRITERS] = {0}, left = WRITERS * EACH;
	struct world  w;
	void         *good;

	world_open(&w, 1 << 20, 100000);
	for (uint32_t i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){.w = &w, .line = i};
		assert_int_equal(pthread_create(&writers[i].thread, NULL, write_many, &writers[i]), 0);
	}
	while (left > 0) {
		struct bytes record;
		uint64_t     number = spool_take(w.spool, &w.arena, &record);
		uint32_t     line;

		assert_true(spool_read(w.spool).records <= WRITERS * EACH);
		if (number == 0)
			continue;
		line = (uint32_t)(record.data[0] - 'a');
		assert_int_equal(
		        strtol(arena_printf(&w.arena, "%.*s%c", BYTES_ARG(record), '\0').data + 1, NULL, 10),
		        next[line]);
		next[line]++;
		left--;
		spool_done(w.spool, number);
		if (left % 50 == 0)
			assert_int_equal(spool_trim(w.spool, &w.err), ERR_NONE);
	}
	for (uint32_t i = 0; i < WRITERS; i++) {
		pthread_join(writers[i].thread, &good);
		assert_non_null(good);
	}
	assert_int_equal(spool_trim(w.spool, &w.err), ERR_NONE);
	assert_int_equal(reopen(&w, 1 << 20, 100000), ERR_NONE);
	assert_int_equal(spool_read(w.spool).records, 0);
	world_close(&w);
}
