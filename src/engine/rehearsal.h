/* Rehearsal: a conditional write, called before its turn on a session that only reads. Testing conditions on large items takes
 * milliseconds; in a turn everybody would wait for that.
 *
 *   a thread that nobody waits for             writer
 *   rehearsal_begin: as of which commit
 *   the write: rows read, conditions tested
 *   rehearsal_is_final: it fails? answered
 *   otherwise submitted ------------------->   the write again; a condition that held, on a row that has not
 *                                              changed since, is not tested again (rehearsal_holds)
 *
 * (H1) Before anyone can read a row of a commit, the commit's number stands in the log at the hash of the row's key.
 * (H2) A rehearsal reads no row as it was before commit `from`. So a row at whose hash no number past `from` stands is still as it
 *      was read. Two rows may share a place: then one is taken as changed that is not, which costs time only. */
#ifndef ENGINE_REHEARSAL_H
#define ENGINE_REHEARSAL_H

#include <stdatomic.h>

#include "engine/row.h"

/* What is known of an action: a write, or the token of a transaction. */
struct rehearsed {
	uint64_t hash;       /* of the row's key */
	bool     holds;      /* its condition */
	int64_t  lapse_us;   /* then the item expires; INT64_MAX: never */
	size_t   size_bytes; /* the item's */
};

/* In the arena of the session. */
struct rehearsal {
	uint64_t              from;    /* (H2) */
	const struct catalog *catalog; /* the session's */
	bool                  writes;  /* it came to where it would have written */
	uint32_t              count;
	struct rehearsed      list[TABLE_TRANSACT_MAX + 1]; /* in the order in which they were read */
};

/* From here on a write that is called on this reading session is rehearsed, once. */
void rehearsal_begin(struct engine_session *s, struct arena *a);

void rehearsal_note(struct engine_session *s, const struct table_entry *t, const struct loaded *row,
                    bool holds);

/* After the call: it fails, whatever it returned, and all that it read was so at one moment. */
bool rehearsal_is_final(struct engine_session *s);

/* In a turn: what is known of the write with this key, if its condition held then and so holds now. Otherwise NULL, as in a
 * rehearsal. */
const struct rehearsed *rehearsal_holds(const struct engine_session *s, struct arena *a,
                                        const struct table_entry *t, const struct item *key);

/* ---- the log of changes, which the writer keeps ---- */

enum { CHANGE_LOG_PLACES = 1 << 14 };

struct change_log {
	atomic_ullong committed; /* the number of the last commit that can be read */
	atomic_ullong places[CHANGE_LOG_PLACES];
};

/* (H1) The commit under way changes this row. */
void change_log_add(struct change_log *l, uint64_t hash);

/* It can be read, all of it. */
void change_log_next(struct change_log *l);

#endif
