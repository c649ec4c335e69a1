/* Identity: reading the file and its sections, and noticing changes. See identity.h. */
#include "server/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metric.h"
#include "json/yaml.h"

static const struct identity_section *const sections[IDENTITY_SECTION_COUNT] = {
        [IDENTITY_ISSUERS] = &identity_issuers,
        [IDENTITY_PROVIDERS] = &identity_providers,
        [IDENTITY_CODES] = &identity_codes,
        [IDENTITY_PUSH] = &identity_push,
};

/* One file as it was when it was read: by this it is known whether it has changed. */
struct file_state {
	char     path[IDENTITY_PATH_MAX];
	bool     there;
	uint64_t inode;
	int64_t  size, changed_s, changed_ns;
};

/* All files that the last reading touched; the first is the identity file itself. */
struct identity_seen {
	uint32_t          count;
	struct file_state files[1 + IDENTITY_FILES_MAX];
};

struct identity {
	const char            *file; /* NULL: none */
	struct clock          *clock;
	struct identity_target target;

	/* the thread that refreshes only */
	struct identity_seen *seen;
	bool                  gone; /* the file was not there when it was looked at last */

	/* any thread */
	atomic_bool           refused;
	struct metric_counter failures;
};

/* ---- files ---- */

static struct file_state state_of(const char *path)
{
	struct file_state s = {.there = false};
	struct stat       st;

	snprintf(s.path, sizeof(s.path), "%s", path);
	if (stat(path, &st) != 0)
		return s;
	s.there = true;
	s.inode = st.st_ino;
	s.size = st.st_size;
	s.changed_s = st.st_mtim.tv_sec;
	s.changed_ns = st.st_mtim.tv_nsec;
	return s;
}

static bool state_equal(const struct file_state *a, const struct file_state *b)
{
	return a->there == b->there && a->inode == b->inode && a->size == b->size &&
	       a->changed_s == b->changed_s && a->changed_ns == b->changed_ns;
}

static bool seen_changed(const struct identity_seen *seen)
{
	for (uint32_t i = 0; i < seen->count; i++) {
		struct file_state now = state_of(seen->files[i].path);

		if (!state_equal(&now, &seen->files[i]))
			return true;
	}
	return false;
}

/* The state is taken before the text: a change in between is noticed the next time. */
static enum err_code file_text(const struct identity_reading *r, const char *path, size_t bytes_max,
                               struct bytes *out, struct err *err)
{
	char   *text = arena_alloc(r->arena, bytes_max + 1);
	size_t  len = 0;
	ssize_t n = -1;
	int     fd;

	if (r->seen->count > IDENTITY_FILES_MAX)
		return err_set(err, ERR_INVALID, "names more than %d files", IDENTITY_FILES_MAX);
	r->seen->files[r->seen->count++] = state_of(path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	while (fd >= 0 && (n = read(fd, text + len, bytes_max + 1 - len)) > 0)
		len += (size_t)n;
	if (n < 0)
		err_set(err, ERR_INVALID, "%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return err->code;
	if (len > bytes_max)
		return err_set(err, ERR_INVALID, "%s: must have at most %zu bytes", path, bytes_max);
	*out = (struct bytes){text, len};
	return ERR_NONE;
}

const char *identity_path(const struct identity_reading *r, struct fields *f, const char *name)
{
	struct bytes text = fields_text_or(f, name, IDENTITY_PATH_MAX - 1, (struct bytes){NULL, 0});
	const char  *slash = r->file == NULL ? NULL : strrchr(r->file, '/');
	int          dir = slash == NULL ? 0 : (int)(slash + 1 - r->file);
	struct bytes path;

	if (text.len == 0)
		return NULL;
	if (memchr(text.data, '\0', text.len) != NULL)
		fields_fail(f, name, ERR_INVALID, "must be a path, without a NUL");
	path = text.data[0] == '/' ? arena_printf(r->arena, "%.*s", BYTES_ARG(text))
	                           : arena_printf(r->arena, "%.*s%.*s", dir, r->file == NULL ? "" : r->file,
	                                          BYTES_ARG(text));
	if (path.len >= IDENTITY_PATH_MAX)
		fields_fail(f, name, ERR_INVALID, "must be a path of at most %d bytes",
		            IDENTITY_PATH_MAX - 1);
	return path.data;
}

struct bytes identity_file(const struct identity_reading *r, struct fields *f, const char *name,
                           const char *path, size_t bytes_max)
{
	struct bytes text = {NULL, 0};
	struct err   why;

	if (!fields_failed(f) && file_text(r, path, bytes_max, &text, &why) != ERR_NONE)
		fields_fail(f, name, ERR_INVALID, "%s", why.text);
	return text;
}

/* ---- sections ---- */

static void drop_all(void *made[IDENTITY_SECTION_COUNT])
{
	for (int i = 0; i < IDENTITY_SECTION_COUNT; i++)
		if (made[i] != NULL)
			sections[i]->drop(made[i]);
}

static enum err_code read_sections(const struct identity_reading *r, const struct json *tree,
                                   void *made[IDENTITY_SECTION_COUNT], struct err *err)
{
	static const struct json empty = {.type = JSON_OBJECT};
	struct fields            f;

	fields_init(&f, tree->type == JSON_NULL ? &empty : tree, err);
	for (int i = 0; i < IDENTITY_SECTION_COUNT; i++)
		sections[i]->read(r, &f, &made[i]);
	return fields_end(&f);
}

/* (1) All of `made`, or an error. */
static enum err_code read_text(const struct identity_reading *r, struct bytes text,
                               void *made[IDENTITY_SECTION_COUNT], struct err *err)
{
	struct json *tree;

	if (yaml_read(r->arena, text, &tree, err) != ERR_NONE)
		return err->code;
	if (read_sections(r, tree, made, err) == ERR_NONE)
		return ERR_NONE;
	drop_all(made);
	return err->code;
}

/* The same of the file; its name is in front of an error. */
static enum err_code read_file(const struct identity_reading *r, void *made[IDENTITY_SECTION_COUNT],
                               struct err *err)
{
	struct bytes text = {NULL, 0};
	struct err   why;

	r->seen->count = 0;
	if (r->file != NULL && file_text(r, r->file, IDENTITY_BYTES_MAX, &text, err) != ERR_NONE)
		return err->code;
	if (read_text(r, text, made, &why) == ERR_NONE)
		return ERR_NONE;
	return err_field(err, why.code, why.field, "%s: %s", r->file, why.text);
}

static enum err_code check(const char *file, const struct bytes *text, struct err *err)
{
	void                   *made[IDENTITY_SECTION_COUNT] = {NULL};
	struct arena            a;
	struct identity_reading r = {.arena = &a, .clock = clock_system(), .file = file};
	enum err_code           rc;

	arena_init(&a);
	r.seen = mem_zalloc(sizeof(*r.seen));
	rc = text != NULL ? read_text(&r, *text, made, err) : read_file(&r, made, err);
	if (rc == ERR_NONE)
		drop_all(made);
	free(r.seen);
	arena_release(&a);
	return rc;
}

enum err_code identity_check(const char *file, struct err *err)
{
	return check(file, NULL, err);
}

enum err_code identity_check_text(struct bytes text, struct err *err)
{
	return check(NULL, &text, err);
}

/* ---- opening, refreshing ---- */

static enum err_code install(struct identity *i, struct err *err)
{
	void                   *made[IDENTITY_SECTION_COUNT] = {NULL};
	struct arena            a;
	struct identity_reading r = {&a, i->clock, i->file, i->seen};
	enum err_code           rc;

	arena_init(&a);
	rc = read_file(&r, made, err);
	if (rc == ERR_NONE)
		i->target.apply(i->target.ctx, made);
	arena_release(&a);
	return rc;
}

enum err_code identity_open(struct identity **out, const char *file, struct clock *clock,
                            struct identity_target target, struct err *err)
{
	struct identity *i = mem_zalloc(sizeof(*i));

	i->file = file;
	i->clock = clock;
	i->target = target;
	i->seen = mem_zalloc(sizeof(*i->seen));
	if (install(i, err) != ERR_NONE) {
		identity_close(i);
		return err->code;
	}
	*out = i;
	return ERR_NONE;
}

void identity_close(struct identity *i)
{
	if (i == NULL)
		return;
	free(i->seen);
	free(i);
}

/* (2) */
static void refuse(struct identity *i, const char *why)
{
	atomic_store(&i->refused, true);
	metric_add(&i->failures, 1);
	log_error("the identity file was not reloaded, and what was in effect stays: %s", why);
}

/* An editor may put a new file in the place of the old one, and be seen in between: a file that is gone is told of only when
 * it is still gone the next time. */
static bool is_gone(struct identity *i)
{
	struct file_state now = state_of(i->file);
	struct err        err;

	if (now.there) {
		i->gone = false;
		return false;
	}
	if (i->gone && i->seen->files[0].there) {
		i->seen->files[0] = now; /* whatever comes back is read */
		err_set(&err, ERR_INVALID, "%s: %s", i->file, strerror(ENOENT));
		refuse(i, err.text);
	}
	i->gone = true;
	return true;
}

/* Whoever writes a file in its place cuts it off first: what is in effect does not go for that. To have nothing, write {}. */
static bool is_empty(struct identity *i)
{
	struct file_state now = state_of(i->file);
	struct err        err;

	if (!now.there || now.size > 0)
		return false;
	if (!state_equal(&now, &i->seen->files[0])) {
		i->seen->files[0] = now;
		err_set(&err, ERR_INVALID, "%s: it is empty, or no plain file", i->file);
		refuse(i, err.text);
	}
	return true;
}

void identity_refresh(struct identity *i)
{
	struct err err;

	if (i->file == NULL || is_gone(i) || is_empty(i) || !seen_changed(i->seen))
		return;
	if (install(i, &err) != ERR_NONE) {
		refuse(i, err.text);
		return;
	}
	atomic_store(&i->refused, false);
	log_info("reloaded the identity file");
}

struct identity_health identity_health(const struct identity *i)
{
	return (struct identity_health){.refused = atomic_load(&i->refused),
	                                .failures = metric_value(&i->failures)};
}
