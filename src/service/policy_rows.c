/* Policy rows: keys, reading, replacing. */
#include "service/policy_rows.h"

#include <inttypes.h>

#include "service/row.h"

/* ---- keys ---- */

static struct bytes newest_key(struct arena *a, const char *kind, enum policy_place place)
{
	return arena_printf(a, "POLICY#%s%s", kind, place == PLACE_FILE ? "#FILE" : "");
}

static struct bytes version_key(struct arena *a, const char *kind, int64_t version)
{
	return arena_printf(a, "POLICY#%s#VERSION#%" PRIi64, kind, version);
}

/* ---- reading ---- */

static enum err_code get(struct context *ctx, struct bytes pk, struct policy_version *out, struct err *err)
{
	struct looked row;

	*out = (struct policy_version){0};
	if (ctx_get(ctx, TABLE_POLICIES, pk, &row, err) != ERR_NONE)
		return err->code;
	if (!row.found)
		return ERR_NONE;
	*out = (struct policy_version){.found = true,
	                               .version = row_i64(&row.item, "version", 0),
	                               .origin = document_origin_of(row_text(&row.item, "origin")),
	                               .set_s = row_i64(&row.item, "last_updated", 0),
	                               .text = row_text(&row.item, "document"),
	                               .heritage = row_text(&row.item, "heritage"),
	                               .kept = row_text(&row.item, "kept")};
	return ERR_NONE;
}

enum err_code policy_rows_newest(struct context *ctx, const char *kind, enum policy_place place,
                                 struct policy_version *out, struct err *err)
{
	return get(ctx, newest_key(ctx->arena, kind, place), out, err);
}

enum err_code policy_rows_find(struct context *ctx, const char *kind, int64_t version,
                               struct policy_version *out, struct err *err)
{
	struct bytes keys[] = {version_key(ctx->arena, kind, version),
	                       newest_key(ctx->arena, kind, PLACE_PUT),
	                       newest_key(ctx->arena, kind, PLACE_FILE)};

	for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (get(ctx, keys[i], out, err) != ERR_NONE)
			return err->code;
		if (out->found && out->version == version)
			return ERR_NONE;
	}
	out->found = false;
	return ERR_NONE;
}

/* ---- replacing ---- */

static void put(struct context *ctx, struct bytes pk, const struct policy_version *v,
                const struct expr *condition)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", pk);
	row_set_text(&row, "document", v->text);
	row_set_i64(&row, "last_updated", v->set_s);
	row_set_text(&row, "origin", bytes_of(document_origin_name(v->origin)));
	row_set_i64(&row, "version", v->version);
	if (v->kept.len > 0)
		row_set_text(&row, "kept", v->kept);
	if (v->heritage.len > 0)
		row_set_text(&row, "heritage", v->heritage);
	ctx_put_if(ctx, TABLE_POLICIES, row_item(&row), condition);
}

/* One more version that is kept; the oldest goes if they are too many. */
static struct bytes kept_add(struct context *ctx, const char *kind, const struct policy_version *old)
{
	struct bytes kept = old->kept;
	const char  *space = kept.len == 0 ? NULL : memchr(kept.data, ' ', kept.len);
	unsigned     count = kept.len > 0;
	uint64_t     oldest;

	for (size_t i = 0; i < kept.len; i++)
		count += kept.data[i] == ' ';
	if (count >= POLICY_VERSIONS_KEPT && space != NULL) {
		struct bytes first = {kept.data, (size_t)(space - kept.data)};

		if (bytes_to_u64(first, INT64_MAX, &oldest))
			ctx_delete(ctx, TABLE_POLICIES,
			           row_key_one(ctx->arena, version_key(ctx->arena, kind, (int64_t)oldest)));
		kept = (struct bytes){space + 1, kept.len - first.len - 1};
	}
	return arena_printf(ctx->arena, "%.*s%s%" PRIi64, BYTES_ARG(kept), kept.len > 0 ? " " : "",
	                    old->version);
}

/* The condition is on the newest: whoever else replaced it has the same row to change. */
void policy_rows_replace(struct context *ctx, const char *kind, enum policy_place place,
                         const struct policy_version *old, const struct policy_version *next)
{
	static const char *const same[] = {"version", NULL};
	struct policy_version    newest = *next;
	struct row               read; /* nothing, if there was none */

	if (old->found && old->version > 0) {
		struct policy_version before = *old;

		before.kept = before.heritage = (struct bytes){NULL, 0};
		put(ctx, version_key(ctx->arena, kind, old->version), &before, NULL);
		newest.kept = kept_add(ctx, kind, old);
	}
	row_init(&read, ctx->arena);
	if (old->found)
		row_set_i64(&read, "version", old->version);
	put(ctx, newest_key(ctx->arena, kind, place), &newest, row_same(ctx->arena, &read.item, same));
}

/* ---- how often they changed ---- */

#define CHANGES_KEY "POLICY#CHANGES"

enum err_code policy_rows_changes(struct context *ctx, int64_t *out, struct err *err)
{
	struct looked row;

	if (ctx_get(ctx, TABLE_POLICIES, BYTES(CHANGES_KEY), &row, err) != ERR_NONE)
		return err->code;
	*out = row.found ? row_i64(&row.item, "changes", 0) : 0;
	return ERR_NONE;
}

void policy_rows_count(struct context *ctx, int64_t changes)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", BYTES(CHANGES_KEY));
	row_set_i64(&row, "changes", changes);
	row_set_i64(&row, "last_updated", ctx->now_s);
	ctx_put(ctx, TABLE_POLICIES, row_item(&row));
}
