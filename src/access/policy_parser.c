/* Policy parser, the shared parts: refusals that say where, and the shapes that occur everywhere. */
#include "access/policy_parser.h"

#include <stdarg.h>
#include <stdio.h>

enum { PLACE_BYTES = 512, MESSAGE_BYTES = 1024 };

/* ---- refusals ---- */

static size_t quote_byte(char *out, uint8_t byte)
{
	if (byte >= ' ' && byte < 0x7F && byte != '"' && byte != '\\') {
		*out = (char)byte;
		return 1;
	}
	return (size_t)sprintf(out, "\\x%02x", byte);
}

struct quoted quote(struct bytes value)
{
	struct quoted q;
	size_t        shown = value.len < QUOTED_BYTES_MAX ? value.len : QUOTED_BYTES_MAX;
	size_t        at = 0;

	q.text[at++] = '"';
	for (size_t i = 0; i < shown; i++)
		at += quote_byte(q.text + at, (uint8_t)value.data[i]);
	strcpy(q.text + at, shown < value.len ? "…\"" : "\"");
	return q;
}

/* Sid, if it is fit to be shown; it may not have been checked yet. */
static void place_statement(const struct parser *p, char *out, size_t size)
{
	const struct json *sid = json_get(p->statement, BYTES("Sid"));

	if (sid != NULL && sid->type == JSON_STRING && sid->text.len > 0)
		snprintf(out, size, "Statement[%zu] (Sid %s)", p->number, quote(sid->text).text);
	else
		snprintf(out, size, "Statement[%zu]", p->number);
}

enum err_code parser_refuse(struct parser *p, const char *format, ...)
{
	char    statement[PLACE_BYTES] = "policy", message[MESSAGE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	if (p->statement != NULL)
		place_statement(p, statement, sizeof(statement));
	return err_set(p->err, ERR_INVALID, "%s%s%.*s%s%.*s%s%.*s: %s", statement,
	               p->element.len > 0 ? ", " : "", BYTES_ARG(p->element), p->spelled.len > 0 ? ", " : "",
	               BYTES_ARG(p->spelled), p->key.len > 0 ? ", " : "", BYTES_ARG(p->key), message);
}

/* ---- shapes ---- */

enum err_code parser_list(struct parser *p, const struct json *json, const struct json **first, size_t *count)
{
	bool list = json->type == JSON_ARRAY;

	*first = list ? json->children : json;
	*count = list ? json->count : 1;
	if (*count == 0)
		return parser_refuse(p, "the list must not be empty");
	if (*count > POLICY_LIST_MAX)
		return parser_refuse(p, "the list must have at most %d values, not %zu", POLICY_LIST_MAX,
		                     *count);
	return ERR_NONE;
}

enum err_code parser_text(struct parser *p, const struct json *json, size_t max, struct bytes *out)
{
	if (json->type != JSON_STRING)
		return parser_refuse(p, "must be a string, not %s", json_type_name(json->type));
	if (json->text.len > max)
		return parser_refuse(p, "%s must have at most %zu bytes, not %zu", quote(json->text).text,
		                     max, json->text.len);
	if (bytes_contains(json->text, BYTES("${")))
		return parser_refuse(p, "%s contains a policy variable, which is not supported",
		                     quote(json->text).text);
	*out = arena_copy(p->arena, json->text);
	return ERR_NONE;
}

enum err_code parser_unique(struct parser *p, const struct json *object)
{
	for (const struct json *a = object->children; a != NULL; a = a->next)
		for (const struct json *b = a->next; b != NULL; b = b->next)
			if (bytes_equal(a->name, b->name))
				return parser_refuse(p, "%s is given twice", quote(a->name).text);
	return ERR_NONE;
}

enum err_code parser_count_runs(struct parser *p, struct bytes pattern)
{
	const char *star = memchr(pattern.data, '*', pattern.len);

	while (star != NULL) {
		const char *from = star + 1, *end = pattern.data + pattern.len;

		star = memchr(from, '*', (size_t)(end - from));
		if (star != NULL && memchr(from, '?', (size_t)(star - from)) != NULL)
			p->searched += (size_t)(star - from);
	}
	if (p->searched > POLICY_SEARCH_BYTES_MAX)
		return parser_refuse(p,
		                     "%s: too costly to match; the parts between two * that contain a ? must "
		                     "have at most %d bytes in the whole policy",
		                     quote(pattern).text, POLICY_SEARCH_BYTES_MAX);
	return ERR_NONE;
}
