/* Lines as they arrive on standard error: one whole JSON object each, whatever is put into it. */
#include "base/trap.h"

/* What follows the time. */
static const char *after_time(const char *line)
{
	assert_int_equal(strncmp(line, "{\"time\":\"2", 10), 0);
	assert_int_equal(strncmp(line + 32, "Z\",", 3), 0);
	return line + 35;
}

TEST(log, fields_follow_the_message_in_order)
{
	struct log_field fields[] = {{.name = "a", .text = BYTES_INIT("x")},
	                             {.name = "n", .number = -7},
	                             {.name = "empty", .text = BYTES_INIT("")}};
	struct trap      t;

	trap_open(&t);
	log_fields(LOG_WARN, "what", fields, 3);
	assert_string_equal(after_time(caught(&t)),
	                    "\"level\":\"warn\",\"msg\":\"what\",\"a\":\"x\",\"n\":-7,\"empty\":\"\"}\n");
}

TEST(log, what_json_reserves_is_escaped)
{
	struct log_field field = {.name = "f", .text = BYTES_INIT("\"\\\n\001")};
	struct trap      t;

	trap_open(&t);
	log_fields(LOG_INFO, "a\"b", &field, 1);
	assert_string_equal(after_time(caught(&t)),
	                    "\"level\":\"info\",\"msg\":\"a\\\"b\",\"f\":\"\\\"\\\\\\u000a\\u0001\"}\n");
}

TEST(log, below_the_level_nothing_is_written)
{
	struct trap t;

	trap_open(&t);
	log_set_level(LOG_ERROR);
	log_fields(LOG_WARN, "what", NULL, 0);
	log_warn("what");
	log_set_level(LOG_INFO);
	assert_string_equal(caught(&t), "");
}

/* A field is taken whole or not at all: the longest text that is taken, found by trying, ends in its quote,
 * and one byte more leaves the object whole without it. */
TEST(log, a_field_that_does_not_fit_is_left_out_and_the_line_stays_whole)
{
	char   text[8000];
	size_t taken = 0;

	memset(text, '\n', sizeof(text)); /* six bytes each, escaped */
	for (size_t len = 1; len < 1000; len++) {
		struct log_field fields[] = {{.name = "f", .text = {text, len}},
		                             {.name = "last", .number = 1}};
		struct trap      t;
		const char      *line;

		trap_open(&t);
		log_fields(LOG_INFO, "m", fields, 2);
		line = caught(&t);
		assert_int_equal(line[strlen(line) - 1], '\n');
		assert_int_equal(line[strlen(line) - 2], '}');
		assert_true(strlen(line) <= 4096);
		if (strstr(line, "\"f\":\"\\u000a") == NULL) {
			assert_string_equal(after_time(line),
			                    "\"level\":\"info\",\"msg\":\"m\",\"last\":1}\n");
			break;
		}
		assert_true(strlen(line) > 6 * len);
		taken = len;
	}
	assert_in_range(taken, 600, 700);
}

TEST(log, a_message_that_does_not_fit_is_cut_short)
{
	char        text[8000];
	struct trap t;
	const char *line;

	memset(text, '"', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	trap_open(&t);
	log_fields(LOG_INFO, text, &(struct log_field){.name = "f", .number = 1}, 1);
	line = caught(&t);
	assert_in_range(strlen(line), 4000, 4096);
	assert_string_equal(line + strlen(line) - 5, "\\\"\"}\n");
}
