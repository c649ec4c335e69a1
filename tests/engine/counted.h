/* Counted: compares what DescribeTable says of tables and indexes with what is there. Not in fixture.h, because it looks into the
 * engine, which those who test services on it do not know. */
#ifndef TESTS_ENGINE_COUNTED_H
#define TESTS_ENGINE_COUNTED_H

#include "fixture.h"

#include "engine/counts.h"
#include "engine/view.h"

/* Of one part alone. */
static inline struct count counts_of(const struct counts *c, struct counts_part part)
{
	for (size_t i = 0; i < c->len; i++) {
		struct counts_part other = c->slots[i].part;

		if (other.table_id == part.table_id && other.hour == part.hour &&
		    other.index_id == part.index_id)
			return c->slots[i].count;
	}
	return (struct count){0, 0};
}

/* Slots of nothing are made by who asks for them. */
static inline bool counts_agree(struct counts *a, struct counts *b, char out[128])
{
	for (size_t i = 0; i < a->len; i++) {
		const struct counts_slot *s = &a->slots[i];
		struct count              other = counts_of(b, s->part);

		if (other.items == s->count.items && other.bytes == s->count.bytes)
			continue;
		snprintf(out, 128, "table %u, index %u, hour %u: %lld items of %lld bytes, and %lld of %lld",
		         s->part.table_id, s->part.index_id, s->part.hour, (long long)s->count.items,
		         (long long)s->count.bytes, (long long)other.items, (long long)other.bytes);
		return false;
	}
	return true;
}

/* Are they the same? NULL: yes. Otherwise a text that says where they differ. */
static inline const char *counts_compare(struct counts *a, struct counts *b, char out[128])
{
	return counts_agree(a, b, out) && counts_agree(b, a, out) ? NULL : out;
}

/* Nothing may be written meanwhile. */
static inline void assert_counted(struct fixture *f)
{
	struct counts         *found = counts_open();
	struct rocks_snapshot *snapshot;
	char                   text[128];

	if (view_snapshot_open(f->engine, &snapshot, &f->err) != ERR_NONE ||
	    counts_all(f->engine, snapshot, found, &f->err) != ERR_NONE)
		fail_msg("%s", f->err.text);
	rocks_snapshot_close(f->engine->rocks, snapshot);
	if (counts_compare(f->engine->counts, found, text) != NULL)
		fail_msg("counted and found: %s", text);
	counts_close(found);
}

#endif
