/* SQS: what is sent to a scripted peer, and what its answers mean. tests/e2e/test_senders.py compares what is sent with AWS's own SDK, and
 * sends to an emulator. */
#include "outbound/sqs.h"

#include "senders.h"

#define OK "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: ?\r\n\r\n"
#define BAD                                                                                                  \
	"HTTP/1.1 400 Bad Request\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: ?\r\n\r\n"
#define TAKEN "{\"Successful\":[{\"Id\":\"0\",\"MessageId\":\"m\"}]}"

static enum err_code opened(struct sending *s, const char *queue, bool allow_private, struct err *err)
{
	struct sqs_options o = {.place = {.name = "orders",
	                                  .region = BYTES("eu-west-1"),
	                                  .allow_private = allow_private,
	                                  .calls_max = 2,
	                                  .key_id = BYTES("AKID"),
	                                  .secret = BYTES("very-secret"),
	                                  .within_us = 60000000,
	                                  .clock = clock_system()},
	                        .queue_url = bytes_of(queue)};

	return sqs_open(&o, &s->sender, err);
}

/* To a queue of that name at the peer. */
static void start(struct sending *s, struct peer *p, uint32_t count, const char *name)
{
	struct err err;

	sending_init(s, p, count);
	assert_int_equal(
	        opened(s, arena_printf(&s->arena, "http://127.0.0.1:%u/123456789012/%s", p->port, name).data,
	               true, &err),
	        ERR_NONE);
}

TEST(sqs, entries_are_taken_refused_or_for_later_one_by_one)
{
	struct sending s;

	start(&s,
	      peer_open(0, PEER_SCRIPT(
	                           {PEER_ANSWER, OK
	                            "{\"Successful\":[{\"Id\":\"0\",\"MessageId\":\"m\"},"
	                            "{\"Id\":\"2\",\"MessageId\":\"m\"}],\"Failed\":["
	                            "{\"Id\":\"1\",\"SenderFault\":true,\"Code\":\"InvalidMessageContents\"},"
	                            "{\"Id\":\"3\",\"SenderFault\":false,\"Code\":\"InternalError\"},"
	                            "{\"Id\":\"5\",\"SenderFault\":true,\"Code\":\"New Thing\"},"
	                            "{\"Id\":\"6\",\"SenderFault\":false,\"Code\":\"New Thing\"},"
	                            "{\"Id\":\"7\",\"SenderFault\":true,\"Code\":\"KmsAccessDenied\"}]}"})),
	      8, "q");
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "SRSLLRLL");
	assert_string_equal(s.list[0].error, "");
	assert_string_equal(s.list[1].error, "InvalidMessageContents");
	assert_string_equal(s.list[3].error, "InternalError");
	assert_string_equal(s.list[4].error, "the answer leaves this event out");
	assert_null(strstr(s.list[5].error, "New Thing"));
	assert_int_equal(s.list[1].status, 200);
	assert_int_equal(peer_requests(s.peer), 1);
	sending_release(&s);
}

TEST(sqs, a_fifo_queue_gets_group_and_deduplication_id_and_a_standard_one_does_not)
{
	struct sending s;

	start(&s, peer_open(0, PEER_SCRIPT({PEER_ANSWER, OK TAKEN})), 1, "q.fifo");
	s.list[0].trace = BYTES("0af7651916cd43dd8448eb211c80319c");
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "S");
	assert_true(sending_saw(&s, 0, "POST / HTTP/1.1\r\n"));
	assert_true(sending_saw(&s, 0, "X-Amz-Target: AmazonSQS.SendMessageBatch\r\n"));
	assert_true(sending_saw(&s, 0, "Content-Type: application/x-amz-json-1.0\r\n"));
	assert_true(sending_saw(&s, 0, "/eu-west-1/sqs/aws4_request"));
	assert_true(sending_saw(&s, 0, "\"MessageGroupId\":\"subject-0\""));
	assert_true(sending_saw(&s, 0, "\"MessageDeduplicationId\":\"event-0\""));
	assert_true(sending_saw(&s, 0, "\"Root=1-0af76519-16cd43dd8448eb211c80319c\""));
	assert_false(sending_saw(&s, 0, "very-secret"));
	sending_release(&s);

	start(&s, peer_open(0, PEER_SCRIPT({PEER_ANSWER, OK TAKEN})), 1, "q");
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "S");
	assert_false(sending_saw(&s, 0, "MessageGroupId"));
	assert_false(sending_saw(&s, 0, "MessageDeduplicationId"));
	assert_false(sending_saw(&s, 0, "MessageSystemAttributes"));
	sending_release(&s);
}

TEST(sqs, a_subject_that_is_no_group_is_hashed)
{
	char         long_one[SQS_GROUP_CHARS_MAX + 1];
	struct arena a;

	arena_init(&a);
	memset(long_one, 'x', sizeof(long_one));
	assert_int_equal(sqs_group((struct bytes){long_one, SQS_GROUP_CHARS_MAX}, &a).len,
	                 SQS_GROUP_CHARS_MAX);
	assert_int_equal(sqs_group((struct bytes){long_one, SQS_GROUP_CHARS_MAX + 1}, &a).len, 64);
	assert_true(bytes_is(sqs_group(BYTES("user/a@b.c"), &a), "user/a@b.c"));
	assert_true(bytes_is(sqs_group(BYTES("a b"), &a),
	                     "c8687a08aa5d6ed2044328fa6a697ab8e96dc34291e8c2034ae8c38e6fcc6d65"));
	assert_int_equal(sqs_group(BYTES("\xc3\xa9"), &a).len, 64);
	assert_true(bytes_is(sqs_group(BYTES(""), &a), "gatehouse"));
	arena_release(&a);
}

TEST(sqs, characters_that_a_queue_does_not_take_are_escaped)
{
	struct sending s;

	start(&s, peer_open(0, PEER_SCRIPT({PEER_ANSWER, OK TAKEN})), 1, "q");
	s.list[0].json = BYTES("{\"a\":\"\xef\xbf\xbe,\xef\xbf\xbf,\xef\xbf\xbd\xef\"}");
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "S");
	assert_true(sending_saw(&s, 0, "{\\\"a\\\":\\\"\\\\ufffe,\\\\uffff,\xef\xbf\xbd\xef\\\"}"));
	sending_release(&s);
}

TEST(sqs, what_is_wrong_with_the_target_is_for_later_and_named)
{
	static const struct {
		const char *answer, *error;
		int         status;
		int64_t     wait_s;
	} cases[] = {
	        {BAD "{\"__type\":\"com.amazonaws.sqs#QueueDoesNotExist\",\"message\":\"secret words\"}",
	         "400 QueueDoesNotExist", 400, 0},
	        {"HTTP/1.1 403 Forbidden\r\nx-amzn-errortype: AccessDenied\r\nContent-Length: 0\r\n\r\n",
	         "403 AccessDenied", 403, 0},
	        {"HTTP/1.1 503 No\r\nRetry-After: 700\r\nContent-Length: 0\r\n\r\n", "503", 503, 700},
	        {"HTTP/1.1 429 No\r\nRetry-After: 3601\r\nx-amz-retry-after: 60000\r\nContent-Length: "
	         "0\r\n\r\n",
	         "429", 429, 3600},
	        {"HTTP/1.1 429 No\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n", "429", 429, 0},
	        {BAD "{\"__type\":\"SecretWords\"}", "400", 400, 0},
	        {"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "302",
	         302, 0},
	        {"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope", "404", 404, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sending s;

		start(&s, peer_open(0, PEER_SCRIPT({PEER_ANSWER, cases[i].answer})), 2, "q");
		sending_run(&s);
		assert_string_equal(sending_ends(&s), "LL");
		assert_string_equal(s.list[1].error, cases[i].error);
		assert_int_equal(s.list[1].status, cases[i].status);
		assert_int_equal(s.list[1].wait_s, cases[i].wait_s);
		assert_int_equal(peer_requests(s.peer), 1);
		sending_release(&s);
	}
}

TEST(sqs, a_batch_that_is_refused_for_its_content_is_sent_event_by_event)
{
	struct sending s;

	start(&s,
	      peer_open(0,
	                PEER_SCRIPT(
	                        {PEER_ANSWER, BAD "{\"__type\":\"com.amazonaws.sqs#BatchRequestTooLong\"}"},
	                        {PEER_ANSWER, OK TAKEN},
	                        {PEER_ANSWER, BAD "{\"__type\":\"com.amazonaws.sqs#InvalidParameterValue\"}"},
	                        {PEER_ANSWER, OK TAKEN})),
	      3, "q");
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "SRS");
	assert_string_equal(s.list[1].error, "400 InvalidParameterValue");
	assert_int_equal(peer_requests(s.peer), 4);
	assert_true(sending_saw(&s, 3, "event-2") && !sending_saw(&s, 3, "event-1"));
	sending_release(&s);

	start(&s, peer_open(0, PEER_SCRIPT({PEER_ANSWER, "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n"})), 1,
	      "q");
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "R");
	assert_int_equal(peer_requests(s.peer), 1);
	sending_release(&s);
}

TEST(sqs, an_event_of_one_mebibyte_is_sent_and_a_larger_one_is_refused_without_a_call)
{
	struct peer   *p = peer_open(0, PEER_SCRIPT({PEER_ANSWER_CLOSE, OK TAKEN}));
	struct sending s;
	char          *large;

	start(&s, p, 2, "q");
	large = arena_alloc(&s.arena, SQS_MESSAGE_BYTES_MAX);
	memset(large, ' ', SQS_MESSAGE_BYTES_MAX);
	/* beside the JSON: the attribute's name, type and value */
	s.list[1].json =
	        (struct bytes){large, SQS_MESSAGE_BYTES_MAX - strlen("eventTypeStringuser.created") + 1};
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "SR");
	assert_non_null(strstr(s.list[1].error, "1048577 bytes"));
	assert_int_equal(peer_requests(p), 1);
	s.list[0].json = s.list[1].json;
	s.list[0].json.len--;
	assert_int_equal(sqs_batch.weigh(NULL, &s.list[0]), sqs_batch.event_bytes_max);
	sending_release(&s);
}

TEST(sqs, garbage_is_no_success)
{
	static const char *const garbage[] = {
	        OK "",
	        OK "<html>",
	        OK "null",
	        OK "[]",
	        OK "7",
	        OK "{\"Successful\":{\"Id\":\"0\"}}",
	        OK
	        "{\"Successful\":[null,7,\"0\",{\"Id\":0,\"MessageId\":\"m\"},{\"Id\":\"\"},{\"Id\":\"9\"}]}",
	        OK "{\"Successful\":[{\"Id\":\"0\"}],\"Failed\":[3,{\"Id\":\"0\",\"Code\":[]}]}",
	        OK
	        "{\"Successful\":[{\"Id\":\"00\",\"MessageId\":\"m\"},{\"Id\":\"2\",\"MessageId\":\"m\"}]}",
	        "HTTP/1.1 204 No Content\r\n\r\n",
	};

	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		struct sending s;

		start(&s, peer_open(0, PEER_SCRIPT({PEER_ANSWER, garbage[i]})), 2, "q");
		sending_run(&s);
		assert_string_equal(sending_ends(&s), "LL");
		assert_true(s.list[0].error[0] != '\0');
		sending_release(&s);
	}
}

TEST(sqs, what_is_said_to_be_both_taken_and_failed_is_for_later)
{
	struct sending s;

	start(&s,
	      peer_open(0,
	                PEER_SCRIPT({PEER_ANSWER, OK
	                             "{\"Failed\":[{\"Id\":\"0\",\"SenderFault\":true,\"Code\":"
	                             "\"InvalidMessageContents\"},{\"Id\":\"1\"}],\"Successful\":["
	                             "{\"Id\":\"0\",\"MessageId\":\"m\"},{\"Id\":\"1\",\"MessageId\":\"m\"},"
	                             "{\"Id\":\"2\",\"MessageId\":\"m\"}]}"})),
	      3, "q");
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "LLS");
	assert_non_null(strstr(s.list[0].error, "both"));
	sending_release(&s);
}

static char *repeated(struct arena *a, const char *head, const char *piece, size_t times)
{
	struct buf b;

	buf_init(&b, a);
	buf_add_bytes(&b, bytes_of(head));
	for (size_t i = 0; i < times; i++)
		buf_add_bytes(&b, bytes_of(piece));
	buf_add_byte(&b, '\0');
	return b.data;
}

TEST(sqs, endless_heads_and_huge_bodies_are_cut_off)
{
	struct arena a;
	char        *answers[2];

	arena_init(&a);
	answers[0] = repeated(&a, "HTTP/1.1 200 OK\r\n", "X-More: and more and more and more\r\n", 2000);
	answers[1] =
	        repeated(&a, OK, "                                ", AWS_BATCH_ANSWER_BYTES_MAX / 32 + 1);
	for (size_t i = 0; i < 2; i++) {
		struct sending s;

		start(&s, peer_open(0, PEER_SCRIPT({PEER_ANSWER, answers[i]})), 1, "q");
		sending_run(&s);
		assert_string_equal(sending_ends(&s), "L");
		assert_int_equal(s.list[0].status, 0);
		sending_release(&s);
	}
	arena_release(&a);
}

TEST(sqs, an_answer_that_drips_in_is_given_up)
{
	struct peer       *p = peer_open(0, PEER_SCRIPT({PEER_DRIP, "HTTP/1.1 200 OK\r\nX: "}));
	struct sqs_options o = {.place = {.name = "q",
	                                  .region = BYTES("eu-west-1"),
	                                  .allow_private = true,
	                                  .calls_max = 1,
	                                  .key_id = BYTES("AKID"),
	                                  .secret = BYTES("s"),
	                                  .within_us = 300000,
	                                  .clock = clock_system()}};
	struct sending     s;
	struct err         err;

	sending_init(&s, p, 1);
	o.queue_url = arena_printf(&s.arena, "http://127.0.0.1:%u/1/q", p->port);
	assert_int_equal(sqs_open(&o, &s.sender, &err), ERR_NONE);
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "L");
	sending_release(&s);
}

static void *stop_later(void *arg)
{
	struct sending *s = arg;

	while (peer_requests(s->peer) == 0)
		poll(NULL, 0, PEER_PACE_MS);
	s->sender->kind->stop(s->sender);
	return NULL;
}

TEST(sqs, a_stop_ends_the_call_under_way_and_later_ones)
{
	struct sending s;
	pthread_t      thread;

	start(&s, peer_open(0, PEER_SCRIPT({PEER_SILENT, ""})), 1, "q");
	assert_int_equal(pthread_create(&thread, NULL, stop_later, &s), 0);
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "L");
	pthread_join(thread, NULL);
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "L");
	assert_int_equal(peer_requests(s.peer), 1);
	sending_release(&s);
}

TEST(sqs, a_private_address_is_refused_unless_allowed)
{
	struct peer   *p = peer_open(0, PEER_SCRIPT({PEER_ANSWER, OK TAKEN}));
	struct sending s;
	struct err     err;

	sending_init(&s, p, 1);
	assert_int_equal(
	        opened(&s, arena_printf(&s.arena, "https://127.0.0.1:%u/1/q", p->port).data, false, &err),
	        ERR_NONE);
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "L");
	assert_non_null(strstr(s.list[0].error, "private"));
	assert_int_equal(peer_connections(p), 0);
	sending_release(&s);
}

TEST(sqs, settings_that_are_wrong_are_named)
{
	static const char *const wrong[] = {"",
	                                    "q",
	                                    "https://host",
	                                    "https://host/",
	                                    "http://host/1/q",
	                                    "ftp://host/1/q",
	                                    "https://a:b@host/1/q",
	                                    "https://host/1/q?x",
	                                    "https://host/1/q q"};
	struct sqs_options       o = {.place = {.name = "q", .calls_max = 1, .clock = clock_system()},
	                              .queue_url = BYTES("https://sqs.eu-west-1.amazonaws.com/1/q")};
	struct sending           s;
	struct err               err;

	sending_init(&s, NULL, 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(opened(&s, wrong[i], false, &err), ERR_INVALID);
		assert_string_equal(err.field, "queueUrl");
	}
	assert_int_equal(sqs_open(&o, &s.sender, &err), ERR_INVALID);
	assert_string_equal(err.field, "accessKeyId");
	o.place.key_id = BYTES("AKID");
	assert_int_equal(sqs_open(&o, &s.sender, &err), ERR_INVALID);
	assert_string_equal(err.field, "secretAccessKey");
	o.place.secret = BYTES("s");
	assert_int_equal(sqs_open(&o, &s.sender, &err), ERR_NONE); /* the region is in the queue's URL */
	s.sender->kind->close(s.sender);
	s.sender = NULL;
	o.queue_url = BYTES("https://queues.example/1/q");
	assert_int_equal(sqs_open(&o, &s.sender, &err), ERR_INVALID);
	assert_string_equal(err.field, "region");
	o.place.region = BYTES("eu west");
	assert_int_equal(sqs_open(&o, &s.sender, &err), ERR_INVALID);
	assert_string_equal(err.field, "region");
	sending_release(&s);
}
