/* Tables that change while they are used: indexes and time to live that come and go. */
#include "engine/fixture.h"

#include <sched.h>

#define TTL(enabled)                                                                                         \
	"{'TableName':'things','TimeToLiveSpecification':{'Enabled':" enabled ",'AttributeName':'ttl'}}"
#define INDEX_ON(type)                                                                                       \
	"{'TableName':'things','AttributeDefinitions':[{'AttributeName':'g','AttributeType':'" type "'}],"   \
	"'GlobalSecondaryIndexUpdates':[{'Create':{'IndexName':'by_g','KeySchema':[{'AttributeName':'g',"    \
	"'KeyType':'HASH'}],'Projection':{'ProjectionType':'KEYS_ONLY'}}}]}"
#define INDEX_OFF "{'TableName':'things','GlobalSecondaryIndexUpdates':[{'Delete':{'IndexName':'by_g'}}]}"
#define PUT_G     "{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'1'},'g':{'S':'x'}}}"

/* The answer to a write is encoded after the turn, when the index may be gone. */
TEST(change, the_answer_to_a_write_does_not_depend_on_the_index_it_names)
{
	struct fixture f;
	union answer   r;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "UpdateTable", INDEX_ON("S"));
	engine_tick(f.engine);
	r = fixture_ok(&f, "PutItem", PUT_G);
	assert_int_equal(r.write.capacity.index_count, 1);
	fixture_ok(&f, "UpdateTable", INDEX_OFF);
	fixture_ok(&f, "PutItem", PUT_G);
	assert_true(bytes_is(r.write.capacity.indexes[0].name, "by_g"));
	fixture_close(&f);
}

TEST(change, a_row_that_does_not_fit_a_later_index_is_not_in_it_and_that_is_no_damage)
{
	struct fixture f;
	union answer   r;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "PutItem", PUT_G);
	fixture_ok(&f, "UpdateTable", INDEX_ON("N"));
	engine_tick(f.engine);
	r = fixture_ok(&f, "Scan", "{'TableName':'things','IndexName':'by_g'}");
	assert_int_equal(r.query.count, 0);
	assert_verified(&f);
	fixture_close(&f);
}

TEST(change, an_index_that_gives_a_key_another_type_is_refused)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_fails(
	        &f, "UpdateTable",
	        "{'TableName':'things','AttributeDefinitions':[{'AttributeName':'s','AttributeType':'N'"
	        "}],'GlobalSecondaryIndexUpdates':[{'Create':{'IndexName':'by_s','KeySchema':[{"
	        "'AttributeName':'s','KeyType':'HASH'}],'Projection':{'ProjectionType':'ALL'}}}]}",
	        ERR_INVALID,
	        "One or more parameter values were invalid: Attribute s is already defined with another "
	        "type");
	fixture_ok(&f, "UpdateTable", INDEX_ON("S"));
	fixture_fails(
	        &f, "UpdateTable",
	        "{'TableName':'things','AttributeDefinitions':[{'AttributeName':'g','AttributeType':'B'"
	        "}],'GlobalSecondaryIndexUpdates':[{'Create':{'IndexName':'by_g2','KeySchema':[{"
	        "'AttributeName':'g','KeyType':'HASH'}],'Projection':{'ProjectionType':'ALL'}}}]}",
	        ERR_INVALID,
	        "One or more parameter values were invalid: Attribute g is already defined with another "
	        "type");
	fixture_ok(&f, "PutItem", PUT_G);
	fixture_close(&f);
}

static void put_rows(struct fixture *f, int count, const char *more)
{
	for (int i = 0; i < count; i++)
		fixture_ok(f, "PutItem",
		           arena_printf(&f->arena,
		                        "{'TableName':'things','Item':{'p':{'S':'%d'},'s':{'S':'1'}%s}}", i,
		                        more)
		                   .data);
}

TEST(change, the_counts_of_an_index_are_right_also_if_rows_went_while_it_was_filled)
{
	struct fixture f;
	union answer   r;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	put_rows(&f, 1000, ",'g':{'S':'x'}");
	fixture_ok(&f, "UpdateTable", INDEX_ON("S"));
	for (int i = 0; i < 200; i++) /* some before the fill comes to them, some after */
		fixture_ok(&f, "DeleteItem",
		           arena_printf(&f.arena,
		                        "{'TableName':'things','Key':{'p':{'S':'%d'},'s':{'S':'1'}}}", i)
		                   .data);
	engine_tick(f.engine);
	r = fixture_ok(&f, "DescribeTable", "{'TableName':'things'}");
	assert_int_equal(r.table.item_count, 800);
	assert_int_equal(r.table.index_item_counts[0], 800);
	assert_verified(&f);
	fixture_close(&f);
}

/* ---- time to live, off and on again within one turn ---- */

struct toggle {
	struct turn_request base;
	struct fixture     *f;
	struct table_write  puts[64];
};

static enum err_code toggle_ttl(struct toggle *g, struct table *t, struct bytes attribute)
{
	struct table_change      change = {.kind = CHANGE_TTL, .ttl_attribute = attribute};
	struct table_alter       alter = {BYTES("things"), &change, 1};
	struct table_description description;

	return t->backend->alter(t, &g->f->arena, &alter, &description, &g->base.err);
}

static enum err_code toggle_run(struct turn_request *w, struct table *t)
{
	struct toggle            *g = (struct toggle *)w;
	struct table_write_result r;

	if (toggle_ttl(g, t, BYTES("")) != ERR_NONE)
		return w->err.code;
	for (int i = 0; i < 64; i++)
		if (t->backend->write(t, &g->f->arena, &g->puts[i], &r, &w->err) != ERR_NONE)
			return w->err.code;
	return toggle_ttl(g, t, BYTES("ttl"));
}

/* A backfill that is under way has passed half of these rows, and would not come back for them. */
TEST(change, time_to_live_switched_off_and_on_again_during_a_fill_misses_no_row)
{
	struct fixture f;
	struct toggle  g = {.base = {.run = toggle_run}, .f = &f};
	uint64_t       batches;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	put_rows(&f, 2000, "");
	for (int i = 0; i < 64; i++) {
		struct bytes item = arena_printf(
		        &f.arena, "{'p':{'S':'new%d'},'s':{'S':'1'},'ttl':{'N':'%d'}}", i, START_S + 5000);

		g.puts[i] = (struct table_write){
		        .kind = TABLE_PUT, .table = BYTES("things"), .item = fixture_item(&f, item.data)};
	}
	batches = engine_stats(f.engine).batches;
	fixture_ok(&f, "UpdateTimeToLive", TTL("true"));
	while (engine_stats(f.engine).batches < batches + 10)
		sched_yield();
	assert_int_equal(engine_run(f.engine, &g.base, &f.err), ERR_NONE);
	engine_tick(f.engine);
	assert_verified(&f);
	fixture_close(&f);
}

/* ---- the data directory ---- */

TEST(change, a_format_file_left_half_written_by_a_crash_does_not_matter)
{
	struct fixture f;
	char           command[256], path[128];
	FILE          *file;

	fixture_open(&f);
	engine_close(f.engine);
	snprintf(command, sizeof(command), "cd %s && rm -rf store journal FORMAT", f.dir);
	assert_int_equal(system(command), 0);
	snprintf(path, sizeof(path), "%s/FORMAT.new", f.dir);
	file = fopen(path, "w");
	fprintf(file, "gate");
	fclose(file);
	fixture_start(&f);
	fixture_restart(&f);
	fixture_close(&f);
}
