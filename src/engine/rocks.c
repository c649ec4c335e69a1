/* Rocks: RocksDB behind our own names; rocks_disk.cc has what its C interface lacks.
 *
 * (R1) It has no log of its own: the journal holds what its files lack. Its files are written in the order of what
 * was applied, so after a crash they are the state of some moment at or after the last rocks_flush. */
#include "engine/rocks.h"

#include <assert.h>
#include <pthread.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/worker.h"
#include "engine/layout.h"
#include "engine/logs.h"
#include "engine/manifest.h"
#include "engine/rocks_disk.h"

enum {
	MEMTABLE_BYTES =
	        33554432, /* more than a checkpoint is due at (write_back.c): it makes one file, not two */
	MEMTABLES_MAX = 2,
	LOG_MEMTABLE_BYTES = 4194304, /* most rows of logs come as files */
	NEW_FILES_MERGED =
	        8, /* at a time, into those below, nearly all of which are written anew: twice RocksDB's own number */
	MEMTABLE_BYTES_TIGHT =
	        1 << 30, /* more than a journal holds: nothing is written while it is replayed */
	STALL_LOOK_NS = 1000000,
	FLUSH_LOOK_NS = 50000000,
	OPEN_FILES_MAX = 512,
	BLOOM_BITS = 10,
	BLOCK_BYTES = 4096,
	LOG_BLOCK_BYTES = 16 << 10,      /* logs are read in order, and compressing costs less by the row */
	METADATA_BLOCK_BYTES = 16 << 10, /* a part of an index */
	CACHE_SHARD_BITS = 2,
	WALK_READAHEAD_BYTES = 1 << 20,
	FILE_BYTES = 16 << 20, /* with a filter of some hundred kilobytes */
	OWNER_BYTES_MAX = 8,   /* layout_owner */
};

#define MEMTABLE_BYTES_TEXT     "33554432"
#define LOG_MEMTABLE_BYTES_TEXT "4194304"
#define PERIODIC_S_TEXT         "86400"
#define LOG_FILE_NAME           "log.run" /* until the store has taken it */

enum family { ROWS, LOGS, FAMILIES };

static const char *const family_names[FAMILIES] = {"default", "logs"};

static void flush_now(struct worker *worker, void *rocks);

/* What the flusher is to do; the message is RocksDB's, of why it failed. */
typedef char *(*flusher_task)(struct rocks *r);

struct rocks {
	rocksdb_t                      *db;
	rocksdb_column_family_handle_t *families[FAMILIES]; /* LOGS: NULL if it is only read, and has none */
	rocksdb_options_t              *options, *log_options;
	char                           *log_path;

	struct logs             logs;
	rocksdb_cache_t        *cache;
	rocksdb_readoptions_t  *read;
	rocksdb_writeoptions_t *write;
	struct rocks_disk      *disk; /* frozen if it was opened for reading; NULL if that failed */
	bool                    tight;
	struct rocks_drops      drops;

	/* of rocks_flush, under lock */
	pthread_mutex_t  lock;
	pthread_cond_t   flushed;
	struct worker    flusher; /* started by the first flush */
	bool             flushing;
	flusher_task     task;
	struct rocks_run run;           /* of a file */
	char            *flush_message; /* why it failed; NULL */
};

struct rocks_batch {
	struct rocks         *rocks;
	rocksdb_writebatch_t *batch;
};

struct rocks_snapshot {
	const rocksdb_snapshot_t *snapshot;
	rocksdb_readoptions_t    *read;
	size_t log_count; /* there were then: rows of later ones were of the other family */
};

struct rocks_cursor {
	struct rocks          *rocks;
	rocksdb_iterator_t    *its[FAMILIES]; /* NULL: none of its range is there */
	rocksdb_iterator_t    *at;            /* the one whose key comes next; NULL: there is none */
	rocksdb_readoptions_t *read, *get;    /* of its iterators; of single keys at the same moment */
	char                  *failure;       /* RocksDB's; NULL */
	bool                   backward;
	bool                   asks; /* of each table and index whether it was deleted (R3) … */
	char                   asked[OWNER_BYTES_MAX];
	size_t                 asked_bytes; /* … and this one was not */
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

static rocksdb_options_t *options_make(rocksdb_cache_t *cache, size_t memtable_bytes, size_t block_bytes)
{
	rocksdb_options_t                   *o = rocksdb_options_create();
	rocksdb_block_based_table_options_t *t = rocksdb_block_based_options_create();

	rocksdb_options_set_create_if_missing(o, 1);
	rocksdb_options_set_create_missing_column_families(o, 1);
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
	rocksdb_block_based_options_set_block_size(t, block_bytes);
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

/* Of a tight store it is as large. */
static size_t log_memtable_bytes(size_t memtable_bytes)
{
	return memtable_bytes == MEMTABLE_BYTES ? LOG_MEMTABLE_BYTES : memtable_bytes;
}

static struct rocks *rocks_make(size_t block_cache_bytes, size_t memtable_bytes, char **message)
{
	struct rocks *r = mem_zalloc(sizeof(*r));

	r->cache = cache_make(block_cache_bytes);
	r->options = options_add(options_make(r->cache, memtable_bytes, BLOCK_BYTES), message);
	if (*message == NULL)
		r->log_options = options_add(
		        options_make(r->cache, log_memtable_bytes(memtable_bytes), LOG_BLOCK_BYTES), message);
	r->read = rocksdb_readoptions_create();
	r->write = rocksdb_writeoptions_create();
	rocksdb_writeoptions_disable_WAL(r->write, 1);     /* (R1) */
	rocksdb_writeoptions_set_no_slowdown(r->write, 1); /* see rocks_apply */
	logs_init(&r->logs);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->flushed, NULL);
	worker_init(&r->flusher, &(struct worker_options){
	                                 .name = "flusher", .round = flush_now, .ctx = r, .drains = true});
	return r;
}

static enum err_code opened(struct rocks **out, struct rocks *r, char *message, struct err *err)
{
	if (message == NULL && rocks_failure(r) != NULL)
		message = strdup(rocks_failure(r));
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
	rocks_disk_attach(r->disk, r->log_options, log_memtable_bytes(memtable_bytes));
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

static void attach_drops(struct rocks *r, rocksdb_options_t *options)
{
	if (r->drops.begin != NULL)
		rocksdb_options_set_compaction_filter_factory(
		        options, rocksdb_compactionfilterfactory_create(&r->drops, drops_destroy, merge_begin,
		                                                        drops_name));
}

/* ---- families ---- */

/* As of a snapshot, or, if that is NULL, of now. */
static size_t log_count(const struct rocks *r, const struct rocks_snapshot *snapshot)
{
	return snapshot != NULL ? snapshot->log_count : logs_count(&r->logs);
}

static rocksdb_column_family_handle_t *family_at(const struct rocks *r, const struct rocks_snapshot *snapshot,
                                                 struct bytes key)
{
	return r->families[logs_have(&r->logs, log_count(r, snapshot), key) ? LOGS : ROWS];
}

static rocksdb_column_family_handle_t *family_of(const struct rocks *r, struct bytes key)
{
	return family_at(r, NULL, key);
}

bool rocks_log_takes(struct rocks *r, struct bytes key)
{
	return logs_take(&r->logs, key);
}

static struct bytes key_at(const rocksdb_iterator_t *it)
{
	struct bytes key;

	key.data = rocksdb_iter_key(it, &key.len);
	return key;
}

static void logs_find(struct rocks *r, char **message);

/* ---- opening ---- */

/* What a process that was killed has left there is of no use. */
static void log_path_set(struct rocks *r, const char *path)
{
	size_t bytes = strlen(path) + sizeof("/" LOG_FILE_NAME);

	r->log_path = mem_alloc(bytes);
	snprintf(r->log_path, bytes, "%s/" LOG_FILE_NAME, path);
	unlink(r->log_path);
}

static void families_prepare(struct rocks *r, const struct rocks_options *options)
{
	rocksdb_options_t *of[FAMILIES] = {r->options, r->log_options};

	r->tight = options->tight;
	r->drops = options->drops;
	for (int i = 0; i < FAMILIES; i++) {
		attach_drops(r, of[i]);
		rocksdb_options_set_disable_auto_compactions(of[i], options->tight ? 1 : 0);
		if (options->file_bytes != 0)
			rocksdb_options_set_target_file_size_base(of[i], options->file_bytes);
	}
}

static void families_open(struct rocks *r, const char *path, char **message)
{
	const rocksdb_options_t *options[FAMILIES] = {r->options, r->log_options};

	r->db = rocksdb_open_column_families(r->options, path, FAMILIES, family_names, options, r->families,
	                                     message);
	if (*message == NULL)
		logs_find(r, message);
}

/* A store that no newer program has opened has no logs. */
static void families_open_read_only(struct rocks *r, const char *path, char **message)
{
	const rocksdb_options_t *options[FAMILIES] = {r->options, r->log_options};
	size_t                   count;
	char                   **names = rocksdb_list_column_families(r->options, path, &count, message);

	if (*message != NULL)
		return;
	rocksdb_list_column_families_destroy(names, count);
	r->db = rocksdb_open_for_read_only_column_families(r->options, path, count < FAMILIES ? 1 : FAMILIES,
	                                                   family_names, options, r->families, 0, message);
	if (*message == NULL)
		logs_find(r, message);
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

	if (message == NULL) {
		families_prepare(r, options);
		if (attach_disk(r, &room, memtable_bytes, err) != ERR_NONE) {
			rocks_close(r);
			return err->code;
		}
		log_path_set(r, path);
		families_open(r, path, &message);
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
		families_open_read_only(r, path, &message);
	}
	return opened(out, r, message, err);
}

void rocks_stop(struct rocks *r)
{
	worker_join(&r->flusher);
}

void rocks_close(struct rocks *r)
{
	rocks_stop(r);
	worker_release(&r->flusher);
	free(r->flush_message);
	for (int i = 0; i < FAMILIES; i++)
		if (r->families[i] != NULL)
			rocksdb_column_family_handle_destroy(r->families[i]);
	if (r->db != NULL)
		rocksdb_close(r->db);
	pthread_cond_destroy(&r->flushed);
	pthread_mutex_destroy(&r->lock);
	rocksdb_writeoptions_destroy(r->write);
	rocksdb_readoptions_destroy(r->read);
	rocksdb_options_destroy(r->options);
	if (r->log_options != NULL)
		rocksdb_options_destroy(r->log_options);
	rocksdb_cache_destroy(r->cache);
	if (r->disk != NULL)
		rocks_disk_close(r->disk);
	logs_release(&r->logs);
	free(r->log_path);
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

const char *rocks_failure(const struct rocks *r)
{
	return r->disk == NULL ? NULL : rocks_disk_failure(r->disk);
}

/* Why nothing is written: a list of files that failed (D3), or else `full`. */
static enum err_code frozen_error(const struct rocks *r, const char *full, struct err *err)
{
	if (rocks_failure(r) != NULL)
		return err_set(err, ERR_STORAGE, "%s", rocks_failure(r));
	return err_set(err, ERR_DISK_FULL, "%s", full);
}

bool rocks_is_waiting(const struct rocks *r)
{
	return r->disk != NULL && rocks_disk_is_waiting(r->disk);
}

/* If it could not be done, merging files waits for the next start. */
void rocks_relax(struct rocks *r)
{
	const char *names[] = {"disable_auto_compactions", "write_buffer_size"};
	const char *values[FAMILIES][2] = {{"false", MEMTABLE_BYTES_TEXT},
	                                   {"false", LOG_MEMTABLE_BYTES_TEXT}};

	if (!r->tight)
		return;
	r->tight = false;
	for (int i = 0; i < FAMILIES; i++) {
		char *message = NULL;

		rocksdb_set_options_cf(r->db, r->families[i], 2, names, values[i], &message);
		free(message);
	}
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
	rocksdb_pinnableslice_t *slice =
	        rocksdb_get_pinned_cf(r->db, read, family_at(r, snapshot, key), key.data, key.len, &message);

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

	s->log_count = log_count(r, NULL);
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

/* ---- walking ---- */

/* Of both families at the same moment, if it needs both. */
static void iterators_make(struct rocks *r, struct rocks_cursor *c, size_t logs, struct bytes low,
                           struct bytes high)
{
	bool inside;

	if (!logs_meet(&r->logs, logs, (struct log_range){low, high}, &inside))
		c->its[ROWS] = rocksdb_create_iterator_cf(r->db, c->read, r->families[ROWS]);
	else if (inside)
		c->its[LOGS] = rocksdb_create_iterator_cf(r->db, c->read, r->families[LOGS]);
	else
		rocksdb_create_iterators(r->db, c->read, r->families, c->its, FAMILIES, &c->failure);
}

/* One that ended because of an error: seeking would make RocksDB forget that, and go on behind a hole. */
static bool is_at_end(struct rocks_cursor *c, rocksdb_iterator_t *it)
{
	if (rocksdb_iter_valid(it))
		return false;
	if (c->failure == NULL)
		rocksdb_iter_get_error(it, &c->failure);
	return true;
}

/* The one that comes first, of those that have a key. */
static void choose(struct rocks_cursor *c)
{
	c->at = NULL;
	for (int i = 0; i < FAMILIES; i++) {
		rocksdb_iterator_t *it = c->its[i];
		int                 order;

		if (it == NULL || is_at_end(c, it))
			continue;
		order = c->at == NULL ? 0 : bytes_compare(key_at(it), key_at(c->at));
		if (c->at == NULL || (c->backward ? order > 0 : order < 0))
			c->at = it;
	}
	if (c->failure != NULL)
		c->at = NULL;
}

/* Upwards: to the first key that is not below. */
static void seek(struct rocks_cursor *c, struct bytes key)
{
	for (int i = 0; i < FAMILIES; i++)
		if (c->its[i] != NULL)
			rocksdb_iter_seek(c->its[i], key.data, key.len);
	choose(c);
}

/* A single key is read with what is known of deleted ranges, and its errors are not lost. */
static bool is_absent(struct rocks_cursor *c)
{
	rocksdb_column_family_handle_t *family = c->rocks->families[c->at == c->its[LOGS] ? LOGS : ROWS];
	struct bytes                    key = key_at(c->at);
	rocksdb_pinnableslice_t        *slice =
	        rocksdb_get_pinned_cf(c->rocks->db, c->get, family, key.data, key.len, &c->failure);

	if (slice != NULL)
		rocksdb_pinnableslice_destroy(slice);
	else if (c->failure != NULL)
		c->at = NULL;
	return slice == NULL && c->failure == NULL;
}

/* May a merge have dropped the row that it is at? Snapshots do not keep such rows: an iterator, which holds its files, shows one that is gone by now. */
static bool is_dropped(const struct rocks_cursor *c)
{
	const struct rocks_drops *d = &c->rocks->drops;
	struct bytes              key, value;
	void                     *state;
	bool                      drops;

	if (d->begin == NULL || !rocks_cursor_at(c, &key, &value))
		return false;
	state = d->begin(d->ctx);
	drops = d->drops(state, key, value);
	d->end(state);
	return drops;
}

static void step(struct rocks_cursor *c)
{
	if (c->backward)
		rocksdb_iter_prev(c->at);
	else
		rocksdb_iter_next(c->at);
	choose(c);
}

static bool is_of(const struct rocks_cursor *c, struct bytes owner)
{
	return c->at != NULL && bytes_equal(layout_owner(key_at(c->at)), owner);
}

/* Past tables and indexes that were deleted (R3). If the first row may have been dropped, the next one that cannot have been is asked for. */
static void pass_deleted(struct rocks_cursor *c)
{
	char         copy[OWNER_BYTES_MAX];
	struct arena a;

	while (c->asks && c->at != NULL && !is_of(c, (struct bytes){c->asked, c->asked_bytes})) {
		struct bytes owner = layout_owner(key_at(c->at));

		memcpy(copy, owner.data, owner.len);
		owner.data = copy;
		if (owner.len == 0 || !is_absent(c)) {
			memcpy(c->asked, copy, owner.len);
			c->asked_bytes = owner.len;
			return;
		}
		if (is_dropped(c)) {
			while (is_of(c, owner) && is_dropped(c))
				step(c);
			continue;
		}
		arena_init(&a);
		seek(c, layout_after(&a, owner));
		arena_release(&a);
	}
}

static void seek_last(struct rocks_cursor *c)
{
	for (int i = 0; i < FAMILIES; i++)
		if (c->its[i] != NULL)
			rocksdb_iter_seek_to_last(c->its[i]);
	choose(c);
}

/* Without iterators. */
static struct rocks_cursor *cursor_make(struct rocks *r, const struct rocks_snapshot *snapshot,
                                        struct bytes low, struct bytes high)
{
	struct rocks_cursor *c = mem_zalloc(sizeof(*c));

	c->rocks = r;
	c->get = snapshot != NULL ? snapshot->read : r->read;
	c->asks = !layout_is_one_owner(low, high);
	c->read = rocksdb_readoptions_create();
	rocksdb_readoptions_set_iterate_lower_bound(c->read, low.data, low.len);
	rocksdb_readoptions_set_iterate_upper_bound(c->read, high.data, high.len);
	rocksdb_readoptions_set_ignore_range_deletions(c->read, 1); /* (R3) */
	if (snapshot != NULL)
		rocksdb_readoptions_set_snapshot(c->read, snapshot->snapshot);
	return c;
}

struct rocks_cursor *rocks_cursor_open(struct rocks *r, const struct rocks_snapshot *snapshot,
                                       struct bytes low, struct bytes high, bool backward)
{
	struct rocks_cursor *c = cursor_make(r, snapshot, low, high);

	assert(!c->asks || (snapshot != NULL && !backward));
	iterators_make(r, c, log_count(r, snapshot), low, high);
	c->backward = backward;
	if (backward)
		seek_last(c);
	else
		rocks_cursor_skip(c, low);
	return c;
}

struct rocks_cursor *rocks_walk_open(struct rocks *r, const struct rocks_snapshot *snapshot, struct bytes low,
                                     struct bytes high)
{
	struct rocks_cursor *c = cursor_make(r, snapshot, low, high);

	assert(!c->asks || snapshot != NULL);
	rocksdb_readoptions_set_fill_cache(c->read, 0);
	rocksdb_readoptions_set_readahead_size(c->read, WALK_READAHEAD_BYTES);
	iterators_make(r, c, log_count(r, snapshot), low, high);
	rocks_cursor_skip(c, low);
	return c;
}

void rocks_cursor_close(struct rocks_cursor *c)
{
	for (int i = 0; i < FAMILIES; i++)
		if (c->its[i] != NULL)
			rocksdb_iter_destroy(c->its[i]);
	free(c->failure);
	rocksdb_readoptions_destroy(c->read);
	free(c);
}

bool rocks_cursor_at(const struct rocks_cursor *c, struct bytes *key, struct bytes *value)
{
	if (c->at == NULL)
		return false;
	*key = key_at(c->at);
	value->data = rocksdb_iter_value(c->at, &value->len);
	return true;
}

void rocks_cursor_next(struct rocks_cursor *c)
{
	step(c);
	pass_deleted(c);
}

void rocks_cursor_skip(struct rocks_cursor *c, struct bytes key)
{
	seek(c, key);
	pass_deleted(c);
}

enum err_code rocks_cursor_check(const struct rocks_cursor *c, struct err *err)
{
	return c->failure == NULL ? ERR_NONE : storage_error(err, "read", strdup(c->failure));
}

/* A log begins with the first of its rows that is there: those before it were deleted, and if one comes again, it is of the other family (R2). Nothing is
 * written meanwhile, so it needs no snapshot. */
static void logs_find(struct rocks *r, char **message)
{
	const char           low[1] = {KIND_ROW}, high[1] = {KIND_ROW + 1};
	struct bytes         key, value;
	struct rocks_cursor *c;

	if (r->families[LOGS] == NULL)
		return;
	c = cursor_make(r, NULL, (struct bytes){low, 1}, (struct bytes){high, 1});
	c->its[LOGS] = rocksdb_create_iterator_cf(r->db, c->read, r->families[LOGS]);
	rocks_cursor_skip(c, (struct bytes){low, 1});
	while (rocks_cursor_at(c, &key, &value) && *message == NULL) {
		const struct log_range *log = logs_found(&r->logs, key);

		if (log == NULL)
			*message = strdup("there are more logs than any program makes");
		else
			rocks_cursor_skip(c, log->high);
	}
	if (*message == NULL && c->failure != NULL)
		*message = strdup(c->failure);
	rocks_cursor_close(c);
}

uint64_t rocks_range_bytes(struct rocks *r, struct bytes low, struct bytes high)
{
	const char *lows[1] = {low.data}, *highs[1] = {high.data};
	uint64_t    all = 0;

	for (int i = 0; i < FAMILIES && r->families[i] != NULL; i++) {
		char    *message = NULL;
		uint64_t size = 0;

		rocksdb_approximate_sizes_cf(r->db, r->families[i], 1, lows, &low.len, highs, &high.len,
		                             &size, &message);
		free(message);
		all += size;
	}
	return all;
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
	uint64_t all = 0;

	for (int i = 0; i < FAMILIES && r->families[i] != NULL; i++) {
		uint64_t keys = 0;

		rocksdb_property_int_cf(r->db, r->families[i], "rocksdb.estimate-num-keys", &keys);
		all += keys;
	}
	return all;
}

/* ---- writing ---- */

struct rocks_batch *rocks_batch_open(struct rocks *r)
{
	struct rocks_batch *b = mem_zalloc(sizeof(*b));

	b->rocks = r;
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
	rocksdb_writebatch_put_cf(b->batch, family_of(b->rocks, key), key.data, key.len, value.data,
	                          value.len);
}

void rocks_batch_delete(struct rocks_batch *b, struct bytes key)
{
	rocksdb_writebatch_delete_cf(b->batch, family_of(b->rocks, key), key.data, key.len);
}

void rocks_batch_delete_range(struct rocks_batch *b, struct bytes low, struct bytes high)
{
	bool inside;

	rocksdb_writebatch_delete_range_cf(b->batch, b->rocks->families[ROWS], low.data, low.len, high.data,
	                                   high.len);
	if (logs_meet(&b->rocks->logs, log_count(b->rocks, NULL), (struct log_range){low, high}, &inside))
		rocksdb_writebatch_delete_range_cf(b->batch, b->rocks->families[LOGS], low.data, low.len,
		                                   high.data, high.len);
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
			return frozen_error(r, "the disk is full, and so is the store's write buffer", err);
		nanosleep(&moment, NULL);
	}
}

void rocks_compact(struct rocks *r)
{
	for (int i = 0; i < FAMILIES; i++)
		rocksdb_compact_range_cf(r->db, r->families[i], NULL, 0, NULL, 0);
}

/* ---- flushing: by a thread of its own, since it may wait for room on the disk for days ---- */

static void flush_now(struct worker *worker, void *rocks)
{
	struct rocks *r = rocks;
	char         *message = r->task(r);

	(void)worker;
	pthread_mutex_lock(&r->lock);
	r->flush_message = message;
	r->flushing = false;
	pthread_cond_signal(&r->flushed);
	pthread_mutex_unlock(&r->lock);
}

/* Under lock. Until the task under way ends. */
static enum err_code await_flush(struct rocks *r, struct err *err)
{
	while (r->flushing) {
		struct timespec until;

		if (rocks_is_waiting(r))
			return err_set(err, ERR_DISK_FULL, "the disk is full: a flush waits for room");
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += FLUSH_LOOK_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
		pthread_cond_timedwait(&r->flushed, &r->lock, &until);
	}
	return ERR_NONE;
}

/* Under lock, with the flusher idle. */
static enum err_code flusher_do(struct rocks *r, flusher_task task, struct err *err)
{
	char *message;

	free(r->flush_message);
	r->flush_message = NULL;
	if (!r->flusher.started && worker_start(&r->flusher, err) != ERR_NONE)
		return err->code;
	r->task = task;
	r->flushing = true;
	worker_wake(&r->flusher);
	if (await_flush(r, err) != ERR_NONE)
		return err->code;
	message = r->flush_message;
	r->flush_message = NULL;
	if (rocks_is_frozen(r)) { /* (D1): nor is what it says of a failure believed */
		free(message);
		return frozen_error(r, "the disk is full: the store writes no files", err);
	}
	return message == NULL ? ERR_NONE : storage_error(err, "flush", message);
}

/* One that was begun earlier is not enough: it may lack what was applied since. */
static enum err_code flusher_run(struct rocks *r, flusher_task task, const struct rocks_run *run,
                                 struct err *err)
{
	enum err_code rc;

	pthread_mutex_lock(&r->lock);
	rc = await_flush(r, err);
	if (rc == ERR_NONE && run != NULL)
		r->run = *run;
	if (rc == ERR_NONE)
		rc = flusher_do(r, task, err);
	pthread_mutex_unlock(&r->lock);
	return rc;
}

enum err_code rocks_settle(struct rocks *r, struct err *err)
{
	enum err_code rc;

	pthread_mutex_lock(&r->lock);
	rc = await_flush(r, err);
	pthread_mutex_unlock(&r->lock);
	return rc;
}

static char *flush_family(struct rocks *r, enum family family)
{
	rocksdb_flushoptions_t *wait = rocksdb_flushoptions_create();
	char                   *message = NULL;

	rocksdb_flushoptions_set_wait(wait, 1);
	rocksdb_flush_cf(r->db, wait, r->families[family], &message);
	rocksdb_flushoptions_destroy(wait);
	return message;
}

static char *flush_logs(struct rocks *r)
{
	return flush_family(r, LOGS);
}

static char *flush_all(struct rocks *r)
{
	uint64_t flush = logs_flush_begin(&r->logs);
	char    *message = flush_family(r, LOGS);

	if (message == NULL)
		message = flush_family(r, ROWS);
	if (message == NULL && !rocks_is_frozen(r))
		logs_flush_done(&r->logs, flush);
	return message;
}

enum err_code rocks_flush(struct rocks *r, struct err *err)
{
	return flusher_run(r, flush_all, NULL, err);
}

enum err_code rocks_flush_logs(struct rocks *r, struct err *err)
{
	return flusher_run(r, flush_logs, NULL, err);
}

/* ---- files of logs ---- */

/* False if it could not be written, or has no rows. */
static bool log_file_write(struct rocks *r)
{
	rocksdb_envoptions_t    *env = rocksdb_envoptions_create();
	rocksdb_sstfilewriter_t *file = rocksdb_sstfilewriter_create(env, r->log_options);
	struct bytes             key, value;
	char                    *message = NULL;
	bool                     written;

	rocksdb_sstfilewriter_open(file, r->log_path, &message);
	while (message == NULL && r->run.next(r->run.ctx, &key, &value))
		rocksdb_sstfilewriter_put(file, key.data, key.len, value.data, value.len, &message);
	if (message == NULL)
		rocksdb_sstfilewriter_finish(file, &message);
	rocksdb_sstfilewriter_destroy(file);
	rocksdb_envoptions_destroy(env);
	written = message == NULL;
	free(message);
	return written;
}

/* RocksDB checks what rocks.h says: a file needs a sequence number only if it does not hold, and it may have none. While it takes the file, nothing can be
 * applied: so not if the disk is nearly full, where that could take long. */
static bool log_file_take(struct rocks *r)
{
	rocksdb_ingestexternalfileoptions_t *options = rocksdb_ingestexternalfileoptions_create();
	const char                          *files[1] = {r->log_path};
	char                                *message = NULL;
	bool                                 taken;

	rocksdb_ingestexternalfileoptions_set_move_files(options, 1);
	rocksdb_ingestexternalfileoptions_set_snapshot_consistency(options, 1);
	rocksdb_ingestexternalfileoptions_set_allow_global_seqno(options, 0);
	rocksdb_ingestexternalfileoptions_set_allow_blocking_flush(options, 0);
	rocksdb_ingest_external_file_cf(r->db, r->families[LOGS], files, 1, options, &message);
	rocksdb_ingestexternalfileoptions_destroy(options);
	taken = message == NULL;
	free(message);
	return taken;
}

/* Every block of it: what cannot be read there is not told when it is taken (rocks_disk.h D5), and then these rows are nowhere else for long. */
static bool log_file_is_sound(struct rocks *r)
{
	struct err err;

	return rocks_file_verify(r->log_path, &err) == ERR_NONE;
}

static char *log_file(struct rocks *r)
{
	bool taken = log_file_write(r) && !rocks_is_frozen(r) && rocks_disk_has_room(r->disk) &&
	             log_file_is_sound(r) && r->run.ready(r->run.ctx) && log_file_take(r);

	r->run.done(r->run.ctx, taken);
	if (!taken)
		unlink(r->log_path);
	return NULL;
}

enum err_code rocks_log_file(struct rocks *r, const struct rocks_run *run, struct err *err)
{
	return flusher_run(r, log_file, run, err);
}
