/* Revocation: see revocation.h. */
#include "service/revocation.h"

#include "service/event.h"
#include "service/row.h"

const char *const revocation_kind_names[] = {"none", "token", "user", "client", "all", NULL};

static const char *const prefixes[] = {[REVOKED_TOKEN] = "JTI#",
                                       [REVOKED_USER] = "USER#",
                                       [REVOKED_CLIENT] = "CLIENT#",
                                       [REVOKED_ALL] = "ALL"};

enum { LOOKS_MAX = 4 }; /* (1) */

/* ---- rows ---- */

/* Two texts that no other two run together to. */
static struct bytes token_hash(struct context *ctx, struct bytes issuer, struct bytes jti)
{
	struct bytes both =
	        arena_printf(ctx->arena, "%zu\n%.*s\n%.*s", issuer.len, BYTES_ARG(issuer), BYTES_ARG(jti));

	return identifier_hash_text(&ctx->services->identifiers, ctx->arena, "token", both);
}

static struct bytes key_of(struct context *ctx, enum revocation_kind kind, struct bytes name)
{
	return arena_printf(ctx->arena, "%s%.*s", prefixes[kind], BYTES_ARG(name));
}

static enum revocation_kind kind_of(struct bytes pk)
{
	for (int kind = REVOKED_TOKEN; kind < REVOKED_ALL; kind++)
		if (bytes_starts_with(pk, bytes_of(prefixes[kind])))
			return (enum revocation_kind)kind;
	return bytes_is(pk, prefixes[REVOKED_ALL]) ? REVOKED_ALL : REVOKED_NOTHING;
}

static struct revoked revoked_of(const struct item *row)
{
	struct bytes   pk = row_text(row, "PK");
	struct revoked r = {.kind = kind_of(pk)};
	size_t         skip = r.kind == REVOKED_NOTHING ? 0 : strlen(prefixes[r.kind]);

	r.name = (struct bytes){pk.data + skip, pk.len - skip};
	r.issuer = row_text(row, "issuer");
	r.not_before_s = row_i64(row, "notBefore", 0);
	r.revoked_s = row_i64(row, "revokedAt", 0);
	r.ends_s = row_i64(row, "ttl", 0);
	r.reason = row_text(row, "reason");
	r.by = row_text(row, "revokedBy");
	return r;
}

/* ---- revoking ---- */

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

bool revocation_not_before_is(int64_t not_before_s, int64_t now_s)
{
	return not_before_s > 0 && not_before_s <= now_s + REVOCATION_LEEWAY_S;
}

/* (3) */
static int64_t ends(struct context *ctx, const struct revocation *q, int64_t not_before_s)
{
	int64_t age_s = atomic_load_explicit(&ctx->services->token_age_s, memory_order_relaxed);

	if (q->kind == REVOKED_TOKEN && q->expires_s > 0)
		return later(q->expires_s, ctx->now_s) + REVOCATION_LEEWAY_S;
	return later(not_before_s, ctx->now_s) + (age_s > 0 ? age_s : TOKEN_AGE_S) + REVOCATION_LEEWAY_S;
}

/* (2) A row that never expires stays so. */
static int64_t later_end(const struct item *old, int64_t ends_s)
{
	int64_t old_s = row_i64(old, "ttl", 0);

	return old_s == 0 ? 0 : later(old_s, ends_s);
}

static struct bytes subject_of(struct context *ctx, const struct revoked *r)
{
	if (r->kind == REVOKED_USER)
		return r->name;
	return r->kind == REVOKED_ALL ? BYTES("everyone")
	                              : arena_printf(ctx->arena, "%s:%.*s", revocation_kind_names[r->kind],
	                                             BYTES_ARG(r->name));
}

static void publish(struct context *ctx, const struct revoked *r)
{
	struct event e = {.type = EVENT_TOKEN_REVOKED, .subject = subject_of(ctx, r)};
	struct row   data;

	if (!ctx_publishes(ctx, e.type))
		return;
	row_init(&data, ctx->arena);
	row_set_text(&data, "kind", bytes_of(revocation_kind_names[r->kind]));
	if (r->not_before_s > 0)
		row_set_i64(&data, "notBefore", r->not_before_s);
	e.data = row_item(&data);
	ctx_publish(ctx, &e);
}

enum err_code revocation_add(struct context *ctx, const struct revocation *q, struct revoked *out,
                             struct err *err)
{
	bool          token = q->kind == REVOKED_TOKEN;
	int64_t       not_before_s = q->not_before_s > 0 ? q->not_before_s : ctx->now_s;
	int64_t       ends_s = ends(ctx, q, not_before_s);
	struct looked old;
	struct row    row;
	struct item   item;

	if (ctx_get(ctx, TABLE_REVOCATIONS,
	            key_of(ctx, q->kind, token ? token_hash(ctx, q->issuer, q->name) : q->name), &old,
	            err) != ERR_NONE)
		return err->code;
	if (old.found) {
		not_before_s = later(row_i64(&old.item, "notBefore", INT64_MAX), not_before_s);
		ends_s = later_end(&old.item, ends_s);
	}
	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", old.pk);
	if (!token)
		row_set_i64(&row, "notBefore", not_before_s);
	else
		row_set_text(&row, "issuer", q->issuer);
	row_set_i64(&row, "revokedAt", ctx->now_s);
	row_set_text(&row, "revokedBy", ctx->caller);
	if (q->reason.len > 0)
		row_set_text(&row, "reason", q->reason);
	if (ends_s > 0)
		row_set_i64(&row, "ttl", ends_s);
	item = row_item(&row);
	ctx_put(ctx, TABLE_REVOCATIONS, item);
	*out = revoked_of(&item);
	if (!q->told)
		publish(ctx, out);
	return ERR_NONE;
}

/* (5) Without an event: whoever is told that the address is gone is told this, too. */
enum err_code revocation_add_address(struct context *ctx, struct bytes hash, struct bytes reason,
                                     struct err *err)
{
	struct revocation q = {.kind = REVOKED_USER, .name = hash, .reason = reason, .told = true};
	struct revoked    ignored;

	return revocation_add(ctx, &q, &ignored, err);
}

/* ---- asking ---- */

/* (4), (6) */
static bool revokes(const struct looked *row, enum revocation_kind kind, const struct revocation_query *q)
{
	return row->found && (kind == REVOKED_TOKEN ||
	                      q->issued_s - q->ahead_s <= row_i64(&row->item, "notBefore", INT64_MAX));
}

enum err_code revocation_check(struct context *ctx, const struct revocation_query *q,
                               struct revocation_found *out, struct err *err)
{
	struct bytes  names[] = {[REVOKED_TOKEN] = q->issuer.len > 0 && q->jti.len > 0
	                                                   ? token_hash(ctx, q->issuer, q->jti)
	                                                   : (struct bytes){NULL, 0},
	                         [REVOKED_USER] = q->user,
	                         [REVOKED_CLIENT] = q->client,
	                         [REVOKED_ALL] = BYTES("")};
	struct looked rows[LOOKS_MAX + 1], address, *first = NULL;

	*out = (struct revocation_found){REVOKED_NOTHING, 0, {NULL, 0}};
	for (int kind = REVOKED_ALL; kind >= REVOKED_TOKEN; kind--) {
		looked_init(&rows[kind], key_of(ctx, (enum revocation_kind)kind, names[kind]),
		            (struct bytes){NULL, 0});
		if (kind != REVOKED_ALL && names[kind].len == 0)
			continue;
		rows[kind].next = first;
		first = &rows[kind];
	}
	looked_init(&address, key_of(ctx, REVOKED_USER, q->address), (struct bytes){NULL, 0});
	if (q->address.len > 0) { /* (5) */
		address.next = first;
		first = &address;
	}
	if (ctx_look_all_in(ctx, TABLE_REVOCATIONS, first, err) != ERR_NONE)
		return err->code;
	if (revokes(&address, REVOKED_USER, q))
		rows[REVOKED_USER] = address;
	for (int kind = REVOKED_TOKEN; kind <= REVOKED_ALL; kind++)
		if (revokes(&rows[kind], (enum revocation_kind)kind, q)) {
			*out = (struct revocation_found){(enum revocation_kind)kind,
			                                 row_i64(&rows[kind].item, "notBefore", 0),
			                                 row_text(&rows[kind].item, "reason")};
			return ERR_NONE;
		}
	return ERR_NONE;
}

enum err_code revocation_get(struct context *ctx, enum revocation_kind kind, struct bytes name,
                             struct revoked *out, struct err *err)
{
	struct looked row;

	if (ctx_get(ctx, TABLE_REVOCATIONS, key_of(ctx, kind, name), &row, err) != ERR_NONE)
		return err->code;
	*out = row.found ? revoked_of(&row.item) : (struct revoked){.kind = REVOKED_NOTHING};
	return ERR_NONE;
}

enum err_code revocations_find(struct context *ctx, const struct revocations_search *q,
                               struct revocations_page *out, struct err *err)
{
	struct item               start;
	struct table_query        scan = {.limit = REVOCATIONS_EXAMINED_MAX};
	struct table_query_result r;

	*out = (struct revocations_page){.list = arena_array(ctx->arena, q->limit, sizeof(*out->list))};
	if (q->after.data != NULL) {
		start = row_key_one(ctx->arena, q->after);
		scan.start = &start;
	}
	if (ctx_query_in(ctx, TABLE_REVOCATIONS, &scan, &r, err) != ERR_NONE)
		return err->code;
	out->more = r.more;
	if (r.more)
		out->last = row_text(&r.last_key, "PK");
	for (uint32_t i = 0; i < r.count; i++) {
		struct revoked one = revoked_of(&r.items[i]);

		if (one.kind == REVOKED_NOTHING || (q->kind != REVOKED_NOTHING && one.kind != q->kind) ||
		    row_expired(&r.items[i], "ttl", ctx->now_us))
			continue;
		if (out->count == q->limit) { /* one more than fits: the next page begins with it */
			out->more = true;
			out->last =
			        key_of(ctx, out->list[out->count - 1].kind, out->list[out->count - 1].name);
			break;
		}
		out->list[out->count++] = one;
	}
	return ERR_NONE;
}
