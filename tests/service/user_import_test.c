/* Importing users: what user_import.h promises of lines that come at the same moment, on the rough store. tests/e2e/test_users_import.py has the rest. */
#include "service/scene.h"
#include "service/turn.h"

#include "service/user_import.h"

enum { RACERS = 6 };

static uint32_t rows_of_users(struct service *s)
{
	union answer r;

	memset(&r, 0, sizeof(r));
	return fixture_try(&s->f, "Scan", "{'TableName':'users'}", &r) == ERR_NONE ? r.query.count : 0;
}

static const struct import_email one = {.email = BYTES_INIT("one@example.org"), .verified = true};
static int                       outcomes[RACERS];

static enum err_code import(struct act *act, const struct user_import *q, struct err *err)
{
	struct user_imported out;
	enum err_code        rc = user_import(&act->ctx, q, &out, err);

	outcomes[act->n] = rc == ERR_NONE ? (int)out.outcome : IMPORT_REFUSED;
	if (user_import_refuses(rc))
		return ERR_NONE;
	return rc != ERR_NONE ? rc : commit(act, err);
}

static enum err_code race_address(struct act *act, struct err *err)
{
	struct user_import q = {.id = arena_printf(act->ctx.arena, "user%d", act->n),
	                        .run = BYTES("r"),
	                        .line = act->n + 1,
	                        .emails = &one,
	                        .email_count = 1};

	return import(act, &q, err);
}

/* A call whose answer was lost is under way twice. */
static enum err_code race_line(struct act *act, struct err *err)
{
	struct user_import q = {
	        .id = BYTES("ann"), .run = BYTES("r"), .line = 7, .emails = &one, .email_count = 1};

	return import(act, &q, err);
}

/* … and one of them claims the address instead. */
static enum err_code race_claim(struct act *act, struct err *err)
{
	struct user_new     q = {.id = arena_printf(act->ctx.arena, "user%d", act->n), .email = one.email};
	struct user_created r;
	enum err_code       rc;

	if (act->n == 0)
		return race_address(act, err);
	rc = user_create(&act->ctx, &q, &r, err);
	if (rc == ERR_EMAIL_TAKEN)
		return ERR_NONE;
	return rc != ERR_NONE ? rc : commit(act, err);
}

static int outcome_count(enum import_outcome wanted)
{
	int count = 0;

	for (int i = 0; i < RACERS; i++)
		count += outcomes[i] == (int)wanted;
	return count;
}

static void race(struct scene *x, enum err_code (*run)(struct act *, struct err *))
{
	struct act acts[RACERS] = {0};

	for (int i = 0; i < RACERS; i++) {
		acts[i].run = run;
		acts[i].n = i;
	}
	play_together(x, acts, RACERS);
}

/* (1), (4) */
TEST(user_import, of_many_lines_at_once_one_gets_the_address_and_the_others_leave_nothing)
{
	for (uint64_t seed = 1; seed <= 2; seed++) {
		struct scene x;

		scene_open(&x, seed, false);
		race(&x, race_address);
		assert_int_equal(outcome_count(IMPORT_CREATED), 1);
		assert_int_equal(outcome_count(IMPORT_REFUSED), RACERS - 1);
		assert_int_equal(rows_of_users(&x.s), 4); /* with the marker, and whose its alias is */
		scene_close(&x);
	}
}

/* (2) */
TEST(user_import, a_line_that_is_sent_many_times_at_once_is_answered_the_same)
{
	for (uint64_t seed = 1; seed <= 2; seed++) {
		struct scene x;

		scene_open(&x, seed, false);
		race(&x, race_line);
		assert_int_equal(outcome_count(IMPORT_CREATED), RACERS);
		assert_int_equal(rows_of_users(&x.s), 4);
		scene_close(&x);
	}
}

/* (4) Under `added`. */
TEST(user_import, a_verified_address_wins_against_claims_that_come_at_the_same_moment)
{
	for (uint64_t seed = 1; seed <= 2; seed++) {
		struct scene x;
		union answer r;

		scene_open(&x, seed, false);
		race(&x, race_claim);
		assert_int_equal(outcomes[0], IMPORT_CREATED);
		r = fixture_ok(&x.s.f, "GetItem",
		               "{'TableName':'users','Key':{'PK':{'S':'EMAIL#one@example.org'},'SK':{'S':'"
		               "MARKER'}}}");
		assert_true(bytes_is(row_text(&r.get.item, "userId"), "user0"));
		assert_int_equal(row_i64(&r.get.item, "ttl", 0), 0);
		scene_close(&x);
	}
}
