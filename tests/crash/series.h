/* Series: rows that are only added. A worker's rows of one cycle have one hash key and count up from 0, and
 * their content follows from their place: what must be there is known from the number of steps alone. */
#ifndef CRASH_SERIES_H
#define CRASH_SERIES_H

#include "campaign.h"

struct place {
	uint64_t seed;
	unsigned cycle, worker;
	uint32_t n;
	int64_t  began_s;
};

/* One a table; in series.c's list. */
struct series_type {
	const char *table;
	unsigned    per_step; /* items written by one request, all or none */
	/* Appends the item as JSON. */
	void (*item)(struct buf *out, const struct place *p);
	/* When it expires, or 0; NULL: never. */
	int64_t (*expires_s)(const struct place *p);
	/* An attribute that every item has, of type S, by which a global index named like it shows them all; NULL: none. */
	const char *index;
};

extern const struct series_type series_notes, series_batches, series_sessions, series_transfers;

/* Creates the table of a series. */
void series_setup(struct campaign *c, enum series_kind kind);

/* The place of the first item of the worker's next step. */
struct place series_next(const struct worker *w, enum series_kind kind);

/* Notes the outcome of that step; true if it was acknowledged. */
bool series_settle(struct worker *w, enum series_kind kind, const struct answer *answer);

/* Compares what the cycle wrote, or the whole table, and settles what was in doubt. */
void series_verify(struct campaign *c, enum series_kind kind, bool whole);

/* The random numbers that make the content of a place. */
struct random series_random(const struct place *p, enum series_kind kind);

/* "pk": …, "n": …: how every item of a series begins. */
void series_add_key(struct buf *out, const struct place *p);

/* Where an item says it belongs; false if nobody can have written it. */
bool series_place(const struct campaign *c, enum series_kind kind, const struct json *item, struct place *p);

/* Three of four notes have a color: appends it, if there is one, with a comma before it. */
bool note_has_color(const struct place *p);
void note_add_color(struct buf *out, const struct place *p);

#endif
