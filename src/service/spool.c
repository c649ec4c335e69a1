/* Spool: see spool.h. */
#include "service/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/list.h"

enum { WAITS_OLD = 1, DONE = 2, WAITS = 3, SECTOR_BYTES = 512 };

static const uint32_t all_lines = UINT32_MAX;

static const char file_name[] = "spool";
static const char lock_name[] = "spool.lock"; /* of its own: the file is replaced */
static const char magic[4] = {'G', 'H', 'S', 'P'};

struct waiting {
	struct list link;
	uint64_t    number;
	uint32_t    lines;
	bool        taken;
	size_t      len;
	char        bytes[];
};

static struct spool_record record_of(const struct waiting *w)
{
	return (struct spool_record){w->lines, {w->bytes, w->len}};
}

struct spool {
	/* set once */
	struct spool_options options;
	char                *dir, *path;
	int                  claim; /* (5) */
	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t  flushed;
	struct list     waiting; /* by number */
	uint32_t        records;
	size_t          bytes;
	uint64_t        last;      /* number given */
	uint64_t        durable;   /* all up to this are */
	struct buf      next;      /* what the next frame holds */
	uint64_t        next_last; /* the last number in it */
	bool            flushing, failed;
	char            why[SPOOL_WHY_CHARS]; /* it failed */
	size_t          file_bytes;
	/* whoever flushes */
	int fd;
};

/* ---- numbers in bytes ---- */

static void put_le(struct buf *out, uint64_t number, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		buf_add_byte(out, (uint8_t)(number >> (8 * i)));
}

static uint64_t get_le(const char *from, unsigned bytes)
{
	uint64_t number = 0;

	for (unsigned i = 0; i < bytes; i++)
		number |= (uint64_t)(uint8_t)from[i] << (8 * i);
	return number;
}

static void record_add(struct buf *out, int kind, uint64_t number, struct spool_record r)
{
	buf_add_byte(out, (uint8_t)kind);
	put_le(out, number, 8);
	put_le(out, r.lines, 4);
	put_le(out, r.bytes.len, 4);
	if (r.bytes.len > 0)
		buf_add_bytes(out, r.bytes);
}

/* (6) The last byte may be alone in its sector. With one bit of it flipped it is still not zero. */
static void content_close(struct buf *content)
{
	if (content->len > 0 && __builtin_popcount((uint8_t)content->data[content->len - 1]) < 2)
		record_add(content, DONE, 0, (struct spool_record){0, BYTES(".")});
}

static void frame_add(struct buf *out, struct bytes content)
{
	buf_add(out, magic, sizeof(magic));
	put_le(out, content.len, 4);
	put_le(out, hash_bytes(HASH_KEY_STABLE, content), 8);
	buf_add_bytes(out, content);
}

/* ---- reading a file ---- */

/* The content of a whole frame at `at`, if there is one. */
static bool frame_at(struct bytes file, size_t at, struct bytes *content)
{
	const char *head = file.data + at;
	uint64_t    len;

	if (file.len - at < SPOOL_FRAME_HEAD || memcmp(head, magic, sizeof(magic)) != 0)
		return false;
	len = get_le(head + 4, 4);
	if (len > file.len - at - SPOOL_FRAME_HEAD)
		return false;
	*content = (struct bytes){head + SPOOL_FRAME_HEAD, (size_t)len};
	return hash_bytes(HASH_KEY_STABLE, *content) == get_le(head + 8, 8);
}

static bool records_parse(struct bytes content,
                          void (*record)(void *ctx, uint64_t number, bool done, const struct spool_record *r),
                          void *ctx)
{
	while (content.len > 0) {
		uint64_t len;
		int      kind = (uint8_t)content.data[0];

		if (content.len < SPOOL_RECORD_HEAD || kind < WAITS_OLD || kind > WAITS)
			return false;
		len = get_le(content.data + 13, 4);
		if (len > content.len - SPOOL_RECORD_HEAD || len > SPOOL_RECORD_BYTES_MAX)
			return false;
		record(ctx, get_le(content.data + 1, 8), kind == DONE,
		       &(struct spool_record){kind == WAITS_OLD ? all_lines
		                                                : (uint32_t)get_le(content.data + 9, 4),
		                              {content.data + SPOOL_RECORD_HEAD, (size_t)len}});
		content.data += SPOOL_RECORD_HEAD + len;
		content.len -= SPOOL_RECORD_HEAD + (size_t)len;
	}
	return true;
}

static bool any_frame_after(struct bytes file, size_t at)
{
	struct bytes content;

	for (at++; at + SPOOL_FRAME_HEAD <= file.len; at++)
		if (frame_at(file, at, &content))
			return true;
	return false;
}

/* Is what a frame has of some sector nothing but zeros? */
static bool lacks_sector(struct bytes file, size_t at)
{
	bool zeros = true;

	for (; at < file.len; at++) {
		zeros = zeros && file.data[at] == 0;
		if ((at + 1) % SECTOR_BYTES != 0 && at + 1 < file.len)
			continue;
		if (zeros)
			return true;
		zeros = true;
	}
	return false;
}

/* (2) A length that is past the end of the file may be a damaged one: then all the rest is the frame's content. */
static bool is_torn(struct bytes file, size_t at)
{
	const char  *head = file.data + at;
	struct bytes content;

	if (file.len - at < SPOOL_FRAME_HEAD || lacks_sector(file, at))
		return true;
	content = (struct bytes){head + SPOOL_FRAME_HEAD, file.len - at - SPOOL_FRAME_HEAD};
	return memcmp(head, magic, sizeof(magic)) == 0 && get_le(head + 4, 4) > content.len &&
	       hash_bytes(HASH_KEY_STABLE, content) != get_le(head + 8, 8);
}

enum err_code spool_parse(struct bytes file,
                          void (*record)(void *ctx, uint64_t number, bool done, const struct spool_record *r),
                          void *ctx, size_t *good, struct err *err)
{
	struct bytes content;
	size_t       at = 0;

	*good = 0;
	for (; at < file.len && frame_at(file, at, &content); at += SPOOL_FRAME_HEAD + content.len)
		if (!records_parse(content, record, ctx))
			return err_set(err, ERR_STORAGE, "the frame at byte %zu holds no records", at);
	*good = at;
	if (at < file.len && any_frame_after(file, at)) /* (2) */
		return err_set(err, ERR_STORAGE, "the frame at byte %zu is damaged, and whole ones follow it",
		               at);
	if (at < file.len && !is_torn(file, at))
		return err_set(err, ERR_STORAGE, "the frame at byte %zu, the last one, is damaged", at);
	return ERR_NONE;
}

/* ---- what waits, under lock ---- */

static void waiting_add(struct spool *s, uint64_t number, const struct spool_record *r)
{
	struct waiting *w = mem_alloc(sizeof(*w) + r->bytes.len);

	w->number = number;
	w->lines = r->lines;
	w->taken = false;
	w->len = r->bytes.len;
	if (w->len > 0)
		memcpy(w->bytes, r->bytes.data, w->len);
	list_push_back(&s->waiting, &w->link);
	s->records++;
	s->bytes += w->len;
}

static bool waiting_remove(struct spool *s, uint64_t number)
{
	for (struct list *node = s->waiting.next; node != &s->waiting; node = node->next) {
		struct waiting *w = LIST_ENTRY(node, struct waiting, link);

		if (w->number != number)
			continue;
		list_remove(node);
		s->records--;
		s->bytes -= w->len;
		free(w);
		return true;
	}
	return false;
}

static void record_load(void *ctx, uint64_t number, bool done, const struct spool_record *r)
{
	struct spool *s = ctx;

	if (done)
		waiting_remove(s, number);
	else if (number > s->last)
		waiting_add(s, number, r);
	s->last = number > s->last ? number : s->last;
}

/* ---- life ---- */

static enum err_code file_open(struct spool *s, size_t good, struct err *err)
{
	s->fd = open(s->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->fd < 0 || ftruncate(s->fd, (off_t)good) != 0 || fsync(s->fd) != 0)
		return err_set(err, ERR_STORAGE, "cannot open %s: %s", s->path, strerror(errno));
	s->file_bytes = good;
	return file_sync_directory(s->dir, err);
}

static enum err_code file_load(struct spool *s, size_t *good, struct err *err)
{
	struct buf    file;
	struct err    why;
	bool          found;
	enum err_code rc;

	*good = 0;
	buf_init(&file, NULL);
	rc = file_read(s->path, SIZE_MAX / 2, &file, &found, err);
	if (rc == ERR_NONE && found && spool_parse(buf_bytes(&file), record_load, s, good, &why) != ERR_NONE)
		rc = err_set(err, ERR_STORAGE,
		             "%s: %s. It holds attempts that were acknowledged and not merged yet. Restore "
		             "the file, or "
		             "move it aside to start without them",
		             s->path, why.text);
	buf_release(&file);
	return rc;
}

static char *joined(const char *dir, const char *name)
{
	size_t len = strlen(dir) + strlen(name) + 2;
	char  *path = mem_alloc(len);

	snprintf(path, len, "%s%s%s", dir, *name == '\0' ? "" : "/", name);
	return path;
}

/* (5) Until it is closed, or the process ends. */
static enum err_code claim(struct spool *s, struct err *err)
{
	char *path = joined(s->dir, lock_name);

	s->claim = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->claim < 0)
		err_set(err, ERR_STORAGE, "cannot open %s: %s", path, strerror(errno));
	else if (flock(s->claim, LOCK_EX | LOCK_NB) != 0)
		err_set(err, ERR_STORAGE,
		        "%s is in use by another process (it holds %s). Give each process a data directory "
		        "of "
		        "its own",
		        s->dir, path);
	else
		err->code = ERR_NONE;
	free(path);
	return err->code;
}

enum err_code spool_open(struct spool **out, const struct spool_options *options, struct err *err)
{
	struct spool *s = mem_zalloc(sizeof(*s));
	size_t        good;

	s->options = *options;
	s->dir = joined(options->dir, "");
	s->path = joined(options->dir, file_name);
	s->fd = s->claim = -1;
	list_init(&s->waiting);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->flushed, NULL);
	buf_init(&s->next, NULL);
	if (claim(s, err) != ERR_NONE || file_load(s, &good, err) != ERR_NONE ||
	    file_open(s, good, err) != ERR_NONE) {
		spool_close(s);
		*out = NULL;
		return err->code;
	}
	s->durable = s->last;
	*out = s;
	return ERR_NONE;
}

void spool_close(struct spool *s)
{
	while (!list_empty(&s->waiting))
		free(LIST_ENTRY(list_pop_front(&s->waiting), struct waiting, link));
	if (s->fd >= 0)
		close(s->fd);
	if (s->claim >= 0)
		close(s->claim);
	buf_release(&s->next);
	pthread_cond_destroy(&s->flushed);
	pthread_mutex_destroy(&s->lock);
	free(s->dir);
	free(s->path);
	free(s);
}

/* ---- flushing: one thread at a time, for all that wait ---- */

static bool fails(char why[SPOOL_WHY_CHARS], const char *text)
{
	snprintf(why, SPOOL_WHY_CHARS, "%.*s", SPOOL_WHY_CHARS - 1, text);
	return false;
}

static bool frame_write(struct spool *s, struct bytes content, char why[SPOOL_WHY_CHARS])
{
	struct buf frame;
	bool       good, torn = fault_fires(FAULT_SPOOL);

	buf_init(&frame, NULL);
	frame_add(&frame, content);
	good = file_write_all(s->fd,
	                      (struct bytes){(const char *)frame.data, torn ? frame.len / 2 : frame.len}) &&
	       fdatasync(s->fd) == 0;
	if (!good)
		fails(why, strerror(errno));
	buf_release(&frame);
	return good && (!torn || fails(why, "a fault of a test"));
}

/* Takes the lock again. */
static void flushed(struct spool *s, bool good, uint64_t last, const char why[SPOOL_WHY_CHARS])
{
	pthread_mutex_lock(&s->lock);
	s->flushing = false;
	s->failed = !good; /* (4) */
	if (!good)
		memcpy(s->why, why, sizeof(s->why));
	if (good && last > s->durable)
		s->durable = last;
	pthread_cond_broadcast(&s->flushed);
}

/* Under lock, which is not held while it writes. Not after (4). */
static void flush_next(struct spool *s)
{
	struct buf content = s->next;
	uint64_t   last = s->next_last;
	char       why[SPOOL_WHY_CHARS] = "";
	bool       good;

	buf_init(&s->next, NULL);
	content_close(&content);
	s->file_bytes += content.len == 0 ? 0 : SPOOL_FRAME_HEAD + content.len;
	s->flushing = true;
	pthread_mutex_unlock(&s->lock);
	good = content.len == 0 || frame_write(s, buf_bytes(&content), why);
	buf_release(&content);
	flushed(s, good, last, why);
}

enum err_code spool_sync(struct spool *s, uint64_t number, struct err *err)
{
	bool good;

	pthread_mutex_lock(&s->lock);
	while (s->durable < number && !s->failed) {
		if (s->flushing)
			pthread_cond_wait(&s->flushed, &s->lock);
		else
			flush_next(s);
	}
	good = s->durable >= number;
	pthread_mutex_unlock(&s->lock);
	return good ? ERR_NONE
	            : err_set(err, ERR_STORAGE,
	                      "the outcome is unknown: the spool in the data directory could not be flushed");
}

enum err_code spool_sync_all(struct spool *s, struct err *err)
{
	uint64_t last;

	pthread_mutex_lock(&s->lock);
	last = s->last;
	pthread_mutex_unlock(&s->lock);
	return spool_sync(s, last, err);
}

/* ---- appending and taking off ---- */

/* Under lock. */
static enum err_code check_room(const struct spool *s, size_t bytes, struct err *err)
{
	if (bytes > SPOOL_RECORD_BYTES_MAX || s->records >= s->options.records_max ||
	    s->bytes + bytes > s->options.bytes_max)
		return err_set(err, ERR_OVERLOADED,
		               "the spool in the data directory has no room for another attempt");
	return ERR_NONE;
}

enum err_code spool_check_room(struct spool *s, size_t bytes, struct err *err)
{
	enum err_code rc;

	pthread_mutex_lock(&s->lock);
	rc = s->failed ? err_set(err, ERR_OVERLOADED,
	                         "the spool in the data directory cannot be written (%s)", s->why)
	               : check_room(s, bytes, err);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

enum err_code spool_append(struct spool *s, const struct spool_record *record, uint64_t *number,
                           struct err *err)
{
	enum err_code rc;

	pthread_mutex_lock(&s->lock);
	rc = check_room(s, record->bytes.len, err);
	if (rc == ERR_NONE) {
		*number = s->next_last = ++s->last;
		record_add(&s->next, WAITS, *number, *record);
		waiting_add(s, *number, record);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* Once all lines have an earlier record, nothing behind can be taken. What is not durable yet may only be taken after (4): those who wait for
 * it have been told. */
uint64_t spool_take(struct spool *s, struct arena *a, struct bytes *out)
{
	uint64_t number = 0;
	uint32_t earlier = 0;

	pthread_mutex_lock(&s->lock);
	for (struct list *node = s->waiting.next; node != &s->waiting && earlier != all_lines;
	     node = node->next) {
		struct waiting *w = LIST_ENTRY(node, struct waiting, link);

		if (w->number > s->durable && !s->failed)
			break;
		if (!w->taken && (w->lines & earlier) == 0) {
			w->taken = true;
			number = w->number;
			*out = arena_copy(a, (struct bytes){w->bytes, w->len});
			break;
		}
		earlier |= w->lines;
	}
	pthread_mutex_unlock(&s->lock);
	return number;
}

bool spool_first(struct spool *s, struct arena *a, struct bytes *out)
{
	bool any;

	pthread_mutex_lock(&s->lock);
	any = !list_empty(&s->waiting);
	if (any)
		*out = arena_copy(a, record_of(LIST_ENTRY(s->waiting.next, struct waiting, link)).bytes);
	pthread_mutex_unlock(&s->lock);
	return any;
}

void spool_each(struct spool *s, void (*each)(void *ctx, struct bytes record), void *ctx)
{
	pthread_mutex_lock(&s->lock);
	for (struct list *node = s->waiting.next; node != &s->waiting; node = node->next)
		each(ctx, record_of(LIST_ENTRY(node, struct waiting, link)).bytes);
	pthread_mutex_unlock(&s->lock);
}

void spool_done(struct spool *s, uint64_t number)
{
	pthread_mutex_lock(&s->lock);
	if (waiting_remove(s, number))
		record_add(&s->next, DONE, number, (struct spool_record){0});
	pthread_mutex_unlock(&s->lock);
}

/* ---- cutting off what is done ---- */

/* Whoever flushes. The file as it would be if nothing had been done. */
static bool rewrite(struct spool *s, struct bytes content, char why[SPOOL_WHY_CHARS])
{
	struct buf file;
	struct err err;
	bool       good = !fault_fires(FAULT_SPOOL) || fails(why, "a fault of a test");

	buf_init(&file, NULL);
	if (content.len > 0)
		frame_add(&file, content);
	if (good && file_replace(s->dir, file_name, buf_bytes(&file), &err) != ERR_NONE)
		good = fails(why, err.text);
	if (good) {
		if (s->fd >= 0)
			close(s->fd);
		s->fd = open(s->path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
		good = s->fd >= 0 || fails(why, strerror(errno));
	}
	buf_release(&file);
	return good;
}

/* Under lock: all that waits, and nothing else, becomes the file. */
static void rewrite_all(struct spool *s)
{
	struct buf content;
	uint64_t   last = s->next_last;
	char       why[SPOOL_WHY_CHARS] = "";
	bool       good;

	buf_init(&content, NULL);
	for (struct list *node = s->waiting.next; node != &s->waiting; node = node->next) {
		const struct waiting *w = LIST_ENTRY(node, struct waiting, link);

		record_add(&content, WAITS, w->number, record_of(w));
	}
	content_close(&content);
	buf_release(&s->next); /* it is among them, or done */
	buf_init(&s->next, NULL);
	s->flushing = true;
	pthread_mutex_unlock(&s->lock);
	good = rewrite(s, buf_bytes(&content), why);
	flushed(s, good, last, why);
	if (good)
		s->file_bytes = content.len == 0 ? 0 : SPOOL_FRAME_HEAD + content.len;
	buf_release(&content);
}

enum err_code spool_trim(struct spool *s, struct err *err)
{
	bool failed;

	pthread_mutex_lock(&s->lock);
	while (s->flushing)
		pthread_cond_wait(&s->flushed, &s->lock);
	if (!s->failed && s->file_bytes > 0 &&
	    (s->records == 0 || s->file_bytes > (SPOOL_FILE_FACTOR - 1) * s->options.bytes_max))
		rewrite_all(s);
	else if (!s->failed && s->next.len > 0)
		flush_next(s);
	failed = s->failed;
	pthread_mutex_unlock(&s->lock);
	return failed ? err_set(err, ERR_STORAGE, "the spool in the data directory could not be flushed")
	              : ERR_NONE;
}

/* All that waits is in memory, so nothing of the old file is needed. */
enum err_code spool_recover(struct spool *s, struct err *err)
{
	enum err_code rc = ERR_NONE;

	pthread_mutex_lock(&s->lock);
	while (s->flushing)
		pthread_cond_wait(&s->flushed, &s->lock);
	if (s->failed)
		rewrite_all(s);
	if (s->failed)
		rc = err_set(err, ERR_STORAGE, "the spool in the data directory cannot be written (%s)",
		             s->why);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

struct spool_numbers spool_read(struct spool *s)
{
	struct spool_numbers n;

	pthread_mutex_lock(&s->lock);
	n = (struct spool_numbers){
	        .records = s->records, .bytes = s->bytes, .file_bytes = s->file_bytes, .failed = s->failed};
	if (s->failed)
		memcpy(n.why, s->why, sizeof(n.why));
	pthread_mutex_unlock(&s->lock);
	return n;
}
