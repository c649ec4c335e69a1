/* Line: there is always room kept for what ends it. */
#include "base/line.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum {
	LINE_TAIL_BYTES = 4,     /* what ends a line: "}, a line feed */
	LINE_ESCAPED_MAX = 6,    /* bytes that one becomes at most */
	LINE_FIELD_OVERHEAD = 32 /* punctuation, and the digits of a number */
};

static size_t room(const struct line *l)
{
	return sizeof(l->text) - LINE_TAIL_BYTES - l->len;
}

/* Adds text as the inside of a JSON string; stops when the room is used up. */
static void add_escaped(struct line *l, struct bytes text)
{
	for (size_t i = 0; i < text.len && room(l) > LINE_ESCAPED_MAX; i++) {
		unsigned char c = (unsigned char)text.data[i];

		if (c < 0x20) {
			l->len += (size_t)snprintf(l->text + l->len, room(l), "\\u%04x", c);
			continue;
		}
		if (c == '"' || c == '\\')
			l->text[l->len++] = '\\';
		l->text[l->len++] = (char)c;
	}
}

void line_begin(struct line *l)
{
	struct timespec now;
	struct tm       tm;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	l->len = strftime(l->text, sizeof(l->text), "{\"time\":\"%Y-%m-%dT%H:%M:%S", &tm);
	l->len += (size_t)snprintf(l->text + l->len, room(l), ".%03ldZ\"", now.tv_nsec / 1000000);
}

void line_text(struct line *l, const char *name, struct bytes text)
{
	l->len += (size_t)snprintf(l->text + l->len, room(l), ",\"%s\":\"", name);
	add_escaped(l, text);
	l->text[l->len++] = '"';
}

void line_field(struct line *l, const struct log_field *f)
{
	if (strlen(f->name) + f->text.len * LINE_ESCAPED_MAX + LINE_FIELD_OVERHEAD > room(l))
		return;
	if (f->text.data != NULL)
		line_text(l, f->name, f->text);
	else
		l->len += (size_t)snprintf(l->text + l->len, room(l), ",\"%s\":%" PRId64, f->name, f->number);
}

struct bytes line_end(struct line *l)
{
	l->text[l->len++] = '}';
	l->text[l->len++] = '\n';
	return (struct bytes){l->text, l->len};
}
