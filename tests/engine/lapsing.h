/* Lapsing: a table whose rows lapse (engine/lapse.h), and what the store has of them, whoever may see it. */
#ifndef TESTS_ENGINE_LAPSING_H
#define TESTS_ENGINE_LAPSING_H

#include "counted.h"

#include "base/directory.h"
#include "engine/lapse.h"
#include "engine/layout.h"
#include "item/codec.h"

enum {
	HOUR_END_S = 1789002000, /* of the hour in which fixtures begin */
	CLOSED_S = HOUR_END_S + 3600,
	SOON_S = START_S + 60, /* in that hour */
	DAY_S = 86400,
};

static inline void set_ttl(struct fixture *f, const char *attribute)
{
	fixture_ok(f, "UpdateTimeToLive",
	           arena_printf(&f->arena,
	                        "{'TableName':'things','TimeToLiveSpecification':{'Enabled':%s,'"
	                        "AttributeName':'%s'}}",
	                        attribute == NULL ? "false" : "true", attribute == NULL ? "ttl" : attribute)
	                   .data);
}

static inline int64_t item_count(struct fixture *f)
{
	return fixture_ok(f, "DescribeTable", "{'TableName':'things'}").table.item_count;
}

struct stored {
	int rows, index_entries, lapsing; /* lapsing: of both */
	int entries, hours;               /* expiry entries; hours that are counted by */
};

static inline struct stored look(struct fixture *f)
{
	const char             low[1] = {0}, high[1] = {0x7f};
	struct stored          found = {0};
	struct rocks_snapshot *snapshot;
	struct rocks_cursor   *c;
	struct bytes           key, value;

	assert_int_equal(view_snapshot_open(f->engine, &snapshot, &f->err), ERR_NONE);
	c = rocks_cursor_open(f->engine->rocks, snapshot, (struct bytes){low, 1}, (struct bytes){high, 1},
	                      false);
	for (; rocks_cursor_at(c, &key, &value); rocks_cursor_next(c)) {
		bool is_row = key.data[0] == KIND_ROW, is_index = key.data[0] == KIND_INDEX;

		found.rows += is_row;
		found.index_entries += is_index;
		found.lapsing += (is_row || is_index) && item_lapse(value) != 0;
		found.entries += key.data[0] == KIND_EXPIRY;
		found.hours += key.data[0] == KIND_COUNTS && key.len == 9;
	}
	rocks_cursor_close(c);
	rocks_snapshot_close(f->engine->rocks, snapshot);
	return found;
}

static inline void compact(struct fixture *f)
{
	assert_int_equal(engine_compact(f->engine, &f->err), ERR_NONE);
}

static inline void tick_at(struct fixture *f, int64_t second)
{
	fixture_set_clock(f, second);
	engine_tick(f->engine);
}

/* As it would be if the store had not merged the file it is in: a tick would have it do so. */
static inline void close_without_merge(struct fixture *f, int64_t second)
{
	fixture_set_clock(f, second);
	assert_int_equal(lapse_close(f->engine, &f->err), ERR_NONE);
}

static inline void assert_sound(struct fixture *f)
{
	assert_verified(f);
	assert_counted(f);
}

/* FORMAT as an older program would have left it. */
static inline void lower_format(struct fixture *f, int format)
{
	assert_int_equal(
	        system(arena_printf(&f->arena,
	                            "cd %s && sed -i 's/^gatehouse [0-9]*$/gatehouse %d/;/^sum /d' FORMAT && "
	                            "s=$(sha256sum <FORMAT) && echo \"sum ${s%%%% *}\" >>FORMAT",
	                            f->dir, format)
	                       .data),
	        0);
}

static inline int format_of(const struct fixture *f)
{
	struct directory d;
	struct err       err;

	assert_int_equal(directory_read(f->dir, &d, &err), ERR_NONE);
	return d.format;
}

#endif
