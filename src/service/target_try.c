/* Tries of a target: see target_try.h. */
#include "service/target_try.h"

#include "service/delivery.h"
#include "service/row.h"

#define TRIES_SK "TRIES"

static struct target_try try_of(const struct item *map)
{
	int64_t end = row_i64(map, "end", 0);

	return (struct target_try){.at_us = row_i64(map, "at", 0),
	                           .took_us = row_i64(map, "took", 0),
	                           .end = end > 0 && end < DELIVERY_ENDS ? (unsigned)end : 0,
	                           .status = row_i64(map, "status", 0),
	                           .event = row_text(map, "event"),
	                           .type = row_text(map, "type"),
	                           .error = row_text(map, "error")};
}

enum err_code target_tries_get(struct context *ctx, const struct target *t, struct target_tries *out,
                               struct err *err)
{
	struct looked       row;
	const struct value *v;

	*out = (struct target_tries){0};
	looked_init(&row, delivery_retry_pk(ctx->arena, t), BYTES(TRIES_SK));
	if (ctx_look_in(ctx, TABLE_EVENTS, &row, err) != ERR_NONE)
		return err->code;
	v = row.found ? item_get(&row.item, BYTES("tries")) : NULL;
	for (uint32_t i = 0; v != NULL && v->type == VALUE_L && i < v->list.count && i < TARGET_TRIES_KEPT;
	     i++)
		if (v->list.items[i].type == VALUE_M)
			out->list[out->count++] = try_of(&v->list.items[i].map);
	return ERR_NONE;
}

static void text_add(struct row *row, const char *name, struct bytes text)
{
	if (text.len > 0)
		row_set_text(row, name, text);
}

static struct value try_value(struct arena *a, const struct target_try *t)
{
	struct row row;

	row_init(&row, a);
	row_set_i64(&row, "at", t->at_us);
	row_set_i64(&row, "took", t->took_us);
	row_set_i64(&row, "end", t->end);
	if (t->status != 0)
		row_set_i64(&row, "status", t->status);
	text_add(&row, "event", t->event);
	text_add(&row, "type", t->type);
	text_add(&row, "error", t->error);
	return (struct value){.type = VALUE_M, .map = row_item(&row)};
}

void target_tries_put(struct context *ctx, const struct target *t, const struct target_tries *tries)
{
	struct arena *a = ctx->arena;
	struct value  v = {.type = VALUE_L,
	                   .list = {arena_array(a, TARGET_TRIES_KEPT, sizeof(struct value)), tries->count}};
	struct row    row;

	for (uint32_t i = 0; i < tries->count; i++)
		v.list.items[i] = try_value(a, &tries->list[i]);
	row_init(&row, a);
	row_set_text(&row, "PK", delivery_retry_pk(a, t));
	row_set_text(&row, "SK", BYTES(TRIES_SK));
	row_set(&row, "tries", v);
	ctx_put(ctx, TABLE_EVENTS, row_item(&row));
}

void target_tries_delete(struct context *ctx, const struct target *t)
{
	ctx_delete(ctx, TABLE_EVENTS,
	           row_key_two(ctx->arena, delivery_retry_pk(ctx->arena, t), BYTES(TRIES_SK)));
}
