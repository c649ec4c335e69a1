/* Tables: one row each for those that services own, and how they are made. */
#include "service/tables.h"

#include "service/row.h"

static const struct service_table_shape shapes[SERVICE_TABLE_COUNT] = {
#define X(id, name, hash, range, ttl) [id] = {name, hash, range, ttl},
        SERVICE_TABLES(X)
#undef X
};

const struct service_table_shape *service_table_shape(enum service_table which)
{
	return &shapes[which];
}

struct service_tables service_tables_default(void)
{
	struct service_tables tables;

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

enum err_code tables_check_keys(const struct service_tables *tables, enum service_table which,
                                struct table *t, struct arena *a, struct err *err)
{
	const struct service_table_shape *shape = &shapes[which];
	struct table_description          there;
	enum err_code                     rc = t->backend->describe(t, a, tables->names[which], &there, err);

	if (rc == ERR_NO_RESOURCE)
		return ERR_NONE; /* it will be made */
	if (rc != ERR_NONE || (has_key(&there.schema.keys.hash, shape->hash) &&
	                       has_key(&there.schema.keys.range, shape->range)))
		return rc;
	return err_set(err, ERR_INVALID,
	               "the table \"%.*s\" cannot be used as %s: its keys must be %s%s%s, of type S",
	               BYTES_ARG(tables->names[which]), shape->name, shape->hash,
	               *shape->range == '\0' ? "" : " and ", shape->range);
}

static enum err_code create(struct table *t, struct arena *a, struct bytes name,
                            const struct service_table_shape *shape, struct err *err)
{
	struct table_schema      schema = {.name = name, .on_demand = true};
	struct table_change      ttl = {.kind = CHANGE_TTL, .ttl_attribute = bytes_of(shape->ttl)};
	struct table_alter       alter = {.table = name, .changes = &ttl, .count = 1};
	struct table_description made;
	enum err_code            rc;

	schema.keys.hash = (struct key_attribute){bytes_of(shape->hash), VALUE_S};
	schema.keys.range = (struct key_attribute){bytes_of(shape->range), VALUE_S};
	rc = t->backend->create(t, a, &schema, &made, err);
	if (rc == ERR_RESOURCE_IN_USE)
		return ERR_NONE; /* someone else was quicker, and sees to the rest */
	if (rc != ERR_NONE)
		return rc;
	return shape->ttl[0] == '\0' ? ERR_NONE : t->backend->alter(t, a, &alter, &made, err);
}

enum err_code tables_ensure(const struct service_tables *tables, struct table *t, struct arena *a,
                            struct bytes name, struct err *err)
{
	enum service_table       which = tables_which(tables, name);
	struct table_description there;
	enum err_code            rc = t->backend->describe(t, a, name, &there, err);

	return rc == ERR_NO_RESOURCE && which != SERVICE_TABLE_COUNT ? create(t, a, name, &shapes[which], err)
	                                                             : rc;
}

void looked_init(struct looked *l, struct bytes pk, struct bytes sk)
{
	l->next = NULL;
	l->pk = pk;
	l->sk = sk;
	row_key_fill(l->key, pk, sk);
	l->answered = l->found = false;
}
