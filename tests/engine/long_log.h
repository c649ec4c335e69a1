/* Long log: an engine with rows in a log's files (ends.h, tail.h), which are checked one by one. */
#ifndef TESTS_ENGINE_LONG_LOG_H
#define TESTS_ENGINE_LONG_LOG_H

#include "engine/crew.h"

#include "engine/journal.h"
#include "engine/partition.h"
#include "engine/state.h"

enum {
	LOG_ROWS = PARTITION_WHOLE_ROWS_MAX + ENDS_IN_ORDER + 25, /* after which a log has a tail */
	FILE_ROWS = 400,
	LOG_AT_ONCE = 25, /* in a BatchWriteItem */
};

struct long_log {
	struct fixture f;
	int            end; /* the next number to append */
	bool           told;
};

static inline void note_failure(void *ctx)
{
	((struct long_log *)ctx)->told = true;
}

static inline void long_log_append(struct long_log *t, int count)
{
	for (int done = 0; done < count; done += LOG_AT_ONCE) {
		struct buf body;

		buf_init(&body, &t->f.arena);
		buf_add_bytes(&body, BYTES("{'RequestItems':{'things':["));
		for (int i = 0; i < LOG_AT_ONCE; i++, t->end++)
			buf_add_bytes(&body, arena_printf(&t->f.arena,
			                                  "%s{'PutRequest':{'Item':{'p':{'S':'p'},'s':{'N':"
			                                  "'%d'}}}}",
			                                  i == 0 ? "" : ",", t->end));
		buf_add(&body, "]}}", sizeof("]}}"));
		fixture_ok(&t->f, "BatchWriteItem", body.data);
		arena_reset(&t->f.arena);
	}
}

static inline enum err_code next_segment_run(struct turn_request *w, struct table *t)
{
	return journal_next_segment(((struct engine_session *)t)->engine->journal, &w->err);
}

static inline enum err_code long_log_try(struct long_log *t)
{
	struct turn_request next = {.run = next_segment_run};

	assert_int_equal(engine_run(t->f.engine, &next, &t->f.err), ERR_NONE);
	return checkpoint_run(t->f.engine, &t->f.err);
}

static inline void long_log_checkpoint(struct long_log *t)
{
	if (long_log_try(t) != ERR_NONE)
		fail_msg("%s", t->f.err.text);
}

static inline uint64_t long_log_files(struct long_log *t)
{
	return atomic_load(&t->f.engine->write_back.tail.files);
}

/* Every row, in order. */
static inline void assert_long_log(struct long_log *t)
{
	struct table_query        q = query_p(&t->f.arena, "");
	struct table_query_result r;
	struct fixture_reader     reader;
	struct item               start;
	int                       next = 1;

	fixture_reader_begin(&reader, &t->f);
	do {
		if (reader.table->backend->query(reader.table, &t->f.arena, &q, &r, &t->f.err) != ERR_NONE)
			fail_msg("%s", t->f.err.text);
		for (uint32_t i = 0; i < r.count; i++)
			assert_int_equal(number_in(&r.items[i]), next++);
		start = r.last_key;
		q.start = &start;
	} while (r.more);
	assert_int_equal(next, t->end);
	fixture_reader_end(&reader);
	assert_verified(&t->f);
	arena_reset(&t->f.arena);
}

/* Its next checkpoint makes a file of FILE_ROWS. */
static inline void long_log_open(struct long_log *t)
{
	*t = (struct long_log){.end = 1};
	fixture_open(&t->f);
	engine_close(t->f.engine);
	log_set_level((enum log_level)(LOG_ERROR + 1)); /* failures are no news here */
	t->f.options.on_failure = note_failure;
	t->f.options.failure_ctx = t;
	fixture_start(&t->f);
	t->f.engine->write_back.tail.file_bytes_min = 1;
	fixture_ok(&t->f, "CreateTable", TABLE_BY_N);
	engine_build_filter(t->f.engine);
	long_log_append(t, LOG_ROWS);
	long_log_checkpoint(t); /* from here on it is a log */
	long_log_append(t, FILE_ROWS);
}

#endif
