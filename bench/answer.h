/* Answer: as much of an HTTP/1.1 response as a load generator needs: is it complete, its status, where is
 * its body. A body must come with a Content-Length; every server measured here sends one. */
#ifndef BENCH_ANSWER_H
#define BENCH_ANSWER_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ANSWER_BYTES_MAX = 65536 };

/* What a protocol without numbers of its own (resp.h) puts into `status`. */
enum { ANSWER_GOOD = 200, ANSWER_REFUSED = 400 };

enum answer_state { ANSWER_PARTIAL, ANSWER_WHOLE, ANSWER_BROKEN };

struct answer {
	int         status;
	const char *body;
	size_t      body_length;
	size_t      length; /* head and body */
};

/* The value of Content-Length among the header lines of [head, end), or -1. */
static inline long answer_content_length(const char *head, const char *end)
{
	static const char name[] = "\r\ncontent-length:";
	const size_t      size = sizeof name - 1;

	for (const char *p = head; p + size <= end; p++) {
		p = memchr(p, '\r', (size_t)(end - p));
		if (p == NULL || p + size > end)
			return -1;
		if ((p[2] | 0x20) == 'c' && strncasecmp(p, name, size) == 0)
			return strtol(p + size, NULL, 10);
	}
	return -1;
}

/* text[length] must be a NUL: that is what ends the search for digits in a head that is cut short. */
static inline enum answer_state answer_parse(struct answer *a, const char *text, size_t length)
{
	const char *end = memmem(text, length, "\r\n\r\n", 4);
	long        body_length;

	if (end == NULL)
		return length < ANSWER_BYTES_MAX ? ANSWER_PARTIAL : ANSWER_BROKEN;
	if (strncmp(text, "HTTP/1.1 ", 9) != 0)
		return ANSWER_BROKEN;
	body_length = answer_content_length(text, end + 2);
	if (body_length < 0 || body_length > ANSWER_BYTES_MAX - (end + 4 - text))
		return ANSWER_BROKEN;
	a->status = atoi(text + 9);
	a->body = end + 4;
	a->body_length = (size_t)body_length;
	a->length = (size_t)(a->body - text) + a->body_length;
	return a->length <= length ? ANSWER_WHOLE : ANSWER_PARTIAL;
}

#endif
