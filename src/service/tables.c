/* Tables: see tables.h. */
#include "service/tables.h"

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
