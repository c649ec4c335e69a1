/* Journal: the segments' files. A segment is filled with zeros some way ahead of what is written to it: a flush
 * then writes the record alone, and not also the file's new length, which takes about half as long again. Where the
 * file system goes along, it is written past the page cache: nobody reads it, and a flush is a sixth quicker. */
#define _GNU_SOURCE
#include "engine/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "engine/aio.h"

enum {
	FILL_FIRST_BYTES = 64 << 10, /* of a new segment, after its head */
	FILL_BYTES_MAX = 1 << 20,    /* at a time; it doubles up to here */
	BUFFER_KEPT_MAX = 1 << 20,   /* an unusual batch's memory is given back */
	DIRECT_BYTES = 256 << 10,    /* written at a time past the page cache */
	DIRECT_ALIGNMENT = 4096,
	APART_BYTES_MAX = 4096,  /* of a commit, filled up: see write_flushed */
	UNIT_BYTES_USUAL = 4096, /* where the disk does not say */
};

struct journal {
	/* set once */
	char   *dir;
	uint8_t id[DIRECTORY_ID_BYTES];
	off_t   segment_bytes;
	off_t   unit; /* (J5) */

	/* writer thread only */
	int         fd;
	bool        at_once; /* aio.h is for it */
	bool        direct;  /* past the page cache, from here: */
	char       *direct_buffer;
	struct aio *aio;
	off_t       at, filled; /* where the next record goes; up to where zeros lie */
	size_t      fill_step;
	uint64_t    next_record;
	int64_t     time_us; /* of the newest record */
	struct buf  sectors;

	/* under lock */
	pthread_mutex_t      lock;
	struct journal_place newest;
};

/* ---- segments that are no longer needed ---- */

struct drop {
	const char *dir;
	uint64_t    before;
};

static void drop_one(void *ctx, uint64_t segment)
{
	const struct drop *d = ctx;
	char               path[PATH_MAX];

	if (segment >= d->before)
		return;
	segment_path(path, d->dir, segment);
	if (unlink(path) != 0)
		log_warn("remove %s: %s", path, strerror(errno));
}

void journal_drop_before(struct journal *j, uint64_t segment)
{
	struct drop d = {j->dir, segment};
	struct err  err;

	if (each_segment(j->dir, drop_one, &d, &err) != ERR_NONE)
		log_warn("old segments of the journal could not be removed: %s", err.text);
}

/* ---- segments ---- */

/* The file system, or the disk with its larger sectors, does not do it after all. */
static bool go_indirect(struct journal *j)
{
	int flags = fcntl(j->fd, F_GETFL);

	j->direct = false;
	return fcntl(j->fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

/* Not const: it would take room in the program's file. */
static _Alignas(DIRECT_ALIGNMENT) char zeros[DIRECT_BYTES];

static ssize_t write_some(struct journal *j, struct bytes data, off_t at)
{
	ssize_t n;

	if (!j->direct)
		return pwrite(j->fd, data.data, data.len, at);
	if (data.len > DIRECT_BYTES)
		data.len = DIRECT_BYTES;
	if (data.data != zeros)
		memcpy(j->direct_buffer, data.data, data.len);
	n = pwrite(j->fd, data.data == zeros ? zeros : j->direct_buffer, data.len, at);
	if (n >= 0 || errno != EINVAL)
		return n;
	return go_indirect(j) ? pwrite(j->fd, data.data, data.len, at) : -1;
}

static bool write_at(struct journal *j, struct bytes data, off_t at)
{
	while (data.len > 0) {
		ssize_t n = write_some(j, data, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data = (struct bytes){data.data + n, data.len - (size_t)n};
		at += n;
	}
	return true;
}

/* Zeros from where they end up to so much behind `end`. */
static bool fill(struct journal *j, off_t end)
{
	off_t to = end + (off_t)j->fill_step;

	while (j->filled < to) {
		size_t left = (size_t)(to - j->filled), part = left < sizeof(zeros) ? left : sizeof(zeros);

		if (!write_at(j, (struct bytes){zeros, part}, j->filled))
			return false;
		j->filled += (off_t)part;
	}
	if (j->fill_step < FILL_BYTES_MAX)
		j->fill_step *= 2;
	return true;
}

/* (J6) What is to end here has zeros on the disk to be written over, and some behind it. One flush more, once in so many
 * commits. */
static bool fill_ahead(struct journal *j, off_t end)
{
	return end + j->unit <= j->filled || (fill(j, end) && fdatasync(j->fd) == 0);
}

/* A commit of many requests comes when cores are scarce, and then it is worth a good deal to wait once and not twice
 * (aio.h). For a small one the two calls are a little quicker. */
static bool write_flushed(struct journal *j, struct bytes data, off_t at)
{
	enum aio_outcome outcome = AIO_UNABLE;

	if (j->direct && j->at_once && data.len > APART_BYTES_MAX && data.len <= DIRECT_BYTES) {
		memcpy(j->direct_buffer, data.data, data.len);
		outcome = aio_write_flushed(j->aio, j->fd, (struct bytes){j->direct_buffer, data.len}, at);
	}
	if (outcome != AIO_UNABLE)
		return outcome == AIO_DONE;
	return write_at(j, data, at) && fdatasync(j->fd) == 0;
}

/* (J5) What so many bytes take. */
static off_t units_of(const struct journal *j, size_t bytes)
{
	return ((off_t)bytes + j->unit - 1) / j->unit * j->unit;
}

static void fill_unit(struct journal *j)
{
	size_t rest = (size_t)units_of(j, j->sectors.len) - j->sectors.len;

	buf_reserve(&j->sectors, rest);
	memset(j->sectors.data + j->sectors.len, 0, rest);
	j->sectors.len += rest;
}

static bool file_open(struct journal *j, const char *path)
{
	j->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_DIRECT, 0600);
	j->direct = j->fd >= 0;
	if (j->fd < 0 && errno == EINVAL)
		j->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return j->fd >= 0;
}

static bool write_head(struct journal *j, const struct segment_head *head)
{
	buf_reset(&j->sectors);
	segment_head_encode(&j->sectors, head);
	fill_unit(j);
	j->at = j->filled = j->unit;
	j->fill_step = FILL_FIRST_BYTES;
	return write_at(j, buf_bytes(&j->sectors), 0) && fill(j, j->at) && fsync(j->fd) == 0;
}

/* To the segment that was written to before. */
static void go_back(struct journal *j, const struct journal *before)
{
	j->fd = before->fd;
	j->at_once = before->at_once;
	j->direct = before->direct;
	j->at = before->at;
	j->filled = before->filled;
	j->fill_step = before->fill_step;
}

/* A segment with nothing but its head and zeros. It is whole when it gets its name, and has its name when it is written
 * down as the newest; only then is it used (J4). */
static enum err_code segment_begin(struct journal *j, uint64_t segment, struct err *err)
{
	struct segment_head head = {.segment = segment,
	                            .first = j->next_record,
	                            .unit = (uint32_t)j->unit,
	                            .filled = (uint32_t)((j->unit + FILL_FIRST_BYTES) / SECTOR_BYTES)};
	char                path[PATH_MAX], aside[PATH_MAX + 8];

	memcpy(head.directory, j->id, sizeof(head.directory));
	segment_path(path, j->dir, segment);
	snprintf(aside, sizeof(aside), "%.*s.new", (int)(strlen(path) - strlen(".log")), path);
	if (!file_open(j, aside))
		return journal_file_error(err, "make", aside);
	j->at_once = aio_is_for(j->fd);
	if (!write_head(j, &head))
		return journal_file_error(err, "write", aside);
	if (rename(aside, path) != 0)
		return journal_file_error(err, "make", path);
	if (file_sync_directory(j->dir, err) != ERR_NONE ||
	    journal_newest_write(j->dir, &head, err) != ERR_NONE)
		return err->code;
	return ERR_NONE;
}

/* Instead of the one that is written to, if there is room for it: if not, nothing of it stays. (But when the journal is
 * opened it may be the newest that there is.) */
static enum err_code segment_make(struct journal *j, uint64_t segment, struct err *err)
{
	const struct journal before = *j; /* of which the lock is not used */
	enum err_code        rc = segment_begin(j, segment, err);
	char                 path[PATH_MAX];

	if (rc != ERR_NONE) {
		segment_path(path, j->dir, segment);
		if (j->fd >= 0)
			close(j->fd);
		if (before.fd >= 0 && rc == ERR_DISK_FULL && unlink(path) != 0 && errno != ENOENT)
			rc = journal_file_error(err, "remove", path);
		go_back(j, &before);
		return rc;
	}
	if (before.fd >= 0)
		close(before.fd);
	pthread_mutex_lock(&j->lock);
	j->newest = (struct journal_place){segment, j->next_record, j->time_us};
	pthread_mutex_unlock(&j->lock);
	return ERR_NONE;
}

enum err_code journal_next_segment(struct journal *j, struct err *err)
{
	return j->at == j->unit ? ERR_NONE : segment_make(j, j->newest.segment + 1, err);
}

bool journal_is_long(const struct journal *j)
{
	return j->at >= j->segment_bytes;
}

struct journal_place journal_newest(struct journal *j)
{
	struct journal_place newest;

	pthread_mutex_lock(&j->lock);
	newest = j->newest;
	pthread_mutex_unlock(&j->lock);
	return newest;
}

/* ---- life cycle ---- */

/* What a file under /sys says of a disk, or of the disk that a partition is on; 0: there is none. */
static uint64_t physical_sector(dev_t disk, const char *where)
{
	char     path[PATH_MAX], text[32] = "";
	uint64_t bytes = 0;
	FILE    *f;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/physical_block_size", major(disk), minor(disk),
	         where);
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	if (fgets(text, sizeof(text), f) != NULL)
		bytes = strtoull(text, NULL, 10);
	fclose(f);
	return unit_is_valid(bytes) ? bytes : 0;
}

/* Not every directory is on one disk that says so (btrfs, a network, memory). */
static uint64_t unit_of_disk(const char *dir)
{
	struct stat st;
	uint64_t    bytes;

	if (stat(dir, &st) != 0)
		return UNIT_BYTES_USUAL;
	bytes = physical_sector(st.st_dev, "queue");
	if (bytes == 0)
		bytes = physical_sector(st.st_dev, "../queue");
	return bytes == 0 ? UNIT_BYTES_USUAL : bytes;
}

enum err_code journal_open(struct journal **out, const struct journal_site *site,
                           const struct journal_place *end, const struct journal_options *options,
                           struct err *err)
{
	struct journal *j = mem_zalloc(sizeof(*j));
	enum err_code   rc = ERR_NONE;

	j->dir = mem_alloc(strlen(site->dir) + 1);
	memcpy(j->dir, site->dir, strlen(site->dir) + 1);
	memcpy(j->id, site->id, sizeof(j->id));
	j->segment_bytes = (off_t)options->segment_bytes;
	j->fd = -1;
	j->next_record = end->record;
	j->time_us = end->time_us;
	buf_init(&j->sectors, NULL);
	j->direct_buffer = aligned_alloc(DIRECT_ALIGNMENT, DIRECT_BYTES);
	if (j->direct_buffer == NULL)
		abort(); /* as everywhere: docs/decisions/003 */
	j->aio = aio_open();
	pthread_mutex_init(&j->lock, NULL);
	if (mkdir(j->dir, 0700) != 0 && errno != EEXIST)
		rc = journal_file_error(err, "create the directory", j->dir);
	j->unit = (off_t)(options->unit_bytes != 0 ? options->unit_bytes : unit_of_disk(j->dir));
	if (rc == ERR_NONE)
		rc = segment_make(j, end->segment, err);
	if (rc == ERR_NONE)
		*out = j;
	else
		journal_close(j);
	return rc;
}

void journal_close(struct journal *j)
{
	if (j->fd >= 0)
		close(j->fd);
	buf_release(&j->sectors);
	free(j->direct_buffer);
	aio_close(j->aio);
	pthread_mutex_destroy(&j->lock);
	free(j->dir);
	free(j);
}

/* ---- writing ---- */

enum err_code journal_append(struct journal *j, int64_t time_us, struct bytes body, struct err *err)
{
	struct record r = {.number = j->next_record, .time_us = time_us, .body = body};
	off_t         at = j->at;

	if (body.len > RECORD_BODY_BYTES_MAX)
		return err_set(err, ERR_STORAGE, "write the journal: a commit of %zu bytes is too large",
		               body.len);
	if (!fill_ahead(j, at + units_of(j, record_bytes(body.len))))
		return journal_file_error(err, "write", "the journal"); /* nothing of it is written yet */
	r.filled = (uint32_t)(j->filled / SECTOR_BYTES);
	buf_reset(&j->sectors);
	record_encode(&j->sectors, &r);
	fill_unit(j);
	j->at += (off_t)j->sectors.len;
	if (!write_flushed(j, buf_bytes(&j->sectors), at))
		return err_set(err, ERR_STORAGE, "write the journal: %s", strerror(errno));
	if (j->sectors.cap > BUFFER_KEPT_MAX)
		buf_release(&j->sectors);
	j->next_record++;
	j->time_us = time_us;
	return ERR_NONE;
}
