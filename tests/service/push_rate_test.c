/* The rate of push messages that processes share: what push_rate.h promises, on the engine or the rough store. */
#include "service/turn.h"

#include "service/push_rate.h"

enum { RATE = 200, SECOND_US = 1000000 };

struct call {
	struct turn             turn;
	struct push_rate_ask    ask;
	struct push_rate_answer answer;
};

static enum err_code take(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return push_rate_take(&t->ctx, &c->ask, &c->answer, err);
}

static enum err_code give(struct turn *t, struct err *err)
{
	return push_rate_give(&t->ctx, &((struct call *)t)->ask, err);
}

/* As a process whose clock is that far ahead. */
static struct push_rate_answer ask_ahead(struct service *s, uint32_t messages, int64_t ahead_us)
{
	struct call c = {.ask = {RATE, messages, 0}};

	if (ahead_us > 0)
		c.ask.since_us = (START_S * (int64_t)SECOND_US) + ahead_us;
	turn_take(s, &c.turn, take);
	return c.answer;
}

static struct push_rate_answer ask(struct service *s, uint32_t messages)
{
	return ask_ahead(s, messages, 0);
}

TEST(push_rate, one_call_is_there_at_once_and_then_the_rate)
{
	struct service          s;
	struct push_rate_answer a;

	service_open(&s, NULL);
	assert_true(ask(&s, PUSH_BATCH_MAX).allowed);
	a = ask(&s, 1);
	assert_false(a.allowed);
	assert_int_equal(a.wait_us, SECOND_US / RATE);
	a = ask(&s, PUSH_BATCH_MAX);
	assert_false(a.allowed);
	assert_int_equal(a.wait_us, PUSH_BATCH_MAX * SECOND_US / RATE);
	at(&s, 1);
	assert_true(ask(&s, PUSH_BATCH_MAX).allowed); /* and no more than one call has gathered */
	assert_false(ask(&s, 1).allowed);
	service_close(&s);
}

TEST(push_rate, what_a_call_did_not_need_is_there_for_the_next_one)
{
	struct service s;
	struct call    c = {.ask = {RATE, 60, 0}};

	service_open(&s, NULL);
	assert_true(ask(&s, PUSH_BATCH_MAX).allowed);
	turn_take(&s, &c.turn, give);
	assert_false(ask(&s, 61).allowed);
	assert_true(ask(&s, 60).allowed);
	turn_take(&s, &c.turn, give);
	turn_take(&s, &c.turn, give); /* never more than one call */
	assert_true(ask(&s, PUSH_BATCH_MAX).allowed);
	assert_false(ask(&s, 1).allowed);
	service_close(&s);
}

TEST(push_rate, a_process_whose_clock_is_an_hour_slow_waits_for_a_call_and_not_for_an_hour)
{
	struct service          s;
	struct push_rate_answer a;
	int64_t                 ahead_us = 3600 * (int64_t)SECOND_US;

	service_open(&s, NULL);
	assert_true(ask_ahead(&s, PUSH_BATCH_MAX, ahead_us).allowed);
	a = ask(&s, PUSH_BATCH_MAX);
	assert_false(a.allowed);
	assert_int_equal(a.wait_us, PUSH_BATCH_MAX * SECOND_US / RATE);
	assert_int_equal(a.now_us, START_S * (int64_t)SECOND_US + ahead_us); /* its clock from now on */
	assert_true(ask_ahead(&s, PUSH_BATCH_MAX, ahead_us + a.wait_us).allowed);
	assert_false(ask_ahead(&s, 1, ahead_us + a.wait_us).allowed);
	service_close(&s);
}

TEST(push_rate, a_row_that_makes_no_sense_counts_as_nothing)
{
	static const char *const senseless[] = {"-5", "999999999999999999", "1e30"};
	struct service           s;

	service_open(&s, NULL);
	assert_true(ask(&s, PUSH_BATCH_MAX).allowed);
	for (size_t i = 0; i < sizeof(senseless) / sizeof(senseless[0]); i++) {
		struct bytes body = arena_printf(&s.f.arena,
		                                 "{'TableName':'gatehouse-push','Item':{'PK':{'S':'RATE'},'"
		                                 "SK':{'S':'EXPO'},'TAT':{'N':'%s'}}}",
		                                 senseless[i]);

		fixture_ok(&s.f, "PutItem", body.data);
		assert_true(ask(&s, PUSH_BATCH_MAX).allowed);
		assert_false(ask(&s, 1).allowed);
	}
	service_close(&s);
}
