/* Deleted ranges: rows and entries of deleted tables and indexes stay in the store's files until these are merged. Cursors within a table do not know of
 * deleted ranges (engine/rocks.h R3), so each walk over several tables is shown here to find nothing of them: verifying, counting, the filter, `gatehouse
 * check`, and a start that looks for logs. */
#include "engine/crew.h"

#include "engine/check.h"
#include "engine/journal.h"
#include "engine/logs.h"
#include "engine/partition.h"
#include "engine/state.h"

enum {
	ROWS = 100,
	AT_ONCE = 25,
	LOG_ROWS = PARTITION_WHOLE_ROWS_MAX + ENDS_IN_ORDER + AT_ONCE, /* after which a log has a tail */
	LOGS = LOGS_MAX, /* tables: some share a place (engine/ends.h) */
};

#define TABLE_NAMED                                                                                          \
	"{'TableName':'%s','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'AttributeName':'p',"    \
	"'AttributeType':'S'},{'AttributeName':'s','AttributeType':'N'},{'AttributeName':'n',"               \
	"'AttributeType':'N'}],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'},{'AttributeName':'s',"    \
	"'KeyType':'RANGE'}],'GlobalSecondaryIndexes':[{'IndexName':'by-n','KeySchema':[{"                   \
	"'AttributeName':'n','KeyType':'HASH'}],'Projection':{'ProjectionType':'ALL'}}]}"

static void create(struct fixture *f, const char *table)
{
	fixture_ok(f, "CreateTable", arena_printf(&f->arena, TABLE_NAMED, table).data);
}

static void delete_table(struct fixture *f, const char *table)
{
	fixture_ok(f, "DeleteTable", arena_printf(&f->arena, "{'TableName':'%s'}", table).data);
}

static void delete_index(struct fixture *f, const char *table)
{
	fixture_ok(
	        f, "UpdateTable",
	        arena_printf(
	                &f->arena,
	                "{'TableName':'%s','GlobalSecondaryIndexUpdates':[{'Delete':{'IndexName':'by-n'}}]}",
	                table)
	                .data);
}

/* From this number on, in one partition, which has the table's name. */
static void put(struct fixture *f, const char *table, int from, int count)
{
	for (int i = from; i < from + count; i += AT_ONCE) {
		struct buf body;

		buf_init(&body, &f->arena);
		buf_add_bytes(&body, arena_printf(&f->arena, "{'RequestItems':{'%s':[", table));
		for (int j = i; j < i + AT_ONCE; j++)
			buf_add_bytes(&body, arena_printf(&f->arena,
			                                  "%s{'PutRequest':{'Item':{'p':{'S':'%s'},'s':{"
			                                  "'N':'%d'},'n':{'N':'%d'}}}}",
			                                  j == i ? "" : ",", table, j, j % 10));
		buf_add(&body, "]}}", sizeof("]}}"));
		fixture_ok(f, "BatchWriteItem", body.data);
		arena_reset(&f->arena);
	}
}

/* The journal is the writer's. */
static enum err_code next_segment_run(struct turn_request *w, struct table *t)
{
	return journal_next_segment(((struct engine_session *)t)->engine->journal, &w->err);
}

static void checkpoint(struct fixture *f)
{
	struct turn_request next = {.run = next_segment_run};

	assert_int_equal(engine_run(f->engine, &next, &f->err), ERR_NONE);
	assert_int_equal(checkpoint_run(f->engine, &f->err), ERR_NONE);
}

static void assert_gone(struct fixture *f, int entries)
{
	assert_verified(f);
	if (engine_verify_counts(f->engine, &f->err) != ERR_NONE)
		fail_msg("%s", f->err.text);
	filter_note_deleted(f->engine->filter, UINT32_MAX); /* which makes it due */
	engine_build_filter(f->engine);
	assert_in_range(filter_stats(f->engine->filter).entries, 1, entries);
}

static void on_progress(void *ctx, enum check_phase phase, unsigned percent, const struct check_found *found)
{
	(void)ctx;
	(void)phase;
	(void)percent;
	(void)found;
}

static void on_problem(void *ctx, const char *text)
{
	(void)ctx;
	fail_msg("%s", text);
}

static void assert_checked(struct fixture *f, uint64_t rows)
{
	struct check_watch watch = {.progress = on_progress, .problem = on_problem};
	struct check_found found;

	assert_int_equal(engine_check(f->dir, &watch, &found, &f->err), ERR_NONE);
	assert_true(check_is_sound(&found));
	assert_int_equal(found.counts.rows, rows);
}

TEST(deleted_range, is_gone_for_every_walk_while_its_rows_are_still_in_the_files)
{
	struct fixture f;

	fixture_open(&f);
	create(&f, "first");
	create(&f, "kept");
	create(&f, "last");
	put(&f, "first", 0, ROWS);
	put(&f, "kept", 0, ROWS);
	put(&f, "last", 0, ROWS);
	checkpoint(&f);
	delete_table(&f, "first");
	delete_index(&f, "kept");
	delete_table(&f, "last");
	assert_gone(&f, 2 * ROWS);
	fixture_die(&f); /* the journal alone has it */
	assert_checked(&f, ROWS);
	fixture_start(&f);
	assert_gone(&f, 2 * ROWS);
	checkpoint(&f);
	assert_gone(&f, 2 * ROWS);
	fixture_restart(&f);
	assert_gone(&f, 2 * ROWS);
	engine_close(f.engine);
	assert_checked(&f, ROWS);
	fixture_release(&f);
}

TEST(deleted_range, logs_of_deleted_tables_take_no_place_after_a_restart)
{
	struct fixture f;
	char           name[16];

	fixture_open(&f);
	create(&f, "kept");
	put(&f, "kept", 0, ROWS);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < LOGS; i++) {
			snprintf(name, sizeof(name), "log-%d", i);
			create(&f, name);
			put(&f, name, 0, LOG_ROWS);
		}
		checkpoint(&f); /* (R2): from here on they are logs */
		for (int i = 0; i < LOGS; i++) {
			snprintf(name, sizeof(name), "log-%d", i);
			put(&f, name, LOG_ROWS, AT_ONCE);
		}
		checkpoint(&f);
		assert_in_range(atomic_load(&f.engine->write_back.tail.files), LOGS_MAX / 2 + 1,
		                LOGS); /* twice as many are too many */
		for (int i = 0; i < LOGS; i++) {
			snprintf(name, sizeof(name), "log-%d", i);
			delete_table(&f, name);
		}
		fixture_restart(&f);
		assert_gone(&f, 2 * ROWS);
	}
	fixture_close(&f);
}
