/* Shows that the load generator's requests say what they should, and that its limits hold: bench/request.h.
 */
#include "test.h"

#include "../../bench/request.h"

static const char *body_of(struct request *r)
{
	char *end;

	assert_true(r->length < sizeof r->text);
	r->text[r->length] = '\0';
	end = strstr(r->text, "\r\n\r\n");
	assert_non_null(end);
	return end + 4;
}

TEST(request, keys_and_times_to_live_are_patched_in_at_a_fixed_width)
{
	struct request r;

	assert_true(
	        request_build(&r, "127.0.0.1", 80, "GetItem", "{\"k\":\"%d\",\"t\":%t,\"again\":\"%d\"}"));
	request_set_key(&r, 42);
	request_set_ttl(&r, 1700000000);
	assert_string_equal(body_of(&r), "{\"k\":\"00000042\",\"t\":1700000000,\"again\":\"00000042\"}");
	request_set_key(&r, REQUEST_KEYS_MAX - 1);
	assert_string_equal(body_of(&r), "{\"k\":\"99999999\",\"t\":1700000000,\"again\":\"99999999\"}");
}

TEST(request, the_content_length_is_that_of_the_patched_body)
{
	struct request r;

	assert_true(request_build(&r, "127.0.0.1", 80, "/v1/attempts", "%d%t%%x"));
	assert_int_equal(strlen(body_of(&r)), 21);
	assert_non_null(strstr(r.text, "Content-Length: 21\r\n"));
}

TEST(request, an_operation_gets_the_headers_of_an_aws_sdk_and_a_path_does_not)
{
	struct request r;

	assert_true(request_build(&r, "127.0.0.1", 80, "UpdateItem", "{}"));
	assert_string_equal(body_of(&r), "{}");
	assert_non_null(strstr(r.text, "X-Amz-Target: DynamoDB_20120810.UpdateItem\r\n"));
	assert_non_null(strstr(r.text, "Authorization: AWS4-HMAC-SHA256 "));
	assert_true(request_build(&r, "127.0.0.1", 80, "/v1/attempts", "{}"));
	assert_string_equal(body_of(&r), "{}");
	assert_int_equal(strncmp(r.text, "POST /v1/attempts HTTP/1.1\r\n", 28), 0);
	assert_null(strstr(r.text, "X-Amz-Target"));
}

TEST(request, the_last_slot_is_taken_and_one_more_is_refused)
{
	char template[2 * (REQUEST_SLOTS_MAX + 1) + 1] = "";
	struct request r;

	for (int i = 0; i < REQUEST_SLOTS_MAX; i++)
		strcat(template, "%d");
	assert_true(request_build(&r, "127.0.0.1", 80, "GetItem", template));
	assert_int_equal(r.slot_count, REQUEST_SLOTS_MAX);
	strcat(template, "%d");
	assert_false(request_build(&r, "127.0.0.1", 80, "GetItem", template));
}

TEST(request, a_request_of_the_largest_size_is_built_and_one_byte_more_is_refused)
{
	static char template[REQUEST_BYTES_MAX + 1];
	struct request r;
	size_t         head;

	memset(template, 'x', 1000); /* four digits of Content-Length, as in the largest request */
	assert_true(request_build(&r, "127.0.0.1", 80, "/", template));
	head = r.length - 1000;
	memset(template, 'x', REQUEST_BYTES_MAX - head);
	assert_true(request_build(&r, "127.0.0.1", 80, "/", template));
	assert_int_equal(r.length, REQUEST_BYTES_MAX);
	template[REQUEST_BYTES_MAX - head] = 'x';
	assert_false(request_build(&r, "127.0.0.1", 80, "/", template));
}
