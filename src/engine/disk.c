/* Disk: see disk.h. Writing stops while reserve_bytes are still free, so that what the store does in the
 * background (flushing, compacting) can go on; it starts again by itself once there is a quarter more than
 * that. */
#define _GNU_SOURCE
#include "engine/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "engine/layout.h"
#include "engine/state.h"

static void file_path(char out[PATH_MAX], const char *dir, const char *name)
{
	snprintf(out, PATH_MAX, "%s/%s", dir, name);
}

/* ---- claiming ---- */

static enum err_code lock(const char *dir, int *fd, struct err *err)
{
	char path[PATH_MAX];

	file_path(path, dir, "LOCK");
	*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (*fd < 0)
		return err_set(err, ERR_STORAGE, "open %s: %s", path, strerror(errno));
	if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
		return ERR_NONE;
	close(*fd);
	*fd = -1;
	return err_set(err, ERR_STORAGE, "%s is in use by another process (it holds %s)", dir, path);
}

static enum err_code write_format(const char *path, struct err *err)
{
	FILE *f = fopen(path, "we");

	if (f == NULL)
		return err_set(err, ERR_STORAGE, "write %s: %s", path, strerror(errno));
	fprintf(f, "gatehouse %d\n", LAYOUT_FORMAT);
	if (fflush(f) != 0 || fsync(fileno(f)) != 0)
		err_set(err, ERR_STORAGE, "write %s: %s", path, strerror(errno));
	else
		err->code = ERR_NONE;
	fclose(f);
	return err->code;
}

static bool is_empty_of_data(const char *dir)
{
	char        path[PATH_MAX];
	struct stat st;

	file_path(path, dir, "store");
	return stat(path, &st) != 0;
}

static enum err_code check_format(const char *dir, struct err *err)
{
	char  path[PATH_MAX];
	FILE *f;
	int   format = 0, fields;

	file_path(path, dir, "FORMAT");
	f = fopen(path, "re");
	if (f == NULL && errno == ENOENT && is_empty_of_data(dir))
		return write_format(path, err);
	if (f == NULL)
		return err_set(err, ERR_STORAGE, "read %s: %s", path, strerror(errno));
	fields = fscanf(f, "gatehouse %d", &format);
	fclose(f);
	if (fields != 1)
		return err_set(err, ERR_STORAGE,
		               "%s does not say \"gatehouse N\": is this a data directory of Gatehouse?",
		               path);
	if (format != LAYOUT_FORMAT)
		return err_set(
		        err, ERR_STORAGE,
		        "%s was written in format %d, but this program reads format %d: use a newer program",
		        dir, format, LAYOUT_FORMAT);
	return ERR_NONE;
}

enum err_code disk_claim(const char *path, int *lock_fd, struct err *err)
{
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return err_set(err, ERR_STORAGE, "make the data directory %s: %s", path, strerror(errno));
	if (lock(path, lock_fd, err) != ERR_NONE)
		return err->code;
	if (check_format(path, err) == ERR_NONE)
		return ERR_NONE;
	close(*lock_fd);
	*lock_fd = -1;
	return err->code;
}

/* ---- free space ---- */

static size_t free_bytes(const char *path)
{
	struct statvfs v;

	if (fault_fires(FAULT_DISK_FULL))
		return 0;
	if (statvfs(path, &v) != 0)
		return SIZE_MAX; /* unknown: the writes themselves will tell */
	return (size_t)v.f_bavail * v.f_frsize;
}

static void ballast_make(const char *dir, size_t bytes)
{
	char        path[PATH_MAX];
	struct stat st;
	int         fd;

	file_path(path, dir, "ballast");
	if (stat(path, &st) == 0 && (size_t)st.st_size == bytes)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (posix_fallocate(fd, 0, (off_t)bytes) != 0)
		unlink(path);
	close(fd);
}

void disk_make_room(const char *path, size_t reserve_bytes)
{
	char ballast[PATH_MAX];

	if (free_bytes(path) >= reserve_bytes / 2)
		return;
	file_path(ballast, path, "ballast");
	if (unlink(ballast) == 0)
		log_warn("the disk is full: the ballast file was given up to open the store");
}

void disk_watch(struct engine *e)
{
	size_t reserve = e->options.disk_reserve_bytes, left = free_bytes(e->options.path);
	bool   full = atomic_load(&e->disk_full);

	if (!full && left < reserve) {
		log_error(
		        "only %zu MB are free in the data directory: nothing is written until there is room",
		        left >> 20);
		atomic_store(&e->disk_full, true);
	} else if (full && left >= reserve + reserve / 4) {
		log_info("there is room in the data directory again: writing goes on");
		atomic_store(&e->disk_full, false);
	}
	if (left >= 3 * reserve)
		ballast_make(e->options.path, reserve);
}
