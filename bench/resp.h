/* RESP: Redis' protocol, as much of it as a load generator needs. A command is built once and patched like an
 * HTTP request (request.h): its words are the lines of a template, in which %d and %t mean the same. Of the
 * answers only those of one line and single strings are understood: that is what the commands measured here
 * get, and any other byte, also one too many, makes the answer broken. */
#ifndef BENCH_RESP_H
#define BENCH_RESP_H

#include "answer.h"
#include "request.h"

enum { RESP_WORDS_MAX = 16, RESP_DIGITS_MAX = 18 /* an integer's, so that none overflows */ };

/* ---- commands ---- */

static inline size_t resp_word_count(const char *template)
{
	size_t count = 1;

	for (; *template != '\0'; template ++)
		count += *template == '\n';
	return count;
}

/* *NUMBER or $NUMBER, and the line's end. False: it does not fit. */
static inline bool resp_write_number(struct request *r, char kind, size_t number)
{
	size_t room = sizeof r->text - r->length;
	int    length = snprintf(r->text + r->length, room, "%c%zu\r\n", kind, number);

	if (length < 0 || (size_t)length >= room)
		return false;
	r->length += (size_t)length;
	return true;
}

static inline bool resp_write_word(struct request *r, const char *word)
{
	size_t length = request_body_length(word);

	if (!resp_write_number(r, '$', length) || length + 2 > sizeof r->text - r->length)
		return false;
	if (!request_write_body(r, word))
		return false;
	r->text[r->length++] = '\r';
	r->text[r->length++] = '\n';
	return true;
}

/* False: the command exceeds REQUEST_BYTES_MAX, REQUEST_SLOTS_MAX or RESP_WORDS_MAX. */
static inline bool resp_build(struct request *r, const char *template)
{
	char  lines[REQUEST_BYTES_MAX];
	char *rest = lines;
	bool  fits;

	r->length = r->slot_count = 0;
	if (strlen(template) >= sizeof lines || resp_word_count(template) > RESP_WORDS_MAX)
		return false;
	strcpy(lines, template);
	fits = resp_write_number(r, '*', resp_word_count(template));
	while (fits && rest != NULL)
		fits = resp_write_word(r, strsep(&rest, "\n"));
	return fits;
}

/* ---- answers ---- */

/* The digits of [p, end) as a number; -1: not digits only, none, or too many. */
static inline long long resp_number(const char *p, const char *end)
{
	long long number = 0;

	if (p == end || end - p > RESP_DIGITS_MAX)
		return -1;
	for (; p < end; p++) {
		if (*p < '0' || *p > '9')
			return -1;
		number = number * 10 + (*p - '0');
	}
	return number;
}

/* $LENGTH: so many bytes and a line's end follow. */
static inline enum answer_state resp_parse_bulk(struct answer *a, const char *text, const char *line_end,
                                                size_t length)
{
	long long size = resp_number(text + 1, line_end);

	if (size < 0 || size > ANSWER_BYTES_MAX - (line_end + 4 - text))
		return ANSWER_BROKEN;
	a->body = line_end + 2;
	a->body_length = (size_t)size;
	a->length = (size_t)(a->body - text) + a->body_length + 2;
	if (a->length > length)
		return ANSWER_PARTIAL;
	return memcmp(a->body + size, "\r\n", 2) == 0 ? ANSWER_WHOLE : ANSWER_BROKEN;
}

/* The body of a one-line answer is its line, kind included: ":42", "+OK". */
static inline enum answer_state resp_parse_line(struct answer *a, const char *text, const char *line_end)
{
	const char *digits = text + 1 + (text[1] == '-');

	if (text[0] == ':' && resp_number(digits, line_end) < 0)
		return ANSWER_BROKEN;
	a->body = text;
	a->body_length = (size_t)(line_end - text);
	a->length = a->body_length + 2;
	return ANSWER_WHOLE;
}

static inline enum answer_state resp_parse(struct answer *a, const char *text, size_t length)
{
	const char       *line_end = memchr(text, '\r', length);
	enum answer_state state;

	if (length > 0 && memchr("+-:$", text[0], 4) == NULL)
		return ANSWER_BROKEN;
	if (line_end == NULL || line_end + 1 == text + length)
		return length < ANSWER_BYTES_MAX ? ANSWER_PARTIAL : ANSWER_BROKEN;
	if (line_end[1] != '\n')
		return ANSWER_BROKEN;
	a->status = text[0] == '-' ? ANSWER_REFUSED : ANSWER_GOOD;
	state = text[0] == '$' ? resp_parse_bulk(a, text, line_end, length)
	                       : resp_parse_line(a, text, line_end);
	return state == ANSWER_WHOLE && a->length != length ? ANSWER_BROKEN : state;
}

#endif
