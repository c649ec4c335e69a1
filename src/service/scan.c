/* Scans: see scan.h. */
#include "service/scan.h"

#include "service/cursor.h"
#include "service/identifier.h"
#include "service/row.h"

static bool has_range(enum service_table table)
{
	return service_table_shape(table)->range[0] != '\0';
}

/* (1) */
bool scan_key_tells_nobody(struct bytes key)
{
	while (key.len > 0) {
		const char  *hash = memchr(key.data, '#', key.len);
		struct bytes part = {key.data, hash == NULL ? key.len : (size_t)(hash - key.data)};

		if (part.len > 0 && identifier_looks_like(part) != NULL)
			return false;
		key = hash == NULL ? (struct bytes){NULL, 0}
		                   : (struct bytes){hash + 1, key.len - part.len - 1};
	}
	return true;
}

/* False: as many were found as are wanted. */
static bool page_read(struct context *ctx, const struct scan *q, const struct table_query_result *r,
                      struct scan_found *f)
{
	const struct service_table_shape *shape = service_table_shape(q->table);

	for (uint32_t i = 0; i < r->count; i++) {
		struct bytes pk = row_text(&r->items[i], shape->hash);
		struct bytes sk =
		        has_range(q->table) ? row_text(&r->items[i], shape->range) : (struct bytes){NULL, 0};

		if (q->wanted(ctx, q->arg, &r->items[i])) {
			if (f->count == q->found_max)
				return false;
			f->before[f->count] = f->read;
			f->pk[f->count] = pk;
			f->sk[f->count++] = sk;
		}
		f->read++;
		if (scan_key_tells_nobody(pk) && scan_key_tells_nobody(sk))
			f->next = cursor_pack(ctx->arena, pk, sk);
	}
	return true;
}

static struct item key_of(struct arena *a, enum service_table table, struct bytes pk, struct bytes sk)
{
	return has_range(table) ? row_key_two(a, pk, sk) : row_key_one(a, pk);
}

/* Pages until one has a key to stop at. */
enum err_code scan_read(struct context *ctx, const struct scan *q, struct scan_found *out, struct err *err)
{
	struct table_query        query = {.limit = q->page, .consistent = true};
	struct table_query_result r;
	struct item               start;
	struct bytes              pk, sk;

	*out = (struct scan_found){.next = q->from};
	if (q->from.len > 0 && cursor_unpack(ctx->arena, q->from, &pk, &sk)) {
		start = key_of(ctx->arena, q->table, pk, sk);
		query.start = &start;
	}
	do {
		if (ctx_query_in(ctx, q->table, &query, &r, err) != ERR_NONE)
			return err->code;
		if (!page_read(ctx, q, &r, out))
			return ERR_NONE;
		out->whole = !r.more;
		start = r.last_key;
		query.start = &start;
	} while (!out->whole && bytes_equal(out->next, q->from));
	return ERR_NONE;
}

void scan_key(const struct scan_found *f, enum service_table table, uint32_t at, struct looked *out)
{
	looked_init(out, f->pk[at], has_range(table) ? f->sk[at] : (struct bytes){NULL, 0});
}
