/* Ticker: see ticker.h. A table is filled for all its new indexes and its expiry entries in one walk. A sweep walks the
 * buckets of the expiry index that lie wholly in the past: reads hide expired rows by themselves, at the second, and it
 * only gives the space back, up to a bucket's width later. */
#include "engine/ticker.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/worker.h"
#include "engine/disk.h"
#include "engine/filter_builder.h"
#include "engine/lapse.h"
#include "engine/layout.h"
#include "engine/row.h"
#include "item/codec.h"

enum {
	CLOCK_WARN_US = 2000000,
	FILL_ROWS_MAX = 64, /* a turn */
	FILL_BYTES_MAX = 256 * 1024,
	SWEEP_ROWS_MAX = 512, /* a turn, which is a commit: the more rows, the less of it each pays … */
	SWEEP_US_MAX = 2000,  /* … but others wait for it */
	SWEEP_LOOK_ROWS = 16, /* from one look at the clock to the next */
	SWEEP_RESTART_ROUNDS = 600,
};

/* Where the last turn of a sweep ended, so that the next one does not walk over what was removed. */
struct sweep {
	struct buf at;
	uint64_t   rounds;
};

struct ticker {
	struct engine *engine;
	struct worker  worker;

	/* ticker thread only */
	struct sweep sweep;
	int64_t      warned_us; /* how far the wall clock was ahead when that was last said */
};

static void make_checkpoint(struct engine *e)
{
	struct err    err;
	enum err_code rc = !e->starved && checkpoint_is_due(e) ? checkpoint_run(e, &err) : ERR_NONE;

	if (rocks_failure(e->rocks) != NULL)
		writer_stop(e->writer, rocks_failure(e->rocks));
	else if (rc != ERR_NONE && rc != ERR_DISK_FULL) /* that is known */
		log_warn("a checkpoint failed and will be tried again: %s", err.text);
}

/* Between two turns of a long job: watches the disk meanwhile, and says whether to go on. */
static bool goes_on(struct ticker *t)
{
	disk_watch(t->engine);
	make_checkpoint(t->engine);
	return worker_goes_on(&t->worker);
}

/* ---- filling: rows that were there before it get the entries of a new index, or of time to live; in a frozen table (X5) they are stored anew,
 * with expiry entries instead of the hour in which they lapse ---- */

/* How far a table's walk has come, and for which indexes it is. */
struct walk {
	struct buf at; /* the next row */
	uint64_t   target;
};

struct fill_request {
	struct turn_request base;
	uint32_t            table_id;
	struct walk        *walk;
	bool                more;
};

static bool needs_filling(const struct table_entry *t)
{
	bool needed = t->ttl_filling || t->frozen_hour != 0;

	for (uint32_t i = 0; i < t->schema.index_count; i++)
		needed = needed || t->schema.indexes[i].status == INDEX_CREATING;
	return needed;
}

/* Names what is to be filled. Where that changes under way (another index is created, time to live is
 * switched on), the walk must begin anew: rows it has passed lack the new entries. */
static uint64_t target_of(struct arena *a, const struct table_entry *t)
{
	struct buf ids;

	buf_init(&ids, a);
	for (uint32_t i = 0; i < t->schema.index_count; i++)
		if (t->schema.indexes[i].status == INDEX_CREATING)
			buf_add(&ids, &t->index_ids[i], sizeof(t->index_ids[i]));
	buf_add_byte(&ids, t->ttl_filling);
	buf_add(&ids, &t->ttl_changes, sizeof(t->ttl_changes));
	buf_add_bytes(&ids, t->schema.ttl_attribute);
	return hash_bytes(HASH_KEY_STABLE, buf_bytes(&ids));
}

static enum err_code fill_index(struct engine_session *s, struct arena *a, const struct table_entry *t,
                                uint32_t index, const struct loaded *row, struct err *err)
{
	struct row_entry entry;
	struct bytes     old;
	bool             found;

	if (t->schema.indexes[index].status != INDEX_CREATING)
		return ERR_NONE;
	entry = row_entry(a, t, index, &row->item, item_lapse(row->value));
	if (!entry.present)
		return ERR_NONE;
	if (view_get(s, a, buf_bytes(&entry.key), &old, &found, err) != ERR_NONE)
		return err->code;
	if (!found)
		turn_put(s->turn, buf_bytes(&entry.key), buf_bytes(&entry.value), TURN_NOTHING);
	return ERR_NONE;
}

static void fill_expiry(struct engine_session *s, struct arena *a, const struct table_entry *t,
                        const struct loaded *row)
{
	int64_t    expiry = schema_expiry(&t->schema, &row->item);
	struct buf key;

	if (expiry == 0)
		return;
	buf_init(&key, a);
	layout_expiry(&key, expiry, row->key);
	turn_put(s->turn, buf_bytes(&key), (struct bytes){"", 0}, TURN_NOTHING);
}

static enum err_code fill_row(struct engine_session *s, struct arena *a, const struct table_entry *t,
                              struct loaded *row, struct err *err)
{
	if (row_decode(s, a, t, row->value, row, err) != ERR_NONE)
		return err->code;
	if (!row->stored)
		return ERR_NONE; /* it is gone, and its entries are */
	if (t->frozen_hour != 0 && item_lapse(row->value) != 0) {
		row_store(s, a, t, row, &row->item, NULL);
		return ERR_NONE;
	}
	for (uint32_t i = 0; i < t->schema.index_count; i++)
		if (fill_index(s, a, t, i, row, err) != ERR_NONE)
			return err->code;
	if (t->ttl_filling)
		fill_expiry(s, a, t, row);
	return ERR_NONE;
}

/* All rows were seen: the indexes are complete, and the table is not frozen any more. */
static void finish(struct engine_session *s, struct arena *a, const struct table_entry *t)
{
	struct table_entry *e = table_entry_make(&t->schema);

	e->id = t->id;
	e->next_index_id = t->next_index_id;
	e->ttl_changes = t->ttl_changes;
	memcpy(e->index_ids, t->index_ids, sizeof(e->index_ids));
	for (uint32_t i = 0; i < e->schema.index_count; i++)
		e->schema.indexes[i].status = INDEX_ACTIVE;
	catalog_save(s, a, e);
}

static enum err_code fill_turn(struct engine_session *s, struct arena *a, struct fill_request *q,
                               struct err *err)
{
	const struct table_entry *t = catalog_find_id(s->turn->catalog, q->table_id);
	struct view_cursor        cursor;
	struct bytes              key, value, low;
	struct buf                prefix;
	enum err_code             rc = ERR_NONE;
	unsigned                  rows = 0;
	size_t                    bytes = 0;

	if (t == NULL || !needs_filling(t))
		return ERR_NONE; /* deleted or changed meanwhile */
	if (q->walk->target != target_of(a, t)) {
		q->walk->target = target_of(a, t);
		buf_reset(&q->walk->at);
	}
	buf_init(&prefix, a);
	layout_table_prefix(&prefix, t->id);
	low = q->walk->at.len == 0 ? buf_bytes(&prefix) : arena_copy(a, buf_bytes(&q->walk->at));
	view_cursor_open(&cursor, s, NULL, a,
	                 &(struct waiting_range){.low = low,
	                                         .high = layout_after(a, buf_bytes(&prefix)),
	                                         .rows_max = FILL_ROWS_MAX});
	while (rc == ERR_NONE && rows < FILL_ROWS_MAX && bytes < FILL_BYTES_MAX &&
	       view_cursor_next(&cursor, &key, &value)) {
		struct loaded row = {.key = arena_copy(a, key), .value = arena_copy(a, value)};

		rows++;
		bytes += value.len;
		buf_reset(&q->walk->at);
		buf_add_bytes(&q->walk->at, row.key);
		buf_add_byte(&q->walk->at, 0);
		rc = fill_row(s, a, t, &row, err);
	}
	if (rc == ERR_NONE)
		rc = view_cursor_check(&cursor, err);
	view_cursor_close(&cursor);
	q->more = rows == FILL_ROWS_MAX || bytes >= FILL_BYTES_MAX;
	if (rc == ERR_NONE && !q->more)
		finish(s, a, t);
	return rc;
}

static enum err_code fill_request_run(struct turn_request *w, struct table *t)
{
	struct arena  a;
	enum err_code rc;

	arena_init(&a);
	rc = fill_turn((struct engine_session *)t, &a, (struct fill_request *)w, &w->err);
	arena_release(&a);
	return rc;
}

static enum err_code fill_table(struct engine *e, uint32_t table_id, struct err *err)
{
	struct fill_request q;
	struct walk         walk = {0};
	enum err_code       rc;

	buf_init(&walk.at, NULL);
	do {
		q = (struct fill_request){
		        .base = {.run = fill_request_run}, .table_id = table_id, .walk = &walk};
		rc = engine_run(e, &q.base, err);
	} while (rc == ERR_NONE && q.more && goes_on(e->ticker));
	buf_release(&walk.at);
	return rc;
}

/* Fills everything that is to be filled now. A restart begins anew: putting an entry twice changes nothing. */
static enum err_code backfill(struct engine *e, struct err *err)
{
	enum err_code         rc = ERR_NONE;
	struct engine_session r;

	engine_session_init(&r, e);
	for (uint32_t i = 0; i < r.catalog->count && rc == ERR_NONE; i++)
		if (needs_filling(r.catalog->entries[i]) && goes_on(e->ticker))
			rc = fill_table(e, r.catalog->entries[i]->id, err);
	engine_session_release(&r);
	return rc;
}

/* ---- sweeping ---- */

struct sweep_request {
	struct turn_request base;
	struct sweep       *sweep;
	bool                more;
};

static bool same_bucket(int64_t bucket_start_s, int64_t expiry_s)
{
	return expiry_s >= bucket_start_s && expiry_s < bucket_start_s + EXPIRY_BUCKET_S;
}

/* Removes one row if it is expired, and in any case an entry that does not belong to its row any more. */
static enum err_code sweep_row(struct engine_session *s, struct arena *a, struct bytes entry, struct err *err)
{
	const struct table_entry *t;
	struct loaded             row = {0};
	int64_t                   bucket_s;
	uint32_t                  table_id;
	uint16_t                  index_id;
	bool                      found = false;

	if (!layout_expiry_parse(a, entry, &bucket_s, &row.key) ||
	    !layout_parse_owner(row.key, &table_id, &index_id))
		return err_set(err, ERR_STORAGE, "an entry of the expiry index is damaged");
	t = catalog_find_id(s->turn->catalog, table_id);
	if (t != NULL) {
		if (view_get(s, a, row.key, &row.value, &found, err) != ERR_NONE ||
		    (found && row_decode(s, a, t, row.value, &row, err) != ERR_NONE))
			return err->code;
		found = row.stored;
	}
	if (found && !row.live) {
		row_store(s, a, t, &row, NULL, NULL);
		atomic_fetch_add(&s->engine->swept_rows, 1);
	}
	if (!found || !row.live || !same_bucket(bucket_s, schema_expiry(&t->schema, &row.item)))
		turn_delete(s->turn, entry, TURN_SOMETHING);
	return ERR_NONE;
}

/* Has the turn taken as long as it may? */
static bool sweep_is_over(const struct engine *e, unsigned rows, int64_t began_us)
{
	return rows >= SWEEP_ROWS_MAX ||
	       (rows % SWEEP_LOOK_ROWS == 0 && clock_steady_us(e->options.clock) - began_us >= SWEEP_US_MAX);
}

static enum err_code sweep_turn(struct engine_session *s, struct arena *a, struct sweep_request *q,
                                struct err *err)
{
	struct view_cursor cursor;
	struct bytes       key, value;
	struct buf         high;
	enum err_code      rc = ERR_NONE;
	unsigned           rows = 0;
	int64_t            began_us = clock_steady_us(s->engine->options.clock);

	buf_init(&high, a);
	layout_expiry_bucket(&high, s->base.now_us / 1000000);
	if (bytes_compare(buf_bytes(&q->sweep->at), buf_bytes(&high)) >= 0)
		return ERR_NONE;
	view_cursor_open(&cursor, s, NULL, a,
	                 &(struct waiting_range){.low = arena_copy(a, buf_bytes(&q->sweep->at)),
	                                         .high = buf_bytes(&high)});
	while (rc == ERR_NONE && !q->more && view_cursor_next(&cursor, &key, &value)) {
		struct bytes entry = arena_copy(a, key);

		buf_reset(&q->sweep->at);
		buf_add_bytes(&q->sweep->at, entry);
		buf_add_byte(&q->sweep->at, 0);
		rc = sweep_row(s, a, entry, err);
		q->more = sweep_is_over(s->engine, ++rows, began_us);
	}
	if (rc == ERR_NONE)
		rc = view_cursor_check(&cursor, err);
	view_cursor_close(&cursor);
	return rc;
}

static enum err_code sweep_request_run(struct turn_request *w, struct table *t)
{
	struct arena  a;
	enum err_code rc;

	arena_init(&a);
	rc = sweep_turn((struct engine_session *)t, &a, (struct sweep_request *)w, &w->err);
	arena_release(&a);
	return rc;
}

/* Goes on where the last round ended, so as not to walk over what it removed. An entry may be added behind
 * that place (an item written with a time long past): now and then a round starts anew. */
static enum err_code sweep(struct engine *e, struct sweep *s, struct err *err)
{
	struct sweep_request q;
	enum err_code        rc;

	if (engine_now_us(e) < e->sweep_after_us)
		return ERR_NONE;
	if (s->rounds++ % SWEEP_RESTART_ROUNDS == 0) {
		buf_reset(&s->at);
		buf_add_byte(&s->at, KIND_EXPIRY);
	}
	do {
		q = (struct sweep_request){.base = {.run = sweep_request_run}, .sweep = s};
		rc = engine_run(e, &q.base, err);
	} while (rc == ERR_NONE && q.more && goes_on(e->ticker));
	return rc;
}

static enum err_code close_hours(struct engine *e, struct err *err)
{
	uint32_t before = atomic_load(&e->lapse.closed);

	if (lapse_close(e, err) != ERR_NONE)
		return err->code;
	if (!e->options.checks_absent || e->options.keeps_gone || atomic_load(&e->lapse.closed) == before)
		return ERR_NONE;
	return engine_compact(e, err);
}

/* ---- one round ---- */

/* Someone set the wall clock. Time goes on as it was; whether to take the new time on is the operator's choice,
 * for what is to last would end that much earlier. */
static void watch_clock(struct ticker *t)
{
	int64_t ahead_us = clock_wall_us(t->engine->options.clock) - engine_now_us(t->engine);
	int64_t change_us = ahead_us - t->warned_us;

	if (change_us < CLOCK_WARN_US && change_us > -CLOCK_WARN_US)
		return;
	t->warned_us = ahead_us;
	log_warn("the wall clock is %lld s ahead of the server's time, by which rows expire; set the clock "
	         "right, or restart the server to take over a clock that is ahead",
	         (long long)(ahead_us / 1000000));
}

static void tick(struct worker *worker, void *ctx)
{
	struct ticker *t = ctx;
	struct engine *e = t->engine;
	struct err     err;

	(void)worker;
	disk_watch(e);
	watch_clock(t);
	if (writer_failed(e->writer))
		return;
	make_checkpoint(e);
	if (!engine_ready(e))
		return;
	if (backfill(e, &err) != ERR_NONE)
		log_warn("filling an index failed and will be tried again: %s", err.text);
	filter_builder_wake(e->filter_builder);
	if (close_hours(e, &err) != ERR_NONE)
		log_warn("closing an hour in which rows lapse failed and will be tried again: %s", err.text);
	if (sweep(e, &t->sweep, &err) != ERR_NONE)
		log_warn("removing expired rows failed and will be tried again: %s", err.text);
}

/* ---- the thread ---- */

void ticker_wake(struct ticker *t)
{
	if (t != NULL)
		worker_wake(&t->worker);
}

void engine_tick(struct engine *e)
{
	worker_round(&e->ticker->worker);
}

enum err_code ticker_open(struct ticker **out, struct engine *e, struct err *err)
{
	struct ticker        *t = mem_zalloc(sizeof(*t));
	struct worker_options options = {.name = "ticker", .round = tick, .ctx = t};

	t->engine = e;
	options.period_us = INT64_C(1000) * e->options.tick_ms;
	buf_init(&t->sweep.at, NULL);
	worker_init(&t->worker, &options);
	*out = t;
	return worker_start(&t->worker, err);
}

void ticker_stop(struct ticker *t)
{
	worker_join(&t->worker);
}

void ticker_close(struct ticker *t)
{
	ticker_stop(t);
	worker_release(&t->worker);
	buf_release(&t->sweep.at);
	free(t);
}
