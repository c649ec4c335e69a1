/* Differential: random operations, each done by the embedded engine and by remote/ at an endpoint, whose answers must be the same. Time
 * moves on, so that rows expire; the endpoint's own clock stands behind, so that it still has them.
 *
 *   DIFFERENTIAL_OPERATIONS=100000 SEED=7 GATEHOUSE_ENDPOINT=dynoxide build/tests/remote/differential_test
 *
 * The endpoint is our own server unless set. A difference is shown with its request; the seed replays it. */
#include "remote/far_fixture.h"

#include "dynamo/errors.h"
#include "dynamo/result.h"
#include "random.h"

enum { OPERATIONS_DEFAULT = 3000, HASHES = 4, RANGES = 6, BODY_BYTES_MAX = 4096, ACTIONS_MAX = 4 };

/* Both worlds, and the one sequence. */
struct pair {
	struct fixture near, far;
	struct random  random;
	uint64_t       seed, number;
	int64_t        now_s;
	char           body[BODY_BYTES_MAX];
	size_t         len;
};

/* ---- writing a request, with ' for " ---- */

static unsigned draw(struct pair *p, unsigned bound)
{
	return (unsigned)random_below(&p->random, bound);
}

__attribute__((format(printf, 2, 3))) static void say(struct pair *p, const char *format, ...)
{
	va_list arguments;
	int     n;

	va_start(arguments, format);
	n = vsnprintf(p->body + p->len, sizeof(p->body) - p->len, format, arguments);
	va_end(arguments);
	p->len += (size_t)n;
	assert_true(p->len < sizeof(p->body));
}

/* One of several texts. */
#define ONE_OF(p, ...)                                                                                       \
	(((const char *const[]){                                                                             \
	        __VA_ARGS__})[draw(p, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))])

/* "timed" has time to live, and an index that does not hold it. */
static const char *table_of(struct pair *p)
{
	return draw(p, 2) == 0 ? "plain" : "timed";
}

static void say_key(struct pair *p)
{
	say(p, "{'p':{'S':'h%u'},'s':{'N':'%u'}}", draw(p, HASHES), draw(p, RANGES));
}

static void say_value(struct pair *p)
{
	switch (draw(p, 6)) {
	case 0:
		say(p, "{'N':'%d'}", (int)draw(p, 20) - 10);
		return;
	case 1:
		say(p, "{'S':'%s'}", ONE_OF(p, "", "a", "ab", "abc", "é"));
		return;
	case 2:
		say(p, "{'SS':['x','%s']}", ONE_OF(p, "y", "z"));
		return;
	case 3:
		say(p, "{'L':[{'N':'%u'},{'S':'a'}]}", draw(p, 3));
		return;
	case 4:
		say(p, "{'M':{'x':{'N':'%u'},'y':{'BOOL':true}}}", draw(p, 3));
		return;
	default:
		say(p, "{'N':'%u.5e%d'}", draw(p, 9), (int)draw(p, 60) - 30);
	}
}

/* A time around now: a third is past when it is written, or soon. */
static void say_item(struct pair *p)
{
	say(p, "{'p':{'S':'h%u'},'s':{'N':'%u'}", draw(p, HASHES), draw(p, RANGES));
	for (const char *name = "nabc"; *name != '\0'; name++)
		if (draw(p, 2) == 0) {
			say(p, ",'%c':", *name);
			say_value(p);
		}
	if (draw(p, 3) == 0)
		say(p, ",'g':{'S':'g%u'}", draw(p, 2));
	if (draw(p, 2) == 0)
		say(p, ",'e':{'N':'%lld'}", (long long)(p->now_s + (int)draw(p, 60) - 15));
	say(p, "}");
}

/* Of a condition, a filter or an update: what :v and :w stand for, if they are used. */
static void say_values(struct pair *p, const char *used)
{
	bool v = strstr(used, ":v") != NULL, w = strstr(used, ":w") != NULL;

	if (!v && !w)
		return;
	say(p, ",'ExpressionAttributeValues':{");
	if (v) {
		say(p, "':v':");
		say_value(p);
	}
	if (w)
		say(p, "%s':w':{'N':'%u'}", v ? "," : "", draw(p, 5));
	say(p, "}");
}

static const char *condition(struct pair *p)
{
	return ONE_OF(p, "attribute_exists(p)", "attribute_not_exists(p)", "n = :v", "n <> :v",
	              "attribute_type(a, :t)", "size(b) > :w OR contains(c, :v)", "NOT n < :w",
	              "n BETWEEN :w AND :w", "a IN (:v, :w)", "attribute_not_exists(e) AND b = :v",
	              "begins_with(a, :b) OR attribute_exists(m.x)");
}

/* With the values that only some of them need. */
static void say_condition(struct pair *p, const char *field, const char *text, const char *also)
{
	bool t = strstr(text, ":t") != NULL, b = strstr(text, ":b") != NULL;
	bool v = strstr(text, ":v") != NULL || strstr(also, ":v") != NULL;
	bool w = strstr(text, ":w") != NULL || strstr(also, ":w") != NULL;

	say(p, ",'%s':'%s'", field, text);
	if (!t && !b && !v && !w)
		return;
	say(p, ",'ExpressionAttributeValues':{");
	if (t)
		say(p, "':t':{'S':'SS'}");
	if (b)
		say(p, "%s':b':{'S':'a'}", t ? "," : "");
	if (v) {
		say(p, "%s':v':", t || b ? "," : "");
		say_value(p);
	}
	if (w)
		say(p, "%s':w':{'N':'%u'}", t || b || v ? "," : "", draw(p, 5));
	say(p, "}");
}

static const char *update(struct pair *p)
{
	return ONE_OF(p, "SET n = :v", "ADD n :w", "SET n = if_not_exists(n, :w) + :w", "REMOVE a, b",
	              "SET a = n, b = :v", "ADD c :v", "DELETE c :v", "SET a = list_append(a, a)",
	              "SET b.x = :v", "REMOVE e", "SET g = b", "SET n = n - :w REMOVE c");
}

/* ---- operations: each fills the body and names itself ---- */

static void say_returns(struct pair *p, bool is_update)
{
	if (draw(p, 2) == 0)
		say(p, ",'ReturnValues':'%s'",
		    is_update ? ONE_OF(p, "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW") : "ALL_OLD");
	if (draw(p, 2) == 0)
		say(p, ",'ReturnValuesOnConditionCheckFailure':'ALL_OLD'");
}

static const char *make_put(struct pair *p)
{
	say(p, "{'TableName':'%s','Item':", table_of(p));
	say_item(p);
	if (draw(p, 2) == 0)
		say_condition(p, "ConditionExpression", condition(p), "");
	say_returns(p, false);
	say(p, "}");
	return "PutItem";
}

static const char *make_update(struct pair *p)
{
	const char *text = update(p);

	say(p, "{'TableName':'%s','Key':", table_of(p));
	say_key(p);
	if (draw(p, 2) == 0) {
		say(p, ",'UpdateExpression':'%s'", text);
		say_condition(p, "ConditionExpression", condition(p), text);
	} else {
		say(p, ",'UpdateExpression':'%s'", text);
		say_values(p, text);
	}
	say_returns(p, true);
	say(p, "}");
	return "UpdateItem";
}

static const char *make_delete(struct pair *p)
{
	say(p, "{'TableName':'%s','Key':", table_of(p));
	say_key(p);
	if (draw(p, 2) == 0)
		say_condition(p, "ConditionExpression", condition(p), "");
	say_returns(p, false);
	say(p, "}");
	return "DeleteItem";
}

static const char *make_get(struct pair *p)
{
	say(p, "{'TableName':'%s','Key':", table_of(p));
	say_key(p);
	if (draw(p, 3) == 0)
		say(p, ",'ProjectionExpression':'n, b.x, a[0]'");
	say(p, "}");
	return "GetItem";
}

static const char *make_query(struct pair *p)
{
	bool        index = draw(p, 4) == 0, filter = draw(p, 3) == 0;
	const char *range =
	        index ? "" : ONE_OF(p, "", " AND s > :r", " AND s <= :r", " AND s BETWEEN :r AND :q");

	say(p, "{'TableName':'%s','KeyConditionExpression':'%s = :p%s'", table_of(p), index ? "g" : "p",
	    range);
	if (index)
		say(p, ",'IndexName':'by-g'");
	if (filter)
		say(p, ",'FilterExpression':'n > :w OR attribute_exists(a)'");
	say(p, ",'ExpressionAttributeValues':{':p':{'S':'%c%u'}", index ? 'g' : 'h',
	    draw(p, index ? 2 : HASHES));
	if (strstr(range, ":r") != NULL)
		say(p, ",':r':{'N':'%u'}", draw(p, RANGES));
	if (strstr(range, ":q") != NULL)
		say(p, ",':q':{'N':'%u'}", RANGES);
	say(p, "%s}", filter ? ",':w':{'N':'2'}" : "");
	if (!index && draw(p, 2) == 0)
		say(p, ",'ScanIndexForward':false");
	if (!index && draw(p, 3) == 0)
		say(p, ",'Limit':%u", 1 + draw(p, 3));
	if (draw(p, 6) == 0)
		say(p, ",'Select':'COUNT'");
	say(p, "}");
	return "Query";
}

/* Rows that differ: numbers from `first` on. */
static const char *make_batch_get(struct pair *p)
{
	unsigned first = draw(p, RANGES), count = 1 + draw(p, ACTIONS_MAX);

	say(p, "{'RequestItems':{'%s':{'Keys':[", table_of(p));
	for (unsigned i = 0; i < count; i++)
		say(p, "%s{'p':{'S':'h%u'},'s':{'N':'%u'}}", i > 0 ? "," : "", draw(p, HASHES), first + i);
	say(p, "]}}}");
	return "BatchGetItem";
}

static const char *make_batch_write(struct pair *p)
{
	unsigned first = draw(p, RANGES), count = 1 + draw(p, ACTIONS_MAX);

	say(p, "{'RequestItems':{'%s':[", table_of(p));
	for (unsigned i = 0; i < count; i++) {
		bool put = draw(p, 2) == 0;

		say(p, "%s{'%s':{'%s':{'p':{'S':'h%u'},'s':{'N':'%u'}}}}", i > 0 ? "," : "",
		    put ? "PutRequest" : "DeleteRequest", put ? "Item" : "Key", draw(p, HASHES), first + i);
	}
	say(p, "]}}");
	return "BatchWriteItem";
}

static const char *make_transact_get(struct pair *p)
{
	unsigned first = draw(p, RANGES), count = 1 + draw(p, ACTIONS_MAX);

	say(p, "{'TransactItems':[");
	for (unsigned i = 0; i < count; i++)
		say(p, "%s{'Get':{'TableName':'%s','Key':{'p':{'S':'h%u'},'s':{'N':'%u'}}}}",
		    i > 0 ? "," : "", table_of(p), draw(p, HASHES), first + i);
	say(p, "]}");
	return "TransactGetItems";
}

static void say_action(struct pair *p, unsigned range)
{
	unsigned    kind = draw(p, 4);
	const char *names[] = {"Put", "Update", "Delete", "ConditionCheck"}, *text = update(p);

	say(p, "{'%s':{'TableName':'%s','%s':{'p':{'S':'h%u'},'s':{'N':'%u'}%s}", names[kind], table_of(p),
	    kind == 0 ? "Item" : "Key", draw(p, HASHES), range, kind == 0 ? ",'n':{'N':'1'}" : "");
	if (kind == 1)
		say(p, ",'UpdateExpression':'%s'", text);
	if (kind == 3 || draw(p, 2) == 0)
		say_condition(p, "ConditionExpression", condition(p), kind == 1 ? text : "");
	else if (kind == 1)
		say_values(p, text);
	if (draw(p, 2) == 0)
		say(p, ",'ReturnValuesOnConditionCheckFailure':'ALL_OLD'");
	say(p, "}}");
}

static const char *make_transact_write(struct pair *p)
{
	unsigned first = draw(p, RANGES), count = 1 + draw(p, ACTIONS_MAX);

	say(p, "{'TransactItems':[");
	for (unsigned i = 0; i < count; i++) {
		say(p, "%s", i > 0 ? "," : "");
		say_action(p, first + i);
	}
	say(p, "]}");
	return "TransactWriteItems";
}

/* ---- doing it in both worlds ---- */

typedef enum err_code (*encoder)(struct json_writer *, struct arena *, const struct dynamo_request *,
                                 const struct dynamo_result *);

static encoder encoder_of(const char *operation)
{
	static const struct {
		const char *operation;
		encoder     encode;
	} list[] = {{"GetItem", result_get},
	            {"Query", result_query},
	            {"BatchGetItem", result_batch_get},
	            {"BatchWriteItem", result_batch_write},
	            {"TransactGetItems", result_transact_get},
	            {"TransactWriteItems", result_transact_write}};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		if (strcmp(list[i].operation, operation) == 0)
			return list[i].encode;
	return result_write;
}

/* What a client would be told, as text; of an error its name. */
static struct bytes answer_of(struct fixture *f, const char *operation, const char *body)
{
	struct dynamo_request *q = arena_zalloc(&f->arena, sizeof(*q));
	struct dynamo_result   result;
	union answer           r;
	struct fixture_call    c = {
	           .base = {.run = fixture_in_turn, .cost_bytes = 100}, .f = f, .q = q, .r = &r};
	enum err_code      rc = ERR_INVALID;
	struct json_writer w;
	struct buf         out;

	memset(&r, 0, sizeof(r));
#define X(name, decode, run_, writes)                                                                        \
	if (strcmp(operation, name) == 0) {                                                                  \
		c.run = run_;                                                                                \
		rc = decode(&f->arena, fixture_json(f, body), q, &f->err);                                   \
		if (rc == ERR_NONE)                                                                          \
			rc = fixture_do(&c, writes);                                                         \
	}
	FIXTURE_OPERATIONS(X)
#undef X
	if (rc != ERR_NONE)
		return arena_printf(&f->arena, "%s", err_name(rc));
	buf_init(&out, &f->arena);
	json_writer_init(&w, &out);
	memcpy(&result, &r, sizeof(result) < sizeof(r) ? sizeof(result) : sizeof(r));
	q->collection_metrics = false;
	encoder_of(operation)(&w, &f->arena, q, &result);
	return buf_bytes(&out);
}

static void do_both(struct pair *p, const char *operation)
{
	struct bytes near = answer_of(&p->near, operation, p->body),
	             far = answer_of(&p->far, operation, p->body);

	if (!bytes_equal(near, far))
		fail_msg("seed %llu, operation %llu, second %lld: %s %s\n  embedded %.*s\n  remote   %.*s\n  "
		         "%s",
		         (unsigned long long)p->seed, (unsigned long long)p->number, (long long)p->now_s,
		         operation, p->body, BYTES_ARG(near), BYTES_ARG(far), p->far.err.text);
}

/* ---- the run ---- */

static void pair_open(struct pair *p)
{
	static const char *const tables[] = {"plain", "timed"};
	const char              *name = getenv(ENDPOINT_VARIABLE);

	fixture_open(&p->near);
	far_fixture_open(&p->far, name == NULL || *name == '\0' ? "own" : name);
	p->now_s = START_S;
	for (int i = 0; i < 4; i++) {
		struct fixture *f = i % 2 == 0 ? &p->near : &p->far;

		fixture_ok(
		        f, "CreateTable",
		        arena_printf(
		                &f->arena,
		                "{'TableName':'%s','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{"
		                "'AttributeName':'p','AttributeType':'S'},{'AttributeName':'s','"
		                "AttributeType':'N'"
		                "},{'AttributeName':'g','AttributeType':'S'}],'KeySchema':[{'AttributeName':'"
		                "p',"
		                "'KeyType':'HASH'},{'AttributeName':'s','KeyType':'RANGE'}],"
		                "'GlobalSecondaryIndexes':[{'IndexName':'by-g','KeySchema':[{'AttributeName':"
		                "'g',"
		                "'KeyType':'HASH'},{'AttributeName':'s','KeyType':'RANGE'}],'Projection':{"
		                "'ProjectionType':'INCLUDE','NonKeyAttributes':['n','a']}}]}",
		                tables[i / 2])
		                .data);
		if (i / 2 == 1)
			fixture_ok(f, "UpdateTimeToLive",
			           "{'TableName':'timed','TimeToLiveSpecification':{'Enabled':true,'"
			           "AttributeName':'e'}}");
	}
}

static void pair_close(struct pair *p)
{
	far_fixture_close(&p->far);
	fixture_close(&p->near);
}

/* Time moves on in both worlds; now and then both remove what has expired. */
static void time_passes(struct pair *p)
{
	p->now_s += draw(p, 4);
	fixture_set_clock(&p->near, p->now_s);
	fixture_set_clock(&p->far, p->now_s);
	if (draw(p, 50) != 0)
		return;
	engine_tick(p->near.engine);
	if (far_is_own())
		far_own_catch_up(&p->far);
}

static void step(struct pair *p)
{
	static const char *(*const makers[])(struct pair *) = {
	        make_put,         make_put,          make_update,         make_update,        make_update,
	        make_delete,      make_get,          make_query,          make_query,         make_batch_get,
	        make_batch_write, make_transact_get, make_transact_write, make_transact_write};

	if (draw(p, 5) == 0)
		time_passes(p);
	p->len = 0;
	do_both(p, makers[draw(p, sizeof(makers) / sizeof(makers[0]))](p));
	arena_reset(&p->near.arena);
	arena_reset(&p->far.arena);
}

static uint64_t variable(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text == NULL || *text == '\0' ? otherwise : strtoull(text, NULL, 10);
}

TEST(differential, random_operations_are_answered_alike)
{
	static struct pair p;
	uint64_t           operations = variable("DIFFERENTIAL_OPERATIONS", OPERATIONS_DEFAULT);

	if (operations > OPERATIONS_DEFAULT)
		alarm(0);
	p.seed = random_seed();
	p.random.state = p.seed;
	printf("seed %llu, %llu operations\n", (unsigned long long)p.seed, (unsigned long long)operations);
	pair_open(&p);
	for (; p.number < operations; p.number++)
		step(&p);
	pair_close(&p);
}
