/* What becomes of registered devices later, on the engine or the rough store: tokens that turn out to be dead, old rows that are cleaned up, rows of others
 * that are repaired. */
#include "service/push_devices.h"

#include "service/push_job.h"

/* ---- feedback ---- */

static enum push_feedback_outcome fed_back(struct service *s, const char *token, int64_t sent_s)
{
	struct call c = {.feedback = {.token = bytes_of(token), .sent_s = sent_s, .not_registered = true}};

	c.feedback.kind = push_token_kind(c.feedback.token);
	turn_take(s, &c.turn, feedback);
	return c.outcome;
}

TEST(push_feedback, a_dead_token_disables_its_device_unless_it_was_registered_since)
{
	struct service     s;
	struct push_device d;

	service_open(&s, NULL);
	enrolled(&s, "ann", "phone", TOKEN("a"));
	assert_int_equal(fed_back(&s, TOKEN("a"), START_S - 1), FEEDBACK_STALE);
	assert_int_equal(fed_back(&s, TOKEN("b"), 0), FEEDBACK_UNKNOWN);
	assert_int_equal(fed_back(&s, TOKEN("a"), START_S), FEEDBACK_DISABLED);
	assert_int_equal(fed_back(&s, TOKEN("a"), 0), FEEDBACK_INACTIVE);
	assert_true(found(&s, "ann", "phone", &d) && !d.active);
	check_markers(&s);
	service_close(&s);
}

TEST(push_feedback, a_device_with_another_token_loses_the_dead_one)
{
	struct service     s;
	struct push_device d;

	service_open(&s, NULL);
	enrolled_with_two(&s, "ann", "phone");
	assert_int_equal(fed_back(&s, TOKEN("a"), 0), FEEDBACK_DISABLED);
	assert_true(found(&s, "ann", "phone", &d) && d.active && d.tokens[PUSH_EXPO].len == 0);
	check_markers(&s);
	assert_int_equal(fed_back(&s, FCM_TOKEN, 0), FEEDBACK_DISABLED);
	assert_true(found(&s, "ann", "phone", &d) && !d.active);
	service_close(&s);
}

/* ---- forms ---- */

static struct bytes many(struct service *s, char c, size_t count)
{
	char *text = arena_alloc(&s->f.arena, count);

	memset(text, c, count);
	return (struct bytes){text, count};
}

TEST(push_tokens, forms_at_their_bounds_and_one_past_them)
{
	struct service s;

	service_open(&s, NULL);
	assert_true(push_token_is(PUSH_EXPO, BYTES("ExponentPushToken[x]")));
	assert_true(push_token_is(PUSH_EXPO, BYTES("ExpoPushToken[xyz-_1]")));
	assert_false(push_token_is(PUSH_EXPO, BYTES("ExponentPushToken[]")));
	assert_false(push_token_is(PUSH_EXPO, BYTES("ExponentPushToken[a b]")));
	assert_false(push_token_is(PUSH_EXPO, BYTES("ExponentPushToken[a]]")));
	assert_false(push_token_is(PUSH_EXPO, BYTES("ExponentPushToken[a")));
	assert_false(push_token_is(PUSH_EXPO, BYTES("PushToken[a]")));
	assert_true(push_token_is(PUSH_EXPO, BYTES("ExponentPushToken[x]")));
	assert_true(push_token_is(PUSH_EXPO, BYTES("f81d4fae-7dec-11d0-A765-00a0c91e6bf6")));
	assert_false(push_token_is(PUSH_EXPO, BYTES("f81d4fae-7dec-11d0-A765-00a0c91e6bf")));
	assert_false(push_token_is(PUSH_EXPO, BYTES("f81d4fae-7dec-11d0-A765-00a0c91e6bf6a")));
	assert_false(push_token_is(PUSH_EXPO, BYTES("f81d4fae-7dec-11d0-A765000a0c91e6bf6")));
	assert_false(push_token_is(PUSH_EXPO, BYTES("")));
	assert_true(push_token_is(PUSH_FCM, many(&s, 'x', PUSH_FCM_BYTES_MIN)));
	assert_false(push_token_is(PUSH_FCM, many(&s, 'x', PUSH_FCM_BYTES_MIN - 1)));
	assert_true(push_token_is(PUSH_FCM, many(&s, 'x', PUSH_TOKEN_BYTES_MAX)));
	assert_false(push_token_is(PUSH_FCM, many(&s, 'x', PUSH_TOKEN_BYTES_MAX + 1)));
	assert_true(push_token_is(PUSH_APNS, many(&s, 'A', PUSH_APNS_DIGITS_MIN)));
	assert_false(push_token_is(PUSH_APNS, many(&s, 'A', PUSH_APNS_DIGITS_MIN - 2)));
	assert_false(push_token_is(PUSH_APNS, many(&s, 'A', PUSH_APNS_DIGITS_MIN + 1)));
	assert_true(push_token_is(PUSH_APNS, many(&s, 'A', PUSH_APNS_DIGITS_MAX)));
	assert_false(push_token_is(PUSH_APNS, many(&s, 'A', PUSH_APNS_DIGITS_MAX + 2)));
	assert_false(push_token_is(PUSH_APNS, many(&s, 'g', PUSH_APNS_DIGITS_MIN)));
	assert_int_equal(push_token_kind(many(&s, 'a', 64)), PUSH_APNS);
	assert_int_equal(push_token_kind(many(&s, 'x', 64)), PUSH_FCM);
	assert_int_equal(push_token_kind(BYTES("x")), PUSH_KINDS);
	assert_true(
	        bytes_equal(push_token_normal(&s.f.arena, PUSH_APNS, many(&s, 'A', 64)), many(&s, 'a', 64)));
	assert_true(push_device_id_is(many(&s, 'x', PUSH_DEVICE_ID_BYTES_MAX)));
	assert_false(push_device_id_is(many(&s, 'x', PUSH_DEVICE_ID_BYTES_MAX + 1)));
	assert_false(push_device_id_is(BYTES("")));
	assert_false(push_device_id_is(BYTES("a\nb")));
	service_close(&s);
}

/* ---- jobs ---- */

static const struct job_kind *const kinds[] = {&push_cleanup, &push_repair};
static struct job_counts            counts[2];

struct job_call {
	struct turn        turn;
	struct job_new     q;
	int64_t            days;
	struct job_started started;
	struct job_stepped stepped;
};

static enum err_code job_begin(struct turn *t, struct err *err)
{
	struct job_call *c = (struct job_call *)t;

	return push_job_start(&t->ctx, &c->q, c->days, &c->started, err);
}

static enum err_code job_go_on(struct turn *t, struct err *err)
{
	struct job_call *c = (struct job_call *)t;
	struct job_turn  q = {.running = {.id = c->started.job.id, .kind = bytes_of(c->q.kind->name)},
	                      .steps = JOB_ANY_STEP};

	q.running.key = arena_printf(t->ctx.arena, "%s#all", c->q.kind->name);
	return job_step(&t->ctx, &q, &c->stepped, err);
}

static struct job worked(struct service *s, const struct job_kind *kind, bool dry_run)
{
	struct job_call c = {.q = {.kind = kind, .dry_run = dry_run}, .days = PUSH_INACTIVE_DAYS};

	s->all.jobs = (struct jobs_settings){.kinds = kinds, .counts = counts, .kind_count = 2};
	turn_take(s, &c.turn, job_begin);
	do {
		turn_take(s, &c.turn, job_go_on);
		assert_true(c.stepped.taken);
	} while (c.stepped.job.state == JOB_RUNNING);
	assert_int_equal(c.stepped.job.state, JOB_DONE);
	return c.stepped.job;
}

static int64_t progress(const struct job *job, const char *name)
{
	return row_i64(&job->progress, name, 0);
}

TEST(push_jobs, a_cleanup_removes_what_was_inactive_for_30_days_and_a_dry_run_nothing)
{
	enum { DEVICES = 70 };
	struct service s;
	struct job     job;

	service_open(&s, NULL);
	for (int i = 0; i < DEVICES; i++) {
		const char *user = arena_printf(&s.f.arena, "user-%d", i).data;

		enrolled(&s, user, "phone", arena_printf(&s.f.arena, TOKEN("%d"), i).data);
		if (i % 2 == 0)
			ended(&s, user, "phone", deactivate);
	}
	at(&s, 30 * 86400);
	job = worked(&s, &push_cleanup, false);
	assert_int_equal(progress(&job, "examined"), DEVICES);
	assert_int_equal(progress(&job, "removed"), 0); /* one second more */
	at(&s, 30 * 86400 + 1);
	job = worked(&s, &push_cleanup, true);
	assert_int_equal(progress(&job, "removed"), DEVICES / 2);
	assert_int_equal(scanned(&s, "device-tokens").count, DEVICES);
	job = worked(&s, &push_cleanup, false);
	assert_int_equal(progress(&job, "examined"), DEVICES);
	assert_int_equal(progress(&job, "removed"), DEVICES / 2);
	assert_int_equal(scanned(&s, "device-tokens").count, DEVICES / 2);
	check_markers(&s);
	service_close(&s);
}

TEST(push_jobs, a_cleanup_that_runs_is_no_answer_to_one_that_was_asked_for_otherwise)
{
	struct service  s;
	struct job_call c = {.q = {.kind = &push_cleanup, .dry_run = true}, .days = 30};

	service_open(&s, NULL);
	s.all.jobs = (struct jobs_settings){.kinds = kinds, .counts = counts, .kind_count = 2};
	turn_take(&s, &c.turn, job_begin);
	turn_take(&s, &c.turn, job_begin);
	assert_true(c.started.existed);
	c.q.dry_run = false;
	assert_int_equal(turn_try(&s, &c.turn, job_begin), ERR_NOT_NOW);
	c.q.dry_run = true;
	c.days = 31;
	assert_int_equal(turn_try(&s, &c.turn, job_begin), ERR_NOT_NOW);
	service_close(&s);
}

TEST(push_jobs, a_repair_gives_rows_of_others_their_markers_and_removes_those_of_nothing)
{
	struct service s;
	struct job     job;

	service_open(&s, NULL);
	enrolled(&s, "ann", "phone", TOKEN("a"));
	enrolled(&s, "bob", "phone", TOKEN("b"));
	put_literally(&s, "{'userId':{'S':'cid'},'deviceId':{'S':'phone'},'expoPushToken':{'S':'" TOKEN(
	                          "c") "'},'platform':{'S':'ios'},'isActive':{'BOOL':true}}");
	fixture_ok(&s.f, "DeleteItem",
	           "{'TableName':'device-tokens','Key':{'userId':{'S':'ann'},'deviceId':{'S':'phone'}}}");
	fixture_ok(&s.f, "UpdateItem",
	           "{'TableName':'device-tokens','Key':{'userId':{'S':'bob'},'deviceId':{'S':'phone'}},"
	           "'UpdateExpression':'SET expoPushToken = :t, expiresAt = :e','ExpressionAttributeValues':{"
	           "':t':{'S':'" TOKEN("bb") "'},':e':{'N':'1999999999'}}}");
	job = worked(&s, &push_repair, true);
	assert_int_equal(progress(&job, "markersWritten"), 2);
	assert_int_equal(progress(&job, "markersRemoved"), 2);
	job = worked(&s, &push_repair, false);
	assert_int_equal(progress(&job, "markersWritten"), 2);
	assert_int_equal(progress(&job, "markersRemoved"), 2);
	check_markers(&s);
	job = worked(&s, &push_repair, false);
	assert_int_equal(progress(&job, "markersWritten") + progress(&job, "markersRemoved"), 0);
	service_close(&s);
}

TEST(push_jobs, a_token_that_two_devices_have_goes_to_the_one_seen_last)
{
	struct service s;
	struct job     job;

	service_open(&s, NULL);
	enrolled(&s, "bob", "phone", TOKEN("a"));
	put_literally(&s, "{'userId':{'S':'ann'},'deviceId':{'S':'later'},'expoPushToken':{'S':'" TOKEN(
	                          "a") "'},'isActive':{'BOOL':true},'expiresAt':{'N':'9999999999'}}");
	put_literally(&s,
	              "{'userId':{'S':'ann'},'deviceId':{'S':'earlier'},'expoPushToken':{'S':'" TOKEN(
	                      "a") "'},'isActive':{'BOOL':true},'updatedAt':{'S':'2020-01-01T00:00:00Z'}}");
	worked(&s, &push_repair, false);
	job = worked(&s, &push_repair, false); /* three at once take two */
	assert_true(progress(&job, "tokensTaken") <= 1);
	assert_true(is_there(&s, "ann", "later"));
	assert_false(is_there(&s, "ann", "earlier") || is_there(&s, "bob", "phone"));
	check_markers(&s);
	service_close(&s);
}

TEST(push_jobs, a_repair_fills_the_index_when_it_is_switched_on_and_empties_it_when_it_is_not)
{
	struct service s;
	struct job     job;
	struct call    c = {.broadcast = {.platform = BYTES("ios"), .limit = 100}};

	service_open(&s, NULL);
	s.all.tables.device_index = true;
	enrolled(&s, "ann", "phone", TOKEN("a"));
	s.all.tables.device_index = false;
	enrolled(&s, "bob", "phone", TOKEN("b"));
	job = worked(&s, &push_repair, false);
	assert_int_equal(progress(&job, "rowsIndexed"), 1);
	s.all.tables.device_index = true;
	turn_take(&s, &c.turn, broadcast);
	assert_int_equal(c.platform.count, 0);
	job = worked(&s, &push_repair, false);
	assert_int_equal(progress(&job, "rowsIndexed"), 2);
	turn_take(&s, &c.turn, broadcast);
	assert_int_equal(c.platform.count, 2);
	service_close(&s);
}
