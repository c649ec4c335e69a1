/* Filter builder: walks over the rows of a snapshot, in the background. The snapshot is taken at the moment from which on commits add
 * to the new filter, and has all that was committed before: so together they miss nothing (F1).
 *
 * A row that the walk missed would be absent for everybody. So what it came to is compared with what the snapshot says was counted (counts.h), before the
 * filter is used. Logs are left out of the walk, and so are tables that have one out of the comparison. */
#include "engine/filter_builder.h"

#include <stdatomic.h>
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
	STEP_ROWS = 4096,        /* from one look at whether to go on to the next */
	SLICE_US = 100000,       /* others go first */
	PAUSE_DOUBLINGS_MAX = 8, /* some minutes */
};

struct filter_builder {
	struct engine *engine;
	struct worker  worker;
	atomic_uint    pause; /* wakes to let pass: after each failure twice as many, for a walk costs much */

	/* the builder's thread */
	unsigned failures; /* one after the other */
};

/* One walk. */
struct build {
	struct engine         *engine;
	struct rocks_snapshot *snapshot;
	struct counts         *walked;           /* rows, by table and hour */
	uint32_t               passed[ENDS_MAX]; /* tables with a partition that is left out */
	size_t                 passed_count;
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

static bool has_passed(const struct build *b, uint32_t table_id)
{
	for (size_t i = 0; i < b->passed_count; i++)
		if (b->passed[i] == table_id)
			return true;
	return false;
}

/* To the next row, or past all rows of this one's partition. */
static void go_on(struct build *b, struct rocks_cursor *c, struct bytes key, bool past_partition)
{
	uint32_t     table_id;
	uint16_t     index_id;
	struct arena a;

	if (!past_partition) {
		rocks_cursor_next(c);
		return;
	}
	if (layout_parse_owner(key, &table_id, &index_id) && !has_passed(b, table_id))
		b->passed[b->passed_count++] = table_id;
	arena_init(&a);
	rocks_cursor_skip(c, layout_after(&a, layout_partition_head(key)));
	arena_release(&a);
}

/* *complete: it was not told to end. */
static enum err_code walk(struct filter_builder *builder, struct build *b, bool *complete, struct err *err)
{
	const char           low[1] = {KIND_ROW}, high[1] = {KIND_ROW + 1};
	struct engine       *e = b->engine;
	struct rocks_cursor *c =
	        rocks_walk_open(e->rocks, b->snapshot, (struct bytes){low, 1}, (struct bytes){high, 1});
	struct lapse_rule *rule = lapse_rule_take(e);
	uint64_t           rows = 0, partition = 0, number;
	struct bytes       key, value;
	bool               began = false, left_out;
	enum err_code      rc;

	for (*complete = true; *complete && rocks_cursor_at(c, &key, &value); go_on(b, c, key, left_out)) {
		if (++rows % STEP_ROWS == 0)
			*complete = worker_goes_on(&builder->worker);
		number = layout_partition_number(key);
		left_out = ends_has(&e->write_back.ends, number); /* (E1) */
		if (!left_out && lapse_drops(rule, key, value))
			continue; /* (X1) */
		counts_add_stored(b->walked, key, value);
		filter_build_add(e->filter, hash_bytes(e->hash_key, key));
		if (!began || number != partition)
			filter_build_add(e->filter, layout_partition_hash(e->hash_key, key));
		partition = number;
		began = true;
	}
	lapse_rule_release(rule);
	rc = rocks_cursor_check(c, err);
	rocks_cursor_close(c);
	return rc;
}

/* More may be there than is counted: the filter is no worse for it. What the store may have dropped since, by a rule that is at most this old, is not looked
 * for. */
static enum err_code compare(const struct build *b, struct counts *said, struct err *err)
{
	struct lapse_rule *rule = lapse_rule_take(b->engine);
	enum err_code      rc = ERR_NONE;

	for (size_t i = 0; i < said->len && rc == ERR_NONE; i++) {
		struct counts_part part = said->slots[i].part;
		int64_t            found = counts_items(b->walked, part);

		if (part.index_id == 0 && found < said->slots[i].count.items &&
		    !has_passed(b, part.table_id) && !lapse_has_closed(rule, part.table_id, part.hour))
			rc = err_set(
			        err, ERR_STORAGE,
			        "table %u has %lld rows, of which %lld were found; run `gatehouse check`",
			        part.table_id, (long long)said->slots[i].count.items, (long long)found);
	}
	lapse_rule_release(rule);
	if (rc != ERR_NONE && b->engine->options.checks_absent && write_back_is_whole(&b->engine->write_back))
		view_contradict("a walk over all rows came to fewer than are counted");
	return rc;
}

static enum err_code compare_counts(const struct build *b, struct err *err)
{
	struct counts        *said = counts_open();
	struct engine_session s;
	enum err_code         rc;

	engine_session_init(&s, b->engine);
	rc = counts_stored(b->engine, b->snapshot, s.catalog, said, err);
	engine_session_release(&s);
	if (rc == ERR_NONE)
		rc = compare(b, said, err);
	counts_close(said);
	return rc;
}

static enum err_code build(struct filter_builder *builder, struct err *err)
{
	struct engine *e = builder->engine;
	struct build   b = {.engine = e};
	bool           complete;
	enum err_code  rc;

	if (begin(e, &b.snapshot, err) != ERR_NONE)
		return err->code;
	b.walked = counts_open();
	rc = walk(builder, &b, &complete, err);
	if (rc == ERR_NONE && complete)
		rc = compare_counts(&b, err);
	counts_close(b.walked);
	rocks_snapshot_close(e->rocks, b.snapshot);
	write_back_hold_rest(&e->write_back);
	filter_build_end(e->filter, rc == ERR_NONE && complete);
	write_back_let_go(&e->write_back);
	return rc;
}

/* Without it reads are slower, and no less right. */
static void build_failed(struct filter_builder *b, const struct err *err)
{
	if (b->failures == 0)
		log_warn("the filter of what exists could not be built and will be tried again: %s",
		         err->text);
	atomic_store(&b->pause, 1U << b->failures);
	if (b->failures < PAUSE_DOUBLINGS_MAX)
		b->failures++;
}

static void build_if_due(struct worker *worker, void *ctx)
{
	struct filter_builder *b = ctx;
	struct engine         *e = b->engine;
	struct err             err;

	if (e->starved || writer_failed(e->writer) || !filter_is_due(e->filter, entries_min(e)) ||
	    !worker_goes_on(worker))
		return;
	if (build(b, &err) == ERR_NONE)
		b->failures = 0;
	else if (err.code != ERR_DISK_FULL)
		build_failed(b, &err);
}

void filter_builder_wake(struct filter_builder *b)
{
	if (b == NULL)
		return;
	if (atomic_load(&b->pause) > 0)
		atomic_fetch_sub(&b->pause, 1); /* the ticker's alone */
	else
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
