/* A spool in a directory of its own. */
#ifndef TESTS_SERVICE_SPOOL_WORLD_H
#define TESTS_SERVICE_SPOOL_WORLD_H

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fault.h"
#include "service/spool.h"

struct world {
	char          dir[64];
	struct spool *spool;
	struct arena  arena;
	struct err    err;
};

static inline enum err_code reopen(struct world *w, size_t bytes_max, uint32_t records_max)
{
	struct spool_options options = {w->dir, bytes_max, records_max};

	if (w->spool != NULL)
		spool_close(w->spool);
	return spool_open(&w->spool, &options, &w->err);
}

static inline void world_open(struct world *w, size_t bytes_max, uint32_t records_max)
{
	*w = (struct world){.dir = "/tmp/gatehouse-spool-XXXXXX"};
	assert_non_null(mkdtemp(w->dir));
	arena_init(&w->arena);
	assert_int_equal(reopen(w, bytes_max, records_max), ERR_NONE);
}

static inline const char *path_of(struct world *w)
{
	return arena_printf(&w->arena, "%s/spool%c", w->dir, '\0').data;
}

static inline void world_close(struct world *w)
{
	if (w->spool != NULL)
		spool_close(w->spool);
	unlink(path_of(w));
	unlink(arena_printf(&w->arena, "%s/spool.lock%c", w->dir, '\0').data);
	assert_int_equal(rmdir(w->dir), 0);
	arena_release(&w->arena);
}

static inline enum err_code add(struct world *w, uint32_t line, const char *text)
{
	uint64_t number;

	if (spool_append(w->spool, &(struct spool_record){line, bytes_of(text)}, &number, &w->err) !=
	    ERR_NONE)
		return w->err.code;
	return spool_sync(w->spool, number, &w->err);
}

/* All that can be taken, taken off. */
static inline struct bytes drain(struct world *w)
{
	struct bytes record;
	struct buf   all;
	uint64_t     number;

	buf_init(&all, &w->arena);
	while ((number = spool_take(w->spool, &w->arena, &record)) > 0) {
		buf_add_bytes(&all, record);
		spool_done(w->spool, number);
	}
	return buf_bytes(&all);
}

static inline uint64_t take(struct world *w, const char *expected)
{
	struct bytes record = {NULL, 0};
	uint64_t     number = spool_take(w->spool, &w->arena, &record);

	if (!bytes_equal(record, bytes_of(expected)))
		fail_msg("%.*s instead of %s", BYTES_ARG(record), expected);
	return number;
}

#endif
