/* Journal, read: the segments one after the other, as far as they are sound. Every way in which one can be missing,
 * short, damaged or another's ends here, with a message that names the file. */
#define _GNU_SOURCE
#include "engine/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

enum { NAME_DIGITS = 8 };

#define ADVICE "Restore a backup of the data directory, or see what `gatehouse salvage` can keep"

void segment_path(char out[PATH_MAX], const char *dir, uint64_t segment)
{
	snprintf(out, PATH_MAX, "%s/%0*llu.log", dir, NAME_DIGITS, (unsigned long long)segment);
}

enum err_code journal_file_error(struct err *err, const char *what, const char *path)
{
	bool full = errno == ENOSPC || errno == EDQUOT;

	return err_set(err, full ? ERR_DISK_FULL : ERR_STORAGE, "%s %s: %s", what, path, strerror(errno));
}

/* ---- which segments there are ---- */

static bool segment_of_name(const char *name, uint64_t *out)
{
	char              *end;
	unsigned long long number = strtoull(name, &end, 10);

	*out = number;
	return end - name >= NAME_DIGITS && strcmp(end, ".log") == 0;
}

enum err_code each_segment(const char *dir, void (*each)(void *ctx, uint64_t segment), void *ctx,
                           struct err *err)
{
	DIR           *d = opendir(dir);
	enum err_code  rc = ERR_NONE;
	struct dirent *entry;
	uint64_t       segment;

	if (d == NULL)
		return errno == ENOENT ? ERR_NONE : journal_file_error(err, "open", dir);
	while ((errno = 0, entry = readdir(d)) != NULL)
		if (segment_of_name(entry->d_name, &segment))
			each(ctx, segment);
	if (errno != 0)
		rc = journal_file_error(err, "read", dir);
	closedir(d);
	return rc;
}

static void span_add(void *ctx, uint64_t segment)
{
	struct segment_span *s = ctx;

	if (segment < s->from)
		return;
	if (s->first == 0 || segment < s->first)
		s->first = segment;
	if (segment > s->last)
		s->last = segment;
}

enum err_code segment_span(const char *dir, struct segment_span *s, struct err *err)
{
	s->first = s->last = 0;
	return each_segment(dir, span_add, s, err);
}

/* ---- the newest, as it was written down ---- */

static enum err_code newest_decode(const struct journal_site *site, struct bytes text,
                                   struct segment_head *out, struct err *err)
{
	if (text.len != SECTOR_BYTES || segment_head_decode(text, out) != RECORD_WHOLE || out->filled == 0)
		return err_set(
		        err, ERR_STORAGE,
		        "%s/%s is damaged: it says which segment of the journal is the newest. " ADVICE,
		        site->dir, JOURNAL_NEWEST);
	if (memcmp(out->directory, site->id, sizeof(site->id)) != 0)
		return err_set(err, ERR_STORAGE, "%s/%s belongs to another data directory. " ADVICE,
		               site->dir, JOURNAL_NEWEST);
	return ERR_NONE;
}

enum err_code journal_newest_read(const struct journal_site *site, struct segment_head *out, struct err *err)
{
	char          path[PATH_MAX];
	struct buf    text;
	enum err_code rc;
	bool          found;

	snprintf(path, sizeof(path), "%s/%s", site->dir, JOURNAL_NEWEST);
	buf_init(&text, NULL);
	rc = file_read(path, SECTOR_BYTES, &text, &found, err);
	if (rc == ERR_NONE && found)
		rc = newest_decode(site, buf_bytes(&text), out, err);
	else if (rc == ERR_NONE)
		rc = err_set(err, ERR_STORAGE,
		             "%s is missing: it says which segment of the journal is the newest. " ADVICE,
		             path);
	buf_release(&text);
	return rc;
}

enum err_code journal_newest_write(const char *dir, const struct segment_head *h, struct err *err)
{
	struct buf    sector;
	enum err_code rc;

	buf_init(&sector, NULL);
	segment_head_encode(&sector, h);
	rc = file_replace(dir, JOURNAL_NEWEST, buf_bytes(&sector), err);
	buf_release(&sector);
	return rc;
}

/* ---- a segment ---- */

enum err_code segment_load(const char *path, struct buf *out, struct err *err)
{
	int         fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t     n;

	if (fd < 0)
		return journal_file_error(err, "open", path);
	buf_reserve(out, fstat(fd, &st) == 0 ? (size_t)st.st_size + 1 : SECTOR_BYTES);
	while ((n = read(fd, out->data + out->len, out->cap - out->len)) > 0) {
		out->len += (size_t)n;
		buf_reserve(out, 1);
	}
	if (n < 0)
		journal_file_error(err, "read", path);
	close(fd);
	return n < 0 ? ERR_STORAGE : ERR_NONE;
}

/* What is being read, and how far it got. */
struct reading {
	const struct journal_site   *site;
	const struct journal_reader *reader;
	struct journal_place        *end;
	struct journal_damage        damage;
	struct err                  *err;
};

/* A segment in memory. */
struct segment_text {
	char         path[PATH_MAX];
	uint64_t     number;
	struct bytes all;
	size_t       unit; /* its head's */
};

static void note_damage(struct reading *g, uint64_t segment, size_t at)
{
	g->damage = (struct journal_damage){segment, at};
}

static enum err_code damaged(struct reading *g, const struct segment_text *s, size_t at)
{
	note_damage(g, s->number, at);
	return err_set(
	        g->err, ERR_STORAGE,
	        "%s is damaged at byte %zu: what was committed there and after it cannot be read. " ADVICE,
	        s->path, at);
}

static enum err_code missing(struct reading *g, uint64_t segment)
{
	note_damage(g, segment, 0);
	return err_set(g->err, ERR_STORAGE, "%s: the segment %llu of the journal is missing. " ADVICE,
	               g->site->dir, (unsigned long long)segment);
}

/* (J6) */
static enum err_code check_length(struct reading *g, const struct segment_text *s, uint32_t filled, size_t at)
{
	if ((size_t)filled * SECTOR_BYTES <= s->all.len)
		return ERR_NONE;
	note_damage(g, s->number, at);
	return err_set(g->err, ERR_STORAGE,
	               "%s was cut short: it has %zu bytes and had at least %zu. " ADVICE, s->path,
	               s->all.len, (size_t)filled * SECTOR_BYTES);
}

/* Moves to where the next unit begins, behind the zeros that fill this one; false if they are none. */
static bool skip_filling(const struct segment_text *s, size_t *at)
{
	size_t next = (*at + s->unit - 1) / s->unit * s->unit;

	if (next > s->all.len)
		next = s->all.len;
	for (size_t i = *at; i < next; i++)
		if (s->all.data[i] != 0)
			return false;
	*at = next;
	return true;
}

/* The next record; *at is moved behind it. Anything but RECORD_WHOLE ends the segment. RECORD_DAMAGED: g->err says how. */
static enum record_found read_record(struct reading *g, const struct segment_text *s, struct arena *a,
                                     size_t *at, struct record *r)
{
	enum record_found found;
	size_t            used;

	if (!skip_filling(s, at))
		found = RECORD_DAMAGED;
	else
		found = record_decode(a, (struct bytes){s->all.data + *at, s->all.len - *at}, g->end->record,
		                      r, &used);
	if (found == RECORD_DAMAGED)
		damaged(g, s, *at);
	else if (found != RECORD_END && check_length(g, s, r->filled, *at) != ERR_NONE)
		return RECORD_DAMAGED;
	else if (found == RECORD_TORN)
		log_info("%s ends in a commit that was cut short and never acknowledged", s->path);
	else if (found == RECORD_WHOLE)
		*at += used;
	return found;
}

/* The records of one segment; g->end is moved behind them. */
static enum err_code read_records(struct reading *g, const struct segment_text *s)
{
	size_t            at = SECTOR_BYTES;
	enum err_code     rc = ERR_NONE;
	enum record_found found;
	struct record     r;
	struct arena      a;

	arena_init(&a);
	while (rc == ERR_NONE && (found = read_record(g, s, &a, &at, &r)) != RECORD_END &&
	       found != RECORD_TORN) {
		rc = found == RECORD_DAMAGED ? ERR_STORAGE : g->reader->each(g->reader->ctx, &r, g->err);
		if (rc != ERR_NONE)
			break;
		g->end->record++;
		g->end->time_us = r.time_us;
		arena_reset(&a);
	}
	arena_release(&a);
	return rc;
}

/* Is it the segment that is to follow? One that was made and never written ends without records. */
static enum err_code read_head(struct reading *g, struct segment_text *s, bool *written)
{
	struct segment_head head;
	enum record_found   found = segment_head_decode(s->all, &head);
	bool                sealed = g->site->sealed;

	*written = found == RECORD_WHOLE;
	if (found == RECORD_END && !sealed)
		return ERR_NONE;
	if (found != RECORD_WHOLE || head.segment != s->number || (sealed && head.filled == 0))
		return damaged(g, s, 0);
	if (sealed && memcmp(head.directory, g->site->id, sizeof(head.directory)) != 0) {
		note_damage(g, s->number, 0);
		return err_set(g->err, ERR_STORAGE, "%s belongs to another data directory. " ADVICE, s->path);
	}
	if (head.first != g->end->record) {
		note_damage(g, s->number, 0);
		return err_set(g->err, ERR_STORAGE,
		               "%s begins with commit %llu instead of %llu: commits are missing. " ADVICE,
		               s->path, (unsigned long long)head.first, (unsigned long long)g->end->record);
	}
	s->unit = head.unit;
	return check_length(g, s, head.filled, SECTOR_BYTES);
}

/* g->end says where this segment must begin, and then where it ended. */
static enum err_code read_segment(struct reading *g, uint64_t segment)
{
	struct segment_text s = {.number = segment};
	struct buf          all;
	enum err_code       rc;
	bool                written;

	segment_path(s.path, g->site->dir, segment);
	buf_init(&all, NULL);
	rc = segment_load(s.path, &all, g->err);
	if (rc == ERR_NONE) {
		s.all = buf_bytes(&all);
		rc = read_head(g, &s, &written);
		if (rc == ERR_NONE && written)
			rc = read_records(g, &s);
	} else if (access(s.path, F_OK) != 0) {
		rc = missing(g, segment);
	}
	buf_release(&all);
	return rc;
}

/* ---- all ---- */

/* After all that are there were read: should there be more? */
static enum err_code check_newest(struct reading *g, uint64_t last)
{
	struct segment_head newest;

	if (!g->site->sealed)
		return ERR_NONE;
	if (journal_newest_read(g->site, &newest, g->err) != ERR_NONE) {
		note_damage(g, g->end->segment, 0);
		return g->err->code;
	}
	return newest.segment > last ? missing(g, last + 1) : ERR_NONE;
}

static enum err_code read_all(struct reading *g, const struct journal_place *from)
{
	struct segment_span s = {.from = from->segment};

	if (segment_span(g->site->dir, &s, g->err) != ERR_NONE)
		return g->err->code;
	if ((from->segment != 0 || s.first != 0 || g->site->sealed) && s.first != g->end->segment)
		return missing(g, g->end->segment);
	for (uint64_t segment = s.first; s.first != 0 && segment <= s.last; segment++) {
		uint64_t before = g->end->record;

		if (read_segment(g, segment) != ERR_NONE)
			return g->err->code;
		g->end->segment =
		        g->end->record > before ? segment + 1 : segment; /* an empty one is made anew */
	}
	return check_newest(g, s.last);
}

enum err_code journal_read(const struct journal_site *site, const struct journal_place *from,
                           const struct journal_reader *reader, struct journal_place *end, struct err *err)
{
	struct reading g = {.site = site, .reader = reader, .end = end, .err = err};
	enum err_code  rc;

	*end = *from;
	if (from->segment == 0)
		*end = (struct journal_place){.segment = 1, .record = 1, .time_us = from->time_us};
	rc = read_all(&g, from);
	if (reader->damage != NULL)
		*reader->damage = g.damage;
	return rc;
}
