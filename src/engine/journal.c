/* Journal: the segments' files. A segment is filled with zeros some way ahead of what is written to it: a flush
 * then writes the record alone, and not also the file's new length, which takes about half as long again. Where the
 * file system goes along, it is written past the page cache: nobody reads it, and a flush is a sixth quicker. */
#define _GNU_SOURCE
#include "engine/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
	NAME_DIGITS = 8,
};

struct journal {
	/* set once */
	char *dir;
	off_t segment_bytes;
	off_t unit; /* (J5) */

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

static void segment_path(char out[PATH_MAX], const char *dir, uint64_t segment)
{
	snprintf(out, PATH_MAX, "%s/%0*llu.log", dir, NAME_DIGITS, (unsigned long long)segment);
}

static enum err_code file_error(struct err *err, const char *what, const char *path)
{
	return err_set(err, ERR_STORAGE, "%s %s: %s", what, path, strerror(errno));
}

/* ---- which segments there are ---- */

static bool segment_of_name(const char *name, uint64_t *out)
{
	char              *end;
	unsigned long long number = strtoull(name, &end, 10);

	*out = number;
	return end - name >= NAME_DIGITS && strcmp(end, ".log") == 0;
}

/* Calls `each` for every segment that there is, in no order. A directory that is not there has none; one that
 * cannot be read to its end is an error, or what is committed would be taken for absent. */
static enum err_code each_segment(const char *dir, void (*each)(void *ctx, uint64_t segment), void *ctx,
                                  struct err *err)
{
	DIR           *d = opendir(dir);
	struct dirent *entry;
	uint64_t       segment;

	if (d == NULL)
		return errno == ENOENT ? ERR_NONE : file_error(err, "open", dir);
	err->code = ERR_NONE;
	while ((errno = 0, entry = readdir(d)) != NULL)
		if (segment_of_name(entry->d_name, &segment))
			each(ctx, segment);
	if (errno != 0)
		file_error(err, "read", dir);
	closedir(d);
	return err->code;
}

struct span {
	uint64_t first, last; /* 0: none */
	uint64_t from;        /* what lies before is not looked at */
};

static void span_add(void *ctx, uint64_t segment)
{
	struct span *s = ctx;

	if (segment < s->from)
		return;
	if (s->first == 0 || segment < s->first)
		s->first = segment;
	if (segment > s->last)
		s->last = segment;
}

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
		log_warn("old segments of the journal are left over: %s", err.text);
}

/* ---- reading ---- */

static enum err_code segment_load(const char *path, struct buf *out, struct err *err)
{
	int         fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t     n;

	if (fd < 0)
		return file_error(err, "open", path);
	buf_reserve(out, fstat(fd, &st) == 0 ? (size_t)st.st_size + 1 : SECTOR_BYTES);
	while ((n = read(fd, out->data + out->len, out->cap - out->len)) > 0) {
		out->len += (size_t)n;
		buf_reserve(out, 1);
	}
	if (n < 0)
		file_error(err, "read", path);
	close(fd);
	return n < 0 ? ERR_STORAGE : ERR_NONE;
}

static enum err_code damaged(struct err *err, const char *path, size_t at)
{
	return err_set(err, ERR_STORAGE,
	               "%s is damaged at byte %zu: what was committed there and after it cannot be read",
	               path, at);
}

/* A segment in memory. */
struct segment_text {
	const char  *path;
	struct bytes all;
	size_t       unit; /* its head's */
};

/* Moves to where the next unit begins, behind the zeros that fill this one; false if they are none. */
static bool skip_filling(const struct segment_text *s, size_t *at)
{
	size_t next = (*at + s->unit - 1) / s->unit * s->unit;

	if (next > s->all.len)
		next = s->all.len;
	for (; *at < next; ++*at)
		if (s->all.data[*at] != 0)
			return false;
	return true;
}

/* The records of one segment; *end is moved behind them. */
static enum err_code read_records(const struct segment_text *s, const struct journal_reader *reader,
                                  struct journal_place *end, struct err *err)
{
	size_t            at = SECTOR_BYTES, used = 0;
	enum record_found found;
	struct record     r;
	struct arena      a;

	arena_init(&a);
	err->code = ERR_NONE;
	for (;; at += used) {
		found = RECORD_DAMAGED;
		if (!skip_filling(s, &at))
			break;
		found = record_decode(&a, (struct bytes){s->all.data + at, s->all.len - at}, end->record, &r,
		                      &used);
		if (found != RECORD_WHOLE || reader->each(reader->ctx, &r, err) != ERR_NONE)
			break;
		end->record++;
		end->time_us = r.time_us;
		arena_reset(&a);
	}
	if (found == RECORD_DAMAGED)
		damaged(err, s->path, at);
	if (found == RECORD_TORN)
		log_info("%s ends in a commit that was cut short and never answered", s->path);
	arena_release(&a);
	return err->code;
}

/* *end says where this segment must begin, and then where it ended. */
static enum err_code read_segment(const char *dir, uint64_t segment, const struct journal_reader *reader,
                                  struct journal_place *end, struct err *err)
{
	struct segment_head head;
	enum record_found   found;
	char                path[PATH_MAX];
	struct buf          all;

	segment_path(path, dir, segment);
	buf_init(&all, NULL);
	err->code = ERR_NONE;
	if (segment_load(path, &all, err) == ERR_NONE) {
		found = segment_head_decode(buf_bytes(&all), &head);
		if (found == RECORD_DAMAGED || (found == RECORD_WHOLE && head.segment != segment))
			damaged(err, path, 0);
		else if (found == RECORD_WHOLE && head.first != end->record)
			err_set(err, ERR_STORAGE,
			        "%s begins with commit %llu, but commit %llu is to follow: some are missing",
			        path, (unsigned long long)head.first, (unsigned long long)end->record);
		else if (found == RECORD_WHOLE)
			read_records(&(struct segment_text){path, buf_bytes(&all), head.unit}, reader, end,
			             err);
	}
	buf_release(&all);
	return err->code;
}

enum err_code journal_read(const char *dir, const struct journal_place *from,
                           const struct journal_reader *reader, struct journal_place *end, struct err *err)
{
	struct span s = {.from = from->segment};

	*end = *from;
	if (from->segment == 0)
		*end = (struct journal_place){.segment = 1, .record = 1, .time_us = from->time_us};
	if (each_segment(dir, span_add, &s, err) != ERR_NONE)
		return err->code;
	if ((from->segment != 0 || s.first != 0) && s.first != end->segment)
		return err_set(err, ERR_STORAGE, "%s: the segment %llu of the journal is missing", dir,
		               (unsigned long long)end->segment);
	for (uint64_t segment = s.first; s.first != 0 && segment <= s.last; segment++) {
		uint64_t before = end->record;

		if (read_segment(dir, segment, reader, end, err) != ERR_NONE)
			return err->code;
		end->segment = end->record > before ? segment + 1 : segment; /* an empty one is made anew */
	}
	return ERR_NONE;
}

/* ---- segments ---- */

/* The file system, or the disk with its larger sectors, does not do it after all. */
static bool go_indirect(struct journal *j)
{
	int flags = fcntl(j->fd, F_GETFL);

	j->direct = false;
	return fcntl(j->fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

static ssize_t write_some(struct journal *j, struct bytes data, off_t at)
{
	ssize_t n;

	if (!j->direct)
		return pwrite(j->fd, data.data, data.len, at);
	if (data.len > DIRECT_BYTES)
		data.len = DIRECT_BYTES;
	memcpy(j->direct_buffer, data.data, data.len);
	n = pwrite(j->fd, j->direct_buffer, data.len, at);
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

/* Zeros after what was written, if there are none left. */
static bool fill_ahead(struct journal *j)
{
	static const char zeros[FILL_FIRST_BYTES];

	if (j->at <= j->filled)
		return true;
	j->filled = j->at;
	for (size_t left = j->fill_step; left > 0; left -= sizeof(zeros)) {
		if (!write_at(j, (struct bytes){zeros, sizeof(zeros)}, j->filled))
			return false;
		j->filled += (off_t)sizeof(zeros);
	}
	if (j->fill_step < FILL_BYTES_MAX)
		j->fill_step *= 2;
	return true;
}

/* A commit of many requests comes when cores are scarce, and then it is worth a good deal to wait once and not twice
 * (aio.h). For a small one the two calls are a little quicker. */
static bool write_flushed(struct journal *j, struct bytes data, off_t at)
{
	enum aio_outcome outcome = AIO_UNABLE;

	if (j->direct && j->at_once && j->at <= j->filled && data.len > APART_BYTES_MAX &&
	    data.len <= DIRECT_BYTES) {
		memcpy(j->direct_buffer, data.data, data.len);
		outcome = aio_write_flushed(j->aio, j->fd, (struct bytes){j->direct_buffer, data.len}, at);
	}
	if (outcome != AIO_UNABLE)
		return outcome == AIO_DONE;
	return write_at(j, data, at) && fill_ahead(j) && fdatasync(j->fd) == 0;
}

/* (J5) */
static void fill_unit(struct journal *j)
{
	size_t rest = j->sectors.len % (size_t)j->unit;

	if (rest == 0)
		return;
	rest = (size_t)j->unit - rest;
	buf_reserve(&j->sectors, rest);
	memset(j->sectors.data + j->sectors.len, 0, rest);
	j->sectors.len += rest;
}

/* A segment with nothing but its head and zeros, its name on the disk. */
static enum err_code segment_make(struct journal *j, uint64_t segment, struct err *err)
{
	struct segment_head head = {segment, j->next_record, (uint32_t)j->unit};
	char                path[PATH_MAX];

	segment_path(path, j->dir, segment);
	if (j->fd >= 0)
		close(j->fd);
	j->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_DIRECT, 0600);
	j->direct = j->fd >= 0;
	if (j->fd < 0 && errno == EINVAL)
		j->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (j->fd < 0)
		return file_error(err, "make", path);
	j->at_once = aio_is_for(j->fd);
	buf_reset(&j->sectors);
	segment_head_encode(&j->sectors, &head);
	fill_unit(j);
	j->at = j->unit;
	j->filled = 0;
	j->fill_step = FILL_FIRST_BYTES;
	if (!write_at(j, buf_bytes(&j->sectors), 0) || !fill_ahead(j) || fsync(j->fd) != 0)
		return file_error(err, "write", path);
	if (file_sync_directory(j->dir, err) != ERR_NONE)
		return err->code;
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

enum err_code journal_open(struct journal **out, const char *dir, const struct journal_place *end,
                           const struct journal_options *options, struct err *err)
{
	struct journal *j = mem_zalloc(sizeof(*j));

	j->dir = mem_alloc(strlen(dir) + 1);
	strcpy(j->dir, dir);
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
	err->code = ERR_NONE;
	if (mkdir(dir, 0700) != 0 && errno != EEXIST)
		file_error(err, "make the directory", dir);
	j->unit = (off_t)(options->unit_bytes != 0 ? options->unit_bytes : unit_of_disk(dir));
	if (err->code == ERR_NONE)
		segment_make(j, end->segment, err);
	if (err->code == ERR_NONE)
		*out = j;
	else
		journal_close(j);
	return err->code;
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
	struct record r = {j->next_record, time_us, body};
	off_t         at = j->at;

	if (body.len > RECORD_BODY_BYTES_MAX)
		return err_set(err, ERR_STORAGE, "write the journal: a commit of %zu bytes is too large",
		               body.len);
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
