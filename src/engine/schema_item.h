/* Schema and item: may an item be stored, by what a table's schema says? An engine over HTTP leaves that to the other side;
 * this one checks it here. (When an item expires: table/schema.h.) */
#ifndef ENGINE_SCHEMA_ITEM_H
#define ENGINE_SCHEMA_ITEM_H

#include "table/schema.h"

/* The values of a key. */
struct key_values {
	const struct value *hash;
	const struct value *range; /* NULL: there is none */
};

/* Of a key, or an item. NULL: it lacks the attribute. */
static inline struct key_values schema_key_values(const struct table_schema *s, const struct item *key)
{
	bool ranged = s->keys.range.name.len > 0;

	return (struct key_values){item_get(key, s->keys.hash.name),
	                           ranged ? item_get(key, s->keys.range.name) : NULL};
}

/* Is `key` exactly the key of the table: these attributes, of these types, not empty, not too long? */
enum err_code schema_check_key(const struct table_schema *s, const struct item *key, struct key_values *out,
                               struct err *err);

/* Does an item (or key) have the table's key attributes, of their types? ERR_INVALID: "does not match the
 * schema". */
enum err_code schema_check_key_types(const struct table_schema *s, const struct item *item, struct err *err);

/* Is a key attribute, where present, not empty? */
enum err_code schema_check_key_filled(const struct table_schema *s, const struct item *item, struct err *err);

/* Have two items, or keys, that were checked the same key? */
bool schema_same_key(const struct table_schema *s, const struct item *a, const struct item *b);

/* May `item` be stored: keys present and well-typed, index keys well-typed where present, size, depth? */
enum err_code schema_check_item(const struct table_schema *s, const struct item *item, struct err *err);

#endif
