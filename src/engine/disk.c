/* Disk: see disk.h. Writing stops while reserve_bytes are still free, so that what the store does in the
 * background (flushing, compacting) can go on; it starts again by itself once there is a quarter more than
 * that. */
#define _GNU_SOURCE
#include "engine/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/directory.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/state.h"

enum { STARVED_BYTES = 4 << 20 }; /* with less, opening may find no room, whatever the reserve */

static void file_path(char out[PATH_MAX], const char *dir, const char *name)
{
	snprintf(out, PATH_MAX, "%s/%s", dir, name);
}

/* ---- what is on the disk, not only in memory ---- */

/* Flushes the file, then lets go of its pages: after a failed flush they may hold, marked clean, what the
 * disk does not. */
static enum err_code sync_file(const char *path, struct err *err)
{
	int  fd = open(path, O_RDONLY | O_CLOEXEC);
	bool synced = fd >= 0 && fsync(fd) == 0;

	if (synced)
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	else
		err_set(err, ERR_STORAGE, "sync %s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return synced ? ERR_NONE : ERR_STORAGE;
}

void disk_forget(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return; /* whoever reads it will say why */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

static bool is_log(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot != NULL && strcmp(dot, ".log") == 0;
}

/* A process that was killed may have left the end of a segment in the page cache only. It would be served
 * as if it were durable, and a power failure would take back what readers have seen. */
enum err_code disk_sync_journal(const char *journal_path, struct err *err)
{
	DIR           *dir = opendir(journal_path);
	enum err_code  rc = ERR_NONE;
	struct dirent *d;
	char           path[PATH_MAX];

	if (dir == NULL)
		return ERR_NONE; /* new; anything else, reading the journal will tell */
	while (rc == ERR_NONE && (d = readdir(dir)) != NULL) {
		if (!is_log(d->d_name))
			continue;
		file_path(path, journal_path, d->d_name);
		rc = sync_file(path, err);
	}
	closedir(dir);
	return rc;
}

/* ---- claiming ---- */

static enum err_code lock(const char *dir, int flags, int *fd, struct err *err)
{
	char path[PATH_MAX];

	file_path(path, dir, "LOCK");
	*fd = open(path, flags | O_CLOEXEC, 0600);
	if (*fd < 0)
		return err_set(err, ERR_STORAGE, "open %s: %s", path, strerror(errno));
	if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
		return ERR_NONE;
	close(*fd);
	*fd = -1;
	return err_set(err, ERR_STORAGE, "%s is in use by another process (it holds %s)", dir, path);
}

static bool is_there(const char *dir, const char *name)
{
	char        path[PATH_MAX];
	struct stat st;

	file_path(path, dir, name);
	return stat(path, &st) == 0;
}

static enum err_code refuse_missing(const char *dir, const char *what, struct err *err)
{
	return err_set(err, ERR_STORAGE,
	               "%s/%s is missing, but %s/FORMAT says that this directory has held data. Restore the "
	               "whole directory from a backup; to start empty, use another directory",
	               dir, what, dir);
}

/* Without CURRENT the store would be made anew over whatever is left of it. */
static enum err_code check_data(const char *dir, const struct directory *d, struct err *err)
{
	bool data = d->format < DIRECTORY_FORMAT_SEALED || directory_names_have(&d->holds, "store");

	if (data && !is_there(dir, "store/CURRENT"))
		return refuse_missing(dir, is_there(dir, "store") ? "store/CURRENT" : "store", err);
	return ERR_NONE;
}

static enum err_code check_format(const char *dir, bool may_make, struct err *err)
{
	struct directory d;

	if (directory_read(dir, &d, err) != ERR_NONE)
		return err->code;
	if (d.format == 0 && may_make && !is_there(dir, "store") && !is_there(dir, "journal"))
		return directory_make(dir, 0, err);
	if (d.format == 0)
		return err_set(err, ERR_STORAGE, "%s/FORMAT is missing%s", dir,
		               is_there(dir, "store")
		                       ? ", and there is data. Restore it from a backup of this "
		                         "directory"
		                       : ": is this a data directory of Gatehouse?");
	if (check_data(dir, &d, err) != ERR_NONE)
		return err->code;
	if (!may_make || d.format == DIRECTORY_FORMAT)
		return ERR_NONE;
	return directory_has_seals(&d) ? directory_raise(dir, err) : directory_make(dir, d.format, err);
}

/* ---- who may read it ---- */

/* Programs up to format 3 left the store's files readable by everyone, behind a directory that is not. */
static void make_private(const char *dir)
{
	DIR           *d = opendir(dir);
	struct dirent *entry;
	struct stat    st;

	if (d == NULL)
		return; /* whoever needs it will say why */
	while ((entry = readdir(d)) != NULL)
		if (fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		    (st.st_mode & 0077) != 0 && fchmodat(dirfd(d), entry->d_name, 0600, 0) != 0)
			log_warn("other users can read %s/%s, and its mode could not be changed: %s", dir,
			         entry->d_name, strerror(errno));
	closedir(d);
}

static void make_all_private(const char *dir)
{
	static const char *const folders[] = {"store", "journal"};
	char                     path[PATH_MAX];

	make_private(dir);
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		file_path(path, dir, folders[i]);
		if (is_there(dir, folders[i]) && chmod(path, 0700) != 0)
			log_warn("other users can read %s, and its mode could not be changed: %s", path,
			         strerror(errno));
		make_private(path);
	}
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
	if (lstat(path, &st) == 0 && (size_t)st.st_size == bytes)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
	          0600); /* what a link leads to is not ours */
	if (fd < 0)
		return;
	if (posix_fallocate(fd, 0, (off_t)bytes) != 0)
		unlink(path);
	close(fd);
}

bool disk_make_room(const char *path, size_t reserve_bytes)
{
	char ballast[PATH_MAX];

	file_path(ballast, path, "ballast");
	if (free_bytes(path) < reserve_bytes / 2 && unlink(ballast) == 0)
		log_warn("the disk is full: the ballast file was removed to open the store");
	return free_bytes(path) < (reserve_bytes > STARVED_BYTES ? reserve_bytes : STARVED_BYTES);
}

void disk_is_full(void *engine)
{
	struct engine *e = engine;

	if (!atomic_exchange(&e->disk_full, true))
		log_error(
		        "only %zu MB are free in the data directory: writes are refused until there is room",
		        free_bytes(e->options.path) >> 20);
}

static bool has_room(struct engine *e, size_t left)
{
	size_t reserve = e->options.disk_reserve_bytes;

	return left >= reserve + reserve / 4 && !rocks_is_waiting(e->rocks);
}

/* Nothing could be opened for writing: the process is to start again. Once is enough. */
static void end_starving(struct engine *e)
{
	static const char text[] =
	        "there is room in the data directory again: the server restarts to accept writes";

	if (atomic_exchange(&e->fed, true))
		return;
	log_info("%s", text);
	if (e->options.on_failure != NULL)
		e->options.on_failure(e->options.failure_ctx);
}

void disk_watch(struct engine *e)
{
	size_t reserve = e->options.disk_reserve_bytes, left = free_bytes(e->options.path);
	bool   full = atomic_load(&e->disk_full);

	if (e->starved) {
		if (left >= STARVED_BYTES && has_room(e, left))
			end_starving(e);
		return;
	}
	if (!full && left < reserve) {
		disk_is_full(e);
	} else if (full && has_room(e, left)) {
		log_info("there is room in the data directory again: writes are accepted");
		rocks_relax(e->rocks);
		atomic_store(&e->disk_full, false);
	}
	if (left >= 3 * reserve)
		ballast_make(e->options.path, reserve);
}

/* ---- the whole ---- */

static enum err_code claim(const char *path, bool may_make, size_t reserve_bytes, int *lock_fd,
                           struct err *err)
{
	if (lock(path, may_make ? O_RDWR | O_CREAT : O_RDONLY, lock_fd, err) != ERR_NONE)
		return err->code;
	if (may_make)
		disk_make_room(path, reserve_bytes);
	if (check_format(path, may_make, err) == ERR_NONE) {
		if (may_make)
			make_all_private(path);
		return ERR_NONE;
	}
	close(*lock_fd);
	*lock_fd = -1;
	return err->code;
}

enum err_code disk_claim_existing(const char *path, int *lock_fd, struct err *err)
{
	return claim(path, false, 0, lock_fd, err);
}

enum err_code disk_claim(const char *path, size_t reserve_bytes, int *lock_fd, struct err *err)
{
	char parent[PATH_MAX];

	if (mkdir(path, 0700) == 0) {
		file_path(parent, path, "..");
		if (file_sync_directory(parent, err) != ERR_NONE)
			return err->code;
	} else if (errno != EEXIST) {
		return err_set(err, ERR_STORAGE, "create the data directory %s: %s", path, strerror(errno));
	}
	return claim(path, true, reserve_bytes, lock_fd, err);
}
