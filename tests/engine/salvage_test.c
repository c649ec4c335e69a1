/* Salvage: whatever is lost or damaged of a journal, it says what would have to go and changes nothing; told to drop it, the
 * directory opens, check calls it sound, all commits before the damage are there, and what was dropped lies aside. */
#include "fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "counted.h"
#include "engine/check.h"
#include "engine/lapse.h"
#include "engine/salvage.h"
#include "engine/state.h"

enum { THINGS = 24, TEXT_MAX = 16384 };

#define TABLE_INDEXED                                                                                        \
	"{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'AttributeName':'p'" \
	",'AttributeType':'S'},{'AttributeName':'g','AttributeType':'S'}],'KeySchema':[{'AttributeName':'p'" \
	",'KeyType':'HASH'}],'GlobalSecondaryIndexes':[{'IndexName':'by-g','KeySchema':[{'AttributeName':"   \
	"'g','KeyType':'HASH'}],'Projection':{'ProjectionType':'ALL'}}]}"

static void shell(struct fixture *f, const char *command)
{
	char line[512];

	snprintf(line, sizeof(line), "cd %s && %s", f->dir, command);
	if (system(line) != 0)
		fail_msg("%s", line);
}

static void die(struct fixture *f)
{
	fixture_die(f);
	shell(f, "rm -f ballast");
}

static void put(struct fixture *f, int number)
{
	fixture_ok(
	        f, "PutItem",
	        arena_printf(
	                &f->arena,
	                "{'TableName':'things','Item':{'p':{'S':'%d'},'g':{'S':'x'},'ttl':{'N':'1789099999'},"
	                "'pad':{'S':'%0900d'}}}",
	                number, number)
	                .data);
}

/* A dead directory with three segments of some things each. With `ahead`, the store's files have the index entries of
 * the last ones, and not their rows. */
static void open_dead(struct fixture *f, bool ahead)
{
	char dir[] = "/tmp/gatehouse-test-XXXXXX";

	assert_non_null(mkdtemp(dir));
	fixture_init(f, dir);
	f->options.journal_segment_bytes = 40 * SECTOR_BYTES; /* too few for a checkpoint by itself */
	f->options.journal_unit_bytes = SECTOR_BYTES;
	fixture_start(f);
	fixture_ok(f, "CreateTable", TABLE_INDEXED);
	fixture_ok(f, "UpdateTimeToLive",
	           "{'TableName':'things','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'ttl'}}");
	engine_tick(f->engine);
	for (int i = 0; i < THINGS; i++)
		put(f, i);
	if (ahead)
		assert_int_equal(rocks_flush(f->engine->rocks, &f->err), ERR_NONE);
	die(f);
}

static void close_dead(struct fixture *f)
{
	fixture_start(f);
	fixture_close(f);
}

/* ---- what is asked of it ---- */

struct talk {
	char                 text[TEXT_MAX];
	struct salvage_found found;
};

static void on_line(void *ctx, const char *text)
{
	struct talk *t = ctx;
	size_t       len = strlen(t->text);

	snprintf(t->text + len, sizeof(t->text) - len, "%s\n", text);
}

static struct talk salvage(struct fixture *f, bool drop)
{
	struct talk          t = {0};
	struct salvage_watch watch = {&t, on_line};

	if (engine_salvage(f->dir, drop, &watch, &t.found, &f->err) != ERR_NONE)
		fail_msg("%s: %s", t.text, f->err.text);
	return t;
}

static void on_progress(void *ctx, enum check_phase phase, unsigned percent, const struct check_found *found)
{
	(void)ctx;
	(void)phase;
	(void)percent;
	(void)found;
}

static bool is_sound(struct fixture *f, struct talk *t)
{
	struct check_watch watch = {.ctx = t, .progress = on_progress, .problem = on_line};
	struct check_found found;

	return engine_check(f->dir, &watch, &found, &f->err) == ERR_NONE && check_is_sound(&found);
}

static int things_there(struct fixture *f)
{
	union answer all = fixture_ok(f, "Scan", "{'TableName':'things'}");
	union answer indexed = fixture_ok(f, "Scan", "{'TableName':'things','IndexName':'by-g'}");

	assert_int_equal(all.query.count, indexed.query.count);
	assert_counted(f);
	return (int)all.query.count;
}

static void says(const struct talk *t, const char *text)
{
	if (strstr(t->text, text) == NULL)
		fail_msg("\"%s\" is not in: %s", text, t->text);
}

/* The whole story of a damaged directory; how many things are left. */
static int assert_salvaged_mending(struct fixture *f, const char *said, uint64_t *mended)
{
	struct talk t = {0};
	char        before[64], after[64];
	int         left;

	assert_int_equal(engine_open(&f->engine, &f->options, &f->err), ERR_STORAGE);
	if (strstr(f->err.text, "gatehouse salvage") == NULL)
		fail_msg("%s", f->err.text);
	assert_false(is_sound(f, &t));
	fixture_fingerprint(f, before);
	t = salvage(f, false);
	fixture_fingerprint(f, after);
	assert_string_equal(before, after);
	assert_true(t.found.damaged && !t.found.dropped);
	says(&t, said);
	t = salvage(f, true);
	assert_true(t.found.dropped);
	says(&t, said);
	*mended = t.found.mended;
	assert_true(strstr(t.found.aside, "/salvaged-") != NULL || t.found.aside[0] == '\0');
	t = (struct talk){0};
	if (!is_sound(f, &t))
		fail_msg("%s%s", t.text, f->err.text);
	t = salvage(f, true);
	assert_false(t.found.damaged);
	fixture_start(f);
	left = things_there(f);
	assert_verified(f);
	put(f, 100); /* it goes on */
	die(f);
	fixture_start(f);
	assert_int_equal(things_there(f), left + 1);
	engine_close(f->engine);
	return left;
}

static int assert_salvaged(struct fixture *f, const char *said)
{
	uint64_t ignored;

	return assert_salvaged_mending(f, said, &ignored);
}

/* ---- damage ---- */

/* The n-th segment that is there, the last one for -1; and its first and last byte that are no zeros. */
struct target {
	char  path[160];
	off_t size, last;
};

static struct target target(struct fixture *f, int which)
{
	struct target t = {0};
	struct buf    all;
	char          command[192];
	FILE         *pipe;
	int           fd;

	snprintf(command, sizeof(command), "ls %s/journal/*.log | %s", f->dir,
	         which < 0    ? "tail -n 1"
	         : which == 0 ? "head -n 1"
	                      : "sed -n 2p");
	pipe = popen(command, "r");
	assert_non_null(fgets(t.path, sizeof(t.path), pipe));
	pclose(pipe);
	t.path[strcspn(t.path, "\n")] = '\0';
	fd = open(t.path, O_RDONLY);
	t.size = lseek(fd, 0, SEEK_END);
	buf_init(&all, NULL);
	buf_reserve(&all, (size_t)t.size);
	assert_int_equal(pread(fd, all.data, (size_t)t.size, 0), t.size);
	for (off_t at = 0; at < t.size; at++)
		if (all.data[at] != 0)
			t.last = at;
	buf_release(&all);
	close(fd);
	return t;
}

static void flip(const struct target *t, off_t at)
{
	int  fd = open(t->path, O_RDWR);
	char byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte = (char)(byte ^ 4);
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

TEST(salvage, a_sound_directory_has_nothing_to_drop_and_stays_as_it_is)
{
	struct fixture f;
	struct talk    t;
	char           before[64], after[64];

	open_dead(&f, false);
	fixture_fingerprint(&f, before);
	t = salvage(&f, true);
	assert_false(t.found.damaged || t.found.dropped);
	assert_string_equal(t.text, "");
	fixture_fingerprint(&f, after);
	assert_string_equal(before, after);
	close_dead(&f);
}

TEST(salvage, a_bit_in_unused_zeros_costs_nothing)
{
	struct fixture f;
	struct target  t;

	open_dead(&f, false);
	t = target(&f, -1);
	flip(&t, t.size - 700);
	assert_int_equal(assert_salvaged(&f, "no commit is known to be lost"), THINGS);
	shell(&f, "ls salvaged-*/*.log >/dev/null");
	close_dead(&f);
}

TEST(salvage, a_bit_in_the_last_commit_costs_that_commit)
{
	struct fixture f;
	struct target  t;

	open_dead(&f, false);
	t = target(&f, -1);
	flip(&t, t.last - 100);
	assert_int_equal(assert_salvaged(&f, "which cannot be read whole"), THINGS - 1);
	close_dead(&f);
}

TEST(salvage, a_bit_in_the_middle_costs_all_that_follows_and_it_is_told_with_numbers_and_times)
{
	struct fixture f;
	struct target  t;
	int            left;

	open_dead(&f, true);
	t = target(&f, 1);
	flip(&t, 2 * SECTOR_BYTES + 50);
	left = assert_salvaged(&f, "whole commits");
	assert_true(left < THINGS - 2);
	close_dead(&f);
}

TEST(salvage, a_newest_segment_that_is_gone_costs_what_it_held)
{
	for (int ahead = 0; ahead < 2; ahead++) {
		struct fixture f;
		struct target  t;
		int            left;
		uint64_t       mended;

		open_dead(&f, ahead);
		t = target(&f, -1);
		assert_int_equal(unlink(t.path), 0);
		left = assert_salvaged_mending(&f, "there is no telling what a missing file held", &mended);
		assert_int_equal(mended > 0,
		                 ahead); /* index entries that the store has, without their rows */
		assert_true(left < THINGS && left > THINGS - 12);
		close_dead(&f);
	}
}

TEST(salvage, one_that_was_killed_before_it_mended_is_finished_by_the_next)
{
	struct talk          t = {0};
	struct salvage_watch watch = {&t, on_line};
	struct salvage_found found;
	struct fixture       f;

	open_dead(&f, true);
	assert_int_equal(unlink(target(&f, -1).path), 0);
	fault_arm(FAULT_SALVAGE, 0);
	assert_int_equal(engine_salvage(f.dir, true, &watch, &found, &f.err), ERR_STORAGE);
	fault_disarm(FAULT_SALVAGE);
	assert_false(is_sound(&f, &t));
	t = salvage(&f, true);
	assert_true(t.found.mended > 0);
	t = (struct talk){0};
	assert_true(is_sound(&f, &t));
	fixture_start(&f);
	things_there(&f);
	assert_verified(&f);
	die(&f);
	close_dead(&f);
}

TEST(salvage, a_segment_that_was_cut_short_keeps_what_lies_before_the_cut)
{
	for (int i = 0; i < 4; i++) {
		struct fixture f;
		struct target  t;
		off_t          sizes[4];

		open_dead(&f, true);
		t = target(&f, -1);
		sizes[0] = 0;
		sizes[1] = SECTOR_BYTES;
		sizes[2] = t.last - 300;
		sizes[3] = t.size - 1;
		assert_int_equal(truncate(t.path, sizes[i]), 0);
		assert_true(assert_salvaged(&f, "kept: all commits up to") >= THINGS - 12);
		close_dead(&f);
	}
}

TEST(salvage, a_segment_that_is_missing_in_the_middle_or_at_the_beginning_costs_all_after_it)
{
	for (int which = 0; which < 2; which++) {
		struct fixture f;
		struct target  t;

		open_dead(&f, true);
		t = target(&f, which);
		assert_int_equal(unlink(t.path), 0);
		assert_true(assert_salvaged(&f, "lost: commits") < THINGS);
		close_dead(&f);
	}
}

TEST(salvage, the_name_of_the_newest_segment_can_be_written_down_again)
{
	const char *const damage[] = {"rm journal/newest",
	                              "printf x | dd of=journal/newest conv=notrunc status=none"};

	for (int i = 0; i < 2; i++) {
		struct fixture f;

		open_dead(&f, false);
		shell(&f, damage[i]);
		assert_int_equal(assert_salvaged(&f, "no commit is known to be lost"), THINGS);
		close_dead(&f);
	}
}

TEST(salvage, a_journal_that_is_gone_leaves_what_the_store_has)
{
	struct fixture f;

	open_dead(&f, true);
	shell(&f, "rm -r journal");
	assert_true(assert_salvaged(&f, "kept: all commits up to") <= THINGS);
	close_dead(&f);
}

/* ---- rows that lapse (engine/lapse.h) ---- */

enum { HOUR_S = 3600, LAPSES_S = START_S + 60 };

static void put_count(struct fixture *f, const char *name, int64_t expires_s)
{
	fixture_ok(f, "PutItem",
	           arena_printf(&f->arena,
	                        "{'TableName':'counts','Item':{'p':{'S':'%s'},'ttl':{'N':'%lld'}}}", name,
	                        (long long)expires_s)
	                   .data);
}

static bool count_is_there(struct fixture *f, const char *name)
{
	return fixture_ok(f, "GetItem",
	                  arena_printf(&f->arena, "{'TableName':'counts','Key':{'p':{'S':'%s'}}}", name).data)
	        .get.found;
}

static int64_t count_items(struct fixture *f)
{
	return fixture_ok(f, "DescribeTable", "{'TableName':'counts'}").table.item_count;
}

/* Two counts: the hour of the first is closed by the last commit, and with `dropped` the store has left it out. */
static void open_dead_with_closed_hour(struct fixture *f, bool dropped)
{
	char dir[] = "/tmp/gatehouse-test-XXXXXX";

	assert_non_null(mkdtemp(dir));
	fixture_init(f, dir);
	fixture_start(f);
	fixture_ok(f, "CreateTable",
	           "{'TableName':'counts','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':"
	           "[{'AttributeName':'p','AttributeType':'S'}],'KeySchema':[{'AttributeName':'p','KeyType':"
	           "'HASH'}]}");
	fixture_ok(f, "UpdateTimeToLive",
	           "{'TableName':'counts','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'ttl'}}");
	engine_tick(f->engine);
	put_count(f, "a", LAPSES_S);
	put_count(f, "b", START_S + 24 * HOUR_S);
	fixture_set_clock(f, LAPSES_S + 3 * HOUR_S);
	assert_int_equal(lapse_close(f->engine, &f->err), ERR_NONE);
	if (dropped)
		assert_int_equal(engine_compact(f->engine, &f->err), ERR_NONE);
	assert_int_equal(count_items(f), 1);
	die(f);
}

TEST(salvage, a_commit_that_closed_an_hour_may_be_lost_though_the_store_has_dropped_its_rows)
{
	for (int dropped = 0; dropped < 2; dropped++) {
		struct fixture f;
		struct target  t;
		struct talk    said;

		open_dead_with_closed_hour(&f, dropped);
		t = target(&f, -1);
		flip(&t, t.last);
		assert_int_equal(engine_open(&f.engine, &f.options, &f.err), ERR_STORAGE);
		said = salvage(&f, true);
		assert_true(said.found.dropped);
		if (!is_sound(&f, &said))
			fail_msg("%s%s", said.text, f.err.text);
		fixture_start(&f);
		assert_false(count_is_there(&f, "a")); /* it has expired, closed or not */
		assert_true(count_is_there(&f, "b"));
		assert_verified(&f);
		assert_counted(&f);
		fixture_set_clock(&f,
		                  LAPSES_S + 5 * HOUR_S); /* a start that found the clock ahead waits (X4) */
		engine_tick(f.engine);
		assert_int_equal(count_items(&f), 1);
		put_count(&f, "a", LAPSES_S + 6 * HOUR_S);
		assert_int_equal(count_items(&f), 2);
		fixture_restart(&f);
		assert_true(count_is_there(&f, "a"));
		assert_counted(&f);
		fixture_close(&f);
	}
}

TEST(salvage, an_open_directory_is_left_alone)
{
	struct salvage_found found;
	struct talk          t = {0};
	struct salvage_watch watch = {&t, on_line};
	struct fixture       f;

	fixture_open(&f);
	assert_int_equal(engine_salvage(f.dir, true, &watch, &found, &f.err), ERR_STORAGE);
	assert_non_null(strstr(f.err.text, "in use"));
	fixture_close(&f);
}
