/* Engine: the store in this process, durable on one disk.
 *
 *   loop threads                       writer thread                    ticker thread
 *   engine_session_init                 takes all that waits             once per second: free space,
 *   table calls on what is committed   runs each in its turn            sweeping, backfilling (as
 *   engine_submit, engine_gathered ->  commits once, then completes     writer requests)
 *
 * Reads are always consistent: a reader sees every write that was acknowledged before it began, and nothing
 * that is not durable. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/clock.h"
#include "table/store.h"

struct engine;
struct catalog;
struct rehearsal;
struct turn;

/* Attributes that follow from others: whatever is written to one table is completed before it is stored, however it is written. Any thread. */
struct engine_completion {
	struct bytes table; /* its name; must outlive the engine */
	/* False: nothing is to be changed. */
	bool (*complete)(const void *ctx, struct arena *a, const struct item *item, struct item *out);
	const void *ctx;
};

struct engine_options {
	const char   *path;                  /* the data directory; created if absent */
	size_t        cache_bytes_max;       /* hot rows kept in front of the store */
	size_t        block_cache_bytes;     /* the store's own */
	size_t        filter_bytes_max;      /* of the filter of what exists; 0: there is none */
	size_t        queue_bytes_max;       /* what may wait for the writer; past it: ERR_OVERLOADED */
	size_t        expression_bytes_max;  /* what the expressions of one call may look at (expr/eval.h) */
	size_t        disk_reserve_bytes;    /* below this much free space: ERR_DISK_FULL */
	size_t        journal_segment_bytes; /* a file of the journal; checkpoints free whole ones */
	size_t        journal_unit_bytes;    /* what the disk writes at once; 0: ask it */
	size_t        store_file_bytes;      /* where a file of the store ends; 0: what suits a server */
	int64_t       clock_jump_max_us;     /* between the last commit and the wall clock, when opened */
	bool          accept_clock;          /* whatever it says: time begins with it, also if that is back */
	unsigned      tick_ms;               /* the ticker's period */
	struct clock *clock;
	void (*random)(void *out, size_t len); /* for table ids */
	/* For tests: all that is said to be absent, or whole, is looked up in the store as well, the filter is built often, the fewest rows of a log
	 * become a file, and the store merges its files whenever rows are gone, unless it keeps them. */
	bool checks_absent, keeps_gone;
	/* Called once, from a thread of the engine's, when it is to be closed and opened again: a commit failed, and nothing
	 * more is written by this process; or there is room again on a disk that had none when it was opened. */
	void (*on_failure)(void *ctx);
	void *failure_ctx;

	struct engine_completion completion; /* all zeros: none */
};

struct engine_options engine_options_default(const char *path);

/* Shares out so many bytes: five eighths to the rows, two to the store's blocks, one to the filter. */
void engine_options_set_memory(struct engine_options *o, size_t bytes);

enum err_code engine_open(struct engine **out, const struct engine_options *options, struct err *err);

/* Finishes what was submitted, then closes. */
void engine_close(struct engine *e);

/* Had the disk no room when it was opened? Then it can only be read. */
bool engine_starved(const struct engine *e);

/* The engine as all but server/ and tests know it. */
struct store *engine_store(struct engine *e);

/* ---- as the store has them (table/store.h) ---- */

/* No failed commit, disk not full? */
bool engine_ready(const struct engine *e);

/* ---- sessions ---- */

/* A session: struct table with the engine behind it. On a loop thread it reads what is committed; the writer
 * makes one of its own for each turn. */
struct engine_session {
	struct table          base;
	struct engine        *engine;
	const struct catalog *catalog;
	struct turn          *turn; /* NULL: reads only */
	struct rehearsal *
	        rehearsal; /* NULL: none. Of a session that reads: being made; in a turn: what it found out */
	bool    rehearses; /* it is being made */
	bool    light;     /* its expressions may look at TURN_LIGHT_BYTES: past it, too_heavy */
	bool    too_heavy;
};

void engine_session_init(struct engine_session *r, struct engine *e);
void engine_session_release(struct engine_session *r);

/* The time for a batch or a reader: the clock's, but never before a time already given. */
int64_t engine_now_us(struct engine *e);

/* ---- writing ---- */

enum err_code engine_submit(struct engine *e, struct turn_request *w, struct err *err);
void          engine_gathered(struct engine *e);

/* store_run: submits and waits. */
enum err_code engine_run(struct engine *e, struct turn_request *w, struct err *err);

/* ---- for tests and metrics ---- */

struct store_stats engine_stats(struct engine *e);

/* Does one ticker round now and waits for it: tests move the clock and then sweep. */
void engine_tick(struct engine *e);

/* Puts all that is committed into the store and has it merge its files: rows that are gone (lapse.h) leave it. */
enum err_code engine_compact(struct engine *e, struct err *err);

/* Builds the filter of what exists, if it is due, and waits for that. */
void engine_build_filter(struct engine *e);

/* Compares every row with its index and expiry entries, and every entry with its row. ERR_STORAGE names the
 * first difference. No table may be made or removed meanwhile. (A directory that is not open: check.h.) */
enum err_code engine_verify(struct engine *e, struct err *err);

/* Counts all rows and entries, and compares that with what DescribeTable says. Nothing may be written meanwhile. */
enum err_code engine_verify_counts(struct engine *e, struct err *err);

#endif
