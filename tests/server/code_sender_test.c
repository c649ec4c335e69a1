/* The code sender without a receiver that answers: bounds, replacement, expiry, back-off. With real receivers: tests/e2e/test_codes.py. */
#include "test.h"

#include <sched.h>

#include "server/code_sender.h"

enum { NOW_S = 1794789304 };

struct scene {
	struct clock_manual clock;
	struct code_sender *sender;
	struct code_post    post;
};

/* Nobody listens on port 1. */
static struct webhook *nobody(struct clock *clock)
{
	struct webhook_options o = {.name = "codes",
	                            .url = BYTES("http://127.0.0.1:1/"),
	                            .secrets = BYTES("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
	                            .allow_private = true,
	                            .calls_max = CODE_SENDERS,
	                            .clock = clock};
	struct webhook        *w;
	struct err             err;

	assert_int_equal(webhook_open(&o, &w, &err), ERR_NONE);
	return w;
}

static void scene_open(struct scene *x)
{
	clock_manual_init(&x->clock, INT64_C(1000000) * NOW_S);
	x->sender = code_sender_open(&x->clock.base);
	x->post = code_sender_post(x->sender);
	assert_false(x->post.on(x->post.ctx));
	code_sender_put(x->sender, nobody(&x->clock.base));
	assert_true(x->post.on(x->post.ctx));
}

static void post(struct scene *x, const char *user, const char *code)
{
	struct code_message m = {.kind = CODE_MESSAGE_VERIFY,
	                         .user = bytes_of(user),
	                         .email_id = BYTES("e"),
	                         .email = BYTES("x@example.org"),
	                         .code = bytes_of(code),
	                         .expires_s = NOW_S + 900};

	x->post.post(x->post.ctx, &m);
}

static struct code_numbers numbers(struct scene *x)
{
	return x->post.read(x->post.ctx);
}

TEST(code_sender, past_its_bound_a_message_is_dropped_and_counted_1)
{
	struct scene x;
	char         user[16];

	scene_open(&x);
	for (int i = 0; i < CODE_QUEUE_MAX; i++) {
		snprintf(user, sizeof(user), "u%d", i);
		post(&x, user, "A");
	}
	assert_int_equal(numbers(&x).queued, CODE_QUEUE_MAX);
	assert_int_equal(numbers(&x).dropped, 0);
	post(&x, "one-more", "A");
	assert_int_equal(numbers(&x).dropped, 1);
	post(&x, "u7", "B"); /* (2) takes the place of one that waits, so there is room */
	assert_int_equal(numbers(&x).dropped, 1);
	code_sender_close(x.sender);
}

TEST(code_sender, a_code_that_expires_is_given_up_3)
{
	struct scene x;

	scene_open(&x);
	post(&x, "ann", "A");
	clock_manual_set(&x.clock, INT64_C(1000000) * (NOW_S + 899));
	assert_int_equal(numbers(&x).failed, 0);
	clock_manual_set(&x.clock, INT64_C(1000000) * (NOW_S + 900));
	while (numbers(&x).failed == 0)
		sched_yield();
	assert_int_equal(numbers(&x).queued, 0);
	code_sender_close(x.sender);
}

TEST(code_sender, without_a_receiver_nothing_is_kept)
{
	struct scene x;

	scene_open(&x);
	code_sender_put(x.sender, NULL);
	assert_false(x.post.on(x.post.ctx));
	post(&x, "ann", "A");
	assert_int_equal(numbers(&x).queued, 0);
	assert_int_equal(numbers(&x).dropped, 1);
	code_sender_close(x.sender);
}

TEST(code_sender, waits_double_up_to_a_bound_and_a_receiver_may_ask_for_more)
{
	assert_int_equal(code_again_us(1, 0), CODE_AGAIN_FIRST_MS * 1000);
	assert_int_equal(code_again_us(2, 0), 2 * CODE_AGAIN_FIRST_MS * 1000);
	assert_int_equal(code_again_us(1000, 0), CODE_AGAIN_LAST_MS * 1000);
	assert_int_equal(code_again_us(1, 60), 60 * 1000000);
	assert_int_equal(code_again_us(1000, 1), CODE_AGAIN_LAST_MS * 1000);
}
