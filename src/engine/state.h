/* State: the engine's own struct, shared by the files of this folder only. */
#ifndef ENGINE_STATE_H
#define ENGINE_STATE_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "engine/cache.h"
#include "engine/catalog.h"
#include "engine/counts.h"
#include "engine/engine.h"
#include "engine/filter.h"
#include "engine/journal.h"
#include "engine/lapse.h"
#include "engine/rocks.h"
#include "engine/write_back.h"
#include "engine/turn.h"
#include "engine/writer.h"

struct change_log;

struct engine {
	struct store store; /* first: a struct store of this backend is an engine */

	/* set once, before any thread starts */
	struct engine_options  options;
	struct rocks          *rocks;
	struct cache          *cache;
	struct journal        *journal; /* NULL: opened for reading */
	struct filter         *filter;  /* NULL: opened for reading, or there was no address space */
	struct write_back      write_back;
	struct lapse           lapse;
	struct counts         *counts;
	struct writer         *writer;
	struct ticker         *ticker;
	struct filter_builder *filter_builder;
	struct turn *unwritten; /* if opened for reading: what the store's files lack. Otherwise NULL */
	struct cache_rows
	        unwritten_rows; /* … in the order of their keys: there may be as many as the journal holds, and each walk asks */
	int     lock_fd;
	bool counts_noted; /* in the store, that counts come with each commit. The writer's, once it runs */
	bool notes_waits; /* the next commit says until when nothing is swept and no hour is closed. Likewise */

	/* any thread */
	/* Of the hashes of row keys. Random: keys are chosen by clients, and with a known hash they could all be
	 * made to meet in one bucket. */
	struct hash_key hash_key;
	int64_t         began_us, began_steady_us; /* set when opened: time, and the steady clock then */
	int64_t         sweep_after_us;            /* set when opened: nothing is swept before */
	int64_t         close_after_us; /* set when opened: no hour is closed before (lapse.h X4) */
	bool            clock_accepted; /* set when opened: somebody said that it is right */
	bool            clock_far; /* set when opened: it is far ahead of the last commit, or was accepted */
	atomic_llong    now_us;    /* the latest time given to anyone: time never goes back */
	atomic_bool     disk_full, fed; /* fed: it was starved, and there is room again */
	bool starved; /* set when opened: there was no room at all. Only reads, until it starts again */
	atomic_ullong swept_rows;

	struct change_log *change_log; /* rehearsal.h */

	/* under catalog_lock */
	pthread_mutex_t       catalog_lock;
	const struct catalog *catalog; /* what is committed */
};

/* An engine of a directory that is there, open for reading and nothing else: no tables are loaded, nothing can be
 * written, no thread runs. What the store's files lack is in a turn of its own, from the journal. lock_fd is what
 * disk_claim_existing gave, and the engine's from here on; -1 claims the directory. Ends with engine_close. */
enum err_code engine_open_reading(struct engine **out, const char *path, int lock_fd, struct err *err);

/* Where the journal of a data directory lies, as FORMAT has it; `dir` holds the name that *out points to. */
enum err_code engine_journal_site(const char *path, char dir[PATH_MAX], struct journal_site *out,
                                  struct err *err);

/* Puts into the turn until when nothing is swept and no hour is closed, for the starts to come. After a start that found the clock far ahead this goes with
 * the first commit, whose time is the first of that clock; a start that writes nothing leaves no trace of it. */
void engine_note_waits(struct engine *e, struct turn *t);

/* Makes the catalog of a committed batch the one that readers get. */
void engine_publish_catalog(struct engine *e, const struct catalog *catalog);

/* ---- the backend's functions, by file: table/table.h says what they do ---- */

extern const struct table_backend engine_backend;
extern const struct store_backend engine_store_backend;

/* row.c */
enum err_code row_get(struct table *t, struct arena *a, const struct table_get *q, struct table_get_result *r,
                      struct err *err);
enum err_code row_write(struct table *t, struct arena *a, const struct table_write *q,
                        struct table_write_result *r, struct err *err);

/* query.c */
enum err_code query_run(struct table *t, struct arena *a, const struct table_query *q,
                        struct table_query_result *r, struct err *err);

/* batch.c */
enum err_code batch_get(struct table *t, struct arena *a, const struct table_batch_get *q,
                        struct table_batch_get_result *r, struct err *err);
enum err_code batch_transact_get(struct table *t, struct arena *a, const struct table_batch_get *q,
                                 struct table_batch_get_result *r, struct err *err);
enum err_code batch_write(struct table *t, struct arena *a, const struct table_batch_write *q,
                          struct table_batch_write_result *r, struct err *err);
enum err_code batch_transact_write(struct table *t, struct arena *a, const struct table_transact_write *q,
                                   struct table_transact_result *r, struct err *err);
/* The table of client request tokens, which the engine makes for itself. */
struct table_entry *batch_tokens_table(void);

/* tables.c */
bool          tables_lacks(const struct table *t, struct bytes name);
enum err_code tables_create(struct table *t, struct arena *a, const struct table_schema *q,
                            struct table_description *r, struct err *err);
enum err_code tables_describe(struct table *t, struct arena *a, struct bytes name,
                              struct table_description *r, struct err *err);
enum err_code tables_list(struct table *t, struct arena *a, const struct table_list *q,
                          struct table_list_result *r, struct err *err);
enum err_code tables_alter(struct table *t, struct arena *a, const struct table_alter *q,
                           struct table_description *r, struct err *err);
enum err_code tables_remove(struct table *t, struct arena *a, struct bytes name, struct table_description *r,
                            struct err *err);

#endif
