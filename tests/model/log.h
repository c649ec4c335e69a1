/* Log: partitions that grow at their end, and so have a tail (engine/tail.h). They are in a table of their own: the model's other tables are too small to have one. A
 * row is its number and what it was last set to; some expire. Every way in which rows leave the tail comes about: changes, deletions, checkpoints that make files of
 * the fewest rows and may fail, rows that lapse, and whatever the other steps do to the engine. */
#ifndef TESTS_MODEL_LOG_H
#define TESTS_MODEL_LOG_H

#include "model/call.h"

enum {
	LOG_WRITES_MAX = 900, /* in a step */
	LOG_WRITES_AT_ONCE = 25,
	LOG_KEPT = 2000, /* about as many rows: then the oldest half goes, and at times all */
	LOG_CHECKPOINT_STEPS = 4,
};

#define LOG_TABLE                                                                                            \
	"{\"TableName\":\"log\",\"BillingMode\":\"PAY_PER_REQUEST\",\"AttributeDefinitions\":["              \
	"{\"AttributeName\":\"p\",\"AttributeType\":\"N\"},{\"AttributeName\":\"s\",\"AttributeType\":"      \
	"\"N\"},"                                                                                            \
	"{\"AttributeName\":\"n\",\"AttributeType\":\"N\"}],\"KeySchema\":[{\"AttributeName\":\"p\","        \
	"\"KeyType\":\"HASH\"},{\"AttributeName\":\"s\",\"KeyType\":\"RANGE\"}],\"LocalSecondaryIndexes\":[" \
	"{\"IndexName\":\"by-n\",\"KeySchema\":[{\"AttributeName\":\"p\",\"KeyType\":\"HASH\"},"             \
	"{\"AttributeName\":\"n\",\"KeyType\":\"RANGE\"}],\"Projection\":{\"ProjectionType\":\"KEYS_ONLY\"}" \
	"}]}"
#define LOG_TTL                                                                                              \
	"{\"TableName\":\"log\",\"TimeToLiveSpecification\":{\"Enabled\":true,\"AttributeName\":\"ttl\"}}"

/* ---- requests ---- */

struct log_request {
	struct turn_request base;
	struct driver      *driver;
	struct table_write  writes[LOG_WRITES_AT_ONCE];
	uint32_t            count;
};

_Noreturn static inline void log_differ(struct driver *d, const char *what, int64_t expected, int64_t got)
{
	struct call c = {.driver = d, .number = d->operations, .operation = "on the log"};

	c.body = BYTES("table log");
	call_differ(&c, what, arena_printf(&d->arena, "%lld", (long long)expected),
	            arena_printf(&d->arena, "%lld", (long long)got));
}

static inline enum err_code log_write_run(struct turn_request *base, struct table *t)
{
	struct log_request             *r = (struct log_request *)base;
	struct table_batch_write        q = {r->writes, r->count};
	struct table_batch_write_result result;

	return t->backend->batch_write(t, &r->driver->arena, &q, &result, &base->err);
}

static inline void log_run(struct driver *d, struct turn_request *request)
{
	if (engine_run(d->engine, request, &d->err) != ERR_NONE)
		log_differ(d, d->err.text, ERR_NONE, d->err.code);
}

static inline struct item log_key(struct driver *d, int log, int number)
{
	struct value p = value_i64(log), s = value_i64(number);
	struct item  key = {0};

	key = item_with(&d->arena, &key, BYTES("p"), &p);
	return item_with(&d->arena, &key, BYTES("s"), &s);
}

static inline struct table_write log_put(struct driver *d, int log, int number, const struct log_row *row)
{
	struct value       n = value_i64(row->n), ttl = value_i64(row->expires_s);
	struct table_write w = {.kind = TABLE_PUT, .table = BYTES("log"), .item = log_key(d, log, number)};

	w.item = item_with(&d->arena, &w.item, BYTES("n"), &n);
	if (row->expires_s != 0)
		w.item = item_with(&d->arena, &w.item, BYTES("ttl"), &ttl);
	return w;
}

static inline void log_flush(struct log_request *r)
{
	r->base = (struct turn_request){.run = log_write_run, .cost_bytes = 100};
	if (r->count > 0)
		log_run(r->driver, &r->base);
	r->driver->operations += r->count;
	r->count = 0;
}

/* Numbers of one request differ: callers go up. `present` false: the row goes. */
static inline void log_set(struct log_request *r, int log, int number, bool present)
{
	struct driver  *d = r->driver;
	struct log_row *row = &d->logs[log].rows[number];

	*row = (struct log_row){0};
	if (present)
		row->n = ++d->logs[log].sets;
	if (present && chance(&d->world, 20))
		row->expires_s = d->world.now_s + 1 + pick(&d->world, 4000);
	r->writes[r->count++] = present ? log_put(d, log, number, row)
	                                : (struct table_write){.kind = TABLE_DELETE,
	                                                       .table = BYTES("log"),
	                                                       .key = log_key(d, log, number)};
	if (r->count == LOG_WRITES_AT_ONCE)
		log_flush(r);
}

/* ---- the table ---- */

struct log_open {
	struct turn_request   base;
	struct driver        *driver;
	struct dynamo_request create, ttl;
};

static inline enum err_code log_open_run(struct turn_request *base, struct table *t)
{
	struct log_open         *o = (struct log_open *)base;
	struct table_change      change = {.kind = CHANGE_TTL, .ttl_attribute = o->ttl.ttl.attribute};
	struct table_alter       alter = {o->ttl.ttl.table, &change, 1};
	struct table_description made;
	struct arena            *a = &o->driver->arena;

	if (t->backend->create(t, a, &o->create.create, &made, &base->err) != ERR_NONE)
		return base->err.code;
	return t->backend->alter(t, a, &alter, &made, &base->err);
}

static inline struct json *log_json(struct driver *d, struct bytes text)
{
	struct json *json;

	if (json_read(d->json, &d->arena, text, &json, &d->err) != ERR_NONE)
		log_differ(d, d->err.text, ERR_NONE, d->err.code);
	return json;
}

static inline void log_open(struct driver *d)
{
	struct log_open o = {.base = {.run = log_open_run}, .driver = d};

	if (request_create_table(&d->arena, log_json(d, BYTES(LOG_TABLE)), &o.create, &d->err) != ERR_NONE ||
	    request_update_ttl(&d->arena, log_json(d, BYTES(LOG_TTL)), &o.ttl, &d->err) != ERR_NONE)
		log_differ(d, d->err.text, ERR_NONE, d->err.code);
	log_run(d, &o.base);
}

/* ---- steps ---- */

static inline void log_append(struct driver *d, int log)
{
	struct log_request r = {.driver = d};
	struct log        *l = &d->logs[log];

	for (int left = 1 + pick(&d->world, LOG_WRITES_MAX); left > 0 && l->end < LOG_NUMBERS; left--) {
		log_set(&r, log, l->end, true);
		l->end += 1 + pick(&d->world, 2);
	}
	log_flush(&r);
}

/* Mostly near the end; in between, too. */
static inline void log_change(struct driver *d, int log)
{
	struct log_request r = {.driver = d};
	int                end = d->logs[log].end, back = pick(&d->world, chance(&d->world, 70) ? 60 : 2000);

	for (int number = end - back < 0 ? 0 : end - back; number < end; number += 1 + pick(&d->world, 30))
		log_set(&r, log, number, chance(&d->world, 60));
	log_flush(&r);
}

static inline void log_trim(struct driver *d, int log)
{
	struct log_request r = {.driver = d};
	struct log        *l = &d->logs[log];
	bool               all = l->end > LOG_NUMBERS - 2 * LOG_WRITES_MAX || chance(&d->world, 10);
	int                end = all ? LOG_NUMBERS : l->end - LOG_KEPT / 2;

	for (int number = 0; number < end; number++)
		if (l->rows[number].n != 0)
			log_set(&r, log, number, false);
	log_flush(&r);
	if (all)
		l->end = 0;
}

/* ---- comparing ---- */

/* 0: there is none. */
static inline int64_t log_row_n(const struct driver *d, int log, int number)
{
	const struct log_row *row = &d->logs[log].rows[number];

	return row->expires_s != 0 && row->expires_s <= d->world.now_s ? 0 : row->n;
}

static inline int64_t log_number(const struct item *item, const char *name)
{
	const struct value *v = item_get(item, bytes_of(name));
	int64_t             n = 0;

	if (v != NULL)
		number_to_i64(&v->number, &n);
	return n;
}

/* The next number that there is, in the direction of the walk; LOG_NUMBERS or -1 at the end. */
static inline int log_next(const struct driver *d, int log, int at, int step)
{
	do
		at += step;
	while (at >= 0 && at < LOG_NUMBERS && log_row_n(d, log, at) == 0);
	return at;
}

static inline void log_compare(struct driver *d, struct table *t, int log, bool backward)
{
	struct expr_key_condition key = {.hash_name = BYTES("p"), .hash = value_i64(log)};
	struct table_query        q = {.table = BYTES("log"), .key = &key, .backward = backward};
	struct table_query_result r;
	struct item               start;
	int                       step = backward ? -1 : 1, at = backward ? LOG_NUMBERS : -1;

	q.limit = chance(&d->world, 50) ? 1 + (uint32_t)pick(&d->world, 700) : 0;
	do {
		if (t->backend->query(t, &d->arena, &q, &r, &d->err) != ERR_NONE)
			log_differ(d, d->err.text, ERR_NONE, d->err.code);
		for (uint32_t i = 0; i < r.count; i++) {
			at = log_next(d, log, at, step);
			if (log_number(&r.items[i], "s") != at)
				log_differ(d, "the next row", at, log_number(&r.items[i], "s"));
			if (log_number(&r.items[i], "n") != log_row_n(d, log, at))
				log_differ(d, "its n", log_row_n(d, log, at), log_number(&r.items[i], "n"));
		}
		start = r.last_key;
		q.start = &start;
	} while (r.more);
	at = log_next(d, log, at, step);
	if (at >= 0 && at < LOG_NUMBERS)
		log_differ(d, "a row that is missing", at, -1);
}

/* As many entries as rows. The index is read from a snapshot, for which all that waits goes into the store. */
static inline void log_compare_index(struct driver *d, struct table *t, int log)
{
	struct expr_key_condition key = {.hash_name = BYTES("p"), .hash = value_i64(log)};
	struct table_query        q = {.table = BYTES("log"), .index = BYTES("by-n"), .key = &key};
	struct table_query_result r;
	struct item               start;
	int64_t                   entries = 0, rows = 0;

	do {
		if (t->backend->query(t, &d->arena, &q, &r, &d->err) != ERR_NONE)
			log_differ(d, d->err.text, ERR_NONE, d->err.code);
		entries += r.count;
		start = r.last_key;
		q.start = &start;
	} while (r.more);
	for (int i = 0; i < LOG_NUMBERS; i++)
		rows += log_row_n(d, log, i) != 0;
	if (entries != rows)
		log_differ(d, "how many the index has", rows, entries);
}

static inline void log_get(struct driver *d, struct table *t, int log)
{
	int                     number = d->logs[log].end - pick(&d->world, 100);
	struct table_get        q = {.table = BYTES("log"), .key = log_key(d, log, number < 0 ? 0 : number)};
	struct table_get_result r;
	int64_t                 n = number >= LOG_NUMBERS ? 0 : log_row_n(d, log, number < 0 ? 0 : number);

	if (t->backend->get(t, &d->arena, &q, &r, &d->err) != ERR_NONE)
		log_differ(d, d->err.text, ERR_NONE, d->err.code);
	if ((r.found ? log_number(&r.item, "n") : 0) != n)
		log_differ(d, "a row by its key", n, r.found ? log_number(&r.item, "n") : 0);
}

static inline void log_read(struct driver *d, int log)
{
	struct engine_session reader;

	engine_session_init(&reader, d->engine);
	log_compare(d, &reader.base, log, chance(&d->world, 50));
	for (int i = 0; i < 20; i++)
		log_get(d, &reader.base, log);
	if (chance(&d->world, 30))
		log_compare_index(d, &reader.base, log);
	engine_session_release(&reader);
}

static inline void log_step(struct driver *d)
{
	int log = pick(&d->world, LOGS), dice = pick(&d->world, 100);

	if (d->logs[log].end > LOG_NUMBERS - 2 * LOG_WRITES_MAX || dice < 5)
		log_trim(d, log);
	else if (dice < 55)
		log_append(d, log);
	else if (dice < 75)
		log_change(d, log);
	else
		log_read(d, log);
}

#endif
