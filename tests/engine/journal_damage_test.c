/* A journal of which something is missing, left over or not what it should be: the reader names it, and takes none of it for the end. */
#define _GNU_SOURCE
#include "engine/journal_desk.h"

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

/* ---- segments that are missing, left over, or not what they should be ---- */

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
