/* Window: what a target's sender decides, apart from threads, network and rows: which event goes next, what a failure means, what is to be written
 * down. server/delivery_target.c owns one and locks it. Time is passed in.
 *
 *   the log --> slots, in their order --take--> flying --done--> sent ----------------------.
 *                     |                           |                                         |
 *                     |                           '--> failed: again soon, or aside         v
 *                     | behind one of its subject                       |          `after` moves past
 *                     '----------------> entries (retry rows) <---------'          what is settled
 *                                           |  ^
 *                                           '--'  tried again when due; sent, or dead after its tries
 *
 * Whose fault is a failure? If the target accepts other events, it is the event's: it is put aside, and blocks only its own subject. If the target
 * accepts nothing, it is the target's: all wait, with growing pauses, one event at a time probes it, and no event loses a try. A probe takes the event
 * that was tried least, so that an event that can never pass does not hold up the proof that others can.
 *
 * What always holds
 * (1) Of a subject at most one event flies, and none before an older one that is neither sent nor dead.
 * (2) A slot is settled once it was sent or has an entry. `after` moves along settled slots only, and is written together with or after all entries.
 * (3) LATER costs an event a try only if the target accepted another event since its last failure. REFUSED always costs one, unless the target has
 *     refused WINDOW_REFUSED_MAX in a row and accepted none: then it is the target's fault, too.
 * (4) One event that is slow or stuck does not hold up others: if it fills the window, it gets an entry while it flies.
 * (5) Memory: at most WINDOW_SLOTS events with WINDOW_BYTES_MAX of text, or one larger one; and entries, of some 150 bytes, of which
 *     there are at most DELIVERY_WAITING_MAX + WINDOW_SLOTS.
 * (6) With a rate, at most that many events are taken in any second, and a tenth of it (at least one) more. */
#ifndef SERVER_DELIVERY_WINDOW_H
#define SERVER_DELIVERY_WINDOW_H

#include "outbound/sender.h"
#include "service/delivery.h"

enum {
	WINDOW_SLOTS = 256,
	WINDOW_BYTES_MAX = 1 << 20,
	WINDOW_MARKS = 16, /* pages of the log under way */
	WINDOW_BUCKETS = 1024,
	WINDOW_LATER_MAX = 3,    /* failures in a row, then the target pauses */
	WINDOW_REFUSED_MAX = 10, /* (3) */
	WINDOW_PAUSE_S_MAX = 300,
	WINDOW_BATCH_MAX = 100, /* events of one call */
	WINDOW_PACE_US = 10000, /* between two looks of one that has used up its rate, at least */
};

/* An event that comes from the log. Texts are copied. */
struct window_event {
	uint32_t     shard;
	int64_t      position;
	struct bytes key; /* DELIVERY_KEY_CHARS */
	struct bytes id, type, subject, time, json, trace;
	uint64_t erasures; /* when it was read: delivery_lanes.c reads it again if it may be out of date */
	int64_t  read_us;  /* the same, steady */
};

enum slot_state { SLOT_READY, SLOT_FLYING, SLOT_SETTLED };

struct entry;

struct slot {
	enum slot_state     state;
	struct window_event event; /* its texts follow the struct */
	struct slot *
	        before; /* an older one of its subject, which was not settled when this one came; NULL: none */
	struct entry *entry;    /* it flies, and the window went on without it */
	uint32_t      attempts; /* that failed */
	int64_t       next_us;
	uint64_t      sent; /* how many the target had accepted when it flew, or when it first failed */
};

enum entry_note { ENTRY_CLEAN, ENTRY_PUT, ENTRY_SENT, ENTRY_DEAD }; /* what is to be written of it */

struct entry {
	struct entry   *bucket, *next, *prev; /* the next one of its bucket; of all */
	char            key[DELIVERY_KEY_CHARS];
	uint32_t        shard;
	int64_t         position;
	int64_t         tries, next_us, failed_us;
	uint64_t        sent;          /* how many the target had accepted when it last failed */
	bool            restored;      /* failed_us says when it last failed, and `sent` does not */
	bool            copied;        /* its row has the event */
	bool            head;          /* the oldest of its subject: the one that is tried */
	bool            flying, known; /* known: it has a row */
	enum entry_note note, noting;  /* noting: what is on its way to the table */
	int             status;
	char           *error, *id, *type; /* NULL: as it was */
};

struct window_limits {
	int64_t tries, lanes;
	int64_t rate; /* events per second, first tries and others; 0: no limit */
	uint64_t (*random)(void);
};

/* Once all slots before `seq` are settled, this is how far the log was read. */
struct window_mark {
	uint64_t            seq;
	struct event_cursor cursor;
};

struct window {
	struct window_limits limits;

	struct slot        *slots[WINDOW_SLOTS]; /* a ring: seq % WINDOW_SLOTS */
	uint64_t            first, end;          /* seqs */
	size_t              bytes;
	struct window_mark  marks[WINDOW_MARKS];
	uint32_t            mark_count;
	struct event_cursor read, after; /* read from the log; settled */

	struct entry *buckets[WINDOW_BUCKETS];
	struct entry *oldest, *newest; /* all entries */
	uint32_t      entry_count, entries_flying, flying;
	int64_t       due_us;    /* no entry is due before; 0: somebody has to look */
	bool          dead_full; /* there may be no more dead letters */
	bool          dirty;     /* something is to be written of entries */
	int64_t       paced_us;  /* when what was taken so far is through, at the rate (6) */

	/* health */
	uint64_t sent;           /* accepted, since it was opened */
	int64_t  success_us;     /* when it last accepted one; 0: not known */
	int64_t  failing_us;     /* since when it accepts none; 0: it does not fail */
	uint32_t later, refused; /* in a row */
	uint32_t pauses;         /* in a row */
	int64_t  paused_us;      /* until then; 0: not */
	bool     gone;
};

void window_init(struct window *w, const struct window_limits *limits);
void window_release(struct window *w);

/* ---- in ---- */

/* From the rows: where it is, what waits. */
void window_begin(struct window *w, const struct event_cursor *after);
void window_restore(struct window *w, const struct delivery_waiting *row, int64_t success_us);
/* After all of them. */
void window_restored(struct window *w);

/* How many events of the log it has room for. If it is full because of one event that does not get on while others do, it goes on without that one. */
uint32_t window_room(struct window *w);
void     window_add(struct window *w, const struct window_event *e);
void     window_read(struct window *w, const struct event_cursor *next); /* the page ended here */

/* ---- out ---- */

/* One that flies: a slot or an entry. */
struct flight {
	struct slot  *slot;
	struct entry *entry;
};

/* Takes what one call may send now: some slots, at most `max` and so many bytes of JSON, or one entry. 0: nothing. */
uint32_t window_take(struct window *w, int64_t now_us, uint32_t max, size_t bytes_max, struct flight *out);

/* How it ended: end, status, wait_s and error of e. */
void window_done(struct window *w, const struct flight *f, const struct sender_event *e, int64_t now_us);

/* It was not sent after all: the sender stops. */
void window_undo(struct window *w, const struct flight *f);

/* The event of a slot is in the log no more, and is not sent. */
void window_skip(struct window *w, const struct flight *f);

/* The event of an entry is in the log no more. */
void window_lost(struct window *w, struct entry *e, int64_t now_us);

/* When to ask again, if nothing else happens; 0: not. */
int64_t window_next_us(struct window *w, int64_t now_us);

/* ---- what is to be written ---- */

/* Fills up to DELIVERY_NOTES_MAX notes, with texts in the arena; *all: nothing is left, so that `after` may be written, too. */
uint32_t window_notes(struct window *w, struct arena *a, struct delivery_note *out, bool *all);

/* They are in the table, or not: then they are told again. */
void window_noted(struct window *w, bool done);

/* Up to where nothing is needed from the log any more. */
void window_kept(const struct window *w, struct event_cursor *out);

/* Is there an entry of this subject? */
bool window_blocks(const struct window *w, struct bytes key);

#endif
