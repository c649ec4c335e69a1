/* Retries and circuits: the pure parts. */
#include "outbound/retry.h"
#include "random.h"
#include "test.h"

/* ---- retry.h ---- */

TEST(retry, a_delay_is_within_a_bound_that_doubles_up_to_the_maximum)
{
	int64_t bounds[] = {50000, 100000, 200000, 400000};

	for (uint32_t tried = 1; tried <= 4; tried++) {
		assert_int_equal(retry_delay_us(&retry_aws, RETRY_TRANSIENT, tried, 0, 0), 0);
		assert_int_equal(
		        retry_delay_us(&retry_aws, RETRY_TRANSIENT, tried, (uint64_t)bounds[tried - 1], 0),
		        bounds[tried - 1]);
		assert_int_equal(retry_delay_us(&retry_aws, RETRY_TRANSIENT, tried,
		                                (uint64_t)bounds[tried - 1] + 1, 0),
		                 0);
	}
	for (uint32_t tried = 1; tried < 200; tried++)
		assert_true(retry_delay_us(&retry_aws, RETRY_THROTTLED, tried, UINT64_MAX, 0) <=
		            retry_aws.delay_max_us);
}

TEST(retry, dynamodb_is_tried_once_more_and_sooner)
{
	assert_int_equal(retry_dynamodb.attempts_max, retry_aws.attempts_max + 1);
	assert_int_equal(retry_delay_us(&retry_dynamodb, RETRY_TRANSIENT, 1, 25000, 0), 25000);
	assert_int_equal(retry_delay_us(&retry_dynamodb, RETRY_TRANSIENT, 1, 25001, 0), 0);
}

TEST(retry, a_hint_is_heeded_but_not_beyond_five_seconds_more)
{
	assert_int_equal(retry_delay_us(&retry_aws, RETRY_TRANSIENT, 1, 1000, 3000000), 3000000);
	assert_int_equal(retry_delay_us(&retry_aws, RETRY_TRANSIENT, 1, 1000, 3600000000), 5001000);
	assert_int_equal(retry_delay_us(&retry_aws, RETRY_TRANSIENT, 1, 1000, 10), 1000);
}

TEST(retry, the_quota_runs_out_and_comes_back_with_successes)
{
	struct retry_quota q;
	uint32_t           taken = 0;

	retry_quota_init(&q, &retry_aws);
	while (retry_quota_take(&q, &retry_aws, RETRY_TRANSIENT))
		taken++;
	assert_int_equal(taken, 500 / 14);
	assert_true(retry_quota_take(&q, &retry_aws, RETRY_THROTTLED)); /* it costs less */
	assert_false(retry_quota_take(&q, &retry_aws, RETRY_THROTTLED) && q.left > 500);
	for (int i = 0; i < 14; i++)
		retry_quota_refund(&q, &retry_aws, RETRY_NEVER);
	assert_true(retry_quota_take(&q, &retry_aws, RETRY_TRANSIENT));
	for (int i = 0; i < 1000; i++)
		retry_quota_refund(&q, &retry_aws, RETRY_TRANSIENT);
	assert_int_equal(q.left, 500);
}

TEST(retry, statuses_say_what_is_worth_another_try)
{
	static const int again[] = {500, 502, 503, 504}, final[] = {200, 301, 400, 401, 403, 404, 409, 501};

	for (size_t i = 0; i < sizeof(again) / sizeof(*again); i++)
		assert_int_equal(retry_kind_of_status(again[i]), RETRY_TRANSIENT);
	for (size_t i = 0; i < sizeof(final) / sizeof(*final); i++)
		assert_int_equal(retry_kind_of_status(final[i]), RETRY_NEVER);
	assert_int_equal(retry_kind_of_status(429), RETRY_THROTTLED);
}

/* ---- circuits ---- */

static struct circuit a_circuit(void)
{
	struct circuit c;

	circuit_init(&c, (struct circuit_limits){.failures_max = 3, .pause_us = 1000, .pause_max_us = 5000});
	return c;
}

static void fail_until_open(struct circuit *c, int64_t now_us)
{
	int64_t wait;

	for (int i = 0; i < 3; i++) {
		assert_true(circuit_admits(c, now_us, &wait));
		circuit_note(c, false, now_us);
	}
	assert_int_equal(c->state, CIRCUIT_OPEN);
}

TEST(circuit, opens_after_failures_in_a_row_and_not_after_as_many_with_a_success_between)
{
	struct circuit c = a_circuit();
	int64_t        wait;

	circuit_note(&c, false, 0);
	circuit_note(&c, false, 0);
	circuit_note(&c, true, 0);
	circuit_note(&c, false, 0);
	circuit_note(&c, false, 0);
	assert_true(circuit_admits(&c, 0, &wait));
	circuit_note(&c, false, 0);
	assert_false(circuit_admits(&c, 999, &wait));
	assert_int_equal(wait, 1);
}

TEST(circuit, one_call_probes_after_the_pause_and_its_success_lets_all_through)
{
	struct circuit c = a_circuit();
	int64_t        wait;

	fail_until_open(&c, 0);
	assert_true(circuit_refuses(&c, 999));
	assert_false(circuit_refuses(&c, 1000)); /* asking is not probing */
	assert_true(circuit_admits(&c, 1000, &wait));
	assert_true(circuit_refuses(&c, 1000));
	assert_false(circuit_admits(&c, 1000, &wait));
	circuit_note(&c, true, 1500);
	assert_false(circuit_refuses(&c, 1500));
	assert_true(circuit_admits(&c, 1500, &wait));
	assert_true(circuit_admits(&c, 1500, &wait));
}

TEST(circuit, pauses_double_while_probes_fail_and_have_a_maximum)
{
	static const int64_t pauses[] = {1000, 2000, 4000, 5000, 5000};
	struct circuit       c = a_circuit();
	int64_t              now = 0, wait;

	fail_until_open(&c, now);
	for (size_t i = 0; i < sizeof(pauses) / sizeof(*pauses); i++) {
		assert_false(circuit_admits(&c, now + pauses[i] - 1, &wait));
		now += pauses[i];
		assert_true(circuit_admits(&c, now, &wait));
		circuit_note(&c, false, now);
	}
	assert_int_equal(c.opened, 6);
}

TEST(circuit, a_failure_of_a_call_that_went_out_earlier_does_not_prolong_the_pause)
{
	struct circuit c = a_circuit();
	int64_t        wait;

	fail_until_open(&c, 0);
	circuit_note(&c, false, 900);
	assert_true(circuit_admits(&c, 1000, &wait));
}
