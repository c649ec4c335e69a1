/* Due rows: see due.h. */
#include "service/due.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/crypto.h"
#include "base/hash.h"
#include "json/base64.h"

enum { DUE_HASH_BYTES = 18, DUE_HASH_CHARS = DUE_HASH_BYTES / 3 * 4, DUE_TIME_DIGITS = 12 };

_Static_assert(DUE_SK_CHARS == DUE_TIME_DIGITS + 1 + DUE_HASH_CHARS, "a due row's sort key");

/* ---- keys ---- */

static struct bytes due_partition(struct arena *a, uint32_t shard)
{
	return arena_printf(a, "DUE#%u", shard);
}

/* Of a subject, as the log's shards. */
static uint32_t due_shard(struct bytes subject)
{
	return hash_shard(hash_fnv(HASH_FNV, subject), DUE_SHARDS);
}

static struct bytes hash_of(struct arena *a, const struct due_thing *t)
{
	struct bytes key =
	        arena_printf(a, "%zu:%.*s%.*s", t->subject.len, BYTES_ARG(t->subject), BYTES_ARG(t->what));
	uint8_t digest[SHA256_BYTES];
	char   *text = arena_alloc(a, DUE_HASH_CHARS);

	sha256(key, digest);
	base64_url_write((struct bytes){(const char *)digest, DUE_HASH_BYTES}, text);
	return (struct bytes){text, DUE_HASH_CHARS};
}

struct item due_key(struct arena *a, const struct due_thing *t, int64_t at_s)
{
	return row_key_two(
	        a, due_partition(a, due_shard(t->subject)),
	        arena_printf(a, "%0*" PRIi64 "#%.*s", DUE_TIME_DIGITS, at_s, BYTES_ARG(hash_of(a, t))));
}

void due_put(struct context *ctx, struct row *row, int64_t at_s)
{
	changes_attach_put(&ctx->changes, TABLE_EVENTS, row_item(row));
	if (ctx->changes.due_s == 0 || at_s < ctx->changes.due_s)
		ctx->changes.due_s = at_s;
}

void due_remove(struct context *ctx, const struct due_thing *t, int64_t at_s)
{
	changes_attach_delete(&ctx->changes, TABLE_EVENTS, due_key(ctx->arena, t, at_s));
}

/* ---- reading them ---- */

/* Those of a shard, from one second to another. */
struct due_range {
	uint32_t           shard, limit;
	int64_t            from_s, to_s;
	const char        *after; /* the sort key after which to begin; NULL or "": at from_s */
	const struct item *start; /* the key after which to go on; NULL: none */
};

static enum err_code due_query(struct context *ctx, const struct due_range *range,
                               struct table_query_result *r, struct err *err)
{
	struct arena             *a = ctx->arena;
	struct expr_key_condition key = row_prefix(due_partition(a, range->shard), (struct bytes){NULL, 0});
	struct table_query        q = {
	               .key = &key, .consistent = true, .limit = range->limit, .start = range->start};

	key.range_name = BYTES("SK");
	key.range_kind = RANGE_BETWEEN;
	if (range->after != NULL && *range->after != '\0')
		key.low = value_string(arena_printf(a, "%s~", range->after));
	else
		key.low = value_string(arena_printf(a, "%0*" PRIi64, DUE_TIME_DIGITS, range->from_s));
	key.high = value_string(arena_printf(a, "%0*" PRIi64 "#~", DUE_TIME_DIGITS, range->to_s));
	return ctx_query_in(ctx, TABLE_EVENTS, &q, r, err);
}

static bool is_of(const struct item *due, struct bytes hash)
{
	struct bytes sk = row_text(due, "SK");

	return sk.len == DUE_TIME_DIGITS + 1 + DUE_HASH_CHARS &&
	       memcmp(sk.data + DUE_TIME_DIGITS + 1, hash.data, hash.len) == 0;
}

/* From where due rows may still be: those before were told of, by this process. */
static int64_t told_until(const struct context *ctx)
{
	int64_t told_s = atomic_load_explicit(&ctx->services->events.expiries_told_s, memory_order_relaxed);

	return told_s > DUE_MARGIN_S ? told_s - DUE_MARGIN_S : 0;
}

static const struct item *due_among(const struct table_query_result *r, struct bytes hash)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (is_of(&r->items[i],
		          hash)) /* there is no second one: whoever sets it anew looks for it first */
			return &r->items[i];
	return NULL;
}

/* Mostly nothing, or what ended in this second. */
enum err_code due_overdue(struct context *ctx, const struct due_thing *t, struct item *out, struct err *err)
{
	struct due_range range = {.shard = due_shard(t->subject), .limit = DUE_PAGE, .to_s = ctx->now_s};
	struct table_query_result r = {.more = true};
	const struct item        *due = NULL;
	struct bytes              hash = hash_of(ctx->arena, t);
	struct item               last;

	*out = (struct item){0};
	if (ctx_lacks(ctx, TABLE_EVENTS))
		return ERR_NONE;
	range.from_s = told_until(ctx);
	for (uint32_t seen = 0; due == NULL && r.more && seen < DUE_OVERDUE_MAX; seen += r.count) {
		if (due_query(ctx, &range, &r, err) != ERR_NONE)
			return err->code;
		due = due_among(&r, hash);
		last = r.last_key;
		range.start = &last;
		range.limit = DUE_SEARCH_PAGE;
	}
	if (due != NULL)
		*out = *due;
	return ERR_NONE;
}

/* ---- the worker's ---- */

static struct due due_of(const struct item *row, uint32_t shard)
{
	int64_t             until_s = row_i64(row, "until", 0);
	const struct value *group = item_get(row, BYTES("group"));
	bool                announced = item_get(row, BYTES("announce_at")) != NULL;

	return (struct due){
	        .shard = shard,
	        .pk = row_text(row, "PK"),
	        .sk = row_text(row, "SK"),
	        .subject = row_text(row, "subject"),
	        .lock = row_text(row, "lock"),
	        .device = row_text(row, "device"),
	        .due_s = row_i64(row, "announce_at", until_s),
	        .until_s = until_s,
	        .rows = announced ? (group != NULL && group->type == VALUE_L ? group->list.count : 0) + 1
	                          : 0};
}

static int compare(const void *x, const void *y)
{
	const struct due *a = x, *b = y;

	return bytes_compare(a->sk, b->sk);
}

/* The seconds that all shards were read up to: those of a full page end earlier. What comes after waits, to be in order. */
static void page_cut(struct due_page *p, int64_t whole_s)
{
	while (p->count > 0 && p->list[p->count - 1].due_s > whole_s)
		p->count--;
}

/* A sort key of another length is none of ours. It is told of all the same, and walked over. */
void dues_pass(struct due_places *places, const struct due_page *p)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (p->list[i].sk.len == DUE_SK_CHARS)
			memcpy(places->after[p->list[i].shard], p->list[i].sk.data, DUE_SK_CHARS);
}

enum err_code dues_read(struct context *ctx, int64_t from_s, struct due_places *places, struct due_page *out,
                        struct err *err)
{
	struct due_range range = {.limit = DUE_PAGE, .from_s = from_s, .to_s = INT64_C(999999999999)};
	int64_t          whole_s = ctx->now_s;
	struct table_query_result r;

	out->count = 0;
	out->more = false;
	out->next_s = 0;
	if (places->from_s != from_s)
		*places = (struct due_places){.from_s = from_s};
	for (uint32_t shard = 0; shard < DUE_SHARDS; shard++) {
		int64_t last_s = 0;

		range.shard = shard;
		range.after = places->after[shard];
		if (due_query(ctx, &range, &r, err) != ERR_NONE)
			return err->code;
		for (uint32_t i = 0; i < r.count; i++) {
			struct due d = due_of(&r.items[i], shard);

			last_s = d.due_s;
			if (d.due_s <= ctx->now_s)
				out->list[out->count++] = d;
			else if (out->next_s == 0 || d.due_s < out->next_s)
				out->next_s = d.due_s;
			if (d.due_s > ctx->now_s)
				break;
		}
		if (r.more && last_s <= ctx->now_s) {
			out->more = true;
			whole_s = last_s < whole_s ? last_s : whole_s;
		}
	}
	qsort(out->list, out->count, sizeof(out->list[0]), compare);
	page_cut(out, whole_s);
	return ERR_NONE;
}
