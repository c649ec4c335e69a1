/* Opening: a journal that is missing or damaged keeps an engine from opening, and it says so; a directory of format
 * 1, which has none, is taken over with all it holds. */
#include "fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/file.h"
#include "counted.h"
#include "engine/layout.h"
#include "engine/rocks.h"
#include "engine/turn.h"

#define THING(name) "{'TableName':'things','Item':{'p':{'S':'" name "'},'s':{'S':'x'}}}"

static void shell(struct fixture *f, const char *command)
{
	char line[256];

	snprintf(line, sizeof(line), "cd %s && %s", f->dir, command);
	assert_int_equal(system(line), 0);
}

static void assert_refused(struct fixture *f, const char *text)
{
	assert_int_equal(engine_open(&f->engine, &f->options, &f->err), ERR_STORAGE);
	if (strstr(f->err.text, text) == NULL)
		fail_msg("%s is not in: %s", text, f->err.text);
}

/* ---- the journal ---- */

static enum err_code write_something(struct turn_request *w, struct table *t)
{
	(void)w;
	turn_put(((struct engine_session *)t)->turn, BYTES("msomething"), BYTES("x"), TURN_SOMETHING);
	return ERR_NONE;
}

/* The very first commit, and nothing that would wake the ticker. */
TEST(opening, a_journal_that_is_missing_is_noticed_from_the_first_commit_on)
{
	struct turn_request w = {.run = write_something};
	struct fixture      f;

	fixture_open(&f);
	assert_int_equal(engine_run(f.engine, &w, &f.err), ERR_NONE);
	fixture_die(&f);
	shell(&f, "mv journal away");
	assert_refused(&f, "journal is missing");
	shell(&f, "mv away journal");
	fixture_start(&f);
	fixture_close(&f);
}

TEST(opening, a_journal_that_is_missing_is_noticed_before_the_first_checkpoint_and_after_it)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "PutItem", THING("a"));
	fixture_die(&f); /* the first segment holds all that there is */
	shell(&f, "mv journal away");
	assert_refused(&f, "journal is missing");
	assert_refused(&f, "journal is missing"); /* it was not made anew */
	shell(&f, "mv away journal");
	fixture_start(&f);
	fixture_ok(&f, "PutItem", THING("b"));
	fixture_restart(&f); /* a checkpoint */
	fixture_die(&f);
	shell(&f, "mv journal away");
	assert_refused(&f, "journal is missing");
	shell(&f, "mv away journal");
	fixture_start(&f);
	assert_get(&f, "things", "{'p':{'S':'b'},'s':{'S':'x'}}", "{'p':{'S':'b'},'s':{'S':'x'}}");
	fixture_close(&f);
}

TEST(opening, a_journal_that_is_damaged_is_refused_with_the_files_name_and_stays_as_it_is)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "PutItem", THING("a"));
	fixture_die(&f);
	shell(&f,
	      "rm -f ballast && cp -r journal away && printf '?' | dd of=journal/00000001.log bs=1 seek=4184 "
	      "conv=notrunc status=none");
	assert_refused(&f, "journal/00000001.log is damaged at byte 4096");
	shell(&f, "test ! -e journal/00000002.log");
	shell(&f, "rm -rf journal && mv away journal");
	fixture_start(&f);
	assert_get(&f, "things", "{'p':{'S':'a'},'s':{'S':'x'}}", "{'p':{'S':'a'},'s':{'S':'x'}}");
	fixture_close(&f);
}

TEST(opening, a_ballast_that_is_a_link_is_left_alone_with_what_it_leads_to)
{
	struct fixture f;

	fixture_open(&f);
	engine_close(f.engine);
	shell(&f, "rm -f ballast && echo precious >elsewhere && ln -s elsewhere ballast");
	fixture_start(&f);
	shell(&f, "test \"$(cat elsewhere)\" = precious && test $(stat -c %s elsewhere) = 9");
	fixture_close(&f);
}

TEST(opening, counts_are_right_after_a_kill)
{
	struct fixture f;
	union answer   r;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	for (int i = 0; i < 146; i++)
		fixture_ok(&f, "PutItem",
		           arena_printf(&f.arena,
		                        "{'TableName':'things','Item':{'p':{'S':'%d'},'s':{'S':'x'}}}", i)
		                   .data);
	fixture_ok(&f, "DeleteItem", "{'TableName':'things','Key':{'p':{'S':'7'},'s':{'S':'x'}}}");
	fixture_die(&f);
	fixture_start(&f);
	r = fixture_ok(&f, "DescribeTable", "{'TableName':'things'}");
	assert_int_equal(r.table.item_count, 145);
	assert_counted(&f);
	fixture_ok(&f, "PutItem", THING("b"));
	fixture_die(&f);
	fixture_start(&f);
	assert_int_equal(fixture_ok(&f, "DescribeTable", "{'TableName':'things'}").table.item_count, 146);
	assert_counted(&f);
	fixture_close(&f);
}

static enum err_code forget_counts(struct turn_request *w, struct table *t)
{
	(void)w;
	turn_delete(((struct engine_session *)t)->turn, BYTES("mcounts"), TURN_SOMETHING);
	return ERR_NONE;
}

/* An older program left what counts it had last stored, and no note. */
TEST(opening, counts_that_an_older_program_left_are_put_right_once)
{
	struct turn_request w = {.run = forget_counts};
	struct fixture      f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "PutItem", THING("a"));
	assert_int_equal(engine_run(f.engine, &w, &f.err), ERR_NONE);
	counts_add(f.engine->counts, (struct counts_part){.table_id = TABLE_ID_FIRST},
	           (struct count){1000, 1000});
	assert_int_equal(fixture_ok(&f, "DescribeTable", "{'TableName':'things'}").table.item_count, 1001);
	fixture_die(&f);
	fixture_start(&f);
	assert_counted(&f);
	fixture_ok(&f, "PutItem", THING("b"));
	fixture_die(&f);
	fixture_start(&f);
	assert_counted(&f);
	assert_int_equal(fixture_ok(&f, "DescribeTable", "{'TableName':'things'}").table.item_count, 2);
	fixture_close(&f);
}

TEST(opening, counts_of_a_commit_that_the_disk_did_not_take_are_taken_back)
{
	struct fixture f;
	union answer   r;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "PutItem", THING("a"));
	fault_arm(FAULT_COMMIT, 0);
	assert_int_equal(fixture_try(&f, "PutItem", THING("b"), &r), ERR_STORAGE);
	fault_disarm(FAULT_COMMIT);
	assert_counted(&f);
	fixture_close(&f);
}

enum { DAY_S = 86400 };

static int64_t now_s(struct fixture *f)
{
	return engine_now_us(f->engine) / 1000000;
}

TEST(opening, a_clock_that_is_far_from_the_last_commit_is_refused_until_it_is_accepted)
{
	const int64_t  bound_us = (int64_t)30 * DAY_S * 1000000;
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	engine_close(f.engine);
	clock_manual_jump(&f.clock, bound_us + 1);
	assert_refused(&f, "start once with --accept-clock");
	clock_manual_jump(&f.clock, -2 * bound_us - 2);
	assert_refused(&f, "start once with --accept-clock");
	clock_manual_jump(&f.clock, bound_us + 1);
	fixture_start(&f); /* the refused starts changed nothing */
	assert_int_equal(now_s(&f), START_S);
	engine_close(f.engine);
	clock_manual_jump(&f.clock, bound_us);
	fixture_start(&f); /* so far it may */
	fixture_close(&f);
}

/* The way back: a year ahead was accepted, and was wrong. What seemed to have expired is there again. */
TEST(opening, a_wrong_clock_that_was_accepted_is_taken_back)
{
	const int64_t  year_us = (int64_t)365 * DAY_S * 1000000;
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "UpdateTimeToLive",
	           "{'TableName':'things','TimeToLiveSpecification':{'AttributeName':'ttl','Enabled':true}}");
	fixture_ok(
	        &f, "PutItem",
	        arena_printf(&f.arena,
	                     "{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'x'},'ttl':{'N':'%d'}}}",
	                     START_S + DAY_S)
	                .data);
	engine_close(f.engine);
	clock_manual_jump(&f.clock, year_us);
	f.options.accept_clock = true;
	fixture_start(&f);
	assert_get(&f, "things", "{'p':{'S':'a'},'s':{'S':'x'}}", NULL);
	engine_tick(f.engine); /* it is not swept yet */
	fixture_ok(&f, "PutItem", THING("b"));
	engine_close(f.engine);
	clock_manual_jump(&f.clock, -year_us);
	f.options.accept_clock = false;
	assert_refused(&f, "start once with --accept-clock");
	f.options.accept_clock = true;
	fixture_start(&f);
	assert_int_equal(now_s(&f), START_S);
	fixture_ok(&f, "PutItem", THING("c"));
	f.options.accept_clock = false;
	fixture_restart(&f);
	assert_int_equal(now_s(&f), START_S);
	assert_get(&f, "things", "{'p':{'S':'a'},'s':{'S':'x'}}",
	           arena_printf(&f.arena, "{'p':{'S':'a'},'s':{'S':'x'},'ttl':{'N':'%d'}}", START_S + DAY_S)
	                   .data);
	fixture_close(&f);
}

/* Or a restart soon after would remove what the hour is there to keep. */
TEST(opening, the_hour_without_sweeping_after_a_clock_was_accepted_outlasts_a_restart_and_ends)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "UpdateTimeToLive",
	           "{'TableName':'things','TimeToLiveSpecification':{'AttributeName':'ttl','Enabled':true}}");
	fixture_ok(
	        &f, "PutItem",
	        arena_printf(&f.arena,
	                     "{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'x'},'ttl':{'N':'%d'}}}",
	                     START_S + DAY_S)
	                .data);
	engine_close(f.engine);
	clock_manual_jump(&f.clock, (int64_t)365 * DAY_S * 1000000);
	f.options.accept_clock = true;
	fixture_start(&f);
	f.options.accept_clock = false;
	fixture_die(&f);
	fixture_start(&f);
	engine_tick(f.engine);
	assert_int_equal(engine_stats(f.engine).swept_rows, 0);
	clock_manual_set(&f.clock, ((int64_t)START_S + 3601) * 1000000);
	engine_tick(f.engine);
	assert_int_equal(engine_stats(f.engine).swept_rows, 1);
	fixture_close(&f);
}

TEST(opening, a_clock_that_was_accepted_stays_so_even_if_nothing_is_written)
{
	const int64_t  jump_us[] = {(int64_t)365 * DAY_S * 1000000, (int64_t)-365 * DAY_S * 1000000};
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "PutItem", THING("a"));
	for (int i = 0; i < 4; i++) {
		int64_t second;

		engine_close(f.engine);
		clock_manual_jump(&f.clock, jump_us[i % 2]);
		assert_refused(&f, "start once with --accept-clock");
		f.options.accept_clock = true;
		fixture_start(&f);
		second = now_s(&f);
		f.options.accept_clock = false;
		if (i < 2) /* killed, or stopped */
			fixture_die(&f);
		else
			engine_close(f.engine);
		fixture_start(&f);
		assert_int_equal(now_s(&f), second);
		assert_get(&f, "things", "{'p':{'S':'a'},'s':{'S':'x'}}", "{'p':{'S':'a'},'s':{'S':'x'}}");
	}
	fixture_close(&f);
}

#define TTL_ON "{'TableName':'things','TimeToLiveSpecification':{'AttributeName':'ttl','Enabled':true}}"
#define KEY_A  "{'p':{'S':'a'},'s':{'S':'x'}}"

/* Expires in a day. */
static void open_with_expiring(struct fixture *f)
{
	fixture_open(f);
	fixture_ok(f, "CreateTable", TABLE_PS);
	fixture_ok(f, "UpdateTimeToLive", TTL_ON);
	fixture_ok(
	        f, "PutItem",
	        arena_printf(&f->arena,
	                     "{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'x'},'ttl':{'N':'%d'}}}",
	                     START_S + DAY_S)
	                .data);
}

/* Nothing is written but the time. */
TEST(opening, an_item_that_was_absent_with_a_clock_that_was_ahead_is_absent_when_the_clock_is_right)
{
	const int64_t  ahead_us = (int64_t)20 * DAY_S * 1000000;
	struct fixture f;

	for (int killed = 0; killed < 2; killed++) {
		open_with_expiring(&f);
		engine_close(f.engine);
		clock_manual_jump(&f.clock, ahead_us);
		fixture_start(&f);
		assert_get(&f, "things", KEY_A, NULL);
		if (killed)
			fixture_die(&f);
		else
			engine_close(f.engine);
		clock_manual_jump(&f.clock, -ahead_us);
		fixture_start(&f);
		assert_get(&f, "things", KEY_A, NULL);
		assert_int_equal(now_s(&f), START_S + 20 * DAY_S);
		fixture_close(&f);
	}
}

/* What was committed within the hour is time enough. */
TEST(opening, a_start_stores_its_time_from_an_hour_after_the_last_commit_on)
{
	struct fixture f;

	open_with_expiring(&f);
	for (int ahead = 0; ahead < 2; ahead++) {
		engine_close(f.engine);
		clock_manual_jump(&f.clock, INT64_C(3600) * 1000000 - 1 + ahead);
		fixture_start(&f);
		assert_int_equal(engine_stats(f.engine).requests, ahead);
		clock_manual_jump(&f.clock, -(INT64_C(3600) * 1000000 - 1 + ahead));
	}
	fixture_close(&f);
}

static void assert_said(const char *path, const char *text)
{
	struct buf out;
	struct err err;
	bool       found;

	buf_init(&out, NULL);
	assert_int_equal(file_read(path, 1 << 20, &out, &found, &err), ERR_NONE);
	buf_add_byte(&out, 0);
	assert_non_null(strstr(out.data, text));
	buf_release(&out);
	unlink(path);
}

/* It serves what it has, and says that the time may go back. The first commit that finds room stores it. */
TEST(opening, a_start_that_has_no_room_to_store_its_time_says_so)
{
	const int64_t  ahead_us = (int64_t)20 * DAY_S * 1000000;
	struct fixture f;
	char           path[80];
	int            saved;

	open_with_expiring(&f);
	engine_close(f.engine);
	clock_manual_jump(&f.clock, ahead_us);
	snprintf(path, sizeof(path), "%s.log", f.dir);
	log_set_level(LOG_WARN);
	saved = dup(2);
	assert_non_null(freopen(path, "w", stderr));
	fault_arm(FAULT_NO_ROOM, 0);
	fixture_start(&f);
	fault_disarm(FAULT_NO_ROOM);
	fflush(stderr);
	dup2(saved, 2);
	close(saved);
	log_set_level(LOG_ERROR);
	assert_said(path, "no room to store the time");
	assert_get(&f, "things", KEY_A, NULL);
	engine_tick(f.engine);
	fixture_ok(&f, "PutItem", THING("b"));
	engine_close(f.engine);
	clock_manual_jump(&f.clock, -ahead_us);
	fixture_start(&f);
	assert_get(&f, "things", KEY_A, NULL);
	fixture_close(&f);
}

TEST(opening, a_checkpoint_that_fails_is_made_up_for_by_a_later_one)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	for (long i = 0; i < 4; i++) {
		fixture_ok(&f, "PutItem", THING("a"));
		fault_arm(FAULT_CHECKPOINT, i);
		engine_close(f.engine);
		fault_disarm(FAULT_CHECKPOINT);
		fixture_start(&f);
		assert_get(&f, "things", "{'p':{'S':'a'},'s':{'S':'x'}}", "{'p':{'S':'a'},'s':{'S':'x'}}");
		fixture_ok(&f, "DeleteItem", "{'TableName':'things','Key':{'p':{'S':'a'},'s':{'S':'x'}}}");
	}
	fixture_restart(&f);
	assert_get(&f, "things", "{'p':{'S':'a'},'s':{'S':'x'}}", NULL);
	shell(&f, "test $(ls journal/*.log | wc -l) = 1");
	fixture_close(&f);
}

/* ---- where the journal begins ---- */

/* Replaces the store's note of it in a closed directory; `old` gets what was there. */
static void replace_note(struct fixture *f, struct bytes note, struct buf *old)
{
	struct rocks_batch *b;
	struct rocks       *r;
	struct buf          key;
	char                path[96];
	bool                found;

	snprintf(path, sizeof(path), "%s/store", f->dir);
	assert_int_equal(rocks_open(&r, path, &(struct rocks_options){.block_cache_bytes = 1 << 20}, &f->err),
	                 ERR_NONE);
	b = rocks_batch_open(r);
	buf_init(&key, &f->arena);
	layout_meta(&key, "journal");
	assert_int_equal(rocks_get(r, NULL, buf_bytes(&key), old, &found, &f->err), ERR_NONE);
	rocks_batch_put(b, buf_bytes(&key), note);
	assert_int_equal(rocks_apply(r, b, &f->err), ERR_NONE);
	assert_int_equal(rocks_flush(r, &f->err), ERR_NONE);
	rocks_batch_close(b);
	rocks_close(r);
}

TEST(opening, a_note_of_the_wrong_length_is_refused)
{
	struct fixture f;
	struct buf     old, shorter;

	fixture_open(&f);
	engine_close(f.engine);
	buf_init(&old, &f.arena);
	buf_init(&shorter, &f.arena);
	replace_note(&f, BYTES("short"), &old);
	assert_refused(&f, "the store's own record \"journal\" is damaged; run `gatehouse check`");
	replace_note(&f, buf_bytes(&old), &shorter);
	fixture_start(&f);
	fixture_close(&f);
}

/* ---- other formats ---- */

TEST(opening, a_format_that_is_no_longer_read_is_refused_and_nothing_is_changed)
{
	struct fixture f;

	fixture_open(&f);
	engine_close(f.engine);
	shell(&f, "mv FORMAT away && echo gatehouse 1 >FORMAT");
	assert_refused(&f, "was written in format 1, which this program does not read");
	shell(&f, "grep -qx 'gatehouse 1' FORMAT && mv away FORMAT");
	fixture_start(&f);
	fixture_close(&f);
}

TEST(opening, without_threads_it_does_not_open_and_nothing_is_lost)
{
	static const char *const names[] = {"\"writer\"", "\"filter\"", "\"ticker\""};
	struct fixture           f;
	long                     threads = 0;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "PutItem", THING("a"));
	engine_close(f.engine);
	fault_arm(FAULT_THREAD, threads);
	while (engine_open(&f.engine, &f.options, &f.err) != ERR_NONE) {
		assert_int_equal(f.err.code, ERR_STORAGE);
		assert_in_range(threads, 0, 2);
		assert_non_null(strstr(f.err.text, names[threads]));
		fault_arm(FAULT_THREAD, ++threads);
	}
	fault_disarm(FAULT_THREAD);
	assert_int_equal(threads, 3);
	assert_int_equal(engine_verify(f.engine, &f.err), ERR_NONE);
	fixture_close(&f);
}
