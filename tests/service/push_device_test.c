/* Registered devices: what push_device.h promises, on the engine or the rough store. What becomes of them later is in push_upkeep_test.c, races are in
 * push_race_test.c. */
#include "service/push_devices.h"

#include "service/event.h"
#include "service/user.h"

/* ---- registering ---- */

TEST(push_devices, the_first_registration_makes_a_row_with_the_documents_attributes_and_no_others)
{
	static const char *const names[] = {"deviceId", "expiresAt",    "expoPushToken", "isActive",
	                                    "platform", "registeredAt", "updatedAt",     "userId"};
	struct service           s;
	struct push_registered   r;
	struct push_device       d;

	service_open(&s, NULL);
	r = enrolled(&s, "ann", "phone", TOKEN("a"));
	assert_true(r.created && r.device.active && r.moved == 0);
	assert_true(found(&s, "ann", "phone", &d));
	d.row = item_without(&s.f.arena, &d.row,
	                     BYTES("expiryDueAt")); /* it is there while device.expired is published */
	assert_int_equal(d.row.count, 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_true(bytes_is(d.row.members[i].name, names[i]));
	assert_int_equal(d.expires_s, START_S + PUSH_DEVICE_LIFE_S);
	assert_true(bytes_is(d.tokens[PUSH_EXPO], TOKEN("a")) && bytes_is(d.platform, "ios"));
	check_markers(&s);
	service_close(&s);
}

TEST(push_devices, a_refresh_moves_the_end_and_keeps_registeredAt_3)
{
	struct service         s;
	struct push_registered first, second;

	service_open(&s, NULL);
	first = enrolled(&s, "ann", "phone", TOKEN("a"));
	at(&s, 86400);
	second = enrolled(&s, "ann", "phone", TOKEN("a"));
	assert_true(first.created && !second.created);
	assert_true(bytes_equal(first.device.registered_at, second.device.registered_at));
	assert_false(bytes_equal(first.device.updated_at, second.device.updated_at));
	assert_int_equal(second.device.expires_s, START_S + 86400 + PUSH_DEVICE_LIFE_S);
	check_markers(&s);
	service_close(&s);
}

TEST(push_devices, one_that_is_not_refreshed_is_gone_at_the_second_and_so_are_its_markers)
{
	struct service s;

	service_open(&s, NULL);
	enrolled(&s, "ann", "phone", TOKEN("a"));
	at(&s, PUSH_DEVICE_LIFE_S - 1);
	assert_true(is_there(&s, "ann", "phone"));
	assert_int_equal(listed(&s, "ann", true), 1);
	at(&s, PUSH_DEVICE_LIFE_S);
	assert_false(is_there(&s, "ann", "phone"));
	assert_int_equal(listed(&s, "ann", true), 0);
	assert_int_equal(enrolled(&s, "bob", "phone", TOKEN("a")).moved, 0);
	assert_true(enrolled(&s, "ann", "phone", TOKEN("b")).created);
	service_close(&s);
}

TEST(push_devices, a_token_that_was_rotated_is_free_and_the_new_one_is_taken_2)
{
	struct service s;

	service_open(&s, NULL);
	enrolled(&s, "ann", "phone", TOKEN("a"));
	assert_false(enrolled(&s, "ann", "phone", TOKEN("b")).created);
	check_markers(&s);
	assert_int_equal(enrolled(&s, "bob", "phone", TOKEN("a")).moved, 0);
	assert_int_equal(enrolled(&s, "bob", "tablet", TOKEN("b")).moved, 1);
	assert_false(is_there(&s, "ann", "phone"));
	check_markers(&s);
	service_close(&s);
}

TEST(push_devices, a_token_that_another_user_registers_moves_and_the_old_device_goes_1)
{
	struct service         s;
	struct push_registered r;
	struct push_device     d;

	service_open(&s, NULL);
	enrolled(&s, "ann", "phone", TOKEN("a"));
	r = enrolled(&s, "bob", "phone", TOKEN("a"));
	assert_true(r.created && r.moved == 1);
	assert_false(is_there(&s, "ann", "phone"));
	assert_true(found(&s, "bob", "phone", &d) && d.active);
	check_markers(&s);
	service_close(&s);
}

TEST(push_devices, a_device_that_loses_one_of_two_tokens_keeps_the_other_1)
{
	struct service     s;
	struct push_device d;

	service_open(&s, NULL);
	enrolled_with_two(&s, "ann", "phone");
	check_markers(&s);
	assert_int_equal(enrolled(&s, "bob", "phone", TOKEN("a")).moved, 1);
	assert_true(found(&s, "ann", "phone", &d));
	assert_true(d.tokens[PUSH_EXPO].len == 0 && d.tokens[PUSH_FCM].len > 0 && d.active);
	check_markers(&s);
	enrolled_with_two(&s, "bob", "phone");
	assert_false(is_there(&s, "ann", "phone"));
	check_markers(&s);
	service_close(&s);
}

TEST(push_devices, both_tokens_of_one_device_move_at_once_1)
{
	struct service s;

	service_open(&s, NULL);
	enrolled_with_two(&s, "ann", "phone");
	assert_int_equal(enrolled_with_two(&s, "bob", "phone").moved, 1);
	assert_false(is_there(&s, "ann", "phone"));
	check_markers(&s);
	service_close(&s);
}

TEST(push_devices, a_marker_of_a_row_that_others_changed_says_nothing)
{
	struct service     s;
	struct push_device d;

	service_open(&s, NULL);
	enrolled(&s, "ann", "phone", TOKEN("a"));
	put_literally(&s, "{'userId':{'S':'ann'},'deviceId':{'S':'phone'},'expoPushToken':{'S':'" TOKEN(
	                          "z") "'},'isActive':{'BOOL':true}}");
	assert_int_equal(enrolled(&s, "bob", "phone", TOKEN("a")).moved, 0);
	assert_true(found(&s, "ann", "phone", &d));
	assert_true(bytes_is(d.tokens[PUSH_EXPO], TOKEN("z")));
	service_close(&s);
}

static enum err_code suspended(struct turn *t, struct err *err)
{
	struct user_new     q = {.id = BYTES("ann")};
	struct user_created made;
	struct row          row;

	if (user_create(&t->ctx, &q, &made, err) != ERR_NONE)
		return err->code;
	row_from(&row, t->ctx.arena, &made.user.row);
	row_set_text(&row, "status", BYTES("suspended"));
	user_put(&t->ctx, &made.user, &row);
	return ERR_NONE;
}

TEST(push_devices, the_user_must_be_active_if_there_is_one)
{
	struct service s;
	struct call    c = {.q = registration("ann", "phone", TOKEN("a"))};

	service_open(&s, NULL);
	turn_take(&s, &c.turn, enrol);
	turn_take(&s, &c.turn, suspended);
	c.q.device = BYTES("tablet");
	assert_int_equal(turn_try(&s, &c.turn, enrol), ERR_NOT_NOW);
	assert_false(is_there(&s, "ann", "tablet"));
	assert_true(ended(&s, "ann", "phone", deactivate).changed);
	service_close(&s);
}

/* ---- the maximum ---- */

TEST(push_devices, at_the_maximum_the_least_recently_seen_goes_4)
{
	struct service s;

	service_open(&s, NULL);
	devices_max = 3;
	for (int i = 0; i < 3; i++) {
		at(&s, i);
		enrolled(&s, "ann", arena_printf(&s.f.arena, "d%d", i).data,
		         arena_printf(&s.f.arena, TOKEN("%d"), i).data);
	}
	assert_int_equal(listed(&s, "ann", false), 3);
	at(&s, 10);
	assert_int_equal(enrolled(&s, "ann", "d0", TOKEN("0")).trimmed, 0);
	assert_int_equal(enrolled(&s, "ann", "d3", TOKEN("3")).trimmed, 1);
	assert_false(is_there(&s, "ann", "d1"));
	assert_true(is_there(&s, "ann", "d0"));
	assert_int_equal(listed(&s, "ann", false), 3);
	check_markers(&s);
	devices_max = 0;
	service_close(&s);
}

TEST(push_devices, a_device_that_takes_the_token_of_another_one_of_its_user_needs_no_more_room_4)
{
	struct service s;

	service_open(&s, NULL);
	devices_max = 2;
	enrolled(&s, "ann", "d0", TOKEN("0"));
	enrolled(&s, "ann", "d1", TOKEN("1"));
	assert_int_equal(enrolled(&s, "ann", "d2", TOKEN("1")).trimmed, 0);
	assert_true(is_there(&s, "ann", "d0") && is_there(&s, "ann", "d2"));
	check_markers(&s);
	devices_max = 0;
	service_close(&s);
}

TEST(push_devices, rows_that_others_wrote_beyond_the_maximum_are_trimmed_by_registrations_4)
{
	struct service s;
	uint32_t       trimmed;

	service_open(&s, NULL);
	enrolled(&s, "ann", "mine", TOKEN("mine"));
	for (int i = 0; i < 150; i++)
		put_literally(&s, arena_printf(&s.f.arena,
		                               "{'userId':{'S':'ann'},'deviceId':{'S':'d%d'},"
		                               "'expoPushToken':{'S':'" TOKEN(
		                                       "%d") "'},"
		                                             "'updatedAt':{'S':'2020-01-01T00:00:00Z'},'"
		                                             "isActive':{'BOOL':true}}",
		                               i, i)
		                          .data);
	trimmed = enrolled(&s, "ann", "new", TOKEN("new")).trimmed;
	assert_true(trimmed > 20);
	for (int i = 0; i < 10 && listed(&s, "ann", true) > 100; i++)
		enrolled(&s, "ann", arena_printf(&s.f.arena, "new-%d", i).data,
		         arena_printf(&s.f.arena, TOKEN("new-%d"), i).data);
	assert_int_equal(listed(&s, "ann", true), 100);
	assert_true(is_there(&s, "ann", "mine") && is_there(&s, "ann", "new"));
	service_close(&s);
}

TEST(push_devices, a_refresh_trims_too_and_never_the_device_itself_4)
{
	struct service s;

	service_open(&s, NULL);
	enrolled(&s, "ann", "mine", TOKEN("mine"));
	for (int i = 0; i < 5; i++) {
		at(&s, 10 + i);
		enrolled(&s, "ann", arena_printf(&s.f.arena, "d%d", i).data,
		         arena_printf(&s.f.arena, TOKEN("%d"), i).data);
	}
	devices_max = 3; /* the policy has changed */
	assert_int_equal(enrolled(&s, "ann", "mine", TOKEN("mine")).trimmed, 3);
	assert_int_equal(enrolled(&s, "ann", "mine", TOKEN("mine")).trimmed, 0);
	devices_max = 0;
	assert_int_equal(listed(&s, "ann", true), 3);
	assert_true(is_there(&s, "ann", "mine") && is_there(&s, "ann", "d3") && is_there(&s, "ann", "d4"));
	check_markers(&s);
	service_close(&s);
}

TEST(push_devices, a_row_with_a_longer_life_than_ours_was_seen_at_its_last_change)
{
	struct service s;

	service_open(&s, NULL);
	enrolled(&s, "ann", "mine", TOKEN("mine"));
	put_literally(&s, "{'userId':{'S':'ann'},'deviceId':{'S':'old'},'isActive':{'BOOL':true},"
	                  "'updatedAt':{'S':'2001-01-01T00:00:00Z'},'expiresAt':{'N':'9999999999'}}");
	devices_max = 2;
	enrolled(&s, "ann", "new", TOKEN("new"));
	devices_max = 0;
	assert_true(is_there(&s, "ann", "mine") && !is_there(&s, "ann", "old"));
	service_close(&s);
}

/* ---- ending ---- */

TEST(push_devices, one_that_is_deactivated_is_kept_out_of_the_list_and_a_registration_brings_it_back)
{
	struct service     s;
	struct push_ended  first, second;
	struct push_device d;

	service_open(&s, NULL);
	enrolled(&s, "ann", "phone", TOKEN("a"));
	first = ended(&s, "ann", "phone", deactivate);
	second = ended(&s, "ann", "phone", deactivate);
	assert_true(first.changed && !second.changed);
	assert_int_equal(listed(&s, "ann", false), 0);
	assert_int_equal(listed(&s, "ann", true), 1);
	assert_true(found(&s, "ann", "phone", &d) && !d.active);
	assert_int_equal(d.expires_s, START_S + PUSH_DEVICE_LIFE_S);
	check_markers(&s);
	assert_false(enrolled(&s, "ann", "phone", TOKEN("a")).created);
	assert_int_equal(listed(&s, "ann", false), 1);
	service_close(&s);
}

TEST(push_devices, one_that_is_removed_leaves_no_marker_and_an_erase_leaves_nothing)
{
	struct service s;
	struct call    c = {.ref = {BYTES("ann"), BYTES("d0")}};

	service_open(&s, NULL);
	for (int i = 0; i < 100; i++)
		enrolled(&s, "ann", arena_printf(&s.f.arena, "d%d", i).data,
		         arena_printf(&s.f.arena, TOKEN("%d"), i).data);
	assert_int_equal(listed(&s, "ann", false), 100);
	enrolled(&s, "bob", "phone", TOKEN("b"));
	ended(&s, "ann", "d0", take_away);
	assert_int_equal(turn_try(&s, &c.turn, take_away), ERR_NOT_FOUND);
	assert_int_equal(turn_try(&s, &c.turn, deactivate), ERR_NOT_FOUND);
	check_markers(&s);
	do
		turn_take(&s, &c.turn, erase);
	while (c.erased.more);
	assert_int_equal(scanned(&s, "device-tokens").count, 1);
	assert_int_equal(scanned(&s, "gatehouse-push-tokens").count, 2); /* bob's */
	check_markers(&s);
	service_close(&s);
}

TEST(push_devices, what_happens_is_published_without_tokens)
{
	static const char *const types[] = {"device.registered", "device.moved", "device.registered",
	                                    "device.deactivated", "device.removed"};
	struct service           s;
	union answer             r;

	service_open(&s, NULL);
	s.all.events.on = EVENT_ALL;
	enrolled(&s, "ann", "phone", TOKEN("a"));
	enrolled(&s, "ann", "phone", TOKEN("a")); /* a refresh is no news */
	enrolled(&s, "bob", "phone", TOKEN("a"));
	ended(&s, "bob", "phone", deactivate);
	ended(&s, "bob", "phone", take_away);
	memset(&r, 0, sizeof(r));
	assert_int_equal(fixture_try(&s.f, "Query",
	                             "{'TableName':'gatehouse-events','KeyConditionExpression':'PK = :p',"
	                             "'ExpressionAttributeValues':{':p':{'S':'LOG#0'}}}",
	                             &r),
	                 ERR_NONE);
	assert_int_equal(r.query.count, 5);
	for (uint32_t i = 0; i < 5; i++) {
		const struct value *data = item_get(&r.query.items[i], BYTES("data"));

		assert_true(bytes_is(row_text(&r.query.items[i], "type"), types[i]));
		for (uint32_t n = 0; n < data->map.count; n++)
			assert_false(bytes_contains(value_text(&data->map.members[n].value), BYTES("Token")));
	}
	service_close(&s);
}

/* ---- lists ---- */

TEST(push_devices, a_list_comes_in_pages_and_holds_each_device_once)
{
	struct service s;
	struct call    c = {.search = {.user = BYTES("ann"), .limit = 3}};
	uint32_t       seen = 0;

	service_open(&s, NULL);
	for (int i = 0; i < 10; i++)
		enrolled(&s, "ann", arena_printf(&s.f.arena, "d%d", i).data,
		         arena_printf(&s.f.arena, TOKEN("%d"), i).data);
	ended(&s, "ann", "d4", deactivate);
	do {
		turn_take(&s, &c.turn, list);
		seen += c.page.count;
		assert_true(c.page.count <= 3);
		c.search.after = c.page.last;
	} while (c.page.more);
	assert_int_equal(seen, 9);
	service_close(&s);
}

TEST(push_devices, a_broadcast_finds_every_active_device_of_a_platform_once)
{
	struct service s;
	struct call    c = {.broadcast = {.platform = BYTES("ios"), .limit = 7}};
	bool           seen[40] = {false};

	service_open(&s, NULL);
	assert_int_equal(turn_try(&s, &c.turn, broadcast), ERR_NOT_NOW);
	s.all.tables.device_index = true;
	for (int i = 0; i < 40; i++)
		enrolled(&s, arena_printf(&s.f.arena, "user-%d", i).data, "phone",
		         arena_printf(&s.f.arena, TOKEN("%d"), i).data);
	ended(&s, "user-3", "phone", deactivate);
	ended(&s, "user-4", "phone", take_away);
	c.q = registration("droid", "phone", TOKEN("droid"));
	c.q.platform = BYTES("android");
	turn_take(&s, &c.turn, enrol);
	do {
		turn_take(&s, &c.turn, broadcast);
		for (uint32_t i = 0; i < c.platform.count; i++) {
			uint64_t     n;
			struct bytes user = c.platform.list[i].user;

			assert_true(bytes_to_u64((struct bytes){user.data + 5, user.len - 5}, 39, &n));
			assert_false(seen[n]);
			assert_true(c.platform.list[i].tokens[PUSH_EXPO].len > 0);
			seen[n] = true;
		}
		c.broadcast.shard = c.platform.shard;
		c.broadcast.after_user = c.platform.last_user;
		c.broadcast.after_device = c.platform.last_device;
	} while (c.platform.more);
	for (int i = 0; i < 40; i++)
		assert_int_equal(seen[i], i != 3 && i != 4);
	service_close(&s);
}

TEST(push_devices, a_million_devices_are_spread_evenly_over_the_shards)
{
	enum { DEVICES = 1000000, SHARDS = 16 };
	static uint32_t counts[SHARDS];
	char            user[32];
	uint32_t        most = 0, least = UINT32_MAX;

	for (int i = 0; i < DEVICES; i++) {
		size_t len = (size_t)snprintf(user, sizeof(user), "user-%d", i);

		counts[push_shard_of((struct bytes){user, len}, BYTES("phone"), SHARDS)]++;
	}
	for (int i = 0; i < SHARDS; i++) {
		most = counts[i] > most ? counts[i] : most;
		least = counts[i] < least ? counts[i] : least;
	}
	assert_true(most < DEVICES / SHARDS * 102 / 100);
	assert_true(least > DEVICES / SHARDS * 98 / 100);
}

/* ---- lanes ---- */

TEST(push_lanes, a_device_that_ends_takes_the_known_devices_that_were_issued_with_its_id_5)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	enrolled(&s, "alice", "phone", TOKEN("a"));
	r = SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS", .device_id = "phone");
	if (r.device.token.len == 0)
		fail_msg("no token");
	r = SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS", .token = r.device.token);
	assert_true(r.device.replaced); /* the new token is of the same device: it inherits the link */
	SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS", .device_id = "tablet");
	assert_int_equal(ended(&s, "alice", "phone", deactivate).lanes, 2);
	assert_int_equal(ended(&s, "alice", "phone", take_away).lanes, 0);
	enrolled(&s, "alice", "tablet", TOKEN("b"));
	assert_int_equal(ended(&s, "alice", "tablet", take_away).lanes, 1);
	service_close(&s);
}

TEST(push_lanes, an_erase_ends_those_of_devices_that_are_gone_already)
{
	struct service s;
	struct call    c = {.ref = {.user = BYTES("alice")}};

	service_open(&s, NULL);
	enrolled(&s, "alice", "phone", TOKEN("a"));
	SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS", .device_id = "phone");
	SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS", .device_id = "gone");
	SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS"); /* linked to none: it stays */
	turn_take(&s, &c.turn, erase);
	assert_int_equal(c.erased.lanes, 2);
	turn_take(&s, &c.turn, erase);
	assert_int_equal(c.erased.lanes, 0);
	service_close(&s);
}
