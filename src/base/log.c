/* Log: formats a line into a buffer on the stack and writes it with one call.
 *
 * What always holds: a line is a whole JSON object, however long its parts are: they are cut short or left
 * out. */
#include "base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum {
	LOG_LINE_MAX = 4096,
	LOG_TAIL_BYTES = 4,     /* what ends a line: "}, a line feed */
	LOG_ESCAPED_MAX = 6,    /* bytes that one becomes at most */
	LOG_FIELD_OVERHEAD = 32 /* punctuation, and the digits of a number */
};

struct line {
	char   text[LOG_LINE_MAX];
	size_t len;
};

static atomic_int least_level = LOG_INFO;

void log_set_level(enum log_level least)
{
	atomic_store(&least_level, (int)least);
}

/* ---- a line ---- */

static size_t room(const struct line *l)
{
	return sizeof(l->text) - LOG_TAIL_BYTES - l->len;
}

/* Adds text as the inside of a JSON string; stops when the room is used up. */
static void add_escaped(struct line *l, struct bytes text)
{
	for (size_t i = 0; i < text.len && room(l) > LOG_ESCAPED_MAX; i++) {
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

/* Up to and with the message; the object stays open. */
static void line_begin(struct line *l, enum log_level level, const char *what)
{
	static const char *const names[] = {"debug", "info", "warn", "error"};
	struct timespec          now;
	struct tm                tm;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	l->len = strftime(l->text, sizeof(l->text), "{\"time\":\"%Y-%m-%dT%H:%M:%S", &tm);
	l->len += (size_t)snprintf(l->text + l->len, room(l), ".%03ldZ\",\"level\":\"%s\",\"msg\":\"",
	                           now.tv_nsec / 1000000, names[level]);
	add_escaped(l, bytes_of(what));
	l->text[l->len++] = '"';
}

static void line_add(struct line *l, const struct log_field *f)
{
	if (strlen(f->name) + f->text.len * LOG_ESCAPED_MAX + LOG_FIELD_OVERHEAD > room(l))
		return;
	l->len += (size_t)snprintf(l->text + l->len, room(l), ",\"%s\":", f->name);
	if (f->text.data == NULL) {
		l->len += (size_t)snprintf(l->text + l->len, room(l), "%" PRId64, f->number);
		return;
	}
	l->text[l->len++] = '"';
	add_escaped(l, f->text);
	l->text[l->len++] = '"';
}

static void line_write(struct line *l)
{
	l->text[l->len++] = '}';
	l->text[l->len++] = '\n';
	if (write(STDERR_FILENO, l->text, l->len) < 0)
		return; /* nowhere left to say so */
}

/* ---- the two ways to log ---- */

void log_line(enum log_level level, const char *format, ...)
{
	char        text[LOG_LINE_MAX / 2];
	struct line l;
	va_list     args;

	if ((int)level < atomic_load(&least_level))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	line_begin(&l, level, text);
	line_write(&l);
}

void log_fields(enum log_level level, const char *what, const struct log_field *fields, unsigned count)
{
	struct line l;

	if ((int)level < atomic_load(&least_level))
		return;
	line_begin(&l, level, what);
	for (unsigned i = 0; i < count; i++)
		line_add(&l, &fields[i]);
	line_write(&l);
}
