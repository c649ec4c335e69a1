/* Counts: how many items a table or index holds, and how many bytes, for DescribeTable. Kept in memory, and stored with each
 * commit that changes them, so that they are right after a crash too. Thread-safe. */
#ifndef ENGINE_COUNTS_H
#define ENGINE_COUNTS_H

#include <pthread.h>

#include "base/buf.h"
#include "base/err.h"
#include "item/value.h"

struct catalog;
struct engine;
struct rocks_snapshot;
struct turn;

/* Of one table or index. */
struct count {
	int64_t items, bytes;
};

struct counts_slot {
	uint32_t     table_id;
	uint16_t     index_id;
	bool         changed;
	struct count count;
};

struct counts {
	pthread_mutex_t     lock;
	struct counts_slot *slots; /* sorted by table, then index */
	size_t              len, cap;
	bool                changed; /* some slot is */
};

struct counts *counts_open(void);
void           counts_close(struct counts *c);

/* index_id 0 is the table itself. */
struct count counts_get(struct counts *c, uint32_t table_id, uint16_t index_id);
void         counts_add(struct counts *c, uint32_t table_id, uint16_t index_id, struct count change);
void         counts_drop(struct counts *c, uint32_t table_id);
void         counts_drop_index(struct counts *c, uint32_t table_id, uint16_t index_id);

/* Calls `store` with each table whose counts changed since the last call, as an item for KIND_COUNTS rows. */
void counts_save(struct counts *c, struct arena                                             *a,
                 void (*store)(void *ctx, uint32_t table_id, const struct item *item), void *ctx);
/* What was saved last was not stored after all. */
void counts_unsave(struct counts *c);

/* ---- in the store ---- */

/* What was stored, if it was stored with each commit; otherwise counts everything: when the engine opens. */
enum err_code counts_load(struct engine *e, struct arena *a, const struct catalog *catalog, struct err *err);

/* Counts all rows and entries there are, as of the snapshot (NULL: now). */
enum err_code counts_all(struct engine *e, struct rocks_snapshot *snapshot, struct counts *out,
                         struct err *err);

/* Adds the change after which the next opening counts everything once. */
void counts_add_recount(struct buf *ops);

/* Notes that from this commit on counts are stored with each. */
void counts_note(struct turn *t);

#endif
