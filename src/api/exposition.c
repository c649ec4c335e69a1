/* Exposition: writes the lines. See exposition.h. */
#include "api/exposition.h"

#include <stdio.h>

static void put(struct buf *out, const char *text)
{
	buf_add_bytes(out, bytes_of(text));
}

/* A whole number as such, up to 10^15; anything else with 15 digits. */
static void put_number(struct buf *out, double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%.15g", value);
	put(out, text);
}

/* Backslash and line feed, and in a label's value the quote, are escaped. */
static void put_escaped(struct buf *out, struct bytes text, bool quoted)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		if (c == '\n') {
			put(out, "\\n");
			continue;
		}
		if (c == '\\' || (quoted && c == '"'))
			buf_add_byte(out, '\\');
		buf_add_byte(out, (uint8_t)c);
	}
}

void exposition_family(struct buf *out, const char *name, const char *kind, const char *help)
{
	put(out, "# HELP ");
	put(out, name);
	put(out, " ");
	put_escaped(out, bytes_of(help), false);
	put(out, "\n# TYPE ");
	put(out, name);
	put(out, " ");
	put(out, kind);
	put(out, "\n");
}

/* One line; le may be NULL. */
static void put_line(struct buf *out, const char *name, const char *suffix, struct labels labels,
                     const char *le, double value)
{
	const char *before = "{";

	put(out, name);
	put(out, suffix);
	for (unsigned i = 0; i < labels.count; i++, before = ",") {
		put(out, before);
		put(out, labels.list[i].name);
		put(out, "=\"");
		put_escaped(out, labels.list[i].value, true);
		put(out, "\"");
	}
	if (le != NULL) {
		put(out, before);
		put(out, "le=\"");
		put(out, le);
		put(out, "\"");
	}
	put(out, labels.count > 0 || le != NULL ? "} " : " ");
	put_number(out, value);
	put(out, "\n");
}

void exposition_sample(struct buf *out, const char *name, struct labels labels, double value)
{
	put_line(out, name, "", labels, NULL, value);
}

void exposition_histogram(struct buf *out, const char *name, struct labels labels,
                          const struct metric_bounds *bounds, double unit, const struct metric_reading *r)
{
	uint64_t count = 0;
	char     le[32];

	for (uint32_t i = 0; i < bounds->count; i++) {
		count += r->buckets[i];
		snprintf(le, sizeof(le), "%g", (double)bounds->upper[i] / unit);
		put_line(out, name, "_bucket", labels, le, (double)count);
	}
	count = metric_reading_count(r);
	put_line(out, name, "_bucket", labels, "+Inf", (double)count);
	put_line(out, name, "_sum", labels, NULL, (double)r->sum / unit);
	put_line(out, name, "_count", labels, NULL, (double)count);
}
