/* Event shards: who says how many shards the log has, and that all say the same. Numbers are those of event_shards.h. */
#include "service/scene.h"

#include "service/consumer.h"
#include "service/event_shards.h"

/* A process that starts: n is what it wants. */
struct start {
	struct act act;
	uint32_t   found;
};

static enum err_code start_run(struct act *act, struct err *err)
{
	struct start *s = (struct start *)act;

	if (event_shards_find(&act->ctx, (uint32_t)act->n, &s->found, err) != ERR_NONE)
		return err->code;
	return commit(act, err);
}

static enum err_code start(struct scene *x, int wanted, uint32_t *found)
{
	struct start  s = {.act = {.base = {.run = act_run_again}, .x = x, .run = start_run, .n = wanted}};
	enum err_code rc = store_run(x->store, &s.act.base, &x->s.f.err);

	*found = s.found;
	return rc;
}

/* What a start that wants so many finds. */
static uint32_t found_by(struct scene *x, int wanted)
{
	uint32_t found;

	if (start(x, wanted, &found) != ERR_NONE)
		fail_msg("%s", x->s.f.err.text);
	return found;
}

static enum err_code publish_one(struct act *act, struct err *err)
{
	ctx_publish(&act->ctx, &(struct event){.type = EVENT_LOCK_SET, .subject = BYTES("s")});
	return commit(act, err);
}

static void publish(struct scene *x, uint32_t shards)
{
	x->s.all.events.on = EVENT_ALL;
	x->s.all.events.shards = shards;
	assert_int_equal(play(x, publish_one, 0), ERR_NONE);
}

static void row_says(struct scene *x, const char *value)
{
	struct bytes body = arena_printf(&x->s.f.arena,
	                                 "{'TableName':'gatehouse-events','Item':{'PK':{'S':'HEAD'},"
	                                 "'SK':{'S':'SHARDS'},'logShards':%s}}%c",
	                                 value, '\0');

	fixture_ok(&x->s.f, "PutItem", body.data);
}

TEST(event_shards, of_a_new_log_are_as_the_first_who_starts_wants_them)
{
	struct scene x;

	scene_open_anywhere(&x, 1, true);
	assert_int_equal(found_by(&x, 4), 4);
	assert_get(&x.s.f, "gatehouse-events", "{'PK':{'S':'HEAD'},'SK':{'S':'SHARDS'}}",
	           "{'PK':{'S':'HEAD'},'SK':{'S':'SHARDS'},'logShards':{'N':'4'}}");
	assert_int_equal(found_by(&x, 4), 4);
	assert_int_equal(found_by(&x, 0), 4); /* whoever wants none in particular takes what is there */
	assert_int_equal(found_by(&x, 8), 4);
	publish(&x, 4);
	assert_int_equal(found_by(&x, 1), 4);
	scene_close(&x);
}

TEST(event_shards, are_16_unless_set_where_several_publish_and_stay_so)
{
	struct scene x;

	scene_open_anywhere(&x, 1, true);
	assert_int_equal(found_by(&x, 0), EVENT_SHARDS_NEW);
	assert_int_equal(found_by(&x, 4), EVENT_SHARDS_NEW);
	scene_close(&x);
}

/* (3) */
TEST(event_shards, of_a_log_that_an_older_program_began_are_one)
{
	struct scene x;

	scene_open_anywhere(&x, 1, true);
	publish(&x, 1);
	assert_int_equal(found_by(&x, 4), 1);
	assert_get(&x.s.f, "gatehouse-events", "{'PK':{'S':'HEAD'},'SK':{'S':'SHARDS'}}",
	           "{'PK':{'S':'HEAD'},'SK':{'S':'SHARDS'},'logShards':{'N':'1'}}");
	scene_close(&x);
}

static enum err_code make_consumer(struct act *act, struct err *err)
{
	struct consumer_put put;
	struct consumer_new q = {.name = BYTES("c"), .from = {.shards = 1}};

	return consumer_put(&act->ctx, &q, &put, err) == ERR_NONE ? commit(act, err) : err->code;
}

static enum err_code delete_consumer(struct act *act, struct err *err)
{
	return consumer_delete(&act->ctx, BYTES("c"), err) == ERR_NONE ? commit(act, err) : err->code;
}

TEST(event_shards, are_one_once_there_is_a_reader_whose_place_is_kept)
{
	struct scene x;

	scene_open_anywhere(&x, 1, true);
	assert_int_equal(play(&x, make_consumer, 0), ERR_NONE);
	assert_int_equal(found_by(&x, 4), 1);
	scene_close(&x);
	scene_open_anywhere(&x, 1, true);
	assert_int_equal(play(&x, make_consumer, 0), ERR_NONE);
	assert_int_equal(play(&x, delete_consumer, 0), ERR_NONE);
	assert_int_equal(found_by(&x, 4), 4); /* it is gone, and nothing is divided yet */
	scene_close(&x);
}

/* (4) */
TEST(event_shards, of_a_table_with_rows_of_two_logs_are_refused)
{
	struct scene x;
	uint32_t     found;

	scene_open_anywhere(&x, 1, true);
	assert_int_equal(found_by(&x, 4), 4);
	publish(&x, 1); /* as an older program would */
	assert_int_equal(start(&x, 4, &found), ERR_FOREIGN_TABLE);
	assert_non_null(strstr(x.s.f.err.text, "rows of two logs"));
	scene_close(&x);
}

TEST(event_shards, of_a_row_that_says_no_such_number_are_refused)
{
	static const char *const wrong[] = {"{'N':'0'}", "{'N':'101'}", "{'S':'4'}", "{'N':'1.5'}"};
	struct scene             x;
	uint32_t                 found;

	scene_open_anywhere(&x, 1, true);
	assert_int_equal(found_by(&x, EVENT_SHARDS_MAX), EVENT_SHARDS_MAX);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		row_says(&x, wrong[i]);
		assert_int_equal(start(&x, 0, &found), ERR_FOREIGN_TABLE);
	}
	scene_close(&x);
}

static enum err_code start_alone(struct act *act, struct err *err)
{
	assert_true(act->ctx.table->alone);
	return start_run(act, err);
}

TEST(event_shards, where_nobody_else_writes_need_no_row_and_a_log_that_was_imported_keeps_its_own)
{
	struct scene x;
	struct start s = {.act = {.base = {.run = act_run}, .run = start_alone, .n = 0}};

	scene_open(&x, 1, true);
	s.act.x = &x;
	assert_int_equal(engine_run(fixture_engine(&x.s.f), &s.act.base, &x.s.f.err), ERR_NONE);
	assert_int_equal(s.found, 1);
	assert_int_equal(fixture_ok(&x.s.f, "ListTables", "{}").list.count, 0);
	assert_int_equal(found_by(&x, 4), 4); /* as elsewhere */
	assert_int_equal(engine_run(fixture_engine(&x.s.f), &s.act.base, &x.s.f.err), ERR_NONE);
	assert_int_equal(s.found, 4);
	scene_close(&x);
}

/* ---- among others: processes that start at once, with different settings, and one of an older program that publishes ---- */

static bool all_agree(uint64_t seed, bool blind)
{
	enum { STARTS = 4 };
	struct scene x;
	struct start starts[STARTS];
	uint32_t     later;
	bool         same = true;

	scene_open(&x, seed, false);
	scene_rough(&x)->blind = blind;
	rough_hold(x.rough);
	for (int i = 0; i < STARTS; i++) {
		starts[i] = (struct start){.act = {.base = {.run = act_run_again, .done = act_done},
		                                   .x = &x,
		                                   .run = start_run,
		                                   .n = i * 2}};
		assert_int_equal(rough_submit(&x.rough->base, &starts[i].act.base, &x.s.f.err), ERR_NONE);
	}
	rough_release(x.rough);
	rough_finish(x.rough);
	if (start(&x, 1, &later) != ERR_NONE)
		fail_msg("%s", x.s.f.err.text);
	for (int i = 0; i < STARTS; i++)
		same = same && starts[i].act.base.rc == ERR_NONE && starts[i].found == later;
	scene_close(&x);
	return same;
}

TEST(event_shards, of_processes_that_start_at_once_are_the_same)
{
	scene_show(all_agree, 10, 10);
}
