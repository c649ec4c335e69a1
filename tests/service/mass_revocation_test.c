/* Mass revocation: what mass_revocation.h promises, on the engine or the rough store. */
#include "service/turn.h"

#include "service/cursor.h"
#include "service/mass_revocation.h"
#include "service/revocation.h"

struct call {
	struct turn            turn;
	struct user_new        create;
	struct user_created    created;
	struct mass_revocation q;
	struct job_started     started;
	struct job_turn        step;
	struct job_stepped     stepped;
	struct revoked         tokens;
	struct bytes           id;
};

static enum err_code create(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_create(&t->ctx, &c->create, &c->created, err);
}

static enum err_code start(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return mass_revocation_start(&t->ctx, &c->q, &c->started, err);
}

static enum err_code step(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return job_step(&t->ctx, &c->step, &c->stepped, err);
}

static enum err_code tokens(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return revocation_get(&t->ctx, REVOKED_USER, c->id, &c->tokens, err);
}

/* ---- words ---- */

static const struct job_kind *const kinds[] = {&mass_revocation_kind};
static struct job_counts            counts[1];

static void open_with(struct service *s, int users)
{
	service_open(s, NULL);
	s->all.jobs = (struct jobs_settings){.kinds = kinds, .counts = counts, .kind_count = 1};
	for (int i = 0; i < users; i++) {
		struct call c = {.create = {.id = arena_printf(&s->f.arena, "user-%02d", i)}};

		turn_take(s, &c.turn, create);
	}
}

static struct job_turn turn_of(struct service *s, const struct job *job)
{
	return (struct job_turn){
	        .running = {.id = job->id,
	                    .kind = bytes_of(mass_revocation_kind.name),
	                    .key = arena_printf(&s->f.arena, "%s#%.*s", mass_revocation_kind.name,
	                                        BYTES_ARG(job->id))},
	        .steps = JOB_ANY_STEP};
}

/* Runs it to its end; how it ended. */
static struct job ran(struct service *s, const struct mass_revocation *q)
{
	struct call c = {.q = *q};

	turn_take(s, &c.turn, start);
	c.step = turn_of(s, &c.started.job);
	for (int i = 0; i < 100; i++) {
		turn_take(s, &c.turn, step);
		assert_true(c.stepped.taken);
		assert_true(c.stepped.job.handled <= MASS_REVOCATION_STEP);
		if (c.stepped.job.state != JOB_RUNNING)
			return c.stepped.job;
	}
	fail_msg("it does not end");
	return c.stepped.job;
}

static int64_t not_before(struct service *s, const char *id)
{
	struct call c = {.id = bytes_of(id)};

	turn_take(s, &c.turn, tokens);
	return c.tokens.kind == REVOKED_NOTHING ? -1 : c.tokens.not_before_s - START_S;
}

static void assert_progress(const struct job *job, int examined, int matched, int revoked)
{
	assert_int_equal(job->state, JOB_DONE);
	assert_int_equal(row_i64(&job->progress, "examined", 0), examined);
	assert_int_equal(row_i64(&job->progress, "matched", 0), matched);
	assert_int_equal(row_i64(&job->progress, "revoked", 0), revoked);
}

/* (5) of job.h: a page of the table may end at a marker. */
TEST(mass_revocation, the_job_never_holds_an_address_and_once_it_is_done_no_place)
{
	enum { MARKERS = 2 * USERS_EXAMINED_MAX };
	struct service s;
	struct call    c = {
	           .q = {.status = USER_ACTIVE, .reason = BYTES("breach"), .rate = 1000000},
        };
	struct bytes pk, sk;
	uint32_t     places = 0;

	open_with(&s, 5);
	for (int i = 0; i < MARKERS; i++)
		fixture_ok(&s.f, "PutItem",
		           arena_printf(&s.f.arena,
		                        "{'TableName':'users','Item':{'PK':{'S':'EMAIL#%d@example.org'},"
		                        "'SK':{'S':'MARKER'}}}%c",
		                        i, '\0')
		                   .data);
	turn_take(&s, &c.turn, start);
	c.step = turn_of(&s, &c.started.job);
	do {
		turn_take(&s, &c.turn, step);
		if (c.stepped.job.cursor.len == 0)
			continue;
		places++;
		assert_true(cursor_unpack(&s.f.arena, c.stepped.job.cursor, &pk, &sk));
		assert_true(bytes_starts_with(pk, BYTES("USER#")));
	} while (c.stepped.job.state == JOB_RUNNING);
	assert_progress(&c.stepped.job, 5, 5, 5);
	assert_true(places > 0 || s.f.store != NULL); /* elsewhere a scan may have another order */
	assert_int_equal(c.stepped.job.cursor.len, 0);
	service_close(&s);
}

#define ALL_ACTIVE .status = USER_ACTIVE, .reason = BYTES("breach")

TEST(mass_revocation, a_filter_finds_users_a_page_at_a_time_and_revokes_up_to_one_second_1)
{
	struct service s;
	struct job     job;

	open_with(&s, 2 * MASS_REVOCATION_STEP + 5);
	at(&s, 10);
	job = ran(&s, &(struct mass_revocation){ALL_ACTIVE});
	assert_progress(&job, 2 * MASS_REVOCATION_STEP + 5, 2 * MASS_REVOCATION_STEP + 5,
	                2 * MASS_REVOCATION_STEP + 5);
	assert_int_equal(not_before(&s, "user-00"), 10);
	assert_int_equal(not_before(&s, "user-44"), 10);
	service_close(&s);
}

TEST(mass_revocation, a_dry_run_counts_and_revokes_nothing_3)
{
	struct service s;
	struct job     job;

	open_with(&s, 3);
	job = ran(&s, &(struct mass_revocation){ALL_ACTIVE, .dry_run = true});
	assert_progress(&job, 3, 3, 0);
	assert_int_equal(not_before(&s, "user-00"), -1);
	service_close(&s);
}

TEST(mass_revocation, of_a_list_those_that_are_no_users_are_revoked_too)
{
	struct bytes   ids[] = {BYTES("user-00"), BYTES("stranger")};
	struct service s;
	struct job     job;

	open_with(&s, 2);
	job = ran(&s, &(struct mass_revocation){.users = ids,
	                                        .user_count = 2,
	                                        .status = MASS_REVOCATION_ANY_STATUS,
	                                        .not_before_s = START_S - 5,
	                                        .reason = BYTES("breach")});
	assert_progress(&job, 2, 2, 2);
	assert_int_equal(row_i64(&job.progress, "unknown", 0), 1);
	assert_int_equal(not_before(&s, "user-00"), -5);
	assert_int_equal(not_before(&s, "user-01"), -1);
	assert_int_equal(not_before(&s, "stranger"), -5);
	job = ran(&s, &(struct mass_revocation){.users = ids, .user_count = 2, ALL_ACTIVE});
	assert_progress(&job, 2, 1, 1); /* a stranger is not active */
	service_close(&s);
}

TEST(mass_revocation, users_are_found_by_the_time_of_their_creation_and_by_their_provider)
{
	struct service s;
	struct call    c = {.create = {.id = BYTES("late")}};
	struct job     job;

	open_with(&s, 2);
	at(&s, 100);
	turn_take(&s, &c.turn, create);
	job = ran(&s, &(struct mass_revocation){.status = MASS_REVOCATION_ANY_STATUS,
	                                        .created_before_s = START_S + 100,
	                                        .reason = BYTES("breach")});
	assert_progress(&job, 3, 2, 2);
	assert_int_equal(not_before(&s, "late"), -1);
	job = ran(&s, &(struct mass_revocation){.status = MASS_REVOCATION_ANY_STATUS,
	                                        .provider = BYTES("pool"),
	                                        .reason = BYTES("x")});
	assert_progress(&job, 3, 0, 0);
	service_close(&s);
}

TEST(mass_revocation, of_nobody_in_particular_is_refused)
{
	struct service s;
	struct call    c = {.q = {.status = MASS_REVOCATION_ANY_STATUS, .reason = BYTES("x")}};

	open_with(&s, 0);
	assert_int_equal(turn_try(&s, &c.turn, start), ERR_INVALID);
	assert_string_equal(s.f.err.field, "users");
	service_close(&s);
}
