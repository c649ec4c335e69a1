/* DynamoDB's protocol over a real socket and a real engine: headers, threads, routes. What requests mean is tested
 * elsewhere. */
#include "test.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include "api/api.h"
#include "api/scraper.h"
#include "base/log.h"
#include "engine/gate.h"

enum { BODY_BYTES_MAX = 64 * 1024 };

struct house {
	char                dir[64];
	struct engine      *engine;
	struct api          api;
	struct http_server *http;
	atomic_bool         ready;
	char                answer[128 * 1024];
	struct scraper     *scraper;
};

static bool is_ready(void *ctx)
{
	return atomic_load(&((struct house *)ctx)->ready);
}

static void house_open(struct house *h, size_t queue_bytes_max)
{
	struct engine_options options;
	struct http_limits    limits = http_limits_default();
	struct http_handler   handler;
	struct err            err;

	*h = (struct house){.dir = "/tmp/gatehouse-dynamodb-XXXXXX", .ready = true};
	log_set_level(LOG_ERROR);
	assert_non_null(mkdtemp(h->dir));
	options = engine_options_default(h->dir);
	options.disk_reserve_bytes = 1 << 20;
	options.queue_bytes_max = queue_bytes_max;
	if (engine_open(&h->engine, &options, &err) != ERR_NONE)
		fail_msg("%s", err.text);
	api_init(&h->api, &(struct api_parts){.store = engine_store(h->engine),
	                                      .clock = clock_system(),
	                                      .ready = is_ready,
	                                      .ready_ctx = h,
	                                      .seed = {1, 2},
	                                      .metrics_open = true});
	assert_int_equal(scraper_open(&h->scraper, &h->api, &err), ERR_NONE);
	handler = api_handler(&h->api);
	limits.body_bytes_max = BODY_BYTES_MAX;
	if (http_server_open(&h->http,
	                     &(struct http_server_options){.listen = "127.0.0.1:0",
	                                                   .loops = 2,
	                                                   .limits = &limits,
	                                                   .handler = &handler,
	                                                   .clock = clock_system()},
	                     &err) != ERR_NONE)
		fail_msg("%s", err.text);
}

static void house_close(struct house *h)
{
	char command[100];

	scraper_stop(h->scraper);
	http_server_close(h->http);
	scraper_close(h->scraper);
	engine_close(h->engine);
	snprintf(command, sizeof(command), "rm -rf '%s'", h->dir);
	assert_int_equal(system(command), 0);
}

static int dial(struct house *h)
{
	int                fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in to = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)http_server_port(h->http))};

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* Sends the text, reads until the server closes, and leaves the answer in h->answer. Returns its status. */
static int exchange(struct house *h, const char *text)
{
	int     fd = dial(h), status = 0;
	size_t  len = 0;
	ssize_t got;

	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	while ((got = recv(fd, h->answer + len, sizeof(h->answer) - 1 - len, 0)) > 0)
		len += (size_t)got;
	close(fd);
	h->answer[len] = '\0';
	assert_int_equal(sscanf(h->answer, "HTTP/1.1 %d", &status), 1);
	return status;
}

static int request(struct house *h, const char *method, const char *path, const char *headers,
                   const char *body)
{
	char text[BODY_BYTES_MAX];

	snprintf(text, sizeof(text),
	         "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s",
	         method, path, headers, strlen(body), body);
	return exchange(h, text);
}

static int dynamo(struct house *h, const char *operation, const char *body)
{
	char   headers[200], quoted[BODY_BYTES_MAX / 2];
	size_t i;

	for (i = 0; body[i] != '\0'; i++)
		quoted[i] = (char)(body[i] == '\'' ? '"' : body[i]);
	quoted[i] = '\0';
	snprintf(headers, sizeof(headers),
	         "X-Amz-Target: DynamoDB_20120810.%s\r\nContent-Type: application/x-amz-json-1.0\r\n",
	         operation);
	return request(h, "POST", "/", headers, quoted);
}

static const char *body_of(const struct house *h)
{
	return strstr(h->answer, "\r\n\r\n") + 4;
}

/* The value of a header of the answer, which must be there. */
static struct bytes header_of(const struct house *h, const char *name)
{
	char        line[64];
	const char *at;

	snprintf(line, sizeof(line), "\r\n%s: ", name);
	at = strstr(h->answer, line);
	if (at == NULL)
		fail_msg("no %s in %s", name, h->answer);
	at += strlen(line);
	return (struct bytes){at, strcspn(at, "\r")};
}

#define CREATE                                                                                               \
	"{'TableName':'abc','KeySchema':[{'AttributeName':'a','KeyType':'HASH'}],'AttributeDefinitions':"    \
	"[{'AttributeName':'a','AttributeType':'S'}],'BillingMode':'PAY_PER_REQUEST'}"

TEST(dynamodb_http, writes_and_reads_go_through_the_engine)
{
	struct house h;

	house_open(&h, 1 << 20);
	assert_int_equal(dynamo(&h, "CreateTable", CREATE), 200);
	assert_int_equal(dynamo(&h, "UpdateItem",
	                        "{'TableName':'abc','Key':{'a':{'S':'x'}},'UpdateExpression':'ADD n :one',"
	                        "'ExpressionAttributeValues':{':one':{'N':'1'}},'ReturnValues':'ALL_NEW'}"),
	                 200);
	assert_string_equal(body_of(&h), "{\"Attributes\":{\"a\":{\"S\":\"x\"},\"n\":{\"N\":\"1\"}}}");
	assert_int_equal(dynamo(&h, "GetItem", "{'TableName':'abc','Key':{'a':{'S':'x'}}}"), 200);
	assert_string_equal(body_of(&h), "{\"Item\":{\"a\":{\"S\":\"x\"},\"n\":{\"N\":\"1\"}}}");
	assert_int_equal(dynamo(&h, "PutItem",
	                        "{'TableName':'abc','Item':{'a':{'S':'x'}},'ConditionExpression':"
	                        "'attribute_not_exists(a)'}"),
	                 400);
	assert_non_null(strstr(body_of(&h), "#ConditionalCheckFailedException"));
	assert_int_equal(dynamo(&h, "PutItem", "{'TableName':'nosuch','Item':{'a':{'S':'x'}}}"), 400);
	assert_non_null(strstr(body_of(&h), "#ResourceNotFoundException"));
	house_close(&h);
}

TEST(dynamodb_http, every_answer_has_its_checksum_and_an_id_of_its_own)
{
	struct house h;
	char         first[REQUEST_ID_LENGTH];

	house_open(&h, 1 << 20);
	for (unsigned i = 0; i < 8; i++) {
		struct bytes id, sum;
		char         text[32];

		dynamo(&h, i % 2 ? "ListTables" : "Nonsense", "{}");
		assert_bytes(header_of(&h, "Content-Type"), "application/x-amz-json-1.0");
		sum = header_of(&h, "x-amz-crc32");
		snprintf(text, sizeof(text), "%lu",
		         crc32(0, (const unsigned char *)body_of(&h), (unsigned)strlen(body_of(&h))));
		assert_bytes(sum, text);
		id = header_of(&h, "x-amzn-RequestId");
		assert_int_equal(id.len, REQUEST_ID_LENGTH);
		for (size_t j = 0; j < id.len; j++)
			assert_true(isupper((unsigned char)id.data[j]) || isdigit((unsigned char)id.data[j]));
		if (i > 0)
			assert_memory_not_equal(id.data, first, REQUEST_ID_LENGTH);
		else
			memcpy(first, id.data, REQUEST_ID_LENGTH);
	}
	house_close(&h);
}

TEST(dynamodb_http, request_ids_do_not_repeat_within_or_between_loops)
{
	struct api          api = {.parts.seed = {3, 4}};
	struct http_handler handler = api_handler(&api);
	struct api_loop    *one = handler.loop_open(&api), *two = handler.loop_open(&api);
	char                ids[2000][REQUEST_ID_LENGTH];

	for (unsigned i = 0; i < 2000; i++)
		api_loop_request_id(i % 2 ? one : two, ids[i]);
	for (unsigned i = 0; i < 2000; i++)
		for (unsigned j = i + 1; j < 2000; j++)
			assert_true(memcmp(ids[i], ids[j], REQUEST_ID_LENGTH) != 0);
	handler.loop_close(&api, one);
	handler.loop_close(&api, two);
}

TEST(dynamodb_http, a_full_queue_is_answered_503_with_retry_after)
{
	struct house        h;
	struct gate         gate;
	struct turn_request waits = {.run = run_nothing, .done = done_nothing, .cost_bytes = 1};
	struct err          err;

	house_open(&h, 1);
	gate_close(&gate, h.engine);
	assert_int_equal(engine_submit(h.engine, &waits, &err), ERR_NONE);
	engine_gathered(h.engine);
	assert_int_equal(dynamo(&h, "CreateTable", CREATE), 503);
	assert_bytes(header_of(&h, "Retry-After"), "1");
	assert_non_null(strstr(body_of(&h), "#ServiceUnavailable"));
	assert_int_equal(dynamo(&h, "ListTables", "{}"), 200); /* reads go on */
	assert_string_equal(body_of(&h), "{\"TableNames\":[]}");
	gate_open(&gate);
	house_close(&h);
}

TEST(dynamodb_http, takes_json_and_nothing_else)
{
	struct house h;

	house_open(&h, 1 << 20);
	assert_int_equal(request(&h, "POST", "/", "X-Amz-Target: DynamoDB_20120810.ListTables\r\n", "{}"),
	                 200);
	assert_int_equal(
	        request(&h, "POST", "/",
	                "x-amz-target: DynamoDB_20120810.ListTables\r\ncontent-type: application/json\r\n",
	                "{}"),
	        200);
	assert_int_equal(
	        request(&h, "POST", "/",
	                "X-Amz-Target: DynamoDB_20120810.ListTables\r\nContent-Type: application/cbor\r\n",
	                "{}"),
	        400);
	assert_int_equal(request(&h, "POST", "/", "", "{}"), 400);
	assert_string_equal(body_of(&h),
	                    "{\"__type\":\"com.amazon.coral.service#UnknownOperationException\"}");
	house_close(&h);
}

TEST(dynamodb_http, a_body_past_the_limit_is_refused_in_dynamodbs_form)
{
	struct house h;

	house_open(&h, 1 << 20);
	assert_int_equal(exchange(&h, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65537\r\n\r\n"),
	                 413);
	assert_non_null(
	        strstr(body_of(&h), "{\"__type\":\"com.amazon.coral.service#RequestEntityTooLarge\""));
	house_close(&h);
}

TEST(dynamodb_http, the_host_is_what_endpoints_tell)
{
	struct house h;

	house_open(&h, 1 << 20);
	assert_int_equal(dynamo(&h, "DescribeEndpoints", "{}"), 200);
	assert_string_equal(body_of(&h),
	                    "{\"Endpoints\":[{\"Address\":\"localhost\",\"CachePeriodInMinutes\":1440}]}");
	house_close(&h);
}

TEST(routes, every_route_answers)
{
	struct house h;

	house_open(&h, 1 << 20);
	for (unsigned i = 0; route_at(i) != NULL; i++) {
		const char *method = route_at(i)->method == HTTP_GET ? "GET" : "POST";
		char        path[100];

		snprintf(path, sizeof(path), "%.*s", BYTES_ARG(route_at(i)->path));
		assert_int_equal(request(&h, method, path, "X-Amz-Target: DynamoDB_20120810.ListTables\r\n",
		                         method[0] == 'P' ? "{}" : ""),
		                 200);
	}
	house_close(&h);
}

TEST(routes, metrics_are_refused_unless_open)
{
	struct house h;

	house_open(&h, 1 << 20);
	api_watch(&h.api, h.http);
	assert_int_equal(request(&h, "GET", "/metrics", "", ""), 200);
	assert_bytes(header_of(&h, "Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
	assert_non_null(strstr(body_of(&h), "\ngatehouse_connections 1\n"));
	h.api.parts.metrics_open = false;
	assert_int_equal(request(&h, "GET", "/metrics", "", ""), 403);
	assert_null(strstr(body_of(&h), "gatehouse_"));
	house_close(&h);
}

/* Sends a scrape; its answer is read later. */
static int scrape(struct house *h)
{
	static const char text[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	int               fd = dial(h);

	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	return fd;
}

static void scraped(struct house *h, int fd)
{
	size_t  len = 0;
	ssize_t got;

	while ((got = recv(fd, h->answer + len, sizeof(h->answer) - 1 - len, 0)) > 0)
		len += (size_t)got;
	close(fd);
	h->answer[len] = '\0';
	assert_true(bytes_starts_with(bytes_of(h->answer), BYTES("HTTP/1.1 200 ")));
	assert_non_null(strstr(h->answer, "\ngatehouse_build_info"));
}

TEST(routes, metrics_are_rendered_at_most_once_per_second_however_many_ask)
{
	enum { MANY = 60, ROUNDS = 3 };
	struct house h;
	int          fds[MANY];
	int64_t      begun_us = clock_steady_us(clock_system()), us;

	house_open(&h, 1 << 20);
	api_watch(&h.api, h.http);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < MANY; i++)
			fds[i] = scrape(&h);
		for (int i = 0; i < MANY; i++)
			scraped(&h, fds[i]);
	}
	us = clock_steady_us(clock_system()) - begun_us;
	assert_in_range(scraper_renders(h.scraper), ROUNDS, us / (SCRAPE_MS * 1000) + 1);
	house_close(&h);
}

TEST(routes, metrics_count_what_was_answered_before_they_were_asked_for)
{
	struct house h;

	house_open(&h, 1 << 20);
	api_watch(&h.api, h.http);
	for (int i = 1; i <= 2; i++) { /* the first scrape after a start, and one within the same second */
		assert_int_equal(dynamo(&h, "ListTables", "{}"), 200);
		scraped(&h, scrape(&h));
		assert_non_null(strstr(
		        h.answer,
		        i == 1 ? "\ngatehouse_requests_total{operation=\"ListTables\",outcome=\"ok\"} 1\n"
		               : "\ngatehouse_requests_total{operation=\"ListTables\",outcome=\"ok\"} 2\n"));
	}
	house_close(&h);
}

TEST(routes, a_stop_answers_who_waits_for_metrics)
{
	struct house h;
	int          fds[2];

	house_open(&h, 1 << 20);
	api_watch(&h.api, h.http);
	fds[0] = scrape(&h);
	scraped(&h, fds[0]);
	fds[1] = scrape(&h); /* waits for the next second, or is refused: the stop comes first */
	house_close(&h);
	close(fds[1]);
}

TEST(routes, ready_is_not_alive)
{
	struct house h;

	house_open(&h, 1 << 20);
	assert_int_equal(request(&h, "GET", "/readyz", "", ""), 200);
	atomic_store(&h.ready, false);
	assert_int_equal(request(&h, "GET", "/readyz", "", ""), 503);
	assert_bytes(header_of(&h, "Retry-After"), "1");
	assert_int_equal(request(&h, "GET", "/livez", "", ""), 200);
	house_close(&h);
}

TEST(routes, other_paths_and_methods_are_problems)
{
	struct house h;

	house_open(&h, 1 << 20);
	assert_int_equal(request(&h, "GET", "/nothing", "", ""), 404);
	assert_bytes(header_of(&h, "Content-Type"), "application/problem+json");
	assert_string_equal(
	        body_of(&h),
	        "{\"type\":\"urn:gatehouse:problem:not-found\",\"title\":\"Not "
	        "Found\",\"status\":404,\"detail\":\"unknown path; GET /openapi.yaml lists every call\"}\n");
	assert_int_equal(request(&h, "DELETE", "/", "", ""), 405);
	assert_bytes(header_of(&h, "Allow"), "GET, HEAD, POST");
	assert_int_equal(request(&h, "POST", "/livez", "", ""), 405);
	assert_bytes(header_of(&h, "Allow"), "GET, HEAD");
	house_close(&h);
}
