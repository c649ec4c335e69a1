/* Rows: a bounded item in an arena. */
#include "service/row.h"

#include <assert.h>

void row_init(struct row *r, struct arena *a)
{
	r->arena = a;
	r->item = (struct item){arena_array(a, ROW_ATTRIBUTES_MAX, sizeof(struct member)), 0};
}

void row_from(struct row *r, struct arena *a, const struct item *item)
{
	uint32_t room = item->count + ROW_ATTRIBUTES_MAX;

	r->arena = a;
	r->item = (struct item){arena_array(a, room, sizeof(struct member)), item->count};
	if (item->count > 0)
		memcpy(r->item.members, item->members, item->count * sizeof(struct member));
}

static struct member *find(struct item *item, const char *name)
{
	for (uint32_t i = 0; i < item->count; i++)
		if (bytes_is(item->members[i].name, name))
			return &item->members[i];
	return NULL;
}

void row_set(struct row *r, const char *name, struct value value)
{
	struct member *m = find(&r->item, name);

	if (m == NULL) {
		m = &r->item.members[r->item.count++];
		m->name = bytes_of(name);
	}
	m->value = value;
}

void row_set_text(struct row *r, const char *name, struct bytes text)
{
	row_set(r, name, value_string(text));
}

void row_set_i64(struct row *r, const char *name, int64_t number)
{
	row_set(r, name, value_i64(number));
}

void row_remove(struct row *r, const char *name)
{
	struct member *m = find(&r->item, name);

	if (m != NULL)
		*m = r->item.members[--r->item.count];
}

struct item row_item(struct row *r)
{
	bool distinct = item_sort(&r->item);

	assert(distinct);
	(void)distinct;
	return r->item;
}

struct item row_key_one(struct arena *a, struct bytes pk)
{
	struct member *m = arena_array(a, 1, sizeof(*m));

	m[0] = (struct member){BYTES("PK"), value_string(pk)};
	return (struct item){m, 1};
}

struct item row_key_two(struct arena *a, struct bytes pk, struct bytes sk)
{
	struct member *m = arena_array(a, 2, sizeof(*m));

	m[0] = (struct member){BYTES("PK"), value_string(pk)};
	m[1] = (struct member){BYTES("SK"), value_string(sk)};
	return (struct item){m, 2};
}

struct bytes row_text(const struct item *item, const char *name)
{
	const struct value *v = item_get(item, bytes_of(name));

	return v != NULL && v->type == VALUE_S ? v->text : (struct bytes){NULL, 0};
}

/* Someone else may have written it, through DynamoDB's door: whatever is no whole number counts as absent. */
int64_t row_i64(const struct item *item, const char *name, int64_t otherwise)
{
	const struct value *v = item_get(item, bytes_of(name));
	int64_t             n;

	return v != NULL && v->type == VALUE_N && number_to_i64(&v->number, &n) ? n : otherwise;
}

bool row_expired(const struct item *item, const char *ttl, int64_t now_us)
{
	int64_t end_s = row_i64(item, ttl, 0);

	return end_s > 0 && end_s <= now_us / 1000000;
}

/* ---- conditions ---- */

static struct expr_operand path_of(struct arena *a, const char *name)
{
	struct expr_step *step = arena_zalloc(a, sizeof(*step));

	step->name = bytes_of(name);
	return (struct expr_operand){.kind = OPERAND_PATH, .path = {step, 1}};
}

static struct expr *leaf(struct arena *a, enum expr_kind kind, const char *name)
{
	struct expr *e = arena_zalloc(a, sizeof(*e));

	e->kind = kind;
	e->operands = arena_array(a, 2, sizeof(*e->operands));
	e->operands[0] = path_of(a, name);
	e->operand_count = 1;
	return e;
}

/* One that compares the attribute with a value. */
static struct expr *leaf_with(struct arena *a, enum expr_kind kind, const char *name, struct value value)
{
	struct expr *e = leaf(a, kind, name);

	e->operands[1] = (struct expr_operand){.kind = OPERAND_VALUE, .value = value};
	e->operand_count = 2;
	return e;
}

static struct expr *compare(struct arena *a, const char *name, enum expr_op op, struct value value)
{
	struct expr *e = leaf_with(a, EXPR_COMPARE, name, value);

	e->op = op;
	return e;
}

static struct expr *both(struct arena *a, enum expr_kind kind, struct expr *left, struct expr *right)
{
	struct expr *e = arena_zalloc(a, sizeof(*e));

	e->kind = kind;
	e->left = left;
	e->right = right;
	return e;
}

const struct expr *row_absent(struct arena *a, const char *hash, const char *ttl, int64_t now_us)
{
	return both(a, EXPR_OR, leaf(a, EXPR_NOT_EXISTS, hash),
	            compare(a, ttl, OP_LE, value_i64(now_us / 1000000)));
}

static struct expr *same(struct arena *a, const struct item *read, const char *const *names)
{
	struct expr *all = NULL;

	for (size_t i = 0; names[i] != NULL; i++) {
		const struct value *v = item_get(read, bytes_of(names[i]));
		struct expr        *one =
                        v != NULL ? compare(a, names[i], OP_EQ, *v) : leaf(a, EXPR_NOT_EXISTS, names[i]);

		all = all == NULL ? one : both(a, EXPR_AND, all, one);
	}
	return all;
}

const struct expr *row_same(struct arena *a, const struct item *read, const char *const *names)
{
	return same(a, read, names);
}

const struct expr *row_same_up_to(struct arena *a, const struct item *read, const char *const *names,
                                  const char *number, int64_t most)
{
	return both(a, EXPR_AND, same(a, read, names), compare(a, number, OP_LE, value_i64(most)));
}

const struct expr *row_contains(struct arena *a, const char *name, struct bytes text)
{
	return leaf_with(a, EXPR_CONTAINS, name, value_string(text));
}
