/* Log: formats a line into a buffer on the stack and writes it with one call. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LOG_LINE_MAX = 4096 };

static atomic_int least_level = LOG_INFO;

void log_set_level(enum log_level least)
{
	atomic_store(&least_level, (int)least);
}

/* Copies text as the inside of a JSON string; stops when the room is used up. */
static size_t escape(char *out, size_t room, const char *text)
{
	size_t len = 0;

	for (; *text != '\0' && len + 6 < room; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\') {
			out[len++] = '\\';
			out[len++] = (char)c;
		} else if (c < 0x20) {
			len += (size_t)snprintf(out + len, room - len, "\\u%04x", c);
		} else {
			out[len++] = (char)c;
		}
	}
	return len;
}

void log_line(enum log_level level, const char *format, ...)
{
	static const char *const names[] = {"debug", "info", "warn", "error"};
	char                     text[LOG_LINE_MAX / 2], line[LOG_LINE_MAX];
	struct timespec          now;
	struct tm                tm;
	size_t                   len;
	va_list                  args;

	if ((int)level < atomic_load(&least_level))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	len = strftime(line, sizeof(line), "{\"time\":\"%Y-%m-%dT%H:%M:%S", &tm);
	len += (size_t)snprintf(line + len, sizeof(line) - len, ".%03ldZ\",\"level\":\"%s\",\"msg\":\"",
	                        now.tv_nsec / 1000000, names[level]);
	len += escape(line + len, sizeof(line) - len - 4, text);
	len += (size_t)snprintf(line + len, sizeof(line) - len, "\"}\n");
	if (write(STDERR_FILENO, line, len) < 0)
		return; /* nowhere left to say so */
}
