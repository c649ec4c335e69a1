/* Trimming: see event_trim.h. */
#include "service/event_trim.h"

#include "service/row.h"

/* ---- readers ---- */

static void reader_note(struct trim_readers *out, const struct item *row)
{
	const struct value *positions = item_get(row, BYTES("positions"));

	for (uint32_t i = 0; positions != NULL && positions->type == VALUE_L && i < positions->list.count &&
	                     i < EVENT_SHARDS_MAX;
	     i++) {
		int64_t last = value_to_i64(&positions->list.items[i], 0);

		if (last >= out->last[i])
			continue;
		out->last[i] = last;
		out->name[i] = row_text(row, "SK");
	}
}

static enum err_code partition_note(struct context *ctx, struct bytes pk, struct trim_readers *out,
                                    struct err *err)
{
	struct expr_key_condition key = row_prefix(pk, (struct bytes){NULL, 0});
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result r;
	struct item               start;
	uint32_t                  seen = 0;

	do {
		if (ctx_query_in(ctx, TABLE_EVENTS, &q, &r, err) != ERR_NONE)
			return err->code;
		for (uint32_t i = 0; i < r.count; i++)
			reader_note(out, &r.items[i]);
		seen += r.count;
		start = r.last_key; /* the next query overwrites its result before it reads where to begin */
		q.start = &start;
	} while (r.more && seen < TRIM_READERS_MAX);
	return ERR_NONE;
}

enum err_code trim_readers_read(struct context *ctx, struct trim_readers *out, struct err *err)
{
	for (uint32_t i = 0; i < EVENT_SHARDS_MAX; i++) {
		out->last[i] = INT64_MAX;
		out->name[i] = (struct bytes){NULL, 0};
	}
	if (partition_note(ctx, BYTES("CONSUMER"), out, err) != ERR_NONE)
		return err->code;
	return partition_note(ctx, BYTES("TARGET"), out, err);
}

/* ---- a step ---- */

struct trimming {
	struct context            *ctx;
	const struct trim_readers *readers;
	uint32_t                   shard;
	struct trim_step          *out;
	struct looked              first;
	int64_t                    next; /* the first position that stays */
};

static struct bytes first_key(struct arena *a, uint32_t shard)
{
	return arena_printf(a, "FIRST#%u", shard);
}

/* May it go? (1), (2) */
static bool is_over(struct trimming *t, const struct item *row)
{
	const struct event_policy *policy = ctx_event_policy(t->ctx);
	int64_t                    age_us = t->ctx->now_us - event_time_us(row_text(row, "time"));
	bool                       had = event_position(row) <= t->readers->last[t->shard];

	if (age_us < policy->keep_s * 1000000)
		return false;
	if (!had && age_us < policy->lag_max_s * 1000000) {
		t->out->held = true;
		return false;
	}
	if (!had) {
		t->out->unread++;
		t->out->reader = t->readers->name[t->shard];
	}
	return true;
}

static void first_put(struct trimming *t)
{
	struct row row;

	row_init(&row, t->ctx->arena);
	row_set_text(&row, "PK", t->first.pk);
	row_set_text(&row, "SK", t->first.sk);
	row_set_i64(&row, "position", t->next);
	ctx_put(t->ctx, TABLE_EVENTS, row_item(&row));
}

/* Up to the first row that stays. */
static void rows_delete(struct trimming *t, const struct table_query_result *rows)
{
	struct bytes log = event_log_key(t->ctx->arena, t->shard);
	uint32_t     i;

	for (i = 0; i < rows->count; i++) {
		if (!is_over(t, &rows->items[i]))
			return;
		t->next = event_position(&rows->items[i]) + 1;
		ctx_delete(t->ctx, TABLE_EVENTS,
		           row_key_two(t->ctx->arena, log, row_text(&rows->items[i], "SK")));
		t->out->trimmed++;
	}
	t->out->more = i == rows->count && rows->more;
}

enum err_code event_trim(struct context *ctx, uint32_t shard, const struct trim_readers *readers,
                         struct trim_step *out, struct err *err)
{
	struct arena             *a = ctx->arena;
	struct trimming           t = {.ctx = ctx, .readers = readers, .shard = shard, .out = out};
	struct expr_key_condition key = row_prefix(event_log_key(a, shard), (struct bytes){NULL, 0});
	struct table_query        q = {.key = &key, .consistent = true, .limit = TRIM_ROWS};
	struct table_query_result r;

	*out = (struct trim_step){0};
	looked_init(&t.first, BYTES("HEAD"), first_key(a, shard));
	if (ctx_look_in(ctx, TABLE_EVENTS, &t.first, err) != ERR_NONE)
		return err->code;
	t.next = t.first.found ? row_i64(&t.first.item, "position", 1) : 1;
	key.range_name = BYTES("SK");
	key.range_kind = RANGE_GE;
	key.low = value_string(event_position_text(a, t.next));
	if (ctx_query_in(ctx, TABLE_EVENTS, &q, &r, err) != ERR_NONE)
		return err->code;
	rows_delete(&t, &r);
	if (out->trimmed > 0)
		first_put(&t);
	return ERR_NONE;
}
