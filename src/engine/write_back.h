/* Write-back: committed rows on their way from the cache into the store, and from there into its files. A commit is
 * durable once it is in the journal. Its rows then wait in the cache, dirty, until there are many of them. So a row that changes often is put into the store once, for all its changes.
 * What is new to a large partition, such as an event to a log, hardly ever changes: it goes past the cache, into the store, or, behind the end of a log, into
 * the tail (tail.h), from which a checkpoint makes a file.
 *
 *   writer       journal_append, then write_back_publish: rows into the cache, or past it; everything else into the store
 *   a query      write_back_hold_rest: takes a snapshot, and a copy of the dirty rows of its partition (view.c)
 *   a walk       the same, with the first of the dirty rows in its range (waiting.h)
 *   a long look  write_back_hold: all rows into the store; takes its snapshot; write_back_let_go
 *   checkpoint   write_back_all, write_back_logs; the store writes its files and notes where the journal begins now; the journal drops
 *                the segments before
 *
 * Expiry entries, which nobody reads but a sweep, and counts, which nobody reads but a start, wait in a list of their own, and go into the store in the
 * order of their keys: there a key costs less the nearer it is to the one before it. Counts change with every commit, and go there once for many.
 *
 * (B1) While it is held, the store is what is committed, whole commits only.
 *      Except once a commit was published in part, because the store did not take the rest: from then on no call that reads rows is answered (engine.c), until
 *      a start publishes the commit again, from the journal. It was not acknowledged, and the writer has stopped (W3).
 * (B2) Between commits no more than dirty_bytes_max wait in the cache, and no more than ENTRIES_AT_ONCE entries in the list.
 * (C1) What is committed is in the store's files, or in the journal's segments from the noted place on. */
#ifndef ENGINE_WRITE_BACK_H
#define ENGINE_WRITE_BACK_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/cache.h"
#include "engine/ends.h"
#include "engine/filter.h"
#include "engine/journal.h"
#include "engine/rocks.h"
#include "engine/tail.h"
#include "engine/turn.h"

struct engine;

/* Expiry entries and counts that are committed and not in the store. Of two with the same key the later one goes there. */
struct entry_change {
	struct bytes key, value;
	size_t       age; /* how many came before it */
	bool         deleted;
};

struct entries {
	struct arena         arena; /* of keys and values */
	struct entry_change *list;
	size_t               count, cap;
};

struct write_back {
	/* set once */
	struct rocks   *rocks;
	struct cache   *cache;
	struct filter  *filter;   /* NULL: none */
	struct hash_key hash_key; /* state.h */
	size_t          dirty_bytes_max;

	struct ends ends; /* ends.h says which thread */
	struct tail tail; /* tail.h does */

	/* any thread */
	atomic_bool   torn;        /* (B1) a commit was published in part */
	atomic_size_t taken_bytes; /* that the store took, of rows and all else, since the last checkpoint */
	atomic_ullong checkpoint_segment; /* what lies before it is in the store's files */

	pthread_mutex_t checkpoint_lock; /* held during a checkpoint */
	pthread_mutex_t
	        next; /* held by the thread that gets the lock next: the one that gives it up waits behind it */
	pthread_mutex_t lock; /* held while a commit is published, and while rows are written back (B1) */

	/* under lock */
	struct rocks_batch *batch;
	struct cache_row   *rows; /* on their way into the batch */
	size_t              rows_cap;
	struct cache_some   rows_next; /* to be written back when there is too much */
	struct entries      entries;
};

/* The filter may be NULL. */
void write_back_init(struct write_back *b, struct engine *e, size_t dirty_bytes_max);
void write_back_release(struct write_back *b);

/* The changes of a turn that are in the journal become what every reader sees. The writer's thread. If it fails, they see some of them. */
enum err_code write_back_publish(struct write_back *b, struct turn *t, struct err *err);

/* Was every commit published whole? Ask after reading: then what was read is of whole commits, if the answer is yes. */
bool write_back_is_whole(const struct write_back *b);

/* (B1) Takes as long as all that waits takes. Others wait only while it is held, which is to be short. Not held if it fails. Not in a turn. */
enum err_code write_back_hold(struct write_back *b, struct err *err);
/* The same for whoever looks at no rows, expiry entries and counts, or knows which ones: they need not be in the store. */
void write_back_hold_rest(struct write_back *b);
/* … and for whoever looks at expiry entries or counts. */
enum err_code write_back_hold_entries(struct write_back *b, struct err *err);
void          write_back_let_go(struct write_back *b);

/* All that is dirty now, little by little: others get in between. */
enum err_code write_back_all(struct write_back *b, struct err *err);
/* All that is in the tail now, into the store's files. One thread at a time: checkpoint_lock. */
enum err_code write_back_logs(struct write_back *b, struct err *err);

/* ---- checkpoints ---- */

/* The place that the last checkpoint noted. Segment 0: there was none, so that the directory is new. */
enum err_code checkpoint_place(struct rocks *r, struct journal_place *out, struct err *err);

/* Up to the newest segment; does nothing if that was done. Waits for the disk. Any thread, one at a time. */
enum err_code checkpoint_run(struct engine *e, struct err *err);

/* Is there so much in the journal that reading it again would take long? That is a matter of its length, and more so of how
 * many different rows it holds: a row that changed often is put into the store once. */
bool checkpoint_is_due(struct engine *e);

/* How many segments there are before the newest that no checkpoint has dealt with. */
uint64_t checkpoint_lag(struct engine *e);

#endif
