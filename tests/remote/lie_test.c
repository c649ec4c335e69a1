/* Lies: an endpoint that answers what DynamoDB would not answer to this request. Each lie is an outage: ERR_OVERLOADED to a read,
 * ERR_STORAGE to a write, whose outcome nobody knows then. */
#include "remote/scripted_world.h"

#define LIST(items) "[" items "]"
#define AND         ","
#define ITEM(p, r)  "{\"p\":{\"S\":\"" p "\"},\"r\":{\"S\":\"" r "\"},\"n\":{\"N\":\"1\"}}"
#define KEY(p, r)   "{\"p\":{\"S\":\"" p "\"},\"r\":{\"S\":\"" r "\"}}"
#define ITEMS(n, l) "\"Count\":" #n ",\"ScannedCount\":" #n ",\"Items\":" l
#define LAST(key)   ",\"LastEvaluatedKey\":" key

/* With a sort key, and an index on a number. */
#define TABLE_TWO                                                                                            \
	OK("{\"Table\":{\"TableName\":\"pre-things\",\"TableStatus\":\"ACTIVE\",\"AttributeDefinitions\":["  \
	   "{\"AttributeName\":\"p\",\"AttributeType\":\"S\"},{\"AttributeName\":\"r\",\"AttributeType\":"   \
	   "\"S\"},{\"AttributeName\":\"n\",\"AttributeType\":\"N\"}],\"KeySchema\":[{\"AttributeName\":"    \
	   "\"p\",\"KeyType\":\"HASH\"},{\"AttributeName\":\"r\",\"KeyType\":\"RANGE\"}],"                   \
	   "\"GlobalSecondaryIndexes\":[{\"IndexName\":\"by-n\",\"IndexStatus\":\"ACTIVE\",\"KeySchema\":["  \
	   "{\"AttributeName\":\"p\",\"KeyType\":\"HASH\"},{\"AttributeName\":\"n\",\"KeyType\":\"RANGE\"}"  \
	   "],\"Projection\":{\"ProjectionType\":\"ALL\"}}]}}")

/* ---- pages ---- */

/* What is asked: all of `a` from "b" on, three at most. */
struct asking {
	struct expr_key_condition key;
	struct table_query        q;
	struct member             start[2];
	struct item               start_key;
};

static void asking_init(struct asking *a)
{
	*a = (struct asking){
	        .key = {.hash_name = BYTES("p"),
	                .hash = value_string(BYTES("a")),
	                .range_name = BYTES("r"),
	                .range_kind = RANGE_GE,
	                .low = value_string(BYTES("b"))},
	        .start = {{BYTES("p"), value_string(BYTES("a"))}, {BYTES("r"), value_string(BYTES("bb"))}}};
	a->q = (struct table_query){.table = BYTES("things"), .key = &a->key, .limit = 3};
	a->start_key = (struct item){a->start, 2};
}

static enum err_code ask(const struct peer_step *answer, const struct asking *a, struct table_query_result *r,
                         bool with_ttl)
{
	struct peer_step script[] = {TABLE_TWO, NO_TTL, *answer, OK("{\"Count\":0,\"Items\":[]}")};
	struct peer_step timed = WITH_TTL;
	struct world     w;
	enum err_code    rc;

	if (with_ttl)
		script[1] = timed;
	world_open(&w, peer_open(0, script, 4));
	rc = w.table->backend->query(w.table, &w.arena, &a->q, r, &w.err);
	world_close(&w);
	return rc;
}

static void page_is(enum err_code code, const struct peer_step *answer, const struct asking *a)
{
	struct table_query_result r;

	for (int with_ttl = 0; with_ttl < 2; with_ttl++) {
		enum err_code rc = ask(answer, a, &r, with_ttl);

		if (rc != code)
			fail_msg("%s, %s time to live: ended with %d, not %d", answer->text,
			         with_ttl ? "with" : "without", (int)rc, (int)code);
	}
}

#define PAGE_HOLDS(body, a)                                                                                  \
	page_is(ERR_NONE,                                                                                    \
	        &(const struct peer_step){PEER_ANSWER, "HTTP/1.1 200 OK\r\nContent-Length: "                 \
	                                               "?\r\n\r\n{" body "}"},                               \
	        a)
#define PAGE_LIES(body, a)                                                                                   \
	page_is(ERR_OVERLOADED,                                                                              \
	        &(const struct peer_step){PEER_ANSWER, "HTTP/1.1 200 OK\r\nContent-Length: "                 \
	                                               "?\r\n\r\n{" body "}"},                               \
	        a)

TEST(page, that_is_honest_is_read)
{
	struct asking a;

	asking_init(&a);
	PAGE_HOLDS(ITEMS(0, LIST()), &a);
	PAGE_HOLDS(ITEMS(2, LIST(ITEM("a", "b") AND ITEM("a", "c"))), &a);
	PAGE_HOLDS(ITEMS(3, LIST(ITEM("a", "b") AND ITEM("a", "c") AND ITEM("a", "d"))) LAST(KEY("a", "d")),
	           &a);
	a.q.start = &a.start_key;
	PAGE_HOLDS(ITEMS(1, LIST(ITEM("a", "c"))), &a);
	PAGE_HOLDS(ITEMS(0, LIST()) LAST(KEY("a", "c")), &a);
	a.q.backward = true;
	PAGE_HOLDS(ITEMS(1, LIST(ITEM("a", "b"))), &a);
}

TEST(page, of_more_items_than_its_limit_is_an_outage)
{
	struct asking a;

	asking_init(&a);
	PAGE_LIES(ITEMS(4, LIST(ITEM("a", "b") AND ITEM("a", "c") AND ITEM("a", "d") AND ITEM("a", "e"))),
	          &a);
	PAGE_LIES("\"Count\":1,\"ScannedCount\":4,\"Items\":" LIST(ITEM("a", "b")), &a);
}

TEST(page, whose_counts_do_not_fit_its_items_is_an_outage)
{
	struct asking a;

	asking_init(&a);
	PAGE_LIES("\"Count\":2,\"ScannedCount\":2", &a);
	PAGE_LIES("\"Count\":0", &a);
	PAGE_LIES(ITEMS(2, LIST(ITEM("a", "b"))), &a);
	PAGE_LIES("\"Count\":1,\"ScannedCount\":0,\"Items\":" LIST(ITEM("a", "b")), &a);
	PAGE_LIES(ITEMS(-1, LIST()), &a);
	PAGE_LIES("\"Count\":\"1\",\"Items\":" LIST(ITEM("a", "b")), &a);
	PAGE_LIES("\"Count\":0,\"Items\":{}", &a);
	PAGE_LIES("\"Count\":1,\"Items\":" LIST("7"), &a);
}

TEST(page, of_items_that_were_not_asked_for_is_an_outage)
{
	struct asking a;

	asking_init(&a);
	PAGE_LIES(ITEMS(1, LIST(ITEM("b", "b"))), &a);
	PAGE_LIES(ITEMS(1, LIST(ITEM("a", "aa"))), &a);
	PAGE_LIES(ITEMS(1, LIST("{\"p\":{\"S\":\"a\"}}")), &a);
	PAGE_LIES(ITEMS(1, LIST("{\"p\":{\"S\":\"a\"},\"r\":{\"N\":\"7\"}}")), &a);
	PAGE_LIES(ITEMS(1, LIST("{\"p\":{\"B\":\"YQ==\"},\"r\":{\"S\":\"c\"}}")), &a);
	PAGE_LIES(ITEMS(1, LIST("{}")), &a);
	a.key.range_kind = RANGE_PREFIX;
	PAGE_LIES(ITEMS(1, LIST(ITEM("a", "c"))), &a);
	PAGE_HOLDS(ITEMS(1, LIST(ITEM("a", "bc"))), &a);
	a.key.range_kind = RANGE_BETWEEN;
	a.key.high = value_string(BYTES("d"));
	PAGE_LIES(ITEMS(1, LIST(ITEM("a", "e"))), &a);
	PAGE_HOLDS(ITEMS(1, LIST(ITEM("a", "c"))), &a);
}

TEST(page, out_of_order_or_not_behind_its_start_is_an_outage)
{
	struct asking a;

	asking_init(&a);
	PAGE_LIES(ITEMS(2, LIST(ITEM("a", "d") AND ITEM("a", "c"))), &a);
	PAGE_LIES(ITEMS(2, LIST(ITEM("a", "c") AND ITEM("a", "c"))), &a);
	a.q.start = &a.start_key;
	PAGE_LIES(ITEMS(1, LIST(ITEM("a", "b"))), &a);
	PAGE_LIES(ITEMS(1, LIST(ITEM("a", "bb"))), &a);
	a.q.backward = true;
	PAGE_LIES(ITEMS(1, LIST(ITEM("a", "c"))), &a);
}

TEST(page, whose_last_key_leads_nowhere_or_back_is_an_outage)
{
	struct asking a;

	asking_init(&a);
	PAGE_LIES(ITEMS(0, LIST()) LAST("{\"p\":{\"S\":\"a\"}}"), &a);
	PAGE_LIES(ITEMS(0, LIST()) LAST("{}"), &a);
	PAGE_LIES(ITEMS(0, LIST()) LAST("7"), &a);
	PAGE_LIES(ITEMS(0, LIST()) LAST("{\"p\":{\"S\":\"a\"},\"r\":{\"N\":\"1\"}}"), &a);
	PAGE_LIES(ITEMS(0, LIST()) LAST(ITEM("a", "c")), &a);
	PAGE_LIES(ITEMS(0, LIST()) LAST(KEY("b", "c")), &a);
	PAGE_LIES(ITEMS(1, LIST(ITEM("a", "d"))) LAST(KEY("a", "c")), &a);
	a.q.start = &a.start_key;
	PAGE_LIES(ITEMS(0, LIST()) LAST(KEY("a", "bb")), &a);
	PAGE_LIES(ITEMS(0, LIST()) LAST(KEY("a", "b")), &a);
	a.q.key = NULL; /* a scan */
	PAGE_LIES(ITEMS(0, LIST()) LAST(KEY("a", "bb")), &a);
	PAGE_HOLDS(ITEMS(0, LIST()) LAST(KEY("a", "b")), &a);
}

TEST(page, of_an_index_has_the_keys_of_both_and_may_have_equal_ones)
{
	struct asking a;

	asking_init(&a);
	a.q.index = BYTES("by-n");
	a.key.range_kind = RANGE_NONE;
	PAGE_HOLDS(ITEMS(2, LIST(ITEM("a", "d") AND ITEM("a", "c"))), &a);
	PAGE_HOLDS(ITEMS(1, LIST(ITEM("a", "d"))) LAST(ITEM("a", "d")), &a);
	PAGE_LIES(ITEMS(1, LIST(ITEM("a", "d"))) LAST(KEY("a", "d")), &a);
	PAGE_LIES(ITEMS(1, LIST(KEY("a", "d"))), &a);
	PAGE_LIES(ITEMS(1, LIST("{\"p\":{\"S\":\"a\"},\"n\":{\"N\":\"1\"}}")), &a);
}

/* ---- one item ---- */

#define GET_IS(code, ...)                                                                                    \
	do {                                                                                                 \
		struct table_get_result r;                                                                   \
		struct world            w;                                                                   \
                                                                                                             \
		world_open(&w, peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL, __VA_ARGS__)));             \
		assert_int_equal(get(&w, &r), code);                                                         \
		world_close(&w);                                                                             \
	} while (0)

TEST(item, of_another_key_is_an_outage)
{
	GET_IS(ERR_NONE, OK("{\"Item\":{\"p\":{\"S\":\"a\"}}}"));
	GET_IS(ERR_OVERLOADED, OK("{\"Item\":{\"p\":{\"S\":\"b\"}}}"));
	GET_IS(ERR_OVERLOADED, OK("{\"Item\":{\"p\":{\"B\":\"YQ==\"}}}"));
	GET_IS(ERR_OVERLOADED, OK("{\"Item\":{}}"));
	GET_IS(ERR_OVERLOADED, OK("{\"Item\":[]}"));
	GET_IS(ERR_OVERLOADED, {PEER_ANSWER, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"});
}

TEST(item, that_is_read_has_no_condition_to_be_refused_by)
{
	GET_IS(ERR_OVERLOADED, ERROR("ConditionalCheckFailedException", ""));
	GET_IS(ERR_OVERLOADED, ERROR("TransactionCanceledException", ""));
	GET_IS(ERR_OVERLOADED, ERROR("IdempotentParameterMismatchException", ""));
}

static enum err_code write_ends(struct peer *p, enum return_values returns, bool conditional)
{
	struct table_write_result r;
	struct table_write        q;
	struct world              w;
	enum err_code             rc;

	world_open(&w, p);
	q = count_up(&w);
	q.returns = returns;
	q.condition = conditional ? exists() : NULL;
	q.return_old_on_failure = true;
	rc = w.table->backend->write(w.table, &w.arena, &q, &r, &w.err);
	world_close(&w);
	return rc;
}

#define WRITE_ENDS(code, returns, conditional, ...)                                                          \
	assert_int_equal(write_ends(peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL, __VA_ARGS__)),         \
	                            returns, conditional),                                                   \
	                 code)

TEST(write, whose_answer_shows_another_item_is_unknown)
{
	WRITE_ENDS(ERR_NONE, RETURN_ALL_NEW, true, OK("{\"Attributes\":{\"p\":{\"S\":\"a\"}}}"));
	WRITE_ENDS(ERR_STORAGE, RETURN_ALL_NEW, true, OK("{\"Attributes\":{\"p\":{\"S\":\"b\"}}}"));
	WRITE_ENDS(ERR_NONE, RETURN_ALL_NEW, true, OK("{}")); /* an update that only removes */
	WRITE_ENDS(ERR_NONE, RETURN_ALL_OLD, true, OK("{}"));
	WRITE_ENDS(ERR_STORAGE, RETURN_ALL_OLD, true, OK("{\"Attributes\":{\"n\":{\"N\":\"1\"}}}"));
	WRITE_ENDS(ERR_NONE, RETURN_UPDATED_NEW, true, OK("{\"Attributes\":{\"n\":{\"N\":\"1\"}}}"));
	WRITE_ENDS(ERR_NONE, RETURN_NONE, true, OK("{\"Attributes\":{\"n\":{\"N\":\"1\"}}}"));
	WRITE_ENDS(ERR_STORAGE, RETURN_NONE, true, OK("[]"));
}

TEST(write, that_is_refused_by_a_condition_that_was_not_sent_is_unknown)
{
	WRITE_ENDS(ERR_NONE, RETURN_NONE, true, ERROR("ConditionalCheckFailedException", ""));
	WRITE_ENDS(ERR_STORAGE, RETURN_NONE, false, ERROR("ConditionalCheckFailedException", ""));
	WRITE_ENDS(ERR_STORAGE, RETURN_NONE, true,
	           ERROR("ConditionalCheckFailedException", ",\"Item\":{\"p\":{\"S\":\"b\"}}"));
	WRITE_ENDS(ERR_STORAGE, RETURN_NONE, true, ERROR("TransactionCanceledException", ""));
}

/* ---- transactions ---- */

#define CANCELLED(reasons)                                                                                   \
	BAD("{\"__type\":\"x#TransactionCanceledException\",\"Message\":\"text\",\"CancellationReasons\":"   \
	    "[" reasons "]}")
#define TRANSACTION_IS(code, body)                                                                           \
	do {                                                                                                 \
		struct table_transact_result r;                                                              \
		struct world                 w;                                                              \
                                                                                                             \
		world_open(&w, peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL, body)));                    \
		assert_int_equal(transact(&w, &r), code);                                                    \
		world_close(&w);                                                                             \
	} while (0)

TEST(transaction, that_is_cancelled_for_no_reason_or_a_wrong_one_is_unknown)
{
	TRANSACTION_IS(ERR_NONE, CANCELLED("{\"Code\":\"TransactionConflict\"}"));
	TRANSACTION_IS(ERR_STORAGE, CANCELLED("{\"Code\":\"None\"}"));
	TRANSACTION_IS(ERR_STORAGE, CANCELLED(""));
	TRANSACTION_IS(ERR_STORAGE, CANCELLED("{},{\"Code\":\"TransactionConflict\"}"));
	TRANSACTION_IS(ERR_STORAGE, CANCELLED("{\"Code\":7}"));
	TRANSACTION_IS(ERR_STORAGE, CANCELLED("{\"Code\":\"ConditionalCheckFailed\"}")); /* there was none */
	TRANSACTION_IS(ERR_STORAGE,
	               CANCELLED("{\"Code\":\"TransactionConflict\",\"Item\":{\"p\":{\"S\":\"b\"}}}"));
	TRANSACTION_IS(ERR_STORAGE, ERROR("ConditionalCheckFailedException", ""));
	TRANSACTION_IS(ERR_STORAGE, OK("[]"));
}

/* ---- many items ---- */

static enum err_code gets_end(struct peer *p, bool at_once)
{
	struct member                 keys[2] = {{BYTES("p"), value_string(BYTES("a"))},
	                                         {BYTES("p"), value_string(BYTES("b"))}};
	struct table_get              gets[2];
	struct table_batch_get        q = {gets, 2};
	struct table_batch_get_result r;
	struct world                  w;
	enum err_code                 rc;

	for (int i = 0; i < 2; i++)
		gets[i] = (struct table_get){.table = BYTES("things"), .key = {&keys[i], 1}};
	world_open(&w, p);
	rc = at_once ? w.table->backend->transact_get(w.table, &w.arena, &q, &r, &w.err)
	             : w.table->backend->batch_get(w.table, &w.arena, &q, &r, &w.err);
	world_close(&w);
	return rc;
}

#define GETS_END(code, at_once, body)                                                                        \
	assert_int_equal(gets_end(peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL, OK(body))), at_once),    \
	                 code)
#define ONE(p) "{\"p\":{\"S\":\"" p "\"}}"

TEST(batch, that_answers_what_was_not_asked_is_an_outage)
{
	GETS_END(ERR_NONE, false, "{\"Responses\":{\"pre-things\":[" ONE("b") "]}}");
	GETS_END(ERR_OVERLOADED, false, "{\"Responses\":{\"pre-things\":[" ONE("c") "]}}");
	GETS_END(ERR_OVERLOADED, false, "{\"Responses\":{\"pre-things\":[" ONE("a") "," ONE("a") "]}}");
	GETS_END(ERR_OVERLOADED, false, "{\"Responses\":{\"pre-others\":[" ONE("a") "]}}");
	GETS_END(ERR_OVERLOADED, false, "{\"Responses\":{\"pre-things\":{}}}");
	GETS_END(ERR_OVERLOADED, false, "{\"Responses\":[]}");
	GETS_END(ERR_OVERLOADED, false, "{\"Responses\":{},\"UnprocessedKeys\":[]}");
	GETS_END(ERR_OVERLOADED, false,
	         "{\"Responses\":{\"pre-things\":[" ONE(
	                 "a") "]},\"UnprocessedKeys\":{\"pre-things\":{\"Keys\":[" ONE("a") "]}}}");
	GETS_END(ERR_OVERLOADED, false,
	         "{\"Responses\":{},\"UnprocessedKeys\":{\"pre-things\":{\"Keys\":[" ONE("c") "]}}}");
	GETS_END(ERR_OVERLOADED, false, "{\"Responses\":{},\"UnprocessedKeys\":{\"pre-things\":{}}}");
}

TEST(transaction, that_reads_other_items_than_asked_is_an_outage)
{
	GETS_END(ERR_NONE, true, "{\"Responses\":[{\"Item\":" ONE("a") "},{}]}");
	GETS_END(ERR_OVERLOADED, true, "{\"Responses\":[{\"Item\":" ONE("b") "},{\"Item\":" ONE("a") "}]}");
	GETS_END(ERR_OVERLOADED, true, "{\"Responses\":[{}]}");
	GETS_END(ERR_OVERLOADED, true, "{\"Responses\":[{},{},{}]}");
	GETS_END(ERR_OVERLOADED, true, "{\"Responses\":[7,{}]}");
	GETS_END(ERR_OVERLOADED, true, "{}");
}

/* ---- tables ---- */

#define DESCRIBED(text) OK("{\"Table\":{" text "}}")
#define PARTS                                                                                                \
	"\"AttributeDefinitions\":[{\"AttributeName\":\"p\",\"AttributeType\":\"S\"}],\"KeySchema\":["       \
	"{\"AttributeName\":\"p\",\"KeyType\":\"HASH\"}]"

static enum err_code first_get_ends(struct peer *p)
{
	struct table_get_result r;
	struct world            w;
	enum err_code           rc;

	world_open(&w, p);
	rc = get(&w, &r);
	world_close(&w);
	return rc;
}

#define FIRST_GET_ENDS(code, ...)                                                                            \
	assert_int_equal(first_get_ends(peer_open(0, PEER_SCRIPT(__VA_ARGS__))), code)

TEST(table, that_is_described_as_another_one_is_an_outage)
{
	FIRST_GET_ENDS(ERR_OVERLOADED,
	               DESCRIBED("\"TableName\":\"pre-others\",\"TableStatus\":\"ACTIVE\"," PARTS));
	FIRST_GET_ENDS(ERR_OVERLOADED, DESCRIBED("\"TableName\":\"pre-things\"," PARTS));
	FIRST_GET_ENDS(ERR_OVERLOADED, DESCRIBED("\"TableName\":\"pre-things\",\"TableStatus\":\"ACTIVE\""));
	FIRST_GET_ENDS(ERR_OVERLOADED, OK("{\"Table\":[]}"));
	FIRST_GET_ENDS(ERR_OVERLOADED, TABLE("ACTIVE"), OK("{}"));
	FIRST_GET_ENDS(ERR_OVERLOADED, TABLE("ACTIVE"),
	               OK("{\"TimeToLiveDescription\":{\"TimeToLiveStatus\":\"ENABLED\"}}"));
}

static enum err_code list_ends(struct peer *p)
{
	struct table_list_result r;
	struct world             w;
	enum err_code            rc;

	world_open(&w, p);
	rc = w.table->backend->list(w.table, &w.arena, &(struct table_list){.limit = 2}, &r, &w.err);
	world_close(&w);
	return rc;
}

#define LIST_ENDS(code, ...) assert_int_equal(list_ends(peer_open(0, PEER_SCRIPT(__VA_ARGS__))), code)

TEST(tables, that_are_listed_without_end_are_an_outage)
{
	LIST_ENDS(ERR_NONE, OK("{\"TableNames\":[\"pre-a\"]}"));
	LIST_ENDS(ERR_OVERLOADED, OK("{\"TableNames\":[7]}"));
	LIST_ENDS(ERR_OVERLOADED, OK("{\"TableNames\":[\"not a name\"]}"));
	LIST_ENDS(ERR_OVERLOADED, OK("{\"TableNames\":[\"others\"],\"LastEvaluatedTableName\":\"others\"}"));
	LIST_ENDS(ERR_OVERLOADED, OK("{}"));
}
