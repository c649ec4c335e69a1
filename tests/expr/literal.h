/* Literal: items written and shown compactly in the tables of tests.
 *
 *   a:1 b:'text' c:x'0aff' t:true f:false n:null m:{x:1 y:2} l:[1 'two' []] s:<'a' 'b'> i:<1 2> b:<x'00'>
 *
 * Order does not matter: items and sets are sorted. A malformed literal is a mistake in the test: abort. */
#ifndef TESTS_EXPR_LITERAL_H
#define TESTS_EXPR_LITERAL_H

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "item/value.h"

enum { LITERAL_MEMBERS_MAX = 64 };

struct literal {
	struct arena *arena;
	const char   *at;
};

static inline struct value literal_value(struct literal *l);

static inline char literal_peek(struct literal *l)
{
	while (*l->at == ' ' || *l->at == ',')
		l->at++;
	return *l->at;
}

static inline void literal_expect(struct literal *l, char c)
{
	if (literal_peek(l) != c) {
		fprintf(stderr, "literal: expected '%c' at \"%s\"\n", c, l->at);
		abort();
	}
	l->at++;
}

static inline struct bytes literal_word(struct literal *l, const char *ends)
{
	const char *start = l->at;

	l->at += strcspn(l->at, ends);
	return (struct bytes){start, (size_t)(l->at - start)};
}

static inline struct bytes literal_quoted(struct literal *l)
{
	struct bytes text;

	literal_expect(l, '\'');
	text = literal_word(l, "'");
	literal_expect(l, '\'');
	return text;
}

static inline struct value literal_binary(struct literal *l)
{
	struct bytes hex;
	char        *data;

	l->at++;
	hex = literal_quoted(l);
	data = arena_alloc(l->arena, hex.len / 2 + 1);
	for (size_t i = 0; i < hex.len / 2; i++) {
		char digits[3] = {hex.data[2 * i], hex.data[2 * i + 1], 0};

		data[i] = (char)strtol(digits, NULL, 16);
	}
	return (struct value){.type = VALUE_B, .text = {data, hex.len / 2}};
}

static inline struct value_list literal_list(struct literal *l, char close)
{
	struct value_list out = {arena_array(l->arena, LITERAL_MEMBERS_MAX, sizeof(*out.items)), 0};

	l->at++;
	while (literal_peek(l) != close)
		out.items[out.count++] = literal_value(l);
	l->at++;
	return out;
}

static inline struct value literal_set(struct literal *l)
{
	struct value    set = {.list = literal_list(l, '>')};
	enum value_type element = set.list.items[0].type;

	set.type = element == VALUE_S ? VALUE_SS : element == VALUE_N ? VALUE_NS : VALUE_BS;
	if (!value_set_sort(&set.list))
		abort();
	return set;
}

static inline struct item literal_members(struct literal *l, char close)
{
	struct item out = {arena_array(l->arena, LITERAL_MEMBERS_MAX, sizeof(*out.members)), 0};

	while (literal_peek(l) != close) {
		struct member *m = &out.members[out.count++];

		m->name = literal_word(l, ":");
		literal_expect(l, ':');
		m->value = literal_value(l);
	}
	if (!item_sort(&out))
		abort();
	return out;
}

static inline struct value literal_plain(struct literal *l)
{
	struct bytes word = literal_word(l, " ,]}>");
	struct value v = {.type = VALUE_N};
	struct err   err;

	if (bytes_is(word, "null"))
		return (struct value){.type = VALUE_NULL};
	if (bytes_is(word, "true") || bytes_is(word, "false"))
		return value_bool(bytes_is(word, "true"));
	if (number_parse(word, &v.number, &err) != ERR_NONE) {
		fprintf(stderr, "literal: \"%.*s\": %s\n", BYTES_ARG(word), err.text);
		abort();
	}
	return v;
}

static inline struct value literal_value(struct literal *l)
{
	struct value v = {.type = VALUE_M};

	switch (literal_peek(l)) {
	case '\'':
		return value_string(literal_quoted(l));
	case 'x':
		return literal_binary(l);
	case '<':
		return literal_set(l);
	case '[':
		v.type = VALUE_L;
		v.list = literal_list(l, ']');
		return v;
	case '{':
		l->at++;
		v.map = literal_members(l, '}');
		l->at++;
		return v;
	default:
		return literal_plain(l);
	}
}

static inline struct item literal_item(struct arena *a, const char *text)
{
	struct literal l = {a, text};

	return literal_members(&l, '\0');
}

/* ---- and back ---- */

static inline void literal_show_members(struct buf *out, const struct item *item);

static inline void literal_show(struct buf *out, const struct value *v)
{
	char number[NUMBER_TEXT_MAX];

	switch (v->type) {
	case VALUE_S:
		buf_add(out, "'", 1);
		buf_add_bytes(out, v->text);
		buf_add(out, "'", 1);
		return;
	case VALUE_B:
		buf_add(out, "x'", 2);
		for (size_t i = 0; i < v->text.len; i++)
			buf_add_bytes(out, arena_printf(out->arena, "%02x", (uint8_t)v->text.data[i]));
		buf_add(out, "'", 1);
		return;
	case VALUE_N:
		buf_add(out, number, number_format(&v->number, number));
		return;
	case VALUE_BOOL:
		buf_add_bytes(out, bytes_of(v->truth ? "true" : "false"));
		return;
	case VALUE_NULL:
		buf_add_bytes(out, BYTES("null"));
		return;
	case VALUE_M:
		buf_add(out, "{", 1);
		literal_show_members(out, &v->map);
		buf_add(out, "}", 1);
		return;
	default:
		buf_add(out, v->type == VALUE_L ? "[" : "<", 1);
		for (uint32_t i = 0; i < v->list.count; i++) {
			buf_add(out, " ", i > 0);
			literal_show(out, &v->list.items[i]);
		}
		buf_add(out, v->type == VALUE_L ? "]" : ">", 1);
	}
}

static inline void literal_show_members(struct buf *out, const struct item *item)
{
	for (uint32_t i = 0; i < item->count; i++) {
		buf_add(out, " ", i > 0);
		buf_add_bytes(out, item->members[i].name);
		buf_add(out, ":", 1);
		literal_show(out, &item->members[i].value);
	}
}

static inline struct bytes literal_text(struct arena *a, const struct item *item)
{
	struct buf out;

	buf_init(&out, a);
	literal_show_members(&out, item);
	return buf_bytes(&out);
}

#endif
