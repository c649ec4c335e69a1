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

/* The keys that services ask for are those of their own tables: if they are not taken, the table is not ours. Whoever
 * called is not to blame. */
static enum err_code not_ours(struct bytes name, enum err_code rc, struct err *err)
{
	if (rc != ERR_INVALID)
		return rc;
	return err_set(err, ERR_FOREIGN_TABLE,
	               "the table \"%.*s\" exists with other keys than this API needs; choose another table "
	               "with the table-… settings",
	               BYTES_ARG(name));
}

enum err_code tables_get(struct table *t, struct arena *a, const struct table_get *q,
                         struct table_get_result *r, struct err *err)
{
	enum err_code rc = t->backend->get(t, a, q, r, err);

	if (rc != ERR_NO_RESOURCE)
		return not_ours(q->table, rc, err);
	*r = (struct table_get_result){0};
	err->code = ERR_NONE;
	return ERR_NONE;
}

enum err_code tables_get_together(struct table *t, struct arena *a, const struct table_batch_get *q,
                                  struct table_batch_get_result *r, struct err *err)
{
	enum err_code rc = t->backend->transact_get(t, a, q, r, err);

	if (rc != ERR_NO_RESOURCE)
		return not_ours(q->gets[0].table, rc, err);
	r->results = arena_zalloc(a, q->count * sizeof(*r->results));
	err->code = ERR_NONE;
	return ERR_NONE;
}

enum err_code tables_query(struct table *t, struct arena *a, const struct table_query *q,
                           struct table_query_result *r, struct err *err)
{
	enum err_code rc = t->backend->query(t, a, q, r, err);

	if (rc != ERR_NO_RESOURCE)
		return not_ours(q->table, rc, err);
	*r = (struct table_query_result){0};
	err->code = ERR_NONE;
	return ERR_NONE;
}

static bool is_there(const struct table *t, const struct table_get_result *r)
{
	return r->found && !row_expired(&r->item, "ttl", t->now_us);
}

enum err_code tables_look(struct table *t, struct arena *a, struct bytes table, struct bytes pk,
                          struct bytes sk, bool *found, struct item *item, struct err *err)
{
	struct table_get        q = {.table = table, .key = row_key_two(a, pk, sk), .consistent = true};
	struct table_get_result r;

	if (tables_get(t, a, &q, &r, err) != ERR_NONE)
		return err->code;
	*found = is_there(t, &r);
	*item = r.item;
	return ERR_NONE;
}

void looked_init(struct looked *l, struct bytes pk, struct bytes sk)
{
	l->next = NULL;
	l->pk = pk;
	l->sk = sk;
	row_key_fill(l->key, pk, sk);
	l->answered = l->found = false;
}

/* What goes into one call. */
struct round {
	struct looked   *asked[TABLE_BATCH_GET_MAX];
	struct table_get gets[TABLE_BATCH_GET_MAX];
	uint32_t         count;
};

static bool is_asked(const struct round *r, const struct looked *l)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (bytes_equal(r->asked[i]->sk, l->sk) && bytes_equal(r->asked[i]->pk, l->pk))
			return true;
	return false;
}

/* Those that are not answered yet. No call may ask twice for a row: a second one waits for the next. */
static void round_fill(struct round *r, struct bytes table, struct looked *first)
{
	r->count = 0;
	for (struct looked *l = first; l != NULL && r->count < TABLE_BATCH_GET_MAX; l = l->next) {
		if (l->answered || is_asked(r, l))
			continue;
		r->asked[r->count] = l;
		r->gets[r->count++] =
		        (struct table_get){.table = table, .key = {l->key, 2}, .consistent = true};
	}
}

static enum err_code round_ask(struct round *r, struct table *t, struct arena *a, struct err *err)
{
	struct table_batch_get        q = {r->gets, r->count};
	struct table_batch_get_result got;
	enum err_code                 rc = t->backend->batch_get(t, a, &q, &got, err);

	if (rc != ERR_NONE && rc != ERR_NO_RESOURCE)
		return not_ours(r->gets[0].table, rc, err);
	err->code = ERR_NONE;
	for (uint32_t i = 0; i < r->count; i++) {
		struct looked *l = r->asked[i];

		l->answered = rc != ERR_NONE || !got.skipped[i];
		l->found = rc == ERR_NONE && is_there(t, &got.results[i]);
		if (l->found)
			l->item = got.results[i].item;
	}
	return ERR_NONE;
}

enum err_code tables_look_all(struct table *t, struct arena *a, struct bytes table, struct looked *first,
                              struct err *err)
{
	struct round r;

	for (round_fill(&r, table, first); r.count > 0; round_fill(&r, table, first))
		if (round_ask(&r, t, a, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}
