/* EventBridge: what is sent to a scripted peer, and what its answers mean. tests/e2e/test_senders.py compares what is sent with AWS's own
 * SDK; there is no emulator to send to. */
#include "outbound/eventbridge.h"

#include "senders.h"

#define OK "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.1\r\nContent-Length: ?\r\n\r\n"
#define BAD                                                                                                  \
	"HTTP/1.1 400 Bad Request\r\nContent-Type: application/x-amz-json-1.1\r\nContent-Length: ?\r\n\r\n"

static struct eventbridge_options options(struct sending *s)
{
	struct eventbridge_options o = {.place = {.name = "bus",
	                                          .region = BYTES("eu-west-1"),
	                                          .allow_private = true,
	                                          .calls_max = 1,
	                                          .key_id = BYTES("AKID"),
	                                          .secret = BYTES("very-secret"),
	                                          .session_token = BYTES("a-session"),
	                                          .within_us = 60000000,
	                                          .clock = clock_system()}};

	if (s->peer != NULL)
		o.place.endpoint = arena_printf(&s->arena, "http://127.0.0.1:%u", s->peer->port);
	return o;
}

static void start(struct sending *s, struct peer *p, uint32_t count)
{
	struct eventbridge_options o;
	struct err                 err;

	sending_init(s, p, count);
	o = options(s);
	o.bus = BYTES("events");
	assert_int_equal(eventbridge_open(&o, &s->sender, &err), ERR_NONE);
}

TEST(eventbridge, entries_are_taken_refused_or_for_later_one_by_one)
{
	struct sending s;

	start(&s,
	      peer_open(
	              0,
	              PEER_SCRIPT({PEER_ANSWER, OK
	                           "{\"FailedEntryCount\":5,\"Entries\":[{\"EventId\":\"a\"},"
	                           "{\"ErrorCode\":\"MalformedDetail\",\"ErrorMessage\":\"secret words\"},"
	                           "{\"ErrorCode\":\"ThrottlingException\"},{\"ErrorCode\":\"Secret words\"},"
	                           "{},7,{\"ErrorCode\":\"NotAuthorizedForSourceException\"},"
	                           "{\"EventId\":\"\"},{\"EventId\":\"b\",\"ErrorCode\":\"InternalFailure\"},"
	                           "{\"EventId\":\"c\"}]}"})),
	      10);
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "SRLLLLLLLS");
	assert_string_equal(s.list[1].error, "MalformedDetail");
	assert_string_equal(s.list[2].error, "ThrottlingException");
	assert_null(strstr(s.list[3].error, "ecret"));
	assert_string_equal(s.list[8].error, "InternalFailure");
	sending_release(&s);
}

TEST(eventbridge, an_entry_has_source_type_detail_bus_time_and_trace)
{
	struct sending s;

	start(&s, peer_open(0, PEER_SCRIPT({PEER_ANSWER, OK "{\"Entries\":[{\"EventId\":\"a\"}]}"})), 1);
	s.list[0].trace = BYTES("0af7651916cd43dd8448eb211c80319c");
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "S");
	assert_true(bytes_is(sending_body(&s, 0),
	                     "{\"Entries\":[{\"Time\":1794830400.250,\"Source\":\"user-service\","
	                     "\"DetailType\":\"user.created\",\"Detail\":\"{\\\"specversion\\\":\\\"1.0\\\","
	                     "\\\"id\\\":\\\"event-0\\\"}\",\"EventBusName\":\"events\","
	                     "\"TraceHeader\":\"Root=1-0af76519-16cd43dd8448eb211c80319c\"}]}"));
	assert_true(sending_saw(&s, 0, "X-Amz-Target: AWSEvents.PutEvents\r\n"));
	assert_true(sending_saw(&s, 0, "Content-Type: application/x-amz-json-1.1\r\n"));
	assert_true(sending_saw(&s, 0, "/eu-west-1/events/aws4_request"));
	assert_true(sending_saw(&s, 0, "00-0af7651916cd43dd8448eb211c80319c-"));
	assert_false(sending_saw(&s, 0, "very-secret"));
	sending_release(&s);
}

TEST(eventbridge, an_answer_with_another_number_of_entries_is_no_answer)
{
	static const char *const garbage[] = {OK "{\"Entries\":[{\"EventId\":\"a\"}]}",
	                                      OK "{\"Entries\":[{\"EventId\":\"a\"},{\"EventId\":\"a\"},"
	                                         "{\"EventId\":\"a\"}]}",
	                                      OK "{\"Entries\":{}}",
	                                      OK "{}",
	                                      OK "[]",
	                                      OK "null",
	                                      OK "<html>"};

	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		struct sending s;

		start(&s, peer_open(0, PEER_SCRIPT({PEER_ANSWER, garbage[i]})), 2);
		sending_run(&s);
		assert_string_equal(sending_ends(&s), "LL");
		assert_string_equal(s.list[0].error, "the answer is not one of this service's");
		sending_release(&s);
	}
}

TEST(eventbridge, an_answer_that_counts_more_failures_than_it_names_is_not_believed)
{
	static const struct {
		const char *answer, *ends;
	} cases[] = {
	        {OK "{\"FailedEntryCount\":2,\"Entries\":[{\"EventId\":\"a\"},"
	            "{\"ErrorCode\":\"MalformedDetail\"}]}",
	         "LR"},
	        {OK "{\"FailedEntryCount\":2,\"Entries\":[{\"EventId\":\"a\"},{\"EventId\":\"b\"}]}", "LL"},
	        {OK "{\"FailedEntryCount\":0,\"Entries\":[{\"EventId\":\"a\"},"
	            "{\"ErrorCode\":\"ThrottlingException\"}]}",
	         "SL"},
	        {OK "{\"FailedEntryCount\":-1,\"Entries\":[{\"EventId\":\"a\"},{}]}", "SL"},
	        {OK "{\"Entries\":[{\"EventId\":\"a\"},{\"EventId\":\"b\"}]}", "SS"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sending s;

		start(&s, peer_open(0, PEER_SCRIPT({PEER_ANSWER, cases[i].answer})), 2);
		sending_run(&s);
		assert_string_equal(sending_ends(&s), cases[i].ends);
		sending_release(&s);
	}
}

TEST(eventbridge, a_batch_that_is_refused_for_its_content_is_sent_event_by_event)
{
	struct sending s;

	start(&s,
	      peer_open(0, PEER_SCRIPT({PEER_ANSWER, BAD "{\"__type\":\"ValidationException\"}"},
	                               {PEER_ANSWER, BAD "{\"__type\":\"ValidationException\"}"},
	                               {PEER_ANSWER, OK "{\"Entries\":[{\"EventId\":\"a\"}]}"})),
	      2);
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "RS");
	assert_string_equal(s.list[0].error, "400 ValidationException");
	assert_int_equal(peer_requests(s.peer), 3);
	sending_release(&s);
}

TEST(eventbridge, an_event_that_cannot_fit_is_refused_without_a_call)
{
	struct sending s;
	char          *large;
	size_t         beside = 14 + strlen("user-service") + strlen("user.created");

	start(&s, peer_open(0, PEER_SCRIPT({PEER_ANSWER, OK "{\"Entries\":[{\"EventId\":\"a\"}]}"})), 1);
	large = arena_alloc(&s.arena, EVENTBRIDGE_BYTES_MAX);
	memset(large, ' ', EVENTBRIDGE_BYTES_MAX);
	s.list[0].json = (struct bytes){large, EVENTBRIDGE_BYTES_MAX - beside + 1};
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "R");
	assert_non_null(strstr(s.list[0].error, "262144 bytes"));
	assert_int_equal(peer_requests(s.peer), 0);
	sending_release(&s);
}

/* Ten events whose JSON has batch_bytes_max bytes in sum, with names as long as they may be. */
TEST(eventbridge, what_the_caller_may_put_into_one_call_fits)
{
	struct eventbridge_options o;
	struct sending             s;
	struct err                 err;
	size_t                     sum = 0;

	sending_init(&s, NULL, 1);
	o = options(&s);
	o.source = (struct bytes){memset(arena_alloc(&s.arena, EVENTBRIDGE_SOURCE_CHARS_MAX), 'x',
	                                 EVENTBRIDGE_SOURCE_CHARS_MAX),
	                          EVENTBRIDGE_SOURCE_CHARS_MAX};
	assert_int_equal(eventbridge_open(&o, &s.sender, &err), ERR_NONE);
	s.list[0].type = (struct bytes){o.source.data, EVENTBRIDGE_TYPE_CHARS_MAX};
	s.list[0].json.len = s.sender->kind->batch_bytes_max / 10;
	for (uint32_t i = 0; i < s.sender->kind->batch_max; i++)
		sum += eventbridge_batch.weigh((struct aws_batch *)s.sender, &s.list[0]);
	assert_in_range(sum, 1, EVENTBRIDGE_BYTES_MAX);
	sending_release(&s);
}

TEST(eventbridge, settings_that_are_wrong_are_named)
{
	struct eventbridge_options o;
	struct sending             s;
	struct err                 err;
	struct {
		struct bytes *at;
		struct bytes  value;
		const char   *field;
	} wrong[] = {{&o.bus, BYTES("a bus"), "bus"},
	             {&o.source, BYTES("aws.mine"), "source"},
	             {&o.source, BYTES("a b"), "source"},
	             {&o.place.endpoint, BYTES("http://example.org"), "endpoint"},
	             {&o.place.endpoint, BYTES("https://example.org/path"), "endpoint"},
	             {&o.place.region, BYTES("x y"), "region"},
	             {&o.place.region, BYTES(""), "region"},
	             {&o.place.key_id, BYTES("a b"), "accessKeyId"},
	             {&o.place.secret, BYTES("a\nb"), "secretAccessKey"},
	             {&o.place.session_token, BYTES("a\nb"), "sessionToken"}};

	sending_init(&s, NULL, 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		o = options(&s);
		o.place.allow_private = false;
		*wrong[i].at = wrong[i].value;
		assert_int_equal(eventbridge_open(&o, &s.sender, &err), ERR_INVALID);
		assert_string_equal(err.field, wrong[i].field);
		assert_null(s.sender);
	}
	o = options(&s);
	o.place.allow_private = false;
	assert_int_equal(eventbridge_open(&o, &s.sender, &err), ERR_NONE);
	sending_release(&s);
}

TEST(eventbridge, only_endpoints_of_aws_over_tls_are_its_own)
{
	static const char *const own[] = {"https://events.eu-west-1.amazonaws.com",
	                                  "https://sqs.cn-north-1.amazonaws.com.cn",
	                                  "https://vpce-1-2.sqs.eu-west-1.vpce.amazonaws.com"};
	static const char *const others[] = {"",
	                                     "http://events.eu-west-1.amazonaws.com",
	                                     "https://events.eu-west-1.amazonaws.com:8443",
	                                     "https://amazonaws.com.example.org",
	                                     "https://evilamazonaws.com",
	                                     "https://a@b.amazonaws.com",
	                                     "https://.amazonaws.com",
	                                     "https://127.0.0.1"};

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		assert_true(aws_endpoint_is_own(bytes_of(own[i])));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(aws_endpoint_is_own(bytes_of(others[i])));
}
