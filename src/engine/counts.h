/* Counts: how many items a table or index holds, and how many bytes, for DescribeTable. Kept in memory, and stored with each
 * commit that changes them, so that they are right after a crash too. Rows that lapse (lapse.h), and their index entries, are counted by the hour,
 * and no longer once it is closed: it does not matter when the store drops them. Thread-safe. */
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

/* What is counted apart: rows (index 0) or the entries of an index, those that do not lapse (hour 0) or those that do in an hour. */
struct counts_part {
	uint32_t table_id, hour;
	uint16_t index_id;
};

struct counts_slot {
	struct counts_part part;
	bool               changed; /* it is listed in `changed` */
	struct count       count;
};

struct counts {
	pthread_mutex_t     lock;
	struct counts_slot *slots; /* sorted by table, hour, index: what is stored in one row lies together */
	size_t              len, cap;
	struct counts_part *changed; /* slots that are not stored as they are */
	size_t              changed_len, changed_cap;
};

struct counts *counts_open(void);
void           counts_close(struct counts *c);

/* index_id 0 is the table itself. With what lapses. */
struct count counts_get(struct counts *c, uint32_t table_id, uint16_t index_id);
void         counts_add(struct counts *c, struct counts_part part, struct count change);

/* A row or an index entry, as it is stored. */
void counts_add_stored(struct counts *c, struct bytes key, struct bytes value);

/* How many there are of one part. */
int64_t counts_items(struct counts *c, struct counts_part part);

/* Rows of all tables together. */
uint64_t counts_rows(struct counts *c);

/* Of tables and indexes that the new catalog lacks. Returns how many rows there were. */
uint64_t counts_drop_gone(struct counts *c, const struct catalog *old, const struct catalog *new);

/* Do rows lapse before this hour? */
bool counts_lapse_before(struct counts *c, uint32_t hour);

/* ---- with each commit; the writer's thread ---- */

/* Counts what the turn changes, and puts the new counts into it: they are written with what they count. */
void counts_add_to_turn(struct engine *e, struct turn *t);
/* Forgets what lapses before this hour, in tables that are not frozen. Returns how many rows that was. */
uint64_t counts_drop_closed(struct counts *c, const struct catalog *catalog, uint32_t hour);
/* It was not committed after all. */
void counts_take_back(struct counts *c, const struct turn *t);

/* ---- in the store, when it is opened, checked or salvaged ---- */

/* What was stored, if it was stored with each commit; otherwise counts everything: when the engine opens. */
enum err_code counts_load(struct engine *e, struct arena *a, const struct catalog *catalog, struct err *err);

/* What was stored of the catalog's tables as of the snapshot. Nothing, if it does not come with each commit yet. */
enum err_code counts_stored(struct engine *e, struct rocks_snapshot *snapshot, const struct catalog *catalog,
                            struct counts *out, struct err *err);

/* Counts all rows and entries there are, as of the snapshot (NULL: now). */
enum err_code counts_all(struct engine *e, struct rocks_snapshot *snapshot, struct counts *out,
                         struct err *err);

/* Adds the change after which the next opening counts everything once. */
void counts_add_recount(struct buf *ops);

#endif
