/* Lists of devices: see push_list.h. */
#include "service/push_list.h"

#include "service/row.h"

enum err_code push_devices_find(struct context *ctx, const struct push_search *q, struct push_page *out,
                                struct err *err)
{
	struct expr_key_condition key = {
	        .hash_name = BYTES("userId"), .hash = value_string(q->user), .range_kind = RANGE_NONE};
	struct table_query        query = {.key = &key, .limit = PUSH_EXAMINED_MAX};
	struct item               start;
	struct table_query_result r;

	*out = (struct push_page){.list = arena_array(ctx->arena, q->limit, sizeof(*out->list))};
	if (q->after.data != NULL) {
		start = row_key_in(ctx->arena, TABLE_DEVICES, q->user, q->after);
		query.start = &start;
	}
	if (ctx_query_in(ctx, TABLE_DEVICES, &query, &r, err) != ERR_NONE)
		return err->code;
	out->more = r.more;
	out->last = r.more ? row_text(&r.last_key, "deviceId") : (struct bytes){NULL, 0};
	for (uint32_t i = 0; i < r.count; i++) {
		if (row_expired(&r.items[i], "expiresAt", ctx->now_us) ||
		    (!q->inactive && !push_is_active(&r.items[i])))
			continue;
		if (out->count == q->limit) { /* one more than fits: the next page begins with it */
			out->more = true;
			out->last = out->list[out->count - 1].id;
			break;
		}
		out->list[out->count++] = push_device_of(&r.items[i]);
	}
	return ERR_NONE;
}

/* One page of one shard, as much of it as is still wanted. */
static enum err_code shard_query(struct context *ctx, const struct push_broadcast *q,
                                 struct push_broadcast_page *out, struct err *err)
{
	struct bytes              shard = push_shard_key(ctx->arena, q->platform, out->shard);
	struct expr_key_condition key = {.hash_name = BYTES("platformShard"),
	                                 .hash = value_string(shard),
	                                 .range_name = BYTES("isActiveText"),
	                                 .range_kind = RANGE_EQ,
	                                 .low = value_string(BYTES("true"))};
	struct table_query        query = {
	               .index = BYTES(DEVICE_INDEX), .key = &key, .limit = q->limit - out->count};
	struct row                start;
	struct item               from;
	struct table_query_result r;

	if (out->last_user.data != NULL) {
		row_init(&start, ctx->arena);
		row_set_text(&start, "userId", out->last_user);
		row_set_text(&start, "deviceId", out->last_device);
		row_set_text(&start, "platformShard", shard);
		row_set_text(&start, "isActiveText", BYTES("true"));
		from = row_item(&start);
		query.start = &from;
	}
	if (ctx_query_in(ctx, TABLE_DEVICES, &query, &r, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < r.count; i++)
		if (!row_expired(&r.items[i], "expiresAt", ctx->now_us))
			out->list[out->count++] = push_device_of(&r.items[i]);
	out->last_user = r.more ? row_text(&r.last_key, "userId") : (struct bytes){NULL, 0};
	out->last_device = r.more ? row_text(&r.last_key, "deviceId") : (struct bytes){NULL, 0};
	out->shard += !r.more;
	return ERR_NONE;
}

/* Those that are still active, as their rows say. */
static enum err_code page_judge(struct context *ctx, struct bytes platform, struct push_broadcast_page *page,
                                struct err *err)
{
	struct looked *rows = arena_array(ctx->arena, page->count + 1, sizeof(*rows));
	uint32_t       kept = 0;

	for (uint32_t i = 0; i < page->count; i++) {
		looked_init(&rows[i], page->list[i].user, page->list[i].id);
		rows[i].next = i + 1 < page->count ? &rows[i + 1] : NULL;
	}
	if (page->count > 0 && ctx_peek_all_in(ctx, TABLE_DEVICES, rows, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < page->count; i++)
		if (rows[i].found && push_is_active(&rows[i].item) &&
		    !row_expired(&rows[i].item, "expiresAt", ctx->now_us) &&
		    bytes_equal(row_text(&rows[i].item, "platform"), platform))
			page->list[kept++] = push_device_of(&rows[i].item);
	page->count = kept;
	return ERR_NONE;
}

enum err_code push_devices_broadcast(struct context *ctx, const struct push_broadcast *q,
                                     struct push_broadcast_page *out, struct err *err)
{
	uint32_t shards = ctx->services->push.shards;

	*out = (struct push_broadcast_page){.list = arena_array(ctx->arena, q->limit, sizeof(*out->list)),
	                                    .shard = q->shard,
	                                    .last_user = q->after_user,
	                                    .last_device = q->after_device};
	if (!ctx->services->tables.device_index)
		return err_field(err, ERR_NOT_NOW, "platform",
		                 "platform: the index " DEVICE_INDEX
		                 " is not switched on; start the server with --device-index");
	while (out->shard < shards && out->count < q->limit)
		if (shard_query(ctx, q, out, err) != ERR_NONE)
			return err->code;
	out->more = out->shard < shards;
	return q->judged ? page_judge(ctx, q->platform, out, err) : ERR_NONE;
}
