/* Shows that the load generator tells whole, partial and broken answers apart: bench/answer.h. */
#define _GNU_SOURCE
#include "test.h"

#include "../../bench/answer.h"

static enum answer_state parse(struct answer *a, const char *text)
{
	return answer_parse(a, text, strlen(text));
}

TEST(answer, is_whole_only_with_its_last_byte)
{
	const char    text[] = "HTTP/1.1 200 OK\r\nX: y\r\nCONTENT-length: 4\r\n\r\nabcd";
	struct answer a;

	for (size_t length = 0; length < sizeof text - 1; length++) {
		char *part = strndup(text, length);

		assert_int_equal(answer_parse(&a, part, length), ANSWER_PARTIAL);
		free(part);
	}
	assert_int_equal(parse(&a, text), ANSWER_WHOLE);
	assert_int_equal(a.status, 200);
	assert_int_equal(a.body_length, 4);
	assert_memory_equal(a.body, "abcd", 4);
}

TEST(answer, keeps_the_status_of_a_refusal)
{
	struct answer a;

	assert_int_equal(parse(&a, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"), ANSWER_WHOLE);
	assert_int_equal(a.status, 503);
}

TEST(answer, without_a_length_is_broken)
{
	struct answer a;

	assert_int_equal(parse(&a, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), ANSWER_BROKEN);
	assert_int_equal(parse(&a, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), ANSWER_BROKEN);
}

TEST(answer, of_another_protocol_is_broken)
{
	struct answer a;

	assert_int_equal(parse(&a, "SSH-2.0\r\n\r\n"), ANSWER_BROKEN);
}

TEST(answer, of_the_largest_size_is_awaited_and_one_byte_more_is_broken)
{
	struct answer a;
	char          text[100];
	int head = snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %05d\r\n\r\n", 0);

	snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %05d\r\n\r\n",
	         ANSWER_BYTES_MAX - head);
	assert_int_equal(parse(&a, text), ANSWER_PARTIAL);
	snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %05d\r\n\r\n",
	         ANSWER_BYTES_MAX - head + 1);
	assert_int_equal(parse(&a, text), ANSWER_BROKEN);
}
