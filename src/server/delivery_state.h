/* Delivery to one target, as its own files see it: delivery_target.c (its threads, and reading the log), delivery_lanes.c (sending) and
 * delivery_rows.c (loading what is in the table, and writing down what came of it). Nobody else includes this. */
#ifndef SERVER_DELIVERY_STATE_H
#define SERVER_DELIVERY_STATE_H

#include "base/worker.h"
#include "server/delivery_target.h"
#include "server/delivery_window.h"
#include "service/target_try.h"

#define SECOND_US INT64_C(1000000)

/* ---- the last tries ---- */

struct try_kept {
	int64_t         at_us, took_us;
	enum sender_end end;
	int             status;
	char            event[2 * EVENT_ID_CHARS], type[EVENT_TYPE_CHARS_MAX], error[SENDER_ERROR_CHARS];
};

struct tries_kept {
	struct try_kept list[TARGET_TRIES_KEPT]; /* the newest first */
	uint32_t        count;
	uint64_t made, written; /* so many were made since the start; so many of them are in the table */
	int64_t  written_us;    /* steady */
};

struct delivery_target {
	/* set once */
	struct delivery_target_options options;
	char                           name[TARGET_NAME_BYTES_MAX + 1];
	struct worker                  reader, lanes[TARGET_LANES_MAX];

	/* under lock */
	pthread_mutex_t       lock;
	pthread_cond_t        news; /* for the reader */
	pthread_cond_t        work; /* for lanes */
	bool                  stopping, cut_off;
	bool                  woken, changed; /* there may be new events; the row may have changed */
	bool                  poked;          /* the reader is to look */
	bool                  open;           /* lanes may take */
	struct window         window;
	struct sender        *sender;
	unsigned              lanes_max;                 /* lanes above do not take */
	uint64_t              sent, skipped;             /* not written down yet */
	struct target_error   errors[TARGET_ERRORS_MAX]; /* not written down yet, the newest first */
	char                  error_texts[TARGET_ERRORS_MAX][SENDER_ERROR_CHARS];
	char                  error_events[TARGET_ERRORS_MAX][2 * EVENT_ID_CHARS];
	uint32_t              error_count;
	struct tries_kept     tries;
	struct target_reading reading; /* counters and gauges */

	/* the reader's thread */
	struct arena  arena;          /* of what was loaded */
	struct target target;         /* as it was loaded or last written */
	bool          loaded, reload; /* reload: at the next round */
	bool          mine;           /* as far as it knows; it need not be loaded */
	bool          more;           /* there was more in the log */
	bool          alone, two_secrets;
	bool          unopened; /* its sender could not be opened, and that was said */
	int64_t       recount;  /* so many more rows wait than its own says: not written down yet */
	unsigned      lanes_started;
	int64_t       read_us, written_us, owned_us, lag_us, load_us, shown_us; /* steady: the last time */
	int64_t       stopped_us; /* when it was told to; the owner's */

	/* changed by the reader, under lock */
	bool                window_made, failing_written;
	struct event_cursor written;
};

static inline int64_t steady_us(void)
{
	return clock_steady_us(clock_system());
}

static inline int64_t store_us(const struct delivery_target *t)
{
	return t->options.store->backend->now_us(t->options.store);
}

/* ---- delivery_lanes.c ---- */

void         delivery_lane_main(struct worker *w, void *ctx);
struct bytes delivery_json(struct arena *a, const struct item *row);

/* Under lock. For people to see, the newest first. */
void delivery_error_keep(struct delivery_target *t, const struct sender_event *e, int64_t now_us);

/* ---- delivery_tries.c: under lock, but for the last ---- */

void delivery_try_keep(struct delivery_target *t, const struct sender_event *e, int64_t took_us,
                       int64_t now_us);

/* In how many microseconds they are to be written; -1: there is nothing new. */
int64_t delivery_tries_due_us(const struct delivery_target *t);

/* What is to be written of them now, in the arena; NULL: nothing. *made: what to say once it is in the table. */
const struct target_tries *delivery_tries_take(struct delivery_target *t, struct arena *a, uint64_t *made);
void                       delivery_tries_written(struct delivery_target *t, uint64_t made);

void delivery_tries_load(struct delivery_target *t);

/* ---- delivery_rows.c: the reader's thread ---- */

/* Ours and enabled, its rows in memory, a sender open? Then lanes may go. If not, it is tried again later. */
void delivery_target_load(struct delivery_target *t);
void delivery_target_unload(struct delivery_target *t);

/* One commit. True: another one is due at once. */
bool delivery_target_write(struct delivery_target *t);
void delivery_target_write_down(struct delivery_target *t); /* if it is due */

/* Under lock: in how many microseconds a commit is due; -1: there is nothing to write. */
int64_t delivery_target_write_due_us(const struct delivery_target *t);

/* A process that writes nothing for a while says that it is still there. */
void delivery_target_stay_owner(struct delivery_target *t);

#endif
