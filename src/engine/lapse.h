/* Lapse: rows that vanish by themselves. A row that expires is stored with the hour in which it does (item/codec.c), and so are its index
 * entries. It has no expiry entry: nobody looks for it when its time has come.
 *
 *   row_store          the hour goes into the row and its index entries, if its table lets rows lapse
 *   an hour later      a commit closes the hour: from then on both are gone, by definition. They no longer count
 *   any time after     RocksDB leaves them out when it merges files (lapse_drops, on its threads)
 *
 * (X1) A row or an index entry whose hour is closed is absent for every reader and writer, whatever its attributes and the clock say, and whether
 *      it is still in the store or not. So it cannot be seen when one is dropped.
 * (X2) The store drops only what is of closed hours, and learns of a closed hour once the commit that closes it is in the journal.
 * (X3) No hour is ever opened again, and nothing is stored with a closed one.
 * (X4) An hour is closed an hour after its end at the earliest, by the engine's time and by the wall clock; not within an hour of a start that
 *      found the clock an hour or more ahead of the last commit, also if there was another start since; nor while sweeping waits because a clock
 *      was accepted (open.c).
 * (X5) The hour of a row is that of its time to live by the table's present rule. A table whose rule changes is frozen in the same commit: none of
 *      its hours are closed, and its rows are stored with expiry entries, until a walk has stored all of them anew (ticker.c). The store drops nothing
 *      of it before the next hour is closed: whoever reads at an earlier moment may still need a row as it was.
 * (X6) An index entry has the hour of its row. One whose row was gone when it was written anew is left where it is: it is gone too, and stays so (X3).
 *
 * Rows that expire later than LAPSE_HOURS_MAX from now, or should have expired before this hour, have expiry entries: counts are kept by the hour, and
 * these are few. */
#ifndef ENGINE_LAPSE_H
#define ENGINE_LAPSE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/catalog.h"
#include "item/value.h"

struct engine;
struct engine_session;
struct turn;

enum {
	LAPSE_HOUR_S = 3600,        /* part of the format */
	LAPSE_HOUR_MIN = 1 << 16,   /* counts.c: smaller numbers are those of indexes. In 1977 */
	LAPSE_HOURS_MAX = 400 * 24, /* from now */
};

/* Which rows are gone, at one moment. Later on more are, and these still are (X3). */
struct lapse_rule;

struct lapse {
	atomic_uint closed; /* hours before it are. Any thread; the writer raises it */

	pthread_mutex_t    lock; /* held to take or replace the rule */
	struct lapse_rule *rule;
};

/* Nothing is closed. */
void lapse_init(struct lapse *l);
void lapse_release(struct lapse *l);

/* What is stored of it, when the engine opens. */
enum err_code lapse_load(struct engine *e, struct arena *a, const struct catalog *catalog, struct err *err);

/* ---- rows, of a table that is at hand ---- */

/* The hour that the item is to be stored with in this turn; 0: none. */
uint32_t lapse_hour(const struct engine_session *s, const struct table_entry *t, const struct item *item);

/* (X1) Of the value of a row or of an index entry. */
bool lapse_is_gone(const struct engine *e, const struct table_entry *t, struct bytes value);

/* Are rows of this table stored with an hour? */
bool lapse_allows(const struct table_entry *t);

/* (X5) What to freeze a table at in this turn. */
uint32_t lapse_frozen_now(const struct engine *e);

/* ---- any row or entry, by a rule: the store's threads, and walks ---- */

struct lapse_rule *lapse_rule_take(struct engine *e);
void               lapse_rule_release(struct lapse_rule *r);
bool               lapse_drops(const struct lapse_rule *r, struct bytes key, struct bytes value);
/* … of an hour of a table. */
bool lapse_has_closed(const struct lapse_rule *r, uint32_t table_id, uint32_t hour);

/* ---- closing ---- */

/* Closes the hours that are due and in which rows lapse, in a commit of its own. The ticker's thread. */
enum err_code lapse_close(struct engine *e, struct err *err);

/* A batch is durable: what it closes is closed, what it freezes is frozen. The writer's thread. */
void lapse_publish(struct engine *e, const struct turn *t);

#endif
