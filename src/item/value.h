/* Value: an attribute value of any of DynamoDB's ten types, and the item, a map of named values.
 *
 * Invariants of a well-formed value (the decoders establish them, everything else relies on them):
 * (V1) The members of a map (and so the attributes of an item) are sorted by name, bytewise, without duplicates.
 * (V2) The elements of a set are sorted (value_compare) and distinct, and there is at least one.
 * (V3) Nesting is at most VALUE_DEPTH_MAX.
 * Values are immutable trees in some arena: an update builds a new spine and shares the rest. */
#ifndef ITEM_VALUE_H
#define ITEM_VALUE_H

#include "item/number.h"

enum {
	VALUE_DEPTH_MAX = 31, /* maps and lists around a scalar: DynamoDB's 32 levels count the scalar too */
	ITEM_BYTES_MAX = 400 * 1024,
	NAME_BYTES_MAX = 65535,
	KEY_HASH_BYTES_MAX = 2048,
	KEY_RANGE_BYTES_MAX = 1024,
};

/* The numbers are part of the form on disk (item/codec.c): only append. */
enum value_type {
	VALUE_S,
	VALUE_N,
	VALUE_B,
	VALUE_BOOL,
	VALUE_NULL,
	VALUE_M,
	VALUE_L,
	VALUE_SS,
	VALUE_NS,
	VALUE_BS,
	VALUE_TYPE_COUNT
};

struct member;
struct value;

struct item {
	struct member *members; /* (V1) */
	uint32_t       count;
};

struct value_list {
	struct value *items; /* (V2) if it is a set: SS holds VALUE_S, NS VALUE_N, BS VALUE_B */
	uint32_t      count;
};

struct value {
	enum value_type type;
	union {
		struct bytes      text;   /* S, B */
		struct number     number; /* N */
		bool              truth;  /* BOOL */
		struct item       map;    /* M */
		struct value_list list;   /* L, SS, NS, BS */
	};
};

struct member {
	struct bytes name;
	struct value value;
};

/* "S", "N", … and back; VALUE_TYPE_COUNT if there is no such name. */
const char     *value_type_name(enum value_type type);
enum value_type value_type_named(struct bytes name);

static inline bool value_type_is_set(enum value_type type)
{
	return type == VALUE_SS || type == VALUE_NS || type == VALUE_BS;
}

/* The type of a set's elements. */
enum value_type value_set_element(enum value_type set);

static inline struct value value_string(struct bytes text)
{
	return (struct value){.type = VALUE_S, .text = text};
}

static inline struct value value_i64(int64_t number)
{
	return (struct value){.type = VALUE_N, .number = number_from_i64(number)};
}

struct value value_bool(bool truth);

/* value_equal of any types. */
bool value_equal_any(const struct value *a, const struct value *b);

/* Most are texts, of different lengths. */
static inline bool value_equal(const struct value *a, const struct value *b)
{
	return a->type == VALUE_S && b->type == VALUE_S ? bytes_equal(a->text, b->text)
	                                                : value_equal_any(a, b);
}

/* Order of two values of the same type among S, N, B. */
int value_compare(const struct value *a, const struct value *b);

/* DynamoDB's size of a value, and of an item with its attribute names: what the 400 KB limit, page limits and
 * capacity units are measured in. */
size_t   value_size(const struct value *v);
size_t   item_size(const struct item *item);
unsigned value_depth(const struct value *v);

bool item_equal(const struct item *a, const struct item *b);

enum { ITEM_FEW = 16 };

/* item_find among many: by halves. */
const struct member *item_search(const struct item *item, struct bytes name);

/* NULL if absent. Of a few members looking at each costs less than searching: most differ in length already. */
static inline const struct member *item_find(const struct item *item, struct bytes name)
{
	if (item->count > ITEM_FEW)
		return item_search(item, name);
	for (uint32_t i = 0; i < item->count; i++)
		if (bytes_equal(item->members[i].name, name))
			return &item->members[i];
	return NULL;
}

static inline const struct value *item_get(const struct item *item, struct bytes name)
{
	const struct member *m = item_find(item, name);

	return m == NULL ? NULL : &m->value;
}

/* A new item in the arena with `name` set to `value` (or without it); shares all other members. */
struct item item_with(struct arena *a, const struct item *item, struct bytes name, const struct value *value);
struct item item_without(struct arena *a, const struct item *item, struct bytes name);

/* Sorts members by name, to establish (V1); false if a name occurs twice. */
bool item_sort(struct item *item);

/* May an attribute have this name? ERR_INVALID with DynamoDB's text if it is empty or longer than NAME_BYTES_MAX. */
enum err_code name_check(struct bytes name, struct err *err);

/* Sorts a set's elements, to establish (V2); false if an element occurs twice. */
bool value_set_sort(struct value_list *set);

/* False for an element of another type. */
bool value_set_has(const struct value *set, const struct value *element);

/* Both of one type. Costs the sum of the sizes. */
struct value_list value_set_union(struct arena *a, const struct value_list *x, const struct value_list *y);

/* What remains of x; may be empty. Costs little if x is small, however large y is: a request may name one large set for
 * many small ones. */
struct value_list value_set_minus(struct arena *a, const struct value *x, const struct value *y);

/* Deep copies, so that the result depends on nothing but the arena. */
struct value value_copy(struct arena *a, const struct value *v);
struct item  item_copy(struct arena *a, const struct item *item);

#endif
