/* Rows: see row.h. */
#include "service/row.h"

#include <assert.h>

/* ---- tables ---- */

static const struct service_table_shape shapes[SERVICE_TABLE_COUNT] = {
#define X(id, ...) [id] = {__VA_ARGS__},
        SERVICE_TABLES(X)
#undef X
};

/* Of an index: its keys, and what it holds beside those of the table; nothing: whole rows. */
struct index_shape {
	const char *name, *hash, *range, *include[2];
};

static const struct index_shape index_shapes[] = {
        {"GSI1", "GSI1PK", "GSI1SK", {NULL, NULL}},
        {DEVICE_INDEX, "platformShard", "isActiveText", {"expoPushToken", "expiresAt"}},
};

const struct service_table_shape *service_table_shape(enum service_table which)
{
	return &shapes[which];
}

struct service_tables service_tables_default(void)
{
	struct service_tables tables = {0};

	for (int i = 0; i < SERVICE_TABLE_COUNT; i++)
		tables.names[i] = bytes_of(shapes[i].name);
	return tables;
}

/* Services pass the names themselves, so that the addresses tell. */
enum service_table tables_which(const struct service_tables *tables, struct bytes name)
{
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++)
		if (tables->names[i].data == name.data && tables->names[i].len == name.len)
			return (enum service_table)i;
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++)
		if (bytes_equal(tables->names[i], name))
			return (enum service_table)i;
	return SERVICE_TABLE_COUNT;
}

enum err_code service_tables_check(const struct service_tables *tables, struct err *err)
{
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++)
		for (int other = 0; other < i; other++)
			if (bytes_equal(tables->names[i], tables->names[other]))
				return err_set(err, ERR_INVALID,
				               "the tables %s and %s are both named \"%.*s\"; each needs its "
				               "own name",
				               shapes[other].name, shapes[i].name,
				               BYTES_ARG(tables->names[i]));
	return ERR_NONE;
}

static bool has_key(const struct key_attribute *key, const char *name)
{
	return bytes_is(key->name, name) && (*name == '\0' || key->type == VALUE_S);
}

enum err_code service_table_check(const struct service_tables *tables, enum service_table which,
                                  const struct table_schema *there, struct err *err)
{
	const struct service_table_shape *shape = &shapes[which];

	if (has_key(&there->keys.hash, shape->hash) && has_key(&there->keys.range, shape->range))
		return ERR_NONE;
	return err_set(err, ERR_INVALID,
	               "the table \"%.*s\" cannot be used as %s: its keys must be %s%s%s, of type S",
	               BYTES_ARG(tables->names[which]), shape->name, shape->hash,
	               *shape->range == '\0' ? "" : " and ", shape->range);
}

/* What a table is, in as few requests as its store can do. */
static enum err_code look(struct table *t, struct arena *a, struct bytes name, struct table_schema *out,
                          struct err *err)
{
	struct table_description there;
	enum err_code            rc;

	if (t->backend->schema != NULL)
		return t->backend->schema(t, a, name, out, err);
	rc = t->backend->describe(t, a, name, &there, err);
	if (rc == ERR_NONE)
		*out = there.schema;
	return rc;
}

enum err_code tables_check_keys(const struct service_tables *tables, enum service_table which,
                                struct table *t, struct arena *a, struct err *err)
{
	struct table_schema there;
	enum err_code       rc = look(t, a, tables->names[which], &there, err);

	if (rc == ERR_NO_RESOURCE)
		return ERR_NONE; /* it will be made */
	return rc == ERR_NONE ? service_table_check(tables, which, &there, err) : rc;
}

/* ---- making them ---- */

/* The index of a table, if it has one and that is switched on. */
static const struct index_shape *index_of(const struct service_tables *tables, enum service_table which)
{
	if (which == TABLE_DEVICES && !tables->device_index)
		return NULL;
	for (size_t i = 0; i < sizeof(index_shapes) / sizeof(index_shapes[0]); i++)
		if (strcmp(index_shapes[i].name, shapes[which].index) == 0)
			return &index_shapes[i];
	return NULL;
}

static struct index_schema index_schema_of(struct arena *a, const struct index_shape *shape)
{
	struct index_schema index = {.name = bytes_of(shape->name), .projection = PROJECT_ALL};

	index.keys.hash = (struct key_attribute){bytes_of(shape->hash), VALUE_S};
	index.keys.range = (struct key_attribute){bytes_of(shape->range), VALUE_S};
	if (shape->include[0] == NULL)
		return index;
	index.projection = PROJECT_INCLUDE;
	index.include = arena_array(a, 2, sizeof(*index.include));
	index.include_count = 2;
	for (int i = 0; i < 2; i++)
		index.include[i] = bytes_of(shape->include[i]);
	return index;
}

struct table_schema service_table_schema(const struct service_tables *tables, enum service_table which,
                                         struct arena *a)
{
	const struct service_table_shape *shape = &shapes[which];
	const struct index_shape         *indexed = index_of(tables, which);
	struct table_schema               schema = {
	                      .name = tables->names[which], .on_demand = true, .ttl_attribute = bytes_of(shape->ttl)};

	schema.keys.hash = (struct key_attribute){bytes_of(shape->hash), VALUE_S};
	schema.keys.range = (struct key_attribute){bytes_of(shape->range), VALUE_S};
	if (indexed != NULL) {
		schema.indexes = arena_alloc(a, sizeof(*schema.indexes));
		schema.indexes[0] = index_schema_of(a, indexed);
		schema.index_count = 1;
	}
	return schema;
}

static enum err_code create(const struct service_tables *tables, enum service_table which, struct table *t,
                            struct arena *a, struct err *err)
{
	struct table_schema      schema = service_table_schema(tables, which, a);
	struct table_change      ttl = {.kind = CHANGE_TTL, .ttl_attribute = schema.ttl_attribute};
	struct table_alter       alter = {.table = schema.name, .changes = &ttl, .count = 1};
	struct table_description made;
	enum err_code            rc;

	if (tables->never_made)
		return err_set(err, ERR_OVERLOADED,
		               "there is no table \"%.*s\", and --create-tables is never: create it with "
		               "`gatehouse tables create`",
		               BYTES_ARG(schema.name));
	rc = t->backend->create(t, a, &schema, &made, err);
	if (rc == ERR_RESOURCE_IN_USE)
		return ERR_NONE; /* someone else was quicker, and sees to the rest */
	if (rc != ERR_NONE)
		return rc;
	return schema.ttl_attribute.len == 0 ? ERR_NONE : t->backend->alter(t, a, &alter, &made, err);
}

enum err_code tables_ensure(const struct service_tables *tables, struct table *t, struct arena *a,
                            struct bytes name, struct err *err)
{
	enum service_table  which = tables_which(tables, name);
	struct table_schema there;
	enum err_code       rc = look(t, a, name, &there, err);

	return rc == ERR_NO_RESOURCE && which != SERVICE_TABLE_COUNT ? create(tables, which, t, a, err) : rc;
}

enum err_code tables_index_ensure(const struct service_tables *tables, struct table *t, struct arena *a,
                                  struct err *err)
{
	const struct index_shape *indexed = index_of(tables, TABLE_DEVICES);
	struct table_change       change = {.kind = CHANGE_CREATE_INDEX};
	struct table_alter  alter = {.table = tables->names[TABLE_DEVICES], .changes = &change, .count = 1};
	struct table_schema there;
	struct table_description made;
	enum err_code            rc;

	if (indexed == NULL || tables->never_made)
		return ERR_NONE;
	rc = look(t, a, alter.table, &there, err);
	if (rc == ERR_NO_RESOURCE)
		return ERR_NONE; /* it will be made with it */
	if (rc != ERR_NONE || schema_index(&there, bytes_of(indexed->name)) != NULL)
		return rc;
	change.index = index_schema_of(a, indexed);
	return t->backend->alter(t, a, &alter, &made, err);
}

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

struct item row_key_in(struct arena *a, enum service_table which, struct bytes pk, struct bytes sk)
{
	const struct service_table_shape *shape = &shapes[which];
	struct item                       key = {arena_array(a, 2, sizeof(struct member)), 1};

	key.members[0] = (struct member){bytes_of(shape->hash), value_string(pk)};
	if (shape->range[0] != '\0')
		key.members[key.count++] = (struct member){bytes_of(shape->range), value_string(sk)};
	item_sort(&key);
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
	l->loose = l->answered = l->found = l->no_table = false;
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

const struct expr *row_contains(struct arena *a, const char *name, struct bytes text)
{
	struct value value = value_string(text);

	return leaf_with(a, EXPR_CONTAINS, name, &value);
}
