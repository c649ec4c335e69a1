/* Tape: records what a program does to the files under a directory, call by call, by taking the place of the C library's functions; and makes from it what a power
 * cut after any of these calls may leave.
 *
 *   What a file was synced with is on the disk. Of what was written since, a power cut leaves
 *     by file      the first calls, wholly
 *     by sector    any sectors of 512 bytes, wholly; the file's new length or the old one. What is missing is what was there before, or zeros
 *   Of names that were made, changed or removed since their directory was synced, it leaves the first.
 *
 * Included by one test program only: it defines open, pwrite and others for the whole program, RocksDB included. Thread-safe. */
#ifndef TESTS_ENGINE_TAPE_H
#define TESTS_ENGINE_TAPE_H

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "test.h"

#include "base/arena.h"
#include "random.h"

enum {
	TAPE_SECTOR = 512,
	TAPE_FDS = 1024,
	TAPE_NAME = 64,
	TAPE_NAMES_MAX = 512, /* at a time */
	TAPE_FILES_MAX = 8192,
};

enum tape_kind {
	TAPE_MAKE,
	TAPE_WRITE,
	TAPE_CUT,
	TAPE_SYNC,
	TAPE_LINK,
	TAPE_UNLINK,
	TAPE_RENAME,
	TAPE_SYNC_DIRECTORY,
	TAPE_MARK
};

struct tape_op {
	enum tape_kind kind;
	int            file;
	char           name[TAPE_NAME], to[TAPE_NAME]; /* below the root */
	off_t          at;                             /* or the length, or the mark */
	struct bytes   data;
};

struct tape_name {
	char name[TAPE_NAME];
	int  file; /* 0: a directory */
};

struct tape_tree {
	struct tape_name names[TAPE_NAMES_MAX];
	size_t           count;
};

static struct {
	pthread_mutex_t  lock;
	bool             on;
	char             root[256];
	struct tape_op  *ops;
	size_t           count, cap, first; /* those before it are what was there */
	int              files;             /* numbered from 1 */
	struct tape_tree tree;              /* as it is now */
	struct {
		int  file; /* 0: not ours; -1: a directory */
		char name[TAPE_NAME];
	} fds[TAPE_FDS];
	struct arena arena;
} tape = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- names ---- */

static struct tape_name *tree_find(struct tape_tree *t, const char *name)
{
	for (size_t i = 0; i < t->count; i++)
		if (strcmp(t->names[i].name, name) == 0)
			return &t->names[i];
	return NULL;
}

static void tree_remove(struct tape_tree *t, const char *name)
{
	struct tape_name *n = tree_find(t, name);

	if (n != NULL)
		*n = t->names[--t->count];
}

static void tree_add(struct tape_tree *t, const char *name, int file)
{
	tree_remove(t, name);
	assert_true(t->count < TAPE_NAMES_MAX);
	snprintf(t->names[t->count].name, TAPE_NAME, "%s", name);
	t->names[t->count++].file = file;
}

/* The name below the root, or NULL. */
static const char *tape_below(const char *path)
{
	size_t len = strlen(tape.root);

	if (!tape.on || strncmp(path, tape.root, len) != 0 || (path[len] != '/' && path[len] != '\0'))
		return NULL;
	return path[len] == '\0' ? "" : path + len + 1;
}

/* A name in a directory that is open. */
static const char *tape_path_at(int dir, const char *name, char out[PATH_MAX])
{
	char    link[64];
	ssize_t n;

	if (dir == AT_FDCWD || name[0] == '/')
		return name;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
	n = readlink(link, out, PATH_MAX - 1);
	out[n > 0 ? n : 0] = '\0';
	if (name[0] != '\0' && (size_t)n + strlen(name) + 2 < PATH_MAX) {
		strcat(out, "/");
		strcat(out, name);
	}
	return out;
}

/* ---- recording; all under lock ---- */

static struct tape_op *tape_add(enum tape_kind kind, int file, const char *name)
{
	struct tape_op *op;

	if (tape.count == tape.cap) {
		tape.cap = tape.cap == 0 ? 1024 : 2 * tape.cap;
		tape.ops = mem_realloc(tape.ops, tape.cap * sizeof(*tape.ops));
	}
	op = &tape.ops[tape.count++];
	*op = (struct tape_op){.kind = kind, .file = file};
	snprintf(op->name, TAPE_NAME, "%s", name);
	return op;
}

/* Which of the directory's names there are is the tree's. */
static void tree_apply(struct tape_tree *t, const struct tape_op *op)
{
	const struct tape_name *n;

	switch (op->kind) {
	case TAPE_MAKE:
	case TAPE_LINK:
		tree_add(t, op->name, op->file);
		break;
	case TAPE_UNLINK:
		tree_remove(t, op->name);
		break;
	case TAPE_RENAME:
		n = tree_find(t, op->name);
		if (n != NULL) {
			tree_add(t, op->to, n->file);
			tree_remove(t, op->name);
		}
		break;
	default:
		break;
	}
}

static void tape_name(enum tape_kind kind, int file, const char *name, const char *to)
{
	struct tape_op *op = tape_add(kind, file, name);

	if (to != NULL)
		snprintf(op->to, TAPE_NAME, "%s", to);
	tree_apply(&tape.tree, op);
}

static void tape_opened(int fd, int flags)
{
	char              path[PATH_MAX];
	const char       *name;
	struct tape_name *n;
	struct stat       st;

	if (fd < 0 || fd >= TAPE_FDS)
		return;
	pthread_mutex_lock(&tape.lock);
	name = tape_below(tape_path_at(fd, "", path));
	tape.fds[fd].file = 0;
	if (name != NULL && strlen(name) < TAPE_NAME && strstr(name, "ballast") == NULL &&
	    strcmp(name, "LOCK") != 0) {
		snprintf(tape.fds[fd].name, TAPE_NAME, "%s", name);
		n = tree_find(&tape.tree, name);
		if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
			tape.fds[fd].file = -1;
		} else if (n != NULL) {
			tape.fds[fd].file = n->file;
			if ((flags & O_TRUNC) != 0)
				tape_add(TAPE_CUT, n->file, name);
		} else if ((flags & O_CREAT) != 0) {
			tape_name(TAPE_MAKE, tape.fds[fd].file = ++tape.files, name, NULL);
		}
	}
	pthread_mutex_unlock(&tape.lock);
}

static void tape_wrote(int fd, const void *data, ssize_t bytes, off_t at)
{
	if (bytes <= 0 || fd >= TAPE_FDS)
		return;
	pthread_mutex_lock(&tape.lock);
	if (tape.on && tape.fds[fd].file > 0) {
		struct tape_op *op = tape_add(TAPE_WRITE, tape.fds[fd].file, tape.fds[fd].name);

		op->at = at;
		op->data = arena_copy(&tape.arena, (struct bytes){data, (size_t)bytes});
	}
	pthread_mutex_unlock(&tape.lock);
}

static void tape_synced(int fd)
{
	if (fd < 0 || fd >= TAPE_FDS)
		return;
	pthread_mutex_lock(&tape.lock);
	if (tape.on && tape.fds[fd].file > 0)
		tape_add(TAPE_SYNC, tape.fds[fd].file, tape.fds[fd].name);
	else if (tape.on && tape.fds[fd].file < 0)
		tape_add(TAPE_SYNC_DIRECTORY, 0, tape.fds[fd].name);
	pthread_mutex_unlock(&tape.lock);
}

static void tape_renamed(const char *from, const char *to)
{
	char name[TAPE_NAME] = "";

	pthread_mutex_lock(&tape.lock);
	if (tape_below(from) != NULL && tape_below(to) != NULL) {
		snprintf(name, sizeof(name), "%s", tape_below(from));
		if (tree_find(&tape.tree, name) != NULL)
			tape_name(TAPE_RENAME, 0, name, tape_below(to));
	}
	pthread_mutex_unlock(&tape.lock);
}

static void tape_linked(const char *from, const char *to)
{
	struct tape_name *n;

	pthread_mutex_lock(&tape.lock);
	if (tape_below(from) != NULL && tape_below(to) != NULL &&
	    (n = tree_find(&tape.tree, tape_below(from))) != NULL)
		tape_name(TAPE_LINK, n->file, tape_below(to), NULL);
	pthread_mutex_unlock(&tape.lock);
}

static void tape_unlinked(const char *path)
{
	pthread_mutex_lock(&tape.lock);
	if (tape_below(path) != NULL && tree_find(&tape.tree, tape_below(path)) != NULL)
		tape_name(TAPE_UNLINK, 0, tape_below(path), NULL);
	pthread_mutex_unlock(&tape.lock);
}

static void tape_mark(int64_t mark)
{
	pthread_mutex_lock(&tape.lock);
	tape_add(TAPE_MARK, 0, "")->at = mark;
	pthread_mutex_unlock(&tape.lock);
}

/* ---- in place of the C library's ---- */

#define REAL(name, type, arguments)                                                                          \
	static type(*real) arguments;                                                                        \
	if (real == NULL)                                                                                    \
	*(void **)&real = dlsym(RTLD_NEXT, #name)

#define TAPE_OPEN(function)                                                                                  \
	int function(const char *path, int flags, ...)                                                       \
	{                                                                                                    \
		REAL(function, int, (const char *, int, ...));                                               \
		va_list list;                                                                                \
		int     fd;                                                                                  \
                                                                                                             \
		va_start(list, flags);                                                                       \
		fd = real(path, flags, va_arg(list, unsigned));                                              \
		va_end(list);                                                                                \
		tape_opened(fd, flags);                                                                      \
		return fd;                                                                                   \
	}

#define TAPE_PWRITE(function)                                                                                \
	ssize_t function(int fd, const void *data, size_t bytes, off_t at)                                   \
	{                                                                                                    \
		REAL(function, ssize_t, (int, const void *, size_t, off_t));                                 \
		ssize_t n = real(fd, data, bytes, at);                                                       \
                                                                                                             \
		tape_wrote(fd, data, n, at);                                                                 \
		return n;                                                                                    \
	}

#define TAPE_SYNC_AS(function)                                                                               \
	int function(int fd)                                                                                 \
	{                                                                                                    \
		REAL(function, int, (int));                                                                  \
		int rc = real(fd);                                                                           \
                                                                                                             \
		if (rc == 0)                                                                                 \
			tape_synced(fd);                                                                     \
		return rc;                                                                                   \
	}

TAPE_OPEN(open)
TAPE_OPEN(open64)
TAPE_PWRITE(pwrite)
TAPE_PWRITE(pwrite64)
TAPE_SYNC_AS(fsync)
TAPE_SYNC_AS(fdatasync)

int openat(int dir, const char *path, int flags, ...)
{
	REAL(openat, int, (int, const char *, int, ...));
	va_list list;
	int     fd;

	va_start(list, flags);
	fd = real(dir, path, flags, va_arg(list, unsigned));
	va_end(list);
	tape_opened(fd, flags);
	return fd;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
	REAL(write, ssize_t, (int, const void *, size_t));
	ssize_t n = real(fd, data, bytes);

	if (n > 0 && fd < TAPE_FDS && tape.fds[fd].file > 0)
		tape_wrote(fd, data, n, lseek(fd, 0, SEEK_CUR) - n);
	return n;
}

int ftruncate(int fd, off_t bytes)
{
	REAL(ftruncate, int, (int, off_t));
	int rc = real(fd, bytes);

	pthread_mutex_lock(&tape.lock);
	if (rc == 0 && tape.on && fd < TAPE_FDS && tape.fds[fd].file > 0)
		tape_add(TAPE_CUT, tape.fds[fd].file, "")->at = bytes;
	pthread_mutex_unlock(&tape.lock);
	return rc;
}

int close(int fd)
{
	REAL(close, int, (int));

	if (fd >= 0 && fd < TAPE_FDS) {
		pthread_mutex_lock(&tape.lock);
		tape.fds[fd].file = 0;
		pthread_mutex_unlock(&tape.lock);
	}
	return real(fd);
}

int rename(const char *from, const char *to)
{
	REAL(rename, int, (const char *, const char *));
	int rc = real(from, to);

	if (rc == 0)
		tape_renamed(from, to);
	return rc;
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	REAL(renameat, int, (int, const char *, int, const char *));
	char one[PATH_MAX], two[PATH_MAX];
	int  rc = real(from_dir, from, to_dir, to);

	if (rc == 0)
		tape_renamed(tape_path_at(from_dir, from, one), tape_path_at(to_dir, to, two));
	return rc;
}

int link(const char *from, const char *to)
{
	REAL(link, int, (const char *, const char *));
	int rc = real(from, to);

	if (rc == 0)
		tape_linked(from, to);
	return rc;
}

int unlink(const char *path)
{
	REAL(unlink, int, (const char *));
	int rc = real(path);

	if (rc == 0)
		tape_unlinked(path);
	return rc;
}

int unlinkat(int dir, const char *name, int flags)
{
	REAL(unlinkat, int, (int, const char *, int));
	char path[PATH_MAX];
	int  rc = real(dir, name, flags);

	if (rc == 0)
		tape_unlinked(tape_path_at(dir, name, path));
	return rc;
}

int mkdir(const char *path, mode_t mode)
{
	REAL(mkdir, int, (const char *, mode_t));
	int rc = real(path, mode);

	if (rc == 0) {
		pthread_mutex_lock(&tape.lock);
		if (tape_below(path) != NULL && tape_below(path)[0] != '\0')
			tape_name(TAPE_MAKE, 0, tape_below(path), NULL);
		pthread_mutex_unlock(&tape.lock);
	}
	return rc;
}

/* ---- a recording ---- */

/* What is in the folder now is on the disk. */
static void tape_load(const char *folder)
{
	char           path[PATH_MAX], name[TAPE_NAME], block[65536];
	DIR           *d;
	struct dirent *e;

	snprintf(path, sizeof(path), "%s/%s", tape.root, folder);
	d = opendir(path);
	while (d != NULL && (e = readdir(d)) != NULL) {
		FILE  *file;
		size_t n;
		off_t  at = 0;

		if (e->d_name[0] == '.' || strcmp(e->d_name, "ballast") == 0 ||
		    strcmp(e->d_name, "LOCK") == 0)
			continue;
		snprintf(name, sizeof(name), "%.20s%s%.40s", folder, folder[0] == '\0' ? "" : "/", e->d_name);
		if (e->d_type == DT_DIR) {
			tape_name(TAPE_MAKE, 0, name, NULL);
			tape_load(name);
			continue;
		}
		tape_name(TAPE_MAKE, ++tape.files, name, NULL);
		snprintf(path, sizeof(path), "%s/%s", tape.root, name);
		file = fopen(path, "re");
		assert_non_null(file);
		for (; (n = fread(block, 1, sizeof(block), file)) > 0; at += (off_t)n) {
			struct tape_op *op = tape_add(TAPE_WRITE, tape.files, "");

			op->at = at;
			op->data = arena_copy(&tape.arena, (struct bytes){block, n});
		}
		fclose(file);
		tape_add(TAPE_SYNC, tape.files, name);
	}
	if (d != NULL)
		closedir(d);
	tape_add(TAPE_SYNC_DIRECTORY, 0, folder);
}

static void tape_begin(const char *root)
{
	pthread_mutex_lock(&tape.lock);
	snprintf(tape.root, sizeof(tape.root), "%s", root);
	tape.count = 0;
	tape.files = 0;
	tape.tree.count = 0;
	memset(tape.fds, 0, sizeof(tape.fds));
	arena_init(&tape.arena);
	tape_load("");
	tape.first = tape.count;
	tape.on = true;
	pthread_mutex_unlock(&tape.lock);
}

/* What was recorded stays. */
static void tape_end(void)
{
	pthread_mutex_lock(&tape.lock);
	tape.on = false;
	pthread_mutex_unlock(&tape.lock);
}

/* The recording as a thing of its own: another may begin. */
struct recording {
	struct tape_op *ops;
	size_t          count, first; /* a power cut comes after so many at least */
	int             files;
	struct arena    arena;
};

static void recording_take(struct recording *r)
{
	*r = (struct recording){tape.ops, tape.count, tape.first, tape.files, tape.arena};
	tape.ops = NULL;
	tape.count = tape.cap = 0;
}

static void recording_release(struct recording *r)
{
	free(r->ops);
	arena_release(&r->arena);
}

/* ---- power cuts ---- */

struct power_cut {
	size_t at; /* after so many calls */
	bool   by_sector;
	const char *
	        liar; /* files with this in their name are never synced, whatever the disk says; NULL: none */
};

static bool in_directory(const char *name, const char *dir)
{
	const char *slash = strrchr(name, '/');
	size_t      len = slash == NULL ? 0 : (size_t)(slash - name);

	return strlen(dir) == len && strncmp(name, dir, len) == 0;
}

static bool is_name_op(const struct tape_op *op)
{
	return op->kind == TAPE_MAKE || op->kind == TAPE_LINK || op->kind == TAPE_UNLINK ||
	       op->kind == TAPE_RENAME;
}

/* Of the directory: how many calls are certain to be on the disk, and how many are. */
static size_t names_kept(const struct recording *r, const struct power_cut *cut, const char *dir,
                         struct random *random)
{
	size_t synced = 0;

	for (size_t i = 0; i < cut->at; i++)
		if (r->ops[i].kind == TAPE_SYNC_DIRECTORY && strcmp(r->ops[i].name, dir) == 0)
			synced = i + 1;
	switch (random_below(random, 3)) {
	case 0:
		return synced;
	case 1:
		return cut->at;
	default:
		return synced + random_below(random, cut->at - synced + 1);
	}
}

/* The names that are left. */
static void names_cut(const struct recording *r, const struct power_cut *cut, struct random *random,
                      struct tape_tree *t)
{
	static const char *const dirs[] = {"", "store", "journal"};
	size_t                   kept[3];

	t->count = 0;
	for (size_t d = 0; d < 3; d++)
		kept[d] = names_kept(r, cut, dirs[d], random);
	for (size_t i = 0; i < cut->at; i++)
		for (size_t d = 0; d < 3; d++)
			if (is_name_op(&r->ops[i]) && in_directory(r->ops[i].name, dirs[d]) && i < kept[d])
				tree_apply(t, &r->ops[i]);
}

struct content {
	char  *data;
	size_t len, cap;
};

static void content_grow(struct content *c, size_t len)
{
	if (len > c->cap) {
		c->cap = 2 * len;
		c->data = mem_realloc(c->data, c->cap);
	}
	if (len > c->len)
		memset(c->data + c->len, 0, len - c->len);
	c->len = len > c->len ? len : c->len;
}

static void content_apply(struct content *c, const struct tape_op *op)
{
	if (op->kind == TAPE_WRITE) {
		content_grow(c, (size_t)op->at + op->data.len);
		memcpy(c->data + op->at, op->data.data, op->data.len);
	} else if (op->kind == TAPE_CUT) {
		content_grow(c, (size_t)op->at);
		c->len = (size_t)op->at;
	}
}

/* Some sectors of a write; those that are shared with what was there before stay as they were. */
static void content_apply_some(struct content *c, const struct tape_op *op, unsigned of_ten,
                               struct random *random)
{
	size_t end = (size_t)op->at + op->data.len;

	content_grow(c, end);
	for (size_t at = (size_t)op->at, next; at < end; at = next) {
		next = at / TAPE_SECTOR * TAPE_SECTOR + TAPE_SECTOR;
		next = next < end ? next : end;
		if (random_below(random, 10) < of_ten)
			memcpy(c->data + at, op->data.data + (at - (size_t)op->at), next - at);
	}
}

static bool is_of(const struct tape_op *op, int file)
{
	return op->file == file && (op->kind == TAPE_WRITE || op->kind == TAPE_CUT);
}

/* What is left of a file. */
static void content_cut(const struct recording *r, const struct power_cut *cut, int file,
                        struct random *random, struct content *c)
{
	size_t   synced = 0, old_len, kept;
	unsigned of_ten = 1 + (unsigned)random_below(random, 9);

	c->len = 0;
	for (size_t i = 0; i < cut->at; i++)
		if (r->ops[i].kind == TAPE_SYNC && r->ops[i].file == file &&
		    (cut->liar == NULL || strstr(r->ops[i].name, cut->liar) == NULL))
			synced = i;
	for (size_t i = 0; i < synced; i++)
		if (is_of(&r->ops[i], file))
			content_apply(c, &r->ops[i]);
	old_len = c->len;
	kept = synced + random_below(random, cut->at - synced + 1);
	for (size_t i = synced; i < cut->at; i++) {
		if (!is_of(&r->ops[i], file))
			continue;
		if (cut->by_sector && r->ops[i].kind == TAPE_WRITE)
			content_apply_some(c, &r->ops[i], of_ten, random);
		else if (cut->by_sector || i < kept)
			content_apply(c, &r->ops[i]);
	}
	if (cut->by_sector && c->len > old_len && random_below(random, 4) == 0)
		c->len = old_len; /* the new length was not written */
}

/* Makes the directory anew. */
static void power_cut(const struct recording *r, const struct power_cut *cut, struct random *random,
                      const char *root)
{
	static struct tape_tree tree;
	struct content          c = {0};
	char                    path[PATH_MAX];

	snprintf(path, sizeof(path), "rm -rf %s && mkdir -m 700 %s", root, root);
	assert_int_equal(system(path), 0);
	names_cut(r, cut, random, &tree);
	for (size_t i = 0; i < tree.count; i++)
		if (tree.names[i].file == 0) {
			snprintf(path, sizeof(path), "%s/%s", root, tree.names[i].name);
			assert_int_equal(mkdir(path, 0700), 0);
		}
	for (int file = 1; file <= r->files; file++) {
		const char *first = NULL;

		for (size_t i = 0; i < tree.count; i++) {
			FILE *out;

			if (tree.names[i].file != file)
				continue;
			snprintf(path, sizeof(path), "%s/%s", root, tree.names[i].name);
			if (first != NULL) { /* another name of the same file */
				char other[PATH_MAX];

				snprintf(other, sizeof(other), "%s/%s", root, first);
				assert_int_equal(link(other, path), 0);
				continue;
			}
			first = tree.names[i].name;
			content_cut(r, cut, file, random, &c);
			out = fopen(path, "we");
			if (out == NULL) /* its directory is not there */
				break;
			assert_true(c.len == 0 || fwrite(c.data, 1, c.len, out) == c.len);
			fclose(out);
		}
	}
	free(c.data);
}

/* After some call, or, if possible, after some write to a file with this in its name. */
static size_t power_cut_place(const struct recording *r, const char *name, struct random *random)
{
	size_t at = r->first + random_below(random, r->count - r->first + 1);

	for (size_t i = at; name != NULL && i < r->count; i++)
		if (r->ops[i].kind == TAPE_WRITE && strstr(r->ops[i].name, name) != NULL)
			return i + 1;
	return at;
}

/* The last mark before the cut; 0: there is none. */
static int64_t power_cut_mark(const struct recording *r, const struct power_cut *cut)
{
	int64_t mark = 0;

	for (size_t i = 0; i < cut->at; i++)
		if (r->ops[i].kind == TAPE_MARK)
			mark = r->ops[i].at;
	return mark;
}

#endif
