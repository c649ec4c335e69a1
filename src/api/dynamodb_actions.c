/* IAM actions: by the form of the request, one function each. */
#include "api/dynamodb_actions.h"

#include <assert.h>

#include "dynamo/reader.h"

/* ---- before it is decoded ---- */

static struct bytes text_of(const struct json *object, const char *name)
{
	return json_is(object, JSON_OBJECT) ? json_text(json_get(object, bytes_of(name))) : BYTES("");
}

/* By its name or its ARN. */
static void name_add(struct iam_actions *out, struct bytes action, struct bytes table, struct bytes index)
{
	struct iam_action *d = &out->list[out->count];
	struct err         ignored;

	*d = (struct iam_action){.action = action, .index = index};
	if (table.len > 0 && arn_table(table, "", &d->table, &ignored) == ERR_NONE)
		out->count++;
}

static void names_of_batch(const struct json *body, struct bytes action, struct arena *a,
                           struct iam_actions *out)
{
	const struct json *tables = json_get(body, BYTES("RequestItems"));

	if (!json_is(tables, JSON_OBJECT))
		return;
	out->list = arena_array(a, tables->count + 1, sizeof(*out->list));
	for (const struct json *m = json_children(tables); m != NULL; m = m->next)
		name_add(out, action, m->name, (struct bytes){NULL, 0});
}

static const char *const transacted[][2] = {{"Get", "GetItem"},
                                            {"Put", "PutItem"},
                                            {"Update", "UpdateItem"},
                                            {"Delete", "DeleteItem"},
                                            {"ConditionCheck", "ConditionCheckItem"}};
enum { TRANSACTED = sizeof(transacted) / sizeof(*transacted) };

static void names_of_transaction(const struct json *body, struct arena *a, struct iam_actions *out)
{
	const struct json *items = json_get(body, BYTES("TransactItems"));

	if (!json_is(items, JSON_ARRAY))
		return;
	out->list = arena_array(a, items->count * TRANSACTED + 1, sizeof(*out->list));
	for (const struct json *m = json_children(items); m != NULL; m = m->next)
		for (size_t i = 0; json_is(m, JSON_OBJECT) && i < TRANSACTED; i++)
			name_add(out, bytes_of(transacted[i][1]),
			         text_of(json_get(m, bytes_of(transacted[i][0])), "TableName"),
			         (struct bytes){NULL, 0});
}

struct iam_actions iam_actions_named(const struct dynamodb_call *c)
{
	struct iam_actions out = {NULL, 0};
	struct bytes       action = c->operation->name, table;

	if (!json_is(c->body, JSON_OBJECT))
		return out;
	if (c->operation->form == FORM_BATCH) {
		names_of_batch(c->body, action, c->arena, &out);
	} else if (c->operation->form == FORM_TRANSACT_GET || c->operation->form == FORM_TRANSACT_WRITE) {
		names_of_transaction(c->body, c->arena, &out);
	} else {
		out.list = arena_alloc(c->arena, sizeof(*out.list));
		table = text_of(c->body, "TableName");
		name_add(&out, action, table.len > 0 ? table : text_of(c->body, "ResourceArn"),
		         text_of(c->body, "IndexName"));
	}
	return out;
}

/* ---- names: the attributes that a request touches ---- */

struct names {
	struct arena *arena;
	struct bytes *list;
	uint32_t      count, cap;
};

static void names_add(struct names *n, struct bytes name)
{
	if (n->count == n->cap) {
		uint32_t      cap = n->cap == 0 ? 16 : n->cap * 2;
		struct bytes *list = arena_array(n->arena, cap, sizeof(*list));

		if (n->count > 0)
			memcpy(list, n->list, n->count * sizeof(*list));
		n->list = list;
		n->cap = cap;
	}
	n->list[n->count++] = name;
}

static void names_of_item(struct names *n, const struct item *item)
{
	for (uint32_t i = 0; i < item->count; i++)
		names_add(n, item->members[i].name);
}

static void names_of_path(struct names *n, const struct expr_path *path)
{
	if (path->count > 0)
		names_add(n, path->steps[0].name);
}

/* Depth is bounded by EXPR_DEPTH_MAX. */
static void names_of_condition(struct names *n, const struct expr *e)
{
	if (e == NULL)
		return;
	for (uint32_t i = 0; i < e->operand_count; i++)
		if (e->operands[i].kind != OPERAND_VALUE)
			names_of_path(n, &e->operands[i].path);
	names_of_condition(n, e->left);
	names_of_condition(n, e->right);
}

static void names_of_term(struct names *n, const struct expr_term *t)
{
	if (t == NULL)
		return;
	if (t->kind == TERM_PATH || t->kind == TERM_IF_NOT_EXISTS)
		names_of_path(n, &t->path);
	names_of_term(n, t->left);
	names_of_term(n, t->right);
}

static void names_of_update(struct names *n, const struct expr_update *u)
{
	for (uint32_t i = 0; u != NULL && i < u->count; i++) {
		names_of_path(n, &u->actions[i].path);
		if (u->actions[i].kind == ACTION_SET)
			names_of_term(n, &u->actions[i].term);
	}
}

static void names_of_projection(struct names *n, const struct expr_projection *p)
{
	for (uint32_t i = 0; i < p->count; i++)
		names_of_path(n, &p->paths[i]);
}

static void set_names(struct iam_action *d, const struct names *n)
{
	d->attributes = n->list;
	d->attribute_count = n->count;
}

/* ---- leading keys ---- */

struct taker {
	struct arena    *arena;
	struct table    *table;
	struct iam_asked asked;
	struct err      *err;
};

static struct bytes key_text(struct arena *a, const struct value *v)
{
	char *text;

	if (v->type != VALUE_N)
		return v->text;
	text = arena_alloc(a, NUMBER_TEXT_MAX);
	return (struct bytes){text, number_format(&v->number, text)};
}

/* Empty: there is no such table. */
static enum err_code hash_name(const struct taker *t, struct bytes table, struct bytes index,
                               struct bytes *out)
{
	struct table_description   d;
	const struct index_schema *i;
	enum err_code              rc = t->table->backend->describe(t->table, t->arena, table, &d, t->err);

	*out = (struct bytes){NULL, 0};
	if (rc != ERR_NONE)
		return rc == ERR_NO_RESOURCE ? ERR_NONE : rc;
	i = index.len == 0 ? NULL : schema_index(&d.schema, index);
	*out = i != NULL ? i->keys.hash.name : d.schema.keys.hash.name;
	return ERR_NONE;
}

/* The hash key's value in each of the items; an item without it leaves all unsaid: it will be refused anyway.
 */
static enum err_code set_leading(const struct taker *t, struct iam_action *d, const struct item *const *items,
                                 uint32_t count)
{
	struct bytes *list, name;

	if (!t->asked.leading)
		return ERR_NONE;
	if (hash_name(t, d->table, d->index, &name) != ERR_NONE)
		return t->err->code;
	if (name.len == 0)
		return ERR_NONE;
	list = arena_array(t->arena, count, sizeof(*list));
	for (uint32_t i = 0; i < count; i++) {
		const struct value *v = item_get(items[i], name);

		if (v == NULL || v->type > VALUE_B)
			return ERR_NONE;
		list[i] = key_text(t->arena, v);
	}
	d->leading = list;
	d->leading_count = count;
	return ERR_NONE;
}

/* ---- one item ---- */

static enum err_code action_of_get(const struct taker *t, const struct table_get *q, struct iam_action *d)
{
	struct names       n = {.arena = t->arena};
	const struct item *key = &q->key;

	d->table = q->table;
	if (q->projection != NULL) {
		names_of_item(&n, key);
		names_of_projection(&n, q->projection);
		set_names(d, &n);
	}
	return set_leading(t, d, &key, 1);
}

static struct bytes returns_text(enum return_values r)
{
	static const char *const texts[] = {"NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"};

	return bytes_of(texts[r]);
}

/* A put replaces the item that is there, with all of its attributes. One that cannot be stored will be refused anyway. */
static enum err_code names_of_replaced(const struct taker *t, const struct table_write *q, struct names *n)
{
	struct table_description d;
	struct table_get         get = {.table = q->table, .consistent = true};
	struct table_get_result  there;
	enum err_code            rc;

	if (!t->asked.replaced || q->kind != TABLE_PUT)
		return ERR_NONE;
	if (t->table->backend->describe(t->table, t->arena, q->table, &d, t->err) != ERR_NONE)
		return t->err->code;
	get.key = schema_key_of(t->arena, &d.schema, NULL, &q->item);
	rc = t->table->backend->get(t->table, t->arena, &get, &there, t->err);
	if (rc == ERR_INVALID) /* its key cannot be one: there is no such item */
		return ERR_NONE;
	if (rc != ERR_NONE)
		return rc;
	if (there.found)
		names_of_item(n, &there.item);
	return ERR_NONE;
}

/* What shows the whole item touches all of its attributes; so does deleting it. */
static bool touches_all(const struct table_write *q)
{
	return q->kind == TABLE_DELETE || q->returns == RETURN_ALL_OLD || q->returns == RETURN_ALL_NEW ||
	       q->return_old_on_failure;
}

static enum err_code action_of_write(const struct taker *t, const struct table_write *q, struct iam_action *d)
{
	struct names       n = {.arena = t->arena};
	const struct item *item = q->kind == TABLE_PUT ? &q->item : &q->key;

	d->table = q->table;
	d->return_values = returns_text(q->returns);
	if (!touches_all(q)) {
		names_of_item(&n, item);
		names_of_update(&n, q->update);
		names_of_condition(&n, q->condition);
		if (names_of_replaced(t, q, &n) != ERR_NONE)
			return t->err->code;
		set_names(d, &n);
	}
	return set_leading(t, d, &item, 1);
}

/* ---- queries ---- */

static enum err_code query_leading(const struct taker *t, const struct table_query *q, struct iam_action *d)
{
	struct bytes *value = arena_alloc(t->arena, sizeof(*value));
	struct bytes  name;

	if (!t->asked.leading || q->key == NULL)
		return ERR_NONE; /* a scan reads all: unsaid */
	if (hash_name(t, d->table, d->index, &name) != ERR_NONE)
		return t->err->code;
	if (name.len == 0)
		return ERR_NONE;
	/* either condition may be the hash key's (expr.h) */
	if (bytes_equal(q->key->hash_name, name))
		*value = key_text(t->arena, &q->key->hash);
	else if (q->key->range_kind == RANGE_EQ && bytes_equal(q->key->range_name, name))
		*value = key_text(t->arena, &q->key->low);
	else
		return ERR_NONE;
	d->leading = value;
	d->leading_count = 1;
	return ERR_NONE;
}

static struct bytes select_text(const struct table_query *q)
{
	if (q->count_only)
		return BYTES("COUNT");
	if (q->projection != NULL)
		return BYTES("SPECIFIC_ATTRIBUTES");
	return q->index.len == 0 || q->all_attributes ? BYTES("ALL_ATTRIBUTES")
	                                              : BYTES("ALL_PROJECTED_ATTRIBUTES");
}

static enum err_code action_of_query(const struct taker *t, const struct table_query *q, struct iam_action *d)
{
	struct names n = {.arena = t->arena};

	d->table = q->table;
	d->index = q->index;
	d->select = select_text(q);
	if (q->projection != NULL || q->count_only) {
		if (q->key != NULL) {
			names_add(&n, q->key->hash_name);
			if (q->key->range_kind != RANGE_NONE)
				names_add(&n, q->key->range_name);
		}
		if (q->projection != NULL)
			names_of_projection(&n, q->projection);
		names_of_condition(&n, q->filter);
		set_names(d, &n);
	}
	return query_leading(t, q, d);
}

/* ---- batches: one action per table ---- */

static enum err_code action_of_share(const struct taker *t, const struct request_batch *q,
                                     const struct batch_table *share, struct iam_action *d)
{
	const struct item **items = arena_array(t->arena, share->count, sizeof(*items));
	struct names        n = {.arena = t->arena};
	bool                all = false;

	for (uint32_t i = 0; i < share->count; i++) {
		const struct table_get   *get = q->gets == NULL ? NULL : &q->gets[share->first + i];
		const struct table_write *write = q->writes == NULL ? NULL : &q->writes[share->first + i];

		assert(get != NULL || write != NULL);
		d->table = get != NULL ? get->table : write->table;
		items[i] = get != NULL ? &get->key : write->kind == TABLE_PUT ? &write->item : &write->key;
		all = all || (get != NULL ? get->projection == NULL : write->kind != TABLE_PUT);
		names_of_item(&n, items[i]);
		if (get != NULL && get->projection != NULL)
			names_of_projection(&n, get->projection);
		if (write != NULL && names_of_replaced(t, write, &n) != ERR_NONE)
			return t->err->code;
	}
	if (!all)
		set_names(d, &n);
	return set_leading(t, d, items, share->count);
}

static enum err_code actions_of_batch(const struct taker *t, const struct request_batch *q,
                                      struct iam_actions *out)
{
	struct bytes action = out->list[0].action;

	out->list = arena_zalloc(t->arena, q->table_count * sizeof(*out->list));
	out->count = q->table_count;
	for (uint32_t i = 0; i < q->table_count; i++) {
		out->list[i].action = action;
		if (action_of_share(t, q, &q->tables[i], &out->list[i]) != ERR_NONE)
			return t->err->code;
	}
	return ERR_NONE;
}

/* ---- transactions: one action per item ---- */

static struct bytes action_of(enum table_action_kind kind)
{
	static const char *const names[] = {"PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"};

	return bytes_of(names[kind]);
}

static enum err_code actions_of_transact_write(const struct taker *t, const struct table_transact_write *q,
                                               struct iam_actions *out)
{
	out->list = arena_zalloc(t->arena, q->count * sizeof(*out->list));
	out->count = q->count;
	for (uint32_t i = 0; i < q->count; i++) {
		out->list[i].action = action_of(q->writes[i].kind);
		out->list[i].enclosing = BYTES("TransactWriteItems");
		if (action_of_write(t, &q->writes[i], &out->list[i]) != ERR_NONE)
			return t->err->code;
	}
	return ERR_NONE;
}

static enum err_code actions_of_transact_get(const struct taker *t, const struct table_batch_get *q,
                                             struct iam_actions *out)
{
	out->list = arena_zalloc(t->arena, q->count * sizeof(*out->list));
	out->count = q->count;
	for (uint32_t i = 0; i < q->count; i++) {
		out->list[i].action = BYTES("GetItem");
		out->list[i].enclosing = BYTES("TransactGetItems");
		if (action_of_get(t, &q->gets[i], &out->list[i]) != ERR_NONE)
			return t->err->code;
	}
	return ERR_NONE;
}

/* ---- by form ---- */

static bool has_put(const struct table_write *writes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (writes[i].kind == TABLE_PUT)
			return true;
	return false;
}

bool iam_actions_put(const struct dynamodb_call *c)
{
	const struct dynamo_request *q = &c->request;

	if (c->operation->form == FORM_TRANSACT_WRITE)
		return has_put(q->transact_write.writes, q->transact_write.count);
	if (c->operation->form == FORM_BATCH && q->batch.writes != NULL)
		return has_put(q->batch.writes, q->batch.count);
	return c->operation->form == FORM_WRITE && q->write.kind == TABLE_PUT;
}

enum err_code iam_actions_of(const struct dynamodb_call *c, struct table *t, struct iam_asked asked,
                             struct iam_actions *out, struct err *err)
{
	const struct dynamo_request *q = &c->request;
	struct taker                 taker = {c->arena, t, asked, err};
	struct iam_action           *d = arena_zalloc(c->arena, sizeof(*d));

	d->action = c->operation->name;
	*out = (struct iam_actions){d, 1};
	switch (c->operation->form) {
	case FORM_GET:
		return action_of_get(&taker, &q->get, d);
	case FORM_WRITE:
		return action_of_write(&taker, &q->write, d);
	case FORM_QUERY:
		return action_of_query(&taker, &q->query, d);
	case FORM_BATCH:
		return actions_of_batch(&taker, &q->batch, out);
	case FORM_TRANSACT_GET:
		return actions_of_transact_get(&taker, &q->transact_get, out);
	case FORM_TRANSACT_WRITE:
		return actions_of_transact_write(&taker, &q->transact_write, out);
	case FORM_CREATE:
		d->table = q->create.name;
		break;
	case FORM_ALTER:
		d->table = q->alter.alter.table;
		break;
	case FORM_TTL:
		d->table = q->ttl.table;
		break;
	case FORM_TABLE:
		d->table = q->table;
		break;
	case FORM_NONE:
		break;
	}
	return ERR_NONE;
}
