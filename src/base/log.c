/* Log: makes an entry on the stack and writes it with one call. */
#include "base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static atomic_int least_level = LOG_INFO;

void log_set_level(enum log_level least)
{
	atomic_store(&least_level, (int)least);
}

/* Up to and with the message; the object stays open. */
static void begin(struct log_entry *l, enum log_level level, const char *what)
{
	static const char *const names[] = {"debug", "info", "warn", "error"};

	log_entry_begin(l);
	log_entry_text(l, "level", bytes_of(names[level]));
	log_entry_text(l, "msg", bytes_of(what));
}

static void end(struct log_entry *l)
{
	struct bytes text = log_entry_end(l);

	if (write(STDERR_FILENO, text.data, text.len) < 0)
		return; /* nowhere left to say so */
}

void log_line(enum log_level level, const char *format, ...)
{
	char             text[LOG_ENTRY_BYTES_MAX / 2];
	struct log_entry l;
	va_list          args;

	if ((int)level < atomic_load(&least_level))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	begin(&l, level, text);
	end(&l);
}

void log_fields(enum log_level level, const char *what, const struct log_field *fields, unsigned count)
{
	struct log_entry l;

	if ((int)level < atomic_load(&least_level))
		return;
	begin(&l, level, what);
	for (unsigned i = 0; i < count; i++)
		log_entry_field(&l, &fields[i]);
	end(&l);
}

/* ---- an entry: there is always room kept for what ends it ---- */

enum {
	ENTRY_TAIL_BYTES = 4,     /* what ends a line: "}, a line feed */
	ENTRY_ESCAPED_MAX = 6,    /* bytes that one becomes at most */
	ENTRY_FIELD_OVERHEAD = 32 /* punctuation, and the digits of a number */
};

static size_t room(const struct log_entry *l)
{
	return sizeof(l->text) - ENTRY_TAIL_BYTES - l->len;
}

/* Adds text as the inside of a JSON string; stops when the room is used up. */
static void add_escaped(struct log_entry *l, struct bytes text)
{
	for (size_t i = 0; i < text.len && room(l) > ENTRY_ESCAPED_MAX; i++) {
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

void log_entry_begin(struct log_entry *l)
{
	struct timespec now;
	struct tm       tm;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	l->len = strftime(l->text, sizeof(l->text), "{\"time\":\"%Y-%m-%dT%H:%M:%S", &tm);
	l->len += (size_t)snprintf(l->text + l->len, room(l), ".%03ldZ\"", now.tv_nsec / 1000000);
}

void log_entry_text(struct log_entry *l, const char *name, struct bytes text)
{
	l->len += (size_t)snprintf(l->text + l->len, room(l), ",\"%s\":\"", name);
	add_escaped(l, text);
	l->text[l->len++] = '"';
}

void log_entry_field(struct log_entry *l, const struct log_field *f)
{
	if (strlen(f->name) + f->text.len * ENTRY_ESCAPED_MAX + ENTRY_FIELD_OVERHEAD > room(l))
		return;
	if (f->text.data != NULL)
		log_entry_text(l, f->name, f->text);
	else
		l->len += (size_t)snprintf(l->text + l->len, room(l), ",\"%s\":%" PRId64, f->name, f->number);
}

struct bytes log_entry_end(struct log_entry *l)
{
	l->text[l->len++] = '}';
	l->text[l->len++] = '\n';
	return (struct bytes){l->text, l->len};
}
