/* Known devices: the tokens, the lanes they open, and what they are worth to a thief. Numbers are of device.h. */
#include "service/resetting.h"

#define LANE                                                                                                 \
	"locks: {STANDARD: {duration: 900}}\n"                                                               \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 3, life: 600, known_device: {max: 4, remember: 100000}}\n"              \
	"resets:\n"                                                                                          \
	"  PASSWORD: {counts: [SIGN_IN/PASSWORD_ENTRY], locks: [SIGN_IN/PASSWORD_ENTRY]}\n"

enum { LANE_MAX = 4, LANES_MAX = 12, DEVICES = 10, REMEMBER_S = 100000 };

static const struct bytes none = {NULL, 0};

static bool opens(struct service *s, struct bytes token)
{
	return SUCCEED(s, .token = token, .forgetful = true).known_device;
}

/* ---- the lane ---- */

TEST(known_device, signs_in_while_everyone_else_is_locked_out)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, LANE);
	r = SUCCEED(&s);
	assert_false(r.known_device);
	token = r.device.token;
	assert_int_equal(token.len, DEVICE_TOKEN_CHARS);
	assert_int_equal(r.device.expires_s, START_S + REMEMBER_S);
	FAIL_TIMES(&s, 3);
	r = FAIL(&s, .token = BYTES("any-text-that-a-caller-sends"));
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = SUCCEED(&s, .token = token);
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_true(r.known_device);
	service_close(&s);
}

TEST(known_device, is_a_stranger_to_every_other_subject)
{
	struct service s;
	struct bytes   alices, bobs;

	service_open(&s, LANE);
	alices = SUCCEED(&s).device.token;
	bobs = SUCCEED(&s, .subject = "bob").device.token;
	assert_true(opens(&s, alices));
	assert_false(opens(&s, bobs));
	assert_false(SUCCEED(&s, .subject = "bob", .token = alices).known_device);
	service_close(&s);
}

/* Every bit of every character: none of them is one that another token has. */
TEST(known_device, opens_nothing_with_a_token_that_differs_in_one_bit)
{
	struct service s;
	struct bytes   token;
	char           text[DEVICE_TOKEN_CHARS], name[DEVICE_NAME_CHARS];
	struct bytes   changed = {text, sizeof(text)};

	service_open(&s, LANE);
	token = SUCCEED(&s).device.token;
	assert_true(device_token_read(s.device_keys, token, BYTES("alice"), name));
	for (int bit = 0; bit < 8 * DEVICE_TOKEN_CHARS; bit++) {
		memcpy(text, token.data, sizeof(text));
		text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
		assert_false(device_token_read(s.device_keys, changed, BYTES("alice"), name));
	}
	for (size_t len = 0; len < DEVICE_TOKEN_CHARS; len++)
		assert_false(device_token_read(s.device_keys, (struct bytes){token.data, len}, BYTES("alice"),
		                               name));
	assert_false(opens(&s, (struct bytes){token.data, token.len - 4}));
	service_close(&s);
}

/* What a thief of the signing key alone can make: the row of its device is missing. */
TEST(known_device, opens_nothing_with_a_token_that_is_signed_but_was_never_issued)
{
	static const uint8_t id[DEVICE_ID_BYTES] = {99};
	struct service       s;
	char                 text[DEVICE_TOKEN_CHARS];

	service_open(&s, LANE);
	SUCCEED(&s);
	device_token_make(s.device_keys, id, BYTES("alice"), START_S, text);
	assert_false(opens(&s, (struct bytes){text, sizeof(text)}));
	service_close(&s);
}

TEST(known_device, is_not_made_known_by_a_success_that_was_refused)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, LANE);
	FAIL_TIMES(&s, 3);
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_LOCKED, false);
	assert_int_equal(r.device.token.len, 0);
	service_close(&s);
}

TEST(known_device, is_not_made_where_the_caller_wants_none)
{
	struct service s;

	service_open(&s, LANE);
	assert_int_equal(SUCCEED(&s, .forgetful = true).device.token.len, 0);
	assert_int_equal(rows_in_table(&s), 0);
	service_close(&s);
}

/* (1) One's own id in front of a stranger's does not open the stranger's lane. */
TEST(known_device, is_known_for_all_ids_of_the_call_or_for_none)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, LANE);
	token = SUCCEED(&s).device.token;
	r = FAIL(&s, .pairwise = "victim", .token = token);
	assert_false(r.known_device);
	r = SUCCEED(&s, .pairwise = "alice-2", .token = token); /* now she is both */
	assert_false(r.known_device);
	token = r.device.token;
	assert_true(SUCCEED(&s, .pairwise = "alice-2", .token = token, .forgetful = true).known_device);
	assert_true(opens(&s, token));
	assert_false(SUCCEED(&s, .subject = "alice-2", .token = token, .forgetful = true).known_device);
	r = FAIL(&s, .pairwise = "victim", .token = token);
	assert_false(r.known_device);
	service_close(&s);
}

TEST(known_device, is_known_for_sixteen_other_ids_and_the_newest_take_the_place_of_the_rest)
{
	struct service s;
	struct bytes   token = none;
	char           other[16];
	int            known = 0;

	service_open(&s, LANE);
	for (int i = 0; i <= DEVICE_SUBJECTS_MAX; i++) {
		snprintf(other, sizeof(other), "other-%d", i);
		token = SUCCEED(&s, .pairwise = other, .token = token).device.token;
	}
	for (int i = 0; i <= DEVICE_SUBJECTS_MAX; i++) {
		snprintf(other, sizeof(other), "other-%d", i);
		known += SUCCEED(&s, .pairwise = other, .token = token, .forgetful = true).known_device;
	}
	assert_int_equal(known, DEVICE_SUBJECTS_MAX);
	assert_true(SUCCEED(&s, .pairwise = other, .token = token, .forgetful = true)
	                    .known_device); /* the newest */
	service_close(&s);
}

/* A lock that a person set, with or without an end, and a state hold in every lane. */
TEST(known_device, is_kept_out_by_what_people_set)
{
	static const char *const rows[] = {
	        "{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#LOCK#PASSWORD_ENTRY'},"
	        "'count':{'N':'1'},'ttl':{'N':'1789000900'},'block_type':{'S':'STANDARD'},'set_by':{'S':'"
	        "carol'}}",
	        "{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#LOCK#PASSWORD_ENTRY'},"
	        "'count':{'N':'1'},'block_type':{'S':'PERMANENT'},'set_by':{'S':'carol'}}",
	        "{'PK':{'S':'alice'},'SK':{'S':'ACCOUNT_INTERVENTION#STATE#BLOCKED'},'count':{'N':'1'}}"};
	static const enum verdict_kind kinds[] = {VERDICT_LOCKED, VERDICT_LOCKED_PERMANENT, VERDICT_BLOCKED};
	struct service                 s;
	struct attempt_result          r;
	struct bytes                   token;

	service_open(&s, LANE);
	token = SUCCEED(&s).device.token;
	for (int i = 0; i < 3; i++) {
		row_put(&s, rows[i]);
		r = SUCCEED(&s, .token = token);
		assert_verdict(&r, kinds[i], false);
	}
	service_close(&s);
}

/* Else strangers who go on guessing could lock an owner out until someone helps her. */
TEST(known_device, signs_in_also_when_the_locks_of_strangers_became_permanent)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(
	        &s,
	        "locks: {STANDARD: {duration: 60, then: PERMANENT, after: 1}, PERMANENT: {permanent: true}}\n"
	        "journeys:\n"
	        "  SIGN_IN:\n"
	        "    types:\n"
	        "      PASSWORD_ENTRY: {max: 1, life: 30, max_of_source: 2, source_lock: PERMANENT, "
	        "without_source: skip, known_device: {max: 4}}\n");
	token = SUCCEED(&s).device.token;
	FAIL(&s, .ip = "192.0.2.1");
	at(&s, 100);
	r = FAIL(&s, .ip = "192.0.2.1");
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, true);
	FAIL_TIMES(&s, 2, .subject = "bob", .ip = "192.0.2.1");
	r = SUCCEED(&s, .subject = "carol", .ip = "192.0.2.1");
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, false); /* the source, too */
	r = SUCCEED(&s, .token = token, .ip = "192.0.2.1");
	assert_verdict(&r, VERDICT_ALLOW, false);
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, false);
	service_close(&s);
}

/* ---- time ---- */

TEST(known_device, is_forgotten_after_its_time_and_each_success_begins_it_anew)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, LANE);
	token = SUCCEED(&s).device.token;
	at(&s, REMEMBER_S - 1);
	r = SUCCEED(&s, .token = token);
	assert_true(r.known_device);
	token = r.device.token;
	at(&s, 2 * REMEMBER_S - 2);
	assert_true(FAIL(&s, .token = token).known_device); /* a failure does not */
	at(&s, 2 * REMEMBER_S - 1);
	assert_false(FAIL(&s, .token = token).known_device);
	service_close(&s);
}

/* (2) The new token may have been lost on its way. */
TEST(known_device, keeps_its_old_token_for_a_day_after_a_new_one_was_issued)
{
	struct service s;
	struct bytes   old, new;

	service_open(&s, LANE);
	old = SUCCEED(&s).device.token;
	new = SUCCEED(&s, .token = old).device.token;
	assert_true(new.len > 0 && !bytes_equal(old, new));
	at(&s, DEVICE_GRACE_S - 1);
	assert_true(opens(&s, old));
	at(&s, DEVICE_GRACE_S);
	assert_false(opens(&s, old));
	assert_true(opens(&s, new));
	service_close(&s);
}

TEST(known_device, of_the_scheme_before_opens_nothing_and_its_row_expires)
{
	struct service s;
	char           name[64];

	service_open(&s, LANE);
	SUCCEED(&s, .subject = "bob"); /* makes the table */
	snprintf(name, sizeof(name), "%.*s", BYTES_ARG(hashed(&s, IDENTIFIER_DEVICE, "phone")));
	row_put(&s, arena_printf(&s.f.arena,
	                         "{'PK':{'S':'alice'},'SK':{'S':'DEVICE#KNOWN#%s'},'ttl':{'N':'%lld'}}", name,
	                         (long long)START_S + 10)
	                    .data);
	assert_false(opens(&s, BYTES("phone")));
	assert_false(opens(&s, bytes_of(name)));
	assert_int_equal(rows_in_table(&s), 3); /* that, and two of bob's */
	at(&s, 10);
	assert_int_equal(rows_in_table(&s), 2);
	service_close(&s);
}

/* ---- what a token is worth ---- */

TEST(known_device, has_a_budget_of_its_own_that_others_do_not_touch_and_that_does_not_touch_theirs)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          phone, laptop;

	service_open(&s, LANE);
	phone = SUCCEED(&s).device.token;
	laptop = SUCCEED(&s).device.token;
	FAIL_TIMES(&s, 2);
	r = FAIL_TIMES(&s, 3, .token = phone);
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.nearest.count, 3);
	assert_int_equal(r.nearest.remaining, 1);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 2);
	assert_true(opens(&s, laptop));
	r = FAIL(&s); /* the third of the others */
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_true(opens(&s, phone));
	service_close(&s);
}

TEST(known_device, is_forgotten_by_the_failure_that_uses_up_its_budget_and_is_told_what_strangers_are)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, LANE);
	token = SUCCEED(&s).device.token;
	FAIL_TIMES(&s, 3);
	FAIL_TIMES(&s, 3, .token = token);
	r = FAIL(&s, .token = token);
	assert_true(r.known_device);
	assert_true(r.device_revoked);
	assert_verdict(&r, VERDICT_LOCKED, true); /* as everyone else */
	r = SUCCEED(&s, .token = token);
	assert_false(r.known_device);
	assert_verdict(&r, VERDICT_LOCKED, false);
	service_close(&s);
}

/* How many guesses a thief makes who waits as long as it takes, while the owner signs in every day. */
static int64_t theft(struct service *s, bool owner)
{
	struct bytes stolen = SUCCEED(s).device.token, own = stolen;
	int64_t      guesses = 0;

	for (int day = 0; day < 30; day++) {
		at(s, day * INT64_C(3000));
		for (int i = 0; i < 3; i++)
			guesses += FAIL(s, .token = stolen).known_device;
		if (owner)
			own = SUCCEED(s, .token = own).device.token;
	}
	return guesses;
}

TEST(known_device, whose_token_is_stolen_is_worth_its_budget_once_however_long_the_thief_waits)
{
	struct service s;

	service_open(&s, LANE);
	assert_int_equal(theft(&s, false), LANE_MAX);
	service_close(&s);
}

TEST(known_device, whose_token_is_stolen_gives_the_thief_no_more_when_the_owner_signs_in)
{
	struct service s;

	service_open(&s, LANE);
	assert_int_equal(theft(&s, true), LANE_MAX);
	service_close(&s);
}

TEST(known_device, with_the_right_password_alone_gets_nothing_back_where_there_is_a_second_factor)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, NULL);
	token = SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS").device.token;
	FAIL_TIMES(&s, 2, .token = token);
	r = SUCCEED(&s, .token = token);
	assert_true(r.known_device);
	assert_int_equal(r.device.token.len, 0);
	assert_int_equal(r.nearest.remaining, 4);
	r = SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS", .token = token);
	r = FAIL(&s, .token = r.device.token);
	assert_true(r.known_device);
	assert_int_equal(r.nearest.remaining, 5);
	service_close(&s);
}

/* (3), (4) */
TEST(known_device, is_one_of_ten_and_all_lanes_together_get_three_times_the_budget_of_one)
{
	struct service s;
	struct bytes   tokens[DEVICES + 1];
	int64_t        guesses = 0;

	service_open(&s, LANE);
	for (int i = 0; i <= DEVICES; i++) {
		at(&s, i);
		tokens[i] = SUCCEED(&s).device.token;
	}
	assert_false(opens(&s, tokens[0])); /* the oldest */
	for (int i = 1; i <= DEVICES; i++)
		assert_true(opens(&s, tokens[i]));
	for (int round = 0; round < 20; round++)
		for (int i = 0; i <= DEVICES; i++)
			guesses += FAIL(&s, .token = tokens[i]).known_device;
	assert_int_equal(guesses, LANES_MAX);
	assert_false(opens(&s, tokens[DEVICES])); /* closed, whatever is left of it */
	at(&s, DEVICES + 600);
	assert_true(opens(&s, tokens[DEVICES])); /* the count of all has expired */
	service_close(&s);
}

TEST(known_device, takes_its_own_failures_off_the_count_of_all_when_its_owner_gets_in)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token, other;

	service_open(&s, LANE);
	token = SUCCEED(&s).device.token;
	other = SUCCEED(&s).device.token;
	FAIL(&s, .token = other);
	for (int i = 0; i < 10; i++) {
		FAIL_TIMES(&s, 2, .token = token);
		r = SUCCEED(&s, .token = token);
		assert_true(r.known_device);
		assert_int_equal(count_in(&s, "alice", "SIGN_IN#DEVICE_ERROR_COUNT#PASSWORD_ENTRY"), 1);
		token = r.device.token;
	}
	service_close(&s);
}

TEST(known_device, that_was_replaced_is_forgotten_before_one_that_was_not)
{
	struct service s;
	struct bytes   first, tokens[DEVICES - 1];

	service_open(&s, LANE);
	first = SUCCEED(&s).device.token;
	for (int i = 0; i < DEVICES - 1; i++)
		tokens[i] = SUCCEED(&s).device.token;
	for (int i = 0; i < 5; i++)
		tokens[0] = SUCCEED(&s, .token = tokens[0]).device.token;
	assert_true(opens(&s, first));
	for (int i = 0; i < DEVICES - 1; i++)
		assert_true(opens(&s, tokens[i]));
	service_close(&s);
}

TEST(known_device, has_bounds_that_the_policy_sets)
{
	struct service s;
	struct bytes   first, second;
	int64_t        guesses = 0;

	service_open(&s, "locks: {STANDARD: {duration: 900}}\n"
	                 "journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: 3, life: 600, "
	                 "known_device: {max: 4, devices: 1, max_all: 2}}}}}\n");
	first = SUCCEED(&s).device.token;
	second = SUCCEED(&s).device.token;
	assert_false(opens(&s, first));
	for (int i = 0; i < 5; i++)
		guesses += FAIL(&s, .token = second).known_device;
	assert_int_equal(guesses, 2);
	service_close(&s);
}

/* ---- what makes a device known ---- */

#define SECOND_FACTOR                                                                                        \
	"locks: {STANDARD: {duration: 900}}\n"                                                               \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 3, life: 600, known_device: {max: 4, remember: 1000, after: "           \
	"[CODE_ENTRY]}}\n"                                                                                   \
	"      CODE_ENTRY: {max: 3, life: 600}\n"                                                            \
	"      CODE_ENTRY/SMS: {max: 3, life: 600}\n"                                                        \
	"      PIN_ENTRY: {max: 3, life: 600, known_device: {max: 4, remember: 5000, after: [PIN_ENTRY]}}\n"

TEST(known_device, becomes_known_only_by_the_types_that_the_policy_names)
{
	static const char *const methods[] = {NULL, "SMS"};
	struct service           s;
	struct attempt_result    r;
	struct bytes             token;

	service_open(&s, SECOND_FACTOR);
	assert_int_equal(SUCCEED(&s).device.token.len, 0); /* the password alone */
	for (int i = 0; i < 2; i++) {
		token = SUCCEED(&s, .type = "CODE_ENTRY", .method_type = methods[i]).device.token;
		assert_true(opens(&s, token));
	}
	at(&s, 999);
	r = SUCCEED(&s, .token = token); /* does not begin its time anew, either */
	assert_true(r.known_device);
	assert_int_equal(r.device.token.len, 0);
	at(&s, 1000);
	assert_false(opens(&s, token));
	service_close(&s);
}

TEST(known_device, that_another_type_made_known_does_not_get_past_after)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, SECOND_FACTOR);
	token = SUCCEED(&s, .type = "PIN_ENTRY").device.token;
	assert_true(token.len > 0);
	assert_false(opens(&s, token));
	r = SUCCEED(&s, .type = "CODE_ENTRY", .token = token);
	token = r.device.token;
	assert_true(opens(&s, token)); /* now it passed both */
	assert_true(SUCCEED(&s, .type = "PIN_ENTRY", .token = token, .forgetful = true).known_device);
	at(&s, 1000);
	assert_false(opens(&s, token)); /* each for its own time */
	assert_true(SUCCEED(&s, .type = "PIN_ENTRY", .token = token, .forgetful = true).known_device);
	service_close(&s);
}

TEST(known_device, needs_the_second_factor_of_the_journey_unless_the_policy_says_otherwise)
{
	struct service s;

	service_open(
	        &s,
	        "locks: {STANDARD: {duration: 900}}\n"
	        "journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: 3, life: 600, known_device: {max: 4}}, "
	        "CODE: {max: 3, life: 600, qualifier: method}}}}\n");
	assert_int_equal(SUCCEED(&s).device.token.len, 0);
	assert_true(opens(&s, SUCCEED(&s, .type = "CODE", .method_id = "phone").device.token));
	service_close(&s);
}

TEST(known_device, of_the_policies_that_ship_needs_the_code)
{
	struct service s;

	service_open(&s, NULL);
	assert_int_equal(SUCCEED(&s).device.token.len, 0);
	assert_true(opens(&s, SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_id = "phone").device.token));
	service_close(&s);
}

/* ---- forgetting ---- */

TEST(known_device, is_forgotten_by_a_reset)
{
	struct service s;
	struct bytes   token;

	service_open(&s, LANE);
	token = SUCCEED(&s).device.token;
	assert_int_equal(reset(&s).devices, 1);
	assert_false(opens(&s, token));
	assert_true(opens(&s, SUCCEED(&s).device.token));
	service_close(&s);
}

TEST(known_device, is_kept_by_a_reset_that_says_so)
{
	struct service s;
	struct bytes   token;

	service_open(&s, "locks: {STANDARD: {duration: 900}}\n"
	                 "journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: 3, life: 600, known_device: "
	                 "{max: 4}}}}}\n"
	                 "resets: {PASSWORD: {devices: keep}}\n");
	token = SUCCEED(&s).device.token;
	assert_int_equal(reset(&s).devices, 0);
	assert_true(opens(&s, token));
	service_close(&s);
}

struct forget_turn {
	struct turn  turn;
	struct bytes name;
	uint32_t     count;
};

static enum err_code forget_run(struct turn *turn, struct err *err)
{
	struct forget_turn *f = (struct forget_turn *)turn;

	return device_forget(&turn->ctx, BYTES("alice"), f->name, &f->count, err);
}

TEST(known_device, that_is_revoked_opens_nothing_and_the_others_stay)
{
	struct service        s;
	struct attempt_result phone, laptop;
	struct forget_turn    f = {0};

	service_open(&s, LANE);
	phone = SUCCEED(&s);
	laptop = SUCCEED(&s);
	f.name = phone.device.name;
	turn_take(&s, &f.turn, forget_run);
	assert_int_equal(f.count, 1);
	assert_false(opens(&s, phone.device.token));
	assert_true(opens(&s, laptop.device.token));
	f.name = none;
	turn_take(&s, &f.turn, forget_run);
	assert_int_equal(f.count, 1);
	assert_false(opens(&s, laptop.device.token));
	service_close(&s);
}

/* ---- keys ---- */

TEST(device_key, that_was_replaced_verifies_what_it_signed_and_one_that_is_gone_does_not)
{
	struct device_key old = {.id = 1, .secret = {1}}, new = {.id = 2, .secret = {2}};
	struct device_key both[] = {new, old};
	struct service    s;
	struct bytes      before, after;

	service_open(&s, LANE);
	before = SUCCEED(&s).device.token;
	document_release(&s.device_keys->base);
	s.device_keys = device_keys_make(both, 2);
	assert_true(opens(&s, before));
	after = SUCCEED(&s).device.token;
	document_release(&s.device_keys->base);
	s.device_keys = device_keys_make(&new, 1);
	assert_false(opens(&s, before));
	assert_true(opens(&s, after));
	document_release(&s.device_keys->base);
	new.secret[31] ^= 1; /* the same id, another secret */
	s.device_keys = device_keys_make(&new, 1);
	assert_false(opens(&s, after));
	service_close(&s);
}

/* ---- at rest ---- */

TEST(known_device, leaves_neither_token_nor_id_in_any_row)
{
	struct service     s;
	struct buf         out;
	struct json_writer w;
	struct bytes       token;
	union answer       a;

	service_open(&s, LANE);
	token = SUCCEED(&s).device.token;
	FAIL(&s, .token = token);
	a = fixture_ok(&s.f, "Scan", "{'TableName':'auth-state'}");
	buf_init(&out, &s.f.arena);
	json_writer_init(&w, &out);
	json_begin_array(&w);
	for (uint32_t i = 0; i < a.query.count; i++)
		wire_item_write(&w, &a.query.items[i]);
	json_end_array(&w);
	assert_true(bytes_contains(buf_bytes(&out), BYTES("DEVICE#COOKIE#")));
	for (size_t i = 0; i + 12 <= token.len; i += 4) /* no part of it, either */
		if (memcmp(token.data + i, "AAAAAAAAAAAA", 12) != 0)
			assert_false(bytes_contains(buf_bytes(&out), (struct bytes){token.data + i, 12}));
	service_close(&s);
}
