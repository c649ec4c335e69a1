/* Checks with limits, against a scripted peer: how they are on the wire, and what is read of the answer. */
#include "peer.h"

#define LIMITED                                                                                              \
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ?\r\n\r\n"                     \
	"{\"verdict\":\"limited\",\"reason\":\"limit\",\"until\":\"2026-11-16T00:15:00Z\","                  \
	"\"retry_after\":30,\"degraded\":true,\"limits\":["                                                  \
	"{\"policy\":\"p\",\"allowed\":true,\"limit\":5,\"remaining\":4,\"reset\":1},"                       \
	"{\"policy\":\"q\",\"allowed\":false,\"limit\":2,\"remaining\":0,\"reset\":60}]}"

static struct peer      *peer;
static struct gatehouse *client;

static void begin(const struct peer_step *steps, unsigned long count)
{
	peer = peer_open(0, steps, count);
	client = client_open(peer->port, PATIENT);
}

static void end(void)
{
	gatehouse_close(client);
	peer_close(peer);
}

static const struct gatehouse_check_limit two[] = {{.policy = "p", .key = "k"}, {.policy = "q", .key = "k"}};

static enum gatehouse_code check_with(const struct gatehouse_check_limit *limits, size_t count,
                                      struct gatehouse_check_answer *answer, struct gatehouse_error *error)
{
	const char *const              actions[] = {"a"};
	struct gatehouse_check_request request = {.subject = "s",
	                                          .journey = "j",
	                                          .actions = actions,
	                                          .action_count = 1,
	                                          .limits = limits,
	                                          .limit_count = count};

	return gatehouse_check(client, &request, answer, error);
}

TEST(check, names_its_limits_and_one_that_cannot_be_right_is_refused_here)
{
	struct gatehouse_check_limit  limits[] = {{.policy = "p", .key = "k", .cost = 3},
	                                          {.policy = "q", .key = "l"}};
	struct gatehouse_check_answer checked;
	struct gatehouse_error        error;

	begin(PEER_SCRIPT({PEER_ANSWER, LIMITED}));
	assert_int_equal(check_with(limits, 2, &checked, &error), GATEHOUSE_OK);
	assert_string_equal(strstr(peer->seen[0], "\r\n\r\n") + 4,
	                    "{\"subject\":\"s\",\"journey\":\"j\",\"actions\":[\"a\"],\"limits\":["
	                    "{\"policy\":\"p\",\"key\":\"k\",\"cost\":3},"
	                    "{\"policy\":\"q\",\"key\":\"l\",\"cost\":1}]}");
	limits[1].cost = -1;
	assert_int_equal(check_with(limits, 2, &checked, &error), GATEHOUSE_INVALID);
	limits[1] = (struct gatehouse_check_limit){.policy = "q"};
	assert_int_equal(check_with(limits, 2, &checked, &error), GATEHOUSE_INVALID);
	assert_string_equal(error.field, "key");
	assert_int_equal(check_with(NULL, 1, &checked, &error), GATEHOUSE_INVALID);
	assert_int_equal(peer_requests(peer), 1);
	end();
}

/* An answer with the states of as many limits; the test frees it. */
static char *limits_answer(int count)
{
	enum { BYTES_MAX = 4096 };
	char *text = malloc(BYTES_MAX);
	int   len = snprintf(text, BYTES_MAX,
	                     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	                       "Content-Length: ?\r\n\r\n{\"verdict\":\"allow\",\"limits\":[");

	for (int i = 0; i < count; i++)
		len += snprintf(
		        text + len, (size_t)(BYTES_MAX - len),
		        "%s{\"policy\":\"p%d\",\"allowed\":true,\"limit\":9,\"remaining\":8,\"reset\":7}",
		        i == 0 ? "" : ",", i);
	snprintf(text + len, (size_t)(BYTES_MAX - len), "]}");
	return text;
}

TEST(check, with_as_many_limits_as_may_be_is_sent_and_one_past_it_refused_here)
{
	struct gatehouse_check_limit  limits[GATEHOUSE_CHECK_LIMITS_MAX + 1];
	char                         *text = limits_answer(GATEHOUSE_CHECK_LIMITS_MAX);
	struct gatehouse_check_answer checked;

	for (int i = 0; i <= GATEHOUSE_CHECK_LIMITS_MAX; i++)
		limits[i] = (struct gatehouse_check_limit){.policy = "p", .key = "k"};
	begin(PEER_SCRIPT({PEER_ANSWER, text}));
	assert_int_equal(check_with(limits, GATEHOUSE_CHECK_LIMITS_MAX + 1, &checked, NULL),
	                 GATEHOUSE_INVALID);
	assert_int_equal(peer_requests(peer), 0);
	assert_int_equal(check_with(limits, GATEHOUSE_CHECK_LIMITS_MAX, &checked, NULL), GATEHOUSE_OK);
	assert_int_equal(checked.limit_count, GATEHOUSE_CHECK_LIMITS_MAX);
	assert_string_equal(checked.limits[GATEHOUSE_CHECK_LIMITS_MAX - 1].policy, "p15");
	end();
	free(text);
}

TEST(check, is_answered_with_the_state_of_each_limit_in_order)
{
	struct gatehouse_check_answer checked;

	begin(PEER_SCRIPT({PEER_ANSWER, LIMITED}));
	assert_int_equal(check_with(two, 2, &checked, NULL), GATEHOUSE_OK);
	assert_int_equal(checked.verdict, GATEHOUSE_LIMITED);
	assert_string_equal(checked.reason, "limit");
	assert_int_equal(checked.retry_after_s, 30);
	assert_string_equal(checked.until, "2026-11-16T00:15:00Z");
	assert_true(checked.degraded);
	assert_int_equal(checked.limit_count, 2);
	assert_string_equal(checked.limits[0].policy, "p");
	assert_true(checked.limits[0].allowed && checked.limits[0].limit == 5);
	assert_int_equal(checked.limits[0].remaining, 4);
	assert_string_equal(checked.limits[1].policy, "q");
	assert_false(checked.limits[1].allowed);
	assert_int_equal(checked.limits[1].remaining, 0);
	assert_int_equal(checked.limits[1].reset_s, 60);
	end();
}

TEST(check, is_answered_with_a_policys_longest_name_whole)
{
	static const char text[] =
	        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ?\r\n\r\n"
	        "{\"verdict\":\"allow\",\"limits\":[{\"policy\":\""
	        "0123456789012345678901234567890123456789012345678901234567890123"
	        "\",\"allowed\":true,\"limit\":5,\"remaining\":4,\"reset\":1}]}";
	struct gatehouse_check_answer checked;

	begin(PEER_SCRIPT({PEER_ANSWER, text}));
	assert_int_equal(check_with(two, 1, &checked, NULL), GATEHOUSE_OK);
	assert_int_equal(strlen(checked.limits[0].policy), 64);
	end();
}

/* As a server would answer that has never heard of limits in a check. */
TEST(check, without_the_limits_that_were_asked_about_is_no_verdict)
{
	struct gatehouse_check_answer checked;

	begin(PEER_SCRIPT({PEER_ANSWER, ADMITTED}, {PEER_ANSWER, LIMITED}));
	assert_int_equal(check_with(two, 1, &checked, NULL), GATEHOUSE_PROTOCOL);
	assert_int_equal(checked.verdict, GATEHOUSE_UNKNOWN);
	assert_int_equal(check_with(two, 1, &checked, NULL), GATEHOUSE_PROTOCOL);
	assert_int_equal(checked.verdict, GATEHOUSE_UNKNOWN);
	assert_int_equal(checked.limit_count, 0);
	end();
}
