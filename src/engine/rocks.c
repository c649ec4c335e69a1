/* Rocks: RocksDB behind our own names; rocks_disk.cc has what its C interface lacks.
 *
 * (R1) It has no log of its own: the journal holds what its files lack. Its files are written in the order of what
 * was applied, so after a crash they are the state of some moment at or after the last rocks_flush. */
#include "engine/rocks.h"

#include <pthread.h>
#include <rocksdb/c.h>
#include <stdlib.h>
#include <time.h>

#include "base/worker.h"
#include "engine/manifest.h"
#include "engine/rocks_disk.h"

enum {
	MEMTABLE_BYTES =
	        33554432, /* more than a checkpoint is due at (write_back.c): it makes one file, not two */
	MEMTABLES_MAX = 2,
	NEW_FILES_MERGED =
	        8, /* at a time, into those below, nearly all of which are written anew: twice RocksDB's own number */
	MEMTABLE_BYTES_TIGHT =
	        1 << 30, /* more than a journal holds: nothing is written while it is replayed */
	STALL_LOOK_NS = 1000000,
	FLUSH_LOOK_NS = 50000000,
	OPEN_FILES_MAX = 512,
	BLOOM_BITS = 10,
	BLOCK_BYTES = 4096,
	METADATA_BLOCK_BYTES = 16 << 10, /* a part of an index */
	CACHE_SHARD_BITS = 2,
	WALK_READAHEAD_BYTES = 1 << 20,
	FILE_BYTES = 16 << 20, /* with a filter of some hundred kilobytes */
};

#define MEMTABLE_BYTES_TEXT "33554432"
#define PERIODIC_S_TEXT     "86400"

static void flush_now(struct worker *worker, void *rocks);

struct rocks {
	rocksdb_t              *db;
	rocksdb_options_t      *options;
	rocksdb_cache_t        *cache;
	rocksdb_readoptions_t  *read;
	rocksdb_writeoptions_t *write;
	struct rocks_disk      *disk; /* frozen if it was opened for reading; NULL if that failed */
	bool                    tight;
	struct rocks_drops      drops;

	/* of rocks_flush, under lock */
	pthread_mutex_t lock;
	pthread_cond_t  flushed;
	struct worker   flusher; /* started by the first flush */
	bool            flushing;
	char           *flush_message; /* why it failed; NULL */
};

struct rocks_batch {
	rocksdb_writebatch_t *batch;
};

struct rocks_snapshot {
	const rocksdb_snapshot_t *snapshot;
	rocksdb_readoptions_t    *read;
};

struct rocks_cursor {
	rocksdb_iterator_t    *it;
	rocksdb_readoptions_t *read;
	bool                   backward;
};

/* Takes over a message of RocksDB's. */
static enum err_code storage_error(struct err *err, const char *what, char *message)
{
	err_set(err, ERR_STORAGE, "%s: %s", what, message);
	free(message);
	return ERR_STORAGE;
}

/* A block that is larger than a shard of the cache is never kept, and a filter is one block: docs/decisions/010. */
static rocksdb_cache_t *cache_make(size_t bytes)
{
	rocksdb_lru_cache_options_t *o = rocksdb_lru_cache_options_create();
	rocksdb_cache_t             *cache;

	rocksdb_lru_cache_options_set_capacity(o, bytes);
	rocksdb_lru_cache_options_set_num_shard_bits(o, CACHE_SHARD_BITS);
	cache = rocksdb_cache_create_lru_opts(o);
	rocksdb_lru_cache_options_destroy(o);
	return cache;
}

static rocksdb_options_t *options_make(rocksdb_cache_t *cache, size_t memtable_bytes)
{
	rocksdb_options_t                   *o = rocksdb_options_create();
	rocksdb_block_based_table_options_t *t = rocksdb_block_based_options_create();

	rocksdb_options_set_create_if_missing(o, 1);
	rocksdb_options_set_paranoid_checks(o, 1);
	rocksdb_options_set_write_buffer_size(o, memtable_bytes);
	rocksdb_options_set_max_write_buffer_number(o, MEMTABLES_MAX);
	rocksdb_options_set_level0_file_num_compaction_trigger(o, NEW_FILES_MERGED);
	rocksdb_options_set_allow_concurrent_memtable_write(o, 0);
	rocksdb_options_set_enable_write_thread_adaptive_yield(o, 0);
	rocksdb_options_set_target_file_size_base(o, FILE_BYTES);
	rocksdb_options_set_max_open_files(o, OPEN_FILES_MAX);
	rocksdb_options_set_level_compaction_dynamic_level_bytes(o, 1);
	rocksdb_options_set_compression(o, rocksdb_lz4_compression);
	rocksdb_options_set_keep_log_file_num(o, 4);
	rocksdb_options_set_info_log_level(o, 2);
	rocksdb_options_set_skip_stats_update_on_db_open(o, 1);

	rocksdb_block_based_options_set_block_cache(t, cache);
	rocksdb_block_based_options_set_block_size(t, BLOCK_BYTES);
	rocksdb_block_based_options_set_filter_policy(t, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS));
	rocksdb_block_based_options_set_index_type(
	        t, rocksdb_block_based_table_index_type_two_level_index_search);
	rocksdb_block_based_options_set_metadata_block_size(t, METADATA_BLOCK_BYTES);
	rocksdb_block_based_options_set_cache_index_and_filter_blocks(t, 1);
	rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(t, 1);
	rocksdb_block_based_options_set_pin_top_level_index_and_filter(t, 1);
	rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(t, 1);
	rocksdb_options_set_block_based_table_factory(o, t);
	rocksdb_block_based_options_destroy(t);
	return o;
}

/* Options that have no function of their own in the C interface: closing, after a failure or a checkpoint, does not wait for a flush; and
 * a file in which nothing changes is merged now and then all the same, so that what it holds of rows to drop goes. */
static rocksdb_options_t *options_add(rocksdb_options_t *base, char **message)
{
	rocksdb_options_t *o = rocksdb_options_create();

	rocksdb_get_options_from_string(
	        base, "avoid_flush_during_shutdown=true;periodic_compaction_seconds=" PERIODIC_S_TEXT, o,
	        message);
	rocksdb_options_destroy(base);
	return o;
}

static struct rocks *rocks_make(size_t block_cache_bytes, size_t memtable_bytes, char **message)
{
	struct rocks *r = mem_zalloc(sizeof(*r));

	r->cache = cache_make(block_cache_bytes);
	r->options = options_add(options_make(r->cache, memtable_bytes), message);
	r->read = rocksdb_readoptions_create();
	r->write = rocksdb_writeoptions_create();
	rocksdb_writeoptions_disable_WAL(r->write, 1);     /* (R1) */
	rocksdb_writeoptions_set_no_slowdown(r->write, 1); /* see rocks_apply */
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->flushed, NULL);
	worker_init(&r->flusher, &(struct worker_options){
	                                 .name = "flusher", .round = flush_now, .ctx = r, .drains = true});
	return r;
}

static enum err_code opened(struct rocks **out, struct rocks *r, char *message, struct err *err)
{
	if (message != NULL) {
		rocks_close(r);
		return storage_error(err, "open the store", message);
	}
	*out = r;
	return ERR_NONE;
}

/* The disk under a store, on which the manifest ends with its last whole edit (manifest.h M3). */
static enum err_code attach_disk(struct rocks *r, struct rocks_room *room, size_t memtable_bytes,
                                 struct err *err)
{
	struct manifest manifest;

	if (manifest_look(room->path, &manifest, err) != ERR_NONE)
		return err->code;
	if (manifest_is_torn(&manifest)) {
		room->short_name = manifest.name;
		room->short_bytes = manifest.sound;
	}
	r->disk = rocks_disk_open(room);
	rocks_disk_attach(r->disk, r->options, memtable_bytes);
	return ERR_NONE;
}

/* ---- rows to drop ---- */

struct merge {
	const struct rocks_drops *drops;
	void                     *state;
};

static void merge_end(void *merge)
{
	struct merge *m = merge;

	m->drops->end(m->state);
	free(m);
}

static const char *drops_name(void *unused)
{
	(void)unused;
	return "gatehouse";
}

static unsigned char merge_drops(void *merge, int level, const char *key, size_t key_len, const char *value,
                                 size_t value_len, char **new_value, size_t *new_len, unsigned char *changed)
{
	const struct merge *m = merge;

	(void)level;
	(void)new_value;
	(void)new_len;
	*changed = 0;
	return m->drops->drops(m->state, (struct bytes){key, key_len}, (struct bytes){value, value_len});
}

static rocksdb_compactionfilter_t *merge_begin(void *drops, rocksdb_compactionfiltercontext_t *unused)
{
	struct merge *m = mem_zalloc(sizeof(*m));

	(void)unused;
	*m = (struct merge){
	        drops, ((const struct rocks_drops *)drops)->begin(((const struct rocks_drops *)drops)->ctx)};
	return rocksdb_compactionfilter_create(m, merge_end, merge_drops, drops_name);
}

static void drops_destroy(void *unused)
{
	(void)unused;
}

static void attach_drops(struct rocks *r, const struct rocks_drops *drops)
{
	r->drops = *drops;
	if (drops->begin != NULL)
		rocksdb_options_set_compaction_filter_factory(
		        r->options, rocksdb_compactionfilterfactory_create(&r->drops, drops_destroy,
		                                                           merge_begin, drops_name));
}

void rocks_compact(struct rocks *r)
{
	rocksdb_compact_range(r->db, NULL, 0, NULL, 0);
}

enum err_code rocks_open(struct rocks **out, const char *path, const struct rocks_options *options,
                         struct err *err)
{
	size_t            memtable_bytes = options->tight ? MEMTABLE_BYTES_TIGHT : MEMTABLE_BYTES;
	struct rocks_room room = {.path = path,
	                          .reserve_bytes = options->reserve_bytes,
	                          .on_full = options->on_full,
	                          .ctx = options->full_ctx};
	char             *message = NULL;
	struct rocks     *r = rocks_make(options->block_cache_bytes, memtable_bytes, &message);

	r->tight = options->tight;
	attach_drops(r, &options->drops);
	if (options->tight)
		rocksdb_options_set_disable_auto_compactions(r->options, 1);
	if (message == NULL) {
		if (attach_disk(r, &room, memtable_bytes, err) != ERR_NONE) {
			rocks_close(r);
			return err->code;
		}
		r->db = rocksdb_open(r->options, path, &message);
	}
	return opened(out, r, message, err);
}

enum err_code rocks_open_read_only(struct rocks **out, const char *path, size_t block_cache_bytes,
                                   struct err *err)
{
	struct rocks_room room = {.path = path};
	char             *message = NULL;
	struct rocks     *r = rocks_make(block_cache_bytes, MEMTABLE_BYTES, &message);

	if (message == NULL) {
		if (attach_disk(r, &room, MEMTABLE_BYTES, err) != ERR_NONE) {
			rocks_close(r);
			return err->code;
		}
		rocks_disk_freeze(r->disk);
		r->db = rocksdb_open_for_read_only(r->options, path, 0, &message);
	}
	return opened(out, r, message, err);
}

void rocks_close(struct rocks *r)
{
	worker_join(&r->flusher);
	worker_release(&r->flusher);
	free(r->flush_message);
	if (r->db != NULL)
		rocksdb_close(r->db);
	pthread_cond_destroy(&r->flushed);
	pthread_mutex_destroy(&r->lock);
	rocksdb_writeoptions_destroy(r->write);
	rocksdb_readoptions_destroy(r->read);
	rocksdb_options_destroy(r->options);
	rocksdb_cache_destroy(r->cache);
	if (r->disk != NULL)
		rocks_disk_close(r->disk);
	free(r);
}

bool rocks_is_frozen(const struct rocks *r)
{
	return r->disk != NULL && rocks_disk_is_frozen(r->disk);
}

void rocks_freeze(struct rocks *r)
{
	rocks_disk_freeze(r->disk);
}

bool rocks_is_waiting(const struct rocks *r)
{
	return r->disk != NULL && rocks_disk_is_waiting(r->disk);
}

/* If it could not be done, merging files waits for the next start. */
void rocks_relax(struct rocks *r)
{
	const char *names[] = {"disable_auto_compactions", "write_buffer_size"};
	const char *values[] = {"false", MEMTABLE_BYTES_TEXT};
	char       *message = NULL;

	if (!r->tight)
		return;
	r->tight = false;
	rocksdb_set_options(r->db, 2, names, values, &message);
	free(message);
}

void rocks_be_patient(struct rocks *r, bool patient)
{
	if (r->disk != NULL)
		rocks_disk_be_patient(r->disk, patient);
}

/* ---- reading ---- */

enum err_code rocks_get(struct rocks *r, const struct rocks_snapshot *snapshot, struct bytes key,
                        struct buf *out, bool *found, struct err *err)
{
	rocksdb_readoptions_t   *read = snapshot != NULL ? snapshot->read : r->read;
	char                    *message = NULL;
	rocksdb_pinnableslice_t *slice = rocksdb_get_pinned(r->db, read, key.data, key.len, &message);

	if (message != NULL)
		return storage_error(err, "read", message);
	*found = slice != NULL;
	if (slice != NULL) {
		size_t      len;
		const char *value = rocksdb_pinnableslice_value(slice, &len);

		buf_add(out, value, len);
		rocksdb_pinnableslice_destroy(slice);
	}
	return ERR_NONE;
}

struct rocks_snapshot *rocks_snapshot_open(struct rocks *r)
{
	struct rocks_snapshot *s = mem_zalloc(sizeof(*s));

	s->snapshot = rocksdb_create_snapshot(r->db);
	s->read = rocksdb_readoptions_create();
	rocksdb_readoptions_set_snapshot(s->read, s->snapshot);
	return s;
}

void rocks_snapshot_close(struct rocks *r, struct rocks_snapshot *s)
{
	rocksdb_readoptions_destroy(s->read);
	rocksdb_release_snapshot(r->db, s->snapshot);
	free(s);
}

/* Not on a row yet. */
static struct rocks_cursor *cursor_make(struct rocks *r, const struct rocks_snapshot *snapshot,
                                        struct bytes low, struct bytes high, bool walk)
{
	struct rocks_cursor *c = mem_zalloc(sizeof(*c));

	c->read = rocksdb_readoptions_create();
	rocksdb_readoptions_set_iterate_lower_bound(c->read, low.data, low.len);
	rocksdb_readoptions_set_iterate_upper_bound(c->read, high.data, high.len);
	if (snapshot != NULL)
		rocksdb_readoptions_set_snapshot(c->read, snapshot->snapshot);
	if (walk) {
		rocksdb_readoptions_set_fill_cache(c->read, 0);
		rocksdb_readoptions_set_readahead_size(c->read, WALK_READAHEAD_BYTES);
	}
	c->it = rocksdb_create_iterator(r->db, c->read);
	return c;
}

struct rocks_cursor *rocks_cursor_open(struct rocks *r, const struct rocks_snapshot *snapshot,
                                       struct bytes low, struct bytes high, bool backward)
{
	struct rocks_cursor *c = cursor_make(r, snapshot, low, high, false);

	c->backward = backward;
	if (backward)
		rocksdb_iter_seek_to_last(c->it);
	else
		rocksdb_iter_seek(c->it, low.data, low.len);
	return c;
}

struct rocks_cursor *rocks_walk_open(struct rocks *r, const struct rocks_snapshot *snapshot, struct bytes low,
                                     struct bytes high)
{
	struct rocks_cursor *c = cursor_make(r, snapshot, low, high, true);

	rocksdb_iter_seek(c->it, low.data, low.len);
	return c;
}

void rocks_cursor_close(struct rocks_cursor *c)
{
	rocksdb_iter_destroy(c->it);
	rocksdb_readoptions_destroy(c->read);
	free(c);
}

bool rocks_cursor_at(const struct rocks_cursor *c, struct bytes *key, struct bytes *value)
{
	if (!rocksdb_iter_valid(c->it))
		return false;
	key->data = rocksdb_iter_key(c->it, &key->len);
	value->data = rocksdb_iter_value(c->it, &value->len);
	return true;
}

void rocks_cursor_next(struct rocks_cursor *c)
{
	if (c->backward)
		rocksdb_iter_prev(c->it);
	else
		rocksdb_iter_next(c->it);
}

void rocks_cursor_skip(struct rocks_cursor *c, struct bytes key)
{
	rocksdb_iter_seek(c->it, key.data, key.len);
}

enum err_code rocks_cursor_check(const struct rocks_cursor *c, struct err *err)
{
	char *message = NULL;

	rocksdb_iter_get_error(c->it, &message);
	return message == NULL ? ERR_NONE : storage_error(err, "read", message);
}

uint64_t rocks_range_bytes(struct rocks *r, struct bytes low, struct bytes high)
{
	const char *lows[1] = {low.data}, *highs[1] = {high.data};
	char       *message = NULL;
	uint64_t    size = 0;

	rocksdb_approximate_sizes(r->db, 1, lows, &low.len, highs, &high.len, &size, &message);
	free(message);
	return size;
}

void rocks_each_file(struct rocks *r, void (*fn)(void *ctx, const char *name, uint64_t bytes), void *ctx)
{
	const rocksdb_livefiles_t *files = rocksdb_livefiles(r->db);
	int                        count = rocksdb_livefiles_count(files);

	for (int i = 0; i < count; i++)
		fn(ctx, rocksdb_livefiles_name(files, i), rocksdb_livefiles_size(files, i));
	rocksdb_livefiles_destroy(files);
}

uint64_t rocks_keys_estimate(struct rocks *r)
{
	uint64_t keys = 0;

	rocksdb_property_int(r->db, "rocksdb.estimate-num-keys", &keys);
	return keys;
}

/* ---- writing ---- */

struct rocks_batch *rocks_batch_open(void)
{
	struct rocks_batch *b = mem_zalloc(sizeof(*b));

	b->batch = rocksdb_writebatch_create();
	return b;
}

void rocks_batch_close(struct rocks_batch *b)
{
	rocksdb_writebatch_destroy(b->batch);
	free(b);
}

void rocks_batch_reset(struct rocks_batch *b)
{
	rocksdb_writebatch_clear(b->batch);
}

void rocks_batch_put(struct rocks_batch *b, struct bytes key, struct bytes value)
{
	rocksdb_writebatch_put(b->batch, key.data, key.len, value.data, value.len);
}

void rocks_batch_delete(struct rocks_batch *b, struct bytes key)
{
	rocksdb_writebatch_delete(b->batch, key.data, key.len);
}

void rocks_batch_delete_range(struct rocks_batch *b, struct bytes low, struct bytes high)
{
	rocksdb_writebatch_delete_range(b->batch, low.data, low.len, high.data, high.len);
}

/* Would it have had to wait for files to be written? */
static bool is_stall(const char *message)
{
	return strncmp(message, "Result incomplete", strlen("Result incomplete")) == 0;
}

/* RocksDB counts what each thread does, down to the comparison. Nobody asks. */
static void count_nothing(void)
{
	static _Thread_local bool done;

	if (!done)
		rocksdb_set_perf_level(rocksdb_disable);
	done = true;
}

/* RocksDB would wait without an end where the disk is full: others wait for whoever calls this. */
enum err_code rocks_apply(struct rocks *r, struct rocks_batch *b, struct err *err)
{
	const struct timespec moment = {.tv_nsec = STALL_LOOK_NS};

	count_nothing();
	for (;;) {
		char *message = NULL;

		rocksdb_write(r->db, r->write, b->batch, &message);
		if (message == NULL)
			return ERR_NONE;
		if (!is_stall(message))
			return storage_error(err, "write", message);
		free(message);
		if (rocks_is_waiting(r) || rocks_is_frozen(r))
			return err_set(err, ERR_DISK_FULL,
			               "the disk is full, and so is the store's write buffer");
		nanosleep(&moment, NULL);
	}
}

/* ---- flushing: by a thread of its own, since it may wait for room on the disk for days ---- */

static void flush_now(struct worker *worker, void *rocks)
{
	struct rocks           *r = rocks;
	rocksdb_flushoptions_t *wait = rocksdb_flushoptions_create();
	char                   *message = NULL;

	(void)worker;
	rocksdb_flushoptions_set_wait(wait, 1);
	rocksdb_flush(r->db, wait, &message);
	rocksdb_flushoptions_destroy(wait);
	pthread_mutex_lock(&r->lock);
	r->flush_message = message;
	r->flushing = false;
	pthread_cond_signal(&r->flushed);
	pthread_mutex_unlock(&r->lock);
}

/* Under lock. Until the flush under way ends; false if it waits for room. */
static bool await_flush(struct rocks *r)
{
	while (r->flushing) {
		struct timespec until;

		if (rocks_is_waiting(r))
			return false;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += FLUSH_LOOK_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
		pthread_cond_timedwait(&r->flushed, &r->lock, &until);
	}
	return true;
}

/* Under lock. One that was begun earlier is not enough: it may lack what was applied since. */
static enum err_code flush(struct rocks *r, struct err *err)
{
	char *message;

	if (!await_flush(r))
		return err_set(err, ERR_DISK_FULL, "the disk is full: a flush waits for room");
	free(r->flush_message);
	r->flush_message = NULL;
	if (!r->flusher.started && worker_start(&r->flusher, err) != ERR_NONE)
		return err->code;
	r->flushing = true;
	worker_wake(&r->flusher);
	if (!await_flush(r))
		return err_set(err, ERR_DISK_FULL, "the disk is full: a flush waits for room");
	message = r->flush_message;
	r->flush_message = NULL;
	if (rocks_is_frozen(r)) { /* (D1): nor is what it says of a failure believed */
		free(message);
		return err_set(err, ERR_DISK_FULL, "the disk is full: the store writes no files");
	}
	return message == NULL ? ERR_NONE : storage_error(err, "flush", message);
}

enum err_code rocks_flush(struct rocks *r, struct err *err)
{
	enum err_code rc;

	pthread_mutex_lock(&r->lock);
	rc = flush(r, err);
	pthread_mutex_unlock(&r->lock);
	return rc;
}
