/* Check: see check.h. An engine without a writer and a ticker: there is no thread that could change anything. */
#include "engine/check.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/seal.h"
#include "engine/disk.h"
#include "engine/manifest.h"
#include "engine/turn.h"

struct check {
	const char               *store; /* its directory */
	struct engine            *engine;
	const struct check_watch *watch;
	struct check_found       *found;
	uint64_t                  bytes_all, keys_all; /* files, and an estimate */
};

static unsigned percent(uint64_t part, uint64_t whole, unsigned most)
{
	uint64_t share = whole == 0 ? 0 : part * 100 / whole;

	return share < most ? (unsigned)share : most;
}

static void add_bytes(void *ctx, const char *name, uint64_t bytes)
{
	struct check *c = ctx;

	(void)name;
	c->bytes_all += bytes;
}

/* `name` begins with a slash. */
static void verify_file(void *ctx, const char *name, uint64_t bytes)
{
	struct check *c = ctx;
	struct err    err;
	char          path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s", c->store, name);
	disk_forget(path);
	c->found->files++;
	c->found->bytes += bytes;
	if (rocks_file_verify(path, &err) != ERR_NONE) {
		c->found->damaged_files++;
		c->watch->problem(c->watch->ctx, err.text);
	}
	c->watch->progress(c->watch->ctx, CHECK_BLOCKS, percent(c->found->bytes, c->bytes_all, 100),
	                   c->found);
}

static void check_blocks(struct check *c)
{
	c->watch->progress(c->watch->ctx, CHECK_BLOCKS, 0, c->found);
	rocks_each_file(c->engine->rocks, add_bytes, c);
	rocks_each_file(c->engine->rocks, verify_file, c);
	c->watch->progress(c->watch->ctx, CHECK_BLOCKS, 100, c->found);
}

static void on_bad_seal(void *ctx, const char *text)
{
	struct check *c = ctx;

	c->found->damaged_seals++;
	c->watch->problem(c->watch->ctx, text);
}

/* The store could not be opened. If a file of it is damaged, that is why: the store's own message may name another
 * file, whose reading led it there. Not while someone has the directory open, and is writing files. */
static bool find_damaged(struct check *c, const char *path)
{
	DIR           *dir = opendir(c->store);
	struct dirent *d;
	struct err     err;
	char           name[PATH_MAX];
	int            lock_fd;

	if (dir == NULL)
		return false;
	if (disk_claim_existing(path, &lock_fd, &err) == ERR_NONE) {
		seal_check(path, on_bad_seal, c, &c->found->sealed, &err);
		while ((d = readdir(dir)) != NULL) {
			snprintf(name, sizeof(name), "/%s", d->d_name);
			if (strlen(name) > 4 && strcmp(name + strlen(name) - 4, ".sst") == 0)
				verify_file(c, name, 0);
		}
		close(lock_fd);
	}
	closedir(dir);
	return c->found->damaged_files > 0;
}

static void on_step(void *ctx, const struct verify_counts *n)
{
	struct check *c = ctx;

	c->watch->progress(c->watch->ctx, CHECK_ROWS,
	                   percent(n->rows + n->index_entries + n->expiry_entries, c->keys_all, 99),
	                   c->found);
}

static void on_difference(void *ctx, const char *text)
{
	struct check *c = ctx;

	c->watch->problem(c->watch->ctx, text);
}

/* Counts are compared only if all else agrees: a row or an entry too many or too few makes them wrong, too. */
static enum err_code compare_rows(struct check *c, struct counts *counted, struct err *err)
{
	struct engine      *e = c->engine;
	struct verify_watch watch = {.ctx = c, .step = on_step, .differ = on_difference, .tally = counted};
	struct verify_tally tally = {.is = counted, .said = e->counts, .differ = on_difference, .ctx = c};
	struct err          wrong;

	if (catalog_load(e, err) != ERR_NONE ||
	    verify_all(e, e->catalog, NULL, &watch, &c->found->counts, err) != ERR_NONE)
		return err->code;
	tally.catalog = e->catalog;
	if (c->found->counts.differences == 0)
		c->found->counts.differences += verify_tally(&tally, &wrong);
	return ERR_NONE;
}

static enum err_code check_rows(struct check *c, struct err *err)
{
	struct counts *counted = counts_open();
	enum err_code  rc;

	c->keys_all = rocks_keys_estimate(c->engine->rocks);
	rc = compare_rows(c, counted, err);
	counts_close(counted);
	if (rc != ERR_NONE)
		return rc;
	c->found->compared = true;
	c->watch->progress(c->watch->ctx, CHECK_ROWS, 100, c->found);
	return ERR_NONE;
}

/* With what the store's files lack, as a start would find them. */
static enum err_code check_more(struct check *c, struct err *err)
{
	struct turn          *unwritten = c->engine->unwritten;
	const struct catalog *empty = unwritten->catalog;
	struct engine_session session;
	enum err_code         rc;

	if (c->watch->rows == NULL || !c->found->compared || c->found->counts.differences > 0)
		return ERR_NONE;
	engine_session_init(&session, c->engine);
	session.turn = unwritten;
	unwritten->catalog = session.catalog;
	rc = c->watch->rows(c->watch->ctx, &session.base, err);
	unwritten->catalog = empty;
	engine_session_release(&session);
	return rc;
}

static enum err_code check_run(struct check *c, struct err *err)
{
	struct manifest m;

	if (manifest_look(c->store, &m, err) != ERR_NONE)
		return err->code;
	c->found->torn_bytes = m.bytes - m.sound;
	if (seal_check(c->engine->options.path, on_bad_seal, c, &c->found->sealed, err) != ERR_NONE)
		return err->code;
	check_blocks(c);
	if (c->found->damaged_files > 0)
		return ERR_NONE;
	return check_rows(c, err) == ERR_NONE ? check_more(c, err) : err->code;
}

enum err_code engine_check(const char *path, const struct check_watch *watch, struct check_found *found,
                           struct err *err)
{
	char          store[PATH_MAX];
	struct check  c = {.store = store, .watch = watch, .found = found};
	enum err_code rc;

	*found = (struct check_found){0};
	snprintf(store, sizeof(store), "%s/store", path);
	if (engine_open_reading(&c.engine, path, -1, err) != ERR_NONE)
		return find_damaged(&c, path) ? ERR_NONE : err->code;
	rc = check_run(&c, err);
	engine_close(c.engine);
	return rc;
}
