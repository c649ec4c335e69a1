/* Signed calls: what the peer gets is verified as our own server would verify it. */
#include "outbound/aws.h"

#include "base/log.h"
#include "dynamo/sigv4.h"
#include "scripted.h"

static const int64_t noon_us = 1794830400LL * 1000000; /* 2026-11-16T12:00:00Z */

static const struct retry_profile quick = {.attempts_max = 4,
                                           .delay_us = 10,
                                           .throttled_delay_us = 10,
                                           .delay_max_us = 10,
                                           .quota_max = 500,
                                           .cost = 1,
                                           .throttled_cost = 1};

enum { CALLS_AT_ONCE = 8, CALLS_EACH = 6 };

struct world {
	struct peer            *peer;
	struct outbound        *target;
	struct aws_credentials *credentials;
	struct aws             *aws;
	struct clock_manual     clock;
	struct arena            arena;
	struct aws_answer       answer;
	struct err              err;
};

static const char *variable(void *ctx, const char *name)
{
	(void)ctx;
	if (strcmp(name, "AWS_ACCESS_KEY_ID") == 0)
		return "AKID";
	return strcmp(name, "AWS_SECRET_ACCESS_KEY") == 0 ? "secret" : NULL;
}

static void world_open(struct world *w, struct peer *p)
{
	struct outbound_options options = {.name = "dynamodb",
	                                   .allow_private = true,
	                                   .calls_max = CALLS_AT_ONCE,
	                                   .connect_us = 10000000,
	                                   .attempt_us = 20000000,
	                                   .body_bytes_max = 1000,
	                                   .retry = &quick,
	                                   .circuit = {100, 1000000, 1000000},
	                                   .clock = clock_system()};

	log_set_level(LOG_ERROR);
	*w = (struct world){.peer = p};
	arena_init(&w->arena);
	clock_manual_init(&w->clock, noon_us);
	options.url = arena_printf(&w->arena, "http://127.0.0.1:%u", p->port).data;
	assert_int_equal(outbound_open(&options, &w->target, &w->err), ERR_NONE);
	assert_int_equal(aws_credentials_open(&(struct environment){variable, NULL}, &w->clock.base,
	                                      &w->credentials, &w->err),
	                 ERR_NONE);
	w->aws = aws_open(&aws_dynamodb, w->target, w->credentials, "eu-west-1", &w->clock.base);
}

static void world_close(struct world *w)
{
	aws_close(w->aws);
	aws_credentials_close(w->credentials);
	outbound_close(w->target);
	peer_close(w->peer);
	arena_release(&w->arena);
}

static enum err_code call(struct world *w, const char *operation, const char *body)
{
	struct aws_request r = {.operation = operation,
	                        .body = bytes_of(body),
	                        .repeatable = true,
	                        .deadline_us = clock_steady_us(clock_system()) + 60000000};

	return aws_call(w->aws, &r, &w->arena, &w->answer, &w->err);
}

static struct bytes find_secret(void *ctx, struct bytes key_id)
{
	(void)ctx;
	return bytes_is(key_id, "AKID") ? BYTES("secret") : (struct bytes){NULL, 0};
}

/* Takes a request apart as it was seen, and verifies it at that time. */
static enum err_code verify(struct world *w, const char *seen, int64_t now_us)
{
	struct sigv4_header   headers[32];
	struct sigv4_request  r = {.method = BYTES("POST"),
	                           .path = BYTES("/"),
	                           .headers = headers,
	                           .service = BYTES("dynamodb")};
	struct sigv4_keyring  keys = {.find_secret = find_secret};
	struct sigv4_identity who;
	const char           *at = strstr(seen, "\r\n") + 2;

	for (; strncmp(at, "\r\n", 2) != 0; at = strstr(at, "\r\n") + 2) {
		const char *colon = strchr(at, ':'), *end = strstr(at, "\r\n");

		assert_true(r.header_count < 32);
		headers[r.header_count++] = (struct sigv4_header){
		        {at, (size_t)(colon - at)},
		        bytes_trimmed((struct bytes){colon + 1, (size_t)(end - colon - 1)})};
	}
	r.body = bytes_of(at + 2);
	r.now_us = now_us;
	return sigv4_verify(&r, &keys, &w->arena, &who, &w->err);
}

#define FINE "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
#define ERROR_OF(status, type)                                                                               \
	"HTTP/1.1 " status "\r\nDate: Mon, 16 Nov 2026 13:00:00 GMT\r\nContent-Length: ?\r\n\r\n"            \
	"{\"__type\":\"com.amazonaws.dynamodb.v20120810#" type "\",\"message\":\"x\"}"

TEST(aws, a_call_is_signed_so_that_our_own_server_accepts_it)
{
	struct world w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, FINE})));
	assert_int_equal(call(&w, "GetItem", "{\"TableName\":\"t\"}"), ERR_NONE);
	assert_int_equal(w.answer.http.status, 200);
	assert_non_null(strstr(w.peer->seen[0], "X-Amz-Target: DynamoDB_20120810.GetItem\r\n"));
	assert_non_null(strstr(w.peer->seen[0], "/20261116/eu-west-1/dynamodb/aws4_request"));
	assert_int_equal(verify(&w, w.peer->seen[0], noon_us), ERR_NONE);
	assert_int_equal(verify(&w, w.peer->seen[0], noon_us + 3600LL * 1000000), ERR_SIGNATURE);
	world_close(&w);
}

TEST(aws, a_key_that_was_derived_signs_all_of_its_day_and_nothing_of_the_next)
{
	const int64_t day_us = 24LL * 3600 * 1000000;
	struct world  w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, FINE})));
	assert_int_equal(call(&w, "GetItem", "{}"), ERR_NONE);
	assert_int_equal(call(&w, "PutItem", "{\"a\":1}"), ERR_NONE);
	clock_manual_set(&w.clock, noon_us + day_us);
	assert_int_equal(call(&w, "GetItem", "{}"), ERR_NONE);
	assert_int_equal(verify(&w, w.peer->seen[0], noon_us), ERR_NONE);
	assert_int_equal(verify(&w, w.peer->seen[1], noon_us), ERR_NONE);
	assert_int_equal(verify(&w, w.peer->seen[2], noon_us + day_us), ERR_NONE);
	assert_non_null(strstr(w.peer->seen[2], "/20261117/"));
	world_close(&w);
}

/* On a thread of its own. */
static void *call_often(void *ctx)
{
	struct world     *w = ctx;
	struct arena      arena;
	struct aws_answer answer;
	struct err        err;

	arena_init(&arena);
	for (int i = 0; i < CALLS_EACH; i++) {
		struct aws_request r = {.operation = "GetItem",
		                        .body = BYTES("{}"),
		                        .repeatable = true,
		                        .deadline_us = clock_steady_us(clock_system()) + 60000000};

		if (aws_call(w->aws, &r, &arena, &answer, &err) != ERR_NONE)
			abort();
	}
	arena_release(&arena);
	return NULL;
}

TEST(aws, threads_that_sign_at_the_same_time_all_sign_rightly)
{
	pthread_t    threads[CALLS_AT_ONCE];
	struct world w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, FINE})));
	for (int i = 0; i < CALLS_AT_ONCE; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, call_often, &w), 0);
	for (int i = 0; i < CALLS_AT_ONCE; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(peer_requests(w.peer), CALLS_AT_ONCE * CALLS_EACH);
	for (int i = 0; i < CALLS_AT_ONCE * CALLS_EACH; i++)
		assert_int_equal(verify(&w, w.peer->seen[i], noon_us), ERR_NONE);
	world_close(&w);
}

TEST(aws, throttling_by_name_is_tried_again_with_the_same_invocation_id)
{
	struct world w;
	const char  *first, *second;

	world_open(&w,
	           peer_open(0, PEER_SCRIPT({PEER_ANSWER, ERROR_OF("400 Bad Request", "ThrottlingException")},
	                                    {PEER_ANSWER, FINE})));
	assert_int_equal(call(&w, "PutItem", "{}"), ERR_NONE);
	assert_int_equal(w.answer.http.status, 200);
	assert_int_equal(w.answer.http.tries, 2);
	first = strstr(w.peer->seen[0], "amz-sdk-invocation-id: ");
	second = strstr(w.peer->seen[1], "amz-sdk-invocation-id: ");
	assert_memory_equal(first, second, 23 + 36);
	assert_non_null(strstr(w.peer->seen[1], "amz-sdk-request: attempt=2; max=4\r\n"));
	world_close(&w);
}

TEST(aws, what_the_service_decided_is_an_answer_with_a_type)
{
	struct world w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, ERROR_OF("400 Bad Request",
	                                                               "ConditionalCheckFailedException")})));
	assert_int_equal(call(&w, "PutItem", "{}"), ERR_NONE);
	assert_int_equal(w.answer.http.status, 400);
	assert_bytes(w.answer.type, "ConditionalCheckFailedException");
	assert_int_equal(w.answer.http.tries, 1);
	world_close(&w);
}

TEST(aws, a_clock_that_is_an_hour_slow_is_corrected_once_and_stays_so)
{
	struct world w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER,
	                                         ERROR_OF("400 Bad Request", "InvalidSignatureException")},
	                                        {PEER_ANSWER, FINE})));
	assert_int_equal(call(&w, "GetItem", "{}"), ERR_NONE);
	assert_int_equal(w.answer.http.status, 200);
	assert_int_equal(verify(&w, w.peer->seen[1], noon_us + 3600LL * 1000000), ERR_NONE);
	assert_int_equal(call(&w, "GetItem", "{}"), ERR_NONE);
	assert_int_equal(peer_requests(w.peer), 3);
	world_close(&w);
}

TEST(aws, a_signature_that_is_wrong_for_another_reason_is_not_tried_again)
{
	struct world w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER,
	                                         ERROR_OF("400 Bad Request", "InvalidSignatureException")})));
	clock_manual_set(&w.clock, noon_us + 3600LL * 1000000);
	assert_int_equal(call(&w, "GetItem", "{}"), ERR_NONE);
	assert_bytes(w.answer.type, "InvalidSignatureException");
	assert_int_equal(peer_requests(w.peer), 1);
	world_close(&w);
}

TEST(aws, an_error_is_named_by_header_or_body_whatever_surrounds_the_name)
{
	struct outbound_response r = {.status = 400};
	struct arena             a;

	arena_init(&a);
	r.body = BYTES("{\"__type\":\"ns#Name:http://x\"}");
	assert_bytes(aws_error_type(&r, &a), "Name");
	r.body = BYTES("{\"code\":\"Name\"}");
	assert_bytes(aws_error_type(&r, &a), "Name");
	r.body = BYTES("<html>");
	assert_bytes(aws_error_type(&r, &a), "");
	r.headers[0] = (struct outbound_header){BYTES("X-Amzn-ErrorType"), BYTES("Other:")};
	r.header_count = 1;
	assert_bytes(aws_error_type(&r, &a), "Other");
	r.status = 200;
	assert_bytes(aws_error_type(&r, &a), "");
	arena_release(&a);
}
