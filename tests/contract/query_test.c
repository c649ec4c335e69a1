/* Query and scan: ranges and order for each type of key, both directions, pages, limits, filters, segments.
 */
#include "contract/contract.h"

/* Texts, numbers and blobs in their order; S, N and B sort by bytes, by value, by unsigned bytes. */
static const char *const texts[] = {"a", "aa", "ab", "b", "z", "é"};
static const char *const numbers[] = {"-100", "-1.5", "-0.25", "0", "0.5", "2", "10"};
static const char *const blobs[] = {"AA==", "AAA=", "AP8=", "AQ==", "gA==", "/w==", "/wA="};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Items of partition a, the last first, each with its number i; and a neighbour on either side. */
static void fill(struct contract *c, const char *type, const char *const *keys, size_t count)
{
	create(c, "S", type, "", "");
	for (size_t i = count; i-- > 0;)
		put(c, BODY(c, "{'p':{'S':'a'},'s':{'%s':'%s'},'i':{'N':'%zu'}}", type, keys[i], i));
	put(c, BODY(c, "{'p':{'S':'A'},'s':{'%s':'%s'}}", type, keys[0]));
	put(c, BODY(c, "{'p':{'S':'b'},'s':{'%s':'%s'}}", type, keys[0]));
}

static union answer query(struct contract *c, const char *type, const char *range, const char *low,
                          const char *high, bool backward)
{
	const char *values = *range == '\0' ? "" : BODY(c, ",':l':{'%s':'%s'}", type, low);

	if (high != NULL)
		values = BODY(c, "%s,':h':{'%s':'%s'}", values, type, high);
	return ok(c, "Query",
	          BODY(c,
	               "{'TableName':'things','KeyConditionExpression':'p = "
	               ":p%s%s','ExpressionAttributeValues':{':p':"
	               "{'S':'a'}%s},'ScanIndexForward':%s}",
	               *range == '\0' ? "" : " AND ", range, values, backward ? "false" : "true"));
}

/* Items i of partition a from first to last, whichever way it is walked. */
static void assert_range(struct contract *c, const char *type, const char *range, const char *low,
                         const char *high, int first, int last)
{
	for (int backward = 0; backward <= 1; backward++) {
		union answer r = query(c, type, range, low, high, backward);

		assert_int_equal(r.query.count, last - first + 1);
		for (int i = 0; i < last - first + 1; i++) {
			const struct value *got = item_get(&r.query.items[i], BYTES("i"));
			int64_t             number;

			assert_non_null(got);
			assert_true(number_to_i64(&got->number, &number));
			assert_int_equal(number, backward ? last - i : first + i);
		}
	}
}

/* Every operator, at the third key and between the third and the fifth. */
static void assert_ranges(struct contract *c, const char *type, const char *const *keys, int count)
{
	assert_range(c, type, "", "", NULL, 0, count - 1);
	assert_range(c, type, "s = :l", keys[2], NULL, 2, 2);
	assert_range(c, type, "s < :l", keys[2], NULL, 0, 1);
	assert_range(c, type, "s <= :l", keys[2], NULL, 0, 2);
	assert_range(c, type, "s > :l", keys[2], NULL, 3, count - 1);
	assert_range(c, type, "s >= :l", keys[2], NULL, 2, count - 1);
	assert_range(c, type, "s BETWEEN :l AND :h", keys[2], keys[4], 2, 4);
	assert_range(c, type, "s < :l", keys[0], NULL, 0, -1);
	assert_range(c, type, "s > :l", keys[count - 1], NULL, 0, -1);
}

CONTRACT(query, of_text_keys_goes_by_bytes)
{
	fill(c, "S", texts, COUNT(texts));
	assert_ranges(c, "S", texts, COUNT(texts));
	assert_range(c, "S", "begins_with(s, :l)", "a", NULL, 0, 2);
	assert_range(c, "S", "begins_with(s, :l)", "ab", NULL, 2, 2);
}

CONTRACT(query, of_number_keys_goes_by_value)
{
	fill(c, "N", numbers, COUNT(numbers));
	assert_ranges(c, "N", numbers, COUNT(numbers));
	assert_range(c, "N", "s > :l", "-1e2", NULL, 1, COUNT(numbers) - 1);
	assert_range(c, "N", "s BETWEEN :l AND :h", "-1", "1", 2, 4);
}

CONTRACT(query, of_binary_keys_goes_by_unsigned_bytes)
{
	fill(c, "B", blobs, COUNT(blobs));
	assert_ranges(c, "B", blobs, COUNT(blobs));
	assert_range(c, "B", "begins_with(s, :l)", "AA==", NULL, 0, 2);
	assert_range(c, "B", "begins_with(s, :l)", "/w==", NULL, 5, 6);
}

CONTRACT(query, of_an_unknown_hash_key_finds_nothing)
{
	create(c, "S", "S", "", "");
	assert_int_equal(ok(c, "Query",
	                    "{'TableName':'things','KeyConditionExpression':'p = "
	                    ":p','ExpressionAttributeValues':{':p':"
	                    "{'S':'nobody'}}}")
	                         .query.count,
	                 0);
}

CONTRACT(query, must_name_the_hash_key_and_only_keys)
{
	create(c, "S", "S", "", "");
	refused(c, "Query",
	        "{'TableName':'things','KeyConditionExpression':'s = "
	        ":p','ExpressionAttributeValues':{':p':{'S':'a'}}}",
	        ERR_INVALID, "Query condition missed key schema element: p");
	refused(c, "Query",
	        "{'TableName':'things','KeyConditionExpression':'p = :p AND x = "
	        ":p','ExpressionAttributeValues':{':p':"
	        "{'S':'a'}}}",
	        ERR_INVALID, "Query condition missed key schema element: s");
	refused(c, "Query",
	        "{'TableName':'things','KeyConditionExpression':'p = "
	        ":p','ExpressionAttributeValues':{':p':{'N':'1'}}}",
	        ERR_INVALID, MSG_QUERY_KEY_TYPE);
}

CONTRACT(query, may_not_filter_by_its_keys)
{
	create(c, "S", "S", "", "");
	refused(c, "Query",
	        "{'TableName':'things','KeyConditionExpression':'p = :p','FilterExpression':'s = :p',"
	        "'ExpressionAttributeValues':{':p':{'S':'a'}}}",
	        ERR_INVALID,
	        "Filter Expression can only contain non-primary key attributes: Primary key attribute: s");
}

/* ---- pages ---- */

#define QUERY_A                                                                                              \
	"'TableName':'things','KeyConditionExpression':'p = "                                                \
	":p','ExpressionAttributeValues':{':p':{'S':'a'}}"

CONTRACT(page, by_page_a_query_returns_everything_once_and_says_where_it_stopped)
{
	union answer r;

	fill(c, "N", numbers, COUNT(numbers));
	r = ok(c, "Query", "{" QUERY_A ",'Limit':3}");
	assert_order(c, &r.query, "-100,-1.5,-0.25");
	assert_true(r.query.more);
	assert_item(&c->f, &r.query.last_key, "{'p':{'S':'a'},'s':{'N':'-0.25'}}");
	r = ok(c, "Query", "{" QUERY_A ",'Limit':3,'ExclusiveStartKey':{'p':{'S':'a'},'s':{'N':'-0.25'}}}");
	assert_order(c, &r.query, "0,0.5,2");
	r = ok(c, "Query", "{" QUERY_A ",'Limit':3,'ExclusiveStartKey':{'p':{'S':'a'},'s':{'N':'2'}}}");
	assert_order(c, &r.query, "10");
	assert_false(r.query.more);
	r = ok(c, "Query",
	       "{" QUERY_A
	       ",'Limit':3,'ScanIndexForward':false,'ExclusiveStartKey':{'p':{'S':'a'},'s':{'N':'0'}}}");
	assert_order(c, &r.query, "-0.25,-1.5,-100");
}

CONTRACT(page, that_ends_exactly_at_its_limit_has_a_last_key_all_the_same)
{
	union answer r;

	fill(c, "N", numbers, COUNT(numbers));
	r = ok(c, "Query", BODY(c, "{" QUERY_A ",'Limit':%zu}", COUNT(numbers)));
	assert_int_equal(r.query.count, COUNT(numbers));
	assert_true(r.query.more);
	r = ok(c, "Query", BODY(c, "{" QUERY_A ",'Limit':%zu}", COUNT(numbers) + 1));
	assert_false(r.query.more);
}

CONTRACT(page, may_start_at_a_key_that_is_not_there)
{
	union answer r;

	fill(c, "N", numbers, COUNT(numbers));
	r = ok(c, "Query", "{" QUERY_A ",'ExclusiveStartKey':{'p':{'S':'a'},'s':{'N':'1'}}}");
	assert_order(c, &r.query, "2,10");
}

CONTRACT(page, limit_counts_what_was_examined_not_what_the_filter_let_through)
{
	union answer r;

	fill(c, "N", numbers, COUNT(numbers));
	r = ok(c, "Query",
	       "{'TableName':'things','KeyConditionExpression':'p = :p','FilterExpression':'i > "
	       ":i','Limit':4,"
	       "'ExpressionAttributeValues':{':p':{'S':'a'},':i':{'N':'2'}}}");
	assert_int_equal(r.query.scanned, 4);
	assert_order(c, &r.query, "0");
	assert_true(r.query.more);
	assert_item(&c->f, &r.query.last_key, "{'p':{'S':'a'},'s':{'N':'0'}}");
}

CONTRACT(page, refuses_a_start_key_that_is_none_or_lies_outside)
{
	fill(c, "N", numbers, COUNT(numbers));
	refused(c, "Query", "{" QUERY_A ",'ExclusiveStartKey':{'p':{'S':'a'}}}", ERR_INVALID,
	        MSG_START_KEY_BAD);
	refused(c, "Query", "{" QUERY_A ",'ExclusiveStartKey':{'p':{'S':'a'},'s':{'S':'1'}}}", ERR_INVALID,
	        MSG_START_KEY_BAD);
	refused(c, "Query", "{" QUERY_A ",'ExclusiveStartKey':{'p':{'S':'b'},'s':{'N':'1'}}}", ERR_INVALID,
	        MSG_START_KEY_RANGE);
}

CONTRACT(page, of_a_table_without_range_key_is_the_only_one)
{
	union answer r;

	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'a'}}");
	r = ok(c, "Query", "{" QUERY_A ",'Limit':1}");
	assert_int_equal(r.query.count, 1);
	assert_false(r.query.more);
	refused(c, "Query", "{" QUERY_A ",'ExclusiveStartKey':{'p':{'S':'a'}}}", ERR_INVALID,
	        MSG_START_KEY_ONE);
}

CONTRACT(page, count_only_returns_no_items_but_counts)
{
	union answer r;

	fill(c, "N", numbers, COUNT(numbers));
	r = ok(c, "Query", "{" QUERY_A ",'Select':'COUNT'}");
	assert_int_equal(r.query.count, COUNT(numbers));
	assert_null(r.query.items);
}

/* Four items of that size together (p a s x and text), and a small one behind. */
static union answer page_of(struct contract *c, size_t total_bytes)
{
	create(c, "S", "S", "", "");
	for (size_t i = 0; i < 4; i++) {
		size_t bytes =
		        i < 3 ? TABLE_PAGE_BYTES_MAX / 4 : total_bytes - 3 * (TABLE_PAGE_BYTES_MAX / 4);

		put(c, BODY(c, "{'p':{'S':'a'},'s':{'S':'%zu'},'x':{'S':'%s'}}", i,
		            text_of_length(c, bytes - 5)));
	}
	put(c, "{'p':{'S':'a'},'s':{'S':'z'}}");
	return ok(c, "Query", "{" QUERY_A "}");
}

CONTRACT(page, holds_a_megabyte)
{
	union answer r = page_of(c, TABLE_PAGE_BYTES_MAX);

	assert_int_equal(r.query.count, 4);
	assert_true(r.query.more);
	r = ok(c, "Query", "{" QUERY_A ",'ExclusiveStartKey':{'p':{'S':'a'},'s':{'S':'3'}}}");
	assert_order(c, &r.query, "z");
	assert_false(r.query.more);
}

CONTRACT(page, holds_not_a_byte_more_than_a_megabyte)
{
	union answer r = page_of(c, TABLE_PAGE_BYTES_MAX + 1);

	assert_int_equal(r.query.count, 3);
	assert_true(r.query.more);
	assert_item(&c->f, &r.query.last_key, "{'p':{'S':'a'},'s':{'S':'2'}}");
}

CONTRACT(page, is_measured_before_the_filter_and_the_projection)
{
	union answer r;

	page_of(c, TABLE_PAGE_BYTES_MAX + 1);
	r = ok(c, "Query",
	       "{'TableName':'things','KeyConditionExpression':'p = "
	       ":p','FilterExpression':'attribute_exists(nothing)',"
	       "'ProjectionExpression':'s','ExpressionAttributeValues':{':p':{'S':'a'}}}");
	assert_int_equal(r.query.count, 0);
	assert_int_equal(r.query.scanned, 3);
	assert_true(r.query.more);
}

/* ---- scans ---- */

enum { MANY = 60 };

static void fill_many(struct contract *c)
{
	create(c, "N", "N", "", "");
	for (int i = 0; i < MANY; i++)
		put(c, BODY(c, "{'p':{'N':'%d'},'s':{'N':'%d'}}", i / 3, i));
}

/* Reads one segment by pages of 7 and ticks off what it finds. */
static void scan_segment(struct contract *c, unsigned segment, unsigned segments, unsigned seen[MANY])
{
	const char  *start = "";
	union answer r;

	do {
		r = ok(c, "Scan",
		       BODY(c, "{'TableName':'things','Segment':%u,'TotalSegments':%u,'Limit':7%s}", segment,
		            segments, start));
		for (uint32_t i = 0; i < r.query.count; i++) {
			int64_t s;

			assert_true(number_to_i64(&item_get(&r.query.items[i], BYTES("s"))->number, &s));
			seen[s]++;
		}
		if (r.query.more) {
			int64_t p, s;

			number_to_i64(&item_get(&r.query.last_key, BYTES("p"))->number, &p);
			number_to_i64(&item_get(&r.query.last_key, BYTES("s"))->number, &s);
			start = BODY(c, ",'ExclusiveStartKey':{'p':{'N':'%lld'},'s':{'N':'%lld'}}",
			             (long long)p, (long long)s);
		}
	} while (r.query.more);
}

CONTRACT(scan, by_segments_and_pages_returns_everything_exactly_once)
{
	static const unsigned segments[] = {1, 2, 3, 16, 1000};

	fill_many(c);
	for (size_t i = 0; i < COUNT(segments); i++) {
		unsigned seen[MANY] = {0};

		for (unsigned s = 0; s < segments[i]; s++)
			scan_segment(c, s, segments[i], seen);
		for (int k = 0; k < MANY; k++)
			assert_int_equal(seen[k], 1);
	}
}

CONTRACT(scan, takes_a_million_segments_and_not_one_more)
{
	fill_many(c);
	ok(c, "Scan", "{'TableName':'things','Segment':999999,'TotalSegments':1000000}");
	refused(c, "Scan", "{'TableName':'things','Segment':0,'TotalSegments':1000001}", ERR_INVALID, NULL);
	refused(c, "Scan", "{'TableName':'things','Segment':4,'TotalSegments':4}", ERR_INVALID, NULL);
}

CONTRACT(scan, refuses_a_start_key_of_another_segment)
{
	unsigned refusals = 0;

	fill_many(c);
	for (unsigned s = 0; s < 2; s++) {
		union answer r;

		refusals += attempt(c, "Scan",
		                    BODY(c,
		                         "{'TableName':'things','Segment':%u,'TotalSegments':2,'"
		                         "ExclusiveStartKey':{'p':"
		                         "{'N':'1'},'s':{'N':'3'}}}",
		                         s),
		                    &r) == ERR_INVALID;
	}
	assert_int_equal(refusals, 1);
	assert_string_equal(c->f.err.text, MSG_START_KEY_SEGMENT);
}

CONTRACT(scan, keeps_the_items_of_a_hash_key_together_and_in_order)
{
	union answer r;

	fill_many(c);
	r = ok(c, "Scan", "{'TableName':'things'}");
	assert_int_equal(r.query.count, MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		int64_t s;

		assert_true(number_to_i64(&item_get(&r.query.items[i], BYTES("s"))->number, &s));
		assert_int_equal(s % 3, i % 3);
	}
}
