/* Log: one JSON object per line on standard error. Thread-safe: a line is one write.
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

/* ---- an entry: a line of one JSON object with the time first, made on the stack: the form that the log and the audit log share. It is a
 * whole object, however long its parts are: texts are cut short, fields left out ---- */

enum { LOG_ENTRY_BYTES_MAX = 4096 };

struct log_entry {
	char   text[LOG_ENTRY_BYTES_MAX];
	size_t len;
};

/* {"time":"2026-01-02T03:04:05.678Z" */
void log_entry_begin(struct log_entry *l);

/* A text that may be long: cut where the line is full. The name and a few bytes must fit. */
void log_entry_text(struct log_entry *l, const char *name, struct bytes text);

/* Left out if it does not fit. */
void log_entry_field(struct log_entry *l, const struct log_field *f);

/* Closes the object; with its line feed. */
struct bytes log_entry_end(struct log_entry *l);

#endif
