/* File: see file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_give_to_owner(int fd, const char *dir)
{
	struct stat st;

	return geteuid() != 0 || (stat(dir, &st) == 0 && fchown(fd, st.st_uid, st.st_gid) == 0);
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

static bool write_aside(const char *dir, const char *path, struct bytes text)
{
	int  fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	bool good = fd >= 0 && file_give_to_owner(fd, dir) && file_write_all(fd, text) && fsync(fd) == 0;

	if (fd >= 0)
		close(fd);
	return good;
}

enum err_code file_replace(const char *dir, const char *name, struct bytes text, struct err *err)
{
	char aside[PATH_MAX], path[PATH_MAX];

	snprintf(aside, sizeof(aside), "%s/%s.new", dir, name);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (!write_aside(dir, aside, text) || rename(aside, path) != 0)
		return err_set(err, ERR_STORAGE, "write %s: %s", path, strerror(errno));
	return file_sync_directory(dir, err);
}

enum err_code file_sync_directory(const char *path, struct err *err)
{
	int  fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool synced = fd >= 0 && fsync(fd) == 0;

	if (!synced)
		err_set(err, ERR_STORAGE, "sync the directory %s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return synced ? ERR_NONE : ERR_STORAGE;
}
