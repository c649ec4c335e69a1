/* Walk: a Query over one partition sees rows that are still dirty in the cache, and leaves them waiting; in a turn it sees
 * the turn's own changes over them. Held against a simple model. */
#include "engine/crew.h"

#include "base/fault.h"
#include "engine/settled.h"
#include "random.h"

enum {
	NUMBERS = 60,
	STEPS = 4000,
	MANY_ROWS = 600, /* more than a partition in memory may have */
	TIDE_NUMBERS = 400,
	TIDE_STEPS = 900,
	TIDE = 120,     /* steps from low to high water */
	TIDE_ROWS = 25, /* that a step changes, at most */
	TIDE_GETS = 10,
};

#define THINGS                                                                                               \
	"{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'AttributeName':'p'" \
	",'AttributeType':'S'},{'AttributeName':'s','AttributeType':'N'}],'KeySchema':[{'AttributeName':'p'" \
	",'KeyType':'HASH'},{'AttributeName':'s','KeyType':'RANGE'}]}"

static void put(struct fixture *f, int p, int number, int n)
{
	fixture_ok(
	        f, "PutItem",
	        arena_printf(&f->arena,
	                     "{'TableName':'things','Item':{'p':{'S':'p%d'},'s':{'N':'%d'},'n':{'N':'%d'}}}",
	                     p, number, n)
	                .data);
}

static void delete (struct fixture *f, int p, int number)
{
	fixture_ok(f, "DeleteItem",
	           arena_printf(&f->arena, "{'TableName':'things','Key':{'p':{'S':'p%d'},'s':{'N':'%d'}}}", p,
	                        number)
	                   .data);
}

struct walk {
	int  p, low, high, limit; /* from low to high, both included; limit 0: all */
	bool backward;
};

static const char *walk_body(struct fixture *f, const struct walk *w)
{
	struct bytes limit = w->limit == 0 ? BYTES("") : arena_printf(&f->arena, ",'Limit':%d", w->limit);

	return arena_printf(&f->arena,
	                    "{'TableName':'things','KeyConditionExpression':'p = :p AND s BETWEEN :l AND :h',"
	                    "'ExpressionAttributeValues':{':p':{'S':'p%d'},':l':{'N':'%d'},':h':{'N':'%d'}},"
	                    "'ScanIndexForward':%s%.*s}",
	                    w->p, w->low, w->high, w->backward ? "false" : "true", BYTES_ARG(limit))
	        .data;
}

/* "number=n …", in the order of the walk. */
static struct bytes told(struct fixture *f, const struct table_query_result *r)
{
	struct buf out;

	buf_init(&out, &f->arena);
	for (uint32_t i = 0; i < r->count; i++)
		buf_add_bytes(&out, arena_printf(&f->arena, "%lld=%lld ", (long long)number_in(&r->items[i]),
		                                 (long long)count_in(&r->items[i])));
	return buf_bytes(&out);
}

static void assert_walk(struct fixture *f, struct walk w, const char *expected)
{
	union answer r = fixture_ok(f, "Query", walk_body(f, &w));

	assert_bytes(told(f, &r.query), expected);
}

static void open_with_table(struct fixture *f)
{
	fixture_open(f);
	fixture_ok(f, "CreateTable", THINGS);
}

TEST(walk, sees_rows_that_wait_and_leaves_them_waiting)
{
	struct walk    all = {.p = 1, .high = 100};
	struct fixture f;
	size_t         waiting;

	open_with_table(&f);
	put(&f, 1, 2, 20);
	put(&f, 2, 2, 99);
	fixture_settle(&f);
	put(&f, 1, 1, 10);
	put(&f, 1, 3, 30);
	put(&f, 2, 3, 99);
	waiting = cache_dirty_bytes(f.engine->cache);
	assert_walk(&f, all, "1=10 2=20 3=30 ");
	all.backward = true;
	assert_walk(&f, all, "3=30 2=20 1=10 ");
	assert_int_equal(cache_dirty_bytes(f.engine->cache), waiting);
	assert_true(waiting > 0);
	fixture_close(&f);
}

TEST(walk, a_row_that_waits_hides_the_stored_one_also_if_it_was_deleted)
{
	struct walk    all = {.p = 1, .high = 100};
	struct fixture f;

	open_with_table(&f);
	for (int i = 1; i <= 4; i++)
		put(&f, 1, i, i * 10);
	fixture_settle(&f);
	put(&f, 1, 2, 21);
	delete (&f, 1, 3);
	delete (&f, 1, 4);
	put(&f, 1, 4, 41);
	assert_walk(&f, all, "1=10 2=21 4=41 ");
	all.limit = 2;
	all.backward = true;
	assert_walk(&f, all, "4=41 2=21 ");
	assert_true(cache_dirty_bytes(f.engine->cache) > 0);
	fixture_settle(&f);
	assert_walk(&f, all, "4=41 2=21 ");
	fixture_close(&f);
}

TEST(walk, sees_rows_that_wait_of_a_large_partition)
{
	struct walk    some = {.p = 1, .low = 5, .high = 6};
	struct fixture f;

	open_with_table(&f);
	for (int i = 0; i < MANY_ROWS; i++)
		put(&f, 1, i, 0);
	for (int i = 0; i < MANY_ROWS; i++) /* what is new to a large one does not wait; what changes does */
		put(&f, 1, i, i);
	assert_walk(&f, some, "5=5 6=6 ");
	assert_true(cache_dirty_bytes(f.engine->cache) > 0);
	fixture_close(&f);
}

TEST(walk, a_transaction_of_reads_sees_rows_that_wait_and_those_that_were_deleted)
{
	struct fixture f;
	union answer   r;

	open_with_table(&f);
	put(&f, 1, 1, 10);
	put(&f, 1, 2, 20);
	put(&f, 1, 3, 30);
	fixture_settle(&f);
	delete (&f, 1, 1);
	put(&f, 1, 2, 21);
	r = fixture_ok(
	        &f, "TransactGetItems",
	        "{'TransactItems':[{'Get':{'TableName':'things','Key':{'p':{'S':'p1'},'s':{'N':'1'}}}},"
	        "{'Get':{'TableName':'things','Key':{'p':{'S':'p1'},'s':{'N':'2'}}}},"
	        "{'Get':{'TableName':'things','Key':{'p':{'S':'p1'},'s':{'N':'3'}}}},"
	        "{'Get':{'TableName':'things','Key':{'p':{'S':'p1'},'s':{'N':'4'}}}}]}");
	assert_false(r.batch_get.results[0].found);
	assert_int_equal(count_in(&r.batch_get.results[1].item), 21);
	assert_int_equal(count_in(&r.batch_get.results[2].item), 30);
	assert_false(r.batch_get.results[3].found);
	assert_true(cache_dirty_bytes(f.engine->cache) > 0);
	fixture_close(&f);
}

/* ---- against a model ---- */

struct trial {
	struct fixture base;
	struct random  random;
	int            numbers, n[2][TIDE_NUMBERS]; /* 0: there is none */
	struct walk    walk;
	int            in_turn; /* walks so far */
};

static struct walk walk_random(struct trial *t)
{
	struct random *r = &t->random;
	int            low = (int)random_below(r, (uint64_t)t->numbers);
	int            high = (int)random_below(r, (uint64_t)t->numbers);

	return (struct walk){.p = (int)random_below(r, 2),
	                     .low = low < high ? low : high,
	                     .high = low < high ? high : low,
	                     .limit = random_below(r, 3) == 0 ? 1 + (int)random_below(r, 8) : 0,
	                     .backward = random_below(r, 2) == 0};
}

static struct bytes expected_of(struct trial *t, const struct walk *w)
{
	struct buf out;
	int        count = 0;

	buf_init(&out, &t->base.arena);
	for (int i = 0; i <= w->high - w->low; i++) {
		int number = w->backward ? w->high - i : w->low + i, n = t->n[w->p][number];

		if (n == 0 || (w->limit > 0 && count == w->limit))
			continue;
		buf_add_bytes(&out, arena_printf(&t->base.arena, "%d=%d ", number, n));
		count++;
	}
	buf_add_byte(&out, 0);
	return buf_bytes(&out);
}

/* In the turn of a write, which the walk must see. */
static void walk_in_turn(struct fixture *f, struct table *table)
{
	struct trial             *t = (struct trial *)f;
	struct dynamo_request    *q = arena_zalloc(&f->arena, sizeof(*q));
	struct table_query_result r;

	assert_int_equal(request_query(&f->arena, fixture_json(f, walk_body(f, &t->walk)), q, &f->err),
	                 ERR_NONE);
	assert_int_equal(table->backend->query(table, &f->arena, &q->query, &r, &f->err), ERR_NONE);
	assert_bytes(told(f, &r), expected_of(t, &t->walk).data);
	t->in_turn++;
}

static void change_random(struct trial *t, int step)
{
	int p = (int)random_below(&t->random, 2), number = (int)random_below(&t->random, NUMBERS);

	t->base.in_turn = NULL;
	if (random_below(&t->random, 3) == 0) {
		t->walk = walk_random(t);
		t->base.in_turn = walk_in_turn;
	}
	if (random_below(&t->random, 3) == 0) {
		t->n[p][number] = 0;
		delete (&t->base, p, number);
	} else {
		t->n[p][number] = step;
		put(&t->base, p, number, step);
	}
}

TEST(walk, sees_what_a_model_of_it_holds_whatever_waits)
{
	struct trial t = {.random = {11}, .numbers = NUMBERS};

	open_with_table(&t.base);
	for (int step = 1; step < STEPS; step++) {
		struct walk w = walk_random(&t);

		change_random(&t, step);
		if (random_below(&t.random, 40) == 0)
			fixture_settle(&t.base);
		if (random_below(&t.random, 400) == 0)
			fixture_restart(&t.base);
		assert_walk(&t.base, w, expected_of(&t, &w).data);
		arena_reset(&t.base.arena);
	}
	assert_true(t.in_turn > STEPS / 5);
	assert_verified(&t.base);
	fixture_close(&t.base);
}

/* ---- partitions that become large, and small again: rows go past the cache, and partitions are whole, or loaded, or neither ---- */

static int row_random(struct trial *t)
{
	return (int)random_below(&t->random, (uint64_t)(2 * t->numbers));
}

/* Some rows, all of them put or deleted as the tide has it. */
static const char *rows_random(struct trial *t, int step)
{
	bool       taken[2 * TIDE_NUMBERS] = {0}, rises = step / TIDE % 2 == 0;
	int        count = 1 + (int)random_below(&t->random, TIDE_ROWS);
	struct buf body;

	buf_init(&body, &t->base.arena);
	buf_add_bytes(&body, BYTES("{'RequestItems':{'things':["));
	for (int i = 0; i < count; i++) {
		int  row = row_random(t), p = row % 2, number = row / 2;
		bool puts = random_below(&t->random, 100) < (rises ? 85 : 3);

		if (taken[row])
			continue;
		taken[row] = true;
		t->n[p][number] = puts ? step : 0;
		buf_add_bytes(&body,
		              arena_printf(&t->base.arena, "%s{'%s':{'%s':{'p':{'S':'p%d'},'s':{'N':'%d'}",
		                           i == 0 ? "" : ",", puts ? "PutRequest" : "DeleteRequest",
		                           puts ? "Item" : "Key", p, number));
		if (puts)
			buf_add_bytes(&body, arena_printf(&t->base.arena, ",'n':{'N':'%d'}", step));
		buf_add_bytes(&body, BYTES("}}}"));
	}
	buf_add(&body, "]}}", 4);
	return body.data;
}

/* Rows by their keys, at one moment. */
static void assert_gets(struct trial *t)
{
	struct fixture *f = &t->base;
	int             rows[TIDE_GETS];
	union answer    r;
	struct buf      body;

	buf_init(&body, &f->arena);
	for (int i = 0; i < TIDE_GETS; i++) {
		rows[i] = (row_random(t) / TIDE_GETS * TIDE_GETS + i) %
		          (2 * t->numbers); /* no two are the same */
		buf_add_bytes(&body,
		              arena_printf(&f->arena,
		                           "%s{'Get':{'TableName':'things','Key':{'p':{'S':'p%d'},'s':"
		                           "{'N':'%d'}}}}",
		                           i == 0 ? "{'TransactItems':[" : ",", rows[i] % 2, rows[i] / 2));
	}
	buf_add(&body, "]}", 3);
	r = fixture_ok(f, "TransactGetItems", body.data);
	for (int i = 0; i < TIDE_GETS; i++) {
		const struct table_get_result *got = &r.batch_get.results[i];

		assert_int_equal(got->found ? count_in(&got->item) : 0, t->n[rows[i] % 2][rows[i] / 2]);
	}
}

static void change_rows(struct trial *t, int step)
{
	t->base.in_turn = NULL;
	if (random_below(&t->random, 3) == 0) {
		t->walk = walk_random(t);
		t->base.in_turn = walk_in_turn;
	}
	fixture_ok(&t->base, "BatchWriteItem", rows_random(t, step));
}

/* The disk does not take it: there is no room, and then there is; or it fails, and the directory is opened again. */
static void lose_rows(struct trial *t, int step)
{
	enum fault_point point = random_below(&t->random, 2) ? FAULT_NO_ROOM : FAULT_COMMIT;
	struct fixture  *f = &t->base;
	const char      *body;
	union answer     r;
	int              before[2][TIDE_NUMBERS];

	memcpy(before, t->n, sizeof(before));
	body = rows_random(t, step);
	if (memcmp(before, t->n, sizeof(before)) == 0)
		return; /* rows are deleted that are not there: that writes nothing */
	log_set_level((enum log_level)(LOG_ERROR + 1));
	fault_arm(point, 0);
	assert_int_equal(fixture_try(f, "BatchWriteItem", body, &r),
	                 point == FAULT_NO_ROOM ? ERR_DISK_FULL : ERR_STORAGE);
	fault_disarm(point);
	memcpy(t->n, before, sizeof(before));
	if (point == FAULT_NO_ROOM)
		engine_tick(f->engine);
	else
		fixture_restart(f);
	log_set_level(LOG_ERROR);
}

static void assert_tides(size_t cache_bytes)
{
	struct trial t = {.random = {cache_bytes}, .numbers = TIDE_NUMBERS};
	char         dir[] = "/tmp/gatehouse-test-XXXXXX";

	assert_non_null(mkdtemp(dir));
	fixture_init(&t.base, dir);
	t.base.options.cache_bytes_max = cache_bytes;
	fixture_start(&t.base);
	fixture_ok(&t.base, "CreateTable", THINGS);
	for (int step = 1; step < TIDE_STEPS; step++) {
		struct walk w = walk_random(&t);

		change_rows(&t, step);
		if (random_below(&t.random, 40) == 0)
			lose_rows(&t, step);
		if (random_below(&t.random, 30) == 0)
			fixture_settle(&t.base);
		if (random_below(&t.random, 30) == 0)
			engine_build_filter(t.base.engine);
		if (random_below(&t.random, 150) == 0)
			fixture_restart(&t.base);
		assert_walk(&t.base, w, expected_of(&t, &w).data);
		assert_gets(&t);
		arena_reset(&t.base.arena);
	}
	assert_verified(&t.base);
	assert_int_equal(engine_verify_counts(t.base.engine, &t.base.err), ERR_NONE);
	fixture_close(&t.base);
}

TEST(walk, sees_what_a_model_of_it_holds_while_partitions_become_large_and_small_again)
{
	assert_tides(8 << 20);
}

TEST(walk, so_it_does_where_rows_leave_the_cache)
{
	assert_tides(64 * 1500);
}

TEST(walk, so_it_does_without_a_cache)
{
	assert_tides(0);
}
