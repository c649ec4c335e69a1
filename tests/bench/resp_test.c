/* Shows that the load generator says to Redis what it should and takes nothing but a whole answer for one:
 * bench/resp.h. */
#define _GNU_SOURCE
#include "test.h"

#include "../../bench/resp.h"

static const char *text_of(struct request *r)
{
	assert_true(r->length < sizeof r->text);
	r->text[r->length] = '\0';
	return r->text;
}

static enum answer_state parse(struct answer *a, const char *text)
{
	return resp_parse(a, text, strlen(text));
}

/* ---- commands ---- */

TEST(resp, a_command_has_a_word_a_line_and_its_keys_are_patched_in)
{
	struct request r;

	assert_true(resp_build(&r, "EVAL\nreturn 1\n1\ncount:%d\n%t"));
	request_set_key(&r, 42);
	request_set_ttl(&r, 1700000000);
	assert_string_equal(text_of(&r), "*5\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n"
	                                 "$14\r\ncount:00000042\r\n$10\r\n1700000000\r\n");
}

TEST(resp, an_empty_word_is_a_word)
{
	struct request r;

	assert_true(resp_build(&r, "SET\nk\n"));
	assert_string_equal(text_of(&r), "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n");
}

TEST(resp, the_last_word_is_taken_and_one_more_is_refused)
{
	char template[2 * RESP_WORDS_MAX + 2] = "w";
	struct request r;

	for (int i = 1; i < RESP_WORDS_MAX; i++)
		strcat(template, "\nw");
	assert_true(resp_build(&r, template));
	strcat(template, "\nw");
	assert_false(resp_build(&r, template));
}

TEST(resp, a_command_of_the_largest_size_is_built_and_one_byte_more_is_refused)
{
	static char template[REQUEST_BYTES_MAX + 1];
	struct request r;
	size_t         head = strlen("*1\r\n$8000\r\n") + strlen("\r\n");

	memset(template, 'x', REQUEST_BYTES_MAX - head);
	assert_true(resp_build(&r, template));
	assert_int_equal(r.length, REQUEST_BYTES_MAX);
	template[REQUEST_BYTES_MAX - head] = 'x';
	assert_false(resp_build(&r, template));
}

/* ---- answers ---- */

TEST(resp, an_answer_is_whole_only_with_its_last_byte)
{
	static const char *const texts[] = {":42\r\n",     ":-1\r\n",          "+OK\r\n",
	                                    "-ERR no\r\n", "$4\r\na\r\nb\r\n", "$0\r\n\r\n"};
	struct answer            a;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		for (size_t length = 0; length < strlen(texts[i]); length++) {
			char *part = strndup(texts[i], length);

			assert_int_equal(resp_parse(&a, part, length), ANSWER_PARTIAL);
			free(part);
		}
		assert_int_equal(parse(&a, texts[i]), ANSWER_WHOLE);
		assert_int_equal(a.length, strlen(texts[i]));
	}
}

TEST(resp, an_answers_body_is_its_line_or_its_string)
{
	struct answer a;

	assert_int_equal(parse(&a, ":42\r\n"), ANSWER_WHOLE);
	assert_int_equal(a.body_length, 3);
	assert_memory_equal(a.body, ":42", 3);
	assert_int_equal(parse(&a, "$4\r\na\r\nb\r\n"), ANSWER_WHOLE);
	assert_int_equal(a.body_length, 4);
	assert_memory_equal(a.body, "a\r\nb", 4);
}

TEST(resp, an_error_is_a_refusal_and_nothing_else_is)
{
	struct answer a;

	assert_int_equal(parse(&a, "-ERR unknown command\r\n"), ANSWER_WHOLE);
	assert_int_equal(a.status, ANSWER_REFUSED);
	assert_int_equal(parse(&a, ":0\r\n"), ANSWER_WHOLE);
	assert_int_equal(a.status, ANSWER_GOOD);
}

TEST(resp, what_is_no_answer_is_broken)
{
	static const char *const texts[] = {
	        "HTTP/1.1 200 OK\r\n",
	        "*1\r\n:1\r\n",
	        "x",
	        ":\r\n",
	        ":-\r\n",
	        ":4x\r\n",
	        ": 4\r\n",
	        ":1\rx",
	        ":1\r\n:2\r\n",
	        "+OK\r\n+",
	        "$-1\r\n",
	        "$x\r\n",
	        "$\r\n\r\n",
	        "$1\r\nabc",
	        "$1\r\na\r\n:",
	        "$99999\r\n",
	        "+OK\r\n\r\n",
	        "$-0\r\n",
	        ":1234567890123456789\r\n",
	};
	struct answer a;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (parse(&a, texts[i]) != ANSWER_BROKEN)
			fail_msg("taken for an answer: %s", texts[i]);
	assert_int_equal(resp_parse(&a, "\0", 1), ANSWER_BROKEN);
}

TEST(resp, a_string_of_the_largest_size_is_awaited_and_one_byte_more_is_broken)
{
	struct answer a;
	char          text[32];
	int           around = (int)strlen("$65000\r\n") + 2;

	snprintf(text, sizeof text, "$%d\r\n", ANSWER_BYTES_MAX - around);
	assert_int_equal(parse(&a, text), ANSWER_PARTIAL);
	snprintf(text, sizeof text, "$%d\r\n", ANSWER_BYTES_MAX - around + 1);
	assert_int_equal(parse(&a, text), ANSWER_BROKEN);
}
