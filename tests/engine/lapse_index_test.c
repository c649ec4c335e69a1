/* Lapse, with indexes: the entries of a row that lapses go with it (engine/lapse.h X6). None goes before its row, none is seen or counted after it, and none
 * comes back, whatever becomes of the row, the index and the table's time to live meanwhile. */
#include "lapsing_indexes.h"

static void open_without_index(struct fixture *f)
{
	fixture_open(f);
	fixture_ok(f, "CreateTable",
	           "{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'"
	           "AttributeName':'p','AttributeType':'S'}],'KeySchema':[{'AttributeName':'p','KeyType':"
	           "'HASH'}]}");
	set_ttl(f, "ttl");
	engine_tick(f->engine);
}

#define INDEX_ON                                                                                             \
	"{'TableName':'things','AttributeDefinitions':[" OWNER "],'GlobalSecondaryIndexUpdates':[{'Create'"  \
	":" GSI("all", "ALL") "}]}"
#define INDEX_OFF "{'TableName':'things','GlobalSecondaryIndexUpdates':[{'Delete':{'IndexName':'all'}}]}"

/* ---- with their rows ---- */

TEST(lapse_index, entries_vanish_with_their_row_an_hour_after_its_hour_and_not_before)
{
	struct fixture f;

	open_with_indexes(&f);
	put(&f, "a", "ann", SOON_S);
	put(&f, "b", "bob", HOUR_END_S); /* the next hour */
	put(&f, "c", "cat", 0);
	assert_int_equal(look(&f).entries, 0);
	assert_int_equal(look(&f).lapsing, 6);
	fixture_set_clock(&f, SOON_S - 1);
	assert_shown(&f, "ann", 1);
	fixture_set_clock(&f, SOON_S);
	assert_shown(&f, "ann", 0);
	tick_at(&f, CLOSED_S - 1);
	compact(&f);
	assert_int_equal(look(&f).index_entries, 6);
	assert_counts(&f, 3);
	tick_at(&f, CLOSED_S);
	assert_int_equal(look(&f).rows, 2);
	assert_int_equal(look(&f).index_entries, 4);
	assert_int_equal(look(&f).hours, 1);
	assert_counts(&f, 2);
	assert_int_equal(engine_stats(f.engine).swept_rows, 1); /* entries are no rows */
	assert_sound(&f);
	tick_at(&f, CLOSED_S + 3600);
	assert_int_equal(look(&f).index_entries, 2);
	assert_int_equal(look(&f).hours, 0);
	assert_shown(&f, "cat", 1);
	assert_counts(&f, 1);
	assert_sound(&f);
	fixture_close(&f);
}

/* Its entries are written anew, even where they look the same. That is ours, and not in the bill. */
TEST(lapse_index, entries_follow_a_row_whose_time_to_live_changes)
{
	struct fixture f;
	union answer   r;

	open_with_indexes(&f);
	put(&f, "later", "ann", SOON_S);
	put(&f, "never", "ann", SOON_S);
	put(&f, "sooner", "ann", START_S + DAY_S);
	r = put(&f, "later", "ann", START_S + DAY_S);
	assert_int_equal(r.write.capacity.index_count, 1);
	assert_true(bytes_is(r.write.capacity.indexes[0].name, "all"));
	put(&f, "never", "ann", 0);
	put(&f, "sooner", "ann", SOON_S);
	assert_sound(&f);
	tick_at(&f, CLOSED_S);
	assert_shown(&f, "ann", 2);
	assert_int_equal(look(&f).rows, 2);
	assert_int_equal(look(&f).index_entries, 4);
	assert_counts(&f, 2);
	assert_sound(&f);
	tick_at(&f, START_S + 2 * DAY_S);
	assert_shown(&f, "ann", 1);
	assert_counts(&f, 1);
	assert_sound(&f);
	fixture_close(&f);
}

/* A row that is gone is not there to say which entries it has. They are gone by their own hour. */
TEST(lapse_index, entries_of_a_row_that_was_gone_stay_gone_when_it_is_written_anew_elsewhere)
{
	for (int dropped = 0; dropped < 2; dropped++) {
		struct fixture f;

		open_with_indexes(&f);
		put(&f, "a", "ann", SOON_S);
		close_without_merge(&f, CLOSED_S);
		if (dropped)
			compact(&f);
		put(&f, "a", "bob", CLOSED_S + 60);
		assert_int_equal(look(&f).index_entries, dropped ? 2 : 4);
		for (int restarted = 0; restarted < 2; restarted++) {
			assert_shown(&f, "ann", 0);
			assert_shown(&f, "bob", 1);
			assert_counts(&f, 1);
			assert_sound(&f);
			fixture_restart(&f);
		}
		put(&f, "a", "ann", 0); /* where the entries of the first one are */
		compact(&f);
		assert_shown(&f, "ann", 1);
		assert_shown(&f, "bob", 0);
		assert_int_equal(look(&f).index_entries, 2);
		assert_counts(&f, 1);
		assert_sound(&f);
		fixture_close(&f);
	}
}

TEST(lapse_index, a_deleted_row_takes_its_entries_along_whether_it_has_expired_or_not)
{
	struct fixture f;

	open_with_indexes(&f);
	put(&f, "a", "ann", SOON_S);
	put(&f, "b", "bob", SOON_S);
	fixture_ok(&f, "DeleteItem", "{'TableName':'things','Key':{'p':{'S':'a'}}}");
	assert_int_equal(look(&f).index_entries, 2);
	fixture_set_clock(&f, SOON_S);
	fixture_ok(&f, "DeleteItem", "{'TableName':'things','Key':{'p':{'S':'b'}}}");
	fixture_ok(&f, "PutItem",
	           "{'TableName':'things','Item':{'p':{'S':'b'}},'ConditionExpression':'"
	           "attribute_not_exists(p)'}");
	assert_int_equal(look(&f).index_entries, 0);
	assert_int_equal(look(&f).hours, 0);
	assert_sound(&f);
	fixture_close(&f);
}

TEST(lapse_index, rows_that_expire_too_late_to_lapse_are_swept_with_their_entries)
{
	const int64_t  far_s = START_S + (int64_t)500 * DAY_S;
	struct fixture f;

	open_with_indexes(&f);
	put(&f, "far", "ann", far_s);
	put(&f, "farther", "ann", far_s + DAY_S);
	assert_int_equal(look(&f).entries, 2);
	assert_int_equal(look(&f).lapsing, 0);
	tick_at(&f, far_s + 601);
	assert_int_equal(look(&f).entries, 1);
	assert_int_equal(look(&f).index_entries, 2);
	assert_shown(&f, "ann", 1);
	assert_counts(&f, 1);
	assert_sound(&f);
	fixture_close(&f);
}

/* ---- indexes that come and go ---- */

TEST(lapse_index, rows_of_a_table_that_gets_an_index_lapse_as_before)
{
	for (int closes = 0; closes < 2; closes++) {
		struct fixture f;

		open_without_index(&f);
		put(&f, "gone", "ann", SOON_S);
		put(&f, "b", "ann", START_S + DAY_S);
		close_without_merge(&f, CLOSED_S);
		fixture_ok(&f, "UpdateTable", INDEX_ON);
		put(&f, "c", "ann", START_S + DAY_S); /* before the walk or after it */
		engine_tick(f.engine);
		assert_int_equal(look(&f).entries, 0);
		assert_int_equal(look(&f).index_entries, 2);
		assert_int_equal(look(&f).hours, 1);
		assert_int_equal(shown(&f, "all", "ann"), 2);
		assert_counts(&f, 2);
		assert_sound(&f);
		if (closes) {
			close_without_merge(&f, START_S + 2 * DAY_S);
			fixture_restart(&f);
		} else {
			tick_at(&f, START_S + 2 * DAY_S);
			assert_int_equal(look(&f).rows + look(&f).index_entries, 0);
		}
		assert_int_equal(shown(&f, "all", "ann"), 0);
		assert_counts(&f, 0);
		assert_sound(&f);
		fixture_close(&f);
	}
}

TEST(lapse_index, a_deleted_index_is_not_counted_and_a_new_one_is_filled_with_what_is_there)
{
	struct fixture f;

	open_with_indexes(&f);
	put(&f, "a", "ann", SOON_S);
	put(&f, "b", "bob", START_S + DAY_S);
	fixture_ok(&f, "UpdateTable", INDEX_OFF);
	assert_int_equal(look(&f).index_entries, 2);
	assert_sound(&f);
	fixture_restart(&f); /* its counts are still stored with those of the hours */
	assert_sound(&f);
	close_without_merge(&f, CLOSED_S);
	fixture_ok(&f, "UpdateTable", INDEX_ON);
	engine_tick(f.engine);
	assert_shown(&f, "ann", 0);
	assert_shown(&f, "bob", 1);
	assert_counts(&f, 1);
	assert_sound(&f);
	tick_at(&f, START_S + 2 * DAY_S);
	assert_counts(&f, 0);
	assert_int_equal(look(&f).index_entries, 0);
	assert_sound(&f);
	fixture_close(&f);
}

/* ---- time to live that changes ---- */

TEST(lapse_index, entries_stay_when_time_to_live_is_switched_off_and_those_that_are_gone_stay_so)
{
	for (int restarts = 0; restarts < 2; restarts++) {
		struct fixture f;

		open_with_indexes(&f);
		put(&f, "a", "ann", SOON_S);
		put(&f, "b", "bob", HOUR_END_S + 60);
		close_without_merge(&f, CLOSED_S);
		assert_shown(&f, "bob", 0);
		set_ttl(&f, NULL);
		if (restarts)
			fixture_restart(&f);
		assert_shown(&f, "bob", 1); /* it has not expired any more */
		fixture_set_clock(&f, START_S + 10 * DAY_S);
		engine_tick(f.engine); /* walks over them */
		engine_tick(f.engine); /* would close all hours */
		compact(&f);
		assert_shown(&f, "ann", 0);
		assert_shown(&f, "bob", 1);
		assert_int_equal(look(&f).lapsing, 0);
		assert_int_equal(look(&f).hours, 0);
		assert_int_equal(look(&f).index_entries, 2);
		assert_counts(&f, 1);
		assert_sound(&f);
		fixture_close(&f);
	}
}

TEST(lapse_index, entries_follow_the_attribute_to_which_time_to_live_is_moved)
{
	struct fixture f;

	open_with_indexes(&f);
	put(&f, "a", "ann", SOON_S);
	set_ttl(&f, NULL);
	set_ttl(&f, "other");
	engine_tick(f.engine);
	assert_int_equal(look(&f).entries, 1); /* of the row, from the walk */
	assert_int_equal(look(&f).lapsing, 0);
	assert_sound(&f);
	tick_at(&f, START_S + DAY_S);
	assert_shown(&f, "ann", 1);
	put(&f, "a", "ann", SOON_S);
	assert_int_equal(look(&f).entries, 0);
	assert_int_equal(look(&f).lapsing, 3);
	assert_sound(&f);
	tick_at(&f, START_S + 30 * DAY_S + 2 * 3600 + 1);
	assert_shown(&f, "ann", 0);
	assert_int_equal(look(&f).rows + look(&f).index_entries, 0);
	assert_counts(&f, 0);
	fixture_close(&f);
}

static enum err_code index_and_freeze(struct turn_request *w, struct table *t)
{
	struct table_change      ttl = {.kind = CHANGE_TTL, .ttl_attribute = BYTES("")};
	struct table_change      index = {.kind = CHANGE_CREATE_INDEX,
	                                  .index = {.name = BYTES("all"),
	                                            .keys.hash = {BYTES("owner"), VALUE_S},
	                                            .projection = PROJECT_ALL}};
	struct table_change      changes[2] = {index, ttl};
	struct table_alter       alter = {BYTES("things"), changes, 2};
	struct table_description d;
	struct arena             a;
	enum err_code            rc;

	arena_init(&a);
	rc = t->backend->alter(t, &a, &alter, &d, &w->err);
	arena_release(&a);
	return rc;
}

/* One walk does both. */
TEST(lapse_index, an_index_that_comes_as_time_to_live_goes_has_every_row_and_no_hour)
{
	struct turn_request w = {.run = index_and_freeze};
	struct fixture      f;

	open_without_index(&f);
	put(&f, "gone", "ann", SOON_S);
	put(&f, "b", "bob", START_S + DAY_S);
	put(&f, "c", "bob", 0);
	close_without_merge(&f, CLOSED_S);
	assert_int_equal(engine_run(f.engine, &w, &f.err), ERR_NONE);
	engine_tick(f.engine);
	compact(&f);
	assert_int_equal(look(&f).index_entries, 2);
	assert_int_equal(look(&f).lapsing, 0);
	assert_int_equal(shown(&f, "all", "bob"), 2);
	assert_counts(&f, 2);
	assert_sound(&f);
	fixture_close(&f);
}

/* ---- directories of other programs ---- */

/* Rows of a table with an index had expiry entries there. */
TEST(lapse_index, a_directory_of_format_5_is_raised_and_its_rows_are_swept_as_before)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable",
	           "{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'"
	           "AttributeName':'p','AttributeType':'S'}," OWNER "],'KeySchema':[{'AttributeName':'p','"
	           "KeyType':'HASH'}],'GlobalSecondaryIndexes':[" GSI("all", "ALL") "]}");
	put(&f, "a", "ann", SOON_S);
	put(&f, "b", "bob", SOON_S);
	set_ttl(&f, "ttl"); /* from here on they are as older programs store them */
	engine_tick(f.engine);
	assert_int_equal(look(&f).entries, 2);
	engine_close(f.engine);
	lower_format(&f, 5);
	fixture_start(&f);
	assert_int_equal(format_of(&f), DIRECTORY_FORMAT);
	assert_sound(&f);
	put(&f, "b", "bob", SOON_S + 1);
	assert_int_equal(look(&f).entries, 1);
	assert_int_equal(look(&f).lapsing, 2);
	tick_at(&f, SOON_S + 601);
	assert_int_equal(look(&f).rows, 1); /* "a" was swept */
	assert_int_equal(look(&f).index_entries, 1);
	assert_sound(&f);
	tick_at(&f, CLOSED_S);
	assert_int_equal(look(&f).rows + look(&f).index_entries + look(&f).entries, 0);
	assert_counts(&f, 0);
	assert_sound(&f);
	fixture_close(&f);
}
