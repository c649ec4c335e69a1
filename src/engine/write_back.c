/* Write-back: see write_back.h. Where the journal begins is a row of the store's own, which is in its files only together
 * with all that was put into it before. */
#include "engine/write_back.h"

#include <stdlib.h>

#include "base/fault.h"
#include "engine/layout.h"
#include "engine/state.h"

enum {
	ROWS_AT_ONCE = 512,              /* others wait about two milliseconds for them */
	ROWS_EXPECTED = 32,              /* whose memory is fetched together */
	ENTRIES_AT_ONCE = 1024,          /* and for these */
	ENTRIES_BYTES_KEPT = 1 << 20,    /* an unusual commit's memory is given back */
	CHECKPOINT_SEGMENTS_DUE = 4,     /* of the journal */
	CHECKPOINT_BYTES_DUE = 24 << 20, /* that the store took since the last one, or is to take */
};

#define META_JOURNAL "journal"

/* Room for so many. */
static void reserve(struct write_back *b, size_t count)
{
	if (count <= b->rows_cap)
		return;
	b->rows_cap = 2 * count;
	b->rows = mem_realloc(b->rows, b->rows_cap * sizeof(*b->rows));
}

void write_back_init(struct write_back *b, struct engine *e, size_t dirty_bytes_max)
{
	*b = (struct write_back){.rocks = e->rocks,
	                         .cache = e->cache,
	                         .filter = e->filter,
	                         .hash_key = e->hash_key,
	                         .dirty_bytes_max = dirty_bytes_max};
	pthread_mutex_init(&b->lock, NULL);
	pthread_mutex_init(&b->next, NULL);
	pthread_mutex_init(&b->checkpoint_lock, NULL);
	reserve(b, ROWS_AT_ONCE);
	arena_init(&b->entries.arena);
	ends_init(&b->ends);
	tail_init(&b->tail);
	if (e->options.checks_absent)
		b->tail.file_bytes_min = 1;
	b->batch = rocks_batch_open(b->rocks);
}

void write_back_release(struct write_back *b)
{
	rocks_batch_close(b->batch);
	free(b->rows);
	free(b->entries.list);
	arena_release(&b->entries.arena);
	ends_release(&b->ends);
	tail_release(&b->tail);
	pthread_mutex_destroy(&b->lock);
	pthread_mutex_destroy(&b->next);
	pthread_mutex_destroy(&b->checkpoint_lock);
}

/* A mutex goes to the thread that asks first. write_back_all gives it up and takes it again at once, before a thread that
 * sleeps has woken: a commit waited until all was written back, a tenth of a second. So there is a second mutex to queue at. */
void write_back_hold_rest(struct write_back *b)
{
	pthread_mutex_lock(&b->next);
	pthread_mutex_lock(&b->lock);
	pthread_mutex_unlock(&b->next);
}

void write_back_let_go(struct write_back *b)
{
	pthread_mutex_unlock(&b->lock);
}

/* ---- rows into the store; all under lock ---- */

/* The batch. */
static enum err_code apply(struct write_back *b, struct err *err)
{
	if (fault_fires(FAULT_APPLY))
		return err_set(err, ERR_STORAGE, "a fault was injected");
	return rocks_apply(b->rocks, b->batch, err);
}

static int by_key(const void *a, const void *b)
{
	return bytes_compare(((const struct cache_row *)a)->key, ((const struct cache_row *)b)->key);
}

/* Most rows of a log come in their order. */
static bool is_sorted(const struct cache_row *rows, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (by_key(&rows[i - 1], &rows[i]) > 0)
			return false;
	return true;
}

/* In the order of their keys: the store's table in memory finds the place of a key from the one before it, which
 * is cheaper the nearer they are. */
static size_t fill_batch(struct write_back *b, size_t count)
{
	size_t bytes = 0;

	rocks_batch_reset(b->batch);
	if (!is_sorted(b->rows, count))
		qsort(b->rows, count, sizeof(*b->rows), by_key);
	for (size_t i = 0; i < count; i++) {
		const struct cache_row *r = &b->rows[i];

		bytes += r->key.len + r->value.len;
		if (r->absent)
			rocks_batch_delete(b->batch, r->key);
		else
			rocks_batch_put(b->batch, r->key, r->value);
	}
	return bytes;
}

static void count_taken(struct write_back *b, size_t bytes)
{
	atomic_fetch_add_explicit(&b->taken_bytes, bytes, memory_order_relaxed);
}

/* The next ones. */
static enum err_code write_few(struct write_back *b, struct cache_some *some, struct err *err)
{
	cache_dirty(b->cache, some, b->rows, ROWS_AT_ONCE);
	if (some->count > 0) {
		count_taken(b, fill_batch(b, some->count));
		if (apply(b, err) != ERR_NONE)
			return err->code;
	}
	cache_clean(b->cache, some);
	return ERR_NONE;
}

static enum err_code write_rows(struct write_back *b, struct err *err)
{
	struct cache_some some = {0};

	do {
		if (write_few(b, &some, err) != ERR_NONE)
			return err->code;
	} while (some.more);
	return ERR_NONE;
}

/* ---- rows of the tail that become no file; all under lock ---- */

/* Some; *count says how many. */
static enum err_code write_tail_few(struct write_back *b, bool sealed_only, size_t *count, struct err *err)
{
	*count = tail_some(&b->tail, sealed_only, b->rows, ROWS_AT_ONCE);
	if (*count == 0)
		return ERR_NONE;
	count_taken(b, fill_batch(b, *count));
	if (apply(b, err) != ERR_NONE)
		return err->code;
	tail_some_done(&b->tail, *count);
	return ERR_NONE;
}

static enum err_code write_tail(struct write_back *b, struct err *err)
{
	size_t count;

	do {
		if (write_tail_few(b, false, &count, err) != ERR_NONE)
			return err->code;
	} while (count > 0);
	return ERR_NONE;
}

/* ---- expiry entries and counts into the store; all under lock ---- */

static void entry_wait(struct entries *e, const struct change *c)
{
	if (e->count == e->cap) {
		e->cap = e->cap == 0 ? ENTRIES_AT_ONCE : 2 * e->cap;
		e->list = mem_realloc(e->list, e->cap * sizeof(*e->list));
	}
	e->list[e->count] = (struct entry_change){arena_copy(&e->arena, c->key),
	                                          arena_copy(&e->arena, c->value), e->count, c->deleted};
	e->count++;
}

static int by_key_and_age(const void *a, const void *b)
{
	const struct entry_change *x = a, *y = b;
	int                        order = bytes_compare(x->key, y->key);

	return order != 0 ? order : x->age < y->age ? -1 : 1;
}

static void entries_forget(struct entries *e)
{
	bool large = e->arena.used_bytes > ENTRIES_BYTES_KEPT;

	e->count = 0;
	if (!large) {
		arena_reset(&e->arena);
		return;
	}
	arena_release(&e->arena);
	arena_init(&e->arena);
}

static enum err_code write_entries(struct write_back *b, struct err *err)
{
	struct entries            *e = &b->entries;
	const struct entry_change *end;
	size_t                     bytes = 0;

	if (e->count == 0)
		return ERR_NONE;
	end = e->list + e->count;
	qsort(e->list, e->count, sizeof(*e->list), by_key_and_age);
	rocks_batch_reset(b->batch);
	for (const struct entry_change *c = e->list; c < end; c++) {
		if (c + 1 < end && bytes_equal(c->key, c[1].key))
			continue;
		bytes += c->key.len + c->value.len;
		if (c->deleted)
			rocks_batch_delete(b->batch, c->key);
		else
			rocks_batch_put(b->batch, c->key, c->value);
	}
	count_taken(b, bytes);
	if (apply(b, err) != ERR_NONE)
		return err->code;
	entries_forget(e);
	return ERR_NONE;
}

/* All in turn while there is too much, so that the bound holds after every commit, however large it was. */
static enum err_code write_some(struct write_back *b, struct err *err)
{
	while (cache_dirty_bytes(b->cache) > b->dirty_bytes_max)
		if (write_few(b, &b->rows_next, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

/* ---- publishing ---- */

static bool is_row(const struct change *c)
{
	return c->key.data[0] == KIND_ROW;
}

static bool is_entry(const struct change *c)
{
	return c->key.data[0] == KIND_EXPIRY || c->key.data[0] == KIND_COUNTS;
}

static void add_entries_to_list(struct write_back *b, const struct turn *t)
{
	for (const struct change *c = t->first; c != NULL; c = c->next)
		if (c->written && is_entry(c))
			entry_wait(&b->entries, c);
}

static struct cache_row row_of(const struct change *c)
{
	return (struct cache_row){.key = c->key, .value = c->value, .absent = c->deleted};
}

/* All but what waits, in the cache or in the list. False if there is nothing. */
static bool add_rest_to_batch(struct write_back *b, const struct turn *t)
{
	size_t count = 0;

	reserve(b, t->change_count);
	for (const struct change *c = t->first; c != NULL; c = c->next)
		if (c->written && !c->in_tail && (c->past_cache || (!is_row(c) && !is_entry(c))))
			b->rows[count++] = row_of(c);
	count_taken(b, fill_batch(b, count));
	/* Last, because ids are never used again: nothing written above may survive in a deleted table. */
	for (const struct range_delete *d = t->ranges; d != NULL; d = d->next)
		rocks_batch_delete_range(b->batch, d->low, d->high);
	return count > 0 || t->ranges != NULL;
}

/* (F1) A row that was there before is in the filter, unless its partition is left out (ends.h), and so is its partition. Only a filter that is being built may
 * lack them: an older form of the row, of an hour that is closed by now, may be missing there. */
static bool is_in_filter(const struct write_back *b, const struct change *c)
{
	return c->existed && !filter_is_building(b->filter);
}

/* (F1) Says whether it is the first row of its partition. */
static bool add_to_filter(struct write_back *b, const struct change *c, uint64_t partition)
{
	bool first, left_out = ends_has(&b->ends, c->partition);

	if (b->filter == NULL)
		return false;
	if (c->deleted) {
		filter_note_deleted(b->filter, left_out ? 0 : 1);
		return false;
	}
	if (is_in_filter(b, c))
		return false;
	first = filter_lacks(b->filter, partition);
	if (first || filter_is_building(b->filter))
		filter_add(b->filter, partition);
	if (!left_out)
		filter_add(b->filter, c->hash);
	return first;
}

/* Keeps the highest key. */
static void look_behind(void *last, const struct cache_row *row)
{
	if (bytes_compare(row->key, *(struct bytes *)last) > 0)
		*(struct bytes *)last = row->key;
}

/* Of the committed rows of its partition; one that waits to be deleted counts. */
static bool is_last(struct write_back *b, struct bytes key)
{
	struct bytes         last = key, stored, value;
	struct rocks_cursor *c;
	struct arena         a;
	struct err           err;

	cache_dirty_each_in(b->cache, key, look_behind, &last);
	arena_init(&a);
	c = rocks_cursor_open(b->rocks, NULL, key, layout_after(&a, layout_partition_head(key)), true);
	if (rocks_cursor_check(c, &err) != ERR_NONE ||
	    (rocks_cursor_at(c, &stored, &value) && !bytes_equal(stored, key)))
		last = (struct bytes){0};
	rocks_cursor_close(c);
	arena_release(&a);
	return bytes_equal(last, key);
}

static void note_end(struct write_back *b, const struct change *c)
{
	if (ends_note(&b->ends, c->partition, c->key) && is_last(b, c->key))
		ends_leave_out(&b->ends, c->partition);
}

/* Or past it. */
static void add_row_to_cache(struct write_back *b, struct change *c, uint64_t partition)
{
	struct cache_row row = row_of(c);

	row.first = add_to_filter(b, c, partition);
	c->past_cache = !c->existed && !c->deleted && !row.first && !cache_wants(b->cache, partition);
	c->in_tail = c->past_cache && ends_is_behind(&b->ends, c->partition, c->key) &&
	             tail_bytes(&b->tail) < TAIL_BYTES_MAX && rocks_log_takes(b->rocks, c->key);
	if (c->in_tail)
		tail_add(&b->tail, c->partition, &row);
	else if (!c->past_cache)
		cache_commit(b->cache, c->hash, &row);
	if (!c->in_tail && ends_has(&b->ends, c->partition))
		tail_forget(&b->tail, c->partition, c->key); /* (G1): one that has lapsed may be there, too */
	if (!c->deleted && (c->past_cache || ends_has(&b->ends, c->partition)))
		note_end(b, c); /* (E3) */
}

/* The partition of a row that is new to the filter. */
struct new_to {
	uint64_t number, hash;
};

/* The hash of its partition, if that is asked for; the memory of both in the filter is on its way. Many are new to one log. */
static uint64_t partition_expect(const struct write_back *b, const struct change *c, struct new_to *last)
{
	if (is_in_filter(b, c))
		return 0;
	filter_expect(b->filter, c->hash);
	if (last->number == c->partition)
		return last->hash;
	*last = (struct new_to){c->partition, layout_partition_hash(b->hash_key, c->key)};
	filter_expect(b->filter, last->hash);
	return last->hash;
}

/* But for those that it does not want. The memory of some is fetched at a time. */
static void add_rows_to_cache(struct write_back *b, struct turn *t)
{
	struct change *some[ROWS_EXPECTED];
	uint64_t       hashes[ROWS_EXPECTED], partitions[ROWS_EXPECTED];
	struct new_to  last = {0}; /* no row has this number: tables are numbered from 1 */
	size_t         count = 0;

	for (struct change *c = t->first; c != NULL; c = c->next) {
		if (c->written && is_row(c)) {
			some[count] = c;
			hashes[count] = c->hash;
			partitions[count++] = partition_expect(b, c, &last);
		}
		if (count < ROWS_EXPECTED && (c->next != NULL || count == 0))
			continue;
		cache_expect(b->cache, hashes, count);
		for (size_t i = 0; i < count; i++)
			add_row_to_cache(b, some[i], partitions[i]);
		count = 0;
	}
}

/* Mostly rows of one log: its partition is told once. */
static void tell_cache_of_others(struct write_back *b, const struct turn *t)
{
	const struct change *before = NULL;

	for (const struct change *c = t->first; c != NULL; c = c->next) {
		struct cache_row row = row_of(c);

		if (!c->past_cache)
			continue;
		if (cache_pass(b->cache, c->hash, &row) && c->in_tail)
			tail_forget(&b->tail, c->partition, c->key);
		if (before == NULL || before->partition != c->partition)
			cache_pass_partition(b->cache, layout_partition_hash(b->hash_key, c->key), c->key);
		before = c;
	}
}

/* Of tables and indexes that were deleted nothing may come into the store after they are gone there: rows that wait are forgotten, and the list of the rest,
 * which is short, goes there before. */
static enum err_code settle_deleted(struct write_back *b, const struct turn *t, struct err *err)
{
	for (const struct range_delete *d = t->ranges; d != NULL; d = d->next)
		if (d->low.data[0] == KIND_ROW) {
			cache_forget(b->cache, d->low, d->high);
			tail_forget_range(&b->tail, d->low, d->high);
		}
	return t->ranges == NULL ? ERR_NONE : write_entries(b, err);
}

static enum err_code publish(struct write_back *b, struct turn *t, struct err *err)
{
	add_rows_to_cache(b, t);
	add_entries_to_list(b, t);
	if (settle_deleted(b, t, err) != ERR_NONE)
		return err->code;
	if (add_rest_to_batch(b, t) && apply(b, err) != ERR_NONE)
		return err->code;
	tell_cache_of_others(b, t);
	if (b->entries.count >= ENTRIES_AT_ONCE && write_entries(b, err) != ERR_NONE)
		return err->code;
	return write_some(b, err);
}

enum err_code write_back_publish(struct write_back *b, struct turn *t, struct err *err)
{
	enum err_code rc;

	write_back_hold_rest(b);
	rc = publish(b, t, err);
	if (rc != ERR_NONE)
		atomic_store(&b->torn, true); /* (B1) before anyone can hold it */
	write_back_let_go(b);
	return rc;
}

bool write_back_is_whole(const struct write_back *b)
{
	return !atomic_load(&b->torn);
}

/* ---- holding, and all of it ---- */

enum err_code write_back_hold_entries(struct write_back *b, struct err *err)
{
	write_back_hold_rest(b);
	if (write_entries(b, err) == ERR_NONE)
		return ERR_NONE;
	write_back_let_go(b);
	return err->code;
}

enum err_code write_back_all(struct write_back *b, struct err *err)
{
	enum err_code     rc = write_back_hold_entries(b, err);
	struct cache_some some = {0};

	if (rc == ERR_NONE)
		write_back_let_go(b);
	while (rc == ERR_NONE) {
		write_back_hold_rest(b);
		rc = write_few(b, &some, err);
		write_back_let_go(b);
		if (!some.more)
			break;
	}
	return rc;
}

/* Row by row, of the runs that no file has. */
static enum err_code write_back_tail(struct write_back *b, bool sealed_only, struct err *err)
{
	enum err_code rc;
	size_t        count;

	do {
		write_back_hold_rest(b);
		rc = write_tail_few(b, sealed_only, &count, err);
		write_back_let_go(b);
	} while (rc == ERR_NONE && count > 0);
	return rc;
}

/* Sealed runs are in the store: in a file, or row by row. */
static enum err_code finish_sealed(struct write_back *b, struct err *err)
{
	if (write_back_tail(b, true, err) != ERR_NONE)
		return err->code;
	write_back_hold_rest(b);
	tail_drop(&b->tail);
	write_back_let_go(b);
	return ERR_NONE;
}

/* An earlier checkpoint that failed may have left sealed runs behind, or a file under way. */
enum err_code write_back_logs(struct write_back *b, struct err *err)
{
	if (rocks_settle(b->rocks, err) != ERR_NONE || finish_sealed(b, err) != ERR_NONE)
		return err->code;
	write_back_hold_rest(b);
	tail_seal(&b->tail);
	write_back_let_go(b);
	for (int i = 0; i < ENDS_MAX; i++) {
		struct rocks_run file = tail_file(&b->tail.sealed[i]);

		if (tail_wants_file(&b->tail.sealed[i]) && rocks_log_file(b->rocks, &file, err) != ERR_NONE)
			return err->code;
	}
	if (finish_sealed(b, err) != ERR_NONE)
		return err->code;
	return rocks_flush_logs(b->rocks, err);
}

/* Little by little before, so that few are left to write while others wait. */
enum err_code write_back_hold(struct write_back *b, struct err *err)
{
	if (write_back_all(b, err) != ERR_NONE || write_back_tail(b, false, err) != ERR_NONE)
		return err->code;
	write_back_hold_rest(b);
	if (write_rows(b, err) == ERR_NONE && write_tail(b, err) == ERR_NONE &&
	    write_entries(b, err) == ERR_NONE)
		return ERR_NONE;
	write_back_let_go(b);
	return err->code;
}

/* ---- checkpoints ---- */

enum err_code checkpoint_place(struct rocks *r, struct journal_place *out, struct err *err)
{
	struct buf    key, value;
	enum err_code rc;
	bool          found;

	*out = (struct journal_place){0};
	buf_init(&key, NULL);
	buf_init(&value, NULL);
	layout_meta(&key, META_JOURNAL);
	rc = rocks_get(r, NULL, buf_bytes(&key), &value, &found, err);
	if (rc == ERR_NONE && found && value.len == sizeof(*out))
		memcpy(out, value.data, sizeof(*out));
	else if (rc == ERR_NONE && found)
		rc = err_set(err, ERR_STORAGE,
		             "the store's own record \"" META_JOURNAL "\" is damaged; run `gatehouse check`");
	buf_release(&key);
	buf_release(&value);
	return rc;
}

static enum err_code note_place(struct rocks *r, const struct journal_place *place, struct err *err)
{
	struct rocks_batch *batch = rocks_batch_open(r);
	struct buf          key;
	enum err_code       rc;

	buf_init(&key, NULL);
	layout_meta(&key, META_JOURNAL);
	rocks_batch_put(batch, buf_bytes(&key), (struct bytes){(const char *)place, sizeof(*place)});
	rc = rocks_apply(r, batch, err);
	rocks_batch_close(batch);
	buf_release(&key);
	return rc;
}

static enum err_code step_done(struct err *err)
{
	return fault_fires(FAULT_CHECKPOINT) ? err_set(err, ERR_STORAGE, "a fault was injected") : ERR_NONE;
}

static size_t taken_bytes(struct engine *e)
{
	return atomic_load_explicit(&e->write_back.taken_bytes, memory_order_relaxed);
}

/* Only what is in the files is taken off what makes one due: one that failed is due again at the next tick. */
static enum err_code advance(struct engine *e, const struct journal_place *to, struct err *err)
{
	size_t taken;

	if (write_back_all(&e->write_back, err) != ERR_NONE || step_done(err) != ERR_NONE ||
	    write_back_logs(&e->write_back, err) != ERR_NONE || step_done(err) != ERR_NONE)
		return err->code;
	taken = taken_bytes(e);
	if (note_place(e->rocks, to, err) != ERR_NONE || step_done(err) != ERR_NONE ||
	    rocks_flush(e->rocks, err) != ERR_NONE || step_done(err) != ERR_NONE)
		return err->code;
	atomic_fetch_sub_explicit(&e->write_back.taken_bytes, taken, memory_order_relaxed);
	journal_drop_before(e->journal, to->segment);
	return ERR_NONE;
}

enum err_code checkpoint_run(struct engine *e, struct err *err)
{
	struct journal_place newest;
	enum err_code        rc = ERR_NONE;

	if (rocks_failure(e->rocks) != NULL) /* it would not get far */
		return err_set(err, ERR_STORAGE, "%s", rocks_failure(e->rocks));
	if (rocks_is_frozen(e->rocks))
		return err_set(err, ERR_DISK_FULL, "the disk is full");
	pthread_mutex_lock(&e->write_back.checkpoint_lock);
	newest = journal_newest(e->journal);
	if (newest.segment != atomic_load(&e->write_back.checkpoint_segment))
		rc = advance(e, &newest, err);
	if (rc == ERR_NONE)
		atomic_store(&e->write_back.checkpoint_segment, newest.segment);
	pthread_mutex_unlock(&e->write_back.checkpoint_lock);
	return rc;
}

bool checkpoint_is_due(struct engine *e)
{
	uint64_t lag = checkpoint_lag(e);

	return lag >= CHECKPOINT_SEGMENTS_DUE ||
	       (lag > 0 && taken_bytes(e) + cache_dirty_bytes(e->cache) + tail_bytes(&e->write_back.tail) >=
	                           CHECKPOINT_BYTES_DUE);
}

uint64_t checkpoint_lag(struct engine *e)
{
	return journal_newest(e->journal).segment - atomic_load(&e->write_back.checkpoint_segment);
}
