/* Lapse: rows without expiry entries, which vanish when the store merges its files (engine/lapse.h). None does too early, none comes back, and none is
 * counted twice or for too long, whatever the clock and the table do meanwhile. */
#include "lapsing.h"

#define KEY(name) "{'p':{'S':'" name "'},'s':{'S':'x'}}"

/* A table whose rows lapse. */
static void open_with_table(struct fixture *f)
{
	fixture_open(f);
	fixture_ok(f, "CreateTable", TABLE_PS);
	set_ttl(f, "ttl");
	engine_tick(f->engine);
}

static void put(struct fixture *f, const char *name, int64_t expires_s)
{
	fixture_ok(
	        f, "PutItem",
	        arena_printf(&f->arena,
	                     "{'TableName':'things','Item':{'p':{'S':'%s'},'s':{'S':'x'},'ttl':{'N':'%lld'},"
	                     "'other':{'N':'%d'}}}",
	                     name, (long long)expires_s, START_S + 30 * DAY_S)
	                .data);
}

static bool is_there(struct fixture *f, const char *name)
{
	struct bytes body =
	        arena_printf(&f->arena, "{'TableName':'things','Key':{'p':{'S':'%s'},'s':{'S':'x'}}}", name);

	return fixture_ok(f, "GetItem", body.data).get.found;
}

/* ---- when ---- */

TEST(lapse, a_row_vanishes_in_a_merge_an_hour_after_its_hour_and_not_before)
{
	struct fixture f;

	open_with_table(&f);
	put(&f, "a", SOON_S);
	put(&f, "b", HOUR_END_S); /* the next hour */
	assert_int_equal(look(&f).entries, 0);
	assert_int_equal(look(&f).lapsing, 2);
	tick_at(&f, CLOSED_S - 1);
	compact(&f);
	assert_false(is_there(&f, "a"));
	assert_int_equal(look(&f).rows, 2);
	assert_int_equal(item_count(&f), 2);
	tick_at(&f, CLOSED_S);
	assert_int_equal(look(&f).rows, 1);
	assert_int_equal(look(&f).hours, 1);
	assert_int_equal(item_count(&f), 1);
	assert_int_equal(engine_stats(f.engine).swept_rows, 1);
	assert_sound(&f);
	tick_at(&f, CLOSED_S + 3600);
	assert_int_equal(look(&f).rows, 0);
	assert_int_equal(look(&f).hours, 0);
	fixture_close(&f);
}

TEST(lapse, no_hour_is_closed_while_the_wall_clock_is_behind)
{
	struct fixture f;

	open_with_table(&f);
	put(&f, "a", SOON_S);
	fixture_set_clock(&f, CLOSED_S + 100);
	clock_manual_jump(&f.clock, INT64_C(-101) * 1000000); /* it was ahead when the server started */
	engine_tick(f.engine);
	assert_int_equal(item_count(&f), 1);
	clock_manual_jump(&f.clock, 1000000);
	engine_tick(f.engine);
	assert_int_equal(item_count(&f), 0);
	fixture_close(&f);
}

TEST(lapse, no_hour_is_closed_soon_after_a_start_that_found_the_clock_far_ahead)
{
	struct fixture f;

	open_with_table(&f);
	put(&f, "a", SOON_S);
	engine_close(f.engine);
	fixture_set_clock(&f, START_S + DAY_S);
	fixture_start(&f);
	engine_tick(f.engine);
	assert_int_equal(item_count(&f), 1);
	tick_at(&f, START_S + DAY_S + 3599);
	assert_int_equal(item_count(&f), 1);
	tick_at(&f, START_S + DAY_S + 3600);
	assert_int_equal(item_count(&f), 0);
	fixture_close(&f);
}

/* Or a start soon after, which finds the clock where the last one left it, would close what the hour is there to keep. */
TEST(lapse, the_hour_without_closing_after_a_start_that_found_the_clock_far_ahead_outlasts_a_restart)
{
	struct fixture f;

	open_with_table(&f);
	put(&f, "a", SOON_S);
	engine_close(f.engine);
	fixture_set_clock(&f, START_S + DAY_S);
	fixture_start(&f);
	fixture_set_clock(&f, START_S + DAY_S + 60);
	put(&f, "b", START_S + DAY_S - 60); /* the first commit at that time */
	fixture_ok(&f, "DeleteItem", "{'TableName':'things','Key':" KEY("b") "}");
	for (int starts = 0; starts < 2; starts++) {
		fixture_restart(&f);
		engine_tick(f.engine);
		assert_int_equal(item_count(&f), 1);
	}
	tick_at(&f, START_S + DAY_S + 3599);
	assert_int_equal(item_count(&f), 1);
	fixture_restart(&f);
	tick_at(&f, START_S + DAY_S + 3600);
	assert_int_equal(item_count(&f), 0);
	fixture_close(&f);
}

TEST(lapse, no_hour_is_closed_while_sweeping_waits_for_an_accepted_clock)
{
	struct fixture f;

	open_with_table(&f);
	put(&f, "a", SOON_S);
	engine_close(f.engine);
	clock_manual_jump(&f.clock, (int64_t)365 * DAY_S * 1000000);
	f.options.accept_clock = true;
	fixture_start(&f);
	f.options.accept_clock = false;
	fixture_restart(&f); /* this one does not find it ahead */
	engine_tick(f.engine);
	assert_int_equal(item_count(&f), 1);
	tick_at(&f, START_S + 3601);
	assert_int_equal(item_count(&f), 0);
	fixture_close(&f);
}

/* ---- a row that is gone stays so ---- */

TEST(lapse, a_row_that_is_gone_does_not_come_back_with_an_earlier_clock)
{
	struct fixture f;

	open_with_table(&f);
	put(&f, "a", SOON_S);
	put(&f, "b", START_S + 2 * DAY_S);
	fixture_set_clock(&f, START_S + 40 * DAY_S);
	put(&f, "c", START_S + 60 * DAY_S); /* the time of the last commit */
	close_without_merge(&f, START_S + 40 * DAY_S);
	assert_int_equal(look(&f).rows, 3);
	engine_close(f.engine);
	fixture_set_clock(&f, START_S);
	f.options.accept_clock = true;
	fixture_start(&f);
	f.options.accept_clock = false;
	for (int merged = 0; merged < 2; merged++) {
		assert_false(is_there(&f, "a"));
		assert_false(is_there(&f, "b"));
		assert_true(is_there(&f, "c"));
		assert_int_equal(item_count(&f), 1);
		assert_sound(&f);
		compact(&f);
		assert_int_equal(look(&f).rows, 1);
	}
	/* An hour that is closed takes no row: these have entries, and live. */
	put(&f, "a", SOON_S);
	assert_true(is_there(&f, "a"));
	assert_int_equal(look(&f).entries, 1);
	compact(&f);
	assert_true(is_there(&f, "a"));
	assert_sound(&f);
	fixture_close(&f);
}

TEST(lapse, a_row_that_is_written_anew_counts_once_whether_it_was_dropped_or_not)
{
	for (int dropped = 0; dropped < 2; dropped++) {
		struct fixture f;

		open_with_table(&f);
		put(&f, "a", SOON_S);
		close_without_merge(&f, CLOSED_S);
		if (dropped)
			compact(&f);
		assert_int_equal(item_count(&f), 0);
		put(&f, "a", CLOSED_S + 60);
		assert_true(is_there(&f, "a"));
		assert_int_equal(item_count(&f), 1);
		compact(&f);
		assert_true(is_there(&f, "a"));
		assert_sound(&f);
		fixture_restart(&f);
		assert_int_equal(item_count(&f), 1);
		assert_sound(&f);
		fixture_close(&f);
	}
}

TEST(lapse, the_filter_that_is_built_anew_lacks_rows_that_are_gone)
{
	struct fixture f;

	open_with_table(&f);
	for (int i = 0; i < 300; i++)
		put(&f, arena_printf(&f.arena, "row-%d", i).data, SOON_S);
	put(&f, "b", START_S + DAY_S);
	engine_build_filter(f.engine);
	close_without_merge(&f, CLOSED_S);
	engine_build_filter(f.engine);
	assert_true(filter_stats(f.engine->filter).entries < 10);
	assert_false(is_there(&f, "row-7"));
	assert_true(is_there(&f, "b"));
	put(&f, "row-7", CLOSED_S + 60); /* the first of its partition, for all that anyone knows */
	assert_true(is_there(&f, "row-7"));
	compact(&f);
	assert_sound(&f);
	fixture_close(&f);
}

/* A page ends after so many bytes of rows that nobody sees. The next one goes on from there. */
TEST(lapse, a_scan_gets_past_any_number_of_rows_that_are_gone)
{
	enum { LARGE = 300000, COUNT = 20 }; /* more than a page reads */
	char          *large = malloc(LARGE + 1);
	const char    *start = "";
	unsigned       seen = 0, pages = 0;
	union answer   r;
	struct fixture f;

	open_with_table(&f);
	memset(large, 'x', LARGE);
	large[LARGE] = '\0';
	for (int i = 0; i < COUNT; i++)
		fixture_ok(
		        &f, "PutItem",
		        arena_printf(
		                &f.arena,
		                "{'TableName':'things','Item':{'p':{'S':'p'},'s':{'S':'%c'},'ttl':{'N':'%d'"
		                "},'text':{'S':'%s'}}}",
		                'a' + i, SOON_S, large)
		                .data);
	fixture_ok(&f, "PutItem", "{'TableName':'things','Item':{'p':{'S':'p'},'s':{'S':'z'}}}");
	close_without_merge(&f, CLOSED_S);
	assert_int_equal(look(&f).rows, COUNT + 1);
	do {
		r = fixture_ok(&f, "Scan", arena_printf(&f.arena, "{'TableName':'things'%s}", start).data);
		seen += r.query.count;
		if (r.query.more)
			start = arena_printf(&f.arena,
			                     ",'ExclusiveStartKey':{'p':{'S':'p'},'s':{'S':'%.*s'}}",
			                     BYTES_ARG(item_get(&r.query.last_key, BYTES("s"))->text))
			                .data;
	} while (r.query.more && ++pages < COUNT);
	assert_int_equal(seen, 1);
	assert_true(pages > 0);
	free(large);
	fixture_close(&f);
}

/* ---- copies of the directory ---- */

static void shell(struct fixture *f, const char *format)
{
	struct bytes line = arena_printf(&f->arena, format, f->dir);

	if (system(line.data) != 0)
		fail_msg("%s", line.data);
}

/* Stopped, and copied as docs/operations.md says. */
static void back_up(struct fixture *f)
{
	engine_close(f->engine);
	shell(f, "cp -a %1$s %1$s-backup");
	fixture_start(f);
}

static void restore(struct fixture *f)
{
	engine_close(f->engine);
	shell(f, "rm -rf %1$s && mv %1$s-backup %1$s");
	fixture_start(f);
}

TEST(lapse, a_backup_of_before_an_hour_was_closed_has_its_rows_until_it_is_closed_again)
{
	struct fixture f;

	open_with_table(&f);
	put(&f, "a", SOON_S);
	put(&f, "b", START_S + DAY_S);
	back_up(&f);
	tick_at(&f, CLOSED_S);
	assert_int_equal(item_count(&f), 1);
	restore(&f);
	assert_int_equal(look(&f).rows, 2);
	assert_int_equal(item_count(&f), 2); /* the space has not been given back */
	assert_false(is_there(&f, "a"));     /* but it has expired */
	assert_sound(&f);
	fixture_set_clock(&f, CLOSED_S + 3600); /* the clock was an hour ahead of the backup (X4) */
	engine_tick(f.engine);
	assert_int_equal(look(&f).rows, 1);
	assert_int_equal(item_count(&f), 1);
	assert_true(is_there(&f, "b"));
	assert_sound(&f);
	fixture_close(&f);
}

TEST(lapse, a_backup_of_after_an_hour_was_closed_does_not_have_its_rows_whether_they_were_dropped_or_not)
{
	for (int dropped = 0; dropped < 2; dropped++) {
		struct fixture f;

		open_with_table(&f);
		put(&f, "a", SOON_S);
		put(&f, "b", START_S + DAY_S);
		close_without_merge(&f, CLOSED_S);
		if (dropped)
			compact(&f);
		back_up(&f);
		put(&f, "c", START_S + DAY_S);
		restore(&f);
		assert_false(is_there(&f, "a"));
		assert_true(is_there(&f, "b"));
		assert_false(is_there(&f, "c"));
		assert_int_equal(look(&f).rows, dropped ? 1 : 2);
		assert_int_equal(item_count(&f), 1);
		put(&f, "a", CLOSED_S + 60);
		assert_int_equal(item_count(&f), 2);
		compact(&f);
		assert_true(is_there(&f, "a"));
		assert_sound(&f);
		fixture_close(&f);
	}
}

/* ---- tables that change ---- */

TEST(lapse, rows_stay_when_time_to_live_is_switched_off_and_those_that_are_gone_stay_so)
{
	for (int restarts = 0; restarts < 2; restarts++) {
		struct fixture f;

		open_with_table(&f);
		put(&f, "a", SOON_S);
		put(&f, "b", HOUR_END_S + 60);
		close_without_merge(&f, CLOSED_S);
		set_ttl(&f, NULL);
		if (restarts)
			fixture_restart(&f);
		assert_false(is_there(&f, "a"));
		assert_true(is_there(&f, "b"));
		fixture_set_clock(&f, START_S + 10 * DAY_S);
		engine_tick(f.engine); /* walks over them */
		engine_tick(f.engine); /* would close all hours */
		compact(&f);
		assert_false(is_there(&f, "a"));
		assert_true(is_there(&f, "b"));
		assert_int_equal(look(&f).rows, 1);
		assert_int_equal(look(&f).lapsing, 0);
		assert_int_equal(look(&f).hours, 0);
		assert_int_equal(item_count(&f), 1);
		assert_sound(&f);
		fixture_close(&f);
	}
}

/* Before a walk has seen them, too: the commit that changes the rule freezes the table. */
TEST(lapse, a_frozen_table_keeps_its_rows_while_hours_are_closed)
{
	struct fixture f;

	open_with_table(&f);
	put(&f, "a", SOON_S);
	fixture_ok(&f, "CreateTable",
	           "{'TableName':'more','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'"
	           "AttributeName':'p',"
	           "'AttributeType':'S'}],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'}]}");
	fixture_ok(&f, "UpdateTimeToLive",
	           "{'TableName':'more','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'ttl'}}");
	engine_tick(f.engine);
	fixture_ok(
	        &f, "PutItem",
	        arena_printf(&f.arena, "{'TableName':'more','Item':{'p':{'S':'m'},'ttl':{'N':'%d'}}}", SOON_S)
	                .data);
	fixture_set_clock(&f, CLOSED_S);
	set_ttl(&f, NULL); /* the ticker is woken, and may walk or not */
	assert_int_equal(lapse_close(f.engine, &f.err), ERR_NONE);
	compact(&f);
	assert_true(is_there(&f, "a"));
	assert_int_equal(item_count(&f), 1);
	assert_int_equal(fixture_ok(&f, "DescribeTable", "{'TableName':'more'}").table.item_count, 0);
	engine_tick(f.engine); /* what it was woken for is done */
	assert_sound(&f);
	fixture_close(&f);
}

/* What a commit does that leaves the table frozen (0: not) and closes hours (0: none). */
static void publish(struct fixture *f, uint32_t frozen, uint32_t closes)
{
	const struct table_entry *old = catalog_find(f->engine->catalog, BYTES("things"));
	struct table_entry       *e = table_entry_make(&old->schema);
	struct turn               t = {.closes = closes};

	e->id = old->id;
	e->frozen_hour = frozen;
	t.catalog = catalog_with(f->engine->catalog, e);
	lapse_publish(f->engine, &t);
	catalog_release(t.catalog);
}

/* Does the store drop a row of this hour? */
static bool is_dropped(struct fixture *f, uint32_t hour)
{
	const char         key[] = {KIND_ROW, 0, 0, 0, TABLE_ID_FIRST, 'h', 'a', 's', 'h', 'k'};
	struct lapse_rule *rule = lapse_rule_take(f->engine);
	struct item        item = {0};
	struct buf         value;
	bool               dropped;

	assert_int_equal(catalog_find(f->engine->catalog, BYTES("things"))->id, TABLE_ID_FIRST);
	buf_init(&value, &f->arena);
	item_encode_lapsing(&value, hour, &item);
	dropped = lapse_drops(rule, (struct bytes){key, sizeof(key)}, buf_bytes(&value));
	lapse_rule_release(rule);
	return dropped;
}

/* What readers see of it in a table that is frozen. */
static bool is_gone(struct fixture *f, uint32_t frozen, uint32_t hour)
{
	struct table_entry t = {.frozen_hour = frozen};
	struct item        item = {0};
	struct buf         value;

	buf_init(&value, &f->arena);
	item_encode_lapsing(&value, hour, &item);
	return lapse_is_gone(f->engine, &t, buf_bytes(&value));
}

/* However long the walk takes. (The one above may be over before the hour is closed.) */
TEST(lapse, the_store_drops_no_row_of_a_frozen_table_that_was_there_when_it_was_frozen)
{
	const uint32_t hour = SOON_S / LAPSE_HOUR_S;
	struct fixture f;

	open_with_table(&f);
	publish(&f, hour, hour + 10);
	assert_false(is_dropped(&f, hour));
	assert_false(is_gone(&f, hour, hour));
	assert_true(is_dropped(&f, hour - 1));
	publish(&f, hour + 1, hour + 10);
	assert_true(is_dropped(&f, hour));
	assert_true(is_gone(&f, hour + 1, hour));
	fixture_close(&f);
}

/* A reader that began before the walk was over, and reads rows as they were then, still finds them. */
TEST(lapse, the_store_drops_no_row_of_a_table_that_was_frozen_before_the_next_hour_is_closed)
{
	const uint32_t hour = SOON_S / LAPSE_HOUR_S;
	struct fixture f;

	open_with_table(&f);
	publish(&f, hour, hour + 10);
	publish(&f, 0, 0);
	assert_false(is_dropped(&f, hour));
	publish(&f, 0, 0);
	assert_false(is_dropped(&f, hour));
	publish(&f, 0, hour + 11);
	assert_true(is_dropped(&f, hour));
	fixture_close(&f);
}

/* Or the rule would grow with every table that comes and goes within an hour. */
TEST(lapse, a_table_that_is_gone_is_not_remembered_as_frozen)
{
	const uint32_t hour = SOON_S / LAPSE_HOUR_S;
	struct turn    t = {0};
	struct fixture f;

	open_with_table(&f);
	publish(&f, hour, hour + 10);
	t.catalog = catalog_without(f.engine->catalog, BYTES("things"));
	lapse_publish(f.engine, &t);
	assert_true(is_dropped(&f, hour));
	catalog_release(t.catalog);
	fixture_close(&f);
}

TEST(lapse, rows_follow_the_attribute_to_which_time_to_live_is_moved)
{
	struct fixture f;

	open_with_table(&f);
	put(&f, "a", SOON_S);
	set_ttl(&f, NULL);
	set_ttl(&f, "other");
	engine_tick(f.engine);
	assert_int_equal(look(&f).entries, 1); /* the walk gives entries … */
	tick_at(&f, START_S + DAY_S);
	compact(&f);
	assert_true(is_there(&f, "a"));
	fixture_ok(&f, "UpdateItem",
	           "{'TableName':'things','Key':" KEY("a") ",'UpdateExpression':'SET n = :n',"
	                                                   "'ExpressionAttributeValues':{':n':{'N':'1'}}}");
	assert_int_equal(look(&f).entries, 0); /* … until a row is written anew */
	assert_int_equal(look(&f).lapsing, 1);
	tick_at(&f, START_S + 30 * DAY_S + 2 * 3600 + 1);
	assert_false(is_there(&f, "a"));
	assert_int_equal(look(&f).rows, 0);
	assert_int_equal(item_count(&f), 0);
	assert_sound(&f);
	fixture_close(&f);
}

TEST(lapse, nothing_is_left_of_the_hours_of_a_deleted_table)
{
	struct fixture f;

	open_with_table(&f);
	put(&f, "a", SOON_S);
	put(&f, "b", START_S + DAY_S);
	fixture_ok(&f, "DeleteTable", "{'TableName':'things'}");
	assert_int_equal(look(&f).hours, 0);
	fixture_restart(&f);
	tick_at(&f, START_S + 3 * DAY_S);
	assert_int_equal(look(&f).hours, 0);
	assert_sound(&f);
	fixture_close(&f);
}

/* ---- which rows ---- */

TEST(lapse, rows_that_expire_too_late_or_should_have_expired_have_entries)
{
	const int64_t  now_hour = START_S / LAPSE_HOUR_S;
	struct fixture f;

	open_with_table(&f);
	put(&f, "last", (now_hour + LAPSE_HOURS_MAX) * LAPSE_HOUR_S);
	put(&f, "first", now_hour * LAPSE_HOUR_S);
	assert_int_equal(look(&f).entries, 0);
	put(&f, "past-last", (now_hour + LAPSE_HOURS_MAX + 1) * LAPSE_HOUR_S);
	put(&f, "before-first", now_hour * LAPSE_HOUR_S - 1);
	put(&f, "six-years-ago", START_S - (int64_t)6 * 366 * DAY_S); /* it is ignored: the row lives */
	assert_int_equal(look(&f).entries, 3);
	assert_int_equal(look(&f).lapsing, 2);
	tick_at(&f, START_S + 3 * DAY_S);
	compact(&f);
	assert_true(is_there(&f, "six-years-ago"));
	assert_true(is_there(&f, "last"));
	assert_true(is_there(&f, "past-last"));
	assert_sound(&f);
	fixture_close(&f);
}

/* ---- directories of other programs ---- */

/* Rows that an older program wrote have entries, and lose them when they are written anew. The directory has the new format before that. */
TEST(lapse, a_directory_of_format_4_is_raised_and_its_rows_are_swept_as_before)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	put(&f, "a", SOON_S);
	put(&f, "b", SOON_S);
	set_ttl(&f, "ttl"); /* from here on they are as older programs store them */
	engine_tick(f.engine);
	assert_int_equal(look(&f).entries, 2);
	engine_close(f.engine);
	lower_format(&f, 4);
	assert_int_equal(format_of(&f), 4);
	fixture_start(&f);
	assert_int_equal(format_of(&f), DIRECTORY_FORMAT);
	put(&f, "b", SOON_S + 1);
	assert_int_equal(look(&f).entries, 1);
	assert_int_equal(look(&f).lapsing, 1);
	tick_at(&f, SOON_S + 601);
	assert_int_equal(look(&f).rows, 1); /* "a" was swept */
	tick_at(&f, CLOSED_S);
	assert_int_equal(look(&f).rows, 0);
	assert_int_equal(item_count(&f), 0);
	assert_sound(&f);
	fixture_close(&f);
}

/* ---- a walk over several tables ---- */

#define TABLE_OTHERS                                                                                         \
	"{'TableName':'others','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'AttributeName':'p'" \
	",'AttributeType':'S'},{'AttributeName':'s','AttributeType':'S'}],'KeySchema':[{'AttributeName':'p'" \
	",'KeyType':'HASH'},{'AttributeName':'s','KeyType':'RANGE'}]}"

static void put_other(struct fixture *f, const char *range, const char *ttl)
{
	fixture_ok(f, "PutItem",
	           arena_printf(&f->arena, "{'TableName':'others','Item':{'p':{'S':'p'},'s':{'S':'%s'}%s}}",
	                        range, ttl)
	                   .data);
}

/* The walk asks of each table whether it was deleted, by reading the first row that it comes to once more. That one may have vanished. */
TEST(lapse, a_walk_does_not_take_a_table_for_deleted_whose_first_rows_vanish_meanwhile)
{
	const char             low[1] = {KIND_ROW}, high[1] = {KIND_ROW + 1};
	struct fixture         f;
	struct rocks_snapshot *snapshot;
	struct rocks_cursor   *c;
	struct bytes           key, value;
	int                    rows = 0;

	open_with_table(&f);
	fixture_ok(&f, "CreateTable", TABLE_OTHERS);
	fixture_ok(&f, "UpdateTimeToLive",
	           "{'TableName':'others','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'ttl'}}");
	engine_tick(f.engine);
	put(&f, "first", START_S + 30 * DAY_S);
	for (int i = 0; i < 3; i++)
		put_other(&f, arena_printf(&f.arena, "a%d", i).data,
		          arena_printf(&f.arena, ",'ttl':{'N':'%d'}", SOON_S).data);
	put_other(&f, "b", "");
	assert_int_equal(view_snapshot_open(f.engine, &snapshot, &f.err), ERR_NONE);
	c = rocks_walk_open(f.engine->rocks, snapshot, (struct bytes){low, 1}, (struct bytes){high, 1});
	tick_at(&f, CLOSED_S);
	compact(&f);
	for (; rocks_cursor_at(c, &key, &value); rocks_cursor_next(c))
		rows += item_lapse(value) == 0 ? 1 : 100;
	assert_int_equal(rows % 100, 1);
	assert_int_equal(rows / 100, 1);
	assert_int_equal(rocks_cursor_check(c, &f.err), ERR_NONE);
	rocks_cursor_close(c);
	rocks_snapshot_close(f.engine->rocks, snapshot);
	fixture_close(&f);
}
