/* Aws keys: which items requests that are under way hold, and whether one that arrives is in their way. As AWS documents it ("Transactions: how it
 * works", transaction conflict handling):
 *
 *   arrives                          meets one that is under way              and is
 *   PutItem, UpdateItem, DeleteItem  TransactWriteItems                       refused: TransactionConflictException
 *   TransactWriteItems               TransactWriteItems                       cancelled: TransactionConflict at each such action
 *   TransactGetItems                 any write                                cancelled: the same
 *   BatchWriteItem                   TransactWriteItems                       not processed
 *   all else                         anything                                 done
 *
 * The one that arrives is refused at once, and the one under way goes on. For aws_like.h. */
#ifndef TESTS_REMOTE_AWS_KEYS_H
#define TESTS_REMOTE_AWS_KEYS_H

#include "base/arena.h"
#include "json/json.h"
#include "json/write.h"

enum aws_kind { AWS_OTHER, AWS_WRITE, AWS_BATCH_WRITE, AWS_TRANSACT_WRITE, AWS_TRANSACT_GET };

enum { AWS_KEYS_MAX = 100, AWS_TABLES_MAX = 4096, AWS_NAME_BYTES = 256, AWS_TOKEN_BYTES = 64 };

struct aws_key {
	struct bytes text;  /* table and key; empty: there is no such table */
	size_t       bytes; /* of the item or key, about */
	bool         meets; /* one that is under way */
};

/* One request: what it is, and its items in their order. */
struct aws_items {
	enum aws_kind     kind;
	struct aws_key    keys[AWS_KEYS_MAX];
	uint32_t          count;
	struct bytes      token;
	struct aws_items *next; /* of those under way */
};

static inline enum aws_kind aws_kind_of(struct bytes operation)
{
	static const struct {
		const char   *name;
		enum aws_kind kind;
	} kinds[] = {{"PutItem", AWS_WRITE},
	             {"UpdateItem", AWS_WRITE},
	             {"DeleteItem", AWS_WRITE},
	             {"BatchWriteItem", AWS_BATCH_WRITE},
	             {"TransactWriteItems", AWS_TRANSACT_WRITE},
	             {"TransactGetItems", AWS_TRANSACT_GET}};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (bytes_is(operation, kinds[i].name))
			return kinds[i].kind;
	return AWS_OTHER;
}

static inline bool aws_conflict(enum aws_kind arrives, enum aws_kind under_way)
{
	if (arrives == AWS_TRANSACT_GET)
		return under_way != AWS_TRANSACT_GET && under_way != AWS_OTHER;
	return arrives != AWS_OTHER && under_way == AWS_TRANSACT_WRITE;
}

/* Marks the keys that meet others. */
static inline bool aws_meets(struct aws_items *q, const struct aws_items *under_way)
{
	bool any = false;

	for (const struct aws_items *u = under_way; u != NULL; u = u->next)
		for (uint32_t i = 0; aws_conflict(q->kind, u->kind) && i < q->count; i++)
			for (uint32_t k = 0; k < u->count && !q->keys[i].meets; k++)
				any |= q->keys[i].meets = q->keys[i].text.len > 0 &&
				                          bytes_equal(q->keys[i].text, u->keys[k].text);
	return any;
}

/* ---- the keys of a request ---- */

/* The names of a table's key attributes. */
struct aws_schema {
	char table[AWS_NAME_BYTES];
	char names[2][AWS_NAME_BYTES]; /* the second may be empty */
};

static inline struct bytes aws_key_text(struct arena *a, const struct aws_schema *schema,
                                        const struct json *item)
{
	struct json_writer w;
	struct buf         text;

	buf_init(&text, a);
	buf_add_bytes(&text, bytes_of(schema->table));
	for (int i = 0; i < 2 && schema->names[i][0] != '\0'; i++) {
		const struct json *value = json_get(item, bytes_of(schema->names[i]));

		json_writer_init(&w, &text);
		buf_add_byte(&text, '\n');
		if (value != NULL)
			json_tree(&w, value);
	}
	return buf_bytes(&text);
}

/* What names a table's keys: of the proxy, which asks the endpoint once per table. NULL: there is no such table. */
struct aws_schemas {
	const struct aws_schema *(*find)(void *ctx, struct bytes table);
	void *ctx;
};

static inline size_t aws_item_bytes(struct arena *a, const struct json *item)
{
	struct json_writer w;
	struct buf         text;

	buf_init(&text, a);
	json_writer_init(&w, &text);
	json_tree(&w, item);
	return text.len;
}

static inline void aws_key_add(struct aws_items *q, struct arena *a, const struct aws_schemas *schemas,
                               struct bytes table, const struct json *item)
{
	const struct aws_schema *schema = schemas->find(schemas->ctx, table);

	if (q->count >= AWS_KEYS_MAX)
		return;
	q->keys[q->count++] =
	        (struct aws_key){.text = schema == NULL ? BYTES("") : aws_key_text(a, schema, item),
	                         .bytes = aws_item_bytes(a, item)};
}

/* {"Put": {"TableName", "Item"}}, {"Update": {"TableName", "Key"}}, {"Get": …}: its one member. */
static inline void aws_action_add(struct aws_items *q, struct arena *a, const struct aws_schemas *schemas,
                                  const struct json *action)
{
	const struct json *item = json_get(action, BYTES("Item"));

	aws_key_add(q, a, schemas, json_text(json_get(action, BYTES("TableName"))),
	            item != NULL ? item : json_get(action, BYTES("Key")));
}

static inline void aws_batch_add(struct aws_items *q, struct arena *a, const struct aws_schemas *schemas,
                                 const struct json *tables)
{
	for (const struct json *t = json_children(tables); t != NULL; t = t->next)
		for (const struct json *one = json_children(t); one != NULL; one = one->next) {
			const struct json *what = json_children(one);
			const struct json *item = json_get(what, BYTES("Item"));

			aws_key_add(q, a, schemas, t->name,
			            item != NULL ? item : json_get(what, BYTES("Key")));
		}
}

static inline void aws_items_read(struct aws_items *q, struct arena *a, const struct aws_schemas *schemas,
                                  const struct json *body)
{
	const struct json *actions = json_get(body, BYTES("TransactItems"));

	q->token = json_text(json_get(body, BYTES("ClientRequestToken")));
	if (q->kind == AWS_WRITE)
		aws_action_add(q, a, schemas, body);
	if (q->kind == AWS_BATCH_WRITE)
		aws_batch_add(q, a, schemas, json_get(body, BYTES("RequestItems")));
	for (const struct json *one = json_children(actions); one != NULL; one = one->next)
		aws_action_add(q, a, schemas, json_children(one));
}

/* What a refused transaction costs: twice the units of each item, at least one of each. */
static inline uint64_t aws_units(const struct aws_items *q)
{
	size_t   unit = q->kind == AWS_TRANSACT_GET ? 4096 : 1024;
	uint64_t units = 0;

	for (uint32_t i = 0; i < q->count; i++)
		units += 2 * ((q->keys[i].bytes + unit - 1) / unit);
	return units;
}

#endif
