/* Tables: many rows looked at together. */
#include "service/turn.h"

enum { ROWS = TABLE_BATCH_GET_MAX + 1 };

/* A list of rows "row-000", "row-001", …, each followed by itself again. */
static struct looked *rows_twice(struct service *s, struct looked looked[2 * ROWS])
{
	for (int i = 0; i < 2 * ROWS; i++) {
		looked_init(&looked[i], BYTES("many"), arena_printf(&s->f.arena, "row-%03d", i / 2));
		looked[i].next = i + 1 < 2 * ROWS ? &looked[i + 1] : NULL;
	}
	return looked;
}

static void look(struct service *s, struct looked *first)
{
	struct fixture_reader reader;

	struct context ctx;

	fixture_reader_begin(&reader, &s->f);
	ctx = service_context(s, reader.table);
	assert_int_equal(ctx_look_all(&ctx, first, &s->f.err), ERR_NONE);
	fixture_reader_end(&reader);
}

static void look_fails(struct service *s, struct looked *first, enum err_code code, const char *why)
{
	struct fixture_reader reader;

	struct context ctx;

	fixture_reader_begin(&reader, &s->f);
	ctx = service_context(s, reader.table);
	assert_int_equal(ctx_look_all(&ctx, first, &s->f.err), code);
	assert_non_null(strstr(s->f.err.text, why));
	fixture_reader_end(&reader);
}

static enum err_code rows_write(struct turn *turn, struct err *err)
{
	(void)err;
	for (int i = 0; i < CHANGES_MAX; i += 2) {
		struct row row;

		row_init(&row, turn->ctx.arena);
		row_set_text(&row, "PK", BYTES("many"));
		row_set_text(&row, "SK", arena_printf(turn->ctx.arena, "row-%03d", i));
		row_set_i64(&row, "ttl", START_S + (i == 0 ? 10 : 1000));
		ctx_put(&turn->ctx, TABLE_AUTH_STATE, row_item(&row));
	}
	return ERR_NONE;
}

TEST(tables, more_rows_than_one_call_reads_and_rows_that_come_twice_are_all_answered)
{
	struct looked  looked[2 * ROWS];
	struct turn    turn;
	struct service s;

	service_open(&s, NULL);
	turn_take(&s, &turn, rows_write);
	at(&s, 11);
	look(&s, rows_twice(&s, looked));
	for (int i = 0; i < 2 * ROWS; i++) {
		int number = i / 2;

		assert_true(looked[i].answered);
		assert_int_equal(looked[i].found, number > 0 && number % 2 == 0 && number < CHANGES_MAX);
		if (looked[i].found)
			assert_true(bytes_equal(row_text(&looked[i].item, "SK"), looked[i].sk));
	}
	service_close(&s);
}

TEST(tables, of_a_table_that_is_not_there_yet_no_row_is_found)
{
	struct looked  looked[2 * ROWS];
	struct service s;

	service_open(&s, NULL);
	look(&s, rows_twice(&s, looked));
	for (int i = 0; i < 2 * ROWS; i++)
		assert_true(looked[i].answered && !looked[i].found);
	look(&s, NULL);
	service_close(&s);
}

TEST(tables, one_that_somebody_made_with_other_keys_is_named_and_the_caller_not_blamed)
{
	struct looked  looked;
	struct service s;
	struct bytes   name;

	service_open(&s, NULL);
	name = s.all.tables.names[TABLE_AUTH_STATE];
	fixture_ok(
	        &s.f, "CreateTable",
	        arena_printf(
	                &s.f.arena,
	                "{'TableName':'%.*s','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{"
	                "'AttributeName':'mine','AttributeType':'S'}],'KeySchema':[{'AttributeName':'mine',"
	                "'KeyType':'HASH'}]}",
	                BYTES_ARG(name))
	                .data);
	looked_init(&looked, BYTES("many"), BYTES("row"));
	look_fails(&s, &looked, ERR_FOREIGN_TABLE, "auth-state");
	service_close(&s);
}
