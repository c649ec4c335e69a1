/* Failures in a row and locks that grow: many guesses at once, and policies that change. Numbers are of streak.h. */
#include "service/begun.h"
#include "service/scene.h"

#include "service/heed.h"
#include "service/lock.h"

#define LOCK_OF_STREAK "SIGN_IN#LOCK#TOO_MANY"

static bool is_for_good(const struct attempt_result *r)
{
	return r->verdict.kind == VERDICT_LOCKED_PERMANENT &&
	       strcmp(r->verdict.reason, "too_many_failures") == 0;
}

static enum err_code unlock_run(struct turn *turn, struct err *err)
{
	bool held;

	return lock_clear(&turn->ctx, BYTES("alice"), BYTES(LOCK_OF_STREAK), &held, err);
}

/* ---- many at once ---- */

enum { GUESSES = 64, FULL = 100, HAVE = 95 };

#define HUNDRED                                                                                              \
	"locks: {STANDARD: {duration: 900}, PERMANENT: {permanent: true}}\n"                                 \
	"journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: 1000, life: 900, lapse: 40}}}}\n"                \
	"consecutive: {max: 100, sets: SIGN_IN/TOO_MANY, of: [SIGN_IN/PASSWORD_ENTRY]}\n"

struct guess {
	struct act            act;
	struct attempt        q;
	bool                  begins;
	struct bytes          name;
	struct attempt_result r;
	struct begin_result   begun;
};

static enum err_code guess_run(struct act *act, struct err *err)
{
	struct guess *g = (struct guess *)act;

	if (g->begins) {
		if (attempt_begin(&act->ctx, &g->q, g->name, &g->begun, err) != ERR_NONE)
			return err->code;
	} else if (attempt_record(&act->ctx, &g->q, OUTCOME_FAILURE, &g->r, err) != ERR_NONE) {
		return err->code;
	}
	return commit(act, err);
}

static void streak_is(struct service *s, int failures)
{
	FAIL(s, .subject = "bob"); /* makes the table */
	row_put(s, arena_printf(&s->f.arena,
	                        "{'PK':{'S':'alice'},'SK':{'S':'" LOCK_OF_STREAK
	                        "'},'count':{'N':'0'},'ttl':{'N':'%d'},"
	                        "'failures':{'M':{'SIGN_IN/PASSWORD_ENTRY':{'N':'%d'}}}}%c",
	                        START_S + 1000, failures, '\0')
	                   .data);
}

/* Each under one of two ids, at once or in two steps. */
static bool of_64_at_95_exactly_5_are_counted(uint64_t seed, bool blind)
{
	struct scene  x;
	struct guess *all;
	struct item   row;
	int           counted = 0;
	bool          holds;

	scene_open_with(&x, HUNDRED, seed);
	streak_is(&x.s, HAVE);
	x.rough->blind = blind;
	all = arena_zalloc(&x.s.f.arena, GUESSES * sizeof(*all));
	rough_hold(x.rough);
	for (int i = 0; i < GUESSES; i++) {
		struct turn_request *w = &all[i].act.base;

		all[i].q = attempt_of(&x.s, &(struct try){.pairwise = "pair"});
		all[i].begins = i % 2 == 1;
		all[i].name = arena_printf(&x.s.f.arena, "begun-%d", i);
		all[i].act.run = guess_run;
		all[i].act.x = &x;
		*w = (struct turn_request){.run = act_run_again, .done = act_done};
		assert_int_equal(rough_submit(&x.rough->base, w, &x.s.f.err), ERR_NONE);
	}
	rough_release(x.rough);
	rough_finish(x.rough);
	for (int i = 0; i < GUESSES; i++) {
		assert_int_equal(all[i].act.base.rc, ERR_NONE);
		counted += all[i].begins ? all[i].begun.reserved : all[i].r.counted;
	}
	holds = counted == FULL - HAVE && count_in(&x.s, "pair", LOCK_OF_STREAK) == 1 &&
	        row_find(&x.s, BYTES("alice"), BYTES(LOCK_OF_STREAK), &row) && row_i64(&row, "count", 0) == 1;
	scene_close(&x);
	return holds;
}

TEST(streak_races, of_64_guesses_at_95_of_100_exactly_5_are_counted_and_then_it_is_locked)
{
	scene_show(of_64_at_95_exactly_5_are_counted, 3, 4);
}

/* ---- policies ---- */

#define WITHOUT_STREAK                                                                                       \
	"locks: {STANDARD: {duration: 900}, PERMANENT: {permanent: true}}\n"                                 \
	"journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: 1000, life: 900, lapse: 40}}}}\n"

/* As the policy store puts them into force. */
static void policies_change(struct service *s, const char *yaml)
{
	struct rules *was = s->rules;

	s->rules = NULL;
	service_rules(s, yaml);
	heeds_inherit(&s->rules->base, &was->base, START_S);
	document_release(&was->base);
}

TEST(streak_policies, its_lock_outlives_policies_without_it_and_a_higher_maximum)
{
	static const char *const later[] = {
	        WITHOUT_STREAK,
	        WITHOUT_STREAK
	        "consecutive: {max: 200, sets: SIGN_IN/TOO_MANY, of: [SIGN_IN/PASSWORD_ENTRY]}\n",
	        WITHOUT_STREAK
	        "consecutive: {max: 100, sets: SIGN_IN/OTHER_NAME, of: [SIGN_IN/PASSWORD_ENTRY]}\n"};

	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		struct service        s;
		struct attempt_result r;
		struct step           step;
		struct turn           turn = {0};

		service_open(&s, HUNDRED);
		streak_is(&s, FULL - 1);
		r = FAIL(&s);
		assert_true(is_for_good(&r));
		policies_change(&s, later[i]);
		r = SUCCEED(&s);
		assert_true(is_for_good(&r));
		assert_false(FAIL(&s).counted);
		step = BEGIN(&s);
		assert_false(step.begun.reserved);
		turn_take(&s, &turn, unlock_run);
		assert_int_equal(SUCCEED(&s).verdict.kind, VERDICT_ALLOW);
		service_close(&s);
	}
}

/* reservation.h, (3): what begin set is taken back under whatever policies there are by then. */
TEST(streak_policies, a_right_password_takes_its_lock_back_though_the_policies_changed_meanwhile)
{
	static const char *const later[] = {
	        WITHOUT_STREAK, WITHOUT_STREAK
	        "consecutive: {max: 100, sets: SIGN_IN/OTHER_NAME, of: [SIGN_IN/PASSWORD_ENTRY]}\n"};

	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		struct service s;
		struct step    step;

		service_open(&s, HUNDRED);
		streak_is(&s, FULL - 1);
		step = BEGIN(&s);
		assert_true(step.begun.locked);
		policies_change(&s, later[i]);
		assert_int_equal(finish(&s, &step, OUTCOME_SUCCESS).verdict.kind, VERDICT_ALLOW);
		assert_int_equal(count_in(&s, "alice", LOCK_OF_STREAK), 0);
		assert_int_equal(SUCCEED(&s).verdict.kind, VERDICT_ALLOW);
		service_close(&s);
	}
}

/* ---- locks that grow, and shadow mode ---- */

#define GROWING(shadow)                                                                                      \
	"locks: {STANDARD: {duration: 100, factor: 2, cap: 7200}}\n"                                         \
	"journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: 2, life: 7200, lapse: 40" shadow "}}}}\n"

TEST(growth, in_shadow_mode_nothing_grows_and_what_grew_before_is_kept_for_when_it_comes_back)
{
	struct service        s;
	struct attempt_result r;
	int64_t               now = 0;

	service_open(&s, GROWING(""));
	r = FAIL_TIMES(&s, 2);
	assert_int_equal(r.verdict.until_s, START_S + 100);
	policies_change(&s, GROWING(", shadow: true"));
	for (int i = 0; i < 3; i++) {
		at(&s, now += 100);
		r = FAIL_TIMES(&s, 2);
		assert_int_equal(r.verdict.kind, VERDICT_ALLOW);
		assert_int_equal(r.shadow.until_s, START_S + now + 100);
	}
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY"), 1);
	policies_change(&s, GROWING(""));
	at(&s, now += 100);
	r = FAIL_TIMES(&s, 2);
	assert_int_equal(r.verdict.until_s, START_S + now + 200); /* the second that held */
	service_close(&s);
}

TEST(growth, a_begin_that_was_right_grows_nothing_in_shadow_mode_or_not)
{
	for (int shadow = 0; shadow < 2; shadow++) {
		struct service s;
		struct step    step;

		service_open(&s, shadow == 1 ? GROWING(", shadow: true") : GROWING(""));
		FAIL(&s);
		step = BEGIN(&s);
		assert_int_equal(count_in(&s, "alice", "SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY"), 1 - shadow);
		finish(&s, &step, OUTCOME_SUCCESS);
		assert_int_equal(count_in(&s, "alice", "SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY"), 0);
		service_close(&s);
	}
}
