/* Value: comparing, measuring, and building new items that share what did not change. */
#include "item/value.h"

#include <assert.h>
#include <stdlib.h>

#include "item/messages.h"

static const char *const type_names[VALUE_TYPE_COUNT] = {"S", "N", "B",  "BOOL", "NULL",
                                                         "M", "L", "SS", "NS",   "BS"};

const char *value_type_name(enum value_type type)
{
	return type_names[type];
}

enum value_type value_type_named(struct bytes name)
{
	for (int i = 0; i < VALUE_TYPE_COUNT; i++)
		if (bytes_is(name, type_names[i]))
			return (enum value_type)i;
	return VALUE_TYPE_COUNT;
}

enum value_type value_set_element(enum value_type set)
{
	assert(value_type_is_set(set));
	return set == VALUE_SS ? VALUE_S : set == VALUE_NS ? VALUE_N : VALUE_B;
}

struct value value_bool(bool truth)
{
	return (struct value){.type = VALUE_BOOL, .truth = truth};
}

static bool list_equal(const struct value_list *a, const struct value_list *b)
{
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++)
		if (!value_equal(&a->items[i], &b->items[i]))
			return false;
	return true;
}

/* Recursion is bounded by (V3). */
bool value_equal_any(const struct value *a, const struct value *b)
{
	if (a->type != b->type)
		return false;
	switch (a->type) {
	case VALUE_S:
	case VALUE_B:
		return bytes_equal(a->text, b->text);
	case VALUE_N:
		return number_equal(&a->number, &b->number);
	case VALUE_BOOL:
		return a->truth == b->truth;
	case VALUE_NULL:
		return true;
	case VALUE_M:
		return item_equal(&a->map, &b->map);
	default:
		return list_equal(&a->list, &b->list);
	}
}

bool item_equal(const struct item *a, const struct item *b)
{
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++)
		if (!bytes_equal(a->members[i].name, b->members[i].name) ||
		    !value_equal(&a->members[i].value, &b->members[i].value))
			return false;
	return true;
}

int value_compare(const struct value *a, const struct value *b)
{
	assert(a->type == b->type && a->type <= VALUE_B);
	if (a->type == VALUE_N)
		return number_compare(&a->number, &b->number);
	return bytes_compare(a->text, b->text);
}

/* DynamoDB's rule: about a byte for two digits, one for the exponent, one for a minus. */
static size_t number_size(const struct number *n)
{
	return (number_digit_count(n) + 1) / 2 + 1 + (n->negative ? 1 : 0);
}

size_t value_size(const struct value *v)
{
	size_t size = 0;

	switch (v->type) {
	case VALUE_S:
	case VALUE_B:
		return v->text.len;
	case VALUE_N:
		return number_size(&v->number);
	case VALUE_BOOL:
	case VALUE_NULL:
		return 1;
	case VALUE_M:
		return 3 + v->map.count + item_size(&v->map);
	case VALUE_L:
		size = 3 + v->list.count;
		break;
	default:
		break;
	}
	for (uint32_t i = 0; i < v->list.count; i++)
		size += value_size(&v->list.items[i]);
	return size;
}

size_t item_size(const struct item *item)
{
	size_t size = 0;

	for (const struct member *m = item->members; m < item->members + item->count; m++) {
		const struct value *v = &m->value;

		size += m->name.len + (v->type == VALUE_S   ? v->text.len
		                       : v->type == VALUE_N ? number_size(&v->number)
		                                            : value_size(v));
	}
	return size;
}

unsigned value_depth(const struct value *v)
{
	unsigned deepest = 0;

	if (v->type == VALUE_M) {
		for (uint32_t i = 0; i < v->map.count; i++) {
			unsigned depth = value_depth(&v->map.members[i].value);

			deepest = depth > deepest ? depth : deepest;
		}
		return deepest + 1;
	}
	if (v->type == VALUE_L) {
		for (uint32_t i = 0; i < v->list.count; i++) {
			unsigned depth = value_depth(&v->list.items[i]);

			deepest = depth > deepest ? depth : deepest;
		}
		return deepest + 1;
	}
	return 0;
}

/* Where `name` is or would be inserted. */
static uint32_t member_position(const struct item *item, struct bytes name, bool *found)
{
	uint32_t low = 0, high = item->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		int      order = bytes_compare(item->members[middle].name, name);

		if (order == 0) {
			*found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*found = false;
	return low;
}

const struct member *item_search(const struct item *item, struct bytes name)
{
	bool     found;
	uint32_t at = member_position(item, name, &found);

	return found ? &item->members[at] : NULL;
}

struct item item_with(struct arena *a, const struct item *item, struct bytes name, const struct value *value)
{
	bool        found;
	uint32_t    at = member_position(item, name, &found), after = found ? at + 1 : at;
	struct item out = {NULL, found ? item->count : item->count + 1};

	out.members = arena_array(a, out.count, sizeof(*out.members));
	if (at > 0)
		memcpy(out.members, item->members, at * sizeof(*out.members));
	out.members[at] = (struct member){name, *value};
	if (item->count > after)
		memcpy(out.members + at + 1, item->members + after,
		       (item->count - after) * sizeof(*out.members));
	return out;
}

struct item item_without(struct arena *a, const struct item *item, struct bytes name)
{
	bool        found;
	uint32_t    at = member_position(item, name, &found);
	struct item out = {NULL, item->count - 1};

	if (!found)
		return *item;
	out.members = arena_array(a, out.count, sizeof(*out.members));
	if (at > 0)
		memcpy(out.members, item->members, at * sizeof(*out.members));
	if (item->count > at + 1)
		memcpy(out.members + at, item->members + at + 1,
		       (item->count - at - 1) * sizeof(*out.members));
	return out;
}

static int member_order(const void *a, const void *b)
{
	return bytes_compare(((const struct member *)a)->name, ((const struct member *)b)->name);
}

static int element_order(const void *a, const void *b)
{
	return value_compare(a, b);
}

/* Most items arrive in some client's fixed order and are short: insertion sort beats qsort there. */
static void members_sort(struct member *members, uint32_t count)
{
	if (count > ITEM_FEW) {
		qsort(members, count, sizeof(*members), member_order);
		return;
	}
	for (uint32_t i = 1; i < count; i++) {
		struct member moving = members[i];
		uint32_t      at = i;

		for (; at > 0 && bytes_compare(members[at - 1].name, moving.name) > 0; at--)
			members[at] = members[at - 1];
		members[at] = moving;
	}
}

static bool members_ascend(const struct member *members, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		if (bytes_compare(members[i - 1].name, members[i].name) >= 0)
			return false;
	return true;
}

enum err_code name_check(struct bytes name, struct err *err)
{
	if (name.len == 0)
		return err_set(err, ERR_INVALID, MSG_NAME_EMPTY);
	return name.len <= NAME_BYTES_MAX ? ERR_NONE : err_set(err, ERR_INVALID, MSG_NAME_LONG);
}

bool item_sort(struct item *item)
{
	if (members_ascend(item->members, item->count))
		return true;
	members_sort(item->members, item->count);
	return members_ascend(item->members, item->count);
}

bool value_set_sort(struct value_list *set)
{
	if (set->count > 1)
		qsort(set->items, set->count, sizeof(*set->items), element_order);
	for (uint32_t i = 1; i < set->count; i++)
		if (value_equal(&set->items[i - 1], &set->items[i]))
			return false;
	return true;
}

struct value value_copy(struct arena *a, const struct value *v)
{
	struct value copy = *v;

	switch (v->type) {
	case VALUE_S:
	case VALUE_B:
		copy.text = arena_copy(a, v->text);
		break;
	case VALUE_M:
		copy.map = item_copy(a, &v->map);
		break;
	case VALUE_L:
	case VALUE_SS:
	case VALUE_NS:
	case VALUE_BS:
		copy.list.items = arena_array(a, v->list.count, sizeof(*copy.list.items));
		for (uint32_t i = 0; i < v->list.count; i++)
			copy.list.items[i] = value_copy(a, &v->list.items[i]);
		break;
	default:
		break;
	}
	return copy;
}

struct item item_copy(struct arena *a, const struct item *item)
{
	struct item copy = {arena_array(a, item->count, sizeof(*copy.members)), item->count};

	for (uint32_t i = 0; i < item->count; i++) {
		copy.members[i].name = arena_copy(a, item->members[i].name);
		copy.members[i].value = value_copy(a, &item->members[i].value);
	}
	return copy;
}

/* ---- sets: merging and searching sorted arrays ---- */

bool value_set_has(const struct value *set, const struct value *element)
{
	uint32_t low = 0, high = set->list.count;

	if (element->type != value_set_element(set->type))
		return false;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		int      order = value_compare(&set->list.items[middle], element);

		if (order == 0)
			return true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

struct value_list value_set_union(struct arena *a, const struct value_list *x, const struct value_list *y)
{
	struct value_list out = {arena_array(a, (size_t)x->count + y->count, sizeof(*out.items)), 0};
	uint32_t          i = 0, j = 0;

	while (i < x->count && j < y->count) {
		int order = value_compare(&x->items[i], &y->items[j]);

		out.items[out.count++] = order <= 0 ? x->items[i] : y->items[j];
		i += order <= 0;
		j += order >= 0;
	}
	while (i < x->count)
		out.items[out.count++] = x->items[i++];
	while (j < y->count)
		out.items[out.count++] = y->items[j++];
	return out;
}

struct value_list value_set_minus(struct arena *a, const struct value *x, const struct value *y)
{
	struct value_list out = {arena_array(a, x->list.count, sizeof(*out.items)), 0};

	for (uint32_t i = 0; i < x->list.count; i++)
		if (!value_set_has(y, &x->list.items[i]))
			out.items[out.count++] = x->list.items[i];
	return out;
}
