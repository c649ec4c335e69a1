/* A person has one budget: under whichever of its ids a call comes, and in whichever order it names them. account_test.c has how the ids are found;
 * tests/e2e/test_person.py has the same by HTTP. */
#include "service/begun.h"
#include "service/people.h"

#include "service/lock.h"

#define ROWS                                                                                                 \
	"locks: {STANDARD: {duration: 900}, PERMANENT: {permanent: true}}\n"                                 \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 6, max_from_source: 4, life: 60, lapse: 40, "                           \
	"known_device: {max: 50, max_all: 3, after: [PASSWORD_ENTRY]}}\n"                                    \
	"consecutive: {max: 10, sets: SIGN_IN/TOO_MANY, of: [SIGN_IN/PASSWORD_ENTRY]}\n"

static const char *hash_text(struct service *s, const char *email)
{
	struct bytes id = hashed(s, IDENTIFIER_EMAIL, email);

	return arena_printf(&s->f.arena, "%.*s%c", BYTES_ARG(id), '\0').data;
}

/* Each names the user, or its address, and a pairwise id of its own: first or second. */
static struct try nth(struct service *s, int i)
{
	const char *user = i % 4 < 2 ? "alice" : hash_text(s, "alice@example.org");
	const char *pair = arena_printf(&s->f.arena, "pair-%d%c", i, '\0').data;

	return i % 2 == 0 ? (struct try){.subject = pair, .pairwise = user}
	                  : (struct try){.subject = user, .pairwise = pair};
}

static void person_open(struct service *s, const char *rules)
{
	service_open(s, NULL); /* which has codes for addresses */
	made(s, "alice");
	owned(s, "alice", "alice@example.org");
	service_rules(s, rules);
}

TEST(person, has_one_budget_whichever_id_a_call_names_first)
{
	struct service            s;
	struct table_query_result events;
	int                       counted = 0;

	person_open(&s, NULL);
	s.all.events.on = EVENT_BIT(EVENT_LOCK_SET);
	for (int i = 0; i < 16; i++)
		counted += service_record(&s, OUTCOME_FAILURE, nth(&s, i)).counted;
	assert_int_equal(counted, 6);
	assert_int_equal(SUCCEED(&s).verdict.kind, VERDICT_LOCKED);
	events = events_of(&s, EVENT_LOCK_SET);
	assert_int_equal(events.count, 1);
	assert_bytes(row_text(&events.items[0], "subject"), "alice");
	service_close(&s);
}

/* All from one source, below the account's maximum. */
TEST(person, has_one_budget_per_source_whichever_id_a_call_names_first)
{
	struct service s;
	int            counted = 0;

	person_open(&s, ROWS);
	for (int i = 0; i < 16; i++) {
		struct try t = nth(&s, i);

		t.ip = "192.0.2.1";
		counted += service_record(&s, OUTCOME_FAILURE, t).counted;
	}
	assert_int_equal(counted, 4);
	service_close(&s);
}

TEST(person, has_one_streak_whichever_id_a_call_names_first)
{
	struct service s;
	struct item    row;
	int            counted = 0;

	person_open(&s, ROWS);
	for (int i = 0; i < 16; i++) {
		at(&s, i * 100);
		counted += service_record(&s, OUTCOME_FAILURE, nth(&s, i)).counted;
	}
	assert_int_equal(counted, 10);
	assert_true(row_find(&s, BYTES("alice"), BYTES("SIGN_IN#LOCK#TOO_MANY"), &row));
	assert_int_equal(row_i64(&row, "count", 0), 1);
	service_close(&s);
}

TEST(person, has_one_budget_of_attempts_that_are_begun_and_a_success_clears_it)
{
	struct service s;
	struct step    step;
	int            begun = 0;

	person_open(&s, NULL);
	for (int i = 0; i < 16; i++) {
		struct step next = begin_one(&s, nth(&s, i));

		begun += next.begun.reserved;
		if (next.begun.reserved)
			step = next;
	}
	assert_int_equal(begun, 6);
	assert_int_equal(finish(&s, &step, OUTCOME_SUCCESS).verdict.kind, VERDICT_ALLOW);
	assert_int_equal(SUCCEED(&s).verdict.kind, VERDICT_ALLOW);
	service_close(&s);
}

TEST(person, is_the_subject_of_the_event_that_few_tries_are_left_whichever_id_a_call_names_first)
{
	struct service            s;
	struct table_query_result events;

	person_open(&s, NULL);
	s.all.events.on = EVENT_BIT(EVENT_ATTEMPT_NEAR_LIMIT);
	FAIL_TIMES(&s, 5, .subject = "pair", .pairwise = "alice");
	events = events_of(&s, EVENT_ATTEMPT_NEAR_LIMIT);
	assert_true(events.count > 0);
	assert_bytes(row_text(&events.items[0], "subject"), "alice");
	service_close(&s);
}

/* A device is known by every name, and its lanes close for all names. */
TEST(person, has_known_devices_whichever_id_a_call_names_first)
{
	struct service s;
	struct bytes   token;

	person_open(&s, ROWS);
	token = SUCCEED(&s, .subject = "pair", .pairwise = "alice").device.token;
	assert_true(FAIL(&s, .token = token).known_device);
	assert_true(FAIL(&s, .subject = "pair", .pairwise = "alice", .token = token).known_device);
	assert_true(FAIL(&s, .pairwise = "pair", .token = token).known_device);
	assert_false(FAIL(&s, .token = token).known_device);
	assert_false(FAIL(&s, .subject = "pair", .pairwise = "alice", .token = token).known_device);
	service_close(&s);
}

/* Two people in one call are both of it: whoever of them is named first, both are read. */
TEST(person, counts_under_the_first_of_two_users)
{
	struct service s;

	person_open(&s, NULL);
	made(&s, "bob");
	FAIL(&s, .subject = "bob", .pairwise = "alice");
	assert_int_equal(count_in(&s, "bob", PASSWORDS), 1);
	FAIL(&s, .pairwise = "bob");
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 1);
	service_close(&s);
}

/* The lock of one name is the person's, and so is how long the next one lasts. */
TEST(person, whose_success_by_one_name_makes_the_next_lock_by_another_a_first_one_again)
{
	struct service        s;
	struct attempt_result r;

	person_open(&s, NULL);
	owned(&s, "alice", "alice@example.com");
	FAIL_TIMES(&s, 6, .email = "alice@example.org");
	at(&s, 900);
	assert_int_equal(SUCCEED(&s, .email = "alice@example.com").verdict.kind, VERDICT_ALLOW);
	r = FAIL_TIMES(&s, 6, .email = "alice@example.org");
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_int_equal(r.verdict.until_s, START_S + 900 + 900);
	service_close(&s);
}
