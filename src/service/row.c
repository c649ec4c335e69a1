/* Rows: see row.h. */
#include "service/row.h"

#include <assert.h>

/* ---- keys ---- */

struct bytes key_name(struct arena *a, struct bytes journey, struct bytes type, struct bytes classifier,
                      struct bytes qualifier)
{
	struct bytes parts[] = {journey, type, classifier, qualifier};
	size_t       count = qualifier.len > 0 ? 4 : 3, len = count - 1;
	char        *key, *at;

	for (size_t i = 0; i < count; i++)
		len += parts[i].len;
	key = at = arena_alloc(a, len);
	for (size_t i = 0; i < count; i++) {
		if (i > 0)
			*at++ = '#';
		memcpy(at, parts[i].data, parts[i].len);
		at += parts[i].len;
	}
	return (struct bytes){key, len};
}

struct bytes key_under(struct arena *a, struct bytes name, struct bytes qualifier)
{
	char *key = arena_alloc(a, name.len + 1 + qualifier.len);

	memcpy(key, name.data, name.len);
	key[name.len] = '#';
	memcpy(key + name.len + 1, qualifier.data, qualifier.len);
	return (struct bytes){key, name.len + 1 + qualifier.len};
}

struct bytes key_device(struct arena *a, struct bytes name)
{
	return arena_printf(a, "DEVICE#" KEY_COOKIE "#%.*s", BYTES_ARG(name));
}

struct bytes key_devices_issued(struct arena *a)
{
	return key_name(a, BYTES("DEVICE"), BYTES(KEY_ISSUED), BYTES("COUNT"), (struct bytes){NULL, 0});
}

struct bytes key_reservation(struct arena *a, struct bytes name)
{
	return arena_printf(a, "ATTEMPT#%.*s", BYTES_ARG(name));
}

struct bytes key_state(struct arena *a, const char *family, const char *state)
{
	return key_name(a, bytes_of(family), BYTES(KEY_STATE), bytes_of(state), (struct bytes){NULL, 0});
}

struct bytes key_applied(struct arena *a)
{
	return key_name(a, BYTES(KEY_INTERVENTION), BYTES("APPLIED"), BYTES("LATEST"),
	                (struct bytes){NULL, 0});
}

struct bytes key_demand_met(struct arena *a, const char *what)
{
	return key_name(a, BYTES(KEY_INTERVENTION), BYTES(KEY_RESET), bytes_of(what),
	                (struct bytes){NULL, 0});
}

static struct bytes part_next(struct bytes *rest)
{
	const char  *hash = rest->len == 0 ? NULL : memchr(rest->data, '#', rest->len);
	struct bytes part = {rest->data, hash == NULL ? rest->len : (size_t)(hash - rest->data)};
	size_t       used = hash == NULL ? part.len : part.len + 1;

	if (used > 0) /* of nothing at all there is no address to add to */
		*rest = (struct bytes){rest->data + used, rest->len - used};
	return part;
}

struct key_parts key_split(struct bytes sk)
{
	struct key_parts p;

	p.journey = part_next(&sk);
	p.type = part_next(&sk);
	p.classifier = part_next(&sk);
	p.qualifier = sk;
	return p;
}

bool key_is_lock(struct bytes sk)
{
	struct bytes type = key_split(sk).type;

	return bytes_is(type, KEY_LOCK) || bytes_is(type, KEY_SOURCE_LOCK) || bytes_is(type, KEY_SHADOW_LOCK);
}

bool key_is_under(struct bytes sk, struct bytes name)
{
	return bytes_starts_with(sk, name) && (sk.len == name.len || sk.data[name.len] == '#');
}

/* ---- rows by attribute ---- */

/* For how many attributes there is room at first, and beside those a row began with: most rows have no more. */
enum { ROW_ROOM = 8, ROW_ROOM_MORE = 4 };

void row_init(struct row *r, struct arena *a)
{
	r->arena = a;
	r->room = ROW_ROOM;
	r->item = (struct item){arena_array(a, r->room, sizeof(struct member)), 0};
}

void row_from(struct row *r, struct arena *a, const struct item *item)
{
	r->arena = a;
	r->room = item->count + ROW_ROOM_MORE;
	r->item = (struct item){arena_array(a, r->room, sizeof(struct member)), item->count};
	if (item->count > 0)
		memcpy(r->item.members, item->members, item->count * sizeof(struct member));
}

static struct member *find(struct item *item, struct bytes name)
{
	for (struct member *m = item->members; m < item->members + item->count; m++)
		if (bytes_equal(m->name, name))
			return m;
	return NULL;
}

static void row_grow(struct row *r)
{
	struct member *members = arena_array(r->arena, 2 * r->room, sizeof(*members));

	memcpy(members, r->item.members, r->item.count * sizeof(*members));
	r->item.members = members;
	r->room *= 2;
}

struct value *row_attribute(struct row *r, struct bytes name)
{
	struct member *m = find(&r->item, name);

	if (m == NULL) {
		if (r->item.count == r->room)
			row_grow(r);
		m = &r->item.members[r->item.count++];
		m->name = name;
	}
	return &m->value;
}

void row_remove(struct row *r, const char *name)
{
	struct member *m = find(&r->item, bytes_of(name));

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

/* The names of keys, with their lengths. */
static const struct {
	struct bytes hash, range;
} key_names[SERVICE_TABLE_COUNT] = {
#define X(id, name, hash, range, ...) [id] = {BYTES_INIT(hash), BYTES_INIT(range)},
        SERVICE_TABLES(X)
#undef X
};

/* In the order of their names, as an item is. */
struct item row_key_in(struct arena *a, enum service_table which, struct bytes pk, struct bytes sk)
{
	struct bytes hash = key_names[which].hash, range = key_names[which].range;
	struct item  key = {arena_array(a, 2, sizeof(struct member)), range.len > 0 ? 2 : 1};
	int          first = range.len > 0 && bytes_compare(range, hash) < 0 ? 1 : 0;

	key.members[first] = (struct member){hash, value_string(pk)};
	if (range.len > 0)
		key.members[1 - first] = (struct member){range, value_string(sk)};
	return key;
}

struct expr_key_condition row_prefix(struct bytes pk, struct bytes prefix)
{
	struct expr_key_condition key = {
	        .hash_name = BYTES("PK"), .hash = value_string(pk), .range_kind = RANGE_NONE};

	if (prefix.len == 0)
		return key;
	key.range_name = BYTES("SK");
	key.range_kind = RANGE_PREFIX;
	key.low = value_string(prefix);
	return key;
}

struct bytes value_text(const struct value *v)
{
	return v != NULL && v->type == VALUE_S ? v->text : (struct bytes){NULL, 0};
}

/* Someone else may have written it, through DynamoDB's protocol: whatever is no whole number counts as absent. */
int64_t value_to_i64(const struct value *v, int64_t otherwise)
{
	int64_t n;

	return v != NULL && v->type == VALUE_N && number_to_i64(&v->number, &n) ? n : otherwise;
}

void looked_init(struct looked *l, struct bytes pk, struct bytes sk)
{
	l->next = NULL;
	l->pk = pk;
	l->sk = sk;
	l->loose = l->answered = l->blind = l->found = l->no_table = false;
	l->round = 0;
}

/* ---- conditions ---- */

/* A condition on one attribute, in one piece: conditions are made for every write. */
struct leaf {
	struct expr         expr;
	struct expr_step    step;
	struct expr_operand operands[2];
};

static struct expr *leaf(struct arena *a, enum expr_kind kind, const char *name)
{
	struct leaf *l = arena_zalloc(a, sizeof(*l));

	l->step.name = bytes_of(name);
	l->operands[0].kind = OPERAND_PATH;
	l->operands[0].path = (struct expr_path){&l->step, 1};
	l->expr.kind = kind;
	l->expr.operands = l->operands;
	l->expr.operand_count = 1;
	return &l->expr;
}

/* One that compares the attribute with a value. */
static struct expr *leaf_with(struct arena *a, enum expr_kind kind, const char *name,
                              const struct value *value)
{
	struct expr *e = leaf(a, kind, name);

	e->operands[1].kind = OPERAND_VALUE;
	e->operands[1].value = *value;
	e->operand_count = 2;
	return e;
}

static struct expr *at_most(struct arena *a, const char *name, int64_t most)
{
	struct value value = value_i64(most);
	struct expr *e = leaf_with(a, EXPR_COMPARE, name, &value);

	e->op = OP_LE;
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
	struct expr *absent = leaf(a, EXPR_NOT_EXISTS, hash);

	return ttl[0] == '\0' ? absent : both(a, EXPR_OR, absent, at_most(a, ttl, now_us / 1000000));
}

static struct expr *same(struct arena *a, const struct item *read, const char *const *names)
{
	struct expr *e = arena_zalloc(a, sizeof(*e));

	e->kind = EXPR_SAME;
	e->read = *read;
	e->names = names;
	return e;
}

const struct expr *row_same(struct arena *a, const struct item *read, const char *const *names)
{
	return same(a, read, names);
}

const struct expr *row_same_up_to(struct arena *a, const struct item *read, const char *const *names,
                                  const char *number, int64_t most)
{
	return both(a, EXPR_AND, same(a, read, names), at_most(a, number, most));
}

const struct expr *row_and_other(struct arena *a, const struct expr *condition, const char *name,
                                 struct bytes text)
{
	struct value value = value_string(text);
	struct expr *other = leaf_with(a, EXPR_COMPARE, name, &value);
	struct expr *also = arena_zalloc(a, sizeof(*also));

	other->op = OP_NE;
	if (condition == NULL)
		return other;
	*also = *condition;
	return both(a, EXPR_AND, also, other);
}

const struct expr *row_is_lock(struct arena *a)
{
	struct value type = value_string(BYTES(KEY_LOCK "#")), none = value_i64(0);
	struct expr *open = leaf_with(a, EXPR_COMPARE, "count", &none);

	open->op = OP_EQ;
	return both(a, EXPR_AND, leaf_with(a, EXPR_CONTAINS, "SK", &type), both(a, EXPR_NOT, open, NULL));
}
