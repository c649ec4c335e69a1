/* Calls under /v1, on the right threads, over a socket and an engine whose clock stands until a test moves it: what is
 * given back on each way out, and whose time counts. What calls mean is tested in tests/service/ and tests/e2e/. */
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/api.h"
#include "base/fault.h"
#include "engine/fixture.h"
#include "engine/gate.h"
#include "json/yaml.h"
#include "rough_store.h"
#include "service/limits.h"
#include "service/policy_store.h"
#include "service/rules.h"
#include "service/event.h"
#include "service/services.h"

struct house {
	struct fixture      f;
	struct rough       *rough; /* NULL: calls run on the engine itself */
	struct services     services;
	struct api          api;
	struct http_server *http;
	char                answer[16 * 1024];
};

static bool is_ready(void *ctx)
{
	(void)ctx;
	return true;
}

static void serve(struct house *h)
{
	struct http_limits  limits = http_limits_default();
	struct http_handler handler;

	api_init(&h->api,
	         &(struct api_parts){.store = h->rough != NULL ? &h->rough->base : engine_store(h->f.engine),
	                             .services = &h->services,
	                             .clock = &h->f.clock.base,
	                             .ready = is_ready,
	                             .seed = {1, 2},
	                             .metrics_open = true});
	handler = api_handler(&h->api);
	if (http_server_open(&h->http,
	                     &(struct http_server_options){.listen = "127.0.0.1:0",
	                                                   .loops = 1,
	                                                   .limits = &limits,
	                                                   .handler = &handler,
	                                                   .clock = clock_system()},
	                     &h->f.err) != ERR_NONE)
		fail_msg("%s", h->f.err.text);
}

static void any_random(void *out, size_t len)
{
	assert_int_equal(getrandom(out, len, 0), len);
}

/* Those that ship. */
static void rules_use(struct house *h)
{
	struct document *rules;
	struct json     *tree;

	document_holder_init(&h->services.rules);
	document_holder_init(&h->services.devices);
	assert_int_equal(yaml_read(&h->f.arena, policy_defaults(), &tree, &h->f.err), ERR_NONE);
	tree = (struct json *)(uintptr_t)json_get(tree, BYTES("attempts"));
	assert_int_equal(rules_parse(tree, &rules, &h->f.err), ERR_NONE);
	document_put(&h->services.rules, rules);
	document_put(&h->services.devices,
	             &device_keys_make(&(struct device_key){.id = 1, .secret = {1}}, 1)->base);
}

static void house_open(struct house *h, const char *policies)
{
	static const uint8_t secret[IDENTIFIER_KEY_BYTES] = {7};
	char                 dir[] = "/tmp/gatehouse-v1-XXXXXX";
	struct document     *set;

	assert_non_null(mkdtemp(dir));
	fixture_init(&h->f, dir);
	h->f.options.queue_bytes_max = 64 << 10;
	fixture_start(&h->f);
	h->rough = rough_open_if_asked(h->f.engine);
	h->services = (struct services){.tables = service_tables_default(), .random = any_random};
	rules_use(h);
	identifier_key_init(&h->services.identifiers, secret);
	h->services.limits = limits_open(&(struct limits_options){.memory_bytes_max = LIMIT_MAP_BYTES_MIN});
	document_holder_init(limits_holder(h->services.limits));
	if (limit_policies_parse(fixture_json(&h->f, policies), &set, &h->f.err) != ERR_NONE)
		fail_msg("%s", h->f.err.text);
	document_put(limits_holder(h->services.limits), set);
	serve(h);
}

static void house_close(struct house *h)
{
	http_server_close(h->http);
	rough_close_if_open(h->rough);
	document_holder_release(&h->services.rules);
	document_holder_release(&h->services.devices);
	document_holder_release(limits_holder(h->services.limits));
	limits_close(h->services.limits);
	fixture_close(&h->f);
}

static int request(struct house *h, const char *path, const char *headers, const char *body)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)http_server_port(h->http))};
	int                fd = socket(AF_INET, SOCK_STREAM, 0), status = 0;
	char               text[4096];
	size_t             len = 0;
	ssize_t            got;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	snprintf(
	        text, sizeof(text),
	        "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s",
	        path, headers, strlen(body), body);
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	while ((got = recv(fd, h->answer + len, sizeof(h->answer) - 1 - len, 0)) > 0)
		len += (size_t)got;
	close(fd);
	h->answer[len] = '\0';
	assert_int_equal(sscanf(h->answer, "HTTP/1.1 %d", &status), 1);
	return status;
}

/* The body has ' for ". */
static int call_with(struct house *h, const char *path, const char *headers, const char *body)
{
	char quoted[2048];

	snprintf(quoted, sizeof(quoted), "%s", body);
	for (char *p = quoted; *p != '\0'; p++)
		if (*p == '\'')
			*p = '"';
	return request(h, path, headers, quoted);
}

static int call(struct house *h, const char *path, const char *body)
{
	return call_with(h, path, "", body);
}

static bool says(const struct house *h, const char *text)
{
	char quoted[200];

	snprintf(quoted, sizeof(quoted), "%s", text);
	for (char *p = quoted; *p != '\0'; p++)
		if (*p == '\'')
			*p = '"';
	return strstr(strstr(h->answer, "\r\n\r\n"), quoted) != NULL;
}

#define assert_says(h, text)                                                                                 \
	do {                                                                                                 \
		if (!says((h), (text)))                                                                      \
			fail_msg("no %s in %s", (text), (h)->answer);                                        \
	} while (0)

/* How much there is of the limit "memory", which has five. */
static void assert_left(struct house *h, const char *text)
{
	assert_int_equal(call(h, "/v1/allow", "{'policy':'memory','key':'k','cost':0}"), 200);
	assert_says(h, text);
}

#define POLICIES                                                                                             \
	"{'memory':{'limit':5,'per':'day'},"                                                                 \
	"'open':{'limit':5,'per':'day','engine':'table'},"                                                   \
	"'closed':{'limit':5,'per':'day','engine':'table','on_failure':'closed'},"                           \
	"'quick':{'limit':2,'per':'second','engine':'table'}}"

#define BOTH(table, cost)                                                                                    \
	"{'all':[{'policy':'memory','key':'k'},{'policy':'" table "','key':'k','cost':" cost "}]}"

/* ---- whose time counts ---- */

TEST(v1, a_clock_that_is_set_back_an_hour_does_not_prolong_a_refusal)
{
	static const char *const authz =
	        "X-Gatehouse-Policy: quick\r\nX-Gatehouse-Key: b\r\nX-Gatehouse-Cost: 2\r\n";
	struct house h;

	house_open(&h, POLICIES);
	for (unsigned i = 0; i < 2; i++)
		call(&h, "/v1/allow", "{'policy':'quick','key':'a','cost':2}");
	assert_says(&h, "'allowed':false");
	assert_int_equal(call_with(&h, "/v1/authz", authz, ""), 200);
	assert_int_equal(call_with(&h, "/v1/authz", authz, ""), 429);
	clock_manual_jump(&h.f.clock, -INT64_C(3600) * 1000000);
	assert_int_equal(call(&h, "/v1/allow", "{'policy':'quick','key':'a','cost':2}"), 200);
	assert_says(&h, "'allowed':false,'degraded':false,'retry_after':1,");
	fixture_set_clock(&h.f, START_S + 1);
	assert_int_equal(call(&h, "/v1/allow", "{'policy':'quick','key':'a','cost':2}"), 200);
	assert_says(&h, "'allowed':true");
	assert_int_equal(call_with(&h, "/v1/authz", authz, ""), 200);
	house_close(&h);
}

/* ---- every way out gives back ---- */

/* Somebody else's table of that name, with keys that are not ours. */
static void spoil_the_table(struct house *h)
{
	assert_int_equal(
	        call_with(h, "/",
	                  "X-Amz-Target: DynamoDB_20120810.CreateTable\r\n"
	                  "Content-Type: application/x-amz-json-1.0\r\n",
	                  "{'TableName':'rate-limits','KeySchema':[{'AttributeName':'id','KeyType':'HASH'}],"
	                  "'AttributeDefinitions':[{'AttributeName':'id','AttributeType':'S'}],"
	                  "'BillingMode':'PAY_PER_REQUEST'}"),
	        200);
}

/* A cost of 0 needs no turn with the writer: the call runs on the loop. */
TEST(v1, a_table_that_is_not_ours_is_a_failure_of_the_table_with_or_without_a_turn)
{
	static const char *const open[] = {BOTH("open", "0"), BOTH("open", "1")};
	static const char *const closed[] = {BOTH("closed", "0"), BOTH("closed", "1")};
	struct house             h;

	house_open(&h, POLICIES);
	spoil_the_table(&h);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(call(&h, "/v1/allow", closed[i]), 409);
		assert_left(&h, "'remaining':5");
	}
	assert_int_equal(call(&h, "/v1/allow", open[0]), 200);
	assert_says(&h, "'allowed':true,'degraded':true");
	assert_left(&h, "'remaining':4");
	assert_int_equal(call(&h, "/v1/allow", open[1]), 200);
	assert_says(&h, "'allowed':true,'degraded':true");
	assert_left(&h, "'remaining':3");
	assert_int_equal(call_with(&h, "/v1/authz", "X-Gatehouse-Policy: open\r\nX-Gatehouse-Key: k\r\n", ""),
	                 200);
	assert_says(&h, "'degraded':true");
	house_close(&h);
}

TEST(v1, what_the_writer_does_not_take_is_given_back_by_closed_limits_and_kept_by_open_ones)
{
	struct house        h;
	struct gate         gate;
	struct turn_request filler = {.run = run_nothing, .done = done_nothing, .cost_bytes = 63 << 10};

	house_open(&h, POLICIES);
	if (h.rough != NULL) { /* it has no queue that could be full */
		house_close(&h);
		return;
	}
	gate_close(&gate, h.f.engine);
	assert_int_equal(engine_submit(h.f.engine, &filler, &h.f.err), ERR_NONE);
	assert_int_equal(call(&h, "/v1/allow", BOTH("closed", "1")), 503);
	assert_left(&h, "'remaining':5");
	assert_int_equal(call(&h, "/v1/allow", BOTH("open", "1")), 200);
	assert_says(&h, "'allowed':true,'degraded':true");
	assert_left(&h, "'remaining':4");
	assert_int_equal(call(&h, "/v1/refund", BOTH("open", "1")), 503);
	assert_left(&h, "'remaining':4");
	gate_open(&gate);
	house_close(&h);
}

/* It may have been taken: 503 would say that it was not. */
TEST(v1, a_limit_whose_commit_has_an_unknown_outcome_says_so)
{
	static const char *const key = "X-Gatehouse-Policy: closed\r\nX-Gatehouse-Key: k\r\n";

	for (int authz = 0; authz < 2; authz++) {
		struct house h;
		int          status;

		house_open(&h, POLICIES);
		if (h.rough != NULL) { /* it has no disk that could fail */
			house_close(&h);
			return;
		}
		log_set_level((enum log_level)(LOG_ERROR + 1));
		assert_int_equal(call(&h, "/v1/allow", BOTH("closed", "1")), 200);
		engine_tick(h.f.engine); /* what the new table gives the ticker to commit is done */
		fault_arm(FAULT_COMMIT, 0);
		status = authz ? call_with(&h, "/v1/authz", key, "")
		               : call(&h, "/v1/allow", BOTH("closed", "1"));
		fault_disarm(FAULT_COMMIT);
		assert_int_equal(status, 500);
		assert_says(&h, "outcome-unknown");
		/* now nothing is even begun */
		assert_int_equal(call(&h, "/v1/allow", BOTH("closed", "1")), 503);
		house_close(&h);
	}
}

TEST(v1, a_refund_whose_table_fails_gives_nothing_back_in_memory_either)
{
	struct house h;

	house_open(&h, POLICIES);
	assert_int_equal(call(&h, "/v1/allow", "{'policy':'memory','key':'k','cost':3}"), 200);
	spoil_the_table(&h);
	assert_int_equal(call(&h, "/v1/refund", BOTH("open", "1")), 409);
	assert_left(&h, "'remaining':2");
	assert_int_equal(call(&h, "/v1/refund", "{'policy':'memory','key':'k'}"), 200);
	assert_says(&h, "'remaining':3");
	assert_left(&h, "'remaining':3");
	house_close(&h);
}

TEST(v1, a_replayed_or_mismatched_key_takes_and_gives_nothing)
{
	static const char *const key = "Idempotency-Key: one\r\n";
	struct house             h;

	house_open(&h, POLICIES);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(call_with(&h, "/v1/allow", key, BOTH("closed", "1")), 200);
	assert_left(&h, "'remaining':4");
	assert_int_equal(call_with(&h, "/v1/allow", key, BOTH("closed", "2")), 422);
	assert_left(&h, "'remaining':4");
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(call_with(&h, "/v1/refund", "Idempotency-Key: two\r\n",
		                           "{'policy':'memory','key':'k'}"),
		                 200);
	assert_left(&h, "'remaining':5");
	house_close(&h);
}

/* ---- many at once ---- */

enum { CALLERS = 12 };

/* A caller with connections and answers of its own. */
struct caller_thread {
	struct house h; /* only what a request needs */
	const char  *path, *headers, *body;
	int          status;
	pthread_t    thread;
};

static void *caller_run(void *ctx)
{
	struct caller_thread *c = ctx;

	do
		c->status = call_with(&c->h, c->path, c->headers, c->body);
	while (c->status == 503); /* the queue is short here */
	return NULL;
}

/* How many of the answers hold that text. */
static int call_together(struct house *h, const char *path, const char *headers, const char *body,
                         const char *text)
{
	struct caller_thread *callers = calloc(CALLERS, sizeof(*callers));
	int                   count = 0;

	for (int i = 0; i < CALLERS; i++) {
		callers[i].h.http = h->http;
		callers[i].path = path;
		callers[i].headers = headers;
		callers[i].body = body;
		assert_int_equal(pthread_create(&callers[i].thread, NULL, caller_run, &callers[i]), 0);
	}
	for (int i = 0; i < CALLERS; i++) {
		pthread_join(callers[i].thread, NULL);
		if (callers[i].status != 200 && callers[i].status != 423)
			fail_msg("%s", callers[i].h.answer);
		count += says(&callers[i].h, text);
	}
	free(callers);
	return count;
}

TEST(v1, of_many_calls_at_once_a_limit_allows_as_many_as_it_has)
{
	struct house h;

	house_open(&h, POLICIES);
	assert_int_equal(
	        call_together(&h, "/v1/allow", "", "{'policy':'closed','key':'k'}", "'allowed':true"), 5);
	house_close(&h);
}

#define WRONG_PASSWORD "{'subject':'alice','journey':'SIGN_IN','type':'PASSWORD_ENTRY','outcome':'failure'}"

TEST(v1, of_many_wrong_passwords_at_once_as_many_are_counted_as_the_policy_allows)
{
	struct house h;

	house_open(&h, POLICIES);
	assert_int_equal(call_together(&h, "/v1/attempts", "", WRONG_PASSWORD, "'counted':true"), 6);
	house_close(&h);
}

TEST(v1, of_many_calls_with_one_idempotency_key_one_counts_and_all_have_its_answer)
{
	struct house h;

	house_open(&h, POLICIES);
	assert_int_equal(call_together(&h, "/v1/attempts", "Idempotency-Key: one\r\n", WRONG_PASSWORD,
	                               "'counted':true"),
	                 CALLERS);
	assert_int_equal(call(&h, "/v1/attempts", WRONG_PASSWORD), 200);
	assert_says(&h, "'count':2");
	house_close(&h);
}

/* ---- who waits for events ---- */

static void wake_count(void *ctx)
{
	atomic_fetch_add((atomic_int *)ctx, 1);
}

TEST(v1, a_call_that_published_wakes_whoever_waits_for_events_and_no_other_does)
{
	atomic_int   wakes = 0;
	struct house h;

	house_open(&h, POLICIES);
	h.services.events.on = EVENT_BIT(EVENT_USER_CREATED);
	h.services.event_post = (struct event_post){wake_count, &wakes};
	assert_int_equal(call_with(&h, "/v1/users", "Idempotency-Key: one\r\n", "{'id':'ann'}"), 201);
	assert_int_equal(wakes, 1);
	assert_int_equal(call_with(&h, "/v1/users", "Idempotency-Key: one\r\n", "{'id':'ann'}"), 201);
	assert_int_equal(call(&h, "/v1/users", "{'id':'ann'}"), 409);
	assert_int_equal(call(&h, "/v1/users/ann/suspend", ""), 200); /* its types are off */
	assert_int_equal(wakes, 1);
	house_close(&h);
}
