/* Check: one verdict over actions, states and limits, which are only looked at. */
#include "test.h"

#include "fixture.h"
#include "service/check.h"

#define POLICIES                                                                                             \
	"{'memory':{'limit':3,'per':'hour'},'table':{'limit':3,'per':'hour','engine':'table'},"              \
	"'day':{'limit':3,'per':'day'},'shadow':{'limit':3,'per':'hour','shadow':true},"                     \
	"'closed':{'limit':3,'per':'hour','engine':'table','on_failure':'closed'}}"

/* Past the hour by ten seconds, so that what is left of it is known. */
enum { HOUR_S = 3600, PAST_S = 10, HOUR_AT_S = START_S - START_S % HOUR_S + HOUR_S };

struct place {
	struct service         s;
	struct limit_policies *set;
	struct limit_call      call;
};

static void place_open(struct place *p)
{
	struct document *set;

	service_open(&p->s, NULL);
	fixture_set_clock(&p->s.f, HOUR_AT_S + PAST_S);
	p->s.all.limits = limits_open(
	        &(struct limits_options){.memory_bytes_max = LIMIT_MAP_BYTES_MIN, .seed = {1, 2}});
	document_holder_init(limits_holder(p->s.all.limits));
	assert_int_equal(limit_policies_parse(fixture_json(&p->s.f, POLICIES), &set, &p->s.f.err), ERR_NONE);
	document_put(limits_holder(p->s.all.limits), set);
	p->set = limits_policies(p->s.all.limits);
}

static void place_close(struct place *p)
{
	limit_policies_release(p->set);
	document_holder_release(limits_holder(p->s.all.limits));
	limits_close(p->s.all.limits);
	service_close(&p->s);
}

static void ask_for(struct place *p, struct limit_call *c, const char *policy, uint64_t cost)
{
	const struct limit_policy *found = limit_policies_find(p->set, bytes_of(policy));

	assert_true(limit_call_add(c, &p->s.f.arena, found, &(struct limit_key){.text = BYTES("k")}, cost));
}

/* ---- taking, in a turn ---- */

struct take {
	struct turn_request base;
	struct place       *p;
	struct limit_call   call;
};

static enum err_code take_in_turn(struct turn_request *w, struct table *t)
{
	struct take   *k = (struct take *)w;
	struct context ctx = service_context(&k->p->s, t);

	if (limits_run(&ctx, &k->call, &w->err) != ERR_NONE)
		return w->err.code;
	return changes_commit(&ctx.changes, t, &w->err);
}

static void take(struct place *p, const char *policy, uint64_t cost)
{
	struct take k = {.base = {.run = take_in_turn, .cost_bytes = 100}, .p = p};

	ask_for(p, &k.call, policy, cost);
	assert_int_equal(service_run(&p->s, &k.base), ERR_NONE);
	assert_true(k.call.allowed);
}

/* ---- checking ---- */

/* Looks at one or two limits; NULL: none. */
static struct check check_of(struct place *p, const char *first, const char *second, uint64_t cost)
{
	struct check c = {.who = attempt_of(&p->s, &(struct try){0}), .action_count = 1};

	c.actions[0] = c.who.rule;
	p->call = (struct limit_call){.verb = LIMIT_LOOK};
	if (first != NULL)
		ask_for(p, &p->call, first, cost);
	if (second != NULL)
		ask_for(p, &p->call, second, cost);
	if (first != NULL)
		c.limits = &p->call;
	return c;
}

static enum err_code run_on(struct place *p, struct table *t, const struct check *c, struct checked *out)
{
	struct context ctx = service_context(&p->s, t);
	enum err_code  rc = check_run(&ctx, c, out, &p->s.f.err);

	assert_int_equal(ctx.changes.count, 0);
	return rc;
}

static struct checked check_limits(struct place *p, const char *first, const char *second, uint64_t cost)
{
	struct check          c = check_of(p, first, second, cost);
	struct checked        out;
	struct fixture_reader reader;

	fixture_reader_begin(&reader, &p->s.f);
	if (run_on(p, reader.table, &c, &out) != ERR_NONE)
		fail_msg("%s", p->s.f.err.text);
	fixture_reader_end(&reader);
	return out;
}

static void assert_check(const struct checked *c, enum verdict_kind kind, int64_t until_s)
{
	assert_int_equal(c->verdict.kind, kind);
	assert_int_equal(c->wait.until_s, until_s);
}

TEST(check, looks_at_limits_and_takes_nothing)
{
	static const char *const engines[] = {"memory", "table"};
	struct place             p;

	place_open(&p);
	for (int i = 0; i < 2; i++) {
		struct checked c;

		for (int again = 0; again < 5; again++) {
			c = check_limits(&p, engines[i], NULL, 2);
			assert_check(&c, VERDICT_ALLOW, 0);
			assert_int_equal(p.call.asks[0].answer.remaining, 3);
		}
		take(&p, engines[i], 2);
		c = check_limits(&p, engines[i], NULL, 1);
		assert_check(&c, VERDICT_ALLOW, 0);
		assert_int_equal(p.call.asks[0].answer.remaining, 1);
		c = check_limits(&p, engines[i], NULL, 2);
		assert_check(&c, VERDICT_LIMITED, HOUR_AT_S + HOUR_S);
		assert_int_equal(c.wait.whole_seconds, HOUR_S - PAST_S);
		assert_string_equal(c.verdict.reason, "limit");
		take(&p, engines[i], 1);
		assert_int_equal(metric_value(&p.call.asks[0].policy->counts->denied), 0);
	}
	place_close(&p);
}

TEST(check, the_gravest_verdict_counts_and_the_longest_wait_is_told)
{
	struct place   p;
	struct checked c;

	place_open(&p);
	take(&p, "memory", 3);
	c = check_limits(&p, "day", "memory", 1);
	assert_check(&c, VERDICT_LIMITED, HOUR_AT_S + HOUR_S);
	FAIL_TIMES(&p.s, 6, .subject = "alice");
	c = check_limits(&p, NULL, NULL, 1);
	assert_check(&c, VERDICT_LOCKED, HOUR_AT_S + PAST_S + 900);
	c = check_limits(&p, "day", NULL, 1);
	assert_check(&c, VERDICT_LOCKED, HOUR_AT_S + PAST_S + 900);
	c = check_limits(&p, "memory", NULL, 1);
	assert_check(&c, VERDICT_LOCKED, HOUR_AT_S + HOUR_S);
	assert_int_equal(c.wait.whole_seconds, HOUR_S - PAST_S);
	assert_int_equal(c.verdict.until_s, HOUR_AT_S + PAST_S + 900); /* the lock's own */
	place_close(&p);
}

TEST(check, a_run_takes_nothing_over_from_the_run_before)
{
	struct place          p;
	struct check          c;
	struct checked        out;
	struct fixture_reader reader;

	place_open(&p);
	take(&p, "day", 3);
	c = check_of(&p, "day", NULL, 1);
	FAIL_TIMES(&p.s, 6, .subject = "alice");
	for (int again = 0; again < 2; again++) {
		fixture_reader_begin(&reader, &p.s.f);
		assert_int_equal(run_on(&p, reader.table, &c, &out), ERR_NONE);
		fixture_reader_end(&reader);
		if (again == 0)
			fixture_set_clock(&p.s.f, HOUR_AT_S + PAST_S + 2 * 86400);
	}
	assert_check(&out, VERDICT_ALLOW, 0);
	assert_int_equal(out.actions[0].nearest.count, 0);
	assert_false(p.call.degraded || p.call.retry_after_us > 0);
	place_close(&p);
}

TEST(check, a_cost_above_the_limit_has_no_end_whatever_else_has)
{
	struct place   p;
	struct checked c;

	place_open(&p);
	c = check_limits(&p, "memory", NULL, 4);
	assert_check(&c, VERDICT_LIMITED, 0);
	assert_string_equal(c.verdict.reason, "cost_above_limit");
	FAIL_TIMES(&p.s, 6, .subject = "alice");
	c = check_limits(&p, "memory", NULL, 4);
	assert_check(&c, VERDICT_LOCKED, 0);
	place_close(&p);
}

TEST(check, a_limit_in_shadow_mode_is_told_and_refuses_nobody)
{
	struct place   p;
	struct checked c;

	place_open(&p);
	take(&p, "shadow", 3);
	c = check_limits(&p, "shadow", NULL, 1);
	assert_check(&c, VERDICT_ALLOW, 0);
	assert_false(p.call.asks[0].answer.allowed);
	place_close(&p);
}

/* ---- a table of limits that fails, beside one of attempts that does not ---- */

struct half {
	struct table  base;
	struct table *whole;
};

static enum err_code half_get(struct table *t, struct arena *a, const struct table_get *q,
                              struct table_get_result *r, struct err *err)
{
	struct table *whole = ((struct half *)t)->whole;

	if (bytes_is(q->table, "rate-limits"))
		return err_set(err, ERR_STORAGE, "broken");
	return whole->backend->get(whole, a, q, r, err);
}

/* Whichever of the ways to read several rows is taken. */
static enum err_code half_batch_get(struct table *t, struct arena *a, const struct table_batch_get *q,
                                    struct table_batch_get_result *r, struct err *err)
{
	struct table *whole = ((struct half *)t)->whole;

	return whole->backend->batch_get(whole, a, q, r, err);
}

static enum err_code half_transact_get(struct table *t, struct arena *a, const struct table_batch_get *q,
                                       struct table_batch_get_result *r, struct err *err)
{
	struct table *whole = ((struct half *)t)->whole;

	return whole->backend->transact_get(whole, a, q, r, err);
}

static enum err_code half_query(struct table *t, struct arena *a, const struct table_query *q,
                                struct table_query_result *r, struct err *err)
{
	struct table *whole = ((struct half *)t)->whole;

	return whole->backend->query(whole, a, q, r, err);
}

TEST(check, where_the_table_of_limits_fails_their_policies_decide_and_nothing_is_taken)
{
	static const struct table_backend half = {.name = "half",
	                                          .get = half_get,
	                                          .batch_get = half_batch_get,
	                                          .transact_get = half_transact_get,
	                                          .query = half_query};
	struct fixture_reader             reader;
	struct place                      p;
	struct half                       t;
	struct check                      c;
	struct checked                    out;

	place_open(&p);
	fixture_reader_begin(&reader, &p.s.f);
	t = (struct half){{.backend = &half, .now_us = reader.table->now_us}, reader.table};
	c = check_of(&p, "table", "memory", 1);
	assert_int_equal(run_on(&p, &t.base, &c, &out), ERR_NONE);
	assert_check(&out, VERDICT_ALLOW, 0);
	assert_true(p.call.degraded && p.call.asks[0].degraded && !p.call.asks[1].degraded);
	c = check_of(&p, "closed", "memory", 1);
	assert_int_equal(run_on(&p, &t.base, &c, &out), ERR_OVERLOADED);
	fixture_reader_end(&reader);
	check_limits(&p, "memory", NULL, 1);
	assert_int_equal(p.call.asks[0].answer.remaining, 3);
	place_close(&p);
}
