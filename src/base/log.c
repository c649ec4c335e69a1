/* Log: makes a line (line.h) on the stack and writes it with one call. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/line.h"

static atomic_int least_level = LOG_INFO;

void log_set_level(enum log_level least)
{
	atomic_store(&least_level, (int)least);
}

/* Up to and with the message; the object stays open. */
static void begin(struct line *l, enum log_level level, const char *what)
{
	static const char *const names[] = {"debug", "info", "warn", "error"};

	line_begin(l);
	line_text(l, "level", bytes_of(names[level]));
	line_text(l, "msg", bytes_of(what));
}

static void end(struct line *l)
{
	struct bytes text = line_end(l);

	if (write(STDERR_FILENO, text.data, text.len) < 0)
		return; /* nowhere left to say so */
}

void log_line(enum log_level level, const char *format, ...)
{
	char        text[LINE_BYTES_MAX / 2];
	struct line l;
	va_list     args;

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
	struct line l;

	if ((int)level < atomic_load(&least_level))
		return;
	begin(&l, level, what);
	for (unsigned i = 0; i < count; i++)
		line_field(&l, &fields[i]);
	end(&l);
}
