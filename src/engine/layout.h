/* Layout: the key space of the store. Drawn in layout.c. */
#ifndef ENGINE_LAYOUT_H
#define ENGINE_LAYOUT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "table/schema.h"

enum {
	EXPIRY_BUCKET_S = 600, /* width of a bucket of the expiry index; part of the format */
	KIND_META = 'm',
	KIND_TABLE = 't',
	KIND_COUNTS = 'c',
	KIND_ROW = 'r',
	KIND_INDEX = 'i',
	KIND_EXPIRY = 'x',
};

/* A row: the item's table and key attributes. The item must have been checked (schema_check_item). */
void layout_row(struct buf *out, uint32_t table_id, const struct key_schema *keys, const struct item *item);

/* What all rows of one hash key (a partition) start with; and, appended, those whose range key starts with
 * bytes. */
void layout_partition(struct buf *out, uint32_t table_id, const struct value *hash);

/* Are all keys from low to high rows of one partition, or of several that share a number? The number is that of the table and the
 * hash (layout.c): what all rows that share it begin with has layout_partition_head. The hash is of the number, keyed (state.h). */
bool         layout_is_one_partition(struct bytes low, struct bytes high);
uint64_t     layout_partition_number(struct bytes row_key);
uint64_t     layout_partition_hash(struct hash_key key, struct bytes row_key);
struct bytes layout_partition_head(struct bytes row_key);

/* An entry of a secondary index; the item has all key attributes of the table and of the index. */
void layout_index(struct buf *out, uint32_t table_id, uint16_t index_id, const struct key_schema *index_keys,
                  const struct key_schema *table_keys, const struct item *item);
void layout_index_partition(struct buf *out, uint32_t table_id, uint16_t index_id, const struct value *hash);

/* What all rows of a table, or all entries of an index, start with. */
void layout_table_prefix(struct buf *out, uint32_t table_id);
void layout_index_prefix(struct buf *out, uint32_t table_id, uint16_t index_id);
/* All indexes of a table. */
void layout_indexes_prefix(struct buf *out, uint32_t table_id);

/* The n-th of `segments` equal parts of the hash space, as bytes to append to a prefix: low bound of the
 * part. The bound above the last part is the end of the prefix. */
void layout_segment(struct buf *out, uint32_t segment, uint32_t segments);

/* The expiry entry of a row: in which bucket, and which row. */
void layout_expiry(struct buf *out, int64_t expiry_s, struct bytes row_key);
/* The start of the bucket that holds this second. */
void layout_expiry_bucket(struct buf *out, int64_t second);
/* Takes an entry apart; the row key is made in the arena. False if damaged. */
bool layout_expiry_parse(struct arena *a, struct bytes key, int64_t *bucket_start_s, struct bytes *row_key);

void layout_table(struct buf *out, struct bytes name);
void layout_counts(struct buf *out, uint32_t table_id);
/* Of what lapses in an hour: begins with that of the table's other counts. And that hour; 0 of the others. */
void     layout_counts_hour(struct buf *out, uint32_t table_id, uint32_t hour);
uint32_t layout_counts_parse_hour(struct bytes key);
void     layout_meta(struct buf *out, const char *name);

/* Table and index of a row or index entry; index 0 is the table itself. False for other kinds. */
bool layout_parse_owner(struct bytes key, uint32_t *table_id, uint16_t *index_id);

/* What is deleted as a range (L2): all that begins as this key does, to the end of its table or index. Empty: this kind never is. */
struct bytes layout_owner(struct bytes key);
/* Can no key from low to high, or can all of them only together, be deleted as a range? */
bool layout_is_one_owner(struct bytes low, struct bytes high);

/* The first key that does not start with `prefix`. */
struct bytes layout_after(struct arena *a, struct bytes prefix);

#endif
