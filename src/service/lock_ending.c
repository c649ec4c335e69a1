/* Lock ending: see lock_ending.h. */
#include "service/lock_ending.h"

#include <stdio.h>

#include "service/lock.h"
#include "service/row.h"

void locks_ending_init(struct locks_ending *e, const struct document *now, const struct document *next,
                       int64_t now_s)
{
	e->now = (const struct rules *)now;
	e->next = (const struct rules *)next;
	e->whole = !heeds_may_end(e->now, e->next, now_s);
	e->count = e->examined = e->pk_bytes = e->sk_bytes = 0;
	e->more = e->lost = false;
	e->first[0] = '\0';
}

static void first_note(struct locks_ending *e, const struct item *row)
{
	struct key_parts key = key_split(row_text(row, "SK"));
	struct heed_lock lock;

	snprintf(e->first, sizeof(e->first), "%.*s/%.*s", BYTES_ARG(key.journey), BYTES_ARG(key.classifier));
	e->lost = lock_heed(row_text(row, "PK"), row, &lock) && heeds_lost(e->now, e->next, &lock);
}

static void count_row(const struct context *ctx, struct locks_ending *e, const struct item *row)
{
	struct bytes pk = row_text(row, "PK");

	if (!lock_holds(row, ctx->now_us) || !lock_enforced(e->now, pk, row) ||
	    lock_enforced(e->next, pk, row))
		return;
	if (e->count == LOCKS_ENDING_MAX) {
		e->more = e->whole = true;
		return;
	}
	if (e->count++ == 0)
		first_note(e, row);
}

/* The next step begins after it. A key that is longer than keys can be ends the walk. */
static void place_keep(struct locks_ending *e, const struct item *last)
{
	struct bytes pk = row_text(last, "PK"), sk = row_text(last, "SK");

	if (e->examined >= LOCKS_ENDING_EXAMINED_MAX || pk.len > sizeof(e->pk) || sk.len > sizeof(e->sk)) {
		e->more = e->whole = true;
		return;
	}
	memcpy(e->pk, pk.data, e->pk_bytes = (uint32_t)pk.len);
	memcpy(e->sk, sk.data, e->sk_bytes = (uint32_t)sk.len);
}

enum err_code locks_ending_step(struct context *ctx, struct locks_ending *e, struct err *err)
{
	struct table_query q = {
	        .filter = row_is_lock(ctx->arena), .limit = LOCKS_ENDING_PAGE, .consistent = true};
	struct table_query_result r;
	struct item               start;

	if (e->pk_bytes > 0) {
		start = row_key_two(ctx->arena, (struct bytes){e->pk, e->pk_bytes},
		                    (struct bytes){e->sk, e->sk_bytes});
		q.start = &start;
	}
	if (ctx_query(ctx, &q, &r, err) != ERR_NONE)
		return err->code;
	e->examined += r.scanned;
	for (uint32_t i = 0; i < r.count && !e->whole; i++)
		count_row(ctx, e, &r.items[i]);
	if (!r.more)
		e->whole = true;
	else if (!e->whole)
		place_keep(e, &r.last_key);
	return ERR_NONE;
}

bool locks_ending_any(const struct locks_ending *e)
{
	return e->count > 0 || e->more;
}

enum err_code locks_ending_refuse(const struct locks_ending *e, const char *remedy, struct err *err)
{
	char why[128] = "the new policies lack the journey, type or name";

	if (e->lost)
		snprintf(why, sizeof(why),
		         "a type obeys at most %d locks of earlier policies, and all types %d KB of them",
		         HEED_NAMES_MAX, HEEDS_TEXT_MAX / 1024);
	err_set(err, ERR_LOCKS_END, "%s%u %s would end, because %s%s%s; %s", e->more ? "at least " : "",
	        e->count, e->count == 1 && !e->more ? "lock that holds" : "locks that hold", why,
	        e->count > 0 ? ": " : "", e->first, remedy);
	err->count = e->count;
	err->more = e->more;
	return err->code;
}
