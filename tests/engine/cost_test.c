/* What one caller's requests may cost the others: what expressions look at, how long a batch runs, whose turn it is. */
#include "engine/fixture.h"
#include "engine/gate.h"

#include "item/messages.h"

/* ---- what expressions look at ---- */

#define TEN  "xxxxxxxxxx"
#define TEXT TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN /* 100 bytes */

/* Of contains(t, :y) on an item of three attributes: two operands, a name among three, a search for one byte. */
enum {
	SEARCH_COST = 2 * EXPR_NODE_COST + 3 + (100 + 1) * EXPR_SEARCH_COST,
	CONDITION_COST = SEARCH_COST + 105 * EXPR_READ_COST, /* the item's size */
};

#define KEY(s)       "{'p':{'S':'a'},'s':{'S':'" s "'}}"
#define PUT(s)       "{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'" s "'},'t':{'S':'" TEXT "'}}}"
#define SEARCHES     "'ExpressionAttributeValues':{':y':{'S':'y'}}"
#define CONDITION(x) "'ConditionExpression':'" x "'," SEARCHES
#define CHECK(s)                                                                                             \
	"{'ConditionCheck':{'TableName':'things','Key':" KEY(s) "," CONDITION("NOT contains(t, :y)") "}}"
#define SCAN(x) "{'TableName':'things','FilterExpression':'" x "'," SEARCHES "}"

static void open_with(struct fixture *f, size_t expression_bytes_max)
{
	fixture_open(f);
	fixture_ok(f, "CreateTable", TABLE_PS);
	fixture_ok(f, "PutItem", PUT("1"));
	fixture_ok(f, "PutItem", PUT("2"));
	fixture_ok(f, "PutItem", PUT("3"));
	f->options.expression_bytes_max = expression_bytes_max;
	fixture_restart(f);
}

static const char *too_much(const struct fixture *f)
{
	static char text[512];

	snprintf(text, sizeof(text), MSG_EXPRESSION_COST, f->options.expression_bytes_max);
	return text;
}

TEST(cost, a_condition_may_look_at_as_much_as_the_bound_says_and_past_it_nothing_is_written)
{
	static const char *const delete =
	        "{'TableName':'things','Key':" KEY("1") "," CONDITION("NOT contains(t, :y)") "}";
	struct fixture f;

	open_with(&f, CONDITION_COST - 1);
	fixture_fails(&f, "DeleteItem", delete, ERR_INVALID, too_much(&f));
	assert_get(&f, "things", KEY("1"), "{'p':{'S':'a'},'s':{'S':'1'},'t':{'S':'" TEXT "'}}");
	f.options.expression_bytes_max++;
	fixture_restart(&f);
	fixture_ok(&f, "DeleteItem", delete);
	assert_get(&f, "things", KEY("1"), NULL);
	fixture_close(&f);
}

TEST(cost, the_checks_of_a_transaction_share_one_bound_and_past_it_the_request_is_invalid_not_cancelled)
{
	static const char *const transaction = "{'TransactItems':[{'Put':{'TableName':'things','Item':" KEY(
	        "9") "}}," CHECK("1") "," CHECK("2") "]}";
	struct fixture f;

	open_with(&f, 2 * CONDITION_COST - 1);
	fixture_fails(&f, "TransactWriteItems", transaction, ERR_INVALID, too_much(&f));
	assert_get(&f, "things", KEY("9"), NULL);
	f.options.expression_bytes_max++;
	fixture_restart(&f);
	assert_false(fixture_ok(&f, "TransactWriteItems", transaction).transact.cancelled);
	assert_get(&f, "things", KEY("9"), KEY("9"));
	fixture_close(&f);
}

TEST(cost, a_page_ends_once_its_filter_has_looked_at_a_quarter_of_the_bound)
{
	struct fixture f;
	union answer   r;

	open_with(&f, 4 * SEARCH_COST + 3);
	r = fixture_ok(&f, "Scan", SCAN("NOT contains(t, :y)"));
	assert_true(r.query.more);
	assert_int_equal(r.query.scanned, 1);
	assert_item(&f, &r.query.last_key, KEY("1"));
	f.options.expression_bytes_max++;
	fixture_restart(&f);
	r = fixture_ok(&f, "Scan", SCAN("NOT contains(t, :y)"));
	assert_int_equal(r.query.scanned, 2);
	fixture_close(&f);
}

/* The first row costs little; the second, alone, as much as a request may, or a byte more. */
TEST(cost, a_row_that_does_not_fit_is_first_on_the_next_page_and_fails_there_if_it_is_too_much_alone)
{
	static const char *const next =
	        "{'TableName':'things','FilterExpression':'NOT contains(t, :y)'," SEARCHES
	        ",'ExclusiveStartKey':" KEY("0") "}";
	struct fixture f;
	union answer   r;

	open_with(&f, SEARCH_COST);
	fixture_ok(&f, "PutItem", "{'TableName':'things','Item':" KEY("0") "}");
	r = fixture_ok(&f, "Scan", SCAN("NOT contains(t, :y)"));
	assert_true(r.query.more);
	assert_int_equal(r.query.count, 1);
	assert_item(&f, &r.query.last_key, KEY("0"));
	assert_int_equal(fixture_ok(&f, "Scan", next).query.count, 1);
	f.options.expression_bytes_max--;
	fixture_restart(&f);
	assert_int_equal(fixture_ok(&f, "Scan", SCAN("NOT contains(t, :y)")).query.count, 1);
	fixture_fails(&f, "Scan", next, ERR_INVALID, too_much(&f));
	fixture_close(&f);
}

/* ---- whose turn it is ---- */

struct worker {
	struct turn_request base;
	struct order       *order;
	char                name;
	size_t              work_bytes;
	int64_t             takes_us;
	uint64_t            batch; /* how many had been committed when it was done */
};

struct order {
	struct fixture *f;
	char            names[16]; /* in the order in which they were run */
	size_t          count;
	atomic_uint     left;
};

static void advance(struct fixture *f, int64_t by_us)
{
	clock_manual_set(&f->clock, clock_steady_us(&f->clock.base) + by_us);
}

static enum err_code worker_run(struct turn_request *w, struct table *t)
{
	struct worker *me = (struct worker *)w;

	(void)t;
	me->order->names[me->order->count++] = me->name;
	w->cost_bytes = me->work_bytes;
	advance(me->order->f, me->takes_us);
	return ERR_NONE;
}

static void worker_done(struct turn_request *w)
{
	struct worker *me = (struct worker *)w;

	me->batch = engine_stats(me->order->f->engine).batches;
	atomic_fetch_sub(&me->order->left, 1);
}

/* Runs all of them, from one queue, in the order given. */
static void run_workers(struct order *o, struct worker *workers, size_t count)
{
	struct gate         gate;
	struct turn_request last = {.run = run_nothing};

	atomic_store(&o->left, (unsigned)count);
	gate_close(&gate, o->f->engine);
	for (size_t i = 0; i < count; i++) {
		workers[i].base.run = worker_run;
		workers[i].base.done = worker_done;
		workers[i].order = o;
		assert_int_equal(engine_submit(o->f->engine, &workers[i].base, &o->f->err), ERR_NONE);
	}
	engine_gathered(o->f->engine);
	gate_open(&gate);
	while (atomic_load(&o->left) > 0) /* each round is a batch of its own, behind those that wait */
		assert_int_equal(engine_run(o->f->engine, &last, &o->f->err), ERR_NONE);
}

TEST(cost, a_batch_ends_by_the_clock_so_that_what_is_done_is_answered)
{
	struct worker  workers[] = {{.name = 'a', .work_bytes = 2 << 20, .takes_us = 4999},
	                            {.name = 'b', .work_bytes = 2 << 20, .takes_us = 1},
	                            {.name = 'c'}};
	struct worker  others[12] = {0}; /* so many are under way that three are not half of them */
	struct fixture f;
	struct order   o = {.f = &f}, before = {.f = &f};

	fixture_open(&f);
	run_workers(&before, others, 12);
	for (int i = 0; i < 3; i++)
		workers[i].base.caller = &workers[i];
	run_workers(&o, workers, 3);
	assert_int_equal(workers[0].batch, workers[1].batch);
	assert_int_equal(workers[2].batch, workers[1].batch + 1);
	fixture_close(&f);
}

TEST(cost, a_caller_of_heavy_requests_waits_for_the_others_and_they_wait_for_one_of_its_at_most)
{
	static const char callers[3];
	struct worker     workers[] = {{.name = 'A', .work_bytes = 1 << 20, .takes_us = 1000},
	                               {.name = 'B', .work_bytes = 1 << 20, .takes_us = 1000},
	                               {.name = 'C', .work_bytes = 1 << 20, .takes_us = 1000},
	                               {.name = 'd', .work_bytes = 5000},
	                               {.name = 'e', .work_bytes = 5000, .takes_us = 5000},
	                               {.name = 'f', .work_bytes = 2 << 20},
	                               {.name = 'g', .work_bytes = 5000}};
	struct fixture    f;
	struct order      o = {.f = &f};

	fixture_open(&f);
	for (int i = 0; i < 7; i++)
		workers[i].base.caller = i < 3 ? &callers[0] : i < 6 ? &callers[1] : &callers[2];
	run_workers(&o, workers, 7);
	/* A puts its caller into debt; d, e and f pass B and C; then one of those, since g waits; then g, then the other. */
	assert_string_equal(o.names, "AdefBgC");
	fixture_close(&f);
}

TEST(cost, a_debt_is_over_after_a_while)
{
	static const char caller = 'A';
	struct worker     first = {.name = 'A', .work_bytes = 4 << 20};
	struct worker     then[] = {{.name = 'B', .work_bytes = 1}, {.name = 'c', .work_bytes = 1}};
	struct fixture    f;
	struct order      o = {.f = &f};

	fixture_open(&f);
	first.base.caller = then[0].base.caller = &caller;
	then[1].base.caller = &f;
	run_workers(&o, &first, 1);
	run_workers(&o, then, 2);
	assert_string_equal(o.names, "AcB");
	advance(&f, 5000); /* 4 MB at 1 MB a millisecond */
	memset(o.names, 0, sizeof(o.names));
	o.count = 0;
	then[0].base.cost_bytes = then[1].base.cost_bytes = 0;
	run_workers(&o, then, 2);
	assert_string_equal(o.names, "Bc");
	fixture_close(&f);
}

TEST(cost, what_waits_for_callers_in_debt_leaves_half_of_the_queue_to_the_others)
{
	static const char caller = 'A';
	struct worker     workers[] = {{.name = 'a', .work_bytes = 4 << 20},
	                               {.name = 'b', .base.cost_bytes = 3 << 20},
	                               {.name = 'c', .base.cost_bytes = 1 << 20},
	                               {.name = 'd', .base.cost_bytes = 1}};
	struct fixture    f;
	struct order      o = {.f = &f};

	fixture_open(&f);
	f.options.queue_bytes_max = 8 << 20;
	fixture_restart(&f);
	for (int i = 0; i < 4; i++)
		workers[i].base.caller = &caller;
	run_workers(&o, workers, 4);
	assert_string_equal(o.names, "abc");
	assert_int_equal(workers[3].base.rc, ERR_CALLER_THROTTLED);
	assert_string_equal(workers[3].base.err.text, "too many heavy writes are waiting; try again shortly");
	assert_int_equal(engine_stats(f.engine).queue_bytes, 0);
	fixture_close(&f);
}
