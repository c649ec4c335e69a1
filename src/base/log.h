/* Log: one JSON object a line on standard error. Thread-safe: a line is one write.
 * No secret, token, email or address is ever passed here (docs/durability.md, invariant 6). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/bytes.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_set_level(enum log_level least);
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)

/* A member of a line's object: a text if there is one, else the number. */
struct log_field {
	const char  *name;
	struct bytes text;
	int64_t      number;
};

/* A line for programs to read: `what` as "msg", then the fields in order. A field that does not fit into the
 * line is left out. */
void log_fields(enum log_level level, const char *what, const struct log_field *fields, unsigned count);

#endif
