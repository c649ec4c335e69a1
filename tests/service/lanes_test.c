/* Lanes: counters by subject and source, by source alone, allowed sources; and the lane of a known device, which
 * others' failures do not touch. */
#include "service/fixture.h"

#define SOURCES                                                                                              \
	"locks: {STANDARD: {duration: 900}}\n"                                                               \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 20, max_from_source: 3, max_of_source: 5, life: 600}\n"                 \
	"      PAIRS: {max_from_source: 3, life: 600}\n"

static int64_t source_count(struct service *s, const char *subject, const char *sk, const char *ip)
{
	struct bytes id = hashed(s, IDENTIFIER_IP, ip);
	struct item  row;
	bool         found;

	if (subject == NULL)
		found = row_find(s, id, bytes_of(sk), &row);
	else
		found = row_find(s, bytes_of(subject),
		                 arena_printf(&s->f.arena, "%s#%.*s", sk, BYTES_ARG(id)), &row);
	return found ? row_i64(&row, "count", 0) : 0;
}

TEST(sources, a_subject_from_one_source_is_locked_there_and_not_elsewhere)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, SOURCES);
	FAIL_TIMES(&s, 2, .ip = "192.0.2.1");
	assert_int_equal(source_count(&s, "alice", "SIGN_IN#SOURCE_ERROR_COUNT#PASSWORD_ENTRY", "192.0.2.1"),
	                 2);
	r = FAIL(&s, .ip = "192.0.2.1");
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_int_equal(source_count(&s, "alice", "SIGN_IN#SOURCE_LOCK#PASSWORD_ENTRY", "192.0.2.1"), 1);
	assert_int_equal(source_count(&s, "alice", "SIGN_IN#SOURCE_ERROR_COUNT#PASSWORD_ENTRY", "192.0.2.1"),
	                 0);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 3); /* the subject's goes on */
	r = FAIL(&s, .ip = "192.0.2.1");
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = FAIL(&s, .ip = "192.0.2.2");
	assert_verdict(&r, VERDICT_ALLOW, true);
	r = FAIL(&s, .ip = "192.0.2.1", .subject = "bob");
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

TEST(sources, one_that_tries_many_subjects_is_locked_for_all_of_them)
{
	struct service        s;
	struct attempt_result r;
	char                  subject[16];

	service_open(&s, SOURCES);
	for (int i = 1; i <= 5; i++) {
		snprintf(subject, sizeof(subject), "user-%d", i);
		r = FAIL(&s, .ip = "192.0.2.1", .subject = subject);
		assert_verdict(&r, i < 5 ? VERDICT_ALLOW : VERDICT_LOCKED, true);
	}
	assert_int_equal(source_count(&s, NULL, PASSWORD_LOCK, "192.0.2.1"), 1);
	r = SUCCEED(&s, .ip = "192.0.2.1", .subject = "user-9");
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = SUCCEED(&s, .ip = "192.0.2.2", .subject = "user-1");
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}

TEST(sources, the_subject_is_bounded_whatever_the_sources)
{
	struct service        s;
	struct attempt_result r;
	char                  ip[32];

	service_open(&s, SOURCES);
	for (int i = 0; i < 20; i++) {
		snprintf(ip, sizeof(ip), "192.0.2.%d", i);
		r = FAIL(&s, .ip = ip);
		assert_verdict(&r, i < 19 ? VERDICT_ALLOW : VERDICT_LOCKED, true);
	}
	r = FAIL(&s, .ip = "198.51.100.1");
	assert_verdict(&r, VERDICT_LOCKED, false);
	service_close(&s);
}

/* Identifier + IP mode: nobody locks a subject out from elsewhere. */
TEST(sources, where_only_pairs_are_counted_a_subject_is_never_locked_as_such)
{
	struct service        s;
	struct attempt_result r;
	char                  ip[32];

	service_open(&s, SOURCES);
	for (int i = 0; i < 50; i++) {
		snprintf(ip, sizeof(ip), "192.0.2.%d", i % 10);
		r = FAIL(&s, .type = "PAIRS", .ip = ip);
		assert_verdict(&r, i < 20 ? VERDICT_ALLOW : VERDICT_LOCKED, i < 30);
	}
	r = SUCCEED(&s, .type = "PAIRS", .ip = "198.51.100.1");
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}

TEST(sources, an_allowed_one_is_not_counted_but_the_subject_is)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, SOURCES);
	r = FAIL_TIMES(&s, 19, .ip = "10.0.0.1", .allowed = true);
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(rows_in_table(&s), 1);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 19);
	service_close(&s);
}

TEST(sources, no_address_stands_in_any_row)
{
	struct service     s;
	struct buf         out;
	struct json_writer w;
	union answer       a;

	service_open(&s, SOURCES);
	FAIL_TIMES(&s, 4, .ip = "203.0.113.77", .device = "secret-device");
	SUCCEED(&s, .ip = "203.0.113.78", .device = "secret-device");
	a = fixture_ok(&s.f, "Scan", "{'TableName':'auth-state'}");
	assert_true(a.query.count >= 2);
	buf_init(&out, &s.f.arena);
	json_writer_init(&w, &out);
	json_begin_array(&w);
	for (uint32_t i = 0; i < a.query.count; i++)
		wire_item_write(&w, &a.query.items[i]);
	json_end_array(&w);
	assert_true(bytes_contains(buf_bytes(&out), BYTES("ip:")));
	assert_false(bytes_contains(buf_bytes(&out), BYTES("203.0.113")));
	assert_false(bytes_contains(buf_bytes(&out), BYTES("secret-device")));
	service_close(&s);
}

/* ---- known devices ---- */

#define LANE                                                                                                 \
	"locks: {STANDARD: {duration: 900}}\n"                                                               \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 3, life: 600, known_device: {max: 4, remember: 1000}}\n"

TEST(known_device, signs_in_while_everyone_else_is_locked_out)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, LANE);
	r = SUCCEED(&s, .device = "phone");
	assert_false(r.known_device);
	FAIL_TIMES(&s, 3);
	r = FAIL(&s, .device = "stranger");
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = SUCCEED(&s, .device = "phone");
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_true(r.known_device);
	r = SUCCEED(&s, .subject = "bob", .device = "phone"); /* known to alice only */
	assert_false(r.known_device);
	service_close(&s);
}

TEST(known_device, has_a_budget_of_its_own_that_others_do_not_touch_and_that_does_not_touch_theirs)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, LANE);
	SUCCEED(&s, .device = "phone");
	SUCCEED(&s, .device = "laptop");
	FAIL_TIMES(&s, 2);
	r = FAIL_TIMES(&s, 3, .device = "phone");
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.nearest.count, 3);
	assert_int_equal(r.nearest.remaining, 1);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 2);
	r = FAIL(&s, .device = "phone");
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_true(bytes_starts_with(r.verdict.sk, BYTES("SIGN_IN#DEVICE_LOCK#PASSWORD_ENTRY#device:")));
	r = SUCCEED(&s, .device = "phone");
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = SUCCEED(&s, .device = "laptop");
	assert_verdict(&r, VERDICT_ALLOW, false);
	r = FAIL(&s); /* the third of the others */
	assert_verdict(&r, VERDICT_LOCKED, true);
	at(&s, 900);
	r = SUCCEED(&s, .device = "phone");
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_true(r.known_device);
	service_close(&s);
}

TEST(known_device, its_success_clears_its_own_count_and_not_the_attackers)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, LANE);
	SUCCEED(&s, .device = "phone");
	FAIL_TIMES(&s, 2);
	FAIL_TIMES(&s, 2, .device = "phone");
	r = SUCCEED(&s, .device = "phone");
	assert_int_equal(r.cleared_count, 1);
	assert_int_equal(r.cleared[0].count, 2);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 2);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_LOCKED, true);
	service_close(&s);
}

TEST(known_device, is_forgotten_after_its_time_and_each_success_begins_it_anew)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, LANE);
	SUCCEED(&s, .device = "phone");
	at(&s, 999);
	r = SUCCEED(&s, .device = "phone");
	assert_true(r.known_device);
	at(&s, 999 + 999);
	r = FAIL(&s, .device = "phone"); /* a failure does not */
	assert_true(r.known_device);
	at(&s, 999 + 1000);
	r = FAIL(&s, .device = "phone");
	assert_false(r.known_device);
	service_close(&s);
}

TEST(known_device, is_known_by_any_of_the_subjects_ids)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, LANE);
	SUCCEED(&s, .subject = "pairwise", .device = "phone");
	FAIL_TIMES(&s, 3);
	r = SUCCEED(&s, .subject = "alice", .pairwise = "pairwise", .device = "phone");
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_true(r.known_device);
	service_close(&s);
}

TEST(known_device, is_not_made_known_by_a_success_that_was_refused)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, LANE);
	FAIL_TIMES(&s, 3);
	r = SUCCEED(&s, .device = "stolen");
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = SUCCEED(&s, .device = "stolen");
	assert_false(r.known_device);
	assert_verdict(&r, VERDICT_LOCKED, false);
	service_close(&s);
}

#define SECOND_FACTOR                                                                                        \
	"locks: {STANDARD: {duration: 900}}\n"                                                               \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 3, life: 600, known_device: {max: 4, remember: 1000, after: "           \
	"[CODE_ENTRY]}}\n"                                                                                   \
	"      CODE_ENTRY: {max: 3, life: 600}\n"                                                            \
	"      CODE_ENTRY/SMS: {max: 3, life: 600}\n"

TEST(known_device, becomes_known_only_by_the_last_step_where_the_policy_names_one)
{
	static const char *const methods[] = {NULL, "SMS"};
	struct service           s;
	struct attempt_result    r;

	service_open(&s, SECOND_FACTOR);
	for (int i = 0; i < 2; i++) {
		const char *device = i == 0 ? "phone" : "laptop";

		SUCCEED(&s, .device = device);
		r = SUCCEED(&s, .device = device); /* the password alone, however often */
		assert_false(r.known_device);
		SUCCEED(&s, .type = "CODE_ENTRY", .method_type = methods[i], .device = device);
		r = FAIL(&s, .device = device);
		assert_true(r.known_device);
	}
	at(&s, 999);
	SUCCEED(&s, .device = "phone"); /* does not begin its time anew, either */
	at(&s, 1000);
	r = FAIL(&s, .device = "phone");
	assert_false(r.known_device);
	service_close(&s);
}

/* A lock that a person set, a lock without an end and a state hold in every lane. */
TEST(known_device, is_kept_out_by_what_people_set)
{
	static const char *const rows[] = {
	        "{'TableName':'auth-state','Item':{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#LOCK#PASSWORD_ENTRY'"
	        "},"
	        "'count':{'N':'1'},'ttl':{'N':'1789000900'},'block_type':{'S':'STANDARD'}}}",
	        "{'TableName':'auth-state','Item':{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#LOCK#PASSWORD_ENTRY'"
	        "},"
	        "'count':{'N':'1'},'cause':{'S':'SIGN_IN/PASSWORD_ENTRY'},'block_type':{'S':'PERMANENT'}}}",
	        "{'TableName':'auth-state','Item':{'PK':{'S':'alice'},'SK':{'S':'ACCOUNT_INTERVENTION#STATE#"
	        "BLOCKED'},"
	        "'count':{'N':'1'}}}"};
	static const enum verdict_kind kinds[] = {VERDICT_LOCKED, VERDICT_LOCKED_PERMANENT, VERDICT_BLOCKED};
	struct service                 s;
	struct attempt_result          r;

	service_open(&s, LANE);
	SUCCEED(&s, .device = "phone");
	for (int i = 0; i < 3; i++) {
		fixture_ok(&s.f, "PutItem", rows[i]);
		r = SUCCEED(&s, .device = "phone");
		assert_verdict(&r, kinds[i], false);
	}
	service_close(&s);
}
