/* Filter builder: walks over the rows of a snapshot, in the background. The snapshot is taken at the moment from which on commits add
 * to the new filter, and has all that was committed before: so together they miss nothing (F1). */
#include "engine/filter_builder.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/worker.h"
#include "engine/lapse.h"
#include "engine/layout.h"
#include "engine/view.h"

enum {
	GROWTH = 2,             /* room for so many times what there is */
	ROW_ENTRIES = 2,        /* the row, and its partition */
	ENTRIES_MIN = 64 << 10, /* for which there is always room */
	ENTRIES_MIN_CHECKED = 256,
	STEP_ROWS = 4096,  /* from one look at whether to go on to the next */
	SLICE_US = 100000, /* others go first */
};

struct filter_builder {
	struct engine *engine;
	struct worker  worker;
	bool           warned; /* the builder's thread */
};

static uint64_t entries_min(const struct engine *e)
{
	return e->options.checks_absent ? ENTRIES_MIN_CHECKED : ENTRIES_MIN;
}

/* Two for each row, at most. If partitions are left out (ends.h) their rows are none: then it is what the last filter came to have. */
static uint64_t entries_expected(const struct engine *e)
{
	uint64_t most = counts_rows(e->counts) * ROW_ENTRIES, last = filter_stats(e->filter).entries;

	return ends_any(&e->write_back.ends) && last > 0 && last < most ? last : most;
}

static enum err_code begin(struct engine *e, struct rocks_snapshot **snapshot, struct err *err)
{
	uint64_t entries = entries_expected(e) * GROWTH;
	bool     begun;

	if (write_back_hold(&e->write_back, err) != ERR_NONE)
		return err->code;
	begun = filter_build_begin(e->filter, entries > entries_min(e) ? entries : entries_min(e));
	if (begun)
		*snapshot = rocks_snapshot_open(e->rocks);
	write_back_let_go(&e->write_back);
	return begun ? ERR_NONE : err_set(err, ERR_STORAGE, "there is no memory for it");
}

/* To the next row, or past all rows of this one's partition. */
static void go_on(struct rocks_cursor *c, struct bytes key, bool past_partition)
{
	struct arena a;

	if (!past_partition) {
		rocks_cursor_next(c);
		return;
	}
	arena_init(&a);
	rocks_cursor_skip(c, layout_after(&a, layout_partition_head(key)));
	arena_release(&a);
}

/* *complete: all rows were seen. */
static enum err_code walk(struct filter_builder *b, const struct rocks_snapshot *snapshot, bool *complete,
                          struct err *err)
{
	const char           low[1] = {KIND_ROW}, high[1] = {KIND_ROW + 1};
	struct engine       *e = b->engine;
	struct rocks_cursor *c =
	        rocks_walk_open(e->rocks, snapshot, (struct bytes){low, 1}, (struct bytes){high, 1});
	struct lapse_rule *rule = lapse_rule_take(e);
	uint64_t           rows = 0, partition = 0, number;
	struct bytes       key, value;
	bool               goes_on = true, began = false, left_out;
	enum err_code      rc;

	for (; goes_on && rocks_cursor_at(c, &key, &value); go_on(c, key, left_out)) {
		if (++rows % STEP_ROWS == 0)
			goes_on = worker_goes_on(&b->worker);
		number = layout_partition_number(key);
		left_out = ends_has(&e->write_back.ends, number); /* (E1) */
		if (!left_out && lapse_drops(rule, key, value))
			continue; /* (X1) */
		filter_build_add(e->filter, hash_bytes(e->hash_key, key));
		if (!began || number != partition)
			filter_build_add(e->filter, layout_partition_hash(e->hash_key, key));
		partition = number;
		began = true;
	}
	lapse_rule_release(rule);
	rc = rocks_cursor_check(c, err);
	rocks_cursor_close(c);
	*complete = rc == ERR_NONE && goes_on;
	return rc;
}

static enum err_code build(struct filter_builder *b, struct err *err)
{
	struct engine         *e = b->engine;
	struct rocks_snapshot *snapshot = NULL;
	bool                   complete;
	enum err_code          rc;

	if (begin(e, &snapshot, err) != ERR_NONE)
		return err->code;
	rc = walk(b, snapshot, &complete, err);
	rocks_snapshot_close(e->rocks, snapshot);
	write_back_hold_rest(&e->write_back);
	filter_build_end(e->filter, complete);
	write_back_let_go(&e->write_back);
	return rc;
}

/* Without it reads are slower, and no less right. */
static void build_if_due(struct worker *worker, void *ctx)
{
	struct filter_builder *b = ctx;
	struct engine         *e = b->engine;
	struct err             err;

	if (e->starved || writer_failed(e->writer) || !filter_is_due(e->filter, entries_min(e)) ||
	    !worker_goes_on(worker))
		return;
	if (build(b, &err) == ERR_NONE || err.code == ERR_DISK_FULL || b->warned)
		return;
	b->warned = true;
	log_warn("the filter of what exists could not be built and will be tried again: %s", err.text);
}

void filter_builder_wake(struct filter_builder *b)
{
	if (b != NULL)
		worker_wake(&b->worker);
}

void filter_builder_round(struct filter_builder *b)
{
	worker_round(&b->worker);
}

enum err_code filter_builder_open(struct filter_builder **out, struct engine *e, struct err *err)
{
	struct filter_builder *b = mem_zalloc(sizeof(*b));

	b->engine = e;
	worker_init(&b->worker,
	            &(struct worker_options){
	                    .name = "filter", .round = build_if_due, .ctx = b, .slice_us = SLICE_US});
	*out = b;
	if (worker_start(&b->worker, err) != ERR_NONE)
		return err->code;
	worker_wake(&b->worker);
	return ERR_NONE;
}

void filter_builder_close(struct filter_builder *b)
{
	worker_join(&b->worker);
	worker_release(&b->worker);
	free(b);
}
