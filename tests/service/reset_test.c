/* Resets: what a new password clears, in every lane, and how much at once. */
#include "service/resetting.h"

#define LANES                                                                                                \
	"locks:\n"                                                                                           \
	"  STANDARD: {duration: 900, factor: 2, cap: 3600, forget: 3600}\n"                                  \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 2, max_from_source: 2, life: 900, qualifier: method,\n"                 \
	"                       known_device: {max: 2, remember: 9000, after: [PASSWORD_ENTRY]}}\n"          \
	"      PASSWORD_ENTRY_TWICE: {max: 2, life: 900}\n"                                                  \
	"resets:\n"                                                                                          \
	"  PASSWORD: {counts: [SIGN_IN/PASSWORD_ENTRY], locks: [SIGN_IN/PASSWORD_ENTRY], ends_demand: "      \
	"true}\n"

TEST(reset, of_a_password_clears_what_the_shipped_policies_say_and_nothing_else)
{
	struct service      s;
	struct reset_result r;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 6); /* locks */
	FAIL_TIMES(&s, 3, .journey = "REAUTHENTICATION");
	FAIL(&s, .type = "EMAIL_CODE_ENTRY");
	SENT_TIMES(&s, 6, .type = "PASSWORD_RESET_REQUEST");
	FAIL(&s, .subject = "bob");
	r = reset(&s);
	assert_int_equal(r.count, 6);
	assert_bytes(r.cleared[0].sk, PASSWORD_LOCK);
	assert_bytes(r.cleared[1].sk, "SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY");
	assert_bytes(r.cleared[2].sk, "SIGN_IN#LOCK#PASSWORD_RESET");
	assert_bytes(r.cleared[3].sk, "SIGN_IN#LOCK_LEVEL#PASSWORD_RESET");
	assert_bytes(r.cleared[4].sk, STREAK);
	assert_int_equal(r.cleared[4].count, 6 + 3 + 1);
	assert_bytes(r.cleared[5].sk, "REAUTHENTICATION#ERROR_COUNT#PASSWORD_ENTRY");
	assert_int_equal(r.cleared[5].count, 3);
	assert_false(r.more);
	assert_true(row_there(&s, "alice", "SIGN_IN#ERROR_COUNT#EMAIL_CODE_ENTRY"));
	assert_true(row_there(&s, "bob", PASSWORDS));
	assert_int_equal(rows_in_table(&s), 6); /* those two, when it was reset, and the same for each type */
	service_close(&s);
}

TEST(reset, clears_every_qualifier_and_lane_but_not_what_only_begins_alike)
{
	struct service      s;
	struct reset_result r;

	service_open(&s, LANES);
	SUCCEED(&s);
	FAIL(&s, .token = SUCCEED(&s).device.token);
	FAIL_TIMES(&s, 2, .ip = "192.0.2.1", .method_type = "PIN");
	row_put(&s,
	        "{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY#A'},'count':{'N':'1'}}");
	row_put(&s, "{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#SHADOW_LOCK#PASSWORD_ENTRY'},'count':{'N':'1'}}");
	FAIL(&s, .type = "PASSWORD_ENTRY_TWICE");
	r = reset(&s);
	assert_int_equal(r.count, 7);
	assert_int_equal(r.devices, 2);
	assert_true(row_there(&s, "alice", "SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY_TWICE"));
	assert_int_equal(rows_in_table(&s),
	                 4); /* that, when it was reset, the same of its type, tokens issued */
	service_close(&s);
}

static void sources_put(struct service *s, int count)
{
	for (int i = 0; i < count; i++)
		row_put(s, arena_printf(&s->f.arena,
		                        "{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#SOURCE_ERROR_COUNT#"
		                        "PASSWORD_ENTRY#%d'},'count':{'N':'1'}}",
		                        i)
		                   .data);
}

TEST(reset, of_a_subject_under_attack_clears_the_locks_first_and_says_that_more_is_left)
{
	struct service      s;
	struct reset_result r;

	service_open(&s, LANES);
	FAIL_TIMES(&s, 2); /* a lock, and its level */
	row_put(&s, "{'PK':{'S':'alice'},'SK':{'S':'ACCOUNT_INTERVENTION#STATE#RESET_PASSWORD'}}");
	sources_put(&s, RESET_ROWS_MAX - 1);
	r = reset(&s);
	assert_int_equal(r.count, RESET_ROWS_MAX);
	assert_true(r.more && r.met.demand_ended);
	assert_bytes(r.cleared[0].sk, PASSWORD_LOCK);
	r = reset(&s);
	assert_int_equal(r.count, 1);
	assert_false(r.more);
	service_close(&s);
}

TEST(reset, of_as_many_rows_as_fit_leaves_nothing)
{
	struct service      s;
	struct reset_result r;

	service_open(&s, LANES);
	FAIL(&s, .subject = "bob");
	sources_put(&s, RESET_ROWS_MAX);
	r = reset(&s);
	assert_int_equal(r.count, RESET_ROWS_MAX);
	assert_false(r.more);
	service_close(&s);
}

/* A page of a query ends at 1 MB. */
TEST(reset, goes_on_to_the_next_page_of_the_rows)
{
	enum { ROWS = 70, PADDING = 20000 };
	struct service      s;
	struct reset_result r;
	char                body[PADDING + 200];

	service_open(&s, LANES);
	FAIL(&s, .subject = "bob"); /* makes the table */
	for (int i = 0; i < ROWS; i++) {
		snprintf(body, sizeof(body),
		         "{'TableName':'auth-state','Item':{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#"
		         "SOURCE_ERROR_COUNT#PASSWORD_ENTRY#%d'},'padding':{'S':'%0*d'}}}",
		         i, PADDING, 0);
		fixture_ok(&s.f, "PutItem", body);
	}
	r = reset(&s);
	assert_int_equal(r.count, ROWS);
	assert_false(r.more);
	service_close(&s);
}
