/* Calls over real sockets, against a scripted peer: keep-alive, retries, deadlines, answers that are none, and how the
 * client degrades and recovers. */
#include "peer.h"

#include "answer.h"
#include "breaker.h"
#include "handle.h"
#include "link.h"
#include "request.h"

#define PROBLEM(status, body)                                                                                \
	"HTTP/1.1 " status "\r\nContent-Type: application/problem+json\r\nRetry-After: 7\r\n" body

static struct peer      *peer;
static struct gatehouse *client;

static void begin(struct gatehouse_options options, const struct peer_step *steps, unsigned long count)
{
	peer = peer_open(0, steps, count);
	client = client_open(peer->port, options);
}

static void end(void)
{
	gatehouse_close(client);
	peer_close(peer);
}

/* What a header of the n-th request says; the test frees it. */
static char *seen_header(unsigned n, const char *name)
{
	char *at;

	assert_true(peer_requests(peer) > n);
	at = strstr(peer->seen[n], name);
	assert_non_null(at);
	at += strlen(name);
	return strndup(at, strcspn(at, "\r"));
}

/* ---- requests as they are on the wire ---- */

TEST(wire, an_attempt_is_sent_whole_with_the_key_and_an_idempotency_key)
{
	struct gatehouse_attempt_request request = {.subject = "a\"\\\n\xc3\xa9",
	                                            .journey = "SIGN_IN",
	                                            .type = "MFA_CODE",
	                                            .outcome = GATEHOUSE_SENT,
	                                            .method_id = "m1",
	                                            .method_type = "SMS",
	                                            .notification_type = "MFA_SMS",
	                                            .challenge_passed = true,
	                                            .ip = "192.0.2.1",
	                                            .device_token = "d1",
	                                            .idempotency_key = "once-1"};
	struct gatehouse_attempt_answer  answer;
	struct gatehouse_options         options = PATIENT;

	options.key = "id.secret";
	begin(options, PEER_SCRIPT({PEER_ANSWER, ADMITTED}));
	assert_int_equal(gatehouse_attempt(client, &request, &answer, NULL), GATEHOUSE_OK);
	assert_int_equal(answer.verdict, GATEHOUSE_ALLOW);
	assert_string_equal(answer.device_token, "");
	assert_string_equal(answer.idempotency_key, "once-1");
	assert_memory_equal(peer->seen[0], "POST /v1/attempts HTTP/1.1\r\nHost: 127.0.0.1:", 44);
	assert_non_null(strstr(peer->seen[0], "\r\nAuthorization: Bearer id.secret\r\n"));
	assert_non_null(strstr(peer->seen[0], "\r\nIdempotency-Key: once-1\r\n"));
	assert_string_equal(
	        strstr(peer->seen[0], "\r\n\r\n") + 4,
	        "{\"subject\":\"a\\\"\\\\\\u000a\xc3\xa9\",\"journey\":\"SIGN_IN\",\"type\":\"MFA_CODE\","
	        "\"outcome\":\"sent\",\"method_id\":\"m1\",\"method_type\":\"SMS\","
	        "\"notification_type\":\"MFA_SMS\",\"challenge\":\"passed\",\"context\":{\"ip\":\"192.0.2."
	        "1\",\"device_token\":\"d1\"}"
	        "}");
	end();
}

TEST(wire, the_token_of_a_known_device_comes_with_the_answer)
{
	struct gatehouse_attempt_request request = {
	        .subject = "a", .journey = "SIGN_IN", .type = "MFA_CODE", .outcome = GATEHOUSE_SUCCESS};
	struct gatehouse_attempt_answer answer;

	begin(PATIENT, PEER_SCRIPT({PEER_ANSWER,
	                            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
	                            "63\r\n\r\n{\"verdict\":\"allow\",\"known_device\":true,"
	                            "\"device_token\":\"abc-_1\"}"}));
	assert_int_equal(gatehouse_attempt(client, &request, &answer, NULL), GATEHOUSE_OK);
	assert_true(answer.known_device);
	assert_string_equal(answer.device_token, "abc-_1");
	end();
}

TEST(wire, an_address_or_a_number_is_sent_as_what_it_is)
{
	struct gatehouse_attempt_request attempt = {.subject = "ann@example.org",
	                                            .subject_kind = GATEHOUSE_EMAIL,
	                                            .journey = "SIGN_IN",
	                                            .type = "MFA_CODE_ENTRY",
	                                            .outcome = GATEHOUSE_FAILURE,
	                                            .method_id = "+441632960001",
	                                            .method_id_kind = GATEHOUSE_PHONE};
	struct gatehouse_allow_request  allow = {.policy = "p", .key = "192.0.2.1", .key_kind = GATEHOUSE_IP};
	struct gatehouse_attempt_answer answer;
	struct gatehouse_allow_answer   allowed;
	struct gatehouse_error          error;

	begin(PATIENT, PEER_SCRIPT({PEER_ANSWER, ADMITTED}, {PEER_ANSWER, ALLOWED}));
	assert_int_equal(gatehouse_attempt(client, &attempt, &answer, NULL), GATEHOUSE_OK);
	assert_non_null(strstr(peer->seen[0], "{\"subject\":{\"email\":\"ann@example.org\"},"));
	assert_non_null(strstr(peer->seen[0], "\"method_id\":{\"phone\":\"+441632960001\"}"));
	assert_int_equal(gatehouse_allow(client, &allow, &allowed, NULL), GATEHOUSE_OK);
	assert_non_null(strstr(peer->seen[1], "\"key\":{\"ip\":\"192.0.2.1\"}"));
	attempt.subject = NULL;
	assert_int_equal(gatehouse_attempt(client, &attempt, &answer, &error), GATEHOUSE_INVALID);
	assert_string_equal(error.field, "subject");
	attempt.subject = "ann";
	attempt.subject_kind = (enum gatehouse_kind)99;
	assert_int_equal(gatehouse_attempt(client, &attempt, &answer, &error), GATEHOUSE_INVALID);
	assert_string_equal(error.field, "subject");
	end();
}

TEST(wire, a_check_names_its_actions_and_an_allow_its_cost)
{
	const char *const              actions[] = {"one", "two"};
	struct gatehouse_check_request check = {
	        .subject = "s", .journey = "SIGN_IN", .actions = actions, .action_count = 2};
	struct gatehouse_check_answer  checked;
	struct gatehouse_allow_request allow = {.policy = "p", .key = "k", .cost = 3};
	struct gatehouse_allow_answer  allowed;

	begin(PATIENT, PEER_SCRIPT({PEER_ANSWER, ADMITTED}, {PEER_ANSWER, ALLOWED}));
	assert_int_equal(gatehouse_check(client, &check, &checked, NULL), GATEHOUSE_OK);
	assert_int_equal(checked.verdict, GATEHOUSE_ALLOW);
	assert_string_equal(strstr(peer->seen[0], "\r\n\r\n") + 4,
	                    "{\"subject\":\"s\",\"journey\":\"SIGN_IN\",\"actions\":[\"one\",\"two\"]}");
	assert_null(strstr(peer->seen[0], "Authorization"));
	assert_int_equal(gatehouse_allow(client, &allow, &allowed, NULL), GATEHOUSE_OK);
	allow.cost = 0;
	assert_int_equal(gatehouse_allow(client, &allow, &allowed, NULL), GATEHOUSE_OK);
	allow.peek = true;
	assert_int_equal(gatehouse_allow(client, &allow, &allowed, NULL), GATEHOUSE_OK);
	assert_true(allowed.allowed && !allowed.degraded && allowed.cause == GATEHOUSE_OK);
	assert_string_equal(strstr(peer->seen[1], "\r\n\r\n") + 4,
	                    "{\"policy\":\"p\",\"key\":\"k\",\"cost\":3}");
	assert_string_equal(strstr(peer->seen[2], "\r\n\r\n") + 4,
	                    "{\"policy\":\"p\",\"key\":\"k\",\"cost\":1}");
	assert_string_equal(strstr(peer->seen[3], "\r\n\r\n") + 4,
	                    "{\"policy\":\"p\",\"key\":\"k\",\"cost\":0}");
	end();
}

static enum gatehouse_code attempt_with(const char *subject, const char *key)
{
	struct gatehouse_attempt_request request = {.subject = subject,
	                                            .journey = "SIGN_IN",
	                                            .type = "PASSWORD_ENTRY",
	                                            .outcome = GATEHOUSE_FAILURE,
	                                            .idempotency_key = key};
	struct gatehouse_attempt_answer  answer;

	return gatehouse_attempt(client, &request, &answer, NULL);
}

TEST(wire, texts_at_their_longest_are_sent_and_one_past_it_refused_here)
{
	char subject[GATEHOUSE_TEXT_BYTES_MAX + 2], key[REQUEST_KEY_BYTES_MAX + 2];

	memset(subject, 's', sizeof(subject));
	memset(key, 'k', sizeof(key));
	subject[GATEHOUSE_TEXT_BYTES_MAX + 1] = key[REQUEST_KEY_BYTES_MAX + 1] = '\0';
	begin(PATIENT, PEER_SCRIPT({PEER_ANSWER, ADMITTED}));
	assert_int_equal(attempt_with(subject, "k"), GATEHOUSE_INVALID);
	assert_int_equal(attempt_with("s", key), GATEHOUSE_INVALID);
	assert_int_equal(attempt_with("s", "k\n"), GATEHOUSE_INVALID);
	assert_int_equal(attempt_with("s", ""), GATEHOUSE_INVALID);
	assert_int_equal(attempt_with("\xff", "k"), GATEHOUSE_INVALID);
	assert_int_equal(attempt_with("\xed\xa0\x80", "k"), GATEHOUSE_INVALID);
	assert_int_equal(attempt_with("", "k"), GATEHOUSE_INVALID);
	assert_int_equal(attempt_with(NULL, "k"), GATEHOUSE_INVALID);
	assert_int_equal(peer_requests(peer), 0);
	subject[GATEHOUSE_TEXT_BYTES_MAX] = key[REQUEST_KEY_BYTES_MAX] = '\0';
	assert_int_equal(attempt_with(subject, key), GATEHOUSE_OK);
	assert_int_equal(peer_requests(peer), 1);
	end();
}

/* Eight texts of control characters, six bytes each when escaped. */
TEST(wire, a_body_past_its_maximum_is_refused_here)
{
	char                             text[GATEHOUSE_TEXT_BYTES_MAX + 1];
	struct gatehouse_attempt_request request = {.subject = text,
	                                            .journey = text,
	                                            .type = text,
	                                            .outcome = GATEHOUSE_FAILURE,
	                                            .method_id = text,
	                                            .method_type = text,
	                                            .notification_type = text,
	                                            .ip = text,
	                                            .device_token = text,
	                                            .idempotency_key = "k"};
	struct gatehouse_attempt_answer  answer;
	struct gatehouse_error           error;

	memset(text, '\1', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	begin(PATIENT, PEER_SCRIPT({PEER_ANSWER, ADMITTED}));
	assert_int_equal(gatehouse_attempt(client, &request, &answer, &error), GATEHOUSE_INVALID);
	assert_string_equal(error.text, "the request is too long");
	end();
}

TEST(wire, what_cannot_be_right_is_refused_here_and_says_which)
{
	struct gatehouse_attempt_request attempt = {
	        .subject = "s", .journey = "SIGN_IN", .type = "PASSWORD_ENTRY"};
	struct gatehouse_attempt_answer answer;
	struct gatehouse_allow_request  allow = {.policy = "p", .key = "k", .cost = -1};
	struct gatehouse_allow_answer   allowed;
	const char                     *actions[GATEHOUSE_ACTIONS_MAX + 1];
	struct gatehouse_check_request  check = {.subject = "s", .journey = "j", .actions = actions};
	struct gatehouse_check_answer   checked;
	struct gatehouse_error          error;

	for (int i = 0; i <= GATEHOUSE_ACTIONS_MAX; i++)
		actions[i] = "a";
	begin(PATIENT, PEER_SCRIPT({PEER_ANSWER, ADMITTED}));
	assert_int_equal(gatehouse_attempt(client, &attempt, &answer, &error), GATEHOUSE_INVALID);
	assert_string_equal(error.field, "outcome");
	assert_string_equal(error.text, "outcome: missing");
	attempt.outcome = GATEHOUSE_SUCCESS;
	attempt.deadline_ms = GATEHOUSE_DEADLINE_MS_MAX + 1;
	assert_int_equal(gatehouse_attempt(client, &attempt, &answer, &error), GATEHOUSE_INVALID);
	assert_int_equal(gatehouse_allow(client, &allow, &allowed, &error), GATEHOUSE_INVALID);
	assert_false(allowed.allowed);
	assert_int_equal(gatehouse_check(client, &check, &checked, &error), GATEHOUSE_INVALID);
	check.action_count = GATEHOUSE_ACTIONS_MAX + 1;
	assert_int_equal(gatehouse_check(client, &check, &checked, &error), GATEHOUSE_INVALID);
	assert_int_equal(peer_requests(peer), 0);
	check.action_count = GATEHOUSE_ACTIONS_MAX;
	assert_int_equal(gatehouse_check(client, &check, &checked, &error), GATEHOUSE_OK);
	attempt.deadline_ms = GATEHOUSE_DEADLINE_MS_MAX;
	assert_int_equal(gatehouse_attempt(client, &attempt, &answer, &error), GATEHOUSE_OK);
	end();
}

/* ---- answers ---- */

TEST(answers, an_attempt_answer_is_read_whole_and_unknown_members_are_passed_over)
{
	static const char text[] =
	        "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\n"
	        "Transfer-Encoding: chunked\r\n\r\n"
	        "5a\r\n{\"counts\":{\"verdict\":\"allow\"},\"verdict\":\"locked\","
	        "\"reason\":\"PASSWORD_ENTRY\",\"counted\":true,\r\n"
	        "90;x=y\r\n\"first_time\":true,\"until\":\"2026-11-16T00:15:00Z\",\"retry_after\":899.2,"
	        "\"lock\":{\"until\":\"2026-11-16T00:05:00Z\",\"retry_after\":299},\"event_seq\":12}  \r\n"
	        "0\r\nTrailer: x\r\n\r\n";
	struct gatehouse_attempt_answer answer;

	begin(PATIENT, PEER_SCRIPT({PEER_ANSWER, text}));
	assert_int_equal(client_attempt(client, "s", &answer), GATEHOUSE_OK);
	assert_int_equal(answer.verdict, GATEHOUSE_LOCKED);
	assert_string_equal(answer.reason, "PASSWORD_ENTRY");
	assert_true(answer.counted && answer.first_time);
	assert_int_equal(answer.retry_after_s, 900);
	assert_string_equal(answer.until, "2026-11-16T00:15:00Z");
	end();
}

TEST(answers, a_limit_answer_is_read_whole_and_its_policy_is_learned)
{
	static const char text[] =
	        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ?\r\n"
	        "RateLimit-Policy: \"p\";q=2;w=3600\r\n\r\n"
	        "{\"allowed\":false,\"retry_after\":30,\"degraded\":true,"
	        "\"results\":[{\"policy\":\"p\",\"allowed\":false,\"limit\":2,\"remaining\":0,\"reset\":60},"
	        "7]     }";
	struct gatehouse_allow_answer answer;

	begin(PATIENT, PEER_SCRIPT({PEER_ANSWER_CLOSE, text}));
	answer = client_allow(client, "k");
	assert_true(!answer.allowed && answer.degraded && answer.cause == GATEHOUSE_OK);
	assert_int_equal(answer.retry_after_s, 30);
	assert_int_equal(answer.result_count, 1);
	assert_string_equal(answer.results[0].policy, "p");
	assert_int_equal(answer.results[0].limit, 2);
	assert_int_equal(answer.results[0].reset_s, 60);
	assert_false(answer.results[0].allowed);
	peer_close(peer);
	/* Two in an hour, and not a third. */
	assert_true(client_allow(client, "k").allowed);
	assert_true(client_allow(client, "k").allowed);
	answer = client_allow(client, "k");
	assert_true(!answer.allowed && answer.degraded && answer.cause == GATEHOUSE_UNREACHABLE);
	assert_in_range(answer.retry_after_s, 1, 1800);
	gatehouse_close(client);
}

TEST(answers, a_refusal_says_which_field_and_why_and_is_not_overruled)
{
	static const char              text[] = PROBLEM("422 Unprocessable Content",
	                                                "Content-Length: ?\r\n\r\n{\"title\":\"Invalid\",\"status\":422,"
	                                                             "\"detail\":\"no such policy\",\"field\":\"policy\"}    ");
	struct gatehouse_allow_request request = {.policy = "p", .key = "k"};
	struct gatehouse_allow_answer  answer;
	struct gatehouse_error         error;

	begin(PATIENT, PEER_SCRIPT({PEER_ANSWER, text}));
	assert_int_equal(gatehouse_allow(client, &request, &answer, &error), GATEHOUSE_REFUSED);
	assert_int_equal(error.status, 422);
	assert_string_equal(error.text, "no such policy");
	assert_string_equal(error.field, "policy");
	assert_false(answer.allowed);
	end();
}

TEST(answers, the_servers_own_503_is_its_word_and_a_proxys_is_not)
{
	struct gatehouse_allow_request  request = {.policy = "p", .key = "k"};
	struct gatehouse_allow_answer   allowed;
	struct gatehouse_attempt_answer answer;
	struct gatehouse_error          error;

	begin(PATIENT, PEER_SCRIPT({PEER_ANSWER, PROBLEM("503 Service Unavailable",
	                                                 "Content-Length: ?\r\n\r\n{\"title\":\"full\"}")},
	                           {PEER_ANSWER,
	                            "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy"}));
	assert_int_equal(gatehouse_allow(client, &request, &allowed, &error), GATEHOUSE_UNAVAILABLE);
	assert_int_equal(error.retry_after_s, 7);
	assert_string_equal(error.text, "full");
	assert_false(allowed.allowed);
	assert_int_equal(gatehouse_allow(client, &request, &allowed, &error), GATEHOUSE_OK);
	assert_true(allowed.allowed && allowed.degraded && allowed.cause == GATEHOUSE_UNREACHABLE);
	assert_int_equal(client_attempt(client, "s", &answer), GATEHOUSE_UNREACHABLE);
	assert_int_equal(answer.verdict, GATEHOUSE_UNKNOWN);
	end();
}

TEST(answers, what_is_no_answer_is_never_a_verdict)
{
#define JSON "Content-Type: application/json\r\nContent-Length: ?\r\n\r\n"
	static const char *const texts[] = {
	        "HTTP/1.1 200 OK\r\n" JSON "{\"verdict\":\"allow\"",
	        "HTTP/1.1 200 OK\r\n" JSON "{\"verdict\":\"allow\"},",
	        "HTTP/1.1 200 OK\r\n" JSON "{\"verdict\":\"Allow\"} ",
	        "HTTP/1.1 200 OK\r\n" JSON "{\"verdict\":true}  ",
	        "HTTP/1.1 200 OK\r\n" JSON "{}",
	        "HTTP/1.1 200 OK\r\n" JSON "[]",
	        "HTTP/1.1 200 OK\r\n" JSON,
	        "HTTP/1.1 200 OK\r\n" JSON "{\"verdict\":\"allow\",\"verdict\":\"allow\"}",
	        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: "
	        "19\r\n\r\n{\"verdict\":\"allow\"}",
	        "HTTP/1.1 302 Found\r\n" JSON "{\"verdict\":\"allow\"}",
	        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"verdict\":\"allow\"}",
	        "HTTP/2 200 OK\r\n" JSON "{\"verdict\":\"allow\"}",
	        "HTTP/1.1 200 OK\n" JSON "{\"verdict\":\"allow\"}",
	        "SSH-2.0-OpenSSH\r\n",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct gatehouse_attempt_answer answer;

		begin(PATIENT, PEER_SCRIPT({PEER_ANSWER, texts[i]}));
		assert_int_equal(client_attempt(client, "s", &answer), GATEHOUSE_PROTOCOL);
		assert_int_equal(answer.verdict, GATEHOUSE_UNKNOWN);
		assert_int_equal(peer_requests(peer), 1);
		end();
	}
}

/* ---- keep-alive ---- */

TEST(keep_alive, one_connection_serves_call_after_call)
{
	begin(PATIENT, PEER_SCRIPT({PEER_ANSWER, ALLOWED}));
	for (int i = 0; i < 20; i++)
		assert_false(client_allow(client, "k").degraded);
	assert_int_equal(peer_requests(peer), 20);
	assert_int_equal(peer_connections(peer), 1);
	end();
}

TEST(keep_alive, a_connection_that_is_to_be_closed_or_has_more_to_say_is_not_used_again)
{
	begin(PATIENT, PEER_SCRIPT({PEER_ANSWER, "HTTP/1.1 200 OK\r\nContent-Type: "
	                                         "application/json\r\nConnection: Keep-Alive, Close\r\n"
	                                         "Content-Length: 16\r\n\r\n{\"allowed\":true}"},
	                           {PEER_ANSWER, ALLOWED ALLOWED}, {PEER_ANSWER, ALLOWED}));
	for (int i = 0; i < 4; i++)
		assert_false(client_allow(client, "k").degraded);
	assert_int_equal(peer_requests(peer), 4);
	assert_int_equal(peer_connections(peer), 3);
	end();
}

TEST(keep_alive, a_connection_that_the_server_closed_is_replaced_without_anyone_noticing)
{
	begin(PATIENT, PEER_SCRIPT({PEER_ANSWER_CLOSE, ALLOWED}));
	for (int i = 0; i < 10; i++)
		assert_false(client_allow(client, "k").degraded);
	assert_int_equal(peer_requests(peer), 10);
	end();
}

/* Were they taken for the answer to the next request, somebody would get an answer to another question. */
TEST(keep_alive, bytes_that_come_unasked_while_a_connection_is_idle_are_nobodys_answer)
{
	static const char denied[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
	                             "17\r\n\r\n{\"allowed\":false}";
	struct pollfd     idle = {.events = POLLIN};

	begin(PATIENT, PEER_SCRIPT({PEER_ANSWER, ALLOWED}));
	assert_true(client_allow(client, "k").allowed);
	peer_interject(peer, 0, denied);
	idle.fd = client->idle->link.fd;
	assert_int_equal(poll(&idle, 1, -1), 1);
	assert_true(client_allow(client, "k").allowed);
	assert_int_equal(peer_connections(peer), 2);
	end();
}

TEST(retries, a_request_whose_connection_breaks_is_sent_once_more_with_the_same_idempotency_key)
{
	struct gatehouse_attempt_answer answer;
	char                           *first, *second, *third;

	begin(PATIENT, PEER_SCRIPT({PEER_ANSWER, ADMITTED}, {PEER_CLOSE, NULL}, {PEER_ANSWER, ADMITTED}));
	assert_int_equal(client_attempt(client, "s", &answer), GATEHOUSE_OK);
	assert_int_equal(client_attempt(client, "s", &answer), GATEHOUSE_OK);
	assert_int_equal(peer_requests(peer), 3);
	first = seen_header(0, "Idempotency-Key: ");
	second = seen_header(1, "Idempotency-Key: ");
	third = seen_header(2, "Idempotency-Key: ");
	assert_int_equal(strlen(first), 32);
	assert_string_not_equal(first, second);
	assert_string_equal(second, third);
	assert_string_equal(answer.idempotency_key, third);
	free(first);
	free(second);
	free(third);
	end();
}

TEST(retries, an_answer_that_breaks_off_is_asked_for_once_more_and_a_408_too)
{
	struct gatehouse_attempt_answer answer;

	begin(PATIENT,
	      PEER_SCRIPT(
	              {PEER_ANSWER_CLOSE, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Le"},
	              {PEER_ANSWER, ADMITTED},
	              {PEER_ANSWER_CLOSE, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"},
	              {PEER_ANSWER, ADMITTED}));
	assert_int_equal(client_attempt(client, "s", &answer), GATEHOUSE_OK);
	assert_int_equal(client_attempt(client, "s", &answer), GATEHOUSE_OK);
	assert_int_equal(peer_requests(peer), 4);
	end();
}

TEST(retries, the_second_break_is_final_and_the_answer_still_has_the_key)
{
	struct gatehouse_attempt_answer answer;
	char                           *key;

	begin(PATIENT, PEER_SCRIPT({PEER_CLOSE, NULL}));
	assert_int_equal(client_attempt(client, "s", &answer), GATEHOUSE_UNREACHABLE);
	assert_int_equal(answer.verdict, GATEHOUSE_UNKNOWN);
	assert_int_equal(peer_requests(peer), 2);
	key = seen_header(1, "Idempotency-Key: ");
	assert_string_equal(answer.idempotency_key, key);
	free(key);
	end();
}

/* ---- deadlines: kept from below exactly, from above as far as a busy machine lets us see ---- */

enum { DEADLINE_MS = 150, LATE_MS = 20000 };

static void expect_timeout(const struct peer_step *steps, unsigned long count)
{
	struct gatehouse_attempt_answer answer;
	int64_t                         began_us, took_us;

	begin((struct gatehouse_options){.deadline_ms = DEADLINE_MS}, steps, count);
	began_us = clock_us();
	assert_int_equal(client_attempt(client, "s", &answer), GATEHOUSE_TIMEOUT);
	took_us = clock_us() - began_us;
	assert_in_range(took_us, DEADLINE_MS * 1000, LATE_MS * 1000);
	assert_int_equal(answer.verdict, GATEHOUSE_UNKNOWN);
	end();
}

TEST(deadline, is_kept_against_a_peer_that_never_answers)
{
	expect_timeout(PEER_SCRIPT({PEER_SILENT, NULL}));
}

TEST(deadline, is_kept_against_a_peer_that_answers_a_byte_at_a_time)
{
	expect_timeout(PEER_SCRIPT({PEER_DRIP, "HTTP/1.1 200 OK\r\nX: "}));
	expect_timeout(PEER_SCRIPT(
	        {PEER_DRIP,
	         "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"}));
}

TEST(deadline, is_kept_against_a_peer_that_always_has_one_more_byte)
{
	int         ends[2];
	struct link link;
	char        byte;
	size_t      len;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	link = (struct link){.fd = ends[0]};
	assert_int_equal(write(ends[1], "aa", 2), 2);
	assert_int_equal(link_receive(&link, &byte, 1, clock_us() + INT64_C(60000000), &len), LINK_OK);
	assert_int_equal(link_receive(&link, &byte, 1, clock_us() - 1, &len), LINK_TIMEOUT);
	link_close(&link);
	close(ends[1]);
}

TEST(deadline, is_kept_while_tls_shakes_hands)
{
	char                            url[64];
	struct gatehouse_options        options = {.url = url, .deadline_ms = DEADLINE_MS};
	struct gatehouse_attempt_answer answer;
	int64_t                         began_us;

	peer = peer_open(0, PEER_SCRIPT({PEER_SILENT, NULL}));
	snprintf(url, sizeof(url), "https://127.0.0.1:%u", peer->port);
	client = gatehouse_open(&options, NULL);
	assert_non_null(client);
	began_us = clock_us();
	assert_int_equal(client_attempt(client, "s", &answer), GATEHOUSE_TIMEOUT);
	assert_in_range(clock_us() - began_us, DEADLINE_MS * 1000, LATE_MS * 1000);
	end();
}

TEST(deadline, of_a_call_goes_before_the_handles)
{
	struct gatehouse_attempt_request request = {.subject = "s",
	                                            .journey = "SIGN_IN",
	                                            .type = "PASSWORD_ENTRY",
	                                            .outcome = GATEHOUSE_FAILURE,
	                                            .deadline_ms = DEADLINE_MS};
	struct gatehouse_attempt_answer  answer;
	int64_t                          began_us = clock_us();

	begin((struct gatehouse_options){.deadline_ms = GATEHOUSE_DEADLINE_MS_MAX},
	      PEER_SCRIPT({PEER_SILENT, NULL}));
	assert_int_equal(gatehouse_attempt(client, &request, &answer, NULL), GATEHOUSE_TIMEOUT);
	assert_in_range(clock_us() - began_us, DEADLINE_MS * 1000, LATE_MS * 1000);
	end();
}

/* A listener whose queue is full answers no connection at all, as a machine that is off would not. */
TEST(deadline, is_kept_while_connecting)
{
	enum { FILLERS = 8 };
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t          len = sizeof(at);
	int                listener = socket(AF_INET, SOCK_STREAM, 0), fillers[FILLERS];
	struct gatehouse_attempt_answer answer;
	int64_t                         began_us;

	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 0), 0);
	getsockname(listener, (struct sockaddr *)&at, &len);
	for (int i = 0; i < FILLERS; i++) {
		fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)!connect(fillers[i], (struct sockaddr *)&at, sizeof(at));
	}
	client = client_open(ntohs(at.sin_port), (struct gatehouse_options){.deadline_ms = DEADLINE_MS});
	began_us = clock_us();
	assert_int_equal(client_attempt(client, "s", &answer), GATEHOUSE_TIMEOUT);
	assert_in_range(clock_us() - began_us, DEADLINE_MS * 1000, LATE_MS * 1000);
	gatehouse_close(client);
	for (int i = 0; i < FILLERS; i++)
		close(fillers[i]);
	close(listener);
}

/* ---- degrading and recovering ---- */

static const struct gatehouse_limit two_an_hour[] = {{.policy = "p", .limit = 2, .window_s = 3600}};

TEST(outage, a_limit_from_the_options_holds_and_what_the_server_let_through_counts)
{
	struct gatehouse_options options = PATIENT;

	options.limits = two_an_hour;
	options.limit_count = 1;
	begin(options, PEER_SCRIPT({PEER_ANSWER, ALLOWED}));
	assert_false(client_allow(client, "k").degraded);
	peer_close(peer);
	assert_true(client_allow(client, "k").allowed);
	assert_false(client_allow(client, "k").allowed);
	assert_true(client_allow(client, "another").allowed);
	gatehouse_close(client);
}

TEST(outage, a_policy_nobody_knows_is_allowed_or_not_as_the_options_say)
{
	struct gatehouse_options options = PATIENT;

	begin(options, PEER_SCRIPT({PEER_CLOSE, NULL}));
	assert_true(client_allow(client, "k").allowed);
	end();
	options.deny_when_unknown = true;
	begin(options, PEER_SCRIPT({PEER_CLOSE, NULL}));
	assert_false(client_allow(client, "k").allowed);
	end();
}

TEST(outage, after_three_failures_the_server_is_left_alone_and_calls_are_answered_at_once)
{
	struct gatehouse_options        options = PATIENT;
	struct gatehouse_attempt_answer answer;

	options.probe_ms = GATEHOUSE_PROBE_MS_MAX;
	begin(options, PEER_SCRIPT({PEER_ANSWER_CLOSE, "no HTTP\r\n\r\n"}));
	for (int i = 0; i < BREAKER_FAILURES_MAX; i++)
		assert_int_equal(client_allow(client, "k").cause, GATEHOUSE_PROTOCOL);
	assert_int_equal(peer_requests(peer), BREAKER_FAILURES_MAX);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(client_allow(client, "k").cause, GATEHOUSE_UNREACHABLE);
		assert_int_equal(client_attempt(client, "s", &answer), GATEHOUSE_UNREACHABLE);
		assert_int_equal(answer.verdict, GATEHOUSE_UNKNOWN);
	}
	assert_int_equal(peer_requests(peer), BREAKER_FAILURES_MAX);
	end();
}

TEST(outage, a_refusal_is_no_failure_of_the_server)
{
	struct gatehouse_options        options = PATIENT;
	struct gatehouse_attempt_answer answer;

	options.probe_ms = GATEHOUSE_PROBE_MS_MAX;
	begin(options, PEER_SCRIPT({PEER_ANSWER, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"}));
	for (int i = 0; i < 10; i++)
		assert_int_equal(client_attempt(client, "s", &answer), GATEHOUSE_REFUSED);
	assert_int_equal(peer_requests(peer), 10);
	end();
}

/* The server is killed with calls under way and starts again on the same port. */
TEST(outage, the_client_degrades_and_gives_back_by_itself_when_the_server_returns)
{
	struct gatehouse_options        options = PATIENT;
	struct gatehouse_attempt_answer answer;
	unsigned                        port;

	options.probe_ms = 1;
	begin(options, PEER_SCRIPT({PEER_ANSWER, ALLOWED}));
	port = peer->port;
	for (int round = 0; round < 3; round++) {
		assert_false(client_allow(client, "k").degraded);
		peer_close(peer);
		for (int i = 0; i < 10; i++) {
			assert_true(client_allow(client, "k").degraded);
			assert_int_equal(client_attempt(client, "s", &answer), GATEHOUSE_UNREACHABLE);
		}
		peer = peer_open(port, PEER_SCRIPT({PEER_ANSWER, ALLOWED}));
		while (client_allow(client, "k").degraded)
			continue;
	}
	end();
}
