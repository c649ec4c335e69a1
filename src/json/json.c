/* JSON trees: looking things up in what read.cc made, and reading them strictly. A request has about ten fields, so that a
 * walk along the list beats any index. The path of a field is put together only when something is wrong with it. */
#define JSON_INSIDE
#include "json/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct json json_of_text(struct bytes text)
{
	return (struct json){.type = JSON_STRING, .json_union = {.text = text}};
}

struct json json_of_integer(int64_t integer)
{
	return (struct json){.type = JSON_INT, .json_union = {.integer = integer}};
}

const struct json *json_get(const struct json *object, struct bytes name)
{
	if (object == NULL || object->type != JSON_OBJECT)
		return NULL;
	for (const struct json *child = object->json_union.children; child != NULL; child = child->next)
		if (bytes_equal(child->name, name))
			return child;
	return NULL;
}

static bool children_equal(const struct json *a, const struct json *b)
{
	if (a->count != b->count)
		return false;
	a = a->json_union.children;
	b = b->json_union.children;
	for (; a != NULL && b != NULL; a = a->next, b = b->next)
		if (!bytes_equal(a->name, b->name) || !json_equal(a, b))
			return false;
	return a == b;
}

bool json_equal(const struct json *a, const struct json *b)
{
	if (a->type != b->type)
		return false;
	switch (a->type) {
	case JSON_NULL:
		return true;
	case JSON_BOOL:
		return a->json_union.truth == b->json_union.truth;
	case JSON_INT:
		return a->json_union.integer == b->json_union.integer;
	case JSON_DOUBLE:
		return a->json_union.real == b->json_union.real;
	case JSON_STRING:
		return bytes_equal(a->json_union.text, b->json_union.text);
	case JSON_ARRAY:
	case JSON_OBJECT:
		break;
	}
	return children_equal(a, b);
}

bool json_whole(const struct json *number, int64_t *out)
{
	static const double exact_max = 9007199254740992.0; /* 2^53 */

	if (number->type == JSON_INT) {
		*out = number->json_union.integer;
		return true;
	}
	if (number->type != JSON_DOUBLE || !(fabs(number->json_union.real) <= exact_max) ||
	    floor(number->json_union.real) != number->json_union.real)
		return false;
	*out = (int64_t)number->json_union.real;
	return true;
}

/* The closing quote of a string that begins at `at`, or the end: a quote after an odd number of backslashes is part of it. */
static const char *string_end(const char *at, const char *end)
{
	const char *start = at;

	while ((at = memchr(at, '"', (size_t)(end - at))) != NULL) {
		const char *before = at;

		while (before > start && before[-1] == '\\')
			before--;
		if ((at - before) % 2 == 0)
			return at;
		start = ++at; /* no run of backslashes is counted twice */
	}
	return end;
}

size_t json_count(struct bytes text)
{
	const char *end = text.data + text.len;
	size_t      count = 1;

	for (const char *at = text.data; at < end && count <= JSON_VALUES_MAX; at++) {
		if (*at == '"')
			at = string_end(at + 1, end);
		else
			count += *at == ',' || *at == '[' || *at == '{';
	}
	return count;
}

const char *json_type_name(enum json_type type)
{
	switch (type) {
	case JSON_NULL:
		return "null";
	case JSON_BOOL:
		return "a boolean";
	case JSON_INT:
	case JSON_DOUBLE:
		return "a number";
	case JSON_STRING:
		return "a string";
	case JSON_ARRAY:
		return "an array";
	case JSON_OBJECT:
		break;
	}
	return "an object";
}

/* ---- fields: what is wrong, and where ---- */

static size_t path_add(char *path, size_t at, struct bytes name)
{
	int n = snprintf(path + at, ERR_FIELD_MAX - at, "%s%.*s", at > 0 ? "." : "", BYTES_ARG(name));

	return n < 0 ? at : at + (size_t)n < ERR_FIELD_MAX ? at + (size_t)n : ERR_FIELD_MAX - 1;
}

static size_t path_write(const struct fields *f, char *path)
{
	size_t at = f->parent == NULL ? 0 : path_write(f->parent, path);

	return f->name.len == 0 ? at : path_add(path, at, f->name);
}

static uint32_t line_of(const struct fields *f, const char *name)
{
	const struct json *member;

	if (f->object == NULL)
		return 0;
	member = name == NULL ? NULL : json_get(f->object, bytes_of(name));
	return member != NULL ? member->line : f->object->line;
}

#define LINE    "line "
#define MISSING "missing" /* how what is said of a member begins that is not there */

static void fail_text(struct fields *f, const char *name, enum err_code code, const char *text)
{
	char     path[ERR_FIELD_MAX] = "";
	size_t   at = path_write(f, path);
	uint32_t line = line_of(f, name);
	char     where[32] = "";

	if (fields_failed(f))
		return;
	if (name != NULL)
		path_add(path, at, bytes_of(name));
	if (line > 0)
		snprintf(where, sizeof(where), LINE "%" PRIu32 ": ", line);
	err_field(f->err, code, path, "%s%s%s%s", where, path, path[0] != '\0' ? ": " : "", text);
}

/* A member that was not asked for, and may be a missing one, mistyped. NULL: there is none. */
static const struct json *mistyped(const struct fields *f, const char *missing)
{
	const struct json *best = NULL;
	size_t             least = SIZE_MAX;
	uint32_t           at = 0;

	if (f->object == NULL || missing == NULL)
		return NULL;
	for (const struct json *m = f->object->json_union.children; m != NULL; m = m->next, at++) {
		bool   seen = f->seen[at / 64] >> at % 64 & 1;
		size_t typos = seen ? SIZE_MAX : bytes_typos(m->name, bytes_of(missing));

		if (typos < least)
			best = m;
		least = typos < least ? typos : least;
	}
	return best;
}

void fields_fail(struct fields *f, const char *name, enum err_code code, const char *format, ...)
{
	char               text[ERR_TEXT_MAX / 2];
	const struct json *meant = NULL;
	va_list            args;
	size_t             len;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!fields_failed(f) && strncmp(text, MISSING, strlen(MISSING)) == 0)
		meant = mistyped(f, name);
	len = strlen(text);
	if (meant != NULL)
		snprintf(text + len, sizeof(text) - len, "; you sent `%.*s`", BYTES_ARG(meant->name));
	fail_text(f, name, code, text);
}

/* The line, if it begins with one, stays in front of the path. */
void fields_adopt(struct fields *f, const char *name, const struct err *wrong)
{
	char        path[ERR_FIELD_MAX] = "";
	size_t      at = path_add(path, path_write(f, path), bytes_of(name));
	const char *rest = wrong->text;

	if (fields_failed(f))
		return;
	if (strncmp(rest, LINE, strlen(LINE)) == 0 && strstr(rest, ": ") != NULL)
		rest = strstr(rest, ": ") + 2;
	if (wrong->field[0] != '\0')
		path_add(path, at, bytes_of(wrong->field));
	err_field(f->err, wrong->code, path, "%.*s%.*s%s%s", (int)(rest - wrong->text), wrong->text, (int)at,
	          path, wrong->field[0] != '\0' ? "." : ": ", rest);
}

/* ---- fields: beginnings ---- */

/* What has neither a path nor a line is a request's body, mostly. */
static void begin(struct fields *f, const struct json *object)
{
	bool is_body = f->parent == NULL && (object == NULL || object->line == 0);

	f->object = object; /* also a wrong one, while it is refused: for its line */
	if (object == NULL && is_body)
		fields_fail(f, NULL, ERR_SERIALIZATION, "the body is missing: send a JSON object");
	else if (object == NULL || object->type != JSON_OBJECT)
		fields_fail(f, NULL, ERR_SERIALIZATION, "%smust be an object, not %s",
		            is_body ? "the body " : "",
		            object == NULL ? "nothing" : json_type_name(object->type));
	else if (object->count > FIELDS_MEMBERS_MAX)
		fields_fail(f, NULL, ERR_SERIALIZATION, "must have at most %d members", FIELDS_MEMBERS_MAX);
	else
		return;
	f->object = NULL; /* everything is absent */
}

void fields_init(struct fields *f, const struct json *object, struct err *err)
{
	*f = (struct fields){.err = err};
	err->code = ERR_NONE;
	begin(f, object);
}

void fields_enter(struct fields *f, const struct fields *parent, struct bytes name, const struct json *object)
{
	*f = (struct fields){.err = parent->err, .parent = parent, .name = name};
	begin(f, object);
}

/* ---- fields: members ---- */

const struct json *fields_get(struct fields *f, const char *name)
{
	const struct json *found = NULL;
	struct bytes       wanted = bytes_of(name);
	uint32_t           at = 0;

	if (f->object == NULL || fields_failed(f))
		return NULL;
	if (f->asked_count < FIELDS_ASKED_MAX)
		f->asked[f->asked_count++] = name;
	for (const struct json *m = f->object->json_union.children; m != NULL; m = m->next, at++) {
		if (m->name.len != wanted.len || m->name.data[0] != name[0] || !bytes_equal(m->name, wanted))
			continue; /* the first byte alone tells most names of one length apart */
		f->seen[at / 64] |= (uint64_t)1 << at % 64;
		if (found != NULL) {
			fields_fail(f, name, ERR_SERIALIZATION, "given twice");
			return NULL;
		}
		found = m;
	}
	return found != NULL && found->type == JSON_NULL ? NULL : found;
}

bool fields_has(struct fields *f, const char *name)
{
	const struct json *member = fields_failed(f) ? NULL : json_get(f->object, bytes_of(name));
	bool               has = member != NULL && member->type != JSON_NULL;

	if (!has)
		fields_get(f, name); /* nobody else may ask for it, and null is no unknown field */
	return has;
}

static const struct json *member_of(struct fields *f, const char *name, enum json_type type, bool required)
{
	const struct json *member = fields_get(f, name);

	if (member == NULL) {
		if (required)
			fields_fail(f, name, ERR_INVALID, MISSING);
		return NULL;
	}
	if (member->type == type)
		return member;
	fields_fail(f, name, ERR_SERIALIZATION, "must be %s, not %s", json_type_name(type),
	            json_type_name(member->type));
	return NULL;
}

static struct bytes text_of(struct fields *f, const char *name, size_t max, bool required,
                            struct bytes otherwise)
{
	const struct json *member = member_of(f, name, JSON_STRING, required);

	if (member == NULL)
		return otherwise;
	if (member->json_union.text.len >= 1 && member->json_union.text.len <= max)
		return member->json_union.text;
	fields_fail(f, name, ERR_INVALID, "must have 1 to %zu bytes, not %zu", max,
	            member->json_union.text.len);
	return otherwise;
}

struct bytes fields_text(struct fields *f, const char *name, size_t max)
{
	return text_of(f, name, max, true, (struct bytes){NULL, 0});
}

struct bytes fields_text_or(struct fields *f, const char *name, size_t max, struct bytes otherwise)
{
	return text_of(f, name, max, false, otherwise);
}

/* otherwise NULL: required. */
static int64_t i64_of(struct fields *f, const char *name, int64_t low, int64_t high, const int64_t *otherwise)
{
	const struct json *member = fields_get(f, name);
	int64_t            number;

	if (member == NULL) {
		if (otherwise != NULL)
			return *otherwise;
		fields_fail(f, name, ERR_INVALID, MISSING);
		return low;
	}
	if (json_whole(member, &number)) {
		if (number >= low && number <= high)
			return number;
		fields_fail(f, name, ERR_INVALID, "must be from %" PRIi64 " to %" PRIi64 ", not %" PRIi64,
		            low, high, number);
	} else if (member->type == JSON_DOUBLE) {
		fields_fail(f, name, ERR_INVALID, "must be a whole number from %" PRIi64 " to %" PRIi64, low,
		            high);
	} else {
		fields_fail(f, name, ERR_SERIALIZATION, "must be a whole number, not %s",
		            json_type_name(member->type));
	}
	return otherwise != NULL ? *otherwise : low;
}

int64_t fields_i64(struct fields *f, const char *name, int64_t low, int64_t high)
{
	return i64_of(f, name, low, high, NULL);
}

int64_t fields_i64_or(struct fields *f, const char *name, int64_t low, int64_t high, int64_t otherwise)
{
	return i64_of(f, name, low, high, &otherwise);
}

bool fields_bool_or(struct fields *f, const char *name, bool otherwise)
{
	const struct json *member = member_of(f, name, JSON_BOOL, false);

	return member == NULL ? otherwise : member->json_union.truth;
}

/* "a, b or c" */
static void choices_write(const char *const *names, char *out, size_t len)
{
	size_t at = 0;

	out[0] = '\0';
	for (size_t i = 0; names[i] != NULL && at < len; i++) {
		const char *before = i == 0 ? "" : names[i + 1] == NULL ? " or " : ", ";
		int         n = snprintf(out + at, len - at, "%s%s", before, names[i]);

		at += n > 0 ? (size_t)n : 0;
	}
}

int fields_choice(struct fields *f, const char *name, const char *const *names, int otherwise)
{
	const struct json *member = member_of(f, name, JSON_STRING, otherwise < 0);
	char               all[512];

	if (member == NULL)
		return otherwise < 0 ? 0 : otherwise;
	for (int i = 0; names[i] != NULL; i++)
		if (bytes_is(member->json_union.text, names[i]))
			return i;
	choices_write(names, all, sizeof(all));
	fields_fail(f, name, ERR_INVALID, "must be %s", all);
	return otherwise < 0 ? 0 : otherwise;
}

static const struct json *children_of(struct fields *f, const char *name, enum json_type type, uint32_t max)
{
	const struct json *member = member_of(f, name, type, false);

	if (member == NULL || member->count <= max)
		return member;
	fields_fail(f, name, ERR_INVALID, "must have at most %" PRIu32 " entries, not %" PRIu32, max,
	            member->count);
	return NULL;
}

const struct json *fields_object(struct fields *f, const char *name, uint32_t max)
{
	return children_of(f, name, JSON_OBJECT, max);
}

const struct json *fields_array(struct fields *f, const char *name, uint32_t max)
{
	return children_of(f, name, JSON_ARRAY, max);
}

/* What else could have been meant: "did you mean `life`?", or all that was asked for, each name once. */
static void hint_write(const struct fields *f, struct bytes unknown, char *out, size_t len)
{
	size_t best = SIZE_MAX, at = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < f->asked_count; i++) {
		size_t typos = bytes_typos(unknown, bytes_of(f->asked[i]));

		if (typos < best)
			snprintf(out, len, "; did you mean `%s`?", f->asked[i]);
		best = typos < best ? typos : best;
	}
	for (uint32_t i = 0; i < f->asked_count && best == SIZE_MAX && at < len; i++) {
		uint32_t first = 0;
		int      n;

		while (strcmp(f->asked[first], f->asked[i]) != 0)
			first++;
		if (first < i)
			continue;
		n = snprintf(out + at, len - at, "%s%s", at > 0 ? ", " : "; expected one of: ", f->asked[i]);
		at += n > 0 ? (size_t)n : 0;
	}
}

enum err_code fields_end(struct fields *f)
{
	uint32_t at = 0;

	if (fields_failed(f) || f->object == NULL)
		return f->err->code;
	for (const struct json *m = f->object->json_union.children; m != NULL; m = m->next, at++) {
		char name[ERR_FIELD_MAX / 2], hint[ERR_TEXT_MAX / 4];

		if (f->seen[at / 64] >> at % 64 & 1)
			continue;
		snprintf(name, sizeof(name), "%.*s", BYTES_ARG(m->name));
		hint_write(f, m->name, hint, sizeof(hint));
		fields_fail(f, name, ERR_INVALID, "unknown field%s", hint);
		return f->err->code;
	}
	return ERR_NONE;
}
