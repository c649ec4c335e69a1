/* Fixture: an engine in a temporary directory with a clock that tests set, called with DynamoDB's own JSON,
 * so that a test reads like the requests of a client. Requests are decoded by dynamo/ and run on table.h,
 * without HTTP. */
#ifndef TESTS_ENGINE_FIXTURE_H
#define TESTS_ENGINE_FIXTURE_H

#include "test.h"

#include <unistd.h>

#include "base/log.h"
#include "dynamo/request.h"
#include "dynamo/wire.h"
#include "engine/engine.h"

enum { START_S = 1789000000 }; /* the hour at which every fixture begins */

struct fixture {
	char                  dir[64];
	struct clock_manual   clock;
	struct engine_options options;
	struct engine        *engine;
	struct json_reader   *json;
	struct arena          arena;
	struct err            err;
	/* What requests run on, if it is not the engine: one elsewhere (remote/far_fixture.h). */
	struct store *store;
	void (*leave)(struct fixture *f); /* then: ends a test that is about the engine itself, as skipped */
	/* Called in the turn of a write that succeeded. */
	void (*in_turn)(struct fixture *f, struct table *t);
};

typedef enum err_code (*decoder)(struct arena *, const struct json *, struct dynamo_request *, struct err *);

union answer {
	struct table_get_result         get;
	struct table_write_result       write;
	struct table_query_result       query;
	struct table_batch_get_result   batch_get;
	struct table_batch_write_result batch_write;
	struct table_transact_result    transact;
	struct table_description        table;
	struct table_list_result        list;
};

static inline void fixture_start(struct fixture *f)
{
	if (engine_open(&f->engine, &f->options, &f->err) != ERR_NONE)
		fail_msg("%s", f->err.text);
}

/* All but a started engine, on a directory of that name. */
static inline void fixture_init(struct fixture *f, const char *dir)
{
	*f = (struct fixture){0};
	snprintf(f->dir, sizeof(f->dir), "%s", dir);
	log_set_level(LOG_ERROR);
	clock_manual_init(&f->clock, (int64_t)START_S * 1000000);
	arena_init(&f->arena);
	f->json = json_reader_open();
	f->options = engine_options_default(f->dir);
	f->options.clock = &f->clock.base;
	f->options.tick_ms = 3600 * 1000; /* only when a test says so */
	f->options.disk_reserve_bytes = 1 << 20;
	f->options.journal_unit_bytes = 4096; /* whatever this machine's disk says */
	f->options.checks_absent = true;
}

static inline void fixture_open(struct fixture *f)
{
	char dir[] = "/tmp/gatehouse-test-XXXXXX";

	assert_non_null(mkdtemp(dir));
	fixture_init(f, dir);
	fixture_start(f);
}

/* The engine itself, for tests that no other store can pass. */
static inline struct engine *fixture_engine(struct fixture *f)
{
	if (f->store != NULL)
		f->leave(f);
	return f->engine;
}

static inline void fixture_restart(struct fixture *f)
{
	fixture_engine(f);
	engine_close(f->engine);
	fixture_start(f);
}

/* Copies an open directory as it is at one moment. The store may be merging or removing files, and the writer may be making its
 * next segment: if anything changed meanwhile, it is copied again. */
static inline void directory_copy(const char *from, const char *to)
{
	char line[1024];

	snprintf(line, sizeof(line),
	         "look() { ls -lR --full-time %1$s/store %1$s/journal; }; for i in $(seq 100); do "
	         "before=$(look); rm -rf %2$s; cp -r %1$s %2$s 2>/dev/null && test \"$before\" = \"$(look)\" "
	         "&& exit 0; sleep 0.02; done; exit 1",
	         from, to);
	assert_int_equal(system(line), 0);
}

/* The directory as a kill would leave it: a copy of the open one, in which nothing goes on. */
static inline void fixture_die(struct fixture *f)
{
	char line[256], copy[80];

	snprintf(copy, sizeof(copy), "%s-copy", f->dir);
	directory_copy(f->dir, copy);
	engine_close(f->engine);
	snprintf(line, sizeof(line), "rm -rf %s && mv %s %s", f->dir, copy, f->dir);
	assert_int_equal(system(line), 0);
}

/* All but the engine. */
static inline void fixture_release(struct fixture *f)
{
	char command[128];

	json_reader_close(f->json);
	arena_release(&f->arena);
	snprintf(command, sizeof(command), "rm -rf %s", f->dir);
	assert_int_equal(system(command), 0);
}

static inline void fixture_close(struct fixture *f)
{
	engine_close(f->engine);
	fixture_release(f);
}

static inline void fixture_set_clock(struct fixture *f, int64_t second)
{
	clock_manual_set(&f->clock, second * 1000000);
}

/* JSON with ' for ", which reads better in C. */
static inline struct json *fixture_json(struct fixture *f, const char *text)
{
	struct bytes copy = arena_copy(&f->arena, bytes_of(text));
	char        *p = (char *)(uintptr_t)copy.data;
	struct json *out;

	for (size_t i = 0; i < copy.len; i++)
		if (p[i] == '\'')
			p[i] = '"';
	if (json_read(f->json, &f->arena, copy, &out, &f->err) != ERR_NONE)
		fail_msg("%s in %s", f->err.text, text);
	return out;
}

static inline struct item fixture_item(struct fixture *f, const char *text)
{
	struct item item;

	if (wire_item_read(&f->arena, fixture_json(f, text), &item, &f->err) != ERR_NONE)
		fail_msg("%s in %s", f->err.text, text);
	return item;
}

static inline void assert_item(struct fixture *f, const struct item *actual, const char *expected)
{
	struct item        want = fixture_item(f, expected);
	struct buf         out;
	struct json_writer w;

	if (item_equal(actual, &want))
		return;
	buf_init(&out, &f->arena);
	json_writer_init(&w, &out);
	wire_item_write(&w, actual);
	fail_msg("got %.*s, expected %s", BYTES_ARG(buf_bytes(&out)), expected);
}

/* ---- running a decoded request ---- */

struct fixture_call {
	struct turn_request    base;
	struct fixture        *f;
	struct dynamo_request *q;
	union answer          *r;
	enum err_code (*run)(struct fixture_call *c, struct table *t);
};

#define FIXTURE_RUN(name, member, query)                                                                     \
	static inline enum err_code fixture_##name(struct fixture_call *c, struct table *t)                  \
	{                                                                                                    \
		return t->backend->name(t, &c->f->arena, query, &c->r->member, &c->f->err);                  \
	}

FIXTURE_RUN(get, get, &c->q->get)
FIXTURE_RUN(write, write, &c->q->write)
FIXTURE_RUN(query, query, &c->q->query)
FIXTURE_RUN(transact_write, transact, &c->q->transact_write)
FIXTURE_RUN(transact_get, batch_get, &c->q->transact_get)
FIXTURE_RUN(create, table, &c->q->create)
FIXTURE_RUN(alter, table, &c->q->alter.alter)
FIXTURE_RUN(describe, table, c->q->table)
FIXTURE_RUN(remove, table, c->q->table)
FIXTURE_RUN(list, list, &c->q->list)

static inline enum err_code fixture_batch_get(struct fixture_call *c, struct table *t)
{
	struct table_batch_get q = {c->q->batch.gets, c->q->batch.count};

	return t->backend->batch_get(t, &c->f->arena, &q, &c->r->batch_get, &c->f->err);
}

static inline enum err_code fixture_batch_write(struct fixture_call *c, struct table *t)
{
	struct table_batch_write q = {c->q->batch.writes, c->q->batch.count};

	return t->backend->batch_write(t, &c->f->arena, &q, &c->r->batch_write, &c->f->err);
}

static inline enum err_code fixture_ttl(struct fixture_call *c, struct table *t)
{
	struct table_change change = {.kind = CHANGE_TTL,
	                              .ttl_attribute = c->q->ttl.enabled ? c->q->ttl.attribute
	                                                                 : (struct bytes){"", 0}};
	struct table_alter  q = {c->q->ttl.table, &change, 1};

	return t->backend->alter(t, &c->f->arena, &q, &c->r->table, &c->f->err);
}

/* X(operation, decoder, run, writes) */
#define FIXTURE_OPERATIONS(X)                                                                                \
	X("GetItem", request_get, fixture_get, false)                                                        \
	X("PutItem", request_put, fixture_write, true)                                                       \
	X("UpdateItem", request_update, fixture_write, true)                                                 \
	X("DeleteItem", request_delete, fixture_write, true)                                                 \
	X("Query", request_query, fixture_query, false)                                                      \
	X("Scan", request_scan, fixture_query, false)                                                        \
	X("BatchGetItem", request_batch_get, fixture_batch_get, false)                                       \
	X("BatchWriteItem", request_batch_write, fixture_batch_write, true)                                  \
	X("TransactGetItems", request_transact_get, fixture_transact_get, false)                             \
	X("TransactWriteItems", request_transact_write, fixture_transact_write, true)                        \
	X("CreateTable", request_create_table, fixture_create, true)                                         \
	X("UpdateTable", request_update_table, fixture_alter, true)                                          \
	X("DescribeTable", request_table_name, fixture_describe, false)                                      \
	X("DeleteTable", request_table_name, fixture_remove, true)                                           \
	X("ListTables", request_list_tables, fixture_list, false)                                            \
	X("UpdateTimeToLive", request_update_ttl, fixture_ttl, true)

static inline enum err_code fixture_in_turn(struct turn_request *w, struct table *t)
{
	struct fixture_call *c = (struct fixture_call *)w;
	enum err_code        rc = c->run(c, t);

	if (rc != ERR_NONE)
		w->err = c->f->err;
	else if (c->f->in_turn != NULL)
		c->f->in_turn(c->f, t);
	return rc;
}

/* A session that reads. */
struct fixture_reader {
	struct fixture       *f;
	struct engine_session own;
	struct arena          arena; /* of a session elsewhere: others may read at the same time */
	struct table         *table;
};

static inline void fixture_reader_begin(struct fixture_reader *r, struct fixture *f)
{
	r->f = f;
	if (f->store != NULL) {
		arena_init(&r->arena);
		r->table = f->store->backend->read_begin(f->store, &r->arena);
		return;
	}
	engine_session_init(&r->own, f->engine);
	r->table = &r->own.base;
}

static inline void fixture_reader_end(struct fixture_reader *r)
{
	if (r->f->store == NULL) {
		engine_session_release(&r->own);
		return;
	}
	r->f->store->backend->read_end(r->f->store, r->table);
	arena_release(&r->arena);
}

static inline enum err_code fixture_do(struct fixture_call *c, bool writes)
{
	struct store         *store = c->f->store != NULL ? c->f->store : engine_store(c->f->engine);
	struct fixture_reader reader;
	enum err_code         rc;

	if (writes)
		return store_run(store, &c->base, &c->f->err);
	fixture_reader_begin(&reader, c->f);
	rc = c->run(c, reader.table);
	fixture_reader_end(&reader);
	return rc;
}

/* Decodes and runs; the outcome is returned, f->err has the text. */
static inline enum err_code fixture_try(struct fixture *f, const char *operation, const char *body,
                                        union answer *r)
{
	struct dynamo_request *q = arena_zalloc(&f->arena, sizeof(*q));
	struct fixture_call c = {.base = {.run = fixture_in_turn, .cost_bytes = 100}, .f = f, .q = q, .r = r};

#define X(name, decode, run_, writes)                                                                        \
	if (strcmp(operation, name) == 0) {                                                                  \
		c.run = run_;                                                                                \
		if (decode(&f->arena, fixture_json(f, body), q, &f->err) != ERR_NONE)                        \
			return f->err.code;                                                                  \
		return fixture_do(&c, writes);                                                               \
	}
	FIXTURE_OPERATIONS(X)
#undef X
	fail_msg("no operation %s", operation);
	return ERR_INVALID;
}

/* The same where it must succeed. */
static inline union answer fixture_ok(struct fixture *f, const char *operation, const char *body)
{
	union answer r;

	memset(&r, 0, sizeof(r));
	if (fixture_try(f, operation, body, &r) != ERR_NONE)
		fail_msg("%s %s: %s", operation, body, f->err.text);
	return r;
}

/* … and where it must fail, with this text. */
static inline void fixture_fails(struct fixture *f, const char *operation, const char *body,
                                 enum err_code code, const char *text)
{
	union answer r;

	memset(&r, 0, sizeof(r));
	assert_int_equal(fixture_try(f, operation, body, &r), code);
	assert_string_equal(f->err.text, text);
}

static inline void assert_get(struct fixture *f, const char *table, const char *key, const char *expected)
{
	struct bytes body =
	        arena_printf(&f->arena, "{'TableName':'%s','Key':%s,'ConsistentRead':true}", table, key);
	union answer r = fixture_ok(f, "GetItem", body.data);

	if (expected == NULL) {
		assert_false(r.get.found);
		return;
	}
	assert_true(r.get.found);
	assert_item(f, &r.get.item, expected);
}

/* Names, sizes, times and contents of everything in the directory. */
static inline void fixture_fingerprint(const struct fixture *f, char out[64])
{
	char  command[256];
	FILE *pipe;

	snprintf(command, sizeof(command),
	         "cd %s && (find . -printf '%%p %%s %%T@ %%C@ %%i\\n' | sort; find . -type f ! -name ballast "
	         "-exec md5sum {} + | sort) | md5sum",
	         f->dir);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_non_null(fgets(out, 64, pipe));
	assert_int_equal(pclose(pipe), 0);
}

static inline void assert_verified(struct fixture *f)
{
	if (f->store == NULL && engine_verify(f->engine, &f->err) != ERR_NONE)
		fail_msg("%s", f->err.text);
}

#define TABLE_PS                                                                                             \
	"{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'AttributeName':'p'" \
	","                                                                                                  \
	"'AttributeType':'S'},{'AttributeName':'s','AttributeType':'S'}],'KeySchema':[{'AttributeName':'p'," \
	"'KeyType':'HASH'},{'AttributeName':'s','KeyType':'RANGE'}]}"

#endif
