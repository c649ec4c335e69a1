/* Import: see export.h. Each file is read twice before it is done with: once to see that it is whole, before anything is written, and once to
 * write its rows. Reading it a third time compares every row with what the place answers. */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "migrate/export.h"
#include "migrate/manifest.h"

enum { BATCH_ROWS = TABLE_BATCH_WRITE_MAX, BATCH_BYTES_MAX = 1024 * 1024 };

/* ---- batches of rows from a file ---- */

struct batch {
	struct place                *place;
	const struct manifest_table *table;
	struct arena                 arena;
	struct item                  rows[BATCH_ROWS];
	uint64_t                     lines[BATCH_ROWS];
	uint32_t                     count;
	struct migrate_total         total;
	uint64_t                     found; /* compared, and there */
	bool                         log_begun,
	        log_says; /* among what was put: rows of a log of events, and one that says its shards */
};

/* What is done with each. */
typedef enum err_code batch_step(struct batch *b, struct err *err);

static enum err_code batch_fill(struct batch *b, struct rows_reader *r, bool *end, struct err *err)
{
	size_t bytes = 0;

	arena_reset(&b->arena);
	b->count = 0;
	while (!*end && b->count < BATCH_ROWS && bytes < BATCH_BYTES_MAX) {
		if (rows_read(r, &b->arena, &b->rows[b->count], end, err) != ERR_NONE)
			return err->code;
		if (*end)
			break;
		bytes += item_size(&b->rows[b->count]);
		b->lines[b->count++] = rows_line(r);
	}
	return ERR_NONE;
}

/* All rows of a file, and at last whether these are all that were written. */
static enum err_code rows_walk(struct batch *b, const struct import_order *o, const char *what,
                               batch_step *step, const struct migrate_watch *watch, struct err *err)
{
	struct rows_reader *r;
	uint64_t            rows = 0;
	bool                end = false;
	enum err_code       rc;

	rc = rows_reader_open(&r, o->dir, b->table->schema.name, b->table->gzip, err);
	if (rc != ERR_NONE)
		return rc;
	while (rc == ERR_NONE && !end) {
		rc = batch_fill(b, r, &end, err);
		if (rc == ERR_NONE && b->count > 0 && step != NULL)
			rc = step(b, err);
		rows += b->count;
		if (rc == ERR_NONE)
			watch->progress(watch->ctx, what, b->table->schema.name, rows, end);
	}
	if (rc == ERR_NONE)
		rc = rows_compare(r, &b->table->total, err);
	rows_reader_close(r);
	return rc;
}

static bool has_expired(const struct batch *b, uint32_t i)
{
	return schema_expired(&b->table->schema, &b->rows[i], (int64_t)time(NULL) * 1000000);
}

/* ---- the log of events (5) ---- */

static bool text_is(const struct item *row, struct bytes name, const char *text)
{
	const struct value *v = item_get(row, name);

	return v != NULL && v->type == VALUE_S && bytes_is(v->text, text);
}

/* As service/event_shards.c has it: a log has begun with its first event or reader. */
static void log_look(struct batch *b, const struct item *row)
{
	if (!text_is(row, BYTES("PK"), "HEAD"))
		return;
	b->log_says |= text_is(row, BYTES("SK"), "SHARDS");
	b->log_begun |= text_is(row, BYTES("SK"), "LOG#0") || text_is(row, BYTES("SK"), "CONSUMERS") ||
	                text_is(row, BYTES("SK"), "TARGETS");
}

/* Only where a server wrote another number: every other log without that row has one. */
static enum err_code one_shard_put(struct batch *b, struct err *err)
{
	struct member      members[] = {{BYTES("PK"), value_string(BYTES("HEAD"))},
	                                {BYTES("SK"), value_string(BYTES("SHARDS"))},
	                                {BYTES("logShards"), value_i64(1)}};
	struct table_write row = {.kind = TABLE_PUT, .table = b->table->schema.name, .item = {members, 3}};
	struct table_get   get = {.table = row.table, .key = {members, 2}, .consistent = true};
	struct table_batch_get_result there;

	if (place_batch_get(b->place, &b->arena, &(struct table_batch_get){&get, 1}, &there, err) != ERR_NONE)
		return err->code;
	if (!there.skipped[0] && !there.results[0].found)
		return ERR_NONE;
	return place_batch_write(b->place, &b->arena, &(struct table_batch_write){&row, 1}, err);
}

static enum err_code log_settle(struct batch *b, const struct import_order *o, struct err *err)
{
	bool one = b->log_begun && !b->log_says;

	b->log_begun = b->log_says = false;
	if (!one || o->check)
		return ERR_NONE;
	b->total.one_shard = true;
	return o->into_existing ? ERR_NONE : one_shard_put(b, err);
}

/* ---- writing ---- */

static enum err_code batch_put(struct batch *b, struct err *err)
{
	struct table_write       writes[BATCH_ROWS];
	struct table_batch_write q = {writes, 0};

	for (uint32_t i = 0; i < b->count; i++) {
		if (has_expired(b, i)) {
			b->total.expired++;
			continue;
		}
		log_look(b, &b->rows[i]);
		writes[q.count++] = (struct table_write){
		        .kind = TABLE_PUT, .table = b->table->schema.name, .item = b->rows[i]};
	}
	b->total.rows += q.count;
	return q.count == 0 ? ERR_NONE : place_batch_write(b->place, &b->arena, &q, err);
}

/* ---- comparing ---- */

static enum err_code row_compare(struct batch *b, uint32_t i, const struct table_get_result *now,
                                 struct err *err)
{
	struct bytes table = b->table->schema.name;

	b->found += now->found;
	if (now->found && item_equal(&now->item, &b->rows[i]))
		return ERR_NONE;
	if (!now->found && has_expired(b, i))
		return ERR_NONE;
	return err_set(err, ERR_CONDITION, "table %.*s: the row of line %" PRIu64 " %s", BYTES_ARG(table),
	               b->lines[i], now->found ? "is another one there" : "is not there");
}

/* Those that did not fit into an answer are asked for again. */
static enum err_code batch_compare(struct batch *b, struct err *err)
{
	struct table_get              gets[BATCH_ROWS];
	struct table_batch_get_result r;
	uint32_t                      which[BATCH_ROWS], left = b->count;

	for (uint32_t i = 0; i < left; i++)
		which[i] = i;
	while (left > 0) {
		struct table_batch_get q = {gets, left};
		uint32_t               skipped = 0;

		for (uint32_t i = 0; i < left; i++)
			gets[i] = (struct table_get){
			        .table = b->table->schema.name,
			        .key = schema_key_of(&b->arena, &b->table->schema, NULL, &b->rows[which[i]]),
			        .consistent = true};
		if (place_batch_get(b->place, &b->arena, &q, &r, err) != ERR_NONE)
			return err->code;
		for (uint32_t i = 0; i < left; i++) {
			if (r.skipped[i])
				which[skipped++] = which[i];
			else if (row_compare(b, which[i], &r.results[i], err) != ERR_NONE)
				return err->code;
		}
		left = skipped;
	}
	return ERR_NONE;
}

/* Does it hold more rows than `most`? Stops counting there. */
static enum err_code holds_more(struct place *p, const struct manifest_table *t, uint64_t most, bool *more,
                                struct err *err)
{
	struct table_query        q = {.table = t->schema.name, .consistent = true, .count_only = true};
	struct table_query_result r = {.more = true};
	struct arena              pages[2];
	uint64_t                  count = 0;
	enum err_code             rc = ERR_NONE;

	arena_init(&pages[0]);
	arena_init(&pages[1]);
	for (unsigned i = 0; rc == ERR_NONE && r.more && count <= most; i++) {
		struct arena *page = &pages[i % 2];
		struct item  *start;

		arena_reset(page); /* not the one that the key is in */
		rc = place_scan(p, page, &q, &r, err);
		count += rc == ERR_NONE ? r.count : 0;
		start = arena_alloc(page, sizeof(*start));
		*start = r.last_key;
		q.start = start;
	}
	arena_release(&pages[0]);
	arena_release(&pages[1]);
	*more = count > most;
	return rc;
}

static enum err_code extra_check(struct batch *b, struct err *err)
{
	bool more;

	if (holds_more(b->place, b->table, b->found, &more, err) != ERR_NONE)
		return err->code;
	if (!more)
		return ERR_NONE;
	return err_set(err, ERR_CONDITION, "table %.*s holds rows that the export does not have",
	               BYTES_ARG(b->table->schema.name));
}

/* ---- tables ---- */

static bool key_equal(const struct key_attribute *a, const struct key_attribute *b)
{
	return bytes_equal(a->name, b->name) && (a->name.len == 0 || a->type == b->type);
}

/* What is there must have the same keys, the same time to live, and the indexes. */
static enum err_code schema_compare(const struct table_schema *want, const struct table_schema *have,
                                    struct err *err)
{
	if (!key_equal(&want->keys.hash, &have->keys.hash) ||
	    !key_equal(&want->keys.range, &have->keys.range))
		return err_set(err, ERR_INVALID,
		               "table %.*s is there with other keys than in the export: choose another "
		               "--table-prefix, or "
		               "delete that table if nobody needs it",
		               BYTES_ARG(want->name));
	if (have->ttl_attribute.len == 0 && want->ttl_attribute.len > 0)
		return err_set(err, ERR_INVALID,
		               "table %.*s is there without time to live, which the export has in \"%.*s\"",
		               BYTES_ARG(want->name), BYTES_ARG(want->ttl_attribute));
	if (!bytes_equal(want->ttl_attribute, have->ttl_attribute))
		return err_set(
		        err, ERR_INVALID,
		        "table %.*s is there with the time to live in \"%.*s\"; in the export it is in "
		        "\"%.*s\"",
		        BYTES_ARG(want->name), BYTES_ARG(have->ttl_attribute),
		        BYTES_ARG(want->ttl_attribute));
	for (uint32_t i = 0; i < want->index_count; i++)
		if (schema_index(have, want->indexes[i].name) == NULL)
			return err_set(err, ERR_INVALID, "table %.*s is there without the index %.*s",
			               BYTES_ARG(want->name), BYTES_ARG(want->indexes[i].name));
	return ERR_NONE;
}

/* What a place has yet to get of a table. An import that was killed may have made a table and not turned its time to live on. */
enum lack { LACKS_NOTHING, LACKS_TTL, LACKS_TABLE };

static enum lack lack_of(const struct table_schema *want, const struct table_schema *have)
{
	return want->ttl_attribute.len > 0 && have->ttl_attribute.len == 0 ? LACKS_TTL : LACKS_NOTHING;
}

/* Before anything is written. */
static enum err_code table_look(struct batch *b, const struct import_order *o, enum lack *lack,
                                struct err *err)
{
	struct table_description d;
	bool                     more;
	enum err_code            rc = place_describe(b->place, &b->arena, b->table->schema.name, &d, err);

	*lack = LACKS_TABLE;
	if (rc == ERR_NO_RESOURCE && !o->check)
		return ERR_NONE;
	if (rc == ERR_NO_RESOURCE)
		return err_set(
		        err, rc,
		        "there is no table \"%.*s\" to compare with: look at --table-prefix, the endpoint "
		        "and the region",
		        BYTES_ARG(b->table->schema.name));
	if (rc != ERR_NONE)
		return rc;
	*lack = lack_of(&b->table->schema, &d.schema);
	if (*lack == LACKS_TTL && !o->check)
		d.schema.ttl_attribute = b->table->schema.ttl_attribute;
	if (schema_compare(&b->table->schema, &d.schema, err) != ERR_NONE)
		return err->code;
	if (o->into_existing || o->check)
		return ERR_NONE;
	if (holds_more(b->place, b->table, 0, &more, err) != ERR_NONE)
		return err->code;
	return !more ? ERR_NONE
	             : err_set(err, ERR_INVALID,
	                       "table %.*s holds rows already, and nothing was imported; if rows with the "
	                       "same keys may be replaced, use --into-existing",
	                       BYTES_ARG(b->table->schema.name));
}

/* What is done with a table, in this order. */
static enum err_code table_import(struct batch *b, const struct import_order *o, enum lack lack,
                                  const struct migrate_watch *watch, struct err *err)
{
	if (lack == LACKS_TABLE && place_create(b->place, &b->arena, &b->table->schema, err) != ERR_NONE)
		return err->code;
	if (lack == LACKS_TTL && place_set_ttl(b->place, &b->arena, &b->table->schema, err) != ERR_NONE)
		return err->code;
	if (!o->check && rows_walk(b, o, "imported", batch_put, watch, err) != ERR_NONE)
		return err->code;
	b->found = 0;
	if (rows_walk(b, o, "compared", batch_compare, watch, err) != ERR_NONE)
		return err->code;
	if (o->check)
		b->total.rows += b->table->total.rows;
	b->total.tables++;
	if (log_settle(b, o, err) != ERR_NONE)
		return err->code;
	return o->into_existing ? ERR_NONE : extra_check(b, err);
}

static enum err_code tables_import(struct batch *b, const struct import_order *o, const struct manifest *m,
                                   const struct migrate_watch *watch, struct err *err)
{
	enum lack lacks[MANIFEST_TABLES_MAX];

	for (uint32_t i = 0; i < m->count; i++) {
		b->table = &m->tables[i];
		if (rows_walk(b, o, "read", NULL, watch, err) != ERR_NONE)
			return err->code;
	}
	for (uint32_t i = 0; i < m->count; i++) {
		b->table = &m->tables[i];
		if (table_look(b, o, &lacks[i], err) != ERR_NONE)
			return err->code;
	}
	for (uint32_t i = 0; i < m->count; i++) {
		b->table = &m->tables[i];
		if (table_import(b, o, lacks[i], watch, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

enum err_code import_run(struct place *p, const struct import_order *o, const struct migrate_watch *watch,
                         struct migrate_total *total, struct err *err)
{
	struct manifest *m = mem_zalloc(sizeof(*m));
	struct batch    *b = mem_zalloc(sizeof(*b));
	struct arena     a;
	enum err_code    rc;

	b->place = p;
	arena_init(&a);
	arena_init(&b->arena);
	rc = manifest_read(o->dir, &a, m, err);
	if (rc == ERR_NONE)
		rc = tables_import(b, o, m, watch, err);
	*total = b->total;
	arena_release(&b->arena);
	arena_release(&a);
	free(b);
	free(m);
	return rc;
}
