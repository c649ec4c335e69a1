/* Rows that count: what a transaction takes of them is one higher each time, goes with the transaction, and leaves all else as it was. */
#include "engine/fixture.h"

enum { COUNTS_MAX = 4 };

/* A transaction that takes numbers of rows of `things` and notes the last of them in a row of its own. */
struct taking {
	struct turn_request    base;
	struct table_numbering numbering;
	struct table_count     counts[COUNTS_MAX];
	struct table_write     writes[2];
	const struct expr     *condition; /* of a second write */
	enum err_code          fails;     /* once it has its numbers */
	bool                   cancelled;
	bool                   again; /* the same once more, without the condition */
	struct fixture        *f;
};

static enum err_code numbered(struct table_numbering *n, struct table_transact_write *out, struct err *err)
{
	struct taking *k = (struct taking *)((char *)n - offsetof(struct taking, numbering));
	struct value   last = value_i64(n->counts[n->count - 1].number);
	struct item    key = fixture_item(k->f, "{'p':{'S':'noted'},'s':{'S':'last'}}");

	if (k->fails != ERR_NONE)
		return err_set(err, k->fails, "it was told to");
	k->writes[0] = (struct table_write){.kind = TABLE_PUT,
	                                    .table = BYTES("things"),
	                                    .item = item_with(&k->f->arena, &key, BYTES("number"), &last)};
	k->writes[1] = (struct table_write){.kind = TABLE_PUT,
	                                    .table = BYTES("things"),
	                                    .item = fixture_item(k->f, "{'p':{'S':'noted'},'s':{'S':'x'}}"),
	                                    .condition = k->condition};
	out->writes = k->writes;
	out->count = 2;
	return ERR_NONE;
}

static enum err_code take_in_turn(struct turn_request *w, struct table *t)
{
	struct taking               *k = (struct taking *)w;
	struct table_transact_write  q = {.numbering = &k->numbering};
	struct table_transact_result r;
	enum err_code                rc = t->backend->transact_write(t, &k->f->arena, &q, &r, &w->err);

	k->cancelled = r.cancelled;
	if (!k->again)
		return rc;
	k->again = false;
	k->condition = NULL;
	k->fails = ERR_NONE;
	return take_in_turn(w, t);
}

static void taking_init(struct taking *k, struct fixture *f)
{
	*k = (struct taking){.base = {.run = take_in_turn, .cost_bytes = 100}, .f = f};
	k->numbering = (struct table_numbering){.counts = k->counts, .numbered = numbered};
}

static void add(struct taking *k, const char *row)
{
	struct bytes key = arena_printf(&k->f->arena, "{'p':{'S':'counts'},'s':{'S':'%s'}}", row);

	k->counts[k->numbering.count++] = (struct table_count){
	        .table = BYTES("things"), .key = fixture_item(k->f, key.data), .name = BYTES("n")};
}

/* The number that a row of that name gives; negative: why none. */
static int64_t take(struct fixture *f, const char *row)
{
	struct taking k;
	enum err_code rc;

	taking_init(&k, f);
	add(&k, row);
	rc = engine_run(f->engine, &k.base, &f->err);
	return rc == ERR_NONE ? k.counts[0].number : -(int64_t)rc;
}

static void assert_counts(struct fixture *f, const char *row, const char *rest)
{
	struct bytes key = arena_printf(&f->arena, "{'p':{'S':'counts'},'s':{'S':'%s'}}", row);
	struct bytes all = arena_printf(&f->arena, "{'p':{'S':'counts'},'s':{'S':'%s'},%s}", row, rest);

	assert_get(f, "things", key.data, all.data);
}

static void put(struct fixture *f, const char *row, const char *rest)
{
	fixture_ok(f, "PutItem",
	           arena_printf(&f->arena,
	                        "{'TableName':'things','Item':{'p':{'S':'counts'},'s':{'S':'%s'},%s}}", row,
	                        rest)
	                   .data);
}

#define TABLE_INDEXED                                                                                        \
	"{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'AttributeName':'p'" \
	",'AttributeType':'S'},{'AttributeName':'s','AttributeType':'S'},{'AttributeName':'n',"              \
	"'AttributeType':'N'}],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'},{'AttributeName':'s',"    \
	"'KeyType':'RANGE'}],'GlobalSecondaryIndexes':[{'IndexName':'by-n','KeySchema':[{'AttributeName':"   \
	"'n','KeyType':'HASH'}],'Projection':{'ProjectionType':'ALL'}}]}"

static void go_up(const char *table)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", table);
	for (int i = 1; i <= 120; i++) {
		assert_int_equal(take(&f, "a"), i);
		if (i % 40 == 0)
			fixture_restart(&f);
		if (i % 30 == 0)
			assert_int_equal(take(&f, "b"), i / 30);
	}
	assert_counts(&f, "a", "'n':{'N':'120'}");
	assert_counts(&f, "b", "'n':{'N':'4'}");
	assert_get(&f, "things", "{'p':{'S':'noted'},'s':{'S':'last'}}",
	           "{'p':{'S':'noted'},'s':{'S':'last'},'number':{'N':'4'}}");
	assert_verified(&f);
	fixture_close(&f);
}

TEST(numbers, go_up_by_one_from_nothing_and_survive_a_restart)
{
	go_up(TABLE_PS);
}

TEST(numbers, of_a_table_with_an_index_are_in_the_index_too)
{
	struct fixture f;

	go_up(TABLE_INDEXED);
	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_INDEXED);
	put(&f, "a", "'n':{'N':'9'}");
	assert_int_equal(take(&f, "a"), 10);
	for (int n = 9; n <= 10; n++)
		assert_int_equal(fixture_ok(&f, "Query",
		                            arena_printf(&f.arena,
		                                         "{'TableName':'things','IndexName':'by-n',"
		                                         "'KeyConditionExpression':'n = :n',"
		                                         "'ExpressionAttributeValues':{':n':{'N':'%d'}}}",
		                                         n)
		                                    .data)
		                         .query.count,
		                 n == 10);
	assert_verified(&f);
	fixture_close(&f);
}

TEST(numbers, of_a_row_that_has_expired_begin_again_and_its_end_is_kept_otherwise)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "UpdateTimeToLive",
	           "{'TableName':'things','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'end'}}");
	put(&f, "a", "'n':{'N':'7'},'end':{'N':'1789000100'}");
	assert_int_equal(take(&f, "a"), 8);
	assert_counts(&f, "a", "'n':{'N':'8'},'end':{'N':'1789000100'}");
	fixture_set_clock(&f, START_S + 101);
	assert_int_equal(take(&f, "a"), 1);
	assert_counts(&f, "a", "'n':{'N':'1'}");
	assert_verified(&f);
	fixture_close(&f);
}

TEST(numbers, leave_what_else_a_row_has)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	put(&f, "a", "'a':{'B':'AAEC'},'n':{'N':'99'},'z':{'L':[{'S':'x'}]}");
	put(&f, "b", "'a':{'M':{'x':{'NULL':true}}},'n':{'N':'99'}"); /* a map stands before it */
	put(&f, "c", "'a':{'BOOL':true}");
	assert_int_equal(take(&f, "a"), 100);
	assert_int_equal(take(&f, "b"), 100);
	assert_int_equal(take(&f, "c"), 1);
	assert_counts(&f, "a", "'a':{'B':'AAEC'},'n':{'N':'100'},'z':{'L':[{'S':'x'}]}");
	assert_counts(&f, "b", "'a':{'M':{'x':{'NULL':true}}},'n':{'N':'100'}");
	assert_counts(&f, "c", "'a':{'BOOL':true},'n':{'N':'1'}");
	fixture_close(&f);
}

TEST(numbers, are_not_taken_from_what_is_none)
{
	static const char *const wrong[] = {"'n':{'S':'5'}", "'n':{'N':'-1'}", "'n':{'N':'1.5'}",
	                                    "'n':{'N':'9223372036854775807'}", "'n':{'N':'1e30'}"};
	struct fixture           f;

	fixture_open(&f);
	assert_int_equal(take(&f, "a"), -(int64_t)ERR_NO_RESOURCE);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct bytes before;

		put(&f, "a", wrong[i]);
		assert_int_equal(take(&f, "a"), -(int64_t)ERR_STORAGE);
		before = arena_printf(&f.arena, "%s", wrong[i]);
		if (i + 1 < sizeof(wrong) / sizeof(wrong[0])) /* 1e30 is shown with all its zeros */
			assert_counts(&f, "a", before.data);
	}
	fixture_close(&f);
}

TEST(numbers, of_several_rows_and_of_one_row_twice_are_taken_in_their_order)
{
	struct fixture f;
	struct taking  k;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	assert_int_equal(take(&f, "a"), 1);
	taking_init(&k, &f);
	add(&k, "a");
	add(&k, "b");
	add(&k, "a");
	add(&k, "b");
	assert_int_equal(engine_run(f.engine, &k.base, &f.err), ERR_NONE);
	assert_int_equal(k.counts[0].number, 2);
	assert_int_equal(k.counts[1].number, 1);
	assert_int_equal(k.counts[2].number, 3);
	assert_int_equal(k.counts[3].number, 2);
	assert_counts(&f, "a", "'n':{'N':'3'}");
	assert_counts(&f, "b", "'n':{'N':'2'}");
	fixture_close(&f);
}

static enum err_code take_remake_take(struct turn_request *w, struct table *t)
{
	struct taking           *k = (struct taking *)w;
	struct table_description d;

	if (take_in_turn(w, t) != ERR_NONE ||
	    t->backend->remove(t, &k->f->arena, BYTES("things"), &d, &w->err) != ERR_NONE ||
	    t->backend->create(t, &k->f->arena, &d.schema, &d, &w->err) != ERR_NONE)
		return w->err.code;
	return take_in_turn(w, t);
}

/* What the turn remembers of the first row is of the table that is gone. */
TEST(numbers, of_a_table_that_is_made_anew_in_the_same_batch_begin_again)
{
	struct fixture f;
	struct taking  k;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	put(&f, "a", "'n':{'N':'41'}");
	taking_init(&k, &f);
	k.base.run = take_remake_take;
	add(&k, "a");
	assert_int_equal(engine_run(f.engine, &k.base, &f.err), ERR_NONE);
	assert_int_equal(k.counts[0].number, 1);
	assert_counts(&f, "a", "'n':{'N':'1'}");
	assert_int_equal(take(&f, "a"), 2);
	assert_verified(&f);
	fixture_close(&f);
}

/* In one turn: a transaction is given up, and the next one of the same turn is made. */
static void take_after_one_that_is_given_up(struct taking *k, bool cancelled, enum err_code rc)
{
	k->again = cancelled || rc != ERR_NONE;
	add(k, "a");
	add(k, "new");
	assert_int_equal(engine_run(k->f->engine, &k->base, &k->f->err), ERR_NONE);
	assert_false(k->cancelled);
}

TEST(numbers, of_a_transaction_that_is_cancelled_or_fails_are_given_again)
{
	struct expr    never = {.kind = EXPR_SAME, .names = (const char *const[]){"n", NULL}};
	struct fixture f;
	struct taking  k;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	put(&f, "a", "'n':{'N':'41'}");
	never.read = fixture_item(&f, "{'n':{'N':'5'}}");
	taking_init(&k, &f);
	k.condition = &never;
	take_after_one_that_is_given_up(&k, true, ERR_NONE);
	assert_int_equal(k.counts[0].number, 42);
	assert_int_equal(k.counts[1].number, 1);
	taking_init(&k, &f);
	k.fails = ERR_LIMIT;
	take_after_one_that_is_given_up(&k, false, ERR_LIMIT);
	assert_int_equal(k.counts[0].number, 43);
	assert_int_equal(k.counts[1].number, 2);
	assert_counts(&f, "a", "'n':{'N':'43'}");
	assert_counts(&f, "new", "'n':{'N':'2'}");
	assert_verified(&f);
	fixture_close(&f);
}

TEST(numbers, of_a_request_that_fails_are_given_again)
{
	struct fixture f;
	struct taking  k;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	taking_init(&k, &f);
	k.fails = ERR_LIMIT;
	add(&k, "a");
	assert_int_equal(engine_run(f.engine, &k.base, &f.err), ERR_LIMIT);
	assert_int_equal(take(&f, "a"), 1);
	fixture_close(&f);
}
