/* Answer: HTTP answers at their bounds and one past them, whole and byte by byte. */
#include "test.h"

#include "answer.h"

static struct answer answer;

/* Feeds at most `piece` bytes at a time. */
static enum answer_step feed(const char *text, size_t len, size_t piece)
{
	enum answer_step step = ANSWER_MORE;

	answer_reset(&answer);
	for (size_t at = 0; at < len && step == ANSWER_MORE;) {
		size_t size, n = len - at < piece ? len - at : piece;
		char  *room = answer_room(&answer, &size);

		n = n < size ? n : size;
		memcpy(room, text + at, n);
		at += n;
		step = answer_took(&answer, n);
	}
	return step;
}

static enum answer_step parse(const char *text)
{
	enum answer_step whole = feed(text, strlen(text), SIZE_MAX);

	assert_int_equal(feed(text, strlen(text), 1), whole);
	return whole;
}

#define OK "HTTP/1.1 200 OK\r\n"

TEST(answer, is_understood_with_a_length_and_in_chunks)
{
	assert_int_equal(parse(OK "Content-Length: 2\r\ncontent-TYPE:\tApplication/JSON ; "
	                          "charset=utf-8\r\nRetry-After: 12 \r\n\r\nab"),
	                 ANSWER_WHOLE);
	assert_true(answer.status == 200 && answer.keep && answer.json && !answer.problem);
	assert_int_equal(answer.retry_after, 12);
	assert_true(text_is(answer.body, "ab"));
	assert_int_equal(parse(OK "Transfer-Encoding: chunked\r\nRateLimit-Policy: \"a\";q=1;w=2\r\n\r\n"
	                          "1\r\na\r\n0a;x\r\n0123456789\r\n0\r\n\r\n"),
	                 ANSWER_WHOLE);
	assert_true(text_is(answer.body, "a0123456789"));
	assert_true(text_is(answer.policy, "\"a\";q=1;w=2"));
	assert_int_equal(parse("HTTP/1.1 503\r\nContent-Type: application/problem+json\r\nConnection: "
	                       "close\r\nContent-Length: 0\r\n\r\n"),
	                 ANSWER_WHOLE);
	assert_true(answer.status == 503 && !answer.keep && answer.json && answer.problem &&
	            answer.body.len == 0);
	assert_int_equal(parse("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"), ANSWER_WHOLE);
	assert_false(answer.keep);
}

TEST(answer, wants_more_until_it_is_whole)
{
	static const char text[] = OK "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n";

	for (size_t len = 1; len < sizeof(text) - 1; len++)
		assert_int_equal(feed(text, len, SIZE_MAX), ANSWER_MORE);
	assert_int_equal(feed(text, sizeof(text) - 1, SIZE_MAX), ANSWER_WHOLE);
}

TEST(answer, is_refused_where_it_could_be_read_in_two_ways)
{
	static const char *const bad[] = {
	        OK "\r\n",
	        OK "Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
	        OK "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	        OK "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	        OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	        OK "Content-Length: +1\r\n\r\na",
	        OK "Content-Length: 0x1\r\n\r\na",
	        OK "Content-Length: \r\n\r\n",
	        OK "Content-Length : 1\r\n\r\na",
	        OK " folded: 1\r\nContent-Length: 1\r\n\r\na",
	        OK "Content-Length: 1\n\r\na",
	        OK "Content-Length: 1\r\r\n\r\na",
	        OK "no colon\r\nContent-Length: 1\r\n\r\na",
	        OK ": no name\r\nContent-Length: 1\r\n\r\na",
	        OK "Transfer-Encoding: chunked\r\n\r\n\r\n",
	        OK "Transfer-Encoding: chunked\r\n\r\n-1\r\na\r\n0\r\n\r\n",
	        OK "Transfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n",
	        OK "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
	        OK "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\na\r\n0\r\n\r\n",
	        "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n",
	        "HTTP/1.1 2000\r\nContent-Length: 0\r\n\r\n",
	        "HTTP/1.1 20\r\nContent-Length: 0\r\n\r\n",
	        "HTTP/1.1 099 x\r\nContent-Length: 0\r\n\r\n",
	        "HTTP/1.1 600 x\r\nContent-Length: 0\r\n\r\n",
	        "http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	        "HTTP/1.1 101 Switching\r\n\r\n",
	        "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (parse(bad[i]) != ANSWER_BAD)
			fail_msg("accepted: %s", bad[i]);
}

TEST(answer, bytes_behind_it_end_the_connection)
{
	assert_int_equal(feed(OK "Content-Length: 1\r\n\r\nab", 40, SIZE_MAX), ANSWER_WHOLE);
	assert_false(answer.keep);
}

TEST(answer, skips_interim_answers_up_to_their_maximum)
{
	static const char interim[] = "HTTP/1.1 103 Early Hints\r\nConnection: close\r\nLink: x\r\n\r\n";
	char              text[1024];

	for (int count = ANSWER_INTERIM_MAX; count <= ANSWER_INTERIM_MAX + 1; count++) {
		text[0] = '\0';
		for (int i = 0; i < count; i++)
			strcat(text, interim);
		strcat(text, OK "Content-Length: 1\r\n\r\na");
		assert_int_equal(parse(text), count == ANSWER_INTERIM_MAX ? ANSWER_WHOLE : ANSWER_BAD);
	}
	parse("HTTP/1.1 103 x\r\nConnection: close\r\n\r\n" OK "Content-Length: 1\r\n\r\na");
	assert_true(answer.keep && text_is(answer.body, "a"));
}

/* A head of exactly `size` bytes, then nothing. */
static enum answer_step parse_head(size_t size)
{
	static const char first[] = OK "Content-Length: 0\r\nX: ";
	char             *text = malloc(size);
	enum answer_step  step;

	memset(text, 'x', size);
	memcpy(text, first, sizeof(first) - 1);
	memcpy(text + size - 4, "\r\n\r\n", 4);
	step = feed(text, size, SIZE_MAX);
	assert_int_equal(feed(text, size, 1), step);
	free(text);
	return step;
}

TEST(answer, has_a_head_as_long_as_its_maximum_and_no_longer)
{
	assert_int_equal(parse_head(ANSWER_HEAD_BYTES_MAX), ANSWER_WHOLE);
	assert_int_equal(parse_head(ANSWER_HEAD_BYTES_MAX + 1), ANSWER_BAD);
}

TEST(answer, fills_its_buffer_to_the_last_byte_and_not_past_it)
{
	for (size_t over = 0; over <= 1; over++) {
		char  *text = malloc(ANSWER_BYTES_MAX + 2);
		size_t head, body = ANSWER_BYTES_MAX - 42 + over;

		memset(text, 'b', ANSWER_BYTES_MAX + 2);
		head = (size_t)sprintf(text, OK "Content-Length: %zu\r\n\r\n", body);
		assert_int_equal(head, 42);
		text[head] = 'b';
		assert_int_equal(feed(text, head + body, SIZE_MAX), over ? ANSWER_BAD : ANSWER_WHOLE);
		assert_int_equal(feed(text, head + body, 1), over ? ANSWER_BAD : ANSWER_WHOLE);
		free(text);
	}
}

TEST(answer, that_sends_chunks_without_end_is_refused_when_the_buffer_is_full)
{
	static const char chunk[] = "5\r\naaaaa\r\n";
	enum answer_step  step = feed(OK "Transfer-Encoding: chunked\r\n\r\n", 47, SIZE_MAX);
	size_t            fed = 0;

	for (; step == ANSWER_MORE && fed <= ANSWER_BYTES_MAX; fed++) {
		size_t size;
		char  *room = answer_room(&answer, &size);

		assert_true(size > 0);
		*room = chunk[fed % (sizeof(chunk) - 1)];
		step = answer_took(&answer, 1);
	}
	assert_int_equal(step, ANSWER_BAD);
}
