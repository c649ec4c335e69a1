/* The AWS-like proxy refuses what overlaps and nothing else, before our own server. */
#include "remote/far_fixture.h"

enum { LONG_US = 20 * 1000 * 1000 }; /* a hold that lasts until it is ended */

struct proxy_world {
	struct fixture    f;
	struct own_server own;
	struct aws_like   p;
};

/* One connection, for one request at a time. */
struct caller {
	struct proxy_world *w;
	int                 fd;
	struct wire_message answer;
	pthread_t           thread;
	const char         *operation;
	char                body[1024];
};

static void caller_open(struct caller *c, struct proxy_world *w)
{
	*c = (struct caller){.w = w, .fd = wire_connect(w->p.port)};
	assert_true(c->fd >= 0);
}

static void caller_close(struct caller *c)
{
	close(c->fd);
	buf_release(&c->answer.raw);
}

static bool caller_send(struct caller *c, const char *operation, const char *body)
{
	char text[2048];

	snprintf(text, sizeof(text),
	         "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
	         "application/x-amz-json-1.0\r\nX-Amz-Target: "
	         "DynamoDB_20120810.%s\r\n"
	         "Content-Length: %zu\r\n\r\n%s",
	         operation, strlen(body), body);
	return wire_send(c->fd, bytes_of(text));
}

/* The status; 0: no answer. */
static int call(struct caller *c, const char *operation, const char *body)
{
	return caller_send(c, operation, body) && wire_read(c->fd, &c->answer) ? wire_status(&c->answer) : 0;
}

static bool said(const struct caller *c, const char *text)
{
	return wire_find(wire_body(&c->answer), bytes_of(text)) != NULL;
}

static int call_once(struct proxy_world *w, const char *operation, const char *body)
{
	struct caller c;
	int           status;

	caller_open(&c, w);
	status = call(&c, operation, body);
	caller_close(&c);
	return status;
}

#define PUT(key, n)                                                                                          \
	"{\"TableName\":\"things\",\"Item\":{\"p\":{\"S\":\"" key                                            \
	"\"},\"s\":{\"S\":\"0\"},\"n\":{\"N\":\"" n "\"}}}"
#define KEY(key)        "{\"TableName\":\"things\",\"Key\":{\"p\":{\"S\":\"" key "\"},\"s\":{\"S\":\"0\"}}}"
#define TWO(verb, a, b) "{\"TransactItems\":[{\"" verb "\":" a "},{\"" verb "\":" b "}]}"

static void proxy_open(struct proxy_world *w)
{
	struct aws_settings s;

	*w = (struct proxy_world){0};
	fixture_open(&w->f);
	own_server_open(&w->own, w->f.engine);
	assert_true(aws_like_open(&w->p, http_server_port(w->own.http), 0));
	assert_int_equal(call_once(w, "CreateTable",
	                           "{\"TableName\":\"things\",\"BillingMode\":\"PAY_PER_REQUEST\","
	                           "\"AttributeDefinitions\":[{\"AttributeName\":\"p\","
	                           "\"AttributeType\":\"S\"},{\"AttributeName\":\"s\",\"AttributeType\":"
	                           "\"S\"}],\"KeySchema\":[{\"AttributeName\":\"p\","
	                           "\"KeyType\":\"HASH\"},{\"AttributeName\":\"s\",\"KeyType\":\"RANGE\"}]}"),
	                 200);
	s = aws_like_settings(&w->p);
	s.hold_us = 0;
	aws_like_set(&w->p, &s);
	assert_int_equal(call_once(w, "PutItem", PUT("warm", "0")),
	                 200); /* the table is active, and its keys are known */
}

static void proxy_close(struct proxy_world *w)
{
	aws_like_close(&w->p);
	own_server_close(&w->own);
	fixture_close(&w->f);
}

static void *caller_run(void *arg)
{
	struct caller *c = arg;

	call(c, c->operation, c->body);
	return NULL;
}

static bool is_held(struct proxy_world *w)
{
	bool held;

	pthread_mutex_lock(&w->p.lock);
	held = w->p.holding > 0; /* before, a release would come too early */
	pthread_mutex_unlock(&w->p.lock);
	return held;
}

/* A request that is under way until hold_end. */
static void hold_begin(struct proxy_world *w, struct caller *c, const char *operation, const char *body)
{
	caller_open(c, w);
	c->operation = operation;
	snprintf(c->body, sizeof(c->body), "%s", body);
	aws_like_fault(&w->p, AWS_HOLD, operation, 1);
	assert_int_equal(pthread_create(&c->thread, NULL, caller_run, c), 0);
	while (!is_held(w))
		usleep(100);
}

static int hold_end(struct proxy_world *w, struct caller *c)
{
	int status;

	aws_like_release(&w->p);
	pthread_join(c->thread, NULL);
	status = wire_status(&c->answer);
	caller_close(c);
	return status;
}

/* ---- what overlaps, and what does not ---- */

struct meeting {
	const char *operation, *body;
	const char *refused_with; /* NULL: it is done */
};

#define CONFLICT_FIRST  "[TransactionConflict, None]"
#define CONFLICT_SECOND "[None, TransactionConflict]"
#define CONFLICT_SINGLE "TransactionConflictException"

static void assert_meetings(struct proxy_world *w, const struct meeting *list, size_t count)
{
	struct caller c;

	caller_open(&c, w);
	for (size_t i = 0; i < count; i++) {
		int status = call(&c, list[i].operation, list[i].body);

		if (list[i].refused_with == NULL && (status != 200 || !said(&c, "{")))
			fail_msg("%s %s: %.*s", list[i].operation, list[i].body,
			         BYTES_ARG(wire_body(&c.answer)));
		if (list[i].refused_with != NULL && (status != 400 || !said(&c, list[i].refused_with)))
			fail_msg("%s %s was not refused: %.*s", list[i].operation, list[i].body,
			         BYTES_ARG(wire_body(&c.answer)));
	}
	caller_close(&c);
}

TEST(proxy, refuses_what_meets_a_transaction_and_nothing_else)
{
	static const struct meeting list[] = {
	        {"PutItem", PUT("a", "1"), CONFLICT_SINGLE},
	        {"UpdateItem", KEY("b"), CONFLICT_SINGLE},
	        {"DeleteItem", KEY("a"), CONFLICT_SINGLE},
	        {"PutItem", PUT("c", "1"), NULL},
	        {"TransactWriteItems", TWO("Put", PUT("c", "2"), PUT("a", "2")), CONFLICT_SECOND},
	        {"TransactWriteItems", TWO("Delete", KEY("b"), KEY("c")), CONFLICT_FIRST},
	        {"TransactWriteItems", TWO("Put", PUT("c", "3"), PUT("d", "3")), NULL},
	        {"TransactGetItems", TWO("Get", KEY("c"), KEY("b")), CONFLICT_SECOND},
	        {"TransactGetItems", TWO("Get", KEY("c"), KEY("d")), NULL},
	        {"GetItem", KEY("a"), NULL},
	        {"BatchGetItem",
	         "{\"RequestItems\":{\"things\":{\"Keys\":[{\"p\":{\"S\":\"a\"},\"s\":{\"S\":\"0\"}}]}}}",
	         NULL},
	        {"Scan", "{\"TableName\":\"things\"}", NULL},
	};
	struct proxy_world w;
	struct caller      held;

	proxy_open(&w);
	hold_begin(&w, &held, "TransactWriteItems", TWO("Put", PUT("a", "0"), PUT("b", "0")));
	assert_meetings(&w, list, sizeof(list) / sizeof(list[0]));
	assert_int_equal(hold_end(&w, &held), 200);
	assert_int_equal(call_once(&w, "PutItem", PUT("a", "1")), 200); /* it is over */
	proxy_close(&w);
}

TEST(proxy, lets_single_writes_meet_each_other_but_no_transaction_that_reads_meet_them)
{
	static const struct meeting list[] = {
	        {"PutItem", PUT("a", "1"), NULL},
	        {"TransactWriteItems", TWO("Put", PUT("c", "2"), PUT("a", "2")), NULL},
	        {"TransactGetItems", TWO("Get", KEY("a"), KEY("b")), CONFLICT_FIRST},
	        {"TransactGetItems", TWO("Get", KEY("c"), KEY("d")), NULL},
	        {"GetItem", KEY("a"), NULL},
	};
	struct proxy_world w;
	struct caller      held;

	proxy_open(&w);
	hold_begin(&w, &held, "PutItem", PUT("a", "0"));
	assert_meetings(&w, list, sizeof(list) / sizeof(list[0]));
	assert_int_equal(hold_end(&w, &held), 200);
	proxy_close(&w);
}

TEST(proxy, does_no_batch_that_meets_a_transaction)
{
	static const char  batch[] = "{\"RequestItems\":{\"things\":[{\"PutRequest\":{\"Item\":{\"p\":{\"S\":"
	                             "\"a\"},\"s\":{\"S\":\"0\"}}}}]}}";
	struct proxy_world w;
	struct caller      held, c;

	proxy_open(&w);
	caller_open(&c, &w);
	hold_begin(&w, &held, "TransactWriteItems", TWO("Put", PUT("a", "0"), PUT("b", "0")));
	assert_int_equal(call(&c, "BatchWriteItem", batch), 200);
	assert_true(said(&c, "\"UnprocessedItems\":{\"things\":[{\"PutRequest\""));
	assert_int_equal(hold_end(&w, &held), 200);
	assert_int_equal(call(&c, "BatchWriteItem", batch), 200);
	assert_true(said(&c, "\"UnprocessedItems\":{}"));
	caller_close(&c);
	proxy_close(&w);
}

TEST(proxy, says_that_a_token_is_in_progress_and_charges_what_it_refuses)
{
	static const char  body[] = "{\"ReturnConsumedCapacity\":\"TOTAL\",\"ClientRequestToken\":\"one\","
	                            "\"TransactItems\":[{\"Put\":" PUT("a", "0") "}]}";
	static const char  other[] = "{\"ReturnConsumedCapacity\":\"TOTAL\",\"ClientRequestToken\":\"two\","
	                             "\"TransactItems\":[{\"Put\":" PUT("a", "0") "}]}";
	struct proxy_world w;
	struct caller      held, c;

	proxy_open(&w);
	caller_open(&c, &w);
	hold_begin(&w, &held, "TransactWriteItems", body);
	assert_int_equal(call(&c, "TransactWriteItems", body), 400);
	assert_true(said(&c, "TransactionInProgressException"));
	assert_int_equal(call(&c, "TransactWriteItems", other), 400);
	assert_true(said(&c, "\"WriteCapacityUnits\":2"));
	assert_int_equal(w.p.refused_write_units, 2);
	assert_int_equal(aws_like_count(&w.p, "TransactWriteItems").refused, 1);
	assert_int_equal(hold_end(&w, &held), 200);
	assert_int_equal(call(&c, "TransactWriteItems", body), 200);
	caller_close(&c);
	proxy_close(&w);
}

/* ---- what a test asks for ---- */

TEST(proxy, refuses_the_next_requests_of_an_operation)
{
	struct proxy_world w;
	struct caller      c;

	proxy_open(&w);
	caller_open(&c, &w);
	aws_like_fault(&w.p, AWS_REFUSE, "TransactGetItems", 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(call(&c, "TransactGetItems", TWO("Get", KEY("a"), KEY("b"))), 400);
	assert_true(said(&c, CONFLICT_FIRST));
	assert_int_equal(call(&c, "TransactGetItems", TWO("Get", KEY("a"), KEY("b"))), 200);
	aws_like_fault(&w.p, AWS_REFUSE, "UpdateItem", 1);
	assert_int_equal(call(&c, "UpdateItem", KEY("a")), 400);
	assert_true(said(&c, CONFLICT_SINGLE));
	caller_close(&c);
	proxy_close(&w);
}

#define COUNTED(token)                                                                                       \
	"{\"ClientRequestToken\":\"" token "\",\"TransactItems\":[{\"Update\":{\"TableName\":\"things\","    \
	"\"Key\":{\"p\":{\"S\":\"n\"},\"s\":{\"S\":"                                                         \
	"\"0\"}},\"UpdateExpression\":\"ADD n :1\",\"ExpressionAttributeValues\":{\":1\":{\"N\":\"1\"}}}}]}"

static bool counts(struct proxy_world *w, const char *n)
{
	struct caller c;
	char          text[32];
	bool          is;

	snprintf(text, sizeof(text), "\"n\":{\"N\":\"%s\"}", n);
	caller_open(&c, w);
	assert_int_equal(call(&c, "GetItem", KEY("n")), 200);
	is = said(&c, text);
	caller_close(&c);
	return is;
}

TEST(proxy, does_a_late_request_when_it_is_repeated_and_refuses_the_repetition)
{
	struct proxy_world w;

	proxy_open(&w);
	aws_like_fault(&w.p, AWS_LATE, "TransactWriteItems", 1);
	assert_int_equal(call_once(&w, "TransactWriteItems", COUNTED("one")), 0);
	assert_false(counts(&w, "1"));
	assert_int_equal(call_once(&w, "TransactWriteItems", COUNTED("one")), 400);
	assert_true(counts(&w, "1"));
	assert_int_equal(call_once(&w, "TransactWriteItems", COUNTED("one")), 200);
	assert_true(counts(&w, "1"));
	proxy_close(&w);
}

TEST(proxy, loses_an_answer_and_forgets_tokens)
{
	struct aws_settings s;
	struct proxy_world  w;

	proxy_open(&w);
	aws_like_fault(&w.p, AWS_LOSE, "TransactWriteItems", 1);
	assert_int_equal(call_once(&w, "TransactWriteItems", COUNTED("one")), 0);
	assert_true(counts(&w, "1"));
	assert_int_equal(call_once(&w, "TransactWriteItems", COUNTED("one")), 200);
	assert_true(counts(&w, "1"));
	s = aws_like_settings(&w.p);
	s.forget = true;
	aws_like_set(&w.p, &s);
	assert_int_equal(call_once(&w, "TransactWriteItems", COUNTED("one")), 200);
	assert_true(counts(&w, "2"));
	proxy_close(&w);
}

static bool is_mixing(struct proxy_world *w)
{
	bool is;

	pthread_mutex_lock(&w->p.lock);
	is = w->p.mixing > 0;
	pthread_mutex_unlock(&w->p.lock);
	return is;
}

#define ROW(sk, n)                                                                                           \
	"{\"TableName\":\"things\",\"Item\":{\"p\":{\"S\":\"q\"},\"s\":{\"S\":\"" sk "\"},\"n\":{\"N\":\"" n \
	"\"}}}"

TEST(proxy, answers_a_query_with_rows_of_two_moments)
{
	struct aws_settings s;
	struct proxy_world  w;
	struct caller       c;

	proxy_open(&w);
	assert_int_equal(call_once(&w, "TransactWriteItems", TWO("Put", ROW("1", "10"), ROW("2", "10"))),
	                 200);
	s = aws_like_settings(&w.p);
	s.mix_us = LONG_US;
	aws_like_set(&w.p, &s);
	aws_like_fault(&w.p, AWS_MIX, "Query", 1);
	caller_open(&c, &w);
	c.operation = "Query";
	snprintf(c.body, sizeof(c.body),
	         "{\"TableName\":\"things\",\"KeyConditionExpression\":\"p = "
	         ":p\",\"ExpressionAttributeValues\":{\":p\":{\"S\":\"q\"}}}");
	assert_int_equal(pthread_create(&c.thread, NULL, caller_run, &c), 0);
	while (!is_mixing(&w))
		usleep(100);
	assert_int_equal(call_once(&w, "TransactWriteItems", TWO("Put", ROW("1", "11"), ROW("2", "11"))),
	                 200);
	pthread_join(c.thread, NULL);
	assert_true(said(&c, "\"s\":{\"S\":\"1\"},\"n\":{\"N\":\"10\"}") ||
	            said(&c, "\"n\":{\"N\":\"10\"},\"p\""));
	assert_true(said(&c, "11"));
	assert_true(said(&c, "\"Count\":2"));
	caller_close(&c);
	proxy_close(&w);
}
