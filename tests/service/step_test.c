/* What comes at the maximum, step by step: locks that lead to others, challenges, and what sources get instead. */
#include "service/fixture.h"

#define SOURCE_SK "SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY"

static int64_t source_ttl(struct service *s, const char *sk)
{
	struct item item;

	return row_find(s, hashed(s, IDENTIFIER_IP, "192.0.2.1"), bytes_of(sk), &item)
	               ? row_i64(&item, "ttl", 0) - START_S
	               : 0;
}

/* ---- locks that lead to others ---- */

#define THEN                                                                                                 \
	"locks:\n"                                                                                           \
	"  STANDARD: {duration: 60, then: %s, after: 2, forget: 600}\n"                                      \
	"  GROWING: {duration: 100, factor: 3, cap: 500}\n"                                                  \
	"  PERMANENT: {permanent: true}\n"                                                                   \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 1, life: 30}\n"

static void open_then(struct service *s, const char *then)
{
	char yaml[512];

	snprintf(yaml, sizeof(yaml), THEN, then);
	service_open(s, yaml);
}

TEST(then, after_two_temporary_locks_the_third_is_permanent)
{
	struct service        s;
	struct attempt_result r;

	open_then(&s, "PERMANENT");
	for (int i = 0; i < 2; i++) {
		at(&s, 100 * i);
		r = FAIL(&s);
		assert_verdict(&r, VERDICT_LOCKED, true);
		assert_bytes(r.verdict.block_type, "STANDARD");
	}
	at(&s, 200);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, true);
	assert_bytes(r.verdict.block_type, "PERMANENT");
	at(&s, 1000000);
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, false);
	service_close(&s);
}

TEST(then, what_is_forgotten_or_cleared_does_not_count)
{
	struct service        s;
	struct attempt_result r;

	open_then(&s, "PERMANENT");
	for (int i = 0; i < 5; i++) {
		at(&s, 700 * i); /* past the lock's end, and what is remembered after it */
		r = FAIL(&s);
		assert_verdict(&r, VERDICT_LOCKED, true);
	}
	service_close(&s);
}

TEST(then, a_kind_that_follows_may_grow)
{
	static const int64_t lasts[] = {60, 60, 100, 300, 500, 500};
	struct service       s;
	int64_t              now = 0;

	open_then(&s, "GROWING");
	for (size_t i = 0; i < sizeof(lasts) / sizeof(lasts[0]); i++) {
		at(&s, now);
		assert_int_equal(FAIL(&s).verdict.until_s, START_S + now + lasts[i]);
		now += lasts[i];
	}
	service_close(&s);
}

/* ---- challenges ---- */

#define CHALLENGE                                                                                            \
	"locks: {STANDARD: {duration: 60}}\n"                                                                \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 2, life: 600, at_max: challenge}\n"                                     \
	"      PIN_ENTRY: {max: 2, life: 600, at_max: challenge, lock_at: 4}\n"                              \
	"      CODE_REQUEST: {counts: sent, max: 2, life: 600, at_max: challenge}\n"                         \
	"      WATCHED: {max: 2, life: 600, at_max: challenge, shadow: true}\n"                              \
	"      SPRAYED: {max_of_source: 2, life: 600, at_max: challenge}\n"

TEST(challenge, comes_at_the_maximum_and_guesses_go_on_being_counted)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, CHALLENGE);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_ALLOW, true);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_CHALLENGE, true);
	assert_true(r.first_time);
	assert_string_equal(r.verdict.reason, "challenge");
	assert_int_equal(r.verdict.until_s, START_S + 600);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_CHALLENGE, true);
	assert_false(r.first_time);
	assert_int_equal(r.nearest.count, 3);
	r = FAIL(&s, .passed = true); /* passed, and wrong: the next one needs another */
	assert_verdict(&r, VERDICT_CHALLENGE, true);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 4);
	service_close(&s);
}

TEST(challenge, a_success_without_it_is_none_and_with_it_ends_it)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, CHALLENGE);
	FAIL_TIMES(&s, 2);
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_CHALLENGE, false);
	assert_int_equal(r.cleared_count, 0);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 2);
	r = SUCCEED(&s, .passed = true);
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_int_equal(r.cleared_count, 1);
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}

TEST(challenge, ends_when_the_count_expires)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, CHALLENGE);
	FAIL_TIMES(&s, 5);
	at(&s, 599);
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_CHALLENGE, false);
	at(&s, 600);
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}

TEST(challenge, without_it_nothing_is_sent_and_with_it_one_is)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, CHALLENGE);
	SENT_TIMES(&s, 2, .type = "CODE_REQUEST");
	r = SENT(&s, .type = "CODE_REQUEST");
	assert_verdict(&r, VERDICT_CHALLENGE, false);
	r = SENT(&s, .type = "CODE_REQUEST", .passed = true);
	assert_verdict(&r, VERDICT_CHALLENGE, true);
	assert_int_equal(r.nearest.count, 3);
	service_close(&s);
}

TEST(challenge, leads_to_a_lock_where_the_rule_says_so_and_passing_does_not_open_that)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, CHALLENGE);
	r = FAIL_TIMES(&s, 3, .type = "PIN_ENTRY", .passed = true);
	assert_verdict(&r, VERDICT_CHALLENGE, true);
	r = FAIL(&s, .type = "PIN_ENTRY", .passed = true);
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_true(r.first_time && r.locked_now);
	r = SUCCEED(&s, .type = "PIN_ENTRY", .passed = true);
	assert_verdict(&r, VERDICT_LOCKED, false);
	service_close(&s);
}

TEST(challenge, in_shadow_mode_is_told_and_not_asked_for)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, CHALLENGE);
	r = FAIL_TIMES(&s, 3, .type = "WATCHED");
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.shadow.kind, VERDICT_CHALLENGE);
	service_close(&s);
}

TEST(challenge, is_asked_of_everyone_who_comes_from_a_source_at_its_maximum)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, CHALLENGE);
	FAIL(&s, .type = "SPRAYED", .ip = "192.0.2.1");
	FAIL(&s, .type = "SPRAYED", .ip = "192.0.2.1", .subject = "bob");
	r = SUCCEED(&s, .type = "SPRAYED", .ip = "192.0.2.1", .subject = "carol");
	assert_verdict(&r, VERDICT_CHALLENGE, false);
	r = SUCCEED(&s, .type = "SPRAYED", .ip = "192.0.2.1", .subject = "carol", .passed = true);
	assert_verdict(&r, VERDICT_ALLOW, false);
	r = SUCCEED(&s, .type = "SPRAYED", .ip = "192.0.2.2", .subject = "carol");
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}

/* ---- sources ---- */

TEST(sources, one_that_tries_sixty_accounts_is_stopped_by_what_ships)
{
	struct service        s;
	struct attempt_result r;
	int                   stood = 0;

	service_open(&s, NULL);
	for (int i = 0; i < 60; i++) {
		char name[16];

		snprintf(name, sizeof(name), "account-%d", i);
		r = FAIL(&s, .subject = name, .ip = "192.0.2.1");
		stood += r.counted;
	}
	assert_int_equal(stood, 50);
	assert_verdict(&r, VERDICT_LOCKED, false);
	assert_bytes(r.verdict.block_type, "SOURCE");
	assert_int_equal(source_ttl(&s, SOURCE_LOCK), 300);
	r = SUCCEED(&s, .subject = "account-1", .ip = "192.0.2.2"); /* its owner, elsewhere */
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}

TEST(sources, have_a_life_and_a_lock_of_their_own)
{
	struct service s;

	service_open(&s, NULL);
	FAIL(&s, .ip = "192.0.2.1");
	at(&s, 800);
	FAIL(&s, .ip = "192.0.2.1");
	assert_int_equal(source_ttl(&s, SOURCE_SK),
	                 900); /* from the first, though the subject's is renewed */
	assert_int_equal(ttl_in(&s, "alice", PASSWORDS), 8000);
	at(&s, 900);
	FAIL(&s, .ip = "192.0.2.1");
	assert_int_equal(source_ttl(&s, SOURCE_SK), 1800);
	service_close(&s);
}

TEST(sources, a_denied_one_is_blocked_whatever_it_tries)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, CHALLENGE);
	r = SUCCEED(&s, .ip = "192.0.2.1", .denied = true, .allowed = true);
	assert_verdict(&r, VERDICT_BLOCKED, false);
	assert_string_equal(r.verdict.reason, "source_denied");
	r = FAIL(&s, .type = "WATCHED", .ip = "192.0.2.1", .denied = true);
	assert_verdict(&r, VERDICT_BLOCKED, false);
	assert_int_equal(rows_in_table(&s), 0);
	service_close(&s);
}

/* ---- what ships for the first document ---- */

TEST(defaults, a_password_reset_lock_stops_the_codes_of_a_reset)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	SENT_TIMES(&s, 6, .type = "PASSWORD_RESET_REQUEST");
	r = SENT(&s, .journey = "PASSWORD_RESET", .type = "EMAIL_CODE_REQUEST",
	         .notification = "RESET_PASSWORD");
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = SENT(&s, .journey = "PASSWORD_RESET", .type = "MFA_CODE_REQUEST", .notification = "MFA_SMS");
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = SENT(&s, .journey = "ACCOUNT_RECOVERY", .type = "MFA_CODE_REQUEST", .notification = "MFA_SMS");
	assert_verdict(&r, VERDICT_ALLOW, true);
	r = SENT(&s, .journey = "REAUTHENTICATION", .type = "MFA_CODE_REQUEST", .notification = "MFA_SMS");
	assert_int_equal(r.nearest.ends_s, START_S + 3600);
	service_close(&s);
}
