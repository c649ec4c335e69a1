/* A member of a consumer against a peer that follows a script: what is sent, what is handed over, and what is not twice. Against a
 * real server: tests/e2e/test_client_consumer.py. */
#include "peer.h"

#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ?\r\n\r\n"

#define EVENT(id, subject, seq, position)                                                                    \
	"{\"specversion\":\"1.0\",\"id\":\"" id "\",\"type\":\"user.created\",\"subject\":\"" subject        \
	"\",\"seq\":" seq ",\"position\":" position ",\"data\":{\"n\":[1,{}]}}"

#define EVENT_IN(shard, id, subject, seq, position)                                                          \
	"{\"specversion\":\"1.0\",\"id\":\"" id "\",\"type\":\"user.created\",\"subject\":\"" subject        \
	"\",\"seq\":" seq ",\"position\":" position ",\"shard\":" shard "}"

#define PAGE(events, after)                                                                                  \
	HEAD "{\"events\":[" events "],\"after\":\"" after                                                   \
	     "\",\"more\":false,\"generation\":7,\"partitions\":8,\"until\":\"2026-11-17T02:00:30Z\"}"
#define ACKED HEAD "{\"after\":\"1\",\"until\":\"2026-11-17T02:00:30Z\"}"
#define PROBLEM(status, type)                                                                                \
	"HTTP/1.1 " status                                                                                   \
	" X\r\nContent-Type: application/problem+json\r\nContent-Length: ?\r\n\r\n{\"type\":"                \
	"\"urn:gatehouse:problem:" type "\",\"title\":\"X\",\"status\":" status "}"

struct handled {
	char     subjects[16][32];
	int64_t  seqs[16];
	unsigned count;
	int64_t  refuse; /* this position */
};

static bool handle(void *ctx, const struct gatehouse_event *e)
{
	struct handled *h = ctx;

	assert_int_equal(e->json[0], '{');
	assert_int_equal(e->json[e->json_len - 1], '}');
	if (e->position == h->refuse)
		return false;
	snprintf(h->subjects[h->count], sizeof(h->subjects[0]), "%.31s", e->subject);
	h->seqs[h->count++] = e->seq;
	return true;
}

static struct peer                    *peer;
static struct gatehouse               *client;
static struct gatehouse_consumer      *consumer;
static struct handled                  handled;
static struct gatehouse_consumer_round seen;
static struct gatehouse_error          error;

static void begin_with(struct gatehouse_consumer_options options, const struct peer_step *steps,
                       unsigned long count)
{
	peer = peer_open(0, steps, count);
	client = client_open(peer->port, PATIENT);
	handled = (struct handled){0};
	options.name = "mailer";
	options.member = options.member == NULL ? "m-1" : options.member;
	options.handle = handle;
	options.ctx = &handled;
	consumer = gatehouse_consumer_open(client, &options, &error);
	assert_non_null(consumer);
}

static void end(void)
{
	gatehouse_consumer_close(consumer);
	gatehouse_close(client);
	peer_close(peer);
}

#define begin(...) begin_with((struct gatehouse_consumer_options){0}, PEER_SCRIPT(__VA_ARGS__))

static enum gatehouse_code run(void)
{
	return gatehouse_consumer_run(consumer, &seen, &error);
}

TEST(consumer, polls_hands_over_in_order_acknowledges_and_leaves)
{
	begin({PEER_ANSWER, PAGE(EVENT("a", "s1", "1", "1") "," EVENT("b", "s2", "1", "2"), "5")},
	      {PEER_ANSWER, ACKED});
	assert_int_equal(run(), GATEHOUSE_OK);
	assert_int_equal(seen.handled, 2);
	assert_string_equal(handled.subjects[0], "s1");
	assert_string_equal(handled.subjects[1], "s2");
	assert_memory_equal(peer->seen[0], "POST /v1/consumers/mailer/poll HTTP/1.1\r\n", 41);
	assert_non_null(strstr(peer->seen[0], "{\"member\":\"m-1\",\"limit\":20,\"wait\":20,\"lease\":30}"));
	assert_memory_equal(peer->seen[1], "POST /v1/consumers/mailer/ack HTTP/1.1\r\n", 40);
	assert_non_null(strstr(peer->seen[1], "{\"member\":\"m-1\",\"generation\":7,\"after\":\"5\"}"));
	gatehouse_consumer_close(consumer);
	consumer = NULL;
	assert_non_null(strstr(peer->seen[2], "\"leave\":true"));
	end();
}

TEST(consumer, does_not_hand_over_what_it_dealt_with_before_the_server_could_be_told)
{
	begin({PEER_ANSWER, PAGE(EVENT("a", "s1", "1", "1"), "1")},
	      {PEER_ANSWER, PROBLEM("500", "outcome-unknown")},
	      {PEER_ANSWER, PAGE(EVENT("a", "s1", "1", "1") "," EVENT("b", "s1", "2", "2"), "2")},
	      {PEER_ANSWER, ACKED});
	assert_int_equal(run(), GATEHOUSE_UNAVAILABLE);
	assert_int_equal(run(), GATEHOUSE_OK);
	assert_int_equal(seen.handled, 1);
	assert_int_equal(seen.repeated, 1);
	assert_int_equal(handled.count, 2);
	assert_int_equal(handled.seqs[1], 2);
	end();
}

TEST(consumer, drops_an_older_event_of_a_subject_whatever_its_id)
{
	begin({PEER_ANSWER,
	       PAGE(EVENT("a", "s1", "5", "1") "," EVENT("b", "s1", "4", "2") "," EVENT("c", "s2", "4", "3"),
	            "3")},
	      {PEER_ANSWER, ACKED});
	assert_int_equal(run(), GATEHOUSE_OK);
	assert_int_equal(seen.handled, 2);
	assert_int_equal(seen.repeated, 1);
	assert_string_equal(handled.subjects[1], "s2");
	end();
}

TEST(consumer, acknowledges_only_up_to_an_event_that_its_handler_refuses)
{
	begin({PEER_ANSWER, PAGE(EVENT("a", "s1", "1", "11") "," EVENT("b", "s1", "2",
	                                                               "12") "," EVENT("c", "s2", "1", "13"),
	                         "20")},
	      {PEER_ANSWER, ACKED},
	      {PEER_ANSWER, PAGE(EVENT("b", "s1", "2", "12") "," EVENT("c", "s2", "1", "13"), "20")},
	      {PEER_ANSWER, ACKED});
	handled.refuse = 12;
	assert_int_equal(run(), GATEHOUSE_OK);
	assert_true(seen.refused);
	assert_int_equal(handled.count, 1);
	assert_non_null(strstr(peer->seen[1], "\"after\":\"11\""));
	handled.refuse = 0;
	assert_int_equal(run(), GATEHOUSE_OK);
	assert_int_equal(handled.count, 3);
	assert_non_null(strstr(peer->seen[3], "\"after\":\"20\""));
	end();
}

TEST(consumer, acknowledges_in_each_shard_what_comes_before_the_first_event_that_is_left)
{
	begin({PEER_ANSWER, PAGE(EVENT_IN("2", "a", "s1", "1", "6") "," EVENT("b", "s2", "1", "11") "," EVENT(
	                                 "c", "s2", "2", "14") "," EVENT_IN("1", "d", "s3", "1", "4"),
	                         "20-9-8-5")},
	      {PEER_ANSWER, ACKED});
	handled.refuse = 14;
	assert_int_equal(run(), GATEHOUSE_OK);
	assert_true(seen.refused);
	assert_int_equal(handled.count, 2);
	assert_non_null(strstr(peer->seen[1], "\"after\":\"13-3-8-5\""));
	end();
}

TEST(consumer, acknowledges_nothing_of_an_unfinished_page_whose_shards_it_cannot_tell)
{
	static const char *const afters[] = {PAGE(EVENT_IN("2", "a", "s1", "1", "11"), "11-4"),
	                                     PAGE(EVENT_IN("-1", "a", "s1", "1", "11"), "11-4"),
	                                     PAGE(EVENT_IN("{}", "a", "s1", "1", "11"), "11-4"),
	                                     PAGE(EVENT("a", "s1", "1", "11"), "later"),
	                                     PAGE(EVENT("a", "s1", "1", "11"), "11-")};

	for (unsigned i = 0; i < sizeof(afters) / sizeof(afters[0]); i++) {
		begin({PEER_ANSWER, afters[i]}, {PEER_ANSWER, ACKED});
		handled.refuse = 11;
		assert_int_equal(run(), GATEHOUSE_OK);
		assert_true(seen.refused);
		assert_int_equal(peer->requests, 1);
		end();
	}
}

TEST(consumer, acknowledges_an_empty_page_too)
{
	begin({PEER_ANSWER, PAGE("", "99")}, {PEER_ANSWER, ACKED});
	assert_int_equal(run(), GATEHOUSE_OK);
	assert_non_null(strstr(peer->seen[1], "\"after\":\"99\""));
	end();
}

TEST(consumer, goes_on_when_others_have_its_share_by_now)
{
	begin({PEER_ANSWER, PAGE(EVENT("a", "s1", "1", "1"), "1")},
	      {PEER_ANSWER, PROBLEM("409", "wrong-state")}, {PEER_ANSWER, PAGE("", "1")},
	      {PEER_ANSWER, ACKED});
	assert_int_equal(run(), GATEHOUSE_OK);
	assert_true(seen.lost);
	assert_int_equal(run(), GATEHOUSE_OK);
	assert_false(seen.lost);
	end();
}

TEST(consumer, asks_for_fewer_after_an_answer_that_is_no_answer)
{
	begin({PEER_ANSWER, HEAD "{}"}, {PEER_ANSWER, "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"},
	      {PEER_ANSWER, PAGE("", "1")}, {PEER_ANSWER, ACKED});
	assert_int_equal(run(), GATEHOUSE_PROTOCOL);
	assert_int_equal(run(), GATEHOUSE_PROTOCOL);
	assert_int_equal(run(), GATEHOUSE_OK);
	assert_non_null(strstr(peer->seen[2], "\"limit\":10,"));
	end();
}

TEST(consumer, says_which_option_is_wrong)
{
	struct gatehouse_consumer_options good = {.name = "c", .handle = handle}, bad[8];
	static const char *const          fields[] = {"name",  "name",   "member",  "handle",
	                                              "limit", "wait_s", "lease_s", "remember_max"};

	client = client_open(1, PATIENT);
	for (unsigned i = 0; i < 8; i++)
		bad[i] = good;
	bad[0].name = NULL;
	bad[1].name = "a/b";
	bad[2].member = "a b";
	bad[3].handle = NULL;
	bad[4].limit = GATEHOUSE_EVENTS_MAX + 1;
	bad[5].wait_s = 61;
	bad[6].lease_s = 1;
	bad[7].remember_max = GATEHOUSE_REMEMBER_MAX + 1;
	for (unsigned i = 0; i < 8; i++) {
		assert_null(gatehouse_consumer_open(client, &bad[i], &error));
		assert_int_equal(error.code, GATEHOUSE_INVALID);
		assert_memory_equal(error.text, fields[i], strlen(fields[i]));
	}
	consumer = gatehouse_consumer_open(client, &good, &error);
	assert_non_null(consumer);
	gatehouse_consumer_close(consumer);
	gatehouse_close(client);
}
