/* Sign-outs: see sign_out.h. */
#include "service/sign_out.h"

#include "service/row.h"

#define KEY_SIGN_OUT "SIGN_OUT"

static struct bytes sort_key(struct arena *a, struct bytes user, struct bytes provider)
{
	return arena_printf(a, "%.*s#%.*s", BYTES_ARG(user), BYTES_ARG(provider));
}

/* Is the provider one that signs out? */
static bool is_wanted(const struct services *s, struct bytes provider)
{
	struct providers      *all = providers_acquire(s);
	const struct provider *p = provider_named(all, provider);
	bool                   wanted = p != NULL && p->sign_out;

	providers_release(all);
	return wanted;
}

/* (1) */
void signout_queue(struct context *ctx, const struct user *u)
{
	struct bytes provider = row_text(&u->row, "provider"), name = row_text(&u->row, "providerUser");
	struct row   row;

	if (provider.len == 0 || !is_wanted(ctx->services, provider))
		return;
	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", BYTES(KEY_SIGN_OUT));
	row_set_text(&row, "SK", sort_key(ctx->arena, u->id, provider));
	row_set_text(&row, "userId", u->id);
	row_set_text(&row, "provider", provider);
	row_set_text(&row, "name", name.len > 0 ? name : u->id);
	row_set_i64(&row, "requestedAt", ctx->now_s);
	row_set_i64(&row, "nextAt", ctx->now_s);
	row_set_i64(&row, "tries", 0);
	if (ctx->trace.len > 0)
		row_set_text(&row, "trace", ctx->trace);
	ctx_put(ctx, TABLE_SYNC, row_item(&row));
	ctx->changes.signs_out = true;
}

static struct sign_out sign_out_of(const struct item *row)
{
	return (struct sign_out){.user = row_text(row, "userId"),
	                         .provider = row_text(row, "provider"),
	                         .name = row_text(row, "name"),
	                         .trace = row_text(row, "trace"),
	                         .requested_s = row_i64(row, "requestedAt", 0),
	                         .next_s = row_i64(row, "nextAt", 0),
	                         .tries = row_i64(row, "tries", 0)};
}

static void sign_out_copy(struct arena *a, struct sign_out *q)
{
	q->user = arena_copy(a, q->user);
	q->provider = arena_copy(a, q->provider);
	q->name = arena_copy(a, q->name);
	q->trace = arena_copy(a, q->trace);
}

/* One page, and *start behind it. Many may wait while a provider is down: what was read of a page goes with it. */
static enum err_code page_find(struct context *ctx, struct item *start, struct sign_outs *out, bool *more,
                               struct err *err)
{
	struct expr_key_condition key = row_prefix(BYTES(KEY_SIGN_OUT), BYTES(""));
	struct table_query q = {.key = &key, .consistent = true, .start = start->count > 0 ? start : NULL};
	struct context     reading = *ctx;
	struct arena       page;
	struct table_query_result r;
	enum err_code             rc;

	arena_init(&page);
	reading.arena = &page;
	rc = ctx_query_in(&reading, TABLE_SYNC, &q, &r, err);
	for (uint32_t i = 0; rc == ERR_NONE && i < r.count; i++) {
		out->pending++;
		if (out->count == SIGN_OUTS_ROUND_MAX || row_i64(&r.items[i], "nextAt", 0) > ctx->now_s)
			continue;
		out->list[out->count] = sign_out_of(&r.items[i]);
		sign_out_copy(ctx->arena, &out->list[out->count++]);
	}
	*more = rc == ERR_NONE && r.more;
	if (*more)
		*start = row_key_two(ctx->arena, BYTES(KEY_SIGN_OUT),
		                     arena_copy(ctx->arena, row_text(&r.last_key, "SK")));
	arena_release(&page);
	return rc;
}

enum err_code sign_outs_find(struct context *ctx, struct sign_outs *out, struct err *err)
{
	struct item start = {NULL, 0};
	bool        more;

	*out = (struct sign_outs){
	        .list = arena_array(ctx->arena, SIGN_OUTS_ROUND_MAX, sizeof(struct sign_out))};
	do {
		if (page_find(ctx, &start, out, &more, err) != ERR_NONE)
			return err->code;
	} while (more);
	return ERR_NONE;
}

/* (3) */
static int64_t pause_after(int64_t tries)
{
	int64_t pause = SIGN_OUT_PAUSE_S;

	while (tries-- > 1 && pause < SIGN_OUT_PAUSE_MAX_S)
		pause *= 2;
	return pause < SIGN_OUT_PAUSE_MAX_S ? pause : SIGN_OUT_PAUSE_MAX_S;
}

enum err_code sign_out_note(struct context *ctx, const struct sign_out *q, const char *why, struct err *err)
{
	struct looked old;
	struct row    row;

	looked_init(&old, BYTES(KEY_SIGN_OUT), sort_key(ctx->arena, q->user, q->provider));
	if (ctx_look_in(ctx, TABLE_SYNC, &old, err) != ERR_NONE)
		return err->code;
	if (!old.found || row_i64(&old.item, "requestedAt", 0) != q->requested_s ||
	    row_i64(&old.item, "tries", 0) != q->tries)
		return ERR_NONE;
	if (why == NULL) {
		ctx_delete(ctx, TABLE_SYNC, row_key_two(ctx->arena, old.pk, old.sk));
		return ERR_NONE;
	}
	row_from(&row, ctx->arena, &old.item);
	row_set_i64(&row, "tries", q->tries + 1);
	row_set_i64(&row, "nextAt", ctx->now_s + pause_after(q->tries + 1));
	row_set_text(&row, "error", arena_printf(ctx->arena, "%s", why));
	ctx_put(ctx, TABLE_SYNC, row_item(&row));
	return ERR_NONE;
}
