/* Schema and item: what a table's schema says of one item: whether it may be stored, and when it expires. An engine over
 * HTTP leaves that to the other side; this one checks it here. */
#ifndef ENGINE_SCHEMA_ITEM_H
#define ENGINE_SCHEMA_ITEM_H

#include "table/schema.h"

/* The values of a key. */
struct key_values {
	const struct value *hash;
	const struct value *range; /* NULL: there is none */
};

/* Is `key` exactly the key of the table: these attributes, of these types, not empty, not too long? */
enum err_code schema_check_key(const struct table_schema *s, const struct item *key, struct key_values *out,
                               struct err *err);

/* Does an item (or key) have the table's key attributes, of their types? ERR_INVALID: "does not match the
 * schema". */
enum err_code schema_check_key_types(const struct table_schema *s, const struct item *item, struct err *err);

/* Is a key attribute, where present, not empty? */
enum err_code schema_check_key_filled(const struct table_schema *s, const struct item *item, struct err *err);

/* May `item` be stored: keys present and well-typed, index keys well-typed where present, size, depth? */
enum err_code schema_check_item(const struct table_schema *s, const struct item *item, struct err *err);

/* The time (seconds since 1970) from which the item counts as absent; 0 if never. DynamoDB ignores times more
 * than five years back, so that data that never was a time is not lost: so does this. */
int64_t schema_expiry(const struct table_schema *s, const struct item *item);
bool    schema_expired(const struct table_schema *s, const struct item *item, int64_t now_us);

#endif
