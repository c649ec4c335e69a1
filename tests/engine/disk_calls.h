/* Disk calls: takes the place of the C library's calls, those of RocksDB too. Calls for files of one directory are counted by kind, and one of them fails with
 * EIO, or that one and all of its kind after it. A kind is the call, the kind of file and the thread: "pread log filter". What is shared with children is in
 * one struct. Included by one file of a program, which says which struct that is (disk_calls). */
#ifndef TESTS_ENGINE_DISK_CALLS_H
#define TESTS_ENGINE_DISK_CALLS_H

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CALL_KINDS_MAX = 256, CALL_NAME_MAX = 64, LOG_FILES_MAX = 256 };

struct call_kind {
	char     name[CALL_NAME_MAX];
	unsigned count;
};

struct disk_calls {
	atomic_flag      lock;
	char             dir[64]; /* empty: no call is looked at */
	struct call_kind kinds[CALL_KINDS_MAX];
	unsigned         kind_count;
	char             failing[CALL_NAME_MAX]; /* a kind … */
	unsigned         failing_from;           /* … of which so many pass … */
	bool             for_good;               /* … and then all fail, or one does */
	atomic_bool      failed;
	/* Files of logs, by the number of their file. */
	unsigned log_files[LOG_FILES_MAX], log_file_count;
};

static struct disk_calls *disk_calls; /* NULL: none is looked at */

/* ---- kinds ---- */

static bool is_log_file(const char *name)
{
	for (unsigned i = 0; i < disk_calls->log_file_count; i++)
		if (strtoul(name, NULL, 10) == disk_calls->log_files[i])
			return true;
	return false;
}

/* What is left of a name if its numbers go, and directories of tests. */
static const char *file_kind(const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	bool        in_journal = strstr(path, "/journal/") != NULL;

	if (strstr(name, ".sst") != NULL)
		return is_log_file(name) ? "log" : "rows";
	if (strstr(name, "MANIFEST-") != NULL)
		return "MANIFEST";
	if (strstr(name, "OPTIONS-") != NULL)
		return "OPTIONS";
	if (strstr(name, ".dbtmp") != NULL)
		return "dbtmp";
	if (strstr(name, "LOG.old") == name)
		return "LOG.old";
	if (strstr(name, "log.") == name)
		return "log.run";
	if (name[0] >= '0' && name[0] <= '9')
		return in_journal ? "segment" : "rocksdb.log";
	return strcmp(path, disk_calls->dir) == 0 ? "dir" : name;
}

static struct call_kind *kind_find(const char *name)
{
	struct disk_calls *d = disk_calls;

	for (unsigned i = 0; i < d->kind_count; i++)
		if (strcmp(d->kinds[i].name, name) == 0)
			return &d->kinds[i];
	if (d->kind_count == CALL_KINDS_MAX)
		abort();
	snprintf(d->kinds[d->kind_count].name, CALL_NAME_MAX, "%s", name);
	return &d->kinds[d->kind_count++];
}

/* RocksDB's threads are "rocksdb:low" and "rocksdb:high". */
static const char *thread_kind(char name[16])
{
	prctl(PR_GET_NAME, name);
	return (pid_t)syscall(SYS_gettid) == getpid() ? "main" : name;
}

/* Counts it. */
static bool call_fails(const char *call, const char *path)
{
	struct disk_calls *d = disk_calls;
	struct call_kind  *kind;
	char               name[CALL_NAME_MAX], thread[16];
	bool               fails;

	if (d == NULL || d->dir[0] == '\0' || strncmp(path, d->dir, strlen(d->dir)) != 0)
		return false;
	snprintf(name, sizeof(name), "%s %.30s %s", call, file_kind(path), thread_kind(thread));
	while (atomic_flag_test_and_set(&d->lock))
		;
	kind = kind_find(name);
	fails = strcmp(name, d->failing) == 0 &&
	        (d->for_good ? kind->count >= d->failing_from : kind->count == d->failing_from);
	kind->count++;
	atomic_flag_clear(&d->lock);
	if (fails)
		atomic_store(&d->failed, true);
	errno = fails ? EIO : errno;
	return fails;
}

static bool fd_fails(const char *call, int fd)
{
	char    link[64], path[PATH_MAX];
	ssize_t n;

	if (disk_calls == NULL || disk_calls->dir[0] == '\0')
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	return n > 0 && call_fails(call, path);
}

/* The C library's own, where no system call is all of it. */
static void *next_one(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (found == NULL)
		abort();
	return found;
}

/* ---- the calls ---- */

int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t  mode;

	va_start(args, flags);
	mode = va_arg(args, mode_t);
	va_end(args);
	if (call_fails((flags & O_CREAT) != 0 ? "create" : "open", path))
		return -1;
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int close(int fd)
{
	bool fails = fd_fails("close", fd);
	int  rc = (int)syscall(SYS_close, fd);

	errno = fails ? EIO : errno;
	return fails ? -1 : rc;
}

ssize_t read(int fd, void *out, size_t bytes)
{
	return fd_fails("read", fd) ? -1 : syscall(SYS_read, fd, out, bytes);
}

ssize_t pread(int fd, void *out, size_t bytes, off_t at)
{
	return fd_fails("pread", fd) ? -1 : syscall(SYS_pread64, fd, out, bytes, at);
}

/* Half of it gets there. */
ssize_t write(int fd, const void *data, size_t bytes)
{
	if (!fd_fails("write", fd))
		return syscall(SYS_write, fd, data, bytes);
	syscall(SYS_write, fd, data, bytes / 2);
	errno = EIO;
	return -1;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
	if (!fd_fails("pwrite", fd))
		return syscall(SYS_pwrite64, fd, data, bytes, at);
	syscall(SYS_pwrite64, fd, data, bytes / 2, at);
	errno = EIO;
	return -1;
}

int fsync(int fd)
{
	return fd_fails("fsync", fd) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	return fd_fails("fdatasync", fd) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int ftruncate(int fd, off_t bytes)
{
	return fd_fails("ftruncate", fd) ? -1 : (int)syscall(SYS_ftruncate, fd, bytes);
}

int fallocate(int fd, int mode, off_t from, off_t bytes)
{
	return fd_fails("fallocate", fd) ? -1 : (int)syscall(SYS_fallocate, fd, mode, from, bytes);
}

int posix_fallocate(int fd, off_t from, off_t bytes)
{
	return fallocate(fd, 0, from, bytes) == 0 ? 0 : errno;
}

int rename(const char *from, const char *to)
{
	return call_fails("rename", to) ? -1 : (int)syscall(SYS_rename, from, to);
}

/* A log's file becomes one of the store's. */
int link(const char *from, const char *to)
{
	struct disk_calls *d = disk_calls;

	if (d != NULL && strstr(from, "/log.") != NULL && d->log_file_count < LOG_FILES_MAX)
		d->log_files[d->log_file_count++] = (unsigned)strtoul(strrchr(to, '/') + 1, NULL, 10);
	return call_fails("link", to) ? -1 : (int)syscall(SYS_link, from, to);
}

int unlink(const char *path)
{
	return call_fails("unlink", path) ? -1 : (int)syscall(SYS_unlink, path);
}

int mkdir(const char *path, mode_t mode)
{
	return call_fails("mkdir", path) ? -1 : (int)syscall(SYS_mkdir, path, mode);
}

int access(const char *path, int mode)
{
	return call_fails("access", path) ? -1 : (int)syscall(SYS_access, path, mode);
}

int stat(const char *path, struct stat *out)
{
	return call_fails("stat", path) ? -1 : (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, 0);
}

int fstat(int fd, struct stat *out)
{
	return fd_fails("fstat", fd) ? -1 : (int)syscall(SYS_fstat, fd, out);
}

int statvfs(const char *path, struct statvfs *out)
{
	int (*next)(const char *, struct statvfs *) =
	        (int (*)(const char *, struct statvfs *))next_one("statvfs");

	return call_fails("statvfs", path) ? -1 : next(path, out);
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*next)(const char *, const char *) =
	        (FILE * (*)(const char *, const char *)) next_one("fopen");

	return call_fails("fopen", path) ? NULL : next(path, mode);
}

size_t fread(void *out, size_t size, size_t count, FILE *file)
{
	size_t (*next)(void *, size_t, size_t, FILE *) =
	        (size_t(*)(void *, size_t, size_t, FILE *))next_one("fread");

	return fd_fails("fread", fileno(file)) ? 0 : next(out, size, count, file);
}

#undef fread_unlocked /* a macro, where code is optimised */
size_t fread_unlocked(void *out, size_t size, size_t count, FILE *file)
{
	size_t (*next)(void *, size_t, size_t, FILE *) =
	        (size_t(*)(void *, size_t, size_t, FILE *))next_one("fread_unlocked");

	return fd_fails("fread", fileno(file)) ? 0 : next(out, size, count, file);
}

DIR *opendir(const char *path)
{
	DIR *(*next)(const char *) = (DIR * (*)(const char *)) next_one("opendir");

	return call_fails("opendir", path) ? NULL : next(path);
}

struct dirent *readdir(DIR *dir)
{
	struct dirent *(*next)(DIR *) = (struct dirent * (*)(DIR *)) next_one("readdir");

	return fd_fails("readdir", dirfd(dir)) ? NULL : next(dir);
}

#endif
