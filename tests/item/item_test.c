/* Values, keys and the form on disk. */
#include "test.h"

#include "item/codec.h"
#include "random.h"

static struct value random_value(struct random *r, struct arena *a, unsigned depth);

static struct bytes random_text(struct random *r, struct arena *a)
{
	size_t len = random_below(r, 12);
	char  *text = arena_alloc(a, len);

	for (size_t i = 0; i < len; i++)
		text[i] = (char)(random_below(r, 3) == 0 ? random_below(r, 3) : 'a' + random_below(r, 26));
	return (struct bytes){text, len};
}

static struct item random_item(struct random *r, struct arena *a, unsigned depth)
{
	struct item item = {arena_array(a, 6, sizeof(struct member)), 0};
	uint32_t    count = (uint32_t)random_below(r, 6);

	while (item.count < count) {
		struct bytes name = arena_printf(a, "n%u%.*s", item.count, BYTES_ARG(random_text(r, a)));

		item.members[item.count++] = (struct member){name, random_value(r, a, depth)};
	}
	assert_true(item_sort(&item));
	return item;
}

static struct value random_list(struct random *r, struct arena *a, enum value_type type, unsigned depth)
{
	struct value v = {.type = type};

	v.list.count = 1 + (uint32_t)random_below(r, 4);
	v.list.items = arena_array(a, v.list.count, sizeof(struct value));
	for (uint32_t i = 0; i < v.list.count; i++) {
		if (type == VALUE_L)
			v.list.items[i] = random_value(r, a, depth);
		else if (type == VALUE_NS)
			v.list.items[i] = value_i64((int64_t)(i * 100 + random_below(r, 99)));
		else
			v.list.items[i] = (struct value){.type = value_set_element(type),
			                                 .text = arena_printf(a, "%u", i)};
	}
	if (type != VALUE_L)
		assert_true(value_set_sort(&v.list));
	return v;
}

static struct value random_value(struct random *r, struct arena *a, unsigned depth)
{
	enum value_type type = (enum value_type)random_below(r, VALUE_TYPE_COUNT);

	if (depth == 0 && (type == VALUE_M || type == VALUE_L))
		type = VALUE_S;
	switch (type) {
	case VALUE_S:
	case VALUE_B:
		return (struct value){.type = type, .text = random_text(r, a)};
	case VALUE_N:
		return value_i64((int64_t)random_next(r));
	case VALUE_BOOL:
		return value_bool(random_below(r, 2) == 0);
	case VALUE_NULL:
		return (struct value){.type = VALUE_NULL};
	case VALUE_M:
		return (struct value){.type = VALUE_M, .map = random_item(r, a, depth - 1)};
	default:
		return random_list(r, a, type, depth == 0 ? 0 : depth - 1);
	}
}

TEST(item, what_is_encoded_decodes_to_an_equal_item)
{
	struct random r = {7};
	struct arena  a;
	struct err    err;

	arena_init(&a);
	for (int i = 0; i < 20000; i++) {
		struct item item = random_item(&r, &a, 3), back;
		struct buf  out;

		buf_init(&out, &a);
		item_encode(&out, &item);
		assert_int_equal(item_decode(&a, buf_bytes(&out), &back, &err), ERR_NONE);
		assert_true(item_equal(&item, &back));
		assert_int_equal(item_size(&item), item_size(&back));
		arena_reset(&a);
	}
	arena_release(&a);
}

/* What an item becomes if its number is one higher; false if it cannot be. */
static bool counted(struct arena *a, const struct item *item, struct bytes name, struct item *out)
{
	const struct value *found = item_get(item, name);
	struct value        next;
	int64_t             number;

	if (found == NULL || found->type != VALUE_N || !number_to_i64(&found->number, &number) ||
	    number < 0 || number == INT64_MAX)
		return false;
	next = value_i64(number + 1);
	*out = item_with(a, item, name, &next);
	return true;
}

static bool has_nested_before(const struct item *item, struct bytes name)
{
	for (uint32_t i = 0; i < item->count && bytes_compare(item->members[i].name, name) < 0; i++)
		if (item->members[i].value.type >= VALUE_M)
			return true;
	return false;
}

static void assert_counts(struct arena *a, const struct item *item, struct bytes name)
{
	struct buf  in, out, expected;
	struct item after;
	int64_t     number = -1;
	bool        can = counted(a, item, name, &after) && !has_nested_before(item, name);

	buf_init(&in, a);
	buf_init(&out, a);
	item_encode(&in, item);
	assert_int_equal(item_count_up(&out, buf_bytes(&in), name, &number), can);
	assert_int_equal(out.len > 0, can);
	if (!can)
		return;
	buf_init(&expected, a);
	item_encode(&expected, &after);
	assert_true(bytes_equal(buf_bytes(&out), buf_bytes(&expected)));
	assert_true(value_equal(item_get(&after, name),
	                        &(struct value){.type = VALUE_N, .number = number_from_i64(number)}));
}

TEST(item, a_number_that_is_counted_up_is_all_that_changes_in_the_bytes)
{
	static const int64_t numbers[] = {
	        0,   1,     8,      9,  10,  99,        100,           254,       255,
	        256, 65535, 999999, -1, -10, INT64_MAX, INT64_MAX - 1, INT64_MIN, 1000000000000000000};
	struct random r = {9};
	struct arena  a;

	arena_init(&a);
	for (int i = 0; i < 2000; i++) {
		struct item  item = random_item(&r, &a, 2);
		struct value v = value_i64(numbers[i % (int)(sizeof(numbers) / sizeof(numbers[0]))]);

		assert_counts(&a, &item, BYTES("m"));
		item = item_with(&a, &item, BYTES("m"), &v);
		assert_counts(&a, &item, BYTES("m"));
		if (item.count > 1)
			assert_counts(&a, &item, item.members[0].name);
		arena_reset(&a);
	}
	arena_release(&a);
}

TEST(item, a_row_that_lapses_is_not_counted_up_in_its_bytes)
{
	struct member m = {BYTES("m"), value_i64(5)};
	struct item   item = {&m, 1};
	struct buf    in, out;
	struct arena  a;
	int64_t       number;

	arena_init(&a);
	buf_init(&in, &a);
	buf_init(&out, &a);
	item_encode_lapsing(&in, 7, &item);
	assert_false(item_count_up(&out, buf_bytes(&in), BYTES("m"), &number));
	arena_release(&a);
}

TEST(item, every_truncation_of_an_encoded_item_is_refused)
{
	struct random r = {8};
	struct arena  a;
	struct err    err;

	arena_init(&a);
	for (int i = 0; i < 300; i++) {
		struct item item = random_item(&r, &a, 3), back;
		struct buf  out;

		buf_init(&out, &a);
		item_encode(&out, &item);
		for (size_t len = 0; len < out.len; len++)
			assert_int_equal(item_decode(&a, (struct bytes){out.data, len}, &back, &err),
			                 ERR_STORAGE);
		arena_reset(&a);
	}
	arena_release(&a);
}

/* An item with the number n as its bytes say it. */
static enum err_code number_decode(struct arena *a, const struct number *n)
{
	struct member m = {BYTES("n"), {.type = VALUE_N, .number = *n}};
	struct item   item = {&m, 1}, back;
	struct buf    in, out;
	struct err    err;
	int64_t       number;
	enum err_code rc;

	buf_init(&in, a);
	buf_init(&out, a);
	item_encode(&in, &item);
	rc = item_decode(a, buf_bytes(&in), &back, &err);
	if (rc != ERR_NONE)
		assert_false(item_count_up(&out, buf_bytes(&in), BYTES("n"), &number));
	return rc;
}

TEST(item, a_number_that_is_not_in_normal_form_is_damage)
{
	static const struct number good[] = {{0, 0, 0, false},
	                                     {0, 1, 125, true},
	                                     {0, 1, -130, false},
	                                     {0, 15, -131, false},
	                                     {0x4b3b4ca85a86c47a, 0x098a223fffffffff, 88, true}};
	static const struct number bad[] = {
	        {0, 0, 1, false},    /* zero, otherwise */
	        {0, 0, 0, true},     /* -0 */
	        {0, 10, 0, false},   /* a zero at its end */
	        {1, 4, 0, false},    /* 2^64 + 4 ends in a zero */
	        {0, 1, 126, false},  /* too large, */
	        {0, 15, 125, false}, /* by its digits, too */
	        {0, 1, -131, false}, /* too small */
	        {0, 1, 500, false},  /* longer than any text of a number */
	        {0, 1, -500, true},  {0x4b3b4ca85a86c47a, 0x098a224000000001, 0, false}}; /* 39 digits */
	struct arena a;

	arena_init(&a);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(number_decode(&a, &good[i]), ERR_NONE);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(number_decode(&a, &bad[i]), ERR_STORAGE);
	arena_release(&a);
}

static struct value nested(struct arena *a, unsigned depth)
{
	struct value v = value_bool(true);

	for (unsigned i = 0; i < depth; i++) {
		struct value *inner = arena_alloc(a, sizeof(*inner));

		*inner = v;
		v = (struct value){.type = VALUE_L, .list = {inner, 1}};
	}
	return v;
}

TEST(item, the_deepest_nesting_decodes_and_one_more_level_is_refused)
{
	struct arena a;
	struct err   err;

	arena_init(&a);
	for (unsigned depth = VALUE_DEPTH_MAX; depth <= VALUE_DEPTH_MAX + 1; depth++) {
		struct value  v = nested(&a, depth);
		struct member m = {BYTES("a"), v};
		struct item   item = {&m, 1}, back;
		struct buf    out;

		assert_int_equal(value_depth(&v), depth);
		buf_init(&out, &a);
		item_encode(&out, &item);
		assert_int_equal(item_decode(&a, buf_bytes(&out), &back, &err) == ERR_NONE,
		                 depth == VALUE_DEPTH_MAX);
	}
	arena_release(&a);
}

TEST(item, sizes_are_those_of_dynamodb)
{
	struct value  s = value_string(BYTES("abc")), n = value_i64(-12345), list;
	struct value  elements[2] = {s, n};
	struct member members[2] = {{BYTES("k"), s}, {BYTES("num"), n}};
	struct item   item = {members, 2};

	list = (struct value){.type = VALUE_L, .list = {elements, 2}};
	assert_int_equal(value_size(&s), 3);
	assert_int_equal(value_size(&n), 5); /* 3 for five digits, 1, 1 for the sign */
	assert_int_equal(value_size(&list), 3 + 2 + 3 + 5);
	assert_int_equal(item_size(&item), 1 + 3 + 3 + 5);
}

TEST(key, strings_sort_bytewise_also_with_zero_bytes_and_prefixes)
{
	struct random r = {9};
	struct arena  a;

	arena_init(&a);
	for (int i = 0; i < 50000; i++) {
		struct value x = value_string(random_text(&r, &a)), y = value_string(random_text(&r, &a));
		struct buf   bx, by;
		int          by_value = value_compare(&x, &y), by_bytes;

		buf_init(&bx, &a);
		buf_init(&by, &a);
		key_encode(&bx, &x);
		key_encode(&by, &y);
		by_bytes = bytes_compare(buf_bytes(&bx), buf_bytes(&by));
		assert_int_equal((by_value > 0) - (by_value < 0), (by_bytes > 0) - (by_bytes < 0));
		arena_reset(&a);
	}
	arena_release(&a);
}

TEST(key, a_prefix_is_a_prefix_of_the_key_of_every_string_that_starts_with_it_and_of_no_other)
{
	struct random r = {10};
	struct arena  a;

	arena_init(&a);
	for (int i = 0; i < 50000; i++) {
		struct value x = value_string(random_text(&r, &a)), y = value_string(random_text(&r, &a));
		struct buf   bx, by;

		buf_init(&bx, &a);
		buf_init(&by, &a);
		key_encode(&bx, &x);
		key_encode_prefix(&by, &y);
		assert_int_equal(bytes_starts_with(buf_bytes(&bx), buf_bytes(&by)),
		                 bytes_starts_with(x.text, y.text));
		arena_reset(&a);
	}
	arena_release(&a);
}

TEST(item, setting_and_removing_keeps_the_order_and_shares_the_rest)
{
	struct arena a;
	struct item  item = {0};
	struct value one = value_i64(1), two = value_i64(2);

	arena_init(&a);
	item = item_with(&a, &item, BYTES("m"), &one);
	item = item_with(&a, &item, BYTES("z"), &one);
	item = item_with(&a, &item, BYTES("a"), &one);
	item = item_with(&a, &item, BYTES("m"), &two);
	assert_int_equal(item.count, 3);
	assert_bytes(item.members[0].name, "a");
	assert_bytes(item.members[1].name, "m");
	assert_true(value_equal(item_get(&item, BYTES("m")), &two));
	item = item_without(&a, &item, BYTES("a"));
	item = item_without(&a, &item, BYTES("absent"));
	assert_int_equal(item.count, 2);
	assert_null(item_get(&item, BYTES("a")));
	arena_release(&a);
}
