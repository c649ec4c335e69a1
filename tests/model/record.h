/* Record: the model's items. Attributes come from a fixed handful, so a record is an array with one field an
 * attribute; numbers are whole hundredths; texts, sets, lists and maps are small and of fixed size. Nothing
 * here knows how the engine does any of it: that is what makes a comparison worth something. */
#ifndef TESTS_MODEL_RECORD_H
#define TESTS_MODEL_RECORD_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "item/value.h"
#include "json/write.h"

enum kind { K_ABSENT, K_S, K_N, K_B, K_BOOL, K_NULL, K_L, K_M, K_SS, K_NS };

enum {
	CELL_TEXT_MAX = 12,
	FIELD_LIST_MAX = 8, /* elements of a list or set; a map has two members, x and y */
};

/* A scalar. */
struct cell {
	enum kind kind;
	unsigned  len;
	char      text[CELL_TEXT_MAX]; /* S, B */
	int64_t   n;                   /* N in hundredths; BOOL */
};

struct field {
	struct cell own;   /* its kind is the field's */
	unsigned    count; /* L, SS, NS */
	struct cell list[FIELD_LIST_MAX];
};

/* Names are single letters, in the order of the alphabet. */
enum attribute {
	COUNTER, /* a: N */
	STRINGS, /* b: SS */
	LIST,    /* c: L */
	MAP,     /* d: M */
	EXPIRES, /* e: the time to live */
	FREE,    /* f: whatever */
	GROUP,   /* g: S, N or B, as the table says */
	HASH,    /* h: the table's hash key */
	INDEXED, /* i: S, N or B, as the table says */
	LOCAL,   /* l: S, N or B, as the table says */
	NUMBERS, /* n: NS */
	OTHER,   /* o: another time to live */
	RANGE,   /* r: the table's range key, if it has one */
	ATTRIBUTES
};

static const char attribute_names[] = "abcdefghilnor";

struct record {
	bool         present;
	struct field fields[ATTRIBUTES];
};

/* ---- comparing ---- */

static inline int cell_compare(const struct cell *a, const struct cell *b)
{
	size_t len = a->len < b->len ? a->len : b->len;
	int    order;

	if (a->kind == K_N)
		return (a->n > b->n) - (a->n < b->n);
	order = memcmp(a->text, b->text, len);
	return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

static inline bool cell_equal(const struct cell *a, const struct cell *b)
{
	return a->kind == b->kind && a->n == b->n && a->len == b->len &&
	       memcmp(a->text, b->text, a->len) == 0;
}

static inline unsigned field_cells(const struct field *f)
{
	return f->own.kind == K_M ? 2 : f->count;
}

static inline bool field_equal(const struct field *a, const struct field *b)
{
	if (!cell_equal(&a->own, &b->own) || a->count != b->count)
		return false;
	for (unsigned i = 0; i < field_cells(a); i++)
		if (!cell_equal(&a->list[i], &b->list[i]))
			return false;
	return true;
}

static inline bool record_equal(const struct record *a, const struct record *b)
{
	for (int i = 0; i < ATTRIBUTES; i++)
		if (!field_equal(&a->fields[i], &b->fields[i]))
			return false;
	return true;
}

static inline bool record_is_empty(const struct record *r)
{
	for (int i = 0; i < ATTRIBUTES; i++)
		if (r->fields[i].own.kind != K_ABSENT)
			return false;
	return true;
}

/* ---- making ---- */

static inline struct cell cell_number(int64_t hundredths)
{
	return (struct cell){.kind = K_N, .n = hundredths};
}

static inline struct cell cell_text(enum kind kind, const char *text, unsigned len)
{
	struct cell c = {.kind = kind, .len = len};

	assert(len <= CELL_TEXT_MAX);
	memcpy(c.text, text, len);
	return c;
}

static inline struct field field_of(struct cell c)
{
	return (struct field){.own = c};
}

/* ---- as DynamoDB's JSON ---- */

static inline size_t cell_print_number(const struct cell *c, char out[32])
{
	int64_t size = c->n < 0 ? -c->n : c->n;
	int     len = snprintf(out, 32, "%s%lld", c->n < 0 ? "-" : "", (long long)(size / 100));

	if (size % 100 != 0)
		len += snprintf(out + len, 32 - (size_t)len, ".%02d", (int)(size % 100));
	if (size % 100 != 0 && size % 10 == 0)
		len--;
	return (size_t)len;
}

static inline void cell_write_bare(struct json_writer *w, const struct cell *c)
{
	char number[32];

	if (c->kind == K_N)
		json_string(w, (struct bytes){number, cell_print_number(c, number)});
	else if (c->kind == K_B)
		json_base64(w, (struct bytes){c->text, c->len});
	else
		json_string(w, (struct bytes){c->text, c->len});
}

static inline const char *kind_name(enum kind kind)
{
	static const char *names[] = {"?", "S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS"};

	return names[kind];
}

static inline void cell_write(struct json_writer *w, const struct cell *c)
{
	json_begin_object(w);
	json_name(w, bytes_of(kind_name(c->kind)));
	if (c->kind == K_BOOL || c->kind == K_NULL)
		json_bool(w, c->kind == K_NULL || c->n != 0);
	else
		cell_write_bare(w, c);
	json_end_object(w);
}

static inline void map_write(struct json_writer *w, const struct field *f)
{
	json_begin_object(w);
	for (int i = 0; i < 2; i++) {
		if (f->list[i].kind == K_ABSENT)
			continue;
		json_name(w, bytes_of(i == 0 ? "x" : "y"));
		cell_write(w, &f->list[i]);
	}
	json_end_object(w);
}

static inline void field_write(struct json_writer *w, const struct field *f)
{
	if (f->own.kind < K_L) {
		cell_write(w, &f->own);
		return;
	}
	json_begin_object(w);
	json_name(w, bytes_of(kind_name(f->own.kind)));
	if (f->own.kind == K_M) {
		map_write(w, f);
	} else {
		json_begin_array(w);
		for (unsigned i = 0; i < f->count; i++)
			(f->own.kind == K_L ? cell_write : cell_write_bare)(w, &f->list[i]);
		json_end_array(w);
	}
	json_end_object(w);
}

static inline void record_write(struct json_writer *w, const struct record *r)
{
	json_begin_object(w);
	for (int i = 0; i < ATTRIBUTES; i++) {
		if (r->fields[i].own.kind == K_ABSENT)
			continue;
		json_name(w, (struct bytes){&attribute_names[i], 1});
		field_write(w, &r->fields[i]);
	}
	json_end_object(w);
}

/* ---- from what the engine answered; false if the model could never have written it ---- */

static inline bool cell_read_number(const struct number *n, struct cell *out)
{
	char   text[NUMBER_TEXT_MAX + 1];
	size_t len = number_format(n, text);
	char  *point;
	long   fraction = 0;

	text[len] = '\0';
	*out = cell_number(100 * strtoll(text, &point, 10));
	if (*point == '.' && strlen(point) <= 3)
		fraction = strtol(point + 1, NULL, 10) * (strlen(point) == 2 ? 10 : 1);
	else if (*point != '\0')
		return false;
	out->n += text[0] == '-' ? -fraction : fraction;
	return true;
}

static inline bool cell_read(const struct value *v, struct cell *out)
{
	static const enum kind kinds[] = {[VALUE_S] = K_S, [VALUE_B] = K_B, [VALUE_NULL] = K_NULL};

	*out = (struct cell){0};
	if (v->type == VALUE_N)
		return cell_read_number(&v->number, out);
	if (v->type == VALUE_BOOL) {
		*out = (struct cell){.kind = K_BOOL, .n = v->truth};
		return true;
	}
	if (v->type != VALUE_S && v->type != VALUE_B && v->type != VALUE_NULL)
		return false;
	out->kind = kinds[v->type];
	if (v->type == VALUE_NULL)
		return true;
	if (v->text.len > CELL_TEXT_MAX)
		return false;
	*out = cell_text(out->kind, v->text.data, (unsigned)v->text.len);
	return true;
}

static inline bool map_read(const struct item *map, struct field *out)
{
	for (uint32_t i = 0; i < map->count; i++) {
		const struct member *m = &map->members[i];

		if (m->name.len != 1 || (m->name.data[0] != 'x' && m->name.data[0] != 'y') ||
		    !cell_read(&m->value, &out->list[m->name.data[0] - 'x']))
			return false;
	}
	return true;
}

static inline bool field_read(const struct value *v, struct field *out)
{
	static const enum kind kinds[] = {
	        [VALUE_M] = K_M, [VALUE_L] = K_L, [VALUE_SS] = K_SS, [VALUE_NS] = K_NS};

	*out = (struct field){0};
	if (v->type < VALUE_M)
		return cell_read(v, &out->own);
	if (v->type == VALUE_BS)
		return false;
	out->own.kind = kinds[v->type];
	if (v->type == VALUE_M)
		return map_read(&v->map, out);
	if (v->list.count > FIELD_LIST_MAX)
		return false;
	for (out->count = 0; out->count < v->list.count; out->count++)
		if (!cell_read(&v->list.items[out->count], &out->list[out->count]))
			return false;
	return true;
}

static inline bool record_read(const struct item *item, struct record *out)
{
	*out = (struct record){.present = true};
	for (uint32_t i = 0; i < item->count; i++) {
		const struct member *m = &item->members[i];
		const char          *at = m->name.len == 1 ? strchr(attribute_names, m->name.data[0]) : NULL;

		if (at == NULL || *at == '\0' || !field_read(&m->value, &out->fields[at - attribute_names]))
			return false;
	}
	return true;
}

#endif
