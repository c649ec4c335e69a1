#define _GNU_SOURCE /* strcasestr */
/* Calls of a user pool: what is sent, and what is made of each answer. */
#include "outbound/cognito.h"

#include "base/log.h"
#include "scripted.h"

struct world {
	struct peer            *peer;
	struct aws_credentials *credentials;
	struct arena            arena;
	struct cognito_target   target;
	struct err              err;
};

static const char *variable(void *ctx, const char *name)
{
	(void)ctx;
	if (strcmp(name, "AWS_ACCESS_KEY_ID") == 0)
		return "AKID";
	return strcmp(name, "AWS_SECRET_ACCESS_KEY") == 0 ? "secret" : NULL;
}

static struct peer_step answer(struct arena *a, int status, const char *body)
{
	return (struct peer_step){PEER_ANSWER, arena_printf(a,
	                                                    "HTTP/1.1 %d X\r\nContent-Type: "
	                                                    "application/x-amz-json-1.1\r\nContent-Length: "
	                                                    "%zu\r\n\r\n%s",
	                                                    status, strlen(body), body)
	                                               .data};
}

static void world_open(struct world *w, int status, const char *body)
{
	struct peer_step step;

	log_set_level(LOG_ERROR);
	*w = (struct world){.peer = NULL};
	arena_init(&w->arena);
	step = answer(&w->arena, status, body);
	w->peer = peer_open(0, &step, 1);
	assert_int_equal(aws_credentials_open(&(struct environment){variable, NULL}, clock_system(),
	                                      &w->credentials, &w->err),
	                 ERR_NONE);
	w->target = (struct cognito_target){
	        .endpoint = arena_printf(&w->arena, "http://127.0.0.1:%u", w->peer->port).data,
	        .region = "eu-west-1",
	        .pool = "eu-west-1_A",
	        .allow_private = true,
	        .credentials = w->credentials,
	        .clock = clock_system(),
	        .trace = BYTES("4bf92f3577b34da6a3ce929d0e0e4736")};
}

static void world_close(struct world *w)
{
	aws_credentials_close(w->credentials);
	peer_close(w->peer);
	arena_release(&w->arena);
}

static bool was_sent(struct world *w, const char *text)
{
	return strcasestr(w->peer->seen[0], text) != NULL;
}

TEST(cognito, a_page_of_users_is_asked_for_and_read)
{
	struct world        w;
	struct cognito_page page;

	world_open(&w, 200,
	           "{\"Users\":[{\"Username\":\"ann\",\"Attributes\":[{\"Name\":\"sub\",\"Value\":\"1\"},{"
	           "\"Name\":3},"
	           "null],\"UserLastModifiedDate\":1700000000.123,\"UserStatus\":\"CONFIRMED\"},{}],"
	           "\"PaginationToken\":\"next\"}");
	assert_int_equal(cognito_list_users(&w.target, BYTES("from"), &w.arena, &page, &w.err), ERR_NONE);
	assert_int_equal(page.count, 2);
	assert_true(bytes_is(page.list[0].name, "ann"));
	assert_int_equal(page.list[0].attribute_count, 3);
	assert_true(bytes_is(page.list[0].attributes[0].value, "1"));
	assert_int_equal(page.list[0].attributes[1].name.len, 0);
	assert_int_equal(page.list[0].modified_ms, 1700000000123);
	assert_int_equal(page.list[1].attribute_count, 0);
	assert_true(bytes_is(page.next, "next"));
	assert_true(was_sent(&w, "X-Amz-Target: AWSCognitoIdentityProviderService.ListUsers"));
	assert_true(was_sent(&w, "/eu-west-1/cognito-idp/aws4_request"));
	assert_true(was_sent(&w, "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-"));
	assert_true(
	        was_sent(&w, "{\"UserPoolId\":\"eu-west-1_A\",\"Limit\":60,\"PaginationToken\":\"from\"}"));
	world_close(&w);
}

TEST(cognito, one_user_is_read_by_its_other_name_for_attributes)
{
	struct world        w;
	struct cognito_user user;

	world_open(&w, 200,
	           "{\"Username\":\"ann\",\"UserAttributes\":[{\"Name\":\"email\",\"Value\":\"a@example."
	           "org\"}]}");
	assert_int_equal(cognito_get_user(&w.target, BYTES("ann"), &w.arena, &user, &w.err), ERR_NONE);
	assert_int_equal(user.attribute_count, 1);
	assert_true(was_sent(&w, "AdminGetUser"));
	assert_true(was_sent(&w, "\"Username\":\"ann\""));
	world_close(&w);
}

TEST(cognito, a_sign_out_answers_nothing)
{
	struct world w;

	world_open(&w, 200, "");
	assert_int_equal(cognito_sign_out(&w.target, BYTES("ann"), &w.arena, &w.err), ERR_NONE);
	assert_true(was_sent(&w, "AdminUserGlobalSignOut"));
	world_close(&w);
}

TEST(cognito, each_refusal_says_whether_to_come_back_and_holds_nothing_of_the_answer_2)
{
	static const struct {
		int           status;
		const char   *body;
		enum err_code rc;
	} cases[] = {
	        {400, "{\"__type\":\"UserNotFoundException\",\"message\":\"ann\"}", ERR_NOT_FOUND},
	        {400, "{\"__type\":\"NotAuthorizedException\",\"message\":\"ann\"}", ERR_ACCESS},
	        {400, "{\"__type\":\"ResourceNotFoundException\",\"message\":\"ann\"}", ERR_ACCESS},
	        {400, "{\"__type\":\"<script>ann\"}", ERR_ACCESS},
	        {400, "{\"__type\":\"TooManyRequestsException\",\"message\":\"ann\"}", ERR_THROTTLED},
	        {500, "{\"__type\":\"InternalErrorException\",\"message\":\"ann\"}", ERR_OVERLOADED},
	        {200, "ann", ERR_OVERLOADED},
	        {200, "[]", ERR_OVERLOADED},
	        {200, "null", ERR_OVERLOADED},
	        {200, "{\"__type\":\"InternalErrorException\",\"message\":\"ann\"}", ERR_OVERLOADED},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world w;

		world_open(&w, cases[i].status, cases[i].body);
		assert_int_equal(cognito_sign_out(&w.target, BYTES("x"), &w.arena, &w.err), cases[i].rc);
		assert_null(strstr(w.err.text, "ann"));
		world_close(&w);
	}
}

TEST(cognito, a_list_without_users_is_no_list)
{
	struct world        w;
	struct cognito_page page;

	world_open(&w, 200, "{\"Users\":{}}");
	assert_int_equal(cognito_list_users(&w.target, BYTES(""), &w.arena, &page, &w.err), ERR_OVERLOADED);
	world_close(&w);
}

TEST(cognito, a_pool_says_its_region)
{
	assert_true(bytes_is(cognito_region(BYTES("eu-west-1_AbC")), "eu-west-1"));
	assert_int_equal(cognito_region(BYTES("pool")).len, 0);
	assert_int_equal(cognito_region((struct bytes){NULL, 0}).len, 0);
}
