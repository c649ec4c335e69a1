/* Tokens: what token_judge.h promises, on the engine or the rough store. */
#include "test.h"

#include "service/people.h"

#include "service/lock.h"
#include "service/token_judge.h"

#define RULES                                                                                                \
	"locks: {STANDARD: {duration: 900}}\n"                                                               \
	"journeys:\n"                                                                                        \
	"  SIGN_IN: {types: {PASSWORD_ENTRY: {max: 3, life: 900}}}\n"                                        \
	"  AUTHENTICATION: {locks: [SIGN_IN]}\n"

struct judging {
	struct turn         turn;
	struct token_facts  facts;
	const struct check *check;
	struct checked      checked;
	struct token_judged out;
	struct revocation   revoke;
	struct revoked      row;
	struct lock_new     lock;
	struct verdict      locked;
	struct intervention intervention;
};

static enum err_code judge(struct turn *t, struct err *err)
{
	struct judging *j = (struct judging *)t;

	return j->check == NULL
	               ? token_judge(&t->ctx, &j->facts, t->s->rules, &j->out, err)
	               : token_judge_actions(&t->ctx, &j->facts,
	                                     &(struct token_actions){j->check, &j->checked}, &j->out, err);
}

static enum err_code revoke_in_turn(struct turn *t, struct err *err)
{
	struct judging *j = (struct judging *)t;

	return revocation_add(&t->ctx, &j->revoke, &j->row, err);
}

static enum err_code lock(struct turn *t, struct err *err)
{
	struct judging *j = (struct judging *)t;

	return lock_add(&t->ctx, &j->lock, &j->locked, err);
}

static enum err_code intervene(struct turn *t, struct err *err)
{
	struct judging            *j = (struct judging *)t;
	struct intervention_result ignored;

	return intervention_apply(&t->ctx, &j->intervention, &ignored, err);
}

/* A token that was issued so many seconds after the start. */
static struct token_judged judged(struct service *s, const char *subject, int64_t issued)
{
	struct judging j = {.facts = {.issuer = BYTES("https://i.example"),
	                              .jti = BYTES("j1"),
	                              .client = BYTES("web"),
	                              .subject = bytes_of(subject),
	                              .issued_s = START_S + issued}};

	turn_take(s, &j.turn, judge);
	return j.out;
}

static void expect(struct token_judged got, enum verdict_kind kind, const char *reason)
{
	assert_int_equal(got.verdict.kind, kind);
	if (reason != NULL)
		assert_string_equal(got.verdict.reason, reason);
}

static void becomes(struct service *s, const char *id, enum user_status status)
{
	struct call c = {.patch = {.id = bytes_of(id)}, .status = status};

	turn_take(s, &c.turn, become);
}

static void revokes(struct service *s, struct revocation q)
{
	struct judging j = {.revoke = q};

	turn_take(s, &j.turn, revoke_in_turn);
}

TEST(token_judge, a_subject_that_nobody_knows_is_fine)
{
	struct service s;

	service_open(&s, RULES);
	expect(judged(&s, "stranger", 0), VERDICT_ALLOW, NULL);
	assert_false(judged(&s, "stranger", 0).inactive);
	service_close(&s);
}

TEST(token_judge, an_account_that_is_not_active_comes_before_a_revocation)
{
	struct service      s;
	struct token_judged got;

	service_open(&s, RULES);
	made(&s, "ann");
	expect(judged(&s, "ann", 0), VERDICT_ALLOW, NULL);
	becomes(&s, "ann", USER_SUSPENDED);
	revokes(&s, (struct revocation){.kind = REVOKED_USER, .name = BYTES("ann")});
	got = judged(&s, "ann", -5);
	expect(got, VERDICT_BLOCKED, "user_suspended");
	assert_true(got.inactive);
	assert_int_equal(got.revoked.kind, REVOKED_USER);
	becomes(&s, "ann", USER_ACTIVE);
	got = judged(&s, "ann", -5);
	expect(got, VERDICT_INVALID_TOKEN, "revoked");
	assert_false(got.inactive);
	expect(judged(&s, "ann", 60), VERDICT_ALLOW, NULL);
	service_close(&s);
}

TEST(token_judge, each_kind_of_revocation_is_seen)
{
	struct revocation kinds[] = {
	        {.kind = REVOKED_TOKEN, .issuer = BYTES("https://i.example"), .name = BYTES("j1")},
	        {.kind = REVOKED_CLIENT, .name = BYTES("web")},
	        {.kind = REVOKED_ALL},
	};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct service      s;
		struct token_judged got;

		service_open(&s, RULES);
		revokes(&s, kinds[i]);
		got = judged(&s, "ann", -5);
		expect(got, VERDICT_INVALID_TOKEN, "revoked");
		assert_int_equal(got.revoked.kind, kinds[i].kind);
		service_close(&s);
	}
}

/* (3) */
TEST(token_judge, failures_of_strangers_void_no_token_unless_actions_are_asked_about)
{
	struct service s;
	struct judging j = {.facts = {.subject = BYTES("ann"), .issued_s = START_S}};
	struct check   check = {.action_count = 1};

	service_open(&s, RULES);
	FAIL_TIMES(&s, 3, .subject = "ann", .type = "PASSWORD_ENTRY");
	expect(judged(&s, "ann", 0), VERDICT_ALLOW, NULL);
	check.who.rules = s.rules;
	check.actions[0] =
	        rules_find(s.rules, BYTES("SIGN_IN"), BYTES("PASSWORD_ENTRY"), (struct bytes){NULL, 0});
	j.check = &check;
	turn_take(&s, &j.turn, judge);
	expect(j.out, VERDICT_LOCKED, "lock");
	assert_int_equal(j.out.wait.whole_seconds, 900);
	service_close(&s);
}

static void locks(struct service *s, const char *journey, const char *name, const char *by)
{
	struct judging j = {.lock = {.pk = BYTES("ann"),
	                             .journey = bytes_of(journey),
	                             .type = BYTES("LOCK"),
	                             .name = bytes_of(name),
	                             .kind = rules_kind(s->rules, BYTES("STANDARD")),
	                             .set_by = bytes_of(by)}};

	turn_take(s, &j.turn, lock);
}

TEST(token_judge, locks_that_people_set_count_in_every_journey_until_they_end)
{
	static const char *const journeys[][2] = {{"SIGN_IN", "PASSWORD_ENTRY"},
	                                          {"AUTHENTICATION", "SIGN_IN"}};

	for (int i = 0; i < 2; i++) {
		struct service s;

		service_open(&s, RULES);
		locks(&s, journeys[i][0], journeys[i][1], "help desk");
		expect(judged(&s, "ann", 0), VERDICT_LOCKED, "lock");
		expect(judged(&s, "bob", 0), VERDICT_ALLOW, NULL);
		at(&s, 900);
		expect(judged(&s, "ann", 0), VERDICT_ALLOW, NULL);
		service_close(&s);
	}
}

TEST(token_judge, interventions_bar_and_demands_are_told)
{
	struct service s;
	struct judging j = {.intervention = {.subject = BYTES("ann"), .applied_s = START_S}};

	service_open(&s, RULES);
	j.intervention.flags[INTERVENTION_RESET] = FLAG_ON;
	turn_take(&s, &j.turn, intervene);
	expect(judged(&s, "ann", 0), VERDICT_ALLOW, NULL);
	assert_int_equal(judged(&s, "ann", 0).required.count, 1);
	at(&s, 10);
	j.intervention.applied_s = START_S + 5;
	j.intervention.flags[INTERVENTION_BLOCKED] = FLAG_ON;
	turn_take(&s, &j.turn, intervene);
	expect(judged(&s, "ann", 0), VERDICT_BLOCKED, "intervention_blocked");
	service_close(&s);
}

/* (4) */
TEST(token_judge, a_subject_that_is_an_address_is_found_by_the_verified_address)
{
	struct service s;

	service_open(&s, NULL); /* codes are counted by the rules that ship */
	made(&s, "ann");
	owned(&s, "ann", "ann@example.org");
	expect(judged(&s, "Ann@Example.org", 0), VERDICT_ALLOW, NULL);
	becomes(&s, "ann", USER_SUSPENDED);
	expect(judged(&s, "Ann@Example.org", 0), VERDICT_BLOCKED, "user_suspended");
	becomes(&s, "ann", USER_ACTIVE);
	revokes(&s, (struct revocation){.kind = REVOKED_USER, .name = BYTES("ann")});
	expect(judged(&s, "Ann@Example.org", -5), VERDICT_INVALID_TOKEN, "revoked"); /* by its owner's id */
	service_close(&s);
}

TEST(token_judge, a_subject_that_nothing_can_be_stored_about_is_judged_by_the_rest)
{
	struct service s;
	char           text[1025];

	service_open(&s, RULES);
	memset(text, 'x', 1024);
	text[1024] = '\0';
	expect(judged(&s, text, 0), VERDICT_ALLOW, NULL);
	expect(judged(&s, "1234567890", 0), VERDICT_ALLOW, NULL);
	revokes(&s, (struct revocation){.kind = REVOKED_ALL});
	expect(judged(&s, text, -5), VERDICT_INVALID_TOKEN, "revoked");
	service_close(&s);
}
