/* Heeds: a change of policies never switches off a lock that holds. Numbers are of heed.h. */
#include "service/resetting.h"

#include "service/check.h"
#include "service/lock.h"
#include "service/lock_ending.h"
#include "service/token_judge.h"

#define KINDS                                                                                                \
	"locks: {STANDARD: {duration: 900}, PERMANENT: {permanent: true}, GROWING: {duration: 60, factor: "  \
	"2, cap: 3600}}\n"
#define OF(types)      KINDS "journeys:\n  SIGN_IN:\n    types:\n" types
#define TYPE(settings) OF("      PASSWORD_ENTRY: {life: 7200, " settings "}\n")

/* As PUT does it: what was in force bequeaths what it heeds, which goes through its text. */
static void change(struct service *s, const char *yaml)
{
	struct rules *old = s->rules;
	struct bytes  text;

	s->rules = NULL;
	service_rules(s, yaml);
	heeds_inherit(&s->rules->base, &old->base, s->f.clock.now_us / 1000000);
	text = heeds_write(&s->rules->base, &s->f.arena);
	heeds_drop(&s->rules->base);
	heeds_read(&s->rules->base, text);
	document_release(&old->base);
}

static enum err_code lock_run(struct turn *turn, struct err *err);

struct lock_turn {
	struct turn     turn;
	struct lock_new lock;
	struct verdict  verdict;
};

static enum err_code lock_run(struct turn *turn, struct err *err)
{
	struct lock_turn *l = (struct lock_turn *)turn;

	return lock_add(&turn->ctx, &l->lock, &l->verdict, err);
}

static void lock_by_hand(struct service *s, struct bytes pk, const char *journey, const char *name)
{
	struct lock_turn l = {.lock = {.pk = pk,
	                               .journey = bytes_of(journey),
	                               .type = BYTES(KEY_LOCK),
	                               .name = bytes_of(name),
	                               .kind = rules_kind(s->rules, BYTES("PERMANENT"))}};

	turn_take(s, &l.turn, lock_run);
}

static bool enforced(struct service *s, const char *pk, const char *sk)
{
	struct item row;

	assert_true(row_find(s, bytes_of(pk), bytes_of(sk), &row));
	return lock_enforced(s->rules, bytes_of(pk), &row);
}

#define assert_locked(r)  assert_int_equal((r).verdict.kind, VERDICT_LOCKED)
#define assert_allowed(r) assert_int_equal((r).verdict.kind, VERDICT_ALLOW)

/* ---- (2) whatever at_max says ---- */

static const char *const ends[] = {TYPE("max: 2"),
                                   TYPE("max: 2, sets: [OTHER]"),
                                   TYPE("max: 2, sets: [OTHER, THIRD]"),
                                   TYPE("max: 2, at_max: sign_out"),
                                   TYPE("max: 2, at_max: reset"),
                                   TYPE("max: 2, at_max: challenge"),
                                   TYPE("max: 2, at_max: challenge, lock_at: 9"),
                                   TYPE("max: 2, shadow: true"),
                                   TYPE("max_of_source: 2, without_source: skip")};

enum { ENDS = sizeof(ends) / sizeof(ends[0]), LOCKING = 3 };

TEST(heed, a_lock_holds_to_its_end_whatever_the_rule_does_at_its_maximum_by_then)
{
	struct service s;

	for (int from = 0; from < LOCKING; from++)
		for (int to = 0; to < ENDS; to++) {
			service_open(&s, ends[from]);
			assert_locked(FAIL_TIMES(&s, 2));
			at(&s, 100);
			change(&s, ends[to]);
			assert_locked(SUCCEED(&s));
			at(&s, 899);
			change(&s, ends[(to + 1) % ENDS]); /* and through another change */
			assert_locked(SUCCEED(&s));
			at(&s, 900);
			assert_allowed(SUCCEED(&s));
			service_close(&s);
		}
}

TEST(heed, a_persons_lock_holds_until_a_person_lifts_it)
{
	struct service s;

	for (int to = 0; to < ENDS; to++) {
		service_open(&s, ends[0]);
		lock_by_hand(&s, BYTES("alice"), "SIGN_IN", "PASSWORD_ENTRY");
		at(&s, 100000);
		change(&s, ends[to]);
		assert_int_equal(SUCCEED(&s).verdict.kind, VERDICT_LOCKED_PERMANENT);
		assert_true(enforced(&s, "alice", PASSWORD_LOCK));
		service_close(&s);
	}
}

/* A lock that was set under `sets: [OTHER]` stops what it stopped; one that is set since stops what the rules say now. */
TEST(heed, a_lock_of_another_name_stops_what_it_stopped_when_it_was_set_and_a_later_one_what_is_said_now)
{
	struct service s;

	service_open(&s, OF("      A: {max: 2, life: 900, sets: [OTHER]}\n"
	                    "      B: {max: 2, life: 900, blocked_by: [OTHER]}\n"
	                    "      C: {max: 2, life: 900, sets: [OTHER]}\n"));
	FAIL_TIMES(&s, 2, .type = "A");
	change(&s, OF("      A: {max: 2, life: 900}\n"
	              "      B: {max: 2, life: 900}\n"
	              "      C: {max: 2, life: 900, sets: [OTHER]}\n"));
	assert_locked(SUCCEED(&s, .type = "A"));
	assert_locked(SUCCEED(&s, .type = "B"));
	assert_locked(SUCCEED(&s, .type = "C"));
	at(&s, 1000);
	FAIL_TIMES(&s, 2, .type = "C"); /* OTHER once more */
	assert_allowed(SUCCEED(&s, .type = "A"));
	assert_allowed(SUCCEED(&s, .type = "B"));
	assert_locked(SUCCEED(&s, .type = "C"));
	service_close(&s);
}

/* Else to say why once more would let somebody in. */
TEST(heed, a_lock_that_is_set_again_while_it_holds_stops_what_it_stopped_at_first)
{
	struct service s;

	service_open(&s, OF("      A: {max: 2, life: 900, sets: [OTHER]}\n"
	                    "      C: {max: 2, life: 900, sets: [OTHER]}\n"));
	lock_by_hand(&s, BYTES("alice"), "SIGN_IN", "OTHER");
	change(&s, OF("      A: {max: 2, life: 900}\n"
	              "      C: {max: 2, life: 900, sets: [OTHER]}\n"));
	at(&s, 1000);
	lock_by_hand(&s, BYTES("alice"), "SIGN_IN", "OTHER");
	assert_int_equal(SUCCEED(&s, .type = "A").verdict.kind, VERDICT_LOCKED_PERMANENT);
	service_close(&s);
}

/* ---- every reach ---- */

TEST(heed, a_lock_of_one_method_holds_though_the_rule_no_longer_counts_by_method)
{
	struct service s;

	service_open(&s, TYPE("max: 9, max_each: 2, qualifier: method"));
	assert_locked(FAIL_TIMES(&s, 2, .method_type = "SMS"));
	change(&s, TYPE("max: 9"));
	assert_locked(SUCCEED(&s, .method_type = "SMS"));
	assert_allowed(SUCCEED(&s, .method_type = "AUTH_APP"));
	change(&s, TYPE("max: 9, qualifier: notification"));
	assert_locked(SUCCEED(&s, .method_type = "SMS", .notification = "MFA_SMS"));
	assert_allowed(SUCCEED(&s, .method_type = "AUTH_APP", .notification = "MFA_SMS"));
	service_close(&s);
}

TEST(heed, locks_of_a_source_and_of_a_subject_from_it_hold_though_the_rule_no_longer_counts_by_source)
{
	struct service s;
	const char    *since[] = {TYPE("max: 9"),
	                          TYPE("max: 9, max_of_source: 2, max_from_source: 2, shadow: true")};

	for (int i = 0; i < 2; i++) {
		service_open(&s, TYPE("max_of_source: 2"));
		assert_locked(FAIL_TIMES(&s, 2, .ip = "192.0.2.1"));
		change(&s, since[i]);
		assert_locked(SUCCEED(&s, .subject = "bob", .ip = "192.0.2.1"));
		assert_allowed(SUCCEED(&s, .subject = "bob", .ip = "192.0.2.2"));
		service_close(&s);
		service_open(&s, TYPE("max_from_source: 2"));
		assert_locked(FAIL_TIMES(&s, 2, .ip = "192.0.2.1"));
		change(&s, since[i]);
		assert_locked(SUCCEED(&s, .ip = "192.0.2.1"));
		assert_allowed(SUCCEED(&s, .subject = "bob", .ip = "192.0.2.1"));
		service_close(&s);
	}
}

TEST(heed, a_rule_for_a_method_and_the_one_for_any_take_over_from_each_other)
{
	struct service s;

	service_open(&s, OF("      CODE: {max: 2, life: 900}\n"
	                    "      CODE/SMS: {max: 2, life: 900, sets: [BY_SMS]}\n"));
	assert_locked(FAIL_TIMES(&s, 2, .type = "CODE", .method_type = "SMS"));
	change(&s, OF("      CODE: {max: 2, life: 900}\n"));
	assert_locked(SUCCEED(&s, .type = "CODE", .method_type = "SMS"));
	change(&s, OF("      CODE: {max: 2, life: 900}\n"
	              "      CODE/SMS: {max: 2, life: 900}\n"));
	assert_locked(SUCCEED(&s, .type = "CODE", .method_type = "SMS"));
	service_close(&s);
}

TEST(heed, a_known_device_passes_what_a_rule_set_before_the_change_and_not_what_a_person_set)
{
#define LANE ", known_device: {max: 4, remember: 100000}"
	struct service s;
	struct bytes   token;

	service_open(&s, TYPE("max: 2" LANE));
	token = SUCCEED(&s).device.token;
	FAIL_TIMES(&s, 2);
	change(&s, TYPE("max: 2, at_max: sign_out" LANE));
	assert_locked(SUCCEED(&s));
	assert_allowed(SUCCEED(&s, .token = token, .forgetful = true));
	change(&s, TYPE("max: 2" LANE));
	lock_by_hand(&s, BYTES("alice"), "SIGN_IN", "PASSWORD_ENTRY");
	change(&s, TYPE("max: 2, at_max: sign_out" LANE));
	assert_int_equal(SUCCEED(&s, .token = token).verdict.kind, VERDICT_LOCKED_PERMANENT);
	service_close(&s);
}

/* ---- locks of a whole journey, and of failures in a row ---- */

#define TWO_JOURNEYS(settings)                                                                               \
	KINDS settings "journeys:\n"                                                                         \
	               "  SIGN_IN: {types: {A: {max: 9, life: 900}, B: {max: 9, life: 900}}}\n"              \
	               "  GATE: {}\n"                                                                        \
	               "  RESET: {types: {A: {max: 9, life: 900}}}\n"

TEST(heed, the_lock_of_sources_holds_in_its_journey_though_nothing_counts_sources_or_networks)
{
	struct service s;
	const char    *one = "2001:db8:1:1::1", *other = "2001:db8:1:2::1", *outside = "2001:db8:2:1::1";

	service_open(&s, KINDS "sources: {lock: STANDARD}\n"
	                       "journeys:\n"
	                       "  SIGN_IN: {types: {A: {max: 9, life: 900, max_of_network: 2}, B: {max: 9, "
	                       "life: 900}}}\n"
	                       "  RESET: {types: {A: {max: 9, life: 900}}}\n");
	assert_locked(FAIL_TIMES(&s, 2, .type = "A", .ip = one));
	assert_locked(SUCCEED(&s, .subject = "bob", .type = "B", .ip = other));
	change(&s, TWO_JOURNEYS(""));
	assert_locked(SUCCEED(&s, .subject = "bob", .type = "A", .ip = other));
	assert_locked(SUCCEED(&s, .subject = "bob", .type = "B", .ip = other));
	assert_allowed(SUCCEED(&s, .subject = "bob", .type = "B", .ip = outside));
	assert_allowed(SUCCEED(&s, .subject = "bob", .journey = "RESET", .type = "A", .ip = other));
	change(&s, KINDS "journeys: {SIGN_IN: {types: {NEW: {max: 9, life: 900}}}}\n");
	assert_locked(SUCCEED(&s, .subject = "bob", .type = "NEW", .ip = other));
	service_close(&s);
}

#define IN_A_ROW                                                                                             \
	"consecutive: {max: 3, of: [SIGN_IN/A, SIGN_IN/B], sets: GATE/ROW, lock: PERMANENT, ended_by: "      \
	"[SIGN_IN/B]}\n"

static bool ends_tokens(const struct service *s, const char *sk)
{
	for (uint32_t i = 0; i < s->rules->lock_count; i++)
		if (bytes_is(s->rules->locks[i].sk, sk))
			return s->rules->locks[i].only_people;
	fail_msg("%s is not listed", sk);
	return false;
}

TEST(heed, the_lock_of_failures_in_a_row_holds_though_they_are_no_longer_counted)
{
	struct service s;

	service_open(&s, TWO_JOURNEYS(IN_A_ROW));
	FAIL_TIMES(&s, 3, .type = "A");
	assert_int_equal(SUCCEED(&s, .type = "B").verdict.kind, VERDICT_LOCKED_PERMANENT);
	at(&s, 100);
	change(&s, TWO_JOURNEYS(""));
	assert_int_equal(SUCCEED(&s, .type = "A").verdict.kind, VERDICT_LOCKED_PERMANENT);
	assert_string_equal(SUCCEED(&s, .type = "B").verdict.reason, "too_many_failures");
	assert_allowed(SUCCEED(&s, .journey = "RESET", .type = "A"));
	assert_true(enforced(&s, "alice", "GATE#LOCK#ROW"));
	assert_false(ends_tokens(&s, "GATE#LOCK#ROW"));
	at(&s, 200); /* what is set since stops what the policies say now */
	lock_by_hand(&s, BYTES("bob"), "GATE", "ROW");
	assert_allowed(SUCCEED(&s, .subject = "bob", .type = "A"));
	change(&s, TWO_JOURNEYS(IN_A_ROW)); /* and back: it counts, and the lock is still one */
	assert_int_equal(SUCCEED(&s, .type = "A").verdict.kind, VERDICT_LOCKED_PERMANENT);
	FAIL_TIMES(&s, 2, .subject = "carol", .type = "A");
	assert_allowed(SUCCEED(&s, .subject = "carol", .type = "B"));
	FAIL_TIMES(&s, 2, .subject = "carol", .type = "A");
	assert_allowed(SUCCEED(&s, .subject = "carol", .type = "A"));
	service_close(&s);
}

TEST(heed, the_lock_of_failures_in_a_row_that_a_rule_is_also_blocked_by_is_counted_once)
{
	struct service s;

	service_open(&s,
	             KINDS IN_A_ROW "journeys:\n"
	                            "  GATE: {locks: [ROW]}\n"
	                            "  SIGN_IN: {blocked_by: [GATE/ROW], types: {A: {max: 9, life: 900}, B: "
	                            "{max: 9, life: 900}}}\n");
	assert_allowed(FAIL_TIMES(&s, 2, .type = "A"));
	assert_int_equal(FAIL_TIMES(&s, 1, .type = "A").verdict.kind, VERDICT_LOCKED_PERMANENT);
	assert_false(ends_tokens(&s, "GATE#LOCK#ROW"));
	service_close(&s);
}

/* ---- resets: of a rule they end what it set before, too ---- */

#define RESET(name, settings) "  " name ": {" settings "}\n"
#define ENDS_IT               "resets:\n" RESET("PASSWORD", "counts: [SIGN_IN/PASSWORD_ENTRY]")

TEST(heed, a_reset_ends_a_lock_whose_name_left_the_policies_and_what_a_person_set_stays)
{
	static const char *const since[] = {
	        TYPE("max: 2, at_max: challenge") ENDS_IT,
	        TYPE("max: 2, at_max: reset") ENDS_IT,
	        TYPE("max: 2, sets: [NEW]") "resets:\n" RESET("PASSWORD", "locks: [SIGN_IN/NEW]"),
	        TYPE("max: 2, shadow: true, sets: [NEW]") ENDS_IT,
	};

	for (size_t i = 0; i < sizeof(since) / sizeof(since[0]); i++) {
		struct service s;

		service_open(&s, TYPE("max: 2, sets: [OLD, SIGN_OUT/OLD]"));
		assert_locked(FAIL_TIMES(&s, 2));
		change(&s, since[i]);
		change(&s, since[i]); /* they are inherited twice */
		assert_locked(SUCCEED(&s));
		assert_int_equal(reset(&s).count, 2);
		assert_allowed(SUCCEED(&s));
		assert_false(row_there(&s, "alice", "SIGN_IN#LOCK#OLD"));
		assert_false(row_there(&s, "alice", "SIGN_OUT#LOCK#OLD"));
		service_close(&s);
	}
}

TEST(heed, a_reset_leaves_what_a_person_set_though_its_name_left)
{
	struct service s;

	service_open(&s, TYPE("max: 2, sets: [OLD]"));
	lock_by_hand(&s, BYTES("alice"), "SIGN_IN", "OLD");
	change(&s, TYPE("max: 2, at_max: challenge") ENDS_IT);
	assert_int_equal(reset(&s).kept, 1);
	assert_int_equal(SUCCEED(&s).verdict.kind, VERDICT_LOCKED_PERMANENT);
	service_close(&s);
}

/* A reset that is not about the rule ends nothing of it. */
TEST(heed, a_reset_leaves_locks_that_left_and_were_of_other_rules)
{
	struct service s;

	service_open(&s, OF("      PASSWORD_ENTRY: {max: 2, life: 900}\n"
	                    "      CODE: {max: 2, life: 900, sets: [OLD]}\n"));
	assert_locked(FAIL_TIMES(&s, 2, .type = "CODE"));
	change(&s, OF("      PASSWORD_ENTRY: {max: 2, life: 900}\n"
	              "      CODE: {max: 2, life: 900}\n") ENDS_IT);
	assert_int_equal(reset(&s).count, 0);
	assert_locked(SUCCEED(&s, .type = "CODE"));
	service_close(&s);
}

#define ROW_A(name)                                                                                          \
	"consecutive: {max: 2, of: [SIGN_IN/PASSWORD_ENTRY], sets: SIGN_IN/" name ", lock: PERMANENT}\n"

TEST(heed, a_reset_ends_the_lock_of_failures_in_a_row_that_left_only_if_it_ends_that_of_today)
{
	static const struct {
		const char *yaml;
		bool        ends;
	} since[] = {
	        {TYPE("max: 9") ENDS_IT, true}, /* they are no longer counted */
	        {TYPE("max: 9") ROW_A("NEW") "resets:\n" RESET("PASSWORD", "locks: [SIGN_IN/NEW]"), true},
	        {TYPE("max: 9") ROW_A("NEW") ENDS_IT, false},
	};

	for (size_t i = 0; i < sizeof(since) / sizeof(since[0]); i++) {
		struct service s;

		service_open(&s, TYPE("max: 9") ROW_A("OLD"));
		FAIL_TIMES(&s, 2);
		change(&s, since[i].yaml);
		assert_int_equal(SUCCEED(&s).verdict.kind, VERDICT_LOCKED_PERMANENT);
		reset(&s);
		assert_int_equal(SUCCEED(&s).verdict.kind,
		                 since[i].ends ? VERDICT_ALLOW : VERDICT_LOCKED_PERMANENT);
		service_close(&s);
	}
}

/* ---- locks that only people set: while their name exists ---- */

TEST(heed, a_lock_that_only_people_set_holds_while_its_journey_names_it)
{
	struct service s;
	const char    *named = KINDS "journeys:\n"
	                             "  SIGN_IN: {types: {PASSWORD_ENTRY: {max: 2, life: 900}}}\n"
	                             "  GATE: {locks: [SHUT, OTHER]}\n";

	service_open(&s, KINDS
	             "journeys:\n"
	             "  SIGN_IN: {blocked_by: [GATE/SHUT], types: {PASSWORD_ENTRY: {max: 2, life: 900}}}\n"
	             "  GATE: {locks: [SHUT]}\n");
	lock_by_hand(&s, BYTES("alice"), "GATE", "SHUT");
	lock_by_hand(&s, hashed(&s, IDENTIFIER_IP, "192.0.2.1"), "GATE", "SHUT");
	change(&s, named);
	assert_int_equal(SUCCEED(&s).verdict.kind, VERDICT_LOCKED_PERMANENT);
	assert_int_equal(SUCCEED(&s, .subject = "bob", .ip = "192.0.2.1").verdict.kind,
	                 VERDICT_LOCKED_PERMANENT);
	assert_true(enforced(&s, "alice", "GATE#LOCK#SHUT"));
	change(&s, KINDS "journeys:\n"
	                 "  SIGN_IN: {types: {PASSWORD_ENTRY: {max: 2, life: 900}}}\n"
	                 "  GATE: {locks: [OTHER]}\n");
	assert_allowed(SUCCEED(&s));
	assert_false(enforced(&s, "alice", "GATE#LOCK#SHUT"));
	service_close(&s);
}

/* ---- what a change costs ---- */

TEST(heed, a_rule_that_stays_as_it_was_heeds_no_more_than_before)
{
	struct service s;
	uint32_t       before;

	service_open(&s, NULL);
	before = rules_find(s.rules, BYTES("SIGN_IN"), BYTES("PASSWORD_ENTRY"), (struct bytes){NULL, 0})
	                 ->heed_count;
	for (int i = 0; i < 3; i++)
		change(&s, NULL);
	assert_int_equal(
	        rules_find(s.rules, BYTES("SIGN_IN"), BYTES("PASSWORD_ENTRY"), (struct bytes){NULL, 0})
	                ->heed_count,
	        before);
	assert_int_equal(heeds_write(&s.rules->base, &s.f.arena).len, 0);
	service_close(&s);
}

/* ---- what ends ---- */

struct count_turn {
	struct turn         turn;
	struct locks_ending ending;
};

static enum err_code count_run(struct turn *turn, struct err *err)
{
	struct count_turn *c = (struct count_turn *)turn;

	return locks_ending_step(&turn->ctx, &c->ending, err);
}

/* How many would end; *steps: in how many pages that was known. */
static struct locks_ending ending(struct service *s, const char *yaml, unsigned *steps)
{
	struct count_turn c = {0};
	struct rules     *next;
	int64_t           now_s = s->f.clock.now_us / 1000000;

	assert_int_equal(rules_read_yaml(&s->f.arena, yaml, &next, &s->f.err), ERR_NONE);
	heeds_inherit(&next->base, &s->rules->base, now_s);
	locks_ending_init(&c.ending, &s->rules->base, &next->base, now_s);
	for (*steps = 0; !c.ending.whole; ++*steps)
		turn_take(s, &c.turn, count_run);
	document_release(&next->base);
	return c.ending;
}

/* Each is several heeds: of the subject, of its methods, of a source that a person locked. */
TEST(heed, a_rule_keeps_as_many_locks_as_its_bound_and_the_oldest_end_with_the_reason_said)
{
	struct service      s;
	struct locks_ending e;
	unsigned            steps;
	char                yaml[512];

	service_open(&s, TYPE("max: 2, max_from_source: 9, without_source: skip, qualifier: method, sets: "
	                      "[NAME_0]"));
	for (int i = 0; i <= HEED_NAMES_MAX; i++) {
		char subject[16], name[32];

		snprintf(subject, sizeof(subject), "subject-%d", i);
		snprintf(name, sizeof(name), "SIGN_IN#LOCK#NAME_%d", i);
		FAIL_TIMES(&s, 2, .subject = subject, .method_id = "phone");
		snprintf(yaml, sizeof(yaml),
		         TYPE("max: 2, max_from_source: 9, without_source: skip, qualifier: method, sets: "
		              "[NAME_%d]"),
		         i + 1);
		e = ending(&s, yaml, &steps);
		assert_int_equal(e.count, i == HEED_NAMES_MAX);
		if (i == HEED_NAMES_MAX)
			break;
		change(&s, yaml);
		assert_true(enforced(&s, subject, name));
		assert_true(enforced(&s, "subject-0", "SIGN_IN#LOCK#NAME_0"));
	}
	assert_string_equal(e.first, "SIGN_IN/NAME_0"); /* the oldest */
	assert_int_equal(locks_ending_refuse(&e, "send it", &s.f.err), ERR_LOCKS_END);
	assert_string_equal(s.f.err.text,
	                    "1 lock that holds would end, because a type obeys at most 32 locks of earlier "
	                    "policies, and all types 128 KB of them: SIGN_IN/NAME_0; send it");
	service_close(&s);
}

static const char two_types[] = OF("      A: {max: 2, life: 900}\n      B: {max: 2, life: 900}\n");
static const char one_type[] = OF("      A: {max: 2, life: 900}\n");

TEST(lock_ending, only_locks_of_what_is_removed_end_and_a_change_that_removes_nothing_reads_nothing)
{
	struct service      s;
	struct locks_ending e;
	unsigned            steps;

	service_open(&s, two_types);
	FAIL_TIMES(&s, 2, .type = "A");
	FAIL_TIMES(&s, 2, .type = "B");
	FAIL_TIMES(&s, 2, .subject = "bob", .type = "B");
	e = ending(&s,
	           OF("      A: {max: 2, life: 900, at_max: challenge}\n      B: {max: 2, life: 900, sets: "
	              "[X]}\n"),
	           &steps);
	assert_int_equal(steps, 0);
	assert_false(locks_ending_any(&e));
	e = ending(&s, one_type, &steps);
	assert_int_equal(steps, 1);
	assert_int_equal(e.count, 2);
	assert_false(e.more);
	assert_string_equal(e.first, "SIGN_IN/B");
	assert_int_equal(
	        ending(&s, KINDS "journeys: {OTHER: {types: {A: {max: 2, life: 900}}}}\n", &steps).count, 3);
	at(&s, 900);
	e = ending(&s, one_type, &steps);
	assert_false(locks_ending_any(&e));
	service_close(&s);
}

TEST(lock_ending, the_locks_of_sources_end_with_their_journey_and_those_of_failures_in_a_row_with_their_types)
{
	struct service s;
	unsigned       steps;

	service_open(&s, KINDS IN_A_ROW
	             "sources: {lock: STANDARD}\n"
	             "journeys:\n"
	             "  SIGN_IN: {types: {A: {max: 9, life: 900, max_of_source: 3, without_source: skip}, B: "
	             "{max: 9, life: 900}}}\n"
	             "  GATE: {}\n"
	             "  RESET: {types: {A: {max: 9, life: 900}}}\n");
	FAIL_TIMES(&s, 3, .type = "A"); /* in a row */
	FAIL_TIMES(&s, 1, .type = "A", .subject = "bob", .ip = "192.0.2.1");
	FAIL_TIMES(&s, 2, .type = "A", .subject = "carol",
	           .ip = "192.0.2.1"); /* a source; and two streaks that lock nobody */
	assert_int_equal(ending(&s, TWO_JOURNEYS(""), &steps).count, 0);
	assert_int_equal(steps, 0);
	assert_int_equal(
	        ending(&s, KINDS "journeys: {SIGN_IN: {types: {B: {max: 9, life: 900}}}}\n", &steps).count,
	        0);
	assert_int_equal(
	        ending(&s, KINDS "journeys: {SIGN_IN: {types: {C: {max: 9, life: 900}}}}\n", &steps).count,
	        1);
	assert_int_equal(
	        ending(&s, KINDS "journeys: {RESET: {types: {A: {max: 9, life: 900}}}}\n", &steps).count, 2);
	service_close(&s);
}

static void locks_write(struct service *s, int from, int to)
{
	for (int i = from; i < to; i++)
		row_put(s,
		        arena_printf(
		                &s->f.arena,
		                "{'PK':{'S':'subject-%d'},'SK':{'S':'SIGN_IN#LOCK#B'},'count':{'N':'1'}}", i)
		                .data);
}

TEST(lock_ending, the_count_is_exact_up_to_its_bound_and_then_says_that_there_are_more)
{
	struct service      s;
	struct locks_ending e;
	unsigned            steps;

	service_open(&s, two_types);
	FAIL(&s, .type = "A"); /* the table is there */
	locks_write(&s, 0, LOCKS_ENDING_MAX);
	e = ending(&s, one_type, &steps);
	assert_int_equal(e.count, LOCKS_ENDING_MAX);
	assert_false(e.more);
	locks_write(&s, LOCKS_ENDING_MAX, LOCKS_ENDING_MAX + 1);
	e = ending(&s, one_type, &steps);
	assert_int_equal(e.count, LOCKS_ENDING_MAX);
	assert_true(e.more);
	service_close(&s);
}

TEST(lock_ending, a_table_is_read_page_by_page_and_no_further_than_its_bound)
{
	struct service      s;
	struct locks_ending e;
	unsigned            steps;
	struct count_turn   c = {0};
	struct rules       *next;

	service_open(&s, two_types);
	for (int i = 0; i < LOCKS_ENDING_PAGE; i++)
		FAIL(&s, .subject = arena_printf(&s.f.arena, "other-%d", i).data, .type = "A");
	locks_write(&s, 0, 3);
	e = ending(&s, one_type, &steps);
	assert_int_equal(e.count, 3);
	assert_true(steps >= 2);
	assert_int_equal(rules_read_yaml(&s.f.arena, one_type, &next, &s.f.err), ERR_NONE);
	locks_ending_init(&c.ending, &s.rules->base, &next->base, START_S);
	c.ending.examined = LOCKS_ENDING_EXAMINED_MAX - 1;
	turn_take(&s, &c.turn, count_run);
	assert_true(c.ending.whole && c.ending.more); /* what is not known counts as something that ends */
	assert_true(locks_ending_any(&c.ending));
	document_release(&next->base);
	service_close(&s);
}
