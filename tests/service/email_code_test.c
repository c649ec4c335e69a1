/* Codes and claims: what email_code.h promises about counting, and user_email.h about claims with and without markers, on the
 * engine or the rough store; and races on the rough store. */
#include "service/scene.h"
#include "service/people.h"

#include "service/event.h"

#define MAILBOX_LOCK "EMAIL_VERIFICATION#LOCK#CODE_REQUEST"
#define ASKED        "EMAIL_VERIFICATION#REQUEST_COUNT#USER_CODE_REQUEST"
#define MAILED       "EMAIL_VERIFICATION#REQUEST_COUNT#CODE_REQUEST"
#define ENTERED      "EMAIL_VERIFICATION#ERROR_COUNT#CODE_ENTRY"

static const char *mailbox_of(struct service *s, const char *email)
{
	return arena_printf(&s->f.arena, "%.*s", BYTES_ARG(hashed(s, IDENTIFIER_EMAIL, email))).data;
}

static struct email_claim asked(struct service *s, const char *id, const char *email,
                                const struct email_terms *terms)
{
	struct call c = {.patch = {.id = bytes_of(id)}, .email = bytes_of(email), .terms = terms};

	turn_take(s, &c.turn, add);
	return c.claim;
}

/* Every row of users and auth-state, as a number that changes if one of them does. */
static uint64_t everything(struct service *s)
{
	static const char *const scans[] = {"{'TableName':'users'}", "{'TableName':'auth-state'}"};
	uint64_t                 sum = 0;

	for (int t = 0; t < 2; t++) {
		union answer r;

		memset(&r, 0, sizeof(r));
		if (fixture_try(&s->f, "Scan", scans[t], &r) != ERR_NONE)
			continue;
		for (uint32_t i = 0; i < r.query.count; i++) {
			uint64_t one = 1;

			if (bytes_is(row_text(&r.query.items[i], "SK"), CHANGES_VERSION_KEY))
				continue;
			for (uint32_t n = 0; n < r.query.items[i].count; n++) {
				const struct value *v = &r.query.items[i].members[n].value;
				struct bytes        text = v->type == VALUE_S ? v->text : BYTES("");
				int64_t             number = 0;

				if (v->type == VALUE_N)
					number_to_i64(&v->number, &number);
				one = one * 31 + (uint64_t)number + (v->type == VALUE_BOOL && v->truth);
				for (size_t c = 0; c < text.len; c++)
					one = one * 31 + (uint8_t)text.data[c];
			}
			sum += one;
		}
	}
	return sum;
}

/* ---- counting ---- */

TEST(email_codes, one_mailbox_gets_five_codes_whoever_asks_1_2)
{
	struct service     s;
	struct email_claim claim;
	uint64_t           before;

	service_open(&s, NULL);
	s.all.claims_verified = true;
	for (int i = 0; i < 7; i++)
		made(&s, arena_printf(&s.f.arena, "u%d", i).data);
	for (int i = 0; i < 5; i++) {
		claim = asked(&s, arena_printf(&s.f.arena, "u%d", i).data, "x@example.org", NULL);
		assert_false(claim.standing.refused);
	}
	assert_int_equal(count_in(&s, mailbox_of(&s, "x@example.org"), MAILED), 5);
	claim = asked(&s, "u5", "x@example.org", NULL); /* (2) the sixth sets the lock */
	assert_true(claim.standing.refused);
	assert_int_equal(claim.standing.verdict.kind, VERDICT_LOCKED);
	assert_int_equal(claim.code.len, 0);
	assert_int_equal(emails_of(&s, "u5").count, 0);
	assert_int_equal(ttl_in(&s, mailbox_of(&s, "x@example.org"), MAILBOX_LOCK), 900);
	before = everything(&s);
	claim = asked(&s, "u6", "x@example.org", NULL); /* (1) the seventh changes nothing */
	assert_true(claim.standing.refused);
	assert_int_equal(count_in(&s, "u6", ASKED), 0);
	claim = asked(&s, "u0", "x@example.org", NULL); /* nor does another code for one that is there */
	assert_true(claim.standing.refused);
	assert_true(everything(&s) == before);
	asked(&s, "u6", "y@example.org", NULL); /* other mailboxes are not locked */
	at(&s, 900);
	assert_false(asked(&s, "u6", "x@example.org", NULL).standing.refused);
	service_close(&s);
}

TEST(email_codes, one_user_asks_for_29_codes_wherever_they_go_and_whatever_it_proves)
{
	struct service     s;
	struct email_claim claim;
	uint64_t           before;

	service_open(&s, NULL);
	made(&s, "ann");
	owned(&s, "ann", "own@example.org"); /* its success gives no new budget */
	for (int i = 1; i < 29; i++)
		assert_false(asked(&s, "ann", arena_printf(&s.f.arena, "m%d@example.org", i / 4).data, NULL)
		                     .standing.refused);
	assert_int_equal(count_in(&s, "ann", ASKED), 29);
	claim = asked(&s, "ann", "more@example.org", NULL);
	assert_true(claim.standing.refused && claim.standing.verdict.kind == VERDICT_LOCKED);
	assert_int_equal(count_in(&s, mailbox_of(&s, "more@example.org"), MAILED), 0); /* nothing was sent */
	before = everything(&s);
	assert_true(asked(&s, "ann", "more@example.org", NULL).standing.refused);
	assert_true(everything(&s) == before);
	made(&s, "bob");
	assert_false(asked(&s, "bob", "more@example.org", NULL).standing.refused);
	at(&s, 900);
	assert_false(asked(&s, "ann", "m1@example.org", NULL).standing.refused);
	service_close(&s);
}

TEST(email_codes, a_new_code_gives_no_new_guesses_3)
{
	struct service       s;
	struct email_claim   claim;
	struct email_verdict v;
	uint64_t             before;

	service_open(&s, NULL);
	made(&s, "ann");
	claim = added(&s, "ann", "x@example.org");
	for (int i = 0; i < 9; i++) {
		if (i == 5)
			claim = added(&s, "ann", "x@example.org");
		v = entered(&s, "ann", claim.email.id, BYTES("UUUUUUUU"));
		assert_int_equal(v.outcome, ENTRY_WRONG);
		assert_int_equal(v.standing.verdict.kind, VERDICT_ALLOW);
	}
	assert_int_equal(count_in(&s, "ann", ENTERED), 9);
	claim = added(&s, "ann", "x@example.org");
	v = entered(&s, "ann", claim.email.id, BYTES("UUUUUUUU")); /* the tenth sets the lock, and is told */
	assert_false(v.standing.refused);
	assert_int_equal(v.outcome, ENTRY_WRONG);
	assert_int_equal(v.standing.verdict.kind, VERDICT_LOCKED);
	before = everything(&s);
	v = entered(&s, "ann", claim.email.id, code_of(&claim)); /* now even the right one is not looked at */
	assert_true(v.standing.refused);
	v = entered(&s, "ann", claim.email.id, BYTES("UUUUUUUU"));
	assert_true(v.standing.refused);
	assert_true(everything(&s) == before);
	at(&s, 900);
	claim = added(&s, "ann", "x@example.org");
	assert_int_equal(entered(&s, "ann", claim.email.id, code_of(&claim)).outcome, ENTRY_RIGHT);
	service_close(&s);
}

TEST(email_codes, an_entry_without_a_code_counts_and_one_for_a_proved_address_does_not)
{
	struct service     s;
	struct email_claim claim;

	service_open(&s, NULL);
	made(&s, "ann");
	claim = added(&s, "ann", "x@example.org");
	at(&s, EMAIL_CODE_S);
	assert_int_equal(entered(&s, "ann", claim.email.id, code_of(&claim)).outcome, ENTRY_NO_CODE);
	assert_int_equal(count_in(&s, "ann", ENTERED), 1);
	owned(&s, "ann", "x@example.org");
	assert_int_equal(count_in(&s, "ann", ENTERED), 0);
	assert_int_equal(entered(&s, "ann", claim.email.id, code_of(&claim)).outcome, ENTRY_NO_CODE);
	assert_int_equal(count_in(&s, "ann", ENTERED), 0);
	service_close(&s);
}

/* The terms of a call that says where it comes from. */
static const struct email_terms *terms_from(struct service *s, const char *ip)
{
	struct email_terms *terms = arena_zalloc(&s->f.arena, sizeof(*terms));
	struct attempt     *from = arena_zalloc(&s->f.arena, sizeof(*from));

	*from = attempt_of(s, &(struct try){.ip = ip});
	*terms = *terms_of(s);
	terms->from = from;
	return terms;
}

static struct email_verdict entered_from(struct service *s, const char *id, struct bytes email_id,
                                         const char *ip)
{
	struct call c = {.entry = {bytes_of(id), email_id, BYTES("UUUUUUUU"), terms_from(s, ip)}};

	turn_take(s, &c.turn, verify);
	return c.verdict;
}

/* As shipped, 50 of a source and 10 of a user. (4) */
TEST(email_codes, one_source_enters_50_codes_whosever_they_are_4)
{
	struct service     s;
	struct email_claim claims[6];
	const char        *users[6];
	int                refused = 0;

	service_open(&s, NULL);
	for (int i = 0; i < 6; i++) {
		users[i] = arena_printf(&s.f.arena, "user-%d%c", i, '\0').data;
		made(&s, users[i]);
		claims[i] = added(&s, users[i], arena_printf(&s.f.arena, "%d@example.org%c", i, '\0').data);
	}
	for (int i = 0; i < 54; i++)
		refused +=
		        entered_from(&s, users[i % 6], claims[i % 6].email.id, "192.0.2.1").standing.refused;
	assert_int_equal(refused, 4);
	assert_false(entered_from(&s, users[5], claims[5].email.id, "192.0.2.2").standing.refused);
	assert_int_equal(entered(&s, users[0], claims[0].email.id, BYTES("UUUUUUUU")).standing.refused,
	                 false);
	service_close(&s);
}

/* (4) */
TEST(email_codes, one_source_asks_for_100_codes_whosever_they_are_4)
{
	struct service            s;
	const struct email_terms *terms;
	int                       refused = 0;

	service_open(&s, NULL);
	terms = terms_from(&s, "192.0.2.1");
	for (int i = 0; i < 104; i++) {
		const char *user = arena_printf(&s.f.arena, "user-%d%c", i, '\0').data;

		made(&s, user);
		refused += asked(&s, user, arena_printf(&s.f.arena, "%d@example.org%c", i, '\0').data, terms)
		                   .standing.refused;
	}
	assert_int_equal(refused, 5); /* the one that reaches the maximum gets no code (2) */
	service_close(&s);
}

TEST(email_codes, a_proof_clears_what_the_rules_say)
{
	struct service     s;
	struct email_claim claim;

	service_open(&s, NULL);
	made(&s, "ann");
	added(&s, "ann", "x@example.org");
	claim = added(&s, "ann", "x@example.org");
	entered(&s, "ann", claim.email.id, BYTES("UUUUUUUU"));
	assert_int_equal(count_in(&s, mailbox_of(&s, "x@example.org"), MAILED), 2);
	assert_int_equal(entered(&s, "ann", claim.email.id, code_of(&claim)).outcome, ENTRY_RIGHT);
	assert_int_equal(count_in(&s, mailbox_of(&s, "x@example.org"), MAILED), 0);
	assert_int_equal(count_in(&s, "ann", ENTERED), 0);
	assert_int_equal(count_in(&s, "ann", ASKED), 2);
	service_close(&s);
}

TEST(email_codes, a_request_that_is_refused_makes_no_user_1)
{
	struct service s;
	struct call    c = {.create = {.id = BYTES("ann"), .email = BYTES("x@example.org")}};

	service_open(&s, NULL);
	SENT_TIMES(&s, 6, .subject = mailbox_of(&s, "x@example.org"), .journey = "EMAIL_VERIFICATION",
	           .type = "CODE_REQUEST"); /* by others, through /v1/attempts: it is the same mailbox */
	turn_take(&s, &c.turn, create);
	assert_true(c.created.claim.standing.refused);
	c.patch.id = BYTES("ann");
	assert_int_equal(turn_try(&s, &c.turn, get), ERR_NOT_FOUND);
	assert_int_equal(rows_of_kind(&s, "MARKER"), 0);
	service_close(&s);
}

TEST(email_codes, what_cannot_be_counted_is_not_given)
{
	static const char *const rules[] = {
	        "locks: {STANDARD: {duration: 900}}\njourneys: {SIGN_IN: {types: {A: {max: 6, life: 900}}}}",
	        "locks: {STANDARD: {duration: 900}}\njourneys: {EMAIL_VERIFICATION: {types: "
	        "{USER_CODE_REQUEST: "
	        "{max: 6, life: 900}, CODE_REQUEST: {counts: sent, max: 6, life: 900}}}}",
	        "locks: {STANDARD: {duration: 900}}\njourneys: {EMAIL_VERIFICATION: {types: "
	        "{USER_CODE_REQUEST: "
	        "{counts: sent, max_from_source: 6, life: 900}, CODE_REQUEST: {counts: sent, max: 6, life: "
	        "900}}}}"};
	struct email_claim claim;

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		struct service s;

		service_open(&s, rules[i]);
		made(&s, "ann");
		assert_int_equal(try_add(&s, "ann", "x@example.org", &claim), ERR_NOT_NOW);
		assert_int_equal(rows_of_kind(&s, "MARKER"), 0);
		service_close(&s);
	}
}

/* ---- claims without markers ---- */

TEST(email_claims, under_verified_a_claim_takes_nothing_and_the_first_proof_wins_1)
{
	struct service       s;
	struct email_claim   ann, bob, late;
	struct email_verdict v;

	service_open(&s, NULL);
	s.all.claims_verified = true;
	made(&s, "ann");
	made(&s, "bob");
	made(&s, "eve");
	ann = added(&s, "ann", "x@example.org");
	bob = added(&s, "bob", "x@example.org");
	assert_false(bob.hidden);
	assert_int_equal(rows_of_kind(&s, "MARKER"), 0);
	assert_int_equal(indexed(&s, "x@example.org"), 0);
	assert_int_equal(entered(&s, "bob", bob.email.id, code_of(&bob)).outcome, ENTRY_RIGHT);
	assert_int_equal(indexed(&s, "x@example.org"), 2);
	v = entered(&s, "ann", ann.email.id, code_of(&ann));
	assert_int_equal(v.outcome, ENTRY_LOST);
	assert_int_equal(emails_of(&s, "ann").count, 0); /* its claim is of no use any more */
	assert_int_equal(try_add(&s, "ann", "x@example.org", &late), ERR_EMAIL_TAKEN);
	assert_int_equal(try_add(&s, "eve", "x@example.org", &late), ERR_EMAIL_TAKEN);
	assert_int_equal(rows_of_kind(&s, "MARKER"), 1);
	service_close(&s);
}

TEST(email_claims, under_verified_another_code_is_for_the_claim_that_is_there_and_ends_with_it_3)
{
	struct service     s;
	struct email_claim claim;

	service_open(&s, NULL);
	s.all.claims_verified = true;
	made(&s, "ann");
	added(&s, "ann", "x@example.org");
	at(&s, EMAIL_CLAIM_S - 10);
	claim = added(&s, "ann", "x@example.org");
	assert_true(claim.again);
	assert_int_equal(claim.code_expires_s, START_S + EMAIL_CLAIM_S);
	assert_int_equal(emails_of(&s, "ann").count, 1);
	at(&s, EMAIL_CLAIM_S);
	assert_int_equal(emails_of(&s, "ann").count, 0);
	service_close(&s);
}

TEST(email_claims, from_added_to_verified_a_proof_takes_the_place_of_an_old_claim_6)
{
	struct service     s;
	struct email_claim ann, bob, claim;
	struct call        c = {.email = BYTES("x@example.org")};

	service_open(&s, NULL);
	made(&s, "ann");
	made(&s, "bob");
	made(&s, "eve");
	ann = added(&s, "ann", "x@example.org");
	owned(&s, "eve", "eve@example.org");
	s.all.claims_verified = true;
	bob = added(&s, "bob", "x@example.org"); /* an old claim stops nobody */
	assert_int_equal(try_add(&s, "bob", "eve@example.org", &claim), ERR_EMAIL_TAKEN); /* a proof does */
	assert_int_equal(entered(&s, "bob", bob.email.id, code_of(&bob)).outcome, ENTRY_RIGHT);
	assert_int_equal(rows_of_kind(&s, "MARKER"), 2);
	assert_int_equal(indexed(&s, "x@example.org"), 2); /* bob's address and profile: ann's row is gone */
	assert_int_equal(emails_of(&s, "ann").count, 0);
	c.entry = (struct email_entry){BYTES("ann"), ann.email.id, code_of(&ann), NULL};
	assert_int_equal(turn_try(&s, &c.turn, verify), ERR_NOT_FOUND);
	turn_take(&s, &c.turn, lookup);
	assert_true(bytes_is(c.found.user.id, "bob") && c.found.verified);
	service_close(&s);
}

TEST(email_claims, from_added_to_verified_an_old_claim_can_still_be_proved_6)
{
	struct service     s;
	struct email_claim ann, bob;

	service_open(&s, NULL);
	made(&s, "ann");
	made(&s, "bob");
	ann = added(&s, "ann", "x@example.org");
	s.all.claims_verified = true;
	bob = added(&s, "bob", "x@example.org");
	assert_int_equal(entered(&s, "ann", ann.email.id, code_of(&ann)).outcome, ENTRY_RIGHT);
	assert_int_equal(entered(&s, "bob", bob.email.id, code_of(&bob)).outcome, ENTRY_LOST);
	assert_int_equal(rows_of_kind(&s, "MARKER"), 1);
	service_close(&s);
}

TEST(email_claims, from_verified_to_added_the_first_to_add_or_prove_has_it_6)
{
	struct service     s;
	struct email_claim ann, bob, eve, claim;

	service_open(&s, NULL);
	s.all.claims_verified = true;
	made(&s, "ann");
	made(&s, "bob");
	made(&s, "eve");
	ann = added(&s, "ann", "x@example.org");
	eve = added(&s, "eve", "y@example.org");
	added(&s, "eve", "z@example.org");
	s.all.claims_verified = false;
	bob = added(&s, "bob", "x@example.org"); /* takes it: an old claim without a marker holds nothing */
	assert_int_equal(indexed(&s, "x@example.org"), 1);
	assert_int_equal(entered(&s, "ann", ann.email.id, code_of(&ann)).outcome, ENTRY_LOST);
	assert_int_equal(entered(&s, "bob", bob.email.id, code_of(&bob)).outcome, ENTRY_RIGHT);
	assert_int_equal(entered(&s, "eve", eve.email.id, code_of(&eve)).outcome,
	                 ENTRY_RIGHT);             /* it was free */
	claim = added(&s, "eve", "z@example.org"); /* asking again takes it */
	assert_true(claim.again);
	assert_int_equal(indexed(&s, "z@example.org"), 1);
	assert_int_equal(try_add(&s, "ann", "z@example.org", &claim), ERR_EMAIL_TAKEN);
	assert_int_equal(rows_of_kind(&s, "MARKER"), 3);
	service_close(&s);
}

/* ---- callers who must not learn whether an address is taken ---- */

static const struct email_terms *neutral_terms(struct service *s)
{
	struct email_terms *terms = arena_zalloc(&s->f.arena, sizeof(*terms));

	*terms = *terms_of(s);
	terms->neutral = true;
	return terms;
}

TEST(email_claims, a_neutral_claim_is_the_same_whether_or_not_the_address_is_taken)
{
	struct service     s;
	struct email_claim taken, claimed, empty, again;

	service_open(&s, NULL);
	made(&s, "ann");
	made(&s, "eve");
	owned(&s, "ann", "taken@example.org");
	added(&s, "ann", "claimed@example.org");
	taken = asked(&s, "eve", "taken@example.org", neutral_terms(&s));
	claimed = asked(&s, "eve", "claimed@example.org", neutral_terms(&s));
	empty = asked(&s, "eve", "empty@example.org", neutral_terms(&s));
	assert_true(taken.hidden && claimed.hidden && !empty.hidden);
	assert_true(bytes_is(taken.owner, "ann"));
	assert_int_equal(claimed.owner.len, 0); /* nobody has proved that it is his */
	assert_int_equal(taken.email.row.count, empty.email.row.count);
	assert_int_equal(rows_of_kind(&s, "MARKER"), 2);
	assert_int_equal(emails_of(&s, "eve").count, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(entered(&s, "eve",
		                         i == 0   ? taken.email.id
		                         : i == 1 ? claimed.email.id
		                                  : empty.email.id,
		                         BYTES("UUUUUUUU"))
		                         .tries_left,
		                 EMAIL_CODE_TRIES_MAX - 1);
	again = asked(&s, "eve", "taken@example.org", neutral_terms(&s));
	assert_true(again.again && again.hidden);
	assert_int_equal(entered(&s, "eve", empty.email.id, code_of(&empty)).outcome, ENTRY_RIGHT);
	service_close(&s);
}

/* ---- races, each with several seeds, and as a control without conditions ---- */

enum { PROVERS = 32, SEEDS = 4, CONTROL_SEEDS = 8 };

struct prover {
	struct act               act;
	struct email_entry       q;
	enum email_entry_outcome outcome;
};

static enum err_code race_verify(struct act *act, struct err *err)
{
	struct prover       *p = (struct prover *)act;
	struct email_verdict v;

	if (user_email_verify(&act->ctx, &p->q, &v, err) != ERR_NONE)
		return err->code;
	p->outcome = v.outcome;
	return commit(act, err);
}

static bool provers_of_one_address(uint64_t seed, bool blind)
{
	static const struct email_terms *const uncounted = NULL; /* one mailbox gets five codes */
	struct prover                          provers[PROVERS] = {0};
	struct scene                           x;
	int                                    won = 0, lost = 0;
	bool                                   holds;

	scene_open(&x, seed, false);
	x.s.all.claims_verified = true;
	service_rules(&x.s, "locks: {STANDARD: {duration: 900}}\njourneys: {EMAIL_VERIFICATION: {types: "
	                    "{USER_CODE_REQUEST: {counts: sent, max: 99, life: 900}, CODE_REQUEST: {counts: "
	                    "sent, max: 99, life: 900}, CODE_ENTRY: {max: 10, life: 900}}}}");
	for (int i = 0; i < PROVERS; i++) {
		const char        *user = arena_printf(&x.s.f.arena, "user-%d", i).data;
		struct email_claim claim;

		made(&x.s, user);
		claim = added(&x.s, user, "x@example.org");
		provers[i].q = (struct email_entry){bytes_of(user), claim.email.id,
		                                    arena_copy(&x.s.f.arena, code_of(&claim)), uncounted};
		provers[i].act.run = race_verify;
	}
	x.rough->blind = blind;
	rough_hold(x.rough);
	for (int i = 0; i < PROVERS; i++) {
		provers[i].act.base = (struct turn_request){.run = act_run_again, .done = act_done};
		provers[i].act.x = &x;
		assert_int_equal(rough_submit(&x.rough->base, &provers[i].act.base, &x.s.f.err), ERR_NONE);
	}
	rough_release(x.rough);
	rough_finish(x.rough);
	for (int i = 0; i < PROVERS; i++) {
		if (provers[i].act.base.rc != ERR_NONE)
			fail_msg("seed %lu: %s", seed, provers[i].act.base.err.text);
		won += provers[i].outcome == ENTRY_RIGHT;
		lost += provers[i].outcome == ENTRY_LOST;
	}
	holds = won == 1 && lost == PROVERS - 1 && rows_of_kind(&x.s, "EMAIL#") == 1 &&
	        rows_of_kind(&x.s, "MARKER") == 1;
	scene_close(&x);
	return holds;
}

TEST(email_races, of_32_who_prove_one_address_at_once_one_wins)
{
	bool lost = false;

	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		if (!provers_of_one_address(seed, false))
			fail_msg("lost with seed %lu", seed);
	for (uint64_t seed = 1; seed <= CONTROL_SEEDS && !lost; seed++)
		lost = !provers_of_one_address(seed, true);
	assert_true(lost);
}

/* ---- policies ---- */

static enum err_code parsed(const char *yaml, struct user_policy **out, struct err *err)
{
	struct arena     a;
	struct json     *tree;
	struct document *d = NULL;
	enum err_code    rc;

	arena_init(&a);
	rc = yaml_read(&a, bytes_of(yaml), &tree, err);
	if (rc == ERR_NONE)
		rc = user_policy_parse(tree, &d, err);
	*out = (struct user_policy *)d;
	arena_release(&a);
	return rc;
}

TEST(user_policies, each_setting_has_its_bounds)
{
	static const struct {
		const char *good, *bad, *field;
	} cases[] = {
	        {"emails: 1", "emails: 0", "emails"},
	        {"emails: 100", "emails: 101", "emails"},
	        {"devices: 1", "devices: 0", "devices"},
	        {"devices: 1000", "devices: 1001", "devices"},
	        {"claim_life: 60", "claim_life: 59", "claim_life"},
	        {"claim_life: 31622400", "claim_life: 31622401", "claim_life"},
	        {"codes: {life: 30}", "codes: {life: 29}", "codes.life"},
	        {"codes: {life: 86400}", "codes: {life: 86401}", "codes.life"},
	        {"codes: {length: 6}", "codes: {length: 5}", "codes.length"},
	        {"codes: {length: 16}", "codes: {length: 17}", "codes.length"},
	        {"codes: {tries: 1}", "codes: {tries: 0}", "codes.tries"},
	        {"codes: {tries: 20}", "codes: {tries: 21}", "codes.tries"},
	        {"codes: {requests_of_user: A/B}", "codes: {requests_of_user: A}", "codes.requests_of_user"},
	        {"codes: {requests_of_address: A/B}", "codes: {requests_of_address: a/B}",
	         "codes.requests_of_address"},
	        {"codes: {entries_of_user: A/B}", "codes: {entries_of_user: A/B/C}", "codes.entries_of_user"},
	        {"codes: {}", "codes: {lenght: 8}", "codes.lenght"},
	        {"{}", "email: 3", "email"},
	        {"{}", "codes: 3", "codes"},
	};
	struct user_policy *p;
	struct err          err;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (parsed(cases[i].good, &p, &err) != ERR_NONE)
			fail_msg("%s: %s", cases[i].good, err.text);
		document_release(&p->base);
		if (parsed(cases[i].bad, &p, &err) == ERR_NONE)
			fail_msg("%s was taken", cases[i].bad);
		assert_string_equal(err.field, cases[i].field);
	}
}

TEST(user_policies, they_decide_how_many_addresses_how_long_and_how_often)
{
	struct service     s;
	struct user_policy p = user_policy_usual;
	struct email_terms terms = {.policy = &p};
	struct email_claim claim;
	struct call c = {.patch = {.id = BYTES("ann")}, .email = BYTES("b@example.org"), .terms = &terms};

	service_open(&s, NULL);
	p.emails_max = 1;
	p.claim_s = 600;
	p.code_s = 30;
	p.code_chars = EMAIL_CODE_CHARS_MAX;
	p.code_tries = 1;
	terms.rules = s.rules;
	made(&s, "ann");
	claim = asked(&s, "ann", "a@example.org", &terms);
	assert_int_equal(claim.code.len, EMAIL_CODE_CHARS_MAX);
	assert_int_equal(claim.code_expires_s, START_S + 30);
	assert_int_equal(claim.email.expires_s, START_S + 600);
	assert_int_equal(turn_try(&s, &c.turn, add), ERR_LIMIT);
	c.entry = (struct email_entry){BYTES("ann"), claim.email.id, BYTES("U"), &terms};
	turn_take(&s, &c.turn, verify);
	assert_int_equal(c.verdict.tries_left, 0);
	service_close(&s);
}
