/* A partition that a request has read whole answers for all its rows, those that are not there too: so it must never be stale, and have no row
 * of another. Every engine of these tests compares it with the store (engine.h, checks_absent). */
#include "engine/fixture.h"

#include "engine/known.h"
#include "engine/layout.h"
#include "engine/partition.h"

enum { KEYS = 400000 }; /* of which two share a number, for certain: the hash is a fixed one */

struct steps {
	struct turn_request base;
	struct fixture     *f;
	enum err_code (*run)(struct steps *s, struct table *t);
	struct bytes p; /* the partition */
};

static enum err_code steps_in_turn(struct turn_request *w, struct table *t)
{
	struct steps *s = (struct steps *)w;

	return s->run(s, t);
}

static void in_one_turn(struct fixture *f, const char *p,
                        enum err_code (*run)(struct steps *s, struct table *t))
{
	struct steps s = {.base = {.run = steps_in_turn, .cost_bytes = 100}, .f = f, .run = run};

	s.p = bytes_of(p);
	if (engine_run(f->engine, &s.base, &f->err) != ERR_NONE)
		fail_msg("%s", f->err.text);
}

static void open_filtered(struct fixture *f)
{
	fixture_open(f);
	fixture_ok(f, "CreateTable", TABLE_PS);
	engine_build_filter(f->engine);
}

static struct item key_of(struct steps *s, char letter)
{
	return fixture_item(
	        s->f, arena_printf(&s->f->arena, "{'p':{'S':'%.*s'},'s':{'S':'%c'}}", BYTES_ARG(s->p), letter)
	                      .data);
}

static void put(struct fixture *f, const char *p, char letter, const char *more)
{
	fixture_ok(f, "PutItem",
	           arena_printf(&f->arena, "{'TableName':'things','Item':{'p':{'S':'%s'},'s':{'S':'%c'}%s}}",
	                        p, letter, more)
	                   .data);
}

/* Of three rows: "ac" if there are a and c, and not b. */
static const char *there(struct steps *s, struct table *t)
{
	struct table_get              gets[3];
	struct table_batch_get        q = {gets, 3};
	struct table_batch_get_result r;
	struct buf                    out;

	for (int i = 0; i < 3; i++)
		gets[i] = (struct table_get){.table = BYTES("things"), .key = key_of(s, (char)('a' + i))};
	assert_int_equal(t->backend->batch_get(t, &s->f->arena, &q, &r, &s->f->err), ERR_NONE);
	buf_init(&out, &s->f->arena);
	for (int i = 0; i < 3; i++)
		if (r.results[i].found)
			buf_add_byte(&out, (uint8_t)('a' + i));
	buf_add_byte(&out, 0);
	return out.data;
}

/* The same of a query. */
static const char *queried(struct steps *s, struct table *t, bool backward, uint32_t limit)
{
	struct expr_key_condition key = {
	        .hash_name = BYTES("p"), .hash = value_string(s->p), .range_kind = RANGE_NONE};
	struct table_query q = {.table = BYTES("things"), .key = &key, .backward = backward, .limit = limit};
	struct table_query_result r;
	struct buf                out;

	assert_int_equal(t->backend->query(t, &s->f->arena, &q, &r, &s->f->err), ERR_NONE);
	buf_init(&out, &s->f->arena);
	for (uint32_t i = 0; i < r.count; i++)
		buf_add_bytes(&out, item_get(&r.items[i], BYTES("s"))->text);
	buf_add_bytes(&out, r.more ? BYTES("…") : BYTES(""));
	buf_add_byte(&out, 0);
	return out.data;
}

static bool is_known(const struct steps *s, struct table *t)
{
	const struct turn *turn = ((struct engine_session *)t)->turn;
	struct value       hash = value_string(s->p);

	return turn_known(turn, &s->f->arena, catalog_find(turn->catalog, BYTES("things")), &hash) != NULL;
}

static void write_one(struct steps *s, struct table *t, enum table_action_kind kind, char letter)
{
	struct table_write        w = {.kind = kind, .table = BYTES("things")};
	struct table_write_result r;

	w.item = w.key = key_of(s, letter);
	assert_int_equal(t->backend->write(t, &s->f->arena, &w, &r, &s->f->err), ERR_NONE);
}

/* ---- stale? ---- */

static enum err_code reads_what_it_wrote(struct steps *s, struct table *t)
{
	assert_string_equal(there(s, t), "b");
	assert_true(is_known(s, t));
	write_one(s, t, TABLE_PUT, 'a');
	assert_false(is_known(s, t));
	assert_string_equal(there(s, t), "ab");
	assert_string_equal(queried(s, t, false, 0), "ab");
	write_one(s, t, TABLE_DELETE, 'b');
	assert_string_equal(there(s, t), "a");
	assert_string_equal(queried(s, t, false, 0), "a");
	assert_false(is_known(s, t));
	return ERR_NONE;
}

static enum err_code knows_a(struct steps *s, struct table *t)
{
	assert_string_equal(there(s, t), "a");
	assert_true(is_known(s, t));
	return ERR_NONE;
}

TEST(known, what_the_turn_has_changed_is_read_as_it_was_written)
{
	struct fixture f;

	open_filtered(&f);
	put(&f, "x", 'b', "");
	in_one_turn(&f, "x", reads_what_it_wrote);
	in_one_turn(&f, "x", knows_a);
	assert_verified(&f);
	fixture_close(&f);
}

static enum err_code cancels(struct steps *s, struct table *t)
{
	struct expr                  absent = {.kind = EXPR_SAME, .names = (const char *const[]){"p", NULL}};
	struct table_write           writes[2];
	struct table_transact_write  q = {.writes = writes, .count = 2};
	struct table_transact_result r;

	assert_string_equal(there(s, t), "b");
	writes[0] = (struct table_write){.kind = TABLE_PUT, .table = BYTES("things"), .item = key_of(s, 'a')};
	writes[1] = (struct table_write){
	        .kind = TABLE_DELETE, .table = BYTES("things"), .key = key_of(s, 'b'), .condition = &absent};
	assert_int_equal(t->backend->transact_write(t, &s->f->arena, &q, &r, &s->f->err), ERR_NONE);
	assert_true(r.cancelled);
	assert_string_equal(there(s, t), "b");
	assert_string_equal(queried(s, t, false, 0), "b");
	write_one(s, t, TABLE_PUT, 'c');
	assert_string_equal(there(s, t), "bc");
	return ERR_NONE;
}

TEST(known, what_a_cancelled_transaction_wrote_is_not_there)
{
	struct fixture f;

	open_filtered(&f);
	put(&f, "x", 'b', "");
	in_one_turn(&f, "x", cancels);
	assert_verified(&f);
	fixture_close(&f);
}

/* ---- which ---- */

static enum err_code knows_nothing_of_it(struct steps *s, struct table *t)
{
	assert_string_equal(there(s, t), "");
	assert_true(is_known(s, t));
	assert_string_equal(queried(s, t, false, 0), "");
	write_one(s, t, TABLE_PUT, 'c');
	assert_string_equal(there(s, t), "c");
	return ERR_NONE;
}

TEST(known, one_that_the_filter_lacks_has_no_rows_until_one_is_written)
{
	struct fixture f;

	open_filtered(&f);
	in_one_turn(&f, "new", knows_nothing_of_it);
	assert_verified(&f);
	fixture_close(&f);
}

static enum err_code is_known_of_all(struct steps *s, struct table *t)
{
	assert_string_equal(there(s, t), "abc");
	assert_true(is_known(s, t));
	assert_string_equal(queried(s, t, false, 0), "abcdefgh");
	assert_string_equal(queried(s, t, true, 3), "hgf…");
	return ERR_NONE;
}

static enum err_code is_not_known(struct steps *s, struct table *t)
{
	assert_string_equal(there(s, t), "abc");
	assert_false(is_known(s, t));
	assert_string_equal(queried(s, t, true, 2), "ih…");
	return ERR_NONE;
}

TEST(known, one_of_eight_rows_is_and_one_of_nine_is_not)
{
	struct fixture f;

	open_filtered(&f);
	for (int i = 0; i < PARTITION_SMALL_ROWS_MAX; i++)
		put(&f, "x", (char)('h' - i), "");
	in_one_turn(&f, "x", is_known_of_all);
	put(&f, "x", 'i', "");
	in_one_turn(&f, "x", is_not_known);
	fixture_close(&f);
}

static enum err_code large_is_not_known(struct steps *s, struct table *t)
{
	assert_string_equal(there(s, t), "a");
	assert_false(is_known(s, t));
	return ERR_NONE;
}

/* The bytes are those of keys and values as they are stored: found by trying. */
TEST(known, one_with_much_in_it_is_not)
{
	char           text[PARTITION_SMALL_BYTES_MAX + 1];
	struct fixture f;

	open_filtered(&f);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	text[PARTITION_SMALL_BYTES_MAX - 200] = 0;
	put(&f, "x", 'a', arena_printf(&f.arena, ",'t':{'S':'%s'}", text).data);
	in_one_turn(&f, "x", knows_a);
	text[PARTITION_SMALL_BYTES_MAX - 200] = 'x';
	put(&f, "x", 'a', arena_printf(&f.arena, ",'t':{'S':'%s'}", text).data);
	in_one_turn(&f, "x", large_is_not_known);
	fixture_close(&f);
}

/* ---- rows of others, and rows that cannot be read ---- */

static uint64_t number_of(struct arena *a, uint32_t table, int key)
{
	struct value v = value_string(arena_printf(a, "%d", key));
	struct buf   out;

	buf_init(&out, a);
	layout_partition(&out, table, &v);
	return layout_partition_number(buf_bytes(&out));
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Two keys whose partitions share a number, in every table. Here the number has the key in its lowest bits. */
static void find_two(int *one, int *other)
{
	uint64_t    *numbers = mem_alloc(KEYS * sizeof(*numbers));
	struct arena a;

	arena_init(&a);
	for (int i = 0; i < KEYS; i++) {
		if (i % 1000 == 0)
			arena_reset(&a);
		numbers[i] = number_of(&a, 1, i) << 32 | (uint64_t)i;
	}
	qsort(numbers, KEYS, sizeof(*numbers), by_number);
	for (int i = 1; i < KEYS; i++) {
		if (numbers[i] >> 32 != numbers[i - 1] >> 32)
			continue;
		*one = (int)(uint32_t)numbers[i];
		*other = (int)(uint32_t)numbers[i - 1];
	}
	arena_release(&a);
	free(numbers);
}

static enum err_code knows_b(struct steps *s, struct table *t)
{
	assert_string_equal(there(s, t), "b");
	assert_true(is_known(s, t));
	assert_string_equal(queried(s, t, false, 0), "b");
	return ERR_NONE;
}

TEST(known, partitions_that_share_a_number_do_not_share_rows)
{
	char           one[16], other[16];
	struct fixture f;
	int            x = 0, y = 0;

	open_filtered(&f);
	find_two(&x, &y);
	assert_int_not_equal(x, y);
	snprintf(one, sizeof(one), "%d", x);
	snprintf(other, sizeof(other), "%d", y);
	put(&f, one, 'a', "");
	put(&f, other, 'b', "");
	in_one_turn(&f, one, knows_a);
	in_one_turn(&f, other, knows_b);
	fixture_close(&f);
}

static enum err_code damages_b(struct steps *s, struct table *t)
{
	struct turn *turn = ((struct engine_session *)t)->turn;
	struct item  item = key_of(s, 'b');
	struct buf   key;

	const struct table_entry *table = catalog_find(turn->catalog, BYTES("things"));

	buf_init(&key, &s->f->arena);
	layout_row(&key, table->id, &table->schema.keys, &item);
	turn_put(turn, buf_bytes(&key), BYTES("\xff\xff\xff"), TURN_SOMETHING);
	return ERR_NONE;
}

static enum err_code reads_a_beside_damage(struct steps *s, struct table *t)
{
	struct table_get              q = {.table = BYTES("things"), .key = key_of(s, 'a')};
	struct table_get              damaged = {.table = BYTES("things"), .key = key_of(s, 'b')};
	struct table_batch_get        batch = {&q, 1}, bad = {&damaged, 1};
	struct table_batch_get_result r;

	assert_int_equal(t->backend->batch_get(t, &s->f->arena, &batch, &r, &s->f->err), ERR_NONE);
	assert_true(r.results[0].found);
	assert_false(is_known(s, t));
	assert_int_equal(t->backend->batch_get(t, &s->f->arena, &bad, &r, &s->f->err), ERR_STORAGE);
	return ERR_NONE;
}

TEST(known, one_damaged_row_does_not_hide_the_others)
{
	struct fixture f;

	open_filtered(&f);
	put(&f, "x", 'a', "");
	put(&f, "x", 'b', "");
	in_one_turn(&f, "x", damages_b);
	in_one_turn(&f, "x", reads_a_beside_damage);
	fixture_close(&f);
}

/* ---- expiry ---- */

/* Nor is it kept among the rows that were seen: there is room for few. */
static enum err_code knows_and_sees_a(struct steps *s, struct table *t)
{
	const struct turn *turn = ((struct engine_session *)t)->turn;

	knows_a(s, t);
	assert_string_equal(queried(s, t, false, 0), "a");
	assert_true(turn->seen_count > 0);
	for (size_t i = 0; i < turn->seen_count; i++)
		assert_true(turn->seen[i].row->live);
	return ERR_NONE;
}

TEST(known, an_expired_row_is_absent_at_the_second)
{
	struct fixture f;

	open_filtered(&f);
	fixture_ok(&f, "UpdateTimeToLive",
	           "{'TableName':'things','TimeToLiveSpecification':{'AttributeName':'ttl','Enabled':true}}");
	put(&f, "x", 'a', "");
	put(&f, "x", 'b', arena_printf(&f.arena, ",'ttl':{'N':'%lld'}", (long long)START_S + 900).data);
	fixture_set_clock(&f, START_S + 900);
	in_one_turn(&f, "x", knows_and_sees_a);
	fixture_close(&f);
}

static enum err_code reads_with_other_memory(struct steps *s, struct table *t)
{
	const struct turn *turn = ((struct engine_session *)t)->turn;
	struct value       hash = value_string(s->p);
	struct arena       other;

	assert_string_equal(there(s, t), "a");
	assert_true(is_known(s, t));
	arena_init(&other);
	assert_null(turn_known(turn, &other, catalog_find(turn->catalog, BYTES("things")), &hash));
	arena_release(&other);
	return ERR_NONE;
}

/* What was read lives in the memory that it was read into, which may end before the request does. */
TEST(known, is_only_to_who_reads_into_the_same_memory)
{
	struct fixture f;

	open_filtered(&f);
	put(&f, "x", 'a', "");
	in_one_turn(&f, "x", reads_with_other_memory);
	fixture_close(&f);
}
