/* Event log: pages of events, cursors, and events as JSON. See event_log.h. */
#include "service/event_log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "service/limit.h"
#include "service/row.h"

enum { QUERY_ROWS_MAX = 500 }; /* of one query, while a filter leaves few of them */

/* ---- bounds ---- */

int64_t event_position(const struct item *row)
{
	uint64_t position;

	return bytes_to_u64(row_text(row, "SK"), ROW_I64_MAX, &position) ? (int64_t)position : 0;
}

/* "LOG#7" with the prefix "LOG#". */
static bool shard_named(struct bytes sk, struct bytes prefix, uint32_t shards, uint32_t *out)
{
	uint64_t number;

	if (!bytes_starts_with(sk, prefix))
		return false;
	sk = (struct bytes){sk.data + prefix.len, sk.len - prefix.len};
	if (!bytes_to_u64(sk, shards - 1, &number))
		return false;
	*out = (uint32_t)number;
	return true;
}

static void bounds_add(struct event_bounds *b, const struct item *row)
{
	struct bytes sk = row_text(row, "SK");
	int64_t      position = row_i64(row, "position", 0);
	uint32_t     shard;

	if (shard_named(sk, BYTES("LOG#"), b->shards, &shard))
		b->last[shard] = position;
	else if (shard_named(sk, BYTES("FIRST#"), b->shards, &shard))
		b->first[shard] = position;
}

/* Rows that were just written are in this process's memory, and are had by their keys without a look at the disk. A query would have the engine
 * put them there first. */
static bool is_local(const struct context *ctx)
{
	return ctx->table->alone && ctx->table->backend->pause == NULL;
}

static enum err_code bounds_get(struct context *ctx, struct event_bounds *out, struct err *err)
{
	struct looked *rows = arena_array(ctx->arena, 2 * out->shards, sizeof(*rows));
	uint32_t       count = 0;

	for (uint32_t i = 0; i < out->shards; i++) {
		looked_init(&rows[count++], event_head_key(ctx->arena, out->shards, i),
		            event_log_key(ctx->arena, i));
		looked_init(&rows[count++], BYTES("HEAD"), arena_printf(ctx->arena, "FIRST#%u", i));
	}
	for (uint32_t i = 0; i + 1 < count; i++)
		rows[i].next = &rows[i + 1];
	if (ctx_peek_all_in(ctx, TABLE_EVENTS, rows, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < count; i++)
		if (rows[i].found)
			bounds_add(out, &rows[i].item);
	return ERR_NONE;
}

/* Two rows per shard, in one call, and nothing is remembered. (3) Of one shard they are in one partition, and a query costs less. */
enum err_code events_bounds(struct context *ctx, struct event_bounds *out, struct err *err)
{
	struct expr_key_condition key = row_prefix(BYTES("HEAD"), (struct bytes){NULL, 0});
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result r;

	*out = (struct event_bounds){.shards = event_shards(ctx->services)};
	for (uint32_t i = 0; i < out->shards; i++)
		out->first[i] = 1;
	if (is_local(ctx) || out->shards > 1)
		return bounds_get(ctx, out, err);
	if (ctx_query_in(ctx, TABLE_EVENTS, &q, &r, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < r.count; i++)
		bounds_add(out, &r.items[i]);
	return ERR_NONE;
}

void event_cursor_first(const struct event_bounds *b, struct event_cursor *out)
{
	out->shards = b->shards;
	for (uint32_t i = 0; i < b->shards; i++)
		out->after[i] = b->first[i] - 1;
}

void event_cursor_last(const struct event_bounds *b, struct event_cursor *out)
{
	out->shards = b->shards;
	memcpy(out->after, b->last, b->shards * sizeof(b->last[0]));
}

/* ERR_GONE: what comes next in this shard was trimmed. In the others it goes on where it was. */
static enum err_code gone(struct context *ctx, const struct event_cursor *after, const struct event_bounds *b,
                          uint32_t shard, struct err *err)
{
	struct bytes where = b->shards > 1 ? arena_printf(ctx->arena, " in shard %u", shard) : BYTES("");
	struct event_cursor first;
	struct bytes        text;

	event_cursor_first(b, &first);
	event_cursor_advance(&first, after);
	text = event_cursor_text(ctx->arena, &first);
	err_set(err, ERR_GONE,
	        "the events after this position are no longer kept; the first that still exists has position "
	        "%" PRIi64 "%.*s",
	        b->first[shard], BYTES_ARG(where));
	_Static_assert((int)ERR_AFTER_MAX > (int)EVENT_CURSOR_TEXT_MAX, "every cursor fits");
	snprintf(err->after, sizeof(err->after), "%.*s", BYTES_ARG(text));
	return ERR_GONE;
}

/* Does the log hold what comes after? (2) */
static enum err_code check_after(struct context *ctx, const struct event_cursor *after,
                                 const struct event_bounds *b, struct err *err)
{
	if (after->shards != b->shards)
		return err_field(err, ERR_INVALID, "after", "after: the log has %u shards, not %u", b->shards,
		                 after->shards);
	for (uint32_t i = 0; i < b->shards; i++) {
		if (after->after[i] < b->first[i] - 1)
			return gone(ctx, after, b, i, err);
		if (after->after[i] > b->last[i])
			return err_field(err, ERR_INVALID, "after",
			                 "after: the newest event has position %" PRIi64 ", so %" PRIi64
			                 " is not a position of this log",
			                 b->last[i], after->after[i]);
	}
	return ERR_NONE;
}

/* ---- pages ---- */

uint64_t event_subject_hash(struct bytes subject)
{
	return hash_bytes(HASH_KEY_STABLE, subject);
}

struct event_traits event_traits(struct bytes type, struct bytes subject)
{
	return (struct event_traits){event_type_named(type), subject, event_subject_hash(subject)};
}

bool event_passes(const struct event_filter *filter, const struct event_traits *e)
{
	if (filter->subject.len > 0 && !bytes_equal(filter->subject, e->subject))
		return false;
	if (filter->partitions > 0 && (filter->mask >> e->subject_hash % filter->partitions & 1) == 0)
		return false;
	if (filter->types != EVENTS_ALL_TYPES &&
	    (e->type >= EVENT_TYPE_COUNT || (filter->types >> e->type & 1) == 0))
		return false;
	return !user_filter_hides(&filter->users, e->subject);
}

static bool filters(const struct event_filter *f)
{
	return f->subject.len > 0 || f->types != EVENTS_ALL_TYPES || f->partitions > 0 ||
	       f->users.hides != NULL;
}

static bool passes(const struct event_filter *f, const struct event_seen *e)
{
	struct event_traits traits;

	if (!filters(f))
		return true;
	traits = event_traits(e->type, e->subject);
	return event_passes(f, &traits);
}

static struct event_seen seen_of(const struct item *row, uint32_t shard)
{
	return (struct event_seen){.shard = shard,
	                           .position = event_position(row),
	                           .seq = row_i64(row, "seq", 0),
	                           .id = row_text(row, "id"),
	                           .type = row_text(row, "type"),
	                           .subject = row_text(row, "subject"),
	                           .time = row_text(row, "time"),
	                           .row = *row};
}

/* A page that is being read. */
struct reading {
	struct context           *ctx;
	const struct event_query *query;
	struct event_page        *page;
	uint32_t                  examined, examined_max;
	uint32_t                  quota; /* events that the shard may still add */
};

/* Rows of the shard after the page's cursor. */
static enum err_code query_rows(struct reading *g, uint32_t shard, struct table_query_result *r,
                                struct err *err)
{
	struct arena             *a = g->ctx->arena;
	uint32_t                  left = g->examined_max - g->examined;
	uint32_t                  want = filters(&g->query->filter) ? QUERY_ROWS_MAX : g->quota;
	struct expr_key_condition key = row_prefix(arena_printf(a, "LOG#%u", shard), (struct bytes){NULL, 0});
	struct table_query        q = {.key = &key, .consistent = true, .limit = want < left ? want : left};

	key.range_name = BYTES("SK");
	key.range_kind = RANGE_GT;
	key.low = value_string(
	        arena_printf(a, "%0*" PRIi64, EVENT_POSITION_DIGITS, g->page->next.after[shard]));
	return ctx_query_in(g->ctx, TABLE_EVENTS, &q, r, err);
}

/* The same by their keys, of a reader that is close to the end. */
static enum err_code get_rows(struct reading *g, uint32_t shard, int64_t last, struct table_query_result *r,
                              struct err *err)
{
	struct arena  *a = g->ctx->arena;
	int64_t        after = g->page->next.after[shard];
	uint32_t       count = (uint32_t)(last - after);
	struct bytes   log = arena_printf(a, "LOG#%u", shard);
	struct looked *rows = arena_array(a, count, sizeof(*rows));
	enum err_code  rc;

	for (uint32_t i = 0; i < count; i++) {
		looked_init(&rows[i], log,
		            arena_printf(a, "%0*" PRIi64, EVENT_POSITION_DIGITS, after + 1 + i));
		rows[i].next = i + 1 < count ? &rows[i + 1] : NULL;
	}
	rc = ctx_look_all_in(g->ctx, TABLE_EVENTS, rows, err);
	if (rc != ERR_NONE)
		return rc;
	*r = (struct table_query_result){.items = arena_array(a, count, sizeof(*r->items))};
	for (uint32_t i = 0; i < count && rows[i].found; i++)
		r->items[r->count++] = rows[i].item;
	return ERR_NONE;
}

/* Up to TABLE_BATCH_GET_MAX of them are had by their keys. */
static enum err_code next_rows(struct reading *g, uint32_t shard, int64_t last, struct table_query_result *r,
                               struct err *err)
{
	int64_t  left = last - g->page->next.after[shard];
	uint32_t may = g->examined_max - g->examined;

	return is_local(g->ctx) && left <= TABLE_BATCH_GET_MAX && left <= may
	               ? get_rows(g, shard, last, r, err)
	               : query_rows(g, shard, r, err);
}

/* Takes them up to the first gap (1), or as many as there may be. False: it ended before the last. */
static bool take_rows(struct reading *g, uint32_t shard, const struct table_query_result *r)
{
	struct event_page *page = g->page;

	for (uint32_t i = 0; i < r->count; i++) {
		struct event_seen e = seen_of(&r->items[i], shard);

		if (g->quota == 0 || e.position != page->next.after[shard] + 1)
			return false;
		page->next.after[shard] = e.position;
		g->examined++;
		if (!passes(&g->query->filter, &e))
			continue;
		page->list[page->count++] = e;
		g->quota--;
	}
	return true;
}

static enum err_code read_shard(struct reading *g, uint32_t shard, int64_t last, struct err *err)
{
	struct table_query_result r;

	while (g->page->next.after[shard] < last && g->quota > 0 && g->examined < g->examined_max) {
		if (next_rows(g, shard, last, &r, err) != ERR_NONE)
			return err->code;
		if (!take_rows(g, shard, &r) || r.count == 0)
			break;
	}
	if (g->page->next.after[shard] < last)
		g->page->more = true;
	return ERR_NONE;
}

/* Which shard is first: another one for every cursor, so that none waits for ever behind a busy one. */
static uint32_t shard_begin(const struct event_cursor *c)
{
	uint64_t hash = 0;

	assert(c->shards > 0); /* check_after */
	for (uint32_t i = 0; i < c->shards; i++)
		hash = (hash ^ (uint64_t)c->after[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)((hash >> 32) % c->shards);
}

enum err_code events_read(struct context *ctx, const struct event_query *q, struct event_page *out,
                          struct err *err)
{
	struct reading      g = {.ctx = ctx, .query = q, .page = out};
	struct event_bounds bounds;
	uint32_t            share;

	assert(q->limit > 0 && q->limit <= EVENTS_PAGE_MAX);
	g.examined_max = q->examined_max > 0 ? q->examined_max : EVENTS_EXAMINED_MAX;
	*out = (struct event_page){.next = q->after};
	if (events_bounds(ctx, &bounds, err) != ERR_NONE ||
	    check_after(ctx, &q->after, &bounds, err) != ERR_NONE)
		return err->code;
	out->list = arena_array(ctx->arena, q->limit, sizeof(*out->list));
	share = (q->limit + bounds.shards - 1) / bounds.shards;
	for (uint32_t i = 0, shard = shard_begin(&q->after); i < bounds.shards; i++) {
		uint32_t left = q->limit - out->count;

		g.quota = share < left ? share : left;
		if (read_shard(&g, shard, bounds.last[shard], err) != ERR_NONE)
			return err->code;
		shard = (shard + 1) % bounds.shards;
	}
	return ERR_NONE;
}

enum err_code events_check(struct context *ctx, const struct event_cursor *after, struct err *err)
{
	struct event_bounds bounds;

	return events_bounds(ctx, &bounds, err) == ERR_NONE ? check_after(ctx, after, &bounds, err)
	                                                    : err->code;
}

/* ---- times ---- */

/* 2026-09-10T00:26:40.123456Z */
int64_t event_time_us(struct bytes time)
{
	char     seconds[LIMIT_TIME_TEXT];
	int64_t  us;
	uint64_t micros;

	if (time.len != EVENT_TIME_CHARS || time.data[LIMIT_TIME_TEXT - 1] != '.')
		return 0;
	memcpy(seconds, time.data, LIMIT_TIME_TEXT - 1);
	seconds[LIMIT_TIME_TEXT - 1] = 'Z';
	if (!limit_time_parse((struct bytes){seconds, sizeof(seconds)}, &us) ||
	    !bytes_to_u64((struct bytes){time.data + LIMIT_TIME_TEXT, 6}, 999999, &micros))
		return 0;
	return us + (int64_t)micros;
}

/* When the event of that position happened; 0: it was trimmed meanwhile. */
static enum err_code time_at(struct context *ctx, uint32_t shard, int64_t position, int64_t *out,
                             struct err *err)
{
	struct expr_key_condition key =
	        row_prefix(arena_printf(ctx->arena, "LOG#%u", shard), (struct bytes){NULL, 0});
	struct table_query        q = {.key = &key, .consistent = true, .limit = 1};
	struct table_query_result r;

	key.range_name = BYTES("SK");
	key.range_kind = RANGE_EQ;
	key.low = value_string(arena_printf(ctx->arena, "%0*" PRIi64, EVENT_POSITION_DIGITS, position));
	if (ctx_query_in(ctx, TABLE_EVENTS, &q, &r, err) != ERR_NONE)
		return err->code;
	*out = r.count > 0 ? event_time_us(row_text(&r.items[0], "time")) : 0;
	return ERR_NONE;
}

enum err_code events_lag(struct context *ctx, const struct event_cursor *after, uint64_t types,
                         struct event_lag *out, struct err *err)
{
	struct event_query  q = {.after = *after, .filter = {.types = types}};
	struct event_bounds bounds;
	struct event_cursor first, last;
	struct event_page   page;

	*out = (struct event_lag){0};
	if (events_bounds(ctx, &bounds, err) != ERR_NONE)
		return err->code;
	event_cursor_first(&bounds, &first);
	event_cursor_last(&bounds, &last);
	out->events = event_cursor_distance(after, &last);
	if (out->events == 0)
		return ERR_NONE;
	event_cursor_advance(&q.after, &first);
	q.limit = bounds.shards; /* the next one of each */
	if (events_read(ctx, &q, &page, err) != ERR_NONE)
		return err->code == ERR_GONE || err->code == ERR_INVALID ? ERR_NONE : err->code;
	for (uint32_t i = 0; i < page.count; i++) {
		int64_t seconds = (ctx->now_us - event_time_us(page.list[i].time)) / 1000000;

		out->seconds = seconds > out->seconds ? seconds : out->seconds;
	}
	return ERR_NONE;
}

/* By halves: positions follow time. The answer is in [low, high]; low is too early for certain, or the first. */
static enum err_code search(struct context *ctx, uint32_t shard, int64_t time_us, int64_t ends[2],
                            struct err *err)
{
	while (ends[0] < ends[1]) {
		int64_t middle = ends[0] + (ends[1] - ends[0]) / 2, time = 0;

		if (time_at(ctx, shard, middle, &time, err) != ERR_NONE)
			return err->code;
		if (time < time_us)
			ends[0] = middle + 1;
		else
			ends[1] = middle;
	}
	return ERR_NONE;
}

enum err_code events_at_time(struct context *ctx, int64_t time_us, struct event_cursor *out, struct err *err)
{
	struct event_bounds b;

	if (events_bounds(ctx, &b, err) != ERR_NONE)
		return err->code;
	out->shards = b.shards;
	for (uint32_t i = 0; i < b.shards; i++) {
		int64_t ends[2] = {b.first[i], b.last[i] + 1}; /* past the last: only what is to come */

		if (search(ctx, i, time_us, ends, err) != ERR_NONE)
			return err->code;
		out->after[i] = ends[0] - 1;
	}
	return ERR_NONE;
}

/* ---- cursors ---- */

void event_cursor_advance(struct event_cursor *c, const struct event_cursor *to)
{
	for (uint32_t i = 0; i < c->shards && i < to->shards; i++)
		if (to->after[i] > c->after[i])
			c->after[i] = to->after[i];
}

void event_cursor_hold_back(struct event_cursor *c, const struct event_cursor *to)
{
	for (uint32_t i = 0; i < c->shards; i++)
		if (to->after[i] < c->after[i])
			c->after[i] = to->after[i];
}

bool event_cursor_reaches(const struct event_cursor *c, const struct event_cursor *other)
{
	for (uint32_t i = 0; i < c->shards; i++)
		if (c->after[i] < other->after[i])
			return false;
	return c->shards == other->shards;
}

int64_t event_cursor_distance(const struct event_cursor *from, const struct event_cursor *to)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < from->shards && i < to->shards; i++)
		sum += to->after[i] > from->after[i] ? to->after[i] - from->after[i] : 0;
	return sum;
}

struct event_move event_cursor_move(const struct event_cursor *first, const struct event_cursor *last,
                                    const struct event_cursor *to)
{
	return (struct event_move){.redelivers = event_cursor_distance(to, last),
	                           .skips = event_cursor_distance(first, to)};
}

bool event_cursor_read(struct bytes text, uint32_t shards, struct event_cursor *out)
{
	uint64_t number;

	*out = (struct event_cursor){.shards = shards};
	for (uint32_t i = 0; i < shards; i++) {
		const char  *end = text.len > 0 ? memchr(text.data, '-', text.len) : NULL;
		struct bytes part = {text.data, end != NULL ? (size_t)(end - text.data) : text.len};

		if ((end == NULL) != (i + 1 == shards) || !bytes_to_u64(part, ROW_I64_MAX, &number))
			return false;
		out->after[i] = (int64_t)number;
		if (end != NULL)
			text = (struct bytes){end + 1, text.len - part.len - 1};
	}
	return true;
}

struct bytes event_cursor_text(struct arena *a, const struct event_cursor *c)
{
	struct buf out;

	buf_init(&out, a);
	for (uint32_t i = 0; i < c->shards; i++) {
		if (i > 0)
			buf_add_byte(&out, '-');
		buf_add_i64(&out, c->after[i]);
	}
	return buf_bytes(&out);
}

/* ---- as JSON ---- */

static void write_map(struct json_writer *w, const struct item *map);

static void write_number(struct json_writer *w, const struct number *n)
{
	char text[NUMBER_TEXT_MAX];

	json_raw(w, (struct bytes){text, number_format(n, text)});
}

/* As people would write it: sets are arrays, binary data is base64. */
static void write_value(struct json_writer *w, const struct value *v)
{
	switch (v->type) {
	case VALUE_S:
		json_string(w, v->text);
		break;
	case VALUE_N:
		write_number(w, &v->number);
		break;
	case VALUE_B:
		json_base64(w, v->text);
		break;
	case VALUE_BOOL:
		json_bool(w, v->truth);
		break;
	case VALUE_M:
		write_map(w, &v->map);
		break;
	case VALUE_L:
	case VALUE_SS:
	case VALUE_NS:
	case VALUE_BS:
		json_begin_array(w);
		for (uint32_t i = 0; i < v->list.count; i++)
			write_value(w, &v->list.items[i]);
		json_end_array(w);
		break;
	case VALUE_NULL:
	case VALUE_TYPE_COUNT:
		json_null(w);
		break;
	}
}

static void write_map(struct json_writer *w, const struct item *map)
{
	json_begin_object(w);
	for (uint32_t i = 0; i < map->count; i++) {
		json_name(w, map->members[i].name);
		write_value(w, &map->members[i].value);
	}
	json_end_object(w);
}

/* The schema of a type, unless that is longer than any we know. */
static void write_schema(struct json_writer *w, struct bytes type)
{
	static const char before[] = EVENT_SCHEMA_BEFORE, after[] = EVENT_SCHEMA_AFTER;
	char              text[sizeof(before) + EVENT_TYPE_CHARS_MAX + sizeof(after)];

	if (type.len == 0 || type.len > EVENT_TYPE_CHARS_MAX)
		return;
	json_member_text(w, BYTES("dataschema"),
	                 (struct bytes){text, (size_t)snprintf(text, sizeof(text), "%s%.*s%s", before,
	                                                       BYTES_ARG(type), after)});
}

/* What is the same for all events, or for all of a type, is not in the row. */
void event_write_json(struct json_writer *w, const struct item *row)
{
	static const char *const texts[] = {"id", "type", "source", "time", "subject"};
	const struct value      *data = item_get(row, BYTES("data"));
	uint32_t                 shard = 0;

	json_begin_object(w);
	json_member_text(w, BYTES("specversion"), BYTES("1.0"));
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		json_member_text(w, bytes_of(texts[i]), row_text(row, texts[i]));
	write_schema(w, row_text(row, "type"));
	if (data != NULL)
		json_member_text(w, BYTES("datacontenttype"), BYTES("application/json"));
	json_member_text(w, BYTES("correlationid"), row_text(row, "correlationid"));
	json_member_i64(w, BYTES("seq"), row_i64(row, "seq", 0));
	json_member_i64(w, BYTES("position"), event_position(row));
	if (shard_named(row_text(row, "PK"), BYTES("LOG#"), EVENT_SHARDS_MAX, &shard) && shard > 0)
		json_member_i64(w, BYTES("shard"), shard);
	if (item_get(row, BYTES("erased")) != NULL)
		json_member_bool(w, BYTES("erased"), true);
	if (data != NULL) {
		json_key(w, BYTES("data"));
		write_value(w, data);
	}
	json_end_object(w);
}
