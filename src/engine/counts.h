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

/* Rows of all tables together. */
uint64_t counts_rows(struct counts *c);

/* Of tables and indexes that the new catalog lacks. */
void counts_drop_gone(struct counts *c, const struct catalog *old, const struct catalog *new);

/* ---- with each commit; the writer's thread ---- */

/* Counts what the turn changes, and puts the new counts into it: they are written with what they count. */
void counts_add_to_turn(struct engine *e, struct turn *t);
/* It was not committed after all. */
void counts_take_back(struct counts *c, const struct turn *t);

/* ---- in the store, when it is opened, checked or salvaged ---- */

/* What was stored, if it was stored with each commit; otherwise counts everything: when the engine opens. */
enum err_code counts_load(struct engine *e, struct arena *a, const struct catalog *catalog, struct err *err);

/* Counts all rows and entries there are, as of the snapshot (NULL: now). */
enum err_code counts_all(struct engine *e, struct rocks_snapshot *snapshot, struct counts *out,
                         struct err *err);

/* Adds the change after which the next opening counts everything once. */
void counts_add_recount(struct buf *ops);

#endif
