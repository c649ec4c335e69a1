/* YAML in: the one file that knows libyaml. Its events are put together into a tree, on a stack of fixed
 * depth.
 *
 * What always holds: time and memory grow with the text alone, because nothing in it can refer to anything
 * else (no anchors, so no aliases); nothing of the library's memory is in the tree; an error of ours and one
 * of the library's look alike. */
#define JSON_INSIDE
#include "json/yaml.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include <yaml.h>

/* ---- scalars ----
 * What an unquoted scalar means, by the core schema of YAML 1.2 in its lower-case spellings:
 *
 *   null  ~  (nothing)             null
 *   true  false                    booleans; yes, No, on, True are strings
 *   12  -3  +4  0o17  0xff         integers; 010 is ten
 *   1.5  .5  1e3                   floats
 *
 * Everything else is a string: 2012-10-17, 12:30, 1_000, 127.0.0.1. */

#define DIGITS "0123456789"

static bool is_sign(char c)
{
	return c == '-' || c == '+';
}

static bool is_null(const char *text)
{
	return *text == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

/* At least one character, and none but these. */
static bool has_only(const char *text, const char *characters)
{
	return *text != '\0' && text[strspn(text, characters)] == '\0';
}

/* The base of an integer, or 0 if it is none; *digits: after its sign or prefix. */
static unsigned integer_base(const char *text, const char **digits)
{
	*digits = text + 2;
	if (strncmp(text, "0x", 2) == 0)
		return has_only(*digits, DIGITS "abcdefABCDEF") ? 16 : 0;
	if (strncmp(text, "0o", 2) == 0)
		return has_only(*digits, "01234567") ? 8 : 0;
	*digits = text + is_sign(*text);
	return has_only(*digits, DIGITS) ? 10 : 0;
}

static unsigned digit_value(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
}

/* False if it does not fit. */
static bool read_digits(const char *digits, unsigned base, uint64_t *out)
{
	*out = 0;
	for (; *digits != '\0'; digits++)
		if (__builtin_mul_overflow(*out, base, out) ||
		    __builtin_add_overflow(*out, digit_value(*digits), out))
			return false;
	return true;
}

static bool resolve_integer(const char *digits, unsigned base, bool negative, struct json *to)
{
	uint64_t value;

	if (!read_digits(digits, base, &value) || (negative && value > (uint64_t)INT64_MAX + 1))
		return false;
	if (!negative && value > INT64_MAX) {
		to->type = JSON_DOUBLE;
		to->json_union.real = (double)value;
		return true;
	}
	to->type = JSON_INT;
	to->json_union.integer = negative ? (int64_t)(0 - value) : (int64_t)value;
	return true;
}

/* [-+]? ( .digits | digits ( .digits* )? ) ( [eE] [-+]? digits )? */
static bool is_float(const char *text)
{
	size_t whole, part = 0;

	text += is_sign(*text);
	whole = strspn(text, DIGITS);
	text += whole;
	if (*text == '.') {
		part = strspn(++text, DIGITS);
		text += part;
	}
	if (whole + part == 0)
		return false;
	if (*text != 'e' && *text != 'E')
		return *text == '\0';
	text++;
	return has_only(text + is_sign(*text), DIGITS);
}

static bool is_beyond_numbers(const char *text)
{
	return strcasecmp(text + is_sign(*text), ".inf") == 0 || strcasecmp(text, ".nan") == 0;
}

/* Fills type and value of *to; a string's text is `text` itself. False if it is a number that the tree cannot
 * hold: an integer beyond 64 bits, a float beyond a double's range, an infinity or .nan. Numbers end as in read.cc: an
 * integer from 2^63 to 2^64 - 1 is a double. */
static bool scalar_resolve(const char *text, struct json *to)
{
	const char *digits;
	unsigned    base = integer_base(text, &digits);

	if (base != 0)
		return resolve_integer(digits, base, *text == '-', to);
	if (is_float(text)) {
		to->type = JSON_DOUBLE;
		to->json_union.real = strtod(text, NULL);
		return isfinite(to->json_union.real);
	}
	if (is_null(text)) {
		to->type = JSON_NULL;
		to->json_union.integer = 0;
	} else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
		to->type = JSON_BOOL;
		to->json_union.truth = *text == 't';
	} else {
		to->type = JSON_STRING;
		to->json_union.text = bytes_of(text);
	}
	return !is_beyond_numbers(text);
}

/* ---- the tree ---- */

/* A node, and where it begins. Every struct json here is the first member of one. */
struct node {
	struct json json;
	size_t      column; /* from 1 */
};

/* An array or object that is still open. */
struct frame {
	struct node *container;
	struct node *last;  /* its newest child */
	struct node *named; /* that child, if it has its name and waits for its value */
};

struct reading {
	yaml_parser_t parser;
	struct bytes  text;
	struct arena *arena;
	struct err   *err;
	struct node  *root;
	struct frame  frames[YAML_DEPTH_MAX];
	size_t        depth;
};

/* ---- what is wrong ---- */

static enum err_code refuse_at(struct reading *r, yaml_mark_t at, const char *what)
{
	return err_set(r->err, ERR_SERIALIZATION, "line %zu, column %zu: %s", at.line + 1, at.column + 1,
	               what);
}

/* The library says of an unreadable byte only how many come before it. Columns count characters. */
static yaml_mark_t mark_of_offset(struct bytes text, size_t offset)
{
	yaml_mark_t at = {.index = offset};

	for (size_t i = 0; i < offset && i < text.len; i++) {
		bool continues = ((unsigned char)text.data[i] & 0xC0) == 0x80;

		at.line += text.data[i] == '\n';
		at.column = text.data[i] == '\n' ? 0 : at.column + !continues;
	}
	return at;
}

static enum err_code refuse_syntax(struct reading *r)
{
	const yaml_parser_t *p = &r->parser;
	yaml_mark_t          at = p->problem_mark;

	if (p->error == YAML_MEMORY_ERROR)
		abort();
	if (p->error == YAML_READER_ERROR)
		at = mark_of_offset(r->text, p->problem_offset);
	return err_set(r->err, ERR_SERIALIZATION, "line %zu, column %zu: not valid YAML: %s", at.line + 1,
	               at.column + 1, p->problem);
}

/* ---- the tree ---- */

static struct frame *innermost(struct reading *r)
{
	return r->depth == 0 ? NULL : &r->frames[r->depth - 1];
}

static struct node *node_new(struct reading *r, yaml_mark_t at)
{
	struct node *n = arena_zalloc(r->arena, sizeof(*n));

	n->json.line = (uint32_t)at.line + 1;
	n->column = at.column + 1;
	return n;
}

static struct node *append(struct reading *r, struct frame *f, yaml_mark_t at)
{
	struct node *n = node_new(r, at);

	if (f->last == NULL)
		f->container->json.json_union.children = &n->json;
	else
		f->last->json.next = &n->json;
	f->last = n;
	f->container->json.count++;
	return n;
}

static bool awaits_name(const struct frame *f)
{
	return f != NULL && f->container->json.type == JSON_OBJECT && f->named == NULL;
}

/* The node that the value which begins here fills: the document, an element, or a member that has its name.
 */
static struct node *place(struct reading *r, yaml_mark_t at)
{
	struct frame *f = innermost(r);
	struct node  *n;

	if (f == NULL)
		return r->root = node_new(r, at);
	if (f->container->json.type == JSON_ARRAY)
		return append(r, f, at);
	n = f->named;
	f->named = NULL;
	return n;
}

static const char *scalar_text(struct reading *r, const yaml_event_t *e)
{
	size_t len = e->data.scalar.length;
	char  *text = arena_alloc(r->arena, len + 1);

	memcpy(text, e->data.scalar.value, len);
	text[len] = '\0';
	return text;
}

static enum err_code take_name(struct reading *r, struct frame *f, const yaml_event_t *e)
{
	const char *text = scalar_text(r, e);

	if (e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strcmp(text, "<<") == 0)
		return refuse_at(r, e->start_mark, "merge keys (<<) are not supported");
	f->named = append(r, f, e->start_mark);
	f->named->json.name = (struct bytes){text, e->data.scalar.length};
	return ERR_NONE;
}

static enum err_code take_scalar(struct reading *r, const yaml_event_t *e)
{
	struct json *to;

	if (awaits_name(innermost(r)))
		return take_name(r, innermost(r), e);
	to = &place(r, e->start_mark)->json;
	if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) {
		to->type = JSON_STRING;
		to->json_union.text = (struct bytes){scalar_text(r, e), e->data.scalar.length};
	} else if (!scalar_resolve(scalar_text(r, e), to)) {
		return refuse_at(r, e->start_mark,
		                 "the number is too large for 64 bits or a double; quote it if it is text");
	}
	return ERR_NONE;
}

static enum err_code open_container(struct reading *r, enum json_type type, const yaml_event_t *e)
{
	struct node *n;

	if (awaits_name(innermost(r)))
		return refuse_at(r, e->start_mark, "a key must be a single value, not a list or an object");
	if (r->depth == YAML_DEPTH_MAX)
		return err_set(r->err, ERR_SERIALIZATION,
		               "line %zu, column %zu: nested more than %d levels deep",
		               e->start_mark.line + 1, e->start_mark.column + 1, YAML_DEPTH_MAX);
	n = place(r, e->start_mark);
	n->json.type = type;
	r->frames[r->depth++] = (struct frame){.container = n};
	return ERR_NONE;
}

/* ---- duplicate keys: neighbours when sorted, so that a text of many keys costs no squares ---- */

static int compare_names(const void *a, const void *b)
{
	const struct node *x = *(const struct node *const *)a, *y = *(const struct node *const *)b;
	int                order = bytes_compare(x->json.name, y->json.name);

	if (order != 0)
		return order;
	if (x->json.line != y->json.line)
		return x->json.line < y->json.line ? -1 : 1;
	return (x->column > y->column) - (x->column < y->column);
}

enum { NAME_SHOWN_MAX = 128 }; /* a longer name is left out of the message: cut, it might not be UTF-8 */

static enum err_code check_sorted(struct reading *r, const struct node **sorted, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct bytes name = sorted[i]->json.name;

		if (bytes_equal(name, sorted[i - 1]->json.name))
			return err_set(r->err, ERR_SERIALIZATION,
			               "line %u, column %zu: duplicate key `%.*s` (first on line %u)",
			               sorted[i]->json.line, sorted[i]->column,
			               name.len <= NAME_SHOWN_MAX ? (int)name.len : 0, name.data,
			               sorted[i - 1]->json.line);
	}
	return ERR_NONE;
}

static enum err_code check_names(struct reading *r, const struct json *object)
{
	const struct node **sorted = mem_alloc((object->count + 1) * sizeof(struct node *));
	size_t              count = 0;
	enum err_code       rc;

	for (const struct json *child = object->json_union.children; child != NULL; child = child->next)
		sorted[count++] = (const struct node *)child;
	qsort(sorted, count, sizeof(struct node *), compare_names);
	rc = check_sorted(r, sorted, count);
	free(sorted);
	return rc;
}

static enum err_code close_container(struct reading *r)
{
	const struct json *done = &r->frames[--r->depth].container->json;

	return done->type == JSON_OBJECT ? check_names(r, done) : ERR_NONE;
}

/* ---- events ---- */

static bool is_marked(const yaml_char_t *anchor, const yaml_char_t *tag)
{
	return anchor != NULL || tag != NULL;
}

/* Has it an anchor or a tag? */
static bool event_is_marked(const yaml_event_t *e)
{
	switch (e->type) {
	case YAML_SCALAR_EVENT:
		return is_marked(e->data.scalar.anchor, e->data.scalar.tag);
	case YAML_SEQUENCE_START_EVENT:
		return is_marked(e->data.sequence_start.anchor, e->data.sequence_start.tag);
	case YAML_MAPPING_START_EVENT:
		return is_marked(e->data.mapping_start.anchor, e->data.mapping_start.tag);
	default:
		return e->type == YAML_ALIAS_EVENT;
	}
}

static enum err_code take(struct reading *r, const yaml_event_t *e)
{
	if (event_is_marked(e))
		return refuse_at(r, e->start_mark, "anchors (&), aliases (*) and tags (!) are not supported");
	switch (e->type) {
	case YAML_DOCUMENT_START_EVENT:
		return r->root == NULL ? ERR_NONE
		                       : refuse_at(r, e->start_mark,
		                                   "a second document begins here; only one is allowed");
	case YAML_SCALAR_EVENT:
		return take_scalar(r, e);
	case YAML_SEQUENCE_START_EVENT:
		return open_container(r, JSON_ARRAY, e);
	case YAML_MAPPING_START_EVENT:
		return open_container(r, JSON_OBJECT, e);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return close_container(r);
	default:
		return ERR_NONE;
	}
}

static enum err_code take_all(struct reading *r)
{
	for (bool ended = false; !ended;) {
		yaml_event_t  e;
		enum err_code rc;

		if (!yaml_parser_parse(&r->parser, &e))
			return refuse_syntax(r);
		rc = take(r, &e);
		ended = e.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&e);
		if (rc != ERR_NONE)
			return rc;
	}
	if (r->root == NULL)
		r->root = node_new(r, (yaml_mark_t){0});
	return ERR_NONE;
}

enum err_code yaml_read(struct arena *a, struct bytes text, struct json **out, struct err *err)
{
	struct reading r = {.text = text, .arena = a, .err = err};
	enum err_code  rc;

	*out = NULL;
	if (text.len > YAML_BYTES_MAX)
		return err_set(err, ERR_SERIALIZATION, "the text must have at most %d bytes", YAML_BYTES_MAX);
	if (!yaml_parser_initialize(&r.parser))
		abort();
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)(text.len == 0 ? "" : text.data),
	                             text.len);
	rc = take_all(&r);
	yaml_parser_delete(&r.parser);
	if (rc == ERR_NONE)
		*out = &r.root->json;
	return rc;
}
