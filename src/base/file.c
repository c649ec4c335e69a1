/* File: see file.h. */
#define _GNU_SOURCE
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* For good: real and saved ids too, so that nothing can take root's rights back. */
static bool become(uid_t uid, gid_t gid)
{
	return setgroups(1, &gid) == 0 && setresgid(gid, gid, gid) == 0 && setresuid(uid, uid, uid) == 0;
}

enum err_code file_become_owner(const char *dir, struct err *err)
{
	struct stat st;

	if (geteuid() != 0 || stat(dir, &st) != 0 || st.st_uid == 0)
		return ERR_NONE;
	if (!become(st.st_uid, st.st_gid))
		return err_set(err, ERR_STORAGE, "%s belongs to user %u, and acting as that user failed: %s",
		               dir, (unsigned)st.st_uid, strerror(errno));
	if (access(dir, X_OK) != 0)
		return err_set(
		        err, ERR_STORAGE,
		        "%s belongs to user %u, who cannot reach it: %s (root works in it as its owner)", dir,
		        (unsigned)st.st_uid, strerror(errno));
	return ERR_NONE;
}

enum err_code file_open_now(const char *path, int flags, int *fd, struct err *err)
{
	struct stat st;

	*fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
	if (*fd < 0 && errno != ENXIO) /* of a FIFO to write to, which has no reader */
		return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_STORAGE, "%s: %s", path,
		               strerror(errno));
	if (*fd >= 0 && fstat(*fd, &st) == 0 && !S_ISFIFO(st.st_mode))
		return ERR_NONE;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return err_set(err, ERR_STORAGE, "%s: is not a file; a FIFO or a socket cannot be used here", path);
}

/* Reads on until the file ends, or there is more than is wanted. */
static ssize_t read_on(int fd, size_t bytes_max, struct buf *out)
{
	size_t  before = out->len;
	ssize_t n;

	do {
		buf_reserve(out, 4096);
		n = read(fd, out->data + out->len, out->cap - out->len);
		out->len += n > 0 ? (size_t)n : 0;
	} while ((n > 0 && out->len - before <= bytes_max) || (n < 0 && errno == EINTR));
	return n;
}

enum err_code file_read(const char *path, size_t bytes_max, struct buf *out, bool *found, struct err *err)
{
	int           fd;
	enum err_code rc = file_open_now(path, O_RDONLY | O_NOFOLLOW, &fd, err);
	ssize_t       n;

	*found = rc != ERR_NOT_FOUND;
	if (!*found)
		return ERR_NONE;
	if (rc != ERR_NONE)
		return rc;
	n = read_on(fd, bytes_max, out);
	if (n > 0)
		rc = err_set(err, ERR_STORAGE, "%s is larger than %zu bytes", path, bytes_max);
	else if (n < 0)
		rc = err_set(err, ERR_STORAGE, "read %s: %s", path, strerror(errno));
	close(fd);
	return rc;
}

bool file_write_all(int fd, struct bytes text)
{
	size_t at = 0;

	while (at < text.len) {
		ssize_t n = write(fd, text.data + at, text.len - at);

		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

/* What an earlier crash left aside is removed, and whatever else is there is not followed. */
static bool write_aside(int dir, const char *name, struct bytes text)
{
	bool gone = unlinkat(dir, name, 0) == 0 || errno == ENOENT;
	int  fd = gone ? openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
	bool good = fd >= 0 && file_write_all(fd, text) && fsync(fd) == 0;

	if (fd >= 0)
		close(fd);
	return good;
}

enum err_code file_replace(const char *dir, const char *name, struct bytes text, struct err *err)
{
	char          aside[NAME_MAX + 1];
	int           fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum err_code rc = ERR_NONE;
	bool          replaced;

	snprintf(aside, sizeof(aside), "%s.new", name);
	replaced = fd >= 0 && write_aside(fd, aside, text) && renameat(fd, aside, fd, name) == 0;
	if (!replaced || fsync(fd) != 0)
		rc = err_set(err,
		             !replaced && (errno == ENOSPC || errno == EDQUOT) ? ERR_DISK_FULL : ERR_STORAGE,
		             "write %s/%s: %s", dir, name, strerror(errno));
	if (fd >= 0)
		close(fd);
	return rc;
}

enum err_code file_sync_directory(const char *path, struct err *err)
{
	int           fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum err_code rc = ERR_NONE;

	if (fd < 0 || fsync(fd) != 0)
		rc = err_set(err, ERR_STORAGE, "sync the directory %s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return rc;
}
