/* Counts: how many items a table or index holds, and how many bytes, for DescribeTable. Kept in memory, and stored with each
 * commit that changes them, so that they are right after a crash too. Thread-safe. */
#ifndef ENGINE_COUNTS_H
#define ENGINE_COUNTS_H

#include "base/buf.h"
#include "base/err.h"
#include "item/value.h"

struct counts;

struct count {
	int64_t items, bytes;
};

struct counts *counts_open(void);
void           counts_close(struct counts *c);

/* index_id 0 is the table itself. */
struct count counts_get(struct counts *c, uint32_t table_id, uint16_t index_id);
void         counts_add(struct counts *c, uint32_t table_id, uint16_t index_id, struct count change);
void         counts_drop(struct counts *c, uint32_t table_id);
void         counts_drop_index(struct counts *c, uint32_t table_id, uint16_t index_id);

/* Are they the same? NULL: yes. Otherwise a text that says where they differ. */
const char *counts_compare(struct counts *a, struct counts *b, char out[128]);

/* Calls `store` with each table whose counts changed since the last call, as an item for KIND_COUNTS rows. */
void counts_save(struct counts *c, struct arena                                             *a,
                 void (*store)(void *ctx, uint32_t table_id, const struct item *item), void *ctx);
/* What was saved last was not stored after all. */
void counts_unsave(struct counts *c);
void counts_load(struct counts *c, uint32_t table_id, const struct item *item);

#endif
