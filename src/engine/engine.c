/* Engine: the backend as the others see it: sessions, time, the catalog that readers get, the store's functions. */
#include "engine/engine.h"

#include "engine/filter_builder.h"
#include "engine/rehearsal.h"
#include "engine/ticker.h"

/* ---- calls that read rows ---- */

/* (B1) A call that may have read part of a commit is not answered. */
static enum err_code answer(struct table *t, enum err_code rc, struct err *err)
{
	if (rc != ERR_NONE || write_back_is_whole(&((struct engine_session *)t)->engine->write_back))
		return rc;
	return err_set(err, ERR_STORAGE, MSG_WRITER_FAILED);
}

static enum err_code get(struct table *t, struct arena *a, const struct table_get *q,
                         struct table_get_result *r, struct err *err)
{
	return answer(t, row_get(t, a, q, r, err), err);
}

static enum err_code query(struct table *t, struct arena *a, const struct table_query *q,
                           struct table_query_result *r, struct err *err)
{
	return answer(t, query_run(t, a, q, r, err), err);
}

static enum err_code get_batch(struct table *t, struct arena *a, const struct table_batch_get *q,
                               struct table_batch_get_result *r, struct err *err)
{
	return answer(t, batch_get(t, a, q, r, err), err);
}

static enum err_code transact_get(struct table *t, struct arena *a, const struct table_batch_get *q,
                                  struct table_batch_get_result *r, struct err *err)
{
	return answer(t, batch_transact_get(t, a, q, r, err), err);
}

const struct table_backend engine_backend = {
        .name = "embedded",
        .get = get,
        .write = row_write,
        .query = query,
        .batch_get = get_batch,
        .batch_write = batch_write,
        .transact_get = transact_get,
        .transact_write = batch_transact_write,
        .create = tables_create,
        .describe = tables_describe,
        .list = tables_list,
        .alter = tables_alter,
        .remove = tables_remove,
        .lacks = tables_lacks,
        .counts = true,
};

bool engine_ready(const struct engine *e)
{
	return !writer_failed(e->writer) && !atomic_load(&e->disk_full);
}

bool engine_starved(const struct engine *e)
{
	return e->starved;
}

/* ---- time and tables, shared ---- */

int64_t engine_now_us(struct engine *e)
{
	long long now = e->began_us + clock_steady_us(e->options.clock) - e->began_steady_us;
	long long last = atomic_load(&e->now_us);

	while (now > last)
		if (atomic_compare_exchange_weak(&e->now_us, &last, now))
			return now;
	return last;
}

void engine_publish_catalog(struct engine *e, const struct catalog *catalog)
{
	const struct catalog *old = e->catalog;
	uint64_t              rows;

	if (catalog == old)
		return;
	rows = counts_drop_gone(e->counts, old, catalog);
	if (e->filter != NULL)
		filter_note_deleted(e->filter, rows);
	pthread_mutex_lock(&e->catalog_lock);
	e->catalog = catalog_ref(catalog);
	pthread_mutex_unlock(&e->catalog_lock);
	catalog_release(old);
	ticker_wake(e->ticker);
}

enum err_code engine_compact(struct engine *e, struct err *err)
{
	if (write_back_all(&e->write_back, err) != ERR_NONE)
		return err->code;
	rocks_compact(e->rocks);
	return ERR_NONE;
}

void engine_build_filter(struct engine *e)
{
	if (e->filter_builder != NULL)
		filter_builder_round(e->filter_builder);
}

/* ---- sessions ---- */

void engine_session_init(struct engine_session *r, struct engine *e)
{
	*r = (struct engine_session){
	        .base = {.backend = &engine_backend, .now_us = engine_now_us(e), .alone = true}, .engine = e};
	pthread_mutex_lock(&e->catalog_lock);
	r->catalog = catalog_ref(e->catalog);
	pthread_mutex_unlock(&e->catalog_lock);
}

void engine_session_release(struct engine_session *r)
{
	catalog_release(r->catalog);
}

/* ---- writing ---- */

enum err_code engine_submit(struct engine *e, struct turn_request *w, struct err *err)
{
	return writer_submit(e->writer, w, err);
}

void engine_gathered(struct engine *e)
{
	writer_gathered(e->writer);
}

enum err_code engine_run(struct engine *e, struct turn_request *w, struct err *err)
{
	return store_run(&e->store, w, err);
}

struct store_stats engine_stats(struct engine *e)
{
	struct writer_stats w = writer_stats(e->writer);
	struct cache_stats  c = cache_stats(e->cache);

	return (struct store_stats){.requests = w.requests,
	                            .clock_ahead_us = clock_wall_us(e->options.clock) - engine_now_us(e),
	                            .batches = w.batches,
	                            .largest_batch = w.largest_batch,
	                            .commit_us = w.commit_us,
	                            .swept_rows = atomic_load(&e->swept_rows),
	                            .cache_hits = c.hits,
	                            .cache_misses = c.misses,
	                            .cache_bytes = c.bytes,
	                            .queue_bytes = w.queue_bytes,
	                            .disk_full = atomic_load(&e->disk_full),
	                            .failed = writer_failed(e->writer),
	                            .batch_requests = w.batch_requests,
	                            .flush_us = w.flush_us};
}

/* ---- the store (table/store.h): struct engine begins with it ---- */

struct store *engine_store(struct engine *e)
{
	return &e->store;
}

static struct table *store_read_begin(struct store *s, struct arena *a)
{
	struct engine_session *session = arena_alloc(a, sizeof(*session));

	engine_session_init(session, (struct engine *)s);
	return &session->base;
}

static void store_read_end(struct store *s, struct table *t)
{
	(void)s;
	engine_session_release((struct engine_session *)t);
}

static void store_rehearse(struct store *s, struct table *t, struct arena *a)
{
	(void)s;
	rehearsal_begin((struct engine_session *)t, a);
}

static bool store_rehearsed(struct store *s, struct table *t)
{
	(void)s;
	return rehearsal_is_final((struct engine_session *)t);
}

static enum err_code store_submit(struct store *s, struct turn_request *w, struct err *err)
{
	return engine_submit((struct engine *)s, w, err);
}

static void store_gathered(struct store *s)
{
	engine_gathered((struct engine *)s);
}

static int64_t store_now_us(struct store *s)
{
	return engine_now_us((struct engine *)s);
}

static bool store_ready(const struct store *s)
{
	return engine_ready((const struct engine *)s);
}

static void store_stats(struct store *s, struct store_stats *out)
{
	*out = engine_stats((struct engine *)s);
}

const struct store_backend engine_store_backend = {
        .name = "embedded",
        .read_begin = store_read_begin,
        .read_end = store_read_end,
        .rehearse = store_rehearse,
        .rehearsed = store_rehearsed,
        .submit = store_submit,
        .gathered = store_gathered,
        .now_us = store_now_us,
        .ready = store_ready,
        .stats = store_stats,
};
