/* Tail: the newest rows of logs (ends.h), in memory and in the order of their keys, until a checkpoint makes files of them, which the store takes as they are
 * (rocks.h). So a row of a log is written once: it neither passes through the store's table in memory nor is merged with others.
 *
 *   publish      tail_add: a row behind the end of its log
 *   checkpoint   tail_seal: what is open is closed, and the next rows open another. Each sealed run becomes a file, or is put into the store row by row
 *                (tail_some), and is dropped then (tail_drop)
 *   a change     of such a row goes into the cache, as any other; then tail_forget
 *
 * (G1) A row that is in the tail is the committed one. A row that is `gone` from it is found as any other: in the cache, or else in the store.
 * (G2) A run is dropped when all of its rows are gone, or in a file of the store.
 * (G3) From `filing` on until the store has the file, or not, none of its rows changes: whoever changes one waits. A file that has a row which was gone before is
 *      not taken.
 *
 * Changed under write_back.c's lock. It is read under that lock, or by itself (tail_get, tail_has): then under its own. */
#ifndef ENGINE_TAIL_H
#define ENGINE_TAIL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/cache.h"
#include "engine/ends.h"
#include "engine/rocks.h"

enum {
	TAIL_BYTES_MAX = 32 << 20, /* past that, rows go into the store at once */
	TAIL_FILE_BYTES_MIN =
	        1 << 20, /* a run of less is put into the store row by row: small files cost readers */
};

struct tail_row {
	struct bytes key, value;
	bool         gone; /* (G1) */
};

/* Rows of one log. */
struct tail_run {
	struct tail     *tail;
	uint64_t         number; /* of its partition (layout.h) */
	struct arena     arena;  /* of keys and values */
	struct tail_row *rows;
	size_t           count, cap;
	size_t           gone, bytes;    /* how many are; of those that are not */
	size_t           first;          /* all before it are gone … */
	size_t           given;          /* … and those up to this one are on their way (tail_some) */
	size_t           filed, gone_at; /* how far its file is; how many were gone when it was begun */
	bool             filing, taken;  /* (G3); the store has the file */
};

struct tail {
	size_t file_bytes_min; /* set once: TAIL_FILE_BYTES_MIN, or less in tests (engine.h, checks_absent) */

	pthread_mutex_t lock;
	pthread_cond_t  filed;                            /* a run is no longer `filing` */
	struct tail_run open[ENDS_MAX], sealed[ENDS_MAX]; /* in the place that ends.h has for the log */

	/* any thread */
	atomic_size_t open_bytes;
	atomic_ullong files, rows_put; /* that the store took, since the start */
};

void tail_init(struct tail *t);
/* No file is under way any more (rocks_stop). */
void tail_release(struct tail *t);

/* ---- under write_back.c's lock ---- */

/* Bytes of rows that are in no sealed run. Any thread. */
static inline size_t tail_bytes(const struct tail *t)
{
	return atomic_load_explicit(&t->open_bytes, memory_order_relaxed);
}

/* A row behind all others of a log. */
void tail_add(struct tail *t, uint64_t number, const struct cache_row *row);

/* The row was changed; it is in the cache as it is now. May wait for the disk (G3). And all rows from low to high, whose table is gone. */
void tail_forget(struct tail *t, uint64_t number, struct bytes key);
void tail_forget_range(struct tail *t, struct bytes low, struct bytes high);

/* Rows from low to high that are not gone, in their order or backward: at most `max` of each run. */
struct tail_walk {
	struct bytes low, high;
	bool         backward;
	size_t       max;
};
void tail_each(struct tail *t, const struct tail_walk *walk, cache_each each, void *ctx);

/* If more than `max` of the range are here, the key of the first one, in the arena. Otherwise an empty one. */
struct bytes tail_first(struct tail *t, const struct tail_walk *walk, struct arena *a);

void tail_seal(struct tail *t);

/* Some rows of sealed runs that no file has, or of all runs: up to `max`. Returns how many. tail_some_done says that the store has them;
 * the lock is held from one to the other. */
size_t tail_some(struct tail *t, bool sealed_only, struct cache_row *rows, size_t max);
void   tail_some_done(struct tail *t, size_t count);

/* (G2) */
void tail_drop(struct tail *t);

/* ---- any thread ---- */

enum tail_found { TAIL_NONE, TAIL_FOUND, TAIL_GONE };

/* The value is copied into the arena. */
enum tail_found tail_get(struct tail *t, struct bytes key, struct arena *a, struct bytes *value);

/* Is a row of this partition here? */
bool tail_has(struct tail *t, uint64_t number);

/* Is so much of a sealed run left that it is worth a file? */
bool tail_wants_file(struct tail_run *r);

/* A sealed run as a file, for rocks.c. */
struct rocks_run tail_file(struct tail_run *r);

#endif
