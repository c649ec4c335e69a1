/* Open: from a data directory to an engine, and back: claims the directory, opens the store, and publishes again what the
 * journal holds; or, for those who may change nothing, keeps that in a turn over the store. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/directory.h"
#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "engine/disk.h"
#include "engine/filter_builder.h"
#include "engine/layout.h"
#include "engine/manifest.h"
#include "engine/rehearsal.h"
#include "engine/ticker.h"
#include "engine/view.h"
#include "item/codec.h"

enum {
	DIRTY_BYTES_MAX = 8 << 20,
	JOURNAL_SEGMENT_BYTES = 16 << 20,
	CLOCK_JUMP_MAX_DAYS = 30,
	REPLAY_BYTES = 8 << 20, /* that are published at a time */
};

#define DAY_US (INT64_C(86400) * 1000000)
#define META_SWEEP                                                                                           \
	"sweep" /* microseconds since 1970: sweeping waits until then, and closing hours (lapse.h X4) */
#define META_SWEEP_AFTER "after"
#define META_SWEEP_CLOSE "close"
#define SWEEP_GRACE_US   (INT64_C(3600) * 1000000)

struct engine_options engine_options_default(const char *path)
{
	return (struct engine_options){.path = path,
	                               .cache_bytes_max = 64 << 20,
	                               .block_cache_bytes = 64 << 20,
	                               .filter_bytes_max = 64 << 20,
	                               .queue_bytes_max = 64 << 20,
	                               .expression_bytes_max = 64 << 20,
	                               .disk_reserve_bytes = 64 << 20,
	                               .journal_segment_bytes = JOURNAL_SEGMENT_BYTES,
	                               .clock_jump_max_us = CLOCK_JUMP_MAX_DAYS * DAY_US,
	                               .tick_ms = 1000,
	                               .clock = clock_system(),
	                               .random = random_bytes};
}

void engine_options_set_memory(struct engine_options *o, size_t bytes)
{
	o->cache_bytes_max = bytes / 8 * 5;
	o->block_cache_bytes = bytes / 8 * 2;
	o->filter_bytes_max = bytes / 8;
}

/* ---- time ---- */

/* Time begins with the wall clock's, or where it stood if that is later, and from there follows the steady
 * clock: a wall clock that someone sets neither ends what is to last nor makes it last longer. */
static void time_set(struct engine *e, int64_t now_us)
{
	e->began_us = now_us;
	e->began_steady_us = clock_steady_us(e->options.clock);
	atomic_store(&e->now_us, now_us);
}

static void time_text(int64_t time_us, char out[32])
{
	time_t    second = (time_t)(time_us / 1000000);
	struct tm tm;

	gmtime_r(&second, &tm);
	strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm);
}

/* A clock that is far from the last commit may be wrong, and a wrong one cannot be taken back: what is to last would end at
 * once, and what begins now would last for years. So somebody has to say that it is right. Then nothing is swept for a while:
 * what seems to have expired is still there, should the clock have been wrong after all. */
static enum err_code time_begin(struct engine *e, int64_t stored_us, struct err *err)
{
	int64_t wall_us = clock_wall_us(e->options.clock), jump_us = wall_us - stored_us;
	char    stored[32], wall[32];

	time_set(e, wall_us > stored_us ? wall_us : stored_us);
	if (stored_us != 0 && jump_us >= SWEEP_GRACE_US) {
		e->clock_far = e->notes_waits = true;
		e->close_after_us =
		        wall_us + SWEEP_GRACE_US; /* a clock that is set too late is wrong until then */
	}
	if (stored_us == 0 ||
	    (jump_us <= e->options.clock_jump_max_us && -jump_us <= e->options.clock_jump_max_us))
		return ERR_NONE;
	time_text(stored_us, stored);
	time_text(wall_us, wall);
	if (!e->options.accept_clock)
		return err_set(
		        err, ERR_STORAGE,
		        "the clock says %s UTC, but the last commit in %s is of %s: set the clock right, or, "
		        "if it is right, start once with --accept-clock",
		        wall, e->options.path, stored);
	log_warn("the clock is accepted as it is: time goes from %s to %s UTC", stored, wall);
	time_set(e, wall_us);
	e->clock_accepted = e->clock_far = e->notes_waits = true;
	e->sweep_after_us = wall_us + SWEEP_GRACE_US;
	return ERR_NONE;
}

/* ---- replay: commits of the journal are put together in a turn, many at a time, so that a row that changed in many of
 * them is written once. Deleted ranges come last there, as in a commit: ids are never used again. ---- */

static struct turn *turn_make(struct engine *e)
{
	struct turn    *t = mem_zalloc(sizeof(*t));
	struct catalog *empty = catalog_make_empty();

	turn_init(t, e->hash_key);
	turn_begin(t, empty);
	catalog_release(empty);
	return t;
}

static void unwritten_release(struct turn *t)
{
	turn_release(t);
	free(t);
}

static void add_op(struct turn *t, const struct op *op)
{
	if (op->kind == OP_PUT)
		turn_put(t, op->key, op->value, TURN_SOMETHING);
	else if (op->kind == OP_DELETE)
		turn_delete(t, op->key, TURN_SOMETHING);
	else
		turn_delete_range(t, op->key, op->value);
}

static enum err_code add_record(struct turn *t, const struct record *r, struct err *err)
{
	struct turn_mark mark = turn_mark(t);
	struct bytes     body = r->body;
	struct op        op;

	while (body.len > 0) {
		if (!op_decode(&body, &op))
			return err_set(err, ERR_STORAGE, "commit %llu of the journal cannot be read",
			               (unsigned long long)r->number);
		add_op(t, &op);
	}
	turn_keep(t, mark);
	return ERR_NONE;
}

struct publisher {
	struct engine *engine;
	struct turn   *turn;
};

static enum err_code publish(struct publisher *p, struct err *err)
{
	enum err_code rc = write_back_publish(&p->engine->write_back, p->turn, err);

	unwritten_release(p->turn);
	p->turn = turn_make(p->engine);
	return rc;
}

static enum err_code publish_record(void *ctx, const struct record *r, struct err *err)
{
	struct publisher *p = ctx;

	if (add_record(p->turn, r, err) != ERR_NONE)
		return err->code;
	return p->turn->bytes < REPLAY_BYTES ? ERR_NONE : publish(p, err);
}

/* Publishes every commit of the journal from a place on, and says where the next is to be written. */
static enum err_code replay_publish(struct engine *e, const struct journal_site *site,
                                    const struct journal_place *from, struct journal_place *end,
                                    struct err *err)
{
	struct publisher      p = {e, turn_make(e)};
	struct journal_reader reader = {.ctx = &p, .each = publish_record};
	enum err_code         rc = journal_read(site, from, &reader, end, err);

	if (rc == ERR_NONE)
		rc = publish(&p, err);
	unwritten_release(p.turn);
	return rc;
}

static enum err_code hold_record(void *ctx, const struct record *r, struct err *err)
{
	return add_record(ctx, r, err);
}

/* A turn does not hide ranges of the store: each key is deleted by itself. */
static enum err_code delete_range(struct engine *e, const struct range_delete *d, struct err *err)
{
	struct engine_session s = {.engine = e, .turn = e->unwritten};
	struct view_cursor    c;
	struct bytes          key, value;
	enum err_code         rc;
	struct arena          a;

	arena_init(&a);
	view_cursor_open(&c, &s, NULL, &a, &(struct waiting_range){.low = d->low, .high = d->high});
	while (view_cursor_next(&c, &key, &value))
		turn_delete(e->unwritten, key, value);
	rc = view_cursor_check(&c, err);
	view_cursor_close(&c);
	arena_release(&a);
	return rc;
}

/* Sets e->unwritten, which has an empty catalog, to all of them. */
static enum err_code replay_hold(struct engine *e, const struct journal_site *site,
                                 const struct journal_place *from, struct err *err)
{
	struct journal_reader reader;
	struct journal_place  end;

	e->unwritten = turn_make(e);
	reader = (struct journal_reader){.ctx = e->unwritten, .each = hold_record};
	if (journal_read(site, from, &reader, &end, err) != ERR_NONE)
		return err->code;
	for (const struct range_delete *d = e->unwritten->ranges; d != NULL; d = d->next)
		if (delete_range(e, d, err) != ERR_NONE)
			return err->code;
	e->unwritten_rows = view_sorted(e->unwritten);
	return ERR_NONE;
}

/* ---- opening ---- */

enum err_code engine_journal_site(const char *path, char dir[PATH_MAX], struct journal_site *out,
                                  struct err *err)
{
	struct directory d;

	if (directory_read(path, &d, err) != ERR_NONE)
		return err->code;
	snprintf(dir, PATH_MAX, "%s/journal", path);
	*out = (struct journal_site){.dir = dir, .sealed = directory_names_have(&d.holds, "journal")};
	memcpy(out->id, d.id, sizeof(out->id));
	return ERR_NONE;
}

/* The first start of this format in the directory: a checkpoint lets go of segments that an older program wrote, and notes
 * where the journal begins. From then on all that is missing is known to be (J4), and nothing has been answered yet. */
static enum err_code hold_journal(struct engine *e, const struct journal_site *site, struct err *err)
{
	if (site->sealed)
		return ERR_NONE;
	if (checkpoint_run(e, err) != ERR_NONE ||
	    directory_add_held(e->options.path, "store", err) != ERR_NONE)
		return err->code;
	return directory_add_held(e->options.path, "journal", err);
}

void engine_note_waits(struct engine *e, struct turn *t)
{
	struct turn_mark mark = turn_mark(t);
	struct value     after = value_i64(e->sweep_after_us), close = value_i64(e->close_after_us);
	struct item      item = {0};
	struct buf       key, value;

	buf_init(&key, &t->arena);
	buf_init(&value, &t->arena);
	layout_meta(&key, META_SWEEP);
	item = item_with(&t->arena, &item, BYTES(META_SWEEP_AFTER), &after);
	item = item_with(&t->arena, &item, BYTES(META_SWEEP_CLOSE), &close);
	item_encode(&value, &item);
	turn_put(t, buf_bytes(&key), buf_bytes(&value), TURN_SOMETHING);
	turn_keep(t, mark);
}

static enum err_code note_run(struct turn_request *w, struct table *t)
{
	struct engine_session *s = (struct engine_session *)t;

	(void)w;
	engine_note_waits(s->engine, s->turn);
	return ERR_NONE;
}

/* A clock that is far from the last commit, or was accepted, is the time of a commit of its own, before anything is answered: what is absent at this time must not be
 * there again after a start with an earlier clock, and the next start need not ask again, even if nothing was written until then. The commit says until when nothing
 * is swept and no hour is closed, because that start is to wait as well. */
static enum err_code note_clock(struct engine *e, struct err *err)
{
	struct turn_request note = {.run = note_run};
	enum err_code       rc = e->clock_far ? engine_run(e, &note, err) : ERR_NONE;

	if (rc != ERR_DISK_FULL)
		return rc;
	log_warn("there is no room to store the time: the next commit does. If the clock is wrong and the "
	         "server restarts before, items that "
	         "have expired by now may be there again");
	return ERR_NONE;
}

static bool time_in(const struct item *item, const char *name, int64_t *out)
{
	const struct value *v = item_get(item, bytes_of(name));

	return v != NULL && v->type == VALUE_N && number_to_i64(&v->number, out);
}

/* What an earlier start noted, unless this one accepts another clock. Older programs noted no time for closing hours. */
static enum err_code load_waits(struct engine *e, struct err *err)
{
	int64_t       close_us = 0;
	struct arena  a;
	struct buf    key;
	struct item   item;
	bool          found = false;
	enum err_code rc;

	arena_init(&a);
	buf_init(&key, &a);
	layout_meta(&key, META_SWEEP);
	rc = view_item(e, &a, buf_bytes(&key), &item, &found, err);
	if (rc == ERR_NONE && found && !e->clock_accepted) {
		if (!time_in(&item, META_SWEEP_AFTER, &e->sweep_after_us))
			rc = err_set(err, ERR_STORAGE,
			             "the store's own record \"" META_SWEEP
			             "\" is damaged; run `gatehouse check`");
		if (time_in(&item, META_SWEEP_CLOSE, &close_us) && close_us > e->close_after_us)
			e->close_after_us = close_us;
	}
	arena_release(&a);
	return rc;
}

/* There is not even room to open the journal. What is there can be read; disk_watch sees to the rest. */
static enum err_code starve(struct engine *e)
{
	log_error("there is no room in the data directory: it is opened read-only until there is some");
	rocks_freeze(e->rocks);
	e->starved = true;
	atomic_store(&e->disk_full, true);
	return ERR_NONE;
}

/* What the journal holds is published again; it stays there until the next checkpoint. */
static enum err_code open_journal(struct engine *e, struct err *err)
{
	struct journal_options options = {e->options.journal_segment_bytes, e->options.journal_unit_bytes};
	struct journal_site    site;
	struct journal_place   from, end;
	char                   path[PATH_MAX];

	if (engine_journal_site(e->options.path, path, &site, err) != ERR_NONE ||
	    disk_sync_journal(path, err) != ERR_NONE || checkpoint_place(e->rocks, &from, err) != ERR_NONE ||
	    replay_publish(e, &site, &from, &end, err) != ERR_NONE)
		return err->code;
	if (time_begin(e, end.time_us, err) != ERR_NONE)
		return err->code;
	if (rocks_is_frozen(e->rocks) ||
	    journal_open(&e->journal, &site, &end, &options, err) == ERR_DISK_FULL)
		return starve(e);
	if (e->journal == NULL || file_sync_directory(e->options.path, err) != ERR_NONE)
		return err->code;
	journal_drop_before(e->journal, from.segment);
	atomic_store(&e->write_back.checkpoint_segment, from.segment);
	return hold_journal(e, &site, err);
}

/* Rows that wait in the cache are to leave most of it to those that are read. */
static size_t dirty_bytes_max(const struct engine_options *options)
{
	size_t share = options->cache_bytes_max / 4;

	return share < DIRTY_BYTES_MAX ? share : DIRTY_BYTES_MAX;
}

/* What the store may leave out when it merges files, as it is when it begins to (X2). */
static void *drops_begin(void *engine)
{
	return lapse_rule_take(engine);
}

static bool drops_row(const void *rule, struct bytes key, struct bytes value)
{
	return lapse_drops(rule, key, value);
}

static void drops_end(void *rule)
{
	lapse_rule_release(rule);
}

static enum err_code open_store(struct engine *e, struct err *err)
{
	struct rocks_options options = {.block_cache_bytes = e->options.block_cache_bytes,
	                                .reserve_bytes = e->options.disk_reserve_bytes,
	                                .file_bytes = e->options.store_file_bytes,
	                                .on_full = disk_is_full,
	                                .full_ctx = e,
	                                .drops = {e, drops_begin, drops_row, drops_end}};
	char                 path[PATH_MAX];

	options.tight = disk_make_room(e->options.path, e->options.disk_reserve_bytes);
	snprintf(path, sizeof(path), "%s/store", e->options.path);
	if (manifest_pass_over(e->options.path, err) != ERR_NONE ||
	    rocks_open(&e->rocks, path, &options, err) != ERR_NONE)
		return err->code;
	write_back_init(&e->write_back, e, dirty_bytes_max(&e->options));
	if (open_journal(e, err) != ERR_NONE || catalog_load(e, err) != ERR_NONE ||
	    load_waits(e, err) != ERR_NONE)
		return err->code;
	rocks_be_patient(e->rocks, true);
	return ERR_NONE;
}

static struct hash_key hash_key_random(void)
{
	struct hash_key key;

	random_bytes(&key, sizeof(key));
	return key;
}

static struct engine *engine_make(const struct engine_options *options)
{
	struct engine *e = mem_zalloc(sizeof(*e));

	e->store.backend = &engine_store_backend;
	e->options = *options;
	e->lock_fd = -1;
	pthread_mutex_init(&e->catalog_lock, NULL);
	e->hash_key = hash_key_random();
	e->cache = cache_open(options->cache_bytes_max, e->hash_key);
	e->counts = counts_open();
	lapse_init(&e->lapse);
	e->change_log = mem_zalloc(sizeof(*e->change_log));
	return e;
}

static enum err_code open_reading(struct engine *e, struct err *err)
{
	struct journal_site  site;
	struct journal_place from;
	struct manifest      manifest;
	char                 store[PATH_MAX], journal[PATH_MAX];

	snprintf(store, sizeof(store), "%s/store", e->options.path);
	if ((e->lock_fd < 0 && disk_claim_existing(e->options.path, &e->lock_fd, err) != ERR_NONE) ||
	    manifest_check(e->options.path, &manifest, err) != ERR_NONE ||
	    engine_journal_site(e->options.path, journal, &site, err) != ERR_NONE ||
	    rocks_open_read_only(&e->rocks, store, e->options.block_cache_bytes, err) != ERR_NONE)
		return err->code;
	write_back_init(&e->write_back, e, 0);
	if (checkpoint_place(e->rocks, &from, err) != ERR_NONE)
		return err->code;
	return replay_hold(e, &site, &from, err);
}

enum err_code engine_open_reading(struct engine **out, const char *path, int lock_fd, struct err *err)
{
	struct engine_options options = engine_options_default(path);
	struct engine        *e = engine_make(&options);

	e->lock_fd = lock_fd;
	if (open_reading(e, err) != ERR_NONE) {
		engine_close(e);
		return err->code;
	}
	*out = e;
	return ERR_NONE;
}

enum err_code engine_open(struct engine **out, const struct engine_options *options, struct err *err)
{
	struct engine *e = engine_make(options);

	if (options->filter_bytes_max > 0)
		e->filter = filter_open(options->filter_bytes_max);
	if (disk_claim(options->path, options->disk_reserve_bytes, &e->lock_fd, err) != ERR_NONE ||
	    open_store(e, err) != ERR_NONE || writer_open(&e->writer, e, err) != ERR_NONE ||
	    (e->filter != NULL && filter_builder_open(&e->filter_builder, e, err) != ERR_NONE) ||
	    ticker_open(&e->ticker, e, err) != ERR_NONE || note_clock(e, err) != ERR_NONE) {
		engine_close(e);
		return err->code;
	}
	disk_watch(e);
	*out = e;
	return ERR_NONE;
}

/* ---- closing ---- */

/* All into the store's files, so that the next one to open them need not read the journal. After a failure the
 * journal alone knows what is committed. */
static void close_journal(struct engine *e, bool complete)
{
	struct err err;

	if (complete &&
	    (journal_next_segment(e->journal, &err) != ERR_NONE || checkpoint_run(e, &err) != ERR_NONE))
		log_warn("the last checkpoint failed, and the next start reads the journal instead: %s",
		         err.text);
	journal_close(e->journal);
}

void engine_close(struct engine *e)
{
	bool complete = false;

	if (e->rocks != NULL)
		rocks_be_patient(e->rocks, false); /* nobody is to wait for room now */
	if (e->ticker != NULL)
		ticker_stop(e->ticker);
	if (e->filter_builder != NULL)
		filter_builder_close(e->filter_builder);
	if (e->writer != NULL)
		complete = writer_close(e->writer);
	if (e->ticker != NULL)
		ticker_close(e->ticker); /* the writer may have woken it until now */
	if (e->catalog != NULL)
		catalog_release(e->catalog);
	if (e->journal != NULL)
		close_journal(e, complete);
	if (e->unwritten != NULL)
		unwritten_release(e->unwritten);
	if (e->rocks != NULL) {
		rocks_stop(e->rocks); /* it may have rows of the tail in use */
		write_back_release(&e->write_back);
		rocks_close(e->rocks);
	}
	lapse_release(&e->lapse);
	counts_close(e->counts);
	free(e->change_log);
	cache_close(e->cache);
	if (e->filter != NULL)
		filter_close(e->filter);
	pthread_mutex_destroy(&e->catalog_lock);
	if (e->lock_fd >= 0)
		close(e->lock_fd);
	free(e);
}
