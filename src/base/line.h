/* Line: one JSON object on one line, with the time first, made on the stack: the form that the log and the
 * audit log share.
 *
 * What always holds: a line is a whole JSON object, however long its parts are: texts are cut short, fields
 * left out. */
#ifndef BASE_LINE_H
#define BASE_LINE_H

#include "base/log.h"

enum { LINE_BYTES_MAX = 4096 };

struct line {
	char   text[LINE_BYTES_MAX];
	size_t len;
};

/* {"time":"2026-01-02T03:04:05.678Z" */
void line_begin(struct line *l);

/* A text that may be long: cut where the line is full. The name and a few bytes must fit. */
void line_text(struct line *l, const char *name, struct bytes text);

/* Left out if it does not fit. */
void line_field(struct line *l, const struct log_field *f);

/* Closes the object; with its line feed. */
struct bytes line_end(struct line *l);

#endif
