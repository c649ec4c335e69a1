/* Push devices: see push_device.h. */
#include "service/push_device.h"

#include "base/hash.h"
#include "base/date.h"
#include "service/push_due.h"
#include "service/row.h"
#include "service/user.h"

const char *const push_platforms[] = {"ios", "android", NULL};

/* The keys of the index. */
#define INDEX_SHARD       "platformShard"
#define INDEX_ACTIVE_TEXT "isActiveText"

/* ---- rows ---- */

bool push_device_id_is(struct bytes id)
{
	for (size_t i = 0; i < id.len; i++)
		if ((unsigned char)id.data[i] < ' ' || id.data[i] == 0x7f)
			return false;
	return id.len >= 1 && id.len <= PUSH_DEVICE_ID_BYTES_MAX;
}

bool push_is_active(const struct item *row)
{
	const struct value *v = item_get(row, BYTES("isActive"));

	return v != NULL && v->type == VALUE_BOOL && v->truth;
}

struct push_device push_device_of(const struct item *row)
{
	struct push_device d = {.user = row_text(row, "userId"),
	                        .id = row_text(row, "deviceId"),
	                        .platform = row_text(row, "platform"),
	                        .registered_at = row_text(row, "registeredAt"),
	                        .updated_at = row_text(row, "updatedAt"),
	                        .active = push_is_active(row),
	                        .expires_s = row_i64(row, "expiresAt", 0),
	                        .row = *row};

	for (int kind = 0; kind < PUSH_KINDS; kind++)
		d.tokens[kind] = row_text(row, push_kind_names[kind]);
	return d;
}

enum err_code push_device_look(struct context *ctx, const struct push_ref *q, struct looked *out,
                               struct err *err)
{
	looked_init(out, q->user, q->device);
	return ctx_look_in(ctx, TABLE_DEVICES, out, err);
}

/* Of both parts of the key; no UTF-8 text holds what is between them. */
uint32_t push_shard_of(struct bytes user, struct bytes device, uint32_t shards)
{
	return hash_shard(hash_fnv(hash_fnv(hash_fnv(HASH_FNV, user), BYTES("\xff")), device), shards);
}

struct bytes push_shard_key(struct arena *a, struct bytes platform, uint32_t shard)
{
	return arena_printf(a, "%.*s#%u", BYTES_ARG(platform), shard);
}

static bool is_platform(struct bytes text)
{
	for (int i = 0; push_platforms[i] != NULL; i++)
		if (bytes_equal(text, bytes_of(push_platforms[i])))
			return true;
	return false;
}

static void index_remove(struct row *row)
{
	row_remove(row, INDEX_SHARD);
	row_remove(row, INDEX_ACTIVE_TEXT);
}

/* A row of no platform is in no list; one with a long text could not even be stored with these attributes. */
static void index_set(struct row *row, const struct push_settings *settings)
{
	struct push_device d = push_device_of(&row->item);

	if (!is_platform(d.platform)) {
		index_remove(row);
		return;
	}
	row_set_text(row, INDEX_SHARD,
	             push_shard_key(row->arena, d.platform, push_shard_of(d.user, d.id, settings->shards)));
	row_set_text(row, INDEX_ACTIVE_TEXT, d.active ? BYTES("true") : BYTES("false"));
	if (item_size(&row->item) > ITEM_BYTES_MAX) /* others have filled it: it cannot have these, too */
		index_remove(row);
}

void push_row_index(struct context *ctx, struct row *row)
{
	if (ctx->services->tables.device_index)
		index_set(row, &ctx->services->push);
	else
		index_remove(row);
}

bool push_index_differs(const struct item *before, const struct item *after)
{
	return !bytes_equal(row_text(before, INDEX_SHARD), row_text(after, INDEX_SHARD)) ||
	       !bytes_equal(row_text(before, INDEX_ACTIVE_TEXT), row_text(after, INDEX_ACTIVE_TEXT));
}

bool push_row_complete(const void *settings, struct arena *a, const struct item *row, struct item *out)
{
	struct row full;

	if (row_text(row, "userId").len == 0 || row_text(row, "deviceId").len == 0)
		return false; /* a table of others, which has that name */
	row_from(&full, a, row);
	index_set(&full, settings);
	*out = row_item(&full);
	return push_index_differs(row, out);
}

struct item push_row_put(struct context *ctx, struct row *row)
{
	struct item item;

	push_row_index(ctx, row);
	item = row_item(row);
	ctx_put(ctx, TABLE_DEVICES, item);
	return item;
}

void push_row_delete(struct context *ctx, const struct item *row)
{
	push_due_end(ctx, row);
	ctx_delete(ctx, TABLE_DEVICES,
	           row_key_in(ctx->arena, TABLE_DEVICES, row_text(row, "userId"), row_text(row, "deviceId")));
}

/* All rows of a user. */
enum err_code push_rows_query(struct context *ctx, struct bytes user, struct table_query_result *r,
                              struct err *err)
{
	struct expr_key_condition key = {
	        .hash_name = BYTES("userId"), .hash = value_string(user), .range_kind = RANGE_NONE};
	struct table_query q = {.key = &key, .consistent = true};

	return ctx_query_in(ctx, TABLE_DEVICES, &q, r, err);
}

/* When a device was last seen: its life began anew then. Rows of others may have none, or a longer one: those were seen at their
 * last change at the latest. */
int64_t push_seen_of(const struct item *row)
{
	int64_t seen_s = row_i64(row, "expiresAt", 0) - PUSH_DEVICE_LIFE_S, micros;

	if (!date_read_iso(row_text(row, "updatedAt"), &micros))
		return seen_s > 0 ? seen_s : 0;
	return seen_s > 0 && seen_s < micros / 1000000 ? seen_s : micros / 1000000;
}

/* ---- events: by ids, without tokens ---- */

void push_publish(struct context *ctx, enum event_type type, const struct push_device *d, const char *name,
                  struct bytes text)
{
	struct event e = {.type = type, .subject = d->user};
	struct row   data;

	if (!ctx_publishes(ctx, type))
		return;
	row_init(&data, ctx->arena);
	row_set_text(&data, "deviceId", d->id);
	if (text.len > 0)
		row_set_text(&data, name, text);
	e.data = row_item(&data);
	ctx_publish(ctx, &e);
}

/* ---- removing ---- */

/* Is there room in this commit for the end of one device more? */
bool push_end_fits(const struct context *ctx, const struct push_lanes *lanes, struct bytes device)
{
	return changes_room(&ctx->changes) >= PUSH_REMOVE_ROOM + push_lanes_count(lanes, device);
}

/* (2) and (5); `lanes` are its user's. */
enum err_code push_row_drop(struct context *ctx, const struct item *row, const struct push_lanes *lanes,
                            enum push_reason reason, struct err *err)
{
	static const char *const reasons[] = {[REMOVED_ASKED] = "asked",
	                                      [REMOVED_LIMIT] = "limit",
	                                      [REMOVED_INACTIVE] = "inactive",
	                                      [REMOVED_MOVED] = "moved",
	                                      [REMOVED_ERASED] = "erased"};
	struct push_device       d = push_device_of(row);

	for (int kind = 0; kind < PUSH_KINDS; kind++)
		if (push_token_is((enum push_kind)kind, d.tokens[kind]) &&
		    push_marker_drop(ctx, &(struct push_marker){(enum push_kind)kind, d.tokens[kind]}, row,
		                     err) != ERR_NONE)
			return err->code;
	push_row_delete(ctx, row);
	push_lanes_end(ctx, lanes, d.id);
	push_publish(ctx, EVENT_DEVICE_REMOVED, &d, "reason", bytes_of(reasons[reason]));
	return ERR_NONE;
}

enum err_code push_device_remove_found(struct context *ctx, const struct item *row, enum push_reason reason,
                                       bool *fits, struct err *err)
{
	struct push_lanes lanes;

	if (push_lanes_read(ctx, row_text(row, "userId"), &lanes, err) != ERR_NONE)
		return err->code;
	*fits = push_end_fits(ctx, &lanes, row_text(row, "deviceId"));
	if (!*fits)
		return ERR_NONE;
	ctx_found_in(ctx, TABLE_DEVICES, row);
	return push_row_drop(ctx, row, &lanes, reason, err);
}

/* ---- reading ---- */

static enum err_code unknown(struct err *err)
{
	return err_field(err, ERR_NOT_FOUND, "deviceId", "deviceId: the user has no such device");
}

enum err_code push_device_get(struct context *ctx, const struct push_ref *q, struct push_device *out,
                              struct err *err)
{
	struct looked row;

	if (push_device_look(ctx, q, &row, err) != ERR_NONE)
		return err->code;
	if (!row.found)
		return unknown(err);
	*out = push_device_of(&row.item);
	return ERR_NONE;
}

/* ---- ending ---- */

void push_row_deactivate(struct context *ctx, const struct item *row, const struct push_lanes *lanes,
                         const char *reason, struct push_ended *out)
{
	struct row  left;
	struct item item;

	*out = (struct push_ended){.device = push_device_of(row), .changed = push_is_active(row)};
	out->lanes = push_lanes_end(ctx, lanes, out->device.id); /* (5) */
	if (!out->changed)
		return;
	row_from(&left, ctx->arena, row);
	row_set(&left, "isActive", value_bool(false));
	row_set_text(&left, "updatedAt", user_time(ctx->arena, ctx->now_us));
	item = push_row_put(ctx, &left);
	out->device = push_device_of(&item);
	push_publish(ctx, EVENT_DEVICE_DEACTIVATED, &out->device, "reason", bytes_of(reason));
}

enum err_code push_device_deactivate(struct context *ctx, const struct push_ref *q, struct push_ended *out,
                                     struct err *err)
{
	struct looked     row;
	struct push_lanes lanes;

	if (push_device_look(ctx, q, &row, err) != ERR_NONE)
		return err->code;
	if (!row.found)
		return unknown(err);
	if (push_lanes_read(ctx, q->user, &lanes, err) != ERR_NONE)
		return err->code;
	push_row_deactivate(ctx, &row.item, &lanes, "asked", out);
	return ERR_NONE;
}

enum err_code push_device_remove(struct context *ctx, const struct push_ref *q, struct push_ended *out,
                                 struct err *err)
{
	struct looked     row;
	struct push_lanes lanes;

	if (push_device_look(ctx, q, &row, err) != ERR_NONE)
		return err->code;
	if (!row.found)
		return unknown(err);
	*out = (struct push_ended){.device = push_device_of(&row.item), .changed = true};
	if (push_lanes_read(ctx, q->user, &lanes, err) != ERR_NONE)
		return err->code;
	out->lanes = push_lanes_count(&lanes, q->device);
	return push_row_drop(ctx, &row.item, &lanes, REMOVED_ASKED, err);
}

static bool changed_after(const struct item *row, int64_t until_s)
{
	int64_t micros;

	return until_s > 0 && date_read_iso(row_text(row, "updatedAt"), &micros) &&
	       micros / 1000000 > until_s;
}

/* Expired rows too: on an engine that only hides them, nothing of a user is to be left. */
enum err_code push_devices_erase(struct context *ctx, struct bytes user, int64_t until_s,
                                 struct push_erased *out, struct err *err)
{
	struct table_query_result rows;
	struct looked             registrations;
	struct push_lanes         lanes;
	bool                      kept = false;

	*out = (struct push_erased){0};
	if (push_user_look(ctx, user, &registrations, err) != ERR_NONE ||
	    push_rows_query(ctx, user, &rows, err) != ERR_NONE ||
	    push_lanes_read(ctx, user, &lanes, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < rows.count; i++) {
		const struct item *row = &rows.items[i];

		if (changed_after(row, until_s)) {
			kept = true;
			continue;
		}
		out->more = out->devices > 0 && !push_end_fits(ctx, &lanes, row_text(row, "deviceId"));
		if (out->more)
			break;
		out->devices++;
		ctx_found_in(ctx, TABLE_DEVICES, row);
		out->lanes += push_lanes_count(&lanes, row_text(row, "deviceId"));
		if (push_row_drop(ctx, row, &lanes, REMOVED_ERASED, err) != ERR_NONE)
			return err->code;
	}
	out->more = out->more || rows.more;
	if (!out->more && !kept && changes_room(&ctx->changes) < lanes.count + 1)
		out->more = true;
	if (out->more || kept)
		return ERR_NONE;
	out->lanes +=
	        push_lanes_end_all(ctx, &lanes); /* of devices that have expired, or that others deleted */
	if (registrations.found)
		ctx_delete(ctx, TABLE_PUSH_TOKENS, row_key_one(ctx->arena, registrations.pk));
	return ERR_NONE;
}
