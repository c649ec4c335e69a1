/* Counted: compares what DescribeTable says of tables and indexes with what is there. Not in fixture.h, because it looks into the
 * engine, which those who test services on it do not know. */
#ifndef TESTS_ENGINE_COUNTED_H
#define TESTS_ENGINE_COUNTED_H

#include "fixture.h"

#include "engine/counts.h"
#include "engine/tables.h"
#include "engine/view.h"

/* Nothing may be written meanwhile. */
static inline void assert_counted(struct fixture *f)
{
	struct counts         *found = counts_open();
	struct rocks_snapshot *snapshot;
	char                   text[128];

	if (view_snapshot_open(f->engine, &snapshot, &f->err) != ERR_NONE ||
	    tables_count(f->engine, snapshot, found, &f->err) != ERR_NONE)
		fail_msg("%s", f->err.text);
	rocks_snapshot_close(f->engine->rocks, snapshot);
	if (counts_compare(f->engine->counts, found, text) != NULL)
		fail_msg("counted and found: %s", text);
	counts_close(found);
}

#endif
