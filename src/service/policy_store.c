/* The policy store: a file, a table, or the defaults. */
#include "service/policy_store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "json/json.h"
#include "json/write.h"
#include "json/yaml.h"
#include "service/event.h"
#include "service/rules.h"

struct policy_store {
	const struct document_kind *kinds;
	unsigned                    count;
	const char                 *file; /* NULL: none */

	/* the thread that refreshes only */
	struct stat read;   /* of the file that was read last, good or not; of none: zeros */
	bool        gone;   /* the file was not there when it was looked at last */
	bool        unkept; /* what the file says is not in the table yet */
	bool        waits;  /* whether the file may come into force is not known yet */

	/* the thread that loads, and follows */
	int64_t changes; /* of those that were PUT, the last time that all were read (policy_rows.h) */
	bool    loaded;
	struct document *replaced; /* policy_store_replaced */

	/* any thread */
	atomic_bool           file_refused;
	atomic_uint           stored_refused; /* a bit a kind */
	struct metric_counter failures;
};

/* ---- trees to documents ---- */

static void text_keep(struct document *d, const struct json *tree)
{
	struct json_writer w;
	struct buf         out;

	buf_init(&out, &d->arena);
	json_writer_init(&w, &out);
	json_tree(&w, tree);
	d->text = buf_bytes(&out);
}

/* All sections or none: documents are put into force only when every one is good. */
static enum err_code parse_sections(const struct policy_store *s, const struct json *tree,
                                    enum document_origin origin, struct document *made[POLICY_KINDS_MAX],
                                    struct err *err)
{
	struct fields f;
	struct err    wrong;

	fields_init(&f, tree, err);
	for (unsigned i = 0; i < s->count; i++) {
		const struct json *section = fields_get(&f, s->kinds[i].name);

		made[i] = NULL;
		if (section == NULL || fields_failed(&f))
			continue;
		if (s->kinds[i].parse(section, &made[i], &wrong) != ERR_NONE) {
			fields_adopt(&f, s->kinds[i].name, &wrong);
			continue;
		}
		made[i]->origin = origin;
		text_keep(made[i], section);
	}
	return fields_end(&f);
}

/* What ships, where there is no document yet. */
static enum err_code fill_up(const struct policy_store *s, struct document *made[POLICY_KINDS_MAX],
                             struct err *err)
{
	struct document *shipped[POLICY_KINDS_MAX] = {NULL};
	struct arena     a;
	struct json     *tree;
	enum err_code    rc;

	arena_init(&a);
	rc = yaml_read(&a, policy_defaults(), &tree, err);
	if (rc == ERR_NONE)
		rc = parse_sections(s, tree, DOCUMENT_SHIPPED, shipped, err);
	for (unsigned i = 0; i < s->count; i++) {
		if (made[i] == NULL)
			made[i] = shipped[i];
		else
			document_release(shipped[i]);
	}
	arena_release(&a);
	return rc;
}

static void release_all(const struct policy_store *s, struct document *made[POLICY_KINDS_MAX])
{
	for (unsigned i = 0; i < s->count; i++)
		document_release(made[i]);
}

enum err_code policy_store_shipped(const struct policy_store *s, const struct document_kind *kind,
                                   struct document **out, struct err *err)
{
	struct document *made[POLICY_KINDS_MAX] = {NULL};
	unsigned         which = (unsigned)(kind - s->kinds);
	enum err_code    rc = fill_up(s, made, err);

	if (rc == ERR_NONE) {
		*out = made[which];
		made[which] = NULL;
	}
	release_all(s, made);
	return rc;
}

static void inherit(const struct document_kind *kind, struct document *d)
{
	struct document *now = document_acquire(kind->holder);

	if (kind->inherit != NULL)
		kind->inherit(d, now);
	document_release(now);
}

static void put_into_force(const struct document_kind *kind, struct document *d)
{
	inherit(kind, d);
	document_put(kind->holder, d);
	if (kind->changed != NULL)
		kind->changed(kind->ctx);
}

/* ---- the file ---- */

static enum err_code text_read(const char *path, struct arena *a, struct bytes *out, struct stat *st,
                               struct err *err)
{
	char   *text = arena_alloc(a, POLICY_DOCUMENT_BYTES_MAX + 1);
	size_t  len = 0;
	ssize_t n;
	int     fd;

	if (file_open_now(path, O_RDONLY, &fd, err) != ERR_NONE)
		return err->code = ERR_INVALID;
	if (fstat(fd, st) != 0) {
		close(fd);
		return err_set(err, ERR_INVALID, "%s: %s", path, strerror(errno));
	}
	while ((n = read(fd, text + len, POLICY_DOCUMENT_BYTES_MAX + 1 - len)) > 0)
		len += (size_t)n;
	if (n < 0)
		err_set(err, ERR_INVALID, "%s: %s", path, strerror(errno));
	close(fd);
	if (n < 0)
		return err->code;
	if (len > POLICY_DOCUMENT_BYTES_MAX)
		return err_set(err, ERR_INVALID, "%s: must have at most %d bytes", path,
		               POLICY_DOCUMENT_BYTES_MAX);
	*out = (struct bytes){text, len};
	return ERR_NONE;
}

/* After the one in force, or not at all if it says the same. */
static void file_put(struct policy_store *s, const struct document_kind *kind, struct document *d)
{
	struct document *now = document_acquire(kind->holder);
	int64_t          changed_s = s->read.st_mtim.tv_sec;
	bool             same = now->origin == d->origin && bytes_equal(now->text, d->text);

	if (d->origin == DOCUMENT_FILE)
		d->version = changed_s > now->version ? changed_s : now->version + 1;
	document_release(now);
	if (same) {
		document_release(d);
		return;
	}
	put_into_force(kind, d);
	s->unkept = true;
}

static enum err_code file_parse(const struct policy_store *s, struct bytes text,
                                struct document *made[POLICY_KINDS_MAX], struct err *err)
{
	struct arena  a;
	struct json  *tree;
	enum err_code rc;

	arena_init(&a);
	rc = yaml_read(&a, text, &tree, err);
	if (rc == ERR_NONE)
		rc = parse_sections(s, tree, DOCUMENT_FILE, made, err);
	if (rc == ERR_NONE)
		rc = fill_up(s, made, err);
	arena_release(&a);
	return rc;
}

/* What the one in force bequeaths, and whether it may be replaced. */
static enum err_code file_check(const struct document_kind *kind, struct document *next,
                                const struct policy_check *check, struct err *err)
{
	struct document *now;
	enum err_code    rc;

	if (kind->heritage == NULL || check == NULL)
		return ERR_NONE;
	now = document_acquire(kind->holder);
	kind->heritage->inherit(next, now, check->now_s);
	rc = check->allows(check->arg, now, next, err);
	document_release(now);
	return rc;
}

static enum err_code file_install(struct policy_store *s, const struct policy_check *check, struct err *err)
{
	struct document *made[POLICY_KINDS_MAX] = {NULL};
	struct arena     a;
	struct bytes     text;
	struct err       why;
	enum err_code    rc;

	arena_init(&a);
	rc = text_read(s->file, &a, &text, &s->read, err);
	if (rc == ERR_NONE && file_parse(s, text, made, &why) != ERR_NONE)
		rc = err_field(err, why.code, why.field, "%s: %s", s->file, why.text);
	for (unsigned i = 0; i < s->count && rc == ERR_NONE; i++)
		if (file_check(&s->kinds[i], made[i], check, &why) != ERR_NONE)
			rc = err_set(err, why.code, "%s: %s", s->file, why.text);
	for (unsigned i = 0; i < s->count && rc == ERR_NONE; i++) {
		file_put(s, &s->kinds[i], made[i]);
		made[i] = NULL;
	}
	release_all(s, made);
	arena_release(&a);
	return rc;
}

static bool file_is_as_read(const struct policy_store *s, const struct stat *st)
{
	return st->st_ino == s->read.st_ino && st->st_size == s->read.st_size &&
	       st->st_mtim.tv_sec == s->read.st_mtim.tv_sec && st->st_mtim.tv_nsec == s->read.st_mtim.tv_nsec;
}

static void file_refuse(struct policy_store *s, const char *why)
{
	atomic_store(&s->file_refused, true);
	metric_add(&s->failures, 1);
	log_error("the policy file was not reloaded, and the previous policies stay in force: %s", why);
}

/* An editor may put a new file in the place of the old one, and be seen in between: a file that is gone is told of only when
 * it is still gone the next time. */
static void file_missing(struct policy_store *s)
{
	struct err err;

	if (s->gone && s->read.st_ino != 0) {
		memset(&s->read, 0, sizeof(s->read)); /* whatever comes back is read */
		err_set(&err, ERR_INVALID, "%s: %s", s->file, strerror(ENOENT));
		file_refuse(s, err.text);
	}
	s->gone = true;
}

/* It is looked at again the next time. */
static void file_wait(struct policy_store *s, const char *why)
{
	if (!s->waits)
		log_warn("the policy file was not reloaded yet: the locks that it would end could not be "
		         "counted; it is tried again every second: %s",
		         why);
	memset(&s->read, 0, sizeof(s->read));
	s->waits = true;
}

static bool is_about_file(enum err_code code)
{
	return code == ERR_INVALID || code == ERR_SERIALIZATION || code == ERR_LOCKS_END;
}

void policy_store_refresh(struct policy_store *s, const struct policy_check *check)
{
	struct stat st;
	struct err  err;

	if (s->file == NULL)
		return;
	if (stat(s->file, &st) != 0) {
		file_missing(s);
		return;
	}
	s->gone = false;
	if (file_is_as_read(s, &st))
		return;
	if (file_install(s, check, &err) != ERR_NONE) {
		if (is_about_file(err.code))
			file_refuse(s, err.text);
		else
			file_wait(s, err.text);
		return;
	}
	s->waits = false;
	atomic_store(&s->file_refused, false);
	log_info("reloaded the policy file");
}

/* ---- opening ---- */

enum err_code policy_store_open(struct policy_store **out, const struct document_kind *kinds, unsigned count,
                                const char *file, struct err *err)
{
	struct policy_store *s = mem_zalloc(sizeof(*s));
	struct document     *made[POLICY_KINDS_MAX] = {NULL};
	enum err_code        rc;

	*s = (struct policy_store){.kinds = kinds, .count = count, .file = file};
	for (unsigned i = 0; i < count; i++)
		document_holder_init(kinds[i].holder);
	rc = fill_up(s, made, err);
	for (unsigned i = 0; i < count && rc == ERR_NONE; i++) {
		document_put(kinds[i].holder, made[i]);
		made[i] = NULL;
	}
	release_all(s, made);
	if (rc == ERR_NONE && file != NULL)
		rc = file_install(s, NULL, err);
	if (rc != ERR_NONE) {
		policy_store_close(s);
		return rc;
	}
	*out = s;
	return ERR_NONE;
}

void policy_store_close(struct policy_store *s)
{
	for (unsigned i = 0; i < s->count; i++)
		document_holder_release(s->kinds[i].holder);
	document_release(s->replaced);
	free(s);
}

const char *policy_store_file(const struct policy_store *s)
{
	return s->file;
}

const struct document_kind *policy_store_kind(const struct policy_store *s, struct bytes name)
{
	for (unsigned i = 0; i < s->count; i++)
		if (bytes_is(name, s->kinds[i].name))
			return &s->kinds[i];
	return NULL;
}

struct policy_health policy_store_health(const struct policy_store *s)
{
	return (struct policy_health){.refused = atomic_load(&s->file_refused) ||
	                                         atomic_load(&s->stored_refused) != 0,
	                              .failures = metric_value(&s->failures)};
}

/* ---- what was PUT ---- */

static unsigned bit_of(const struct policy_store *s, const struct document_kind *kind)
{
	return 1u << (kind - s->kinds);
}

/* A version as it is stored, or NULL if it cannot be understood. */
static struct document *stored_parse(const struct document_kind *kind, const struct policy_version *stored,
                                     struct arena *a, struct err *err)
{
	struct json_reader *reader = json_reader_open();
	struct json        *tree;
	struct document    *d = NULL;

	if (json_read(reader, a, stored->text, &tree, err) == ERR_NONE &&
	    kind->parse(tree, &d, err) == ERR_NONE) {
		d->version = stored->version;
		text_keep(d, tree);
		if (kind->heritage != NULL)
			kind->heritage->read(d, stored->heritage);
	}
	json_reader_close(reader);
	return d;
}

/* What is in force stays so under another version: a document never changes, so this is a new one that says the same. */
static struct document *again(const struct document_kind *kind, struct arena *a, int64_t version)
{
	struct document      *now = document_acquire(kind->holder), *d;
	struct policy_version same = {.version = version, .text = now->text};
	struct err            err;

	if (kind->heritage != NULL)
		same.heritage = kind->heritage->write(now, a);
	d = stored_parse(kind, &same, a, &err);
	assert(d != NULL); /* it was read from the same text before */
	d->origin = now->origin;
	document_release(now);
	return d;
}

/* What is stored cannot be understood, maybe by this version only: what is in force stays, under the stored version, so that
 * a PUT can replace it. Not serving would be worse. */
static void load_failed(struct policy_store *s, const struct document_kind *kind, struct document *same,
                        const struct err *err)
{
	policy_store_install(s, kind, same);
	atomic_fetch_or(&s->stored_refused, bit_of(s, kind));
	log_error("the stored policies \"%s\" are not valid, and the previous or built-in ones are in force "
	          "until "
	          "you PUT valid ones: %s",
	          kind->name, err->text);
}

static void load_stored(struct policy_store *s, const struct document_kind *kind,
                        const struct policy_version *stored, struct arena *a)
{
	struct err       err;
	struct document *d = stored_parse(kind, stored, a, &err);

	if (d != NULL)
		policy_store_install(s, kind, d);
	else
		load_failed(s, kind, again(kind, a, stored->version), &err);
}

enum err_code policy_store_version(struct context *ctx, const struct document_kind *kind, int64_t version,
                                   struct document **out, struct err *err)
{
	struct policy_version stored;
	enum err_code         rc = policy_rows_find(ctx, kind->name, version, &stored, err);

	*out = NULL;
	if (rc == ERR_NONE && (version == 0 || (stored.found && stored.origin == DOCUMENT_SHIPPED)))
		rc = policy_store_shipped(ctx->services->policies, kind, out, err);
	else if (rc == ERR_NONE && stored.found &&
	         (*out = stored_parse(kind, &stored, ctx->arena, err)) == NULL)
		rc = err->code;
	if (rc == ERR_NONE && *out != NULL)
		(*out)->version = version;
	return rc;
}

/* After a DELETE what ships is in force, with this program, under the version that the DELETE made. */
static enum err_code load_shipped(struct policy_store *s, const struct document_kind *kind,
                                  const struct policy_version *stored, struct err *err)
{
	struct document *d;

	if (policy_store_shipped(s, kind, &d, err) != ERR_NONE)
		return err->code;
	d->version = stored->version;
	if (kind->heritage != NULL)
		kind->heritage->read(d, stored->heritage);
	policy_store_install(s, kind, d);
	return ERR_NONE;
}

static bool is_newer(const struct document_kind *kind, int64_t version)
{
	struct document *now = document_acquire(kind->holder);
	bool             newer = version > now->version;

	document_release(now);
	return newer;
}

static enum err_code load_put(struct policy_store *s, const struct document_kind *kind,
                              const struct policy_version *stored, struct context *ctx, struct err *err)
{
	if (!is_newer(kind, stored->version))
		return ERR_NONE;
	if (stored->origin == DOCUMENT_SHIPPED)
		return load_shipped(s, kind, stored, err);
	load_stored(s, kind, stored, ctx->arena);
	return ERR_NONE;
}

/* The version under which the table has what the file says; or one above all it has. */
static void load_file(struct policy_store *s, const struct document_kind *kind,
                      const struct policy_version *stored)
{
	struct document *d = document_acquire(kind->holder);

	if (d->origin == DOCUMENT_FILE && bytes_equal(stored->text, d->text))
		d->version = stored->version; /* nobody else is there yet */
	else if (d->origin == DOCUMENT_FILE && d->version <= stored->version)
		d->version = stored->version + 1;
	document_release(d);
	s->unkept = true;
}

/* ---- what goes on holding of the policies that were in force before a start ---- */

/* The later of two; neither may be there. */
static const struct policy_version *later(const struct policy_version *a, const struct policy_version *b)
{
	return !b->found || (a->found && a->set_s > b->set_s) ? a : b;
}

/* Nobody else is there yet: the one in force may still be changed. */
static enum err_code was_inherit(struct policy_store *s, const struct document_kind *kind,
                                 const struct policy_version *was, struct context *ctx, struct err *err)
{
	struct document *now, *old = NULL;

	if (was->found)
		old = stored_parse(kind, was, ctx->arena, err);
	else if (policy_store_shipped(s, kind, &old, err) != ERR_NONE)
		return err->code;
	if (old == NULL)
		return ERR_NONE; /* what nobody understands has set no lock */
	now = document_acquire(kind->holder);
	kind->heritage->inherit(now, old, ctx->now_s);
	document_release(now);
	document_release(s->replaced);
	s->replaced = old;
	return ERR_NONE;
}

static enum err_code load_heritage(struct policy_store *s, const struct document_kind *kind,
                                   struct context *ctx, struct err *err)
{
	struct policy_version        file, put;
	const struct policy_version *own = s->file != NULL ? &file : &put, *was;
	struct document             *now;
	bool                         same;

	if (policy_rows_newest(ctx, kind->name, PLACE_FILE, &file, err) != ERR_NONE ||
	    policy_rows_newest(ctx, kind->name, PLACE_PUT, &put, err) != ERR_NONE)
		return err->code;
	was = later(&file, &put);
	now = document_acquire(kind->holder);
	same = own->found && bytes_equal(own->text, now->text);
	if (same && own == &file)
		kind->heritage->read(now, own->heritage);
	same = was->found ? same && was == own : now->origin == DOCUMENT_SHIPPED;
	document_release(now);
	return same ? ERR_NONE : was_inherit(s, kind, was, ctx, err);
}

struct document *policy_store_replaced(struct policy_store *s)
{
	struct document *old = s->replaced;

	s->replaced = NULL;
	return old;
}

/* The count first: what is PUT meanwhile is read the next time, if not now. */
enum err_code policy_store_load(struct policy_store *s, struct context *ctx, struct err *err)
{
	enum policy_place     place = s->file != NULL ? PLACE_FILE : PLACE_PUT;
	struct policy_version stored;
	int64_t               changes = 0;

	if (place == PLACE_PUT && policy_rows_changes(ctx, &changes, err) != ERR_NONE)
		return err->code;
	for (unsigned i = 0; i < s->count; i++) {
		if (policy_rows_newest(ctx, s->kinds[i].name, place, &stored, err) != ERR_NONE)
			return err->code;
		if (stored.found && place == PLACE_FILE)
			load_file(s, &s->kinds[i], &stored);
		else if (stored.found && load_put(s, &s->kinds[i], &stored, ctx, err) != ERR_NONE)
			return err->code;
		if (!s->loaded && s->kinds[i].heritage != NULL &&
		    load_heritage(s, &s->kinds[i], ctx, err) != ERR_NONE)
			return err->code;
	}
	s->loaded = true;
	s->changes = changes;
	return ERR_NONE;
}

enum err_code policy_store_follow(struct policy_store *s, struct context *ctx, struct err *err)
{
	int64_t changes;

	if (s->file != NULL)
		return ERR_NONE;
	if (policy_rows_changes(ctx, &changes, err) != ERR_NONE)
		return err->code;
	return changes == s->changes ? ERR_NONE : policy_store_load(s, ctx, err);
}

static void change_publish(struct context *ctx, const char *kind, const struct policy_version *next)
{
	struct event e = {.type = EVENT_POLICY_CHANGED};
	struct row   data;

	if (!ctx_publishes(ctx, e.type))
		return;
	e.subject = arena_printf(ctx->arena, "policy:%s", kind);
	row_init(&data, ctx->arena);
	row_set_text(&data, "name", bytes_of(kind));
	row_set_i64(&data, "version", next->version);
	row_set_text(&data, "origin", bytes_of(document_origin_name(next->origin)));
	e.data = row_item(&data);
	ctx_publish(ctx, &e);
}

/* What it replaces: the one in force here, or one that another process has PUT and that is not in force here yet. */
static struct document *bequeath(struct context *ctx, const struct policy_change *p,
                                 const struct policy_version *stored)
{
	struct document *old = document_acquire(p->kind->holder), *newer = NULL;
	struct err       unread;

	if (stored->found && stored->version > old->version)
		newer = stored_parse(p->kind, stored, ctx->arena, &unread);
	if (newer != NULL) {
		document_release(old);
		old = newer;
	}
	p->kind->heritage->drop(p->next); /* it may be decided anew */
	p->kind->heritage->inherit(p->next, old, ctx->now_s);
	return old;
}

enum err_code policy_store_change(struct context *ctx, const struct policy_change *p,
                                  struct document **replaced, struct err *err)
{
	struct document      *d;
	struct policy_version old, next = {.origin = p->origin, .text = p->text, .set_s = ctx->now_s};
	int64_t               now, changes;

	*replaced = NULL;

	if (policy_rows_newest(ctx, p->kind->name, PLACE_PUT, &old, err) != ERR_NONE ||
	    policy_rows_changes(ctx, &changes, err) != ERR_NONE)
		return err->code;
	d = document_acquire(p->kind->holder);
	now = old.found && old.version > d->version ? old.version : d->version;
	document_release(d); /* the table may have been deleted since: the later of the two counts */
	if (now != p->read)
		return err_field(
		        err, ERR_STALE, "If-Match",
		        "If-Match: not the current version; GET the policies again for the current ETag");
	next.version = p->read + 1;
	if (p->kind->heritage != NULL) {
		*replaced = bequeath(ctx, p, &old);
		next.heritage = p->kind->heritage->write(p->next, ctx->arena);
	}
	policy_rows_replace(ctx, p->kind->name, PLACE_PUT, &old, &next);
	policy_rows_count(ctx, changes + 1);
	change_publish(ctx, p->kind->name, &next);
	return ERR_NONE;
}

void policy_store_install(struct policy_store *s, const struct document_kind *kind, struct document *d)
{
	inherit(kind, d);
	if (!document_put_newer(kind->holder, d))
		return;
	atomic_fetch_and(&s->stored_refused, ~bit_of(s, kind));
	if (kind->changed != NULL)
		kind->changed(kind->ctx);
}

/* ---- versions of the file ---- */

bool policy_store_unkept(const struct policy_store *s)
{
	return s->unkept;
}

void policy_store_kept(struct policy_store *s)
{
	s->unkept = false;
}

static enum err_code keep_one(struct context *ctx, const struct document_kind *kind, const struct document *d,
                              struct err *err)
{
	struct policy_version old, next = {.version = d->version,
	                                   .origin = d->origin,
	                                   .set_s = ctx->now_s,
	                                   .text = arena_copy(ctx->arena, d->text)};

	if (kind->heritage != NULL)
		next.heritage = kind->heritage->write(d, ctx->arena);
	if (policy_rows_newest(ctx, kind->name, PLACE_FILE, &old, err) != ERR_NONE)
		return err->code;
	if (d->origin == DOCUMENT_FILE && !(old.found && old.version == next.version)) {
		policy_rows_replace(ctx, kind->name, PLACE_FILE, &old, &next);
		change_publish(ctx, kind->name, &next);
	}
	return ERR_NONE;
}

enum err_code policy_store_keep(const struct policy_store *s, struct context *ctx, struct err *err)
{
	enum err_code rc = ERR_NONE;

	for (unsigned i = 0; i < s->count && rc == ERR_NONE; i++) {
		struct document *d = document_acquire(s->kinds[i].holder);

		rc = keep_one(ctx, &s->kinds[i], d, err);
		document_release(d);
	}
	return rc;
}
