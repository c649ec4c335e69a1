/* Expo: what answers mean. Calls over a real connection are in tests/e2e/test_push.py. */
#include "test.h"

#include "base/buf.h"
#include "outbound/expo.h"

static struct expo_answer read_as(struct arena *a, int status, const char *body, uint32_t recipients)
{
	return expo_read(status, bytes_of(body), recipients, a);
}

TEST(expo, an_answer_has_one_ticket_per_recipient_or_it_is_unknown_3)
{
	struct arena       a;
	struct expo_answer r;

	arena_init(&a);
	r = read_as(&a, 200,
	            "{\"data\":[{\"status\":\"ok\",\"id\":\"x\"},{\"status\":\"error\",\"message\":\"m\","
	            "\"details\":{\"error\":\"DeviceNotRegistered\"}}]}",
	            2);
	assert_true(r.end == EXPO_ANSWERED && r.ticket_count == 2 && r.tickets[0].ok && !r.tickets[1].ok);
	assert_true(bytes_is(r.tickets[0].id, "x") && bytes_is(r.tickets[1].error, "DeviceNotRegistered"));
	assert_int_equal(read_as(&a, 200, "{\"data\":{\"status\":\"ok\",\"id\":\"x\"}}", 1).end,
	                 EXPO_ANSWERED);
	assert_int_equal(read_as(&a, 200, "{\"data\":{\"status\":\"ok\",\"id\":\"x\"}}", 2).end,
	                 EXPO_UNKNOWN);
	assert_int_equal(read_as(&a, 200, "{\"data\":[{\"status\":\"ok\"}]}", 2).end, EXPO_UNKNOWN);
	assert_int_equal(read_as(&a, 200, "{\"data\":[{\"status\":\"new\"}]}", 1).end, EXPO_UNKNOWN);
	assert_int_equal(read_as(&a, 200, "{\"data\":[1]}", 1).end, EXPO_UNKNOWN);
	assert_int_equal(read_as(&a, 200, "", 1).end, EXPO_UNKNOWN);
	arena_release(&a);
}

TEST(expo, a_status_says_whether_anything_was_accepted_2)
{
	static const struct {
		int           status;
		enum expo_end end;
	} cases[] = {{429, EXPO_LATER},   {500, EXPO_LATER},   {503, EXPO_LATER},   {401, EXPO_LATER},
	             {403, EXPO_LATER},   {404, EXPO_LATER},   {302, EXPO_LATER},   {400, EXPO_REFUSED},
	             {413, EXPO_REFUSED}, {502, EXPO_UNKNOWN}, {504, EXPO_UNKNOWN}, {201, EXPO_UNKNOWN}};
	struct arena a;

	arena_init(&a);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(read_as(&a, cases[i].status, "<html>", 1).end, cases[i].end);
	assert_int_equal(read_as(&a, 400, "{\"errors\":[{\"code\":\"TOO_MANY_REQUESTS\"}]}", 1).end,
	                 EXPO_LATER);
	arena_release(&a);
}

TEST(expo, a_rejection_tells_the_projects_up_to_the_maximum)
{
	struct arena       a;
	struct buf         body;
	struct expo_answer r;

	arena_init(&a);
	buf_init(&body, &a);
	buf_add_bytes(&body, BYTES("{\"errors\":[{\"code\":\"PUSH_TOO_MANY_EXPERIENCE_IDS\",\"details\":{"));
	for (int i = 0; i <= EXPO_PROJECTS_MAX; i++)
		buf_add_bytes(&body, arena_printf(&a, "%s\"@a/%d\":[\"t%d\"]", i > 0 ? "," : "", i, i));
	buf_add_bytes(&body, BYTES("}}]}"));
	r = expo_read(400, buf_bytes(&body), 2, &a);
	assert_true(r.end == EXPO_REFUSED && r.project_count == EXPO_PROJECTS_MAX);
	assert_true(bytes_is(r.projects[1].name, "@a/1") && bytes_is(r.projects[1].tokens[0], "t1"));
	arena_release(&a);
}

TEST(expo, a_receipt_that_is_missing_is_not_found)
{
	struct bytes         ids[] = {BYTES("a"), BYTES("b"), BYTES("c")};
	struct arena         a;
	struct expo_receipts r;

	arena_init(&a);
	r = expo_read_receipts(200,
	                       BYTES("{\"data\":{\"c\":{\"status\":\"error\",\"details\":{\"error\":"
	                             "\"MessageTooBig\"}},\"a\":{\"status\":\"ok\"}}}"),
	                       ids, 3, &a);
	assert_true(r.answered && r.list[0].ok && !r.list[1].found && r.list[2].found && !r.list[2].ok);
	assert_true(bytes_is(r.list[2].error, "MessageTooBig"));
	assert_false(expo_read_receipts(200, BYTES("{\"data\":[]}"), ids, 3, &a).answered);
	assert_false(expo_read_receipts(503, BYTES("{\"data\":{}}"), ids, 3, &a).answered);
	arena_release(&a);
}

TEST(expo, plain_http_and_a_token_with_spaces_are_refused)
{
	struct expo_options o = {.url = BYTES("http://127.0.0.1:1"), .calls_max = 1, .clock = clock_system()};
	struct expo        *e = NULL;
	struct err          err;

	assert_int_equal(expo_open(&o, &e, &err), ERR_INVALID);
	assert_string_equal(err.field, "url");
	o.allow_private = true;
	o.access_token = BYTES("a b");
	assert_int_equal(expo_open(&o, &e, &err), ERR_INVALID);
	assert_string_equal(err.field, "access_token");
	o.access_token = BYTES("ab");
	assert_int_equal(expo_open(&o, &e, &err), ERR_NONE);
	expo_close(e);
}
