/* Lists of locks: see lock_list.h. */
#include "service/lock_list.h"

#include "service/key_names.h"
#include "service/lock.h"
#include "service/row.h"

struct walk {
	struct context           *ctx;
	const struct lock_search *q;
	uint32_t                  examined;
	struct lock_page         *out;
	struct err               *err;
};

/* Families whose locks are heeded. */
static bool is_lock(struct bytes type)
{
	return bytes_is(type, KEY_LOCK) || bytes_is(type, KEY_SOURCE_LOCK);
}

static bool is_or_any(struct bytes wanted, struct bytes text)
{
	return wanted.len == 0 || bytes_equal(wanted, text);
}

static bool is_wanted(const struct walk *w, const struct item *row)
{
	struct key_parts p = key_split(row_text(row, "SK"));

	return is_lock(p.type) && is_or_any(w->q->journey, p.journey) &&
	       is_or_any(w->q->name, p.classifier) && is_or_any(w->q->kind, row_text(row, "block_type")) &&
	       is_or_any(w->q->set_by, lock_set_by(row)) && lock_holds(row, w->ctx->now_us) &&
	       (w->q->sees == NULL || w->q->sees(w->q->sees_ctx, p.journey));
}

static void stop_at(struct walk *w, struct bytes pk, struct bytes sk)
{
	w->out->more = true;
	w->out->last_pk = pk;
	w->out->last_sk = sk;
}

static void take(struct walk *w, const struct item *row)
{
	struct lock_seen *seen;

	if (w->q->not_persons && lock_is_persons(row)) {
		w->out->kept++;
		return;
	}
	seen = &w->out->list[w->out->count++];
	*seen = (struct lock_seen){.row = *row,
	                           .pk = row_text(row, "PK"),
	                           .sk = row_text(row, "SK"),
	                           .kind = row_text(row, "block_type"),
	                           .cause = row_text(row, "cause"),
	                           .set_by = lock_set_by(row),
	                           .reason = row_text(row, "reason"),
	                           .until_s = row_i64(row, "ttl", 0),
	                           .set_s = row_i64(row, "last_updated", 0)};
	if (w->out->count == w->q->limit)
		stop_at(w, seen->pk, seen->sk);
}

/* One page of a partition, or of the table if key is NULL. Sets out->more unless it read all of it. (Only a
 * scan may filter by keys.) */
static enum err_code page_walk(struct walk *w, const struct expr_key_condition *key, const struct item *start)
{
	struct table_query q = {
	        .key = key, .start = start, .limit = LOCKS_EXAMINED_MAX - w->examined, .consistent = true};
	struct table_query_result r;

	if (key == NULL)
		q.filter = row_contains(w->ctx->arena, "SK", BYTES(KEY_LOCK "#"));
	if (ctx_query(w->ctx, &q, &r, w->err) != ERR_NONE)
		return w->err->code;
	w->examined += r.scanned;
	for (uint32_t i = 0; i < r.count && !w->out->more; i++)
		if (is_wanted(w, &r.items[i]))
			take(w, &r.items[i]);
	if (r.more && !w->out->more)
		stop_at(w, row_text(&r.last_key, "PK"), row_text(&r.last_key, "SK"));
	return ERR_NONE;
}

static enum err_code subject_walk(struct walk *w, struct bytes subject, const struct item *start)
{
	struct expr_key_condition key = row_prefix(subject, (struct bytes){NULL, 0});

	if (w->examined < LOCKS_EXAMINED_MAX)
		return page_walk(w, &key, start);
	stop_at(w, subject, (struct bytes){NULL, 0}); /* at its beginning */
	return ERR_NONE;
}

/* The subject that the cursor is in; subject_count if it is none of them. */
static uint32_t subject_at(const struct lock_search *q)
{
	uint32_t i = 0;

	while (i < q->subject_count && q->after_pk.len > 0 && !bytes_equal(q->subjects[i], q->after_pk))
		i++;
	return i;
}

static enum err_code subjects_walk(struct walk *w, const struct item *start)
{
	const struct lock_search *q = w->q;
	uint32_t                  first = subject_at(q);

	if (first == q->subject_count)
		return err_field(
		        w->err, ERR_INVALID, "cursor",
		        "cursor: belongs to another query; send the same subjects that it was returned for");
	for (uint32_t i = first; i < q->subject_count && !w->out->more; i++)
		if (subject_walk(w, q->subjects[i], i == first ? start : NULL) != ERR_NONE)
			return w->err->code;
	return ERR_NONE;
}

enum err_code locks_find(struct context *ctx, const struct lock_search *q, struct lock_page *out,
                         struct err *err)
{
	struct walk w = {.ctx = ctx, .q = q, .out = out, .err = err};
	struct item key, *start = NULL;

	*out = (struct lock_page){.list = arena_array(ctx->arena, q->limit, sizeof(struct lock_seen))};
	if (q->after_sk.len > 0) {
		key = row_key_two(ctx->arena, q->after_pk, q->after_sk);
		start = &key;
	}
	if (q->subject_count > 0)
		return subjects_walk(&w, start);
	if (q->after_pk.len > 0 && start == NULL)
		return err_field(
		        err, ERR_INVALID, "cursor",
		        "cursor: belongs to another query; send the same filters that it was returned for");
	return page_walk(&w, NULL, start);
}

/* What a lock that is cleared takes of a commit: its row, its level's, and the version of its partition. */
enum { CLEARED_ROWS = 3 };

/* Among others each partition that was searched takes a place in the commit too. */
static uint32_t unlock_max(const struct context *ctx, const struct lock_search *q)
{
	uint32_t most = ctx->table->alone ? UNLOCK_MAX : (CHANGES_MAX - q->subject_count) / CLEARED_ROWS;

	return q->limit < most ? q->limit : most;
}

enum err_code locks_unlock(struct context *ctx, const struct lock_search *q, struct lock_page *out,
                           struct err *err)
{
	struct lock_search bounded = *q;
	bool               held;

	bounded.limit = unlock_max(ctx, q);
	if (locks_find(ctx, &bounded, out, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < out->count; i++) {
		if (q->subject_count == 0) /* what a scan found may have changed already */
			ctx_found(ctx, &out->list[i].row);
		if (lock_clear(ctx, out->list[i].pk, out->list[i].sk, &held, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}
