/* Call: one request to the engine: its JSON, decoded, and what the model says its answer must be. It is run
 * and compared on the spot, on a reader or in a turn; the first difference ends the program, with all that is
 * needed to replay it. */
#ifndef TESTS_MODEL_CALL_H
#define TESTS_MODEL_CALL_H

#include <pthread.h>
#include <unistd.h>

#include "dynamo/request.h"
#include "dynamo/wire.h"
#include "engine/engine.h"
#include "model/transaction.h"

enum { LOGS = 2, LOG_NUMBERS = 30000 };

struct log_row {
	int64_t n;         /* 0: there is none */
	int64_t expires_s; /* 0: never */
};

/* See log.h. */
struct log {
	struct log_row rows[LOG_NUMBERS];
	int            end;  /* the next number */
	int64_t        sets; /* so far */
};

struct driver {
	uint64_t              seed, operations;
	struct world          world;
	struct arena          arena; /* of the step at hand; whoever runs has it */
	struct err            err;
	struct json_reader   *json;
	struct clock_manual   clock;
	struct engine_options options;
	struct engine        *engine;
	struct log            logs[LOGS];
	enum err_code lost; /* how a request may end whose batch the disk does not take; ERR_NONE: it does */
	char          dir[64];

	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t  finished;
	unsigned        done;
};

struct got_expected {
	bool          found[PARTS_MAX];
	struct record records[PARTS_MAX];
};

struct call {
	struct driver        *driver;
	uint64_t              number;
	const char           *operation;
	struct bytes          body;
	struct dynamo_request q;
	enum err_code         decoded; /* what decoding gave */
	enum err_code (*run)(struct call *c, struct table *t);

	/* expected */
	enum err_code        code;
	struct written      *written;
	struct transacted   *transacted;
	struct got_expected *got;
	unsigned             count; /* of parts */
	const struct query  *query;
	int                  query_range;
	struct answer        answer;
};

/* ---- saying what is wrong ---- */

static inline struct bytes say_item(struct arena *a, const struct item *item)
{
	struct buf         out;
	struct json_writer w;

	if (item == NULL)
		return BYTES("nothing");
	buf_init(&out, a);
	json_writer_init(&w, &out);
	wire_item_write(&w, item);
	return buf_bytes(&out);
}

static inline struct bytes say_record(struct arena *a, const struct record *r)
{
	struct buf         out;
	struct json_writer w;

	if (r == NULL)
		return BYTES("nothing");
	buf_init(&out, a);
	json_writer_init(&w, &out);
	record_write(&w, r);
	return buf_bytes(&out);
}

_Noreturn static inline void call_differ(struct call *c, const char *what, struct bytes expected,
                                         struct bytes got)
{
	printf("DIFFERENCE in %s\nseed %llu, operation %llu, at second %lld: %s\n%.*s\nexpected: %.*s\ngot:  "
	       "    "
	       "%.*s\nreplay with SEED=%llu; the data is left in %s\n",
	       what, (unsigned long long)c->driver->seed, (unsigned long long)c->number,
	       (long long)c->driver->world.now_s, c->operation, BYTES_ARG(c->body), BYTES_ARG(expected),
	       BYTES_ARG(got), (unsigned long long)c->driver->seed, c->driver->dir);
	fflush(stdout);
	_exit(1);
}

static inline void check_number(struct call *c, const char *what, int64_t expected, int64_t got)
{
	struct arena *a = &c->driver->arena;

	if (expected != got)
		call_differ(c, what, arena_printf(a, "%lld", (long long)expected),
		            arena_printf(a, "%lld", (long long)got));
}

/* The outcome; with the text, which tells more than the code. */
static inline bool check_code(struct call *c, enum err_code got)
{
	struct arena *a = &c->driver->arena;

	if (c->code != got)
		call_differ(c, "the outcome",
		            arena_printf(a, "%s", c->code == ERR_NONE ? "success" : err_name(c->code)),
		            arena_printf(a, "%s: %s", got == ERR_NONE ? "success" : err_name(got),
		                         got == ERR_NONE ? "" : c->driver->err.text));
	return got == ERR_NONE;
}

/* Either may be NULL: nothing. */
static inline void check_item(struct call *c, const char *what, const struct record *expected,
                              const struct item *got)
{
	struct arena *a = &c->driver->arena;
	struct record read;

	if (expected == NULL && got == NULL)
		return;
	if (expected == NULL || got == NULL || !record_read(got, &read) || !record_equal(expected, &read))
		call_differ(c, what, say_record(a, expected), say_item(a, got));
}

static inline void check_written(struct call *c, const char *what, const struct written *expected,
                                 const struct table_write_result *got)
{
	check_number(c, "condition_failed", expected->condition_failed, got->condition_failed);
	check_item(c, what, expected->has_record ? &expected->record : NULL,
	           got->has_item ? &got->item : NULL);
}

/* ---- running ---- */

#define BACKEND(c, t, name, q, r) ((t)->backend->name((t), &(c)->driver->arena, (q), (r), &(c)->driver->err))

static inline enum err_code run_get(struct call *c, struct table *t)
{
	struct table_get_result r;
	enum err_code           rc = BACKEND(c, t, get, &c->q.get, &r);

	if (check_code(c, rc))
		check_item(c, "the item", c->got->found[0] ? &c->got->records[0] : NULL,
		           r.found ? &r.item : NULL);
	return rc;
}

static inline enum err_code run_write(struct call *c, struct table *t)
{
	struct table_write_result r;
	enum err_code             rc = BACKEND(c, t, write, &c->q.write, &r);

	if (check_code(c, rc))
		check_written(c, "the returned item", c->written, &r);
	return rc;
}

static inline void check_got(struct call *c, const struct table_batch_get_result *r)
{
	for (unsigned i = 0; i < c->count; i++) {
		check_number(c, "skipped", 0, r->skipped[i]);
		check_item(c, "an item", c->got->found[i] ? &c->got->records[i] : NULL,
		           r->results[i].found ? &r->results[i].item : NULL);
	}
}

static inline enum err_code run_batch_get(struct call *c, struct table *t)
{
	struct table_batch_get        q = {c->q.batch.gets, c->q.batch.count};
	struct table_batch_get_result r;
	enum err_code                 rc = BACKEND(c, t, batch_get, &q, &r);

	if (check_code(c, rc))
		check_got(c, &r);
	return rc;
}

static inline enum err_code run_transact_get(struct call *c, struct table *t)
{
	struct table_batch_get_result r;
	enum err_code                 rc = BACKEND(c, t, transact_get, &c->q.transact_get, &r);

	if (check_code(c, rc))
		check_got(c, &r);
	return rc;
}

static inline enum err_code run_batch_write(struct call *c, struct table *t)
{
	struct table_batch_write        q = {c->q.batch.writes, c->q.batch.count};
	struct table_batch_write_result r;
	enum err_code                   rc = BACKEND(c, t, batch_write, &q, &r);

	check_code(c, rc);
	return rc;
}

static inline void check_reason(struct call *c, const struct written *expected,
                                const struct table_reason *got)
{
	enum err_code code = expected->condition_failed ? ERR_CONDITION : expected->code;
	bool          has = expected->condition_failed && expected->has_record;

	check_number(c, "a reason", code, got->code);
	check_item(c, "a reason's item", has ? &expected->record : NULL, got->has_item ? &got->item : NULL);
}

static inline enum err_code run_transact_write(struct call *c, struct table *t)
{
	struct table_transact_result r;
	enum err_code                rc = BACKEND(c, t, transact_write, &c->q.transact_write, &r);

	if (!check_code(c, rc))
		return rc;
	check_number(c, "repeated", c->transacted->repeated, r.repeated);
	check_number(c, "cancelled", c->transacted->cancelled, r.cancelled);
	for (unsigned i = 0; i < c->count && r.cancelled; i++)
		check_reason(c, &c->transacted->parts[i], &r.reasons[i]);
	return rc;
}

static inline enum err_code run_create(struct call *c, struct table *t)
{
	struct table_description r;
	enum err_code            rc = BACKEND(c, t, create, &c->q.create, &r);

	check_code(c, rc);
	return rc;
}

static inline enum err_code run_remove(struct call *c, struct table *t)
{
	struct table_description r;
	enum err_code            rc = BACKEND(c, t, remove, c->q.table, &r);

	check_code(c, rc);
	return rc;
}

static inline enum err_code run_alter(struct call *c, struct table *t)
{
	struct table_description r;
	enum err_code            rc = BACKEND(c, t, alter, &c->q.alter.alter, &r);

	check_code(c, rc);
	return rc;
}

static inline enum err_code run_ttl(struct call *c, struct table *t)
{
	struct table_change      change = {.kind = CHANGE_TTL,
	                                   .ttl_attribute = c->q.ttl.enabled ? c->q.ttl.attribute : BYTES("")};
	struct table_alter       q = {c->q.ttl.table, &change, 1};
	struct table_description r;
	enum err_code            rc = BACKEND(c, t, alter, &q, &r);

	check_code(c, rc);
	return rc;
}

#endif
