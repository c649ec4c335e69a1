/* Finding users: users_find of user.h. The table has no index by anything that is asked for (docs/decisions/068 says why): it is read as it lies, a bounded part of
 * it per page. */
#include "service/row.h"
#include "service/scan.h"
#include "service/user_terms.h"

static bool is_profile(const struct item *row)
{
	return bytes_is(row_text(row, "SK"), "PROFILE") &&
	       bytes_starts_with(row_text(row, "PK"), BYTES("USER#"));
}

static bool is_address(const struct item *row)
{
	return bytes_starts_with(row_text(row, "SK"), BYTES("EMAIL#")) &&
	       bytes_starts_with(row_text(row, "PK"), BYTES("USER#"));
}

/* A page, while rows are read into it. */
struct finding {
	struct context            *ctx;
	const struct users_search *q;
	struct users_page         *out;
	struct bytes with_address; /* the key of the user whose address fits: its profile comes next */
};

static bool is_wanted(const struct finding *f, const struct user *u)
{
	const struct user_terms *terms = f->q->terms;

	return (terms == NULL ||
	        user_terms_fit(terms, u, bytes_equal(f->with_address, row_text(&u->row, "PK")))) &&
	       !user_filter_hides(&f->q->hidden, u->id);
}

static void end_at(struct users_page *out, const struct item *row)
{
	out->last_pk = row_text(row, "PK");
	out->last_sk = row_text(row, "SK");
}

/* False: the page is full without it. */
static bool user_found(struct finding *f, const struct item *row)
{
	struct user u = user_of_row(row);

	if (!is_wanted(f, &u))
		return true;
	if (!f->q->count_only && f->out->count == f->q->limit)
		return false;
	if (!f->q->count_only)
		f->out->list[f->out->count] = u;
	f->out->count++;
	end_at(f->out, row); /* it is not found again, whatever its key tells */
	return true;
}

/* May the page end behind it? A search never ends between an address that was looked at and its user; but behind any user, for its cursors are encrypted: others may
 * write any number of users whose ids are addresses. */
static bool is_end(const struct finding *f, const struct item *row)
{
	if (f->q->terms != NULL && (is_address(row) || is_profile(row)))
		return is_profile(row);
	return scan_key_tells_nobody(row_text(row, "PK")) && scan_key_tells_nobody(row_text(row, "SK"));
}

/* False: the page is full, and ends behind the last row before the first user that does not fit into it. */
static bool users_take(struct finding *f, const struct table_query_result *r)
{
	for (uint32_t i = 0; i < r->count; i++) {
		const struct item *row = &r->items[i];

		if (is_profile(row) && !user_found(f, row))
			return false;
		if (f->q->terms != NULL && is_address(row) &&
		    user_terms_have_address(f->ctx, f->q->terms, row))
			f->with_address = row_text(row, "PK");
		if (is_end(f, row))
			end_at(f->out, row);
	}
	return true;
}

/* So many rows at first; more if few of them were wanted. */
static uint32_t rows_likely(const struct users_search *q)
{
	uint32_t wanted = q->count_only ? USERS_EXAMINED_MAX : USERS_ROWS_EACH * (q->limit + 1);

	return wanted < USERS_EXAMINED_MAX ? wanted : USERS_EXAMINED_MAX;
}

/* The table is read as it lies: profiles, each behind its addresses, between markers; no more of it than the page is likely to need, for jobs do this in their
 * turn. What is behind the last key is read again for the next page: markers. */
enum err_code users_find(struct context *ctx, const struct users_search *q, struct users_page *out,
                         struct err *err)
{
	struct finding            f = {.ctx = ctx, .q = q, .out = out};
	struct item               start;
	struct table_query        scan = {.limit = rows_likely(q)};
	struct table_query_result r;
	uint32_t                  examined = 0;

	*out = (struct users_page){.list = arena_array(ctx->arena, q->limit + 1, sizeof(struct user))};
	if (q->after_pk.data != NULL) {
		start = row_key_two(ctx->arena, q->after_pk, q->after_sk);
		scan.start = &start;
	}
	while (examined < USERS_UNSTOPPED_MAX) {
		bool full;

		if (ctx_query_in(ctx, TABLE_USERS, &scan, &r, err) != ERR_NONE)
			return err->code;
		full = !users_take(&f, &r);
		out->more = full || r.more;
		examined += scan.limit;
		if (full || !r.more || (examined >= USERS_EXAMINED_MAX && out->last_pk.len > 0))
			return ERR_NONE;
		start = r.last_key;
		scan.start = &start;
		if (q->terms != NULL && 2 * scan.limit <= USERS_EXAMINED_MAX / 2)
			scan.limit *= 2;
	}
	return err_set(err, ERR_OVERLOADED, "too many rows without a user among them");
}
