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

/* Are two keys of a table the same? */
static inline bool key_values_equal(const struct key_values *a, const struct key_values *b)
{
	if (a->range != b->range &&
	    (a->range == NULL || b->range == NULL || !value_equal(a->range, b->range)))
		return false;
	return a->hash != NULL && b->hash != NULL && value_equal(a->hash, b->hash);
}

/* May `item` be stored: keys present and well-typed, index keys well-typed where present, size, depth? Then these are its key and its size. */
enum err_code schema_check_item(const struct table_schema *s, const struct item *item, struct key_values *key,
                                size_t *bytes, struct err *err);

#endif
