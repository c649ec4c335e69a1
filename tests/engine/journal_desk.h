/* A journal on a desk: opened, written, closed and read back by tests, and its files, to which things happen. */
#ifndef TESTS_ENGINE_JOURNAL_DESK_H
#define TESTS_ENGINE_JOURNAL_DESK_H

#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/log.h"
#include "engine/aio.h"
#include "engine/journal.h"
#include "random.h"

enum {
	DAY_US = 1000,
	SEGMENT_BYTES = 64 << 10,
	FIRST_FILL_BYTES = 64 << 10,
	TINY_DISK_BYTES = 512 << 10,
	PHYSICAL_BYTES = 4096,
	RECORD_HEAD_BYTES = 32
};

struct desk {
	char                   dir[64], journal[96];
	struct journal        *open;
	struct journal_site    site; /* sealed from the first start on */
	struct journal_options options;
	struct buf             bodies; /* that were read, each with a newline */
	uint64_t               next;   /* number of the record to be read */
	struct arena           arena;
	struct err             err;
};

static inline void desk_open(struct desk *d)
{
	*d = (struct desk){.dir = "/tmp/gatehouse-test-XXXXXX", .options = {SEGMENT_BYTES, SECTOR_BYTES}};
	assert_non_null(mkdtemp(d->dir));
	snprintf(d->journal, sizeof(d->journal), "%s/journal", d->dir);
	d->site = (struct journal_site){.dir = d->journal, .id = "directory 0001"};
	log_set_level(LOG_ERROR);
	arena_init(&d->arena);
	buf_init(&d->bodies, &d->arena);
}

static inline void desk_close(struct desk *d)
{
	char command[128];

	if (d->open != NULL)
		journal_close(d->open);
	arena_release(&d->arena);
	snprintf(command, sizeof(command), "rm -rf %s", d->dir);
	assert_int_equal(system(command), 0);
}

static inline enum err_code take(void *ctx, const struct record *r, struct err *err)
{
	struct desk *d = ctx;

	(void)err;
	assert_int_equal(r->number, d->next++);
	assert_int_equal(r->time_us, (int64_t)r->number * DAY_US);
	buf_add_bytes(&d->bodies, r->body);
	buf_add_byte(&d->bodies, '\n');
	return ERR_NONE;
}

static inline enum err_code try_read(struct desk *d, struct journal_place from, struct journal_place *end)
{
	struct journal_reader reader = {.ctx = d, .each = take};

	buf_reset(&d->bodies);
	d->next = from.segment == 0 ? 1 : from.record;
	return journal_read(&d->site, &from, &reader, end, &d->err);
}

static inline struct journal_place read_from(struct desk *d, struct journal_place from, const char *bodies)
{
	struct journal_place end;

	if (try_read(d, from, &end) != ERR_NONE)
		fail_msg("%s", d->err.text);
	assert_int_equal(end.record, d->next);
	assert_bytes(buf_bytes(&d->bodies), bodies);
	return end;
}

static const struct journal_place beginning = {0};

/* As a process that begins: reads, and goes on where that ended. */
static inline void start_from(struct desk *d, struct journal_place from, const char *bodies)
{
	struct journal_place end = read_from(d, from, bodies);

	if (journal_open(&d->open, &d->site, &end, &d->options, &d->err) != ERR_NONE)
		fail_msg("%s", d->err.text);
	d->site.sealed = true;
}

static inline void start(struct desk *d, const char *bodies)
{
	start_from(d, beginning, bodies);
}

static inline void stop(struct desk *d)
{
	journal_close(d->open);
	d->open = NULL;
}

/* Appends it as the record with this number. */
static inline void append_bytes(struct desk *d, int64_t number, struct bytes body)
{
	if (journal_append(d->open, number * DAY_US, body, &d->err) != ERR_NONE)
		fail_msg("%s", d->err.text);
}

static inline void append(struct desk *d, int64_t number, const char *body)
{
	append_bytes(d, number, bytes_of(body));
}

static inline void next_segment(struct desk *d)
{
	assert_int_equal(journal_next_segment(d->open, &d->err), ERR_NONE);
}

static inline void refuses_from(struct desk *d, struct journal_place from, const char *file, const char *why)
{
	struct journal_place end;

	assert_int_equal(try_read(d, from, &end), ERR_STORAGE);
	if (strstr(d->err.text, file) == NULL || strstr(d->err.text, why) == NULL)
		fail_msg("%s and %s are not in: %s", file, why, d->err.text);
}

static inline void refuses(struct desk *d, const char *file, const char *why)
{
	refuses_from(d, beginning, file, why);
}

/* ---- what happens to files ---- */

static inline const char *path_of_segment(struct desk *d, unsigned segment)
{
	return arena_printf(&d->arena, "%s/%08u.log", d->journal, segment).data;
}

static inline bool there_is(struct desk *d, unsigned segment)
{
	return access(path_of_segment(d, segment), F_OK) == 0;
}

static inline void lose(struct desk *d, unsigned segment)
{
	assert_int_equal(unlink(path_of_segment(d, segment)), 0);
}

static inline off_t size_of(struct desk *d, unsigned segment)
{
	struct stat st;

	assert_int_equal(stat(path_of_segment(d, segment), &st), 0);
	return st.st_size;
}

static inline void cut(struct desk *d, unsigned segment, off_t size)
{
	assert_int_equal(truncate(path_of_segment(d, segment), size), 0);
}

static inline void overwrite(struct desk *d, unsigned segment, off_t at, const void *data, size_t len)
{
	int fd = open(path_of_segment(d, segment), O_WRONLY);

	assert_int_equal(pwrite(fd, data, len, at), len);
	close(fd);
}

static inline void forget_sector(struct desk *d, unsigned segment, unsigned sector)
{
	static const char zeros[SECTOR_BYTES];

	overwrite(d, segment, (off_t)sector * SECTOR_BYTES, zeros, sizeof(zeros));
}

static inline struct bytes large(struct desk *d, size_t len, uint64_t seed)
{
	struct random random = {seed};
	char         *data = arena_alloc(&d->arena, len);

	for (size_t i = 0; i < len; i++)
		data[i] = (char)('a' + random_below(&random, 26));
	return (struct bytes){data, len};
}

/* Does the directory's file system do what aio.h needs? */
static inline bool is_for_aio(struct desk *d)
{
	int  fd = open(path_of_segment(d, 1), O_RDONLY | O_DIRECT);
	bool is = fd >= 0 && aio_is_for(fd);

	if (fd >= 0)
		close(fd);
	return is;
}

/* The length of a body that fills so many sectors. */
static inline size_t body_filling(size_t sectors)
{
	return sectors * SECTOR_DATA_BYTES - RECORD_HEAD_BYTES;
}

/* Three segments of a record each, and nothing open. */
static inline void fill_three(struct desk *d)
{
	desk_open(d);
	start(d, "");
	append(d, 1, "one");
	next_segment(d);
	append(d, 2, "two");
	next_segment(d);
	append(d, 3, "three");
	stop(d);
}

#endif
