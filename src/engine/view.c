/* View: overlay, cache, store, in that order. */
#include "engine/view.h"

#include <stdlib.h>

#include "base/log.h"
#include "engine/lapse.h"
#include "engine/layout.h"
#include "item/codec.h"

static enum err_code store_get(struct engine *e, struct rocks_snapshot *snapshot, struct arena *a,
                               struct bytes key, struct bytes *value, bool *found, struct err *err)
{
	struct buf    out;
	enum err_code rc;

	buf_init(&out, a);
	rc = rocks_get(e->rocks, snapshot, key, &out, found, err);
	if (rc != ERR_NONE)
		return rc;
	*value = buf_bytes(&out);
	return ERR_NONE;
}

enum err_code view_snapshot_open(struct engine *e, struct rocks_snapshot **out, struct err *err)
{
	if (write_back_hold(&e->write_back, err) != ERR_NONE)
		return err->code;
	*out = rocks_snapshot_open(e->rocks);
	write_back_let_go(&e->write_back);
	return ERR_NONE;
}

/* This row, if it is not in the store yet. Under write_back's lock. */
static bool waiting_row(struct engine *e, uint64_t hash, struct bytes key, struct arena *a,
                        struct cache_row *row)
{
	if (cache_dirty_row(e->cache, hash, key, a, row))
		return true;
	*row = (struct cache_row){.key = key};
	return tail_get(&e->write_back.tail, key, a, &row->value) == TAIL_FOUND;
}

void view_rows_snapshot_open(struct engine *e, struct arena *a, const uint64_t *hashes,
                             const struct bytes *keys, uint32_t count, struct cache_row *waiting,
                             struct rocks_snapshot **out)
{
	write_back_hold_rest(&e->write_back);
	*out = rocks_snapshot_open(e->rocks);
	for (uint32_t i = 0; i < count; i++)
		if (!waiting_row(e, hashes[i], keys[i], a, &waiting[i]))
			waiting[i] = (struct cache_row){0};
	write_back_let_go(&e->write_back);
}

static void take_change(const struct change *c, struct arena *a, struct bytes *value, bool *found)
{
	*found = !c->deleted;
	*value = arena_copy(a, c->value);
}

enum err_code view_get_at(struct engine_session *s, struct rocks_snapshot *snapshot, struct arena *a,
                          struct bytes key, struct bytes *value, bool *found, struct err *err)
{
	const struct change *c =
	        s->turn == NULL ? NULL : turn_find(s->turn, hash_bytes(s->engine->hash_key, key), key);

	if (c == NULL)
		return store_get(s->engine, snapshot, a, key, value, found, err);
	take_change(c, a, value, found);
	return ERR_NONE;
}

enum err_code view_item(struct engine *e, struct arena *a, struct bytes key, struct item *out, bool *found,
                        struct err *err)
{
	struct engine_session s = {.engine = e, .turn = e->unwritten};
	struct bytes          value;

	if (view_get_at(&s, NULL, a, key, &value, found, err) != ERR_NONE)
		return err->code;
	return *found ? item_decode(a, value, out, err) : ERR_NONE;
}

/* ---- what is said to be absent, or whole, and is not: for tests (engine.h) ---- */

void view_contradict(const char *what)
{
	log_error("the engine's memory contradicts its store: %s", what);
	abort();
}

/* (X1) As of now: what the store has dropped is gone. */
static bool is_gone(struct engine *e, struct bytes key, struct bytes value)
{
	struct lapse_rule *rule = lapse_rule_take(e);
	bool               gone = lapse_drops(rule, key, value);

	lapse_rule_release(rule);
	return gone;
}

/* Is it certain, without a look at the cache or the store, that there is no such row? The filter is asked first (E2), but not of what is behind the end of a
 * log, which it may be wrong about. */
static bool is_absent(const struct engine_session *s, uint64_t hash, struct bytes key)
{
	const struct ends *ends = &s->engine->write_back.ends;
	uint64_t           number = layout_partition_number(key);

	if (s->turn != NULL && ends_is_behind(ends, number, key))
		return true;
	return filter_lacks(s->engine->filter, hash) && !ends_has(ends, number);
}

/* Nothing is published meanwhile. After part of a commit was (B1), nobody is answered. */
static void check_absent(const struct engine_session *s, uint64_t hash, struct bytes key)
{
	struct engine   *e = s->engine;
	struct cache_row waiting;
	struct arena     a;
	struct err       err;
	bool             found;

	arena_init(&a);
	write_back_hold_rest(&e->write_back);
	if (write_back_is_whole(&e->write_back) && is_absent(s, hash, key)) {
		if (waiting_row(e, hash, key, &a, &waiting))
			found = !waiting.absent;
		else if (store_get(e, NULL, &a, key, &waiting.value, &found, &err) != ERR_NONE)
			found = false;
		if (found && !is_gone(e, key, waiting.value))
			view_contradict("a row that is said to be absent is there");
	}
	write_back_let_go(&e->write_back);
	arena_release(&a);
}

static bool is_of_log(const struct engine *e, struct bytes key)
{
	return ends_has(&e->write_back.ends, layout_partition_number(key));
}

/* From the cache or the tail. What is gone from the tail was in the cache before (G1): it is asked again. */
static enum cache_found memory_get(struct engine_session *s, struct arena *a, uint64_t hash, struct bytes key,
                                   struct bytes *value, struct cache_ticket *ticket)
{
	struct write_back *b = &s->engine->write_back;
	enum cache_found   cached = cache_get(b->cache, hash, key, a, value, ticket);
	enum tail_found    found;

	if (cached != CACHE_MISS || !is_of_log(s->engine, key))
		return cached;
	found = tail_get(&b->tail, key, a, value);
	if (found == TAIL_FOUND)
		return CACHE_FOUND;
	return found == TAIL_GONE ? cache_get(b->cache, hash, key, a, value, ticket) : CACHE_MISS;
}

/* That a row of a log is absent is not cached: others may have found it in the tail meanwhile, and the cache is asked first. */
static enum err_code committed_get(struct engine_session *s, struct arena *a, uint64_t hash, struct bytes key,
                                   struct bytes *value, bool *found, struct err *err)
{
	struct engine      *e = s->engine;
	struct cache_ticket ticket;
	enum cache_found    cached;

	if (key.data[0] != KIND_ROW) /* only rows are cached: the writer tells the cache of no others */
		return store_get(e, NULL, a, key, value, found, err);
	*value = (struct bytes){"", 0};
	if (e->options.checks_absent)
		check_absent(s, hash, key);
	*found = false;
	if (is_absent(s, hash, key))
		return ERR_NONE;
	cached = memory_get(s, a, hash, key, value, &ticket);
	*found = cached == CACHE_FOUND;
	if (cached != CACHE_MISS)
		return ERR_NONE;
	if (store_get(e, NULL, a, key, value, found, err) != ERR_NONE)
		return err->code;
	if (*found || !is_of_log(e, key))
		cache_offer(e->cache, &ticket, hash, key, *value, !*found);
	return ERR_NONE;
}

enum err_code view_get(struct engine_session *s, struct arena *a, struct bytes key, struct bytes *value,
                       bool *found, struct err *err)
{
	return view_get_hashed(s, a, hash_bytes(s->engine->hash_key, key), key, value, found, err);
}

enum err_code view_get_hashed(struct engine_session *s, struct arena *a, uint64_t hash, struct bytes key,
                              struct bytes *value, bool *found, struct err *err)
{
	const struct change *c = s->turn == NULL ? NULL : turn_find(s->turn, hash, key);

	if (c == NULL)
		return committed_get(s, a, hash, key, value, found, err);
	take_change(c, a, value, found);
	return ERR_NONE;
}

/* ---- walking ---- */

enum { LOAD_ROWS_MAX = 64, LOAD_BYTES_MAX = 32 << 10 }; /* of a partition that comes into the cache whole */

static int up(const void *a, const void *b)
{
	return bytes_compare(((const struct cache_row *)a)->key, ((const struct cache_row *)b)->key);
}

static int down(const void *a, const void *b)
{
	return -up(a, b);
}

/* Most changes of a batch are of other partitions: their numbers say so at once. */
struct range {
	struct bytes low, high;
	bool         one_partition;
	uint64_t     number;
};

static struct range range_of(struct bytes low, struct bytes high)
{
	return (struct range){low, high, layout_is_one_partition(low, high), layout_partition_number(low)};
}

static bool in_range(const struct change *c, const struct range *r)
{
	return c->written && (!r->one_partition || c->partition == r->number) &&
	       bytes_compare(c->key, r->low) >= 0 && bytes_compare(c->key, r->high) < 0;
}

static bool is_changed(const struct engine *e, const struct turn *t, struct bytes key)
{
	return t != NULL && turn_find(t, hash_bytes(e->hash_key, key), key) != NULL;
}

static struct cache_row row_of(const struct change *c)
{
	return (struct cache_row){.key = c->key, .value = c->value, .absent = c->deleted};
}

struct cache_rows view_sorted(struct turn *t)
{
	struct cache_rows rows = {arena_array(&t->arena, t->change_count + 1, sizeof(*rows.list)), 0};

	for (const struct change *c = t->first; c != NULL; c = c->next)
		if (c->written)
			rows.list[rows.count++] = row_of(c);
	qsort(rows.list, rows.count, sizeof(*rows.list), up);
	return rows;
}

/* How many of them come before the key. */
static size_t rows_before(const struct cache_rows *rows, struct bytes key)
{
	size_t low = 0, high = rows->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (bytes_compare(rows->list[middle].key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Nothing waits in an engine for reading. */
static void collect_sorted(struct view_cursor *c, struct arena *a, struct bytes low, struct bytes high)
{
	const struct cache_rows *rows = &c->engine->unwritten_rows;
	size_t                   from = rows_before(rows, low), to = rows_before(rows, high);
	struct cache_row        *back;

	c->change_count = to > from ? to - from : 0;
	c->changes = &rows->list[from];
	if (!c->backward || c->change_count == 0)
		return;
	back = arena_array(a, c->change_count, sizeof(*back));
	for (size_t i = 0; i < c->change_count; i++)
		back[i] = rows->list[to - 1 - i];
	c->changes = back;
}

/* What is not in the store yet: dirty rows, and over them the turn's changes. A batch holds at most
 * some thousands of those, and comparing fails at the first bytes for most, which costs less than the store's own
 * cursor does. */
static void collect(struct view_cursor *c, const struct turn *t, const struct cache_rows *waiting,
                    struct arena *a, struct bytes low, struct bytes high)
{
	const struct change *first = t == NULL ? NULL : t->first;
	struct range         range = range_of(low, high);
	size_t               changed = 0;
	struct cache_row    *list;

	for (const struct change *change = first; change != NULL; change = change->next)
		changed += in_range(change, &range) ? 1 : 0;
	if (changed + waiting->count == 0)
		return;
	list = arena_array(a, changed + waiting->count, sizeof(*list));
	for (const struct change *change = first; change != NULL && c->change_count < changed;
	     change = change->next)
		if (in_range(change, &range))
			list[c->change_count++] = row_of(change);
	for (size_t i = 0; i < waiting->count; i++)
		if (changed == 0 || !is_changed(c->engine, t, waiting->list[i].key))
			list[c->change_count++] = waiting->list[i];
	qsort(list, c->change_count, sizeof(*list), c->backward ? down : up);
	c->changes = list;
}

static struct waiting_places places_of(struct engine *e)
{
	return (struct waiting_places){e->cache, &e->write_back.tail};
}

/* Copies of the dirty rows of the range, or of the part that it becomes. */
static void take_waiting(struct view_cursor *c, struct waiting_range *range, struct cache_rows *waiting)
{
	struct waiting_range part;

	waiting_take(places_of(c->engine), range, c->arena, waiting, &part);
	c->rest = c->backward ? (struct waiting_range){.low = range->low, .high = part.low, .backward = true}
	                      : (struct waiting_range){.low = part.high, .high = range->high};
	*range = part;
}

/* Without writing rows back. What is committed of other kinds is all in the store; but a commit that is being published must
 * be there whole, rows too: a reader that saw an entry of an index then sees its row. A snapshot, because to find the first key may
 * take a read from the disk, and nobody else is to wait for that. */
static enum err_code own_snapshot_open(struct view_cursor *c, struct waiting_range *range,
                                       struct cache_rows *waiting)
{
	struct engine *e = c->engine;
	char           kind = range->low.data[0];

	if (kind != KIND_EXPIRY && kind != KIND_COUNTS)
		write_back_hold_rest(&e->write_back);
	else if (write_back_hold_entries(&e->write_back, &c->err) != ERR_NONE)
		return c->err.code;
	if (kind == KIND_ROW)
		take_waiting(c, range, waiting);
	c->snapshot = rocks_snapshot_open(e->rocks);
	write_back_let_go(&e->write_back);
	return ERR_NONE;
}

static void store_open(struct view_cursor *c, struct rocks_snapshot *snapshot, struct waiting_range *range,
                       struct cache_rows *waiting)
{
	if (snapshot == NULL && own_snapshot_open(c, range, waiting) != ERR_NONE)
		return;
	c->rocks = rocks_cursor_open(c->engine->rocks, snapshot != NULL ? snapshot : c->snapshot, range->low,
	                             range->high, c->backward);
}

/* ---- partitions that are in memory ---- */

/* Reads all of the partition from the store into the cache, unless that is much. Nobody waits for it: partition.h says why it need not
 * hold anything. */
static void partition_load(struct engine *e, struct arena *a, struct bytes low)
{
	struct bytes         head = layout_partition_head(low), high = layout_after(a, head), key, value;
	uint32_t             token = cache_load_begin(e->cache, low);
	size_t               rows = 0, bytes = 0;
	struct rocks_cursor *c;
	struct err           err;
	bool                 fits = true;

	if (token == 0)
		return;
	if (tail_has(&e->write_back.tail, layout_partition_number(low))) {
		cache_load_end(e->cache, token, low, false, true);
		return;
	}
	c = rocks_cursor_open(e->rocks, NULL, head, high, false);
	for (; rocks_cursor_at(c, &key, &value) && fits; rocks_cursor_next(c)) {
		bytes += key.len + value.len;
		fits = ++rows <= LOAD_ROWS_MAX && bytes <= LOAD_BYTES_MAX;
		if (fits)
			cache_load_row(e->cache, token, hash_bytes(e->hash_key, key), key, value);
	}
	cache_load_end(e->cache, token, low, fits && rocks_cursor_check(c, &err) == ERR_NONE, !fits);
	rocks_cursor_close(c);
}

/* All rows of the range, if that is known without the store. A reader sees whole commits (B1). */
static bool memory_copy(struct engine_session *s, struct arena *a, struct bytes low, struct bytes high,
                        struct cache_rows *rows)
{
	struct engine *e = s->engine;
	bool           done;

	if (s->turn == NULL)
		write_back_hold_rest(&e->write_back);
	done = cache_partition_between(e->cache, low, high, a, rows);
	if (s->turn == NULL)
		write_back_let_go(&e->write_back);
	return done;
}

/* The same; loads the partition if it is not known. In a starved engine, or one for reading, there is no journal, and little memory. */
static bool memory_open(struct engine_session *s, struct arena *a, struct bytes low, struct bytes high,
                        struct cache_rows *rows)
{
	struct engine *e = s->engine;

	if (e->journal == NULL || !layout_is_one_partition(low, high))
		return false;
	if (filter_lacks(e->filter, layout_partition_hash(e->hash_key, low)))
		return true;
	if (memory_copy(s, a, low, high, rows))
		return true;
	partition_load(e, a, low);
	return memory_copy(s, a, low, high, rows);
}

static struct cache_rows take_all(struct view_cursor *c, struct arena *a)
{
	struct buf   rows;
	struct bytes key, value;

	buf_init(&rows, a);
	while (view_cursor_next(c, &key, &value)) {
		struct cache_row row = {.key = arena_copy(a, key), .value = arena_copy(a, value)};

		buf_add(&rows, &row, sizeof(row));
	}
	return (struct cache_rows){(struct cache_row *)(void *)rows.data,
	                           rows.len / sizeof(struct cache_row)};
}

static const struct cache_row *next_there(const struct cache_rows *rows, size_t *at,
                                          const struct lapse_rule *rule)
{
	while (*at < rows->count && lapse_drops(rule, rows->list[*at].key, rows->list[*at].value))
		(*at)++;
	return *at < rows->count ? &rows->list[(*at)++] : NULL;
}

/* Rows that lapse may leave the store at any time. All are taken first, so that whatever had left it then is gone by the rule (X2). */
static void compare(struct engine *e, struct cache_rows stored, struct cache_rows known)
{
	struct lapse_rule      *rule = lapse_rule_take(e);
	const struct cache_row *row, *other;
	size_t                  at = 0, other_at = 0;

	do {
		row = next_there(&stored, &at, rule);
		other = next_there(&known, &other_at, rule);
		if (row != NULL && (other == NULL || !bytes_equal(row->key, other->key) ||
		                    !bytes_equal(row->value, other->value)))
			view_contradict(
			        "a partition that is known to be whole lacks a row, or has another one");
		if (row == NULL && other != NULL)
			view_contradict("a partition that is known to be whole has a row too many");
	} while (row != NULL);
	lapse_rule_release(rule);
}

/* For tests: the rows of the partition that are known from memory, and those in the store with what is dirty over it, at one moment. */
static void check_whole(struct engine_session *s, struct bytes low, struct bytes high)
{
	struct engine       *e = s->engine;
	struct view_cursor   store = {.engine = e};
	struct cache_rows    known = {0}, dirty = {0};
	struct waiting_range range = {.low = low, .high = high}, part;
	bool                 is_known;
	struct arena         a;

	if (e->journal == NULL || !layout_is_one_partition(low, high))
		return;
	arena_init(&a);
	write_back_hold_rest(&e->write_back);
	is_known = write_back_is_whole(&e->write_back) &&
	           (filter_lacks(e->filter, layout_partition_hash(e->hash_key, low)) ||
	            cache_partition_between(e->cache, low, high, &a, &known));
	waiting_take(places_of(e), &range, &a, &dirty, &part);
	is_known = is_known && bytes_equal(part.high, high); /* all */
	if (is_known)
		store.snapshot = rocks_snapshot_open(e->rocks);
	write_back_let_go(&e->write_back);
	if (is_known) {
		struct view_cursor memory = {.engine = e, .whole = true};

		store.rocks = rocks_cursor_open(e->rocks, store.snapshot, low, high, false);
		collect(&store, NULL, &dirty, &a, low, high);
		collect(&memory, NULL, &known, &a, low, high);
		compare(e, take_all(&store, &a), take_all(&memory, &a));
	}
	view_cursor_close(&store);
	arena_release(&a);
}

void view_check_partition(struct engine_session *s, struct bytes prefix)
{
	struct arena a;

	arena_init(&a);
	check_whole(s, prefix, layout_after(&a, prefix));
	arena_release(&a);
}

/* The rest of the range, or as much of it as can be walked at once. */
static void part_open(struct view_cursor *c, struct rocks_snapshot *snapshot)
{
	struct waiting_range range = c->rest;
	struct cache_rows    waiting = {0};

	c->rest.low = c->rest.high;
	c->whole = snapshot == NULL && memory_open(c->session, c->arena, range.low, range.high, &waiting);
	if (!c->whole)
		store_open(c, snapshot, &range, &waiting);
	if (!c->whole && c->rocks == NULL)
		return;
	if (c->engine->unwritten_rows.list != NULL && c->session->turn == c->engine->unwritten)
		collect_sorted(c, c->arena, range.low, range.high);
	else
		collect(c, c->session->turn, &waiting, c->arena, range.low, range.high);
}

void view_cursor_open(struct view_cursor *c, struct engine_session *s, struct rocks_snapshot *snapshot,
                      struct arena *a, const struct waiting_range *range)
{
	if (s->engine->options.checks_absent)
		check_whole(s, range->low, range->high);
	*c = (struct view_cursor){
	        .engine = s->engine, .session = s, .arena = a, .rest = *range, .backward = range->backward};
	part_open(c, snapshot);
}

void view_cursor_close(struct view_cursor *c)
{
	if (c->rocks != NULL)
		rocks_cursor_close(c->rocks);
	if (c->snapshot != NULL)
		rocks_snapshot_close(c->engine->rocks, c->snapshot);
}

/* At the end of a part. False if it is the last, or could not be read. */
static bool go_on(struct view_cursor *c)
{
	struct err err;

	if (bytes_compare(c->rest.low, c->rest.high) >= 0 || view_cursor_check(c, &err) != ERR_NONE)
		return false;
	view_cursor_close(c);
	c->rocks = NULL;
	c->snapshot = NULL;
	c->change_count = c->change_at = 0;
	part_open(c, NULL);
	return c->whole || c->rocks != NULL;
}

/* Leaves the row that the last call returned. `started` is implied: on_change and on_stored are false before
 * the first. */
static void leave(struct view_cursor *c)
{
	if (c->on_change)
		c->change_at++;
	if (c->on_stored)
		rocks_cursor_next(c->rocks);
	c->on_change = c->on_stored = false;
}

/* Which comes first in walking order? */
static int order(const struct view_cursor *c, struct bytes stored, const struct cache_row *change)
{
	int by_key = bytes_compare(stored, change->key);

	return c->backward ? -by_key : by_key;
}

/* Stands on the next row of either source; a change hides the stored row of the same key. */
static bool choose(struct view_cursor *c, struct bytes *key, struct bytes *value)
{
	const struct cache_row *change = c->change_at < c->change_count ? &c->changes[c->change_at] : NULL;
	bool                    stored = !c->whole && rocks_cursor_at(c->rocks, key, value);
	int                     by_key;

	if (change == NULL) {
		c->on_stored = stored;
		return stored;
	}
	by_key = stored ? order(c, *key, change) : 1;
	c->on_stored = by_key <= 0;
	c->on_change = by_key >= 0;
	if (c->on_change) {
		*key = change->key;
		*value = change->value;
	}
	return true;
}

bool view_cursor_next(struct view_cursor *c, struct bytes *key, struct bytes *value)
{
	if (c->rocks == NULL && !c->whole)
		return false;
	do {
		leave(c);
		while (!choose(c, key, value))
			if (!go_on(c))
				return false;
	} while (c->on_change && c->changes[c->change_at].absent);
	return true;
}

enum err_code view_cursor_check(const struct view_cursor *c, struct err *err)
{
	if (c->whole)
		return ERR_NONE;
	if (c->rocks != NULL)
		return rocks_cursor_check(c->rocks, err);
	*err = c->err;
	return err->code;
}
