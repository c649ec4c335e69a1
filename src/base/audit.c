/* Audit: a buffer of lines, and the thread that empties it.
 *
 *   any thread                        the audit's thread
 *   audit_write --> pending (bounded) --> takes all, appends them, syncs
 *
 * (1) Lines of one process stand in the order of audit_write.
 * (2) The file holds whole lines only: writers take turns by a lock on it, and one that fails takes back what
 *     it had written. */
#include "base/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/worker.h"

struct audit {
	/* set once */
	char dir[PATH_MAX];
	char path[PATH_MAX];
	/* any thread */
	_Atomic uint64_t lost;
	struct worker    worker;
	/* under lock */
	pthread_mutex_t lock;
	struct buf      pending;
	unsigned        pending_lines;
	/* the audit's thread only */
	struct buf writing;
	bool       unnamed; /* the file is new, and its name may not be on the disk */
};

/* ---- the file ---- */

/* (2) */
static enum err_code append(struct audit *a, int fd, struct bytes text, struct err *err)
{
	struct stat st;

	if (flock(fd, LOCK_EX) != 0 || fstat(fd, &st) != 0)
		return err_set(err, ERR_STORAGE, "lock %s: %s", a->path, strerror(errno));
	if (file_write_all(fd, text) && fdatasync(fd) == 0)
		return ERR_NONE;
	err_set(err, ERR_STORAGE, "write %s: %s", a->path, strerror(errno));
	if (ftruncate(fd, st.st_size) != 0)
		log_error("audit.log: a failed write may have left half a line in it");
	return err->code;
}

static enum err_code open_file(struct audit *a, int *fd, struct err *err)
{
	const int     flags = O_WRONLY | O_APPEND | O_NOFOLLOW;
	enum err_code rc = file_open_now(a->path, flags, fd, err);

	if (rc != ERR_NOT_FOUND)
		return rc;
	a->unnamed = true;
	return file_open_now(a->path, flags | O_CREAT, fd, err);
}

/* A synced file whose directory is not may be gone after a power failure, with all its lines. */
static enum err_code sync_name(struct audit *a, struct err *err)
{
	if (a->unnamed && file_sync_directory(a->dir, err) != ERR_NONE)
		return err->code;
	a->unnamed = false;
	return ERR_NONE;
}

static enum err_code write_lines(struct audit *a, struct bytes text, struct err *err)
{
	int           fd;
	enum err_code rc = open_file(a, &fd, err);

	if (rc != ERR_NONE)
		return rc;
	rc = append(a, fd, text, err);
	if (rc == ERR_NONE)
		rc = sync_name(a, err);
	close(fd);
	return rc;
}

/* ---- the thread ---- */

/* Takes all lines that wait; how many. */
static unsigned take(struct audit *a)
{
	struct buf swap;
	unsigned   lines;

	pthread_mutex_lock(&a->lock);
	lines = a->pending_lines;
	swap = a->writing;
	a->writing = a->pending;
	a->pending = swap;
	a->pending_lines = 0;
	pthread_mutex_unlock(&a->lock);
	return lines;
}

static void write_waiting(struct worker *worker, void *audit)
{
	struct audit *a = audit;
	unsigned      lines = take(a);
	struct err    err;

	(void)worker;
	if (lines > 0 && write_lines(a, buf_bytes(&a->writing), &err) != ERR_NONE) {
		log_error("%u lines of the audit log were lost: %s", lines, err.text);
		atomic_fetch_add(&a->lost, lines);
	}
	buf_release(&a->writing);
}

/* ---- the interface ---- */

static void audit_free(struct audit *a)
{
	worker_release(&a->worker);
	buf_release(&a->pending);
	buf_release(&a->writing);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

enum err_code audit_open(struct audit **out, const char *data_dir, struct err *err)
{
	struct audit *a = mem_zalloc(sizeof(*a));

	snprintf(a->dir, sizeof(a->dir), "%s", data_dir);
	snprintf(a->path, sizeof(a->path), "%s/audit.log", data_dir);
	pthread_mutex_init(&a->lock, NULL);
	buf_init(&a->pending, NULL);
	buf_init(&a->writing, NULL);
	worker_init(&a->worker, &(struct worker_options){.name = "audit",
	                                                 .round = write_waiting,
	                                                 .ctx = a,
	                                                 .drains = true,
	                                                 .stop_ms = AUDIT_STOP_MS});
	if (worker_start(&a->worker, err) != ERR_NONE) {
		audit_free(a);
		return err->code;
	}
	*out = a;
	return ERR_NONE;
}

/* A disk that hangs does not keep the process from ending. */
static bool stop(struct audit *a)
{
	bool stopped = worker_stop(&a->worker);

	if (!stopped)
		log_error("lines of the audit log may be lost: %s cannot be written to now", a->path);
	return stopped;
}

bool audit_stop(struct audit *a)
{
	return stop(a) && audit_lost(a) == 0;
}

bool audit_close(struct audit *a)
{
	bool stopped = stop(a);

	if (stopped)
		audit_free(a);
	return stopped;
}

/* False if too much waits already. */
static bool submit(struct audit *a, struct bytes line)
{
	bool room;

	pthread_mutex_lock(&a->lock);
	room = a->pending.len + line.len <= AUDIT_PENDING_BYTES_MAX;
	if (room) {
		buf_add_bytes(&a->pending, line);
		a->pending_lines++;
	}
	pthread_mutex_unlock(&a->lock);
	if (room)
		worker_wake(&a->worker);
	return room;
}

void audit_write(struct audit *a, const char *act, const struct log_field *fields, unsigned count)
{
	struct log_entry l;

	if (a == NULL)
		return;
	log_entry_begin(&l);
	log_entry_text(&l, "act", bytes_of(act));
	for (unsigned i = 0; i < count; i++)
		log_entry_field(&l, &fields[i]);
	if (submit(a, log_entry_end(&l)))
		return;
	log_error("a line of the audit log was lost: the disk is too slow");
	atomic_fetch_add(&a->lost, 1);
}

uint64_t audit_lost(const struct audit *a)
{
	return a == NULL ? 0 : atomic_load(&a->lost);
}
