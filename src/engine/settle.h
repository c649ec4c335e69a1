/* Settle: committed rows on their way into the store. A commit is durable once it is in the journal; its rows
 * then wait in the cache, and are put into the store when there are many of them, or when someone walks over
 * a whole table. A row that changes often is so put there once, for all its changes.
 *
 *   writer     journal_append, then settle_publish: rows into the cache, everything else into the store
 *   a walk     settle_hold: all rows into the store; opens its cursor or snapshot; settle_let_go
 *   a query    settle_hold_rest: takes a snapshot, and a copy of the rows of its partition that wait (view.c)
 *
 * (S1) While it is held, the store is what is committed, whole commits only.
 * (S2) Between commits no more than unsettled_bytes_max wait in the cache. */
#ifndef ENGINE_SETTLE_H
#define ENGINE_SETTLE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/cache.h"
#include "engine/rocks.h"
#include "engine/turn.h"

struct settle {
	/* set once */
	struct rocks *rocks;
	struct cache *cache;
	size_t        unsettled_bytes_max;

	atomic_size_t taken_bytes; /* by the store; settle_taken_filed takes off */

	pthread_mutex_t lock; /* held while a commit is published, and while rows are settled (S1) */
	pthread_mutex_t door; /* held by who waits for the lock: who lets go of it then comes after him */

	/* under lock */
	struct rocks_batch *batch;
	struct cache_row   *rows; /* on their way into the batch */
	size_t              rows_cap;
	unsigned            next_shard;
};

void settle_init(struct settle *s, struct rocks *rocks, struct cache *cache, size_t unsettled_bytes_max);
void settle_release(struct settle *s);

/* The changes of a turn that are in the journal become what every reader sees. The writer's thread. */
enum err_code settle_publish(struct settle *s, const struct turn *t, struct err *err);

/* (S1) Short: others wait meanwhile. Not held if it fails. */
enum err_code settle_hold(struct settle *s, struct err *err);
/* The same for who looks at no rows, or knows which ones: they need not be in the store. */
void settle_hold_rest(struct settle *s);
void settle_let_go(struct settle *s);

/* How much the store took, of rows and all else, and has not been said to be in its files. */
size_t settle_taken_bytes(struct settle *s);
void   settle_taken_filed(struct settle *s, size_t bytes);

/* All that is unsettled now, little by little: others get in between. */
enum err_code settle_all(struct settle *s, struct err *err);

#endif
