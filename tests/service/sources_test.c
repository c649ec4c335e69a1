/* Counters by subject and source, by source alone, allowed sources. The lanes of known devices: device_test.c. */
#include "service/turn.h"

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
	assert_int_equal(source_count(&s, NULL, SOURCE_LOCK, "192.0.2.1"), 1);
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
	FAIL_TIMES(&s, 4, .ip = "203.0.113.77");
	SUCCEED(&s, .ip = "203.0.113.78");
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
	service_close(&s);
}

/* By whichever name, as of a single source: lists call it enforced. */
TEST(sources, a_network_that_a_person_locked_by_the_name_of_a_type_is_stopped_there)
{
	struct service s;
	struct bytes   network;

	service_open(&s, SOURCES);
	FAIL(&s, .subject = "bob"); /* makes the table */
	network = network_of(&s, "2001:db8:1::1");
	row_put(&s, arena_printf(&s.f.arena,
	                         "{'PK':{'S':'%.*s'},'SK':{'S':'" PASSWORD_LOCK
	                         "'},'count':{'N':'1'},'set_by':{'S':'op'}}%c",
	                         BYTES_ARG(network), '\0')
	                    .data);
	assert_int_equal(SUCCEED(&s, .ip = "2001:db8:1:7::9").verdict.kind, VERDICT_LOCKED_PERMANENT);
	assert_int_equal(SUCCEED(&s, .ip = "2001:db8:1:7::9", .allowed = true).verdict.kind,
	                 VERDICT_LOCKED_PERMANENT);
	assert_int_equal(SUCCEED(&s, .ip = "2001:db8:2::9").verdict.kind, VERDICT_ALLOW);
	assert_int_equal(SUCCEED(&s, .type = "PAIRS", .ip = "2001:db8:1:7::9").verdict.kind, VERDICT_ALLOW);
	service_close(&s);
}
