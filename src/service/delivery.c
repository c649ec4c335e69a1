/* Delivery: see delivery.h. */
#include "service/delivery.h"

#include <inttypes.h>

#include "service/row.h"
#include "service/target_try.h"

#define RETRY_PREFIX "RETRY#"

enum { SHARD_DIGITS = 2 }; /* EVENT_SHARDS_MAX is 100 */

_Static_assert((int)DELIVERY_KEY_CHARS == (int)IDENTIFIER_HASH_CHARS, "a hash is a key");

/* ---- keys ---- */

struct bytes delivery_retry_pk(struct arena *a, const struct target *t)
{
	return arena_printf(a, TARGET_PARTITION "#%.*s#%.*s", BYTES_ARG(t->name), BYTES_ARG(t->id));
}

struct bytes delivery_dead_pk(struct arena *a, const struct target *t)
{
	return arena_printf(a, "DEAD#%.*s#%.*s", BYTES_ARG(t->name), BYTES_ARG(t->id));
}

struct bytes delivery_retry_sk(struct arena *a, uint32_t shard, int64_t position)
{
	return arena_printf(a, RETRY_PREFIX "%0*u#%0*" PRIi64, SHARD_DIGITS, shard, EVENT_POSITION_DIGITS,
	                    position);
}

struct bytes delivery_dead_sk(struct arena *a, uint32_t shard, int64_t position)
{
	return arena_printf(a, "%0*u#%0*" PRIi64, SHARD_DIGITS, shard, EVENT_POSITION_DIGITS, position);
}

struct bytes delivery_key(struct context *ctx, struct bytes subject)
{
	return identifier_hash_text(&ctx->services->identifiers, ctx->arena, "delivery", subject);
}

/* In the order of enum sender_end. */
const char *const delivery_end_names[DELIVERY_ENDS] = {"later", "sent", "refused", "gone"};

/* ---- owning ---- */

static bool is_mine(const struct context *ctx, const struct target *t, struct bytes owner)
{
	return bytes_equal(t->owner, owner) || ctx->table->alone || t->owned_until_s <= ctx->now_s;
}

/* Is there a reason to write it down again? */
static bool is_due(const struct context *ctx, const struct target *t, struct bytes owner)
{
	return !bytes_equal(t->owner, owner) ||
	       (!ctx->table->alone && t->owned_until_s - ctx->now_s < DELIVERY_OWN_S / 2);
}

enum err_code delivery_own(struct context *ctx, const struct delivery_owner *q, struct target *out,
                           bool *mine, struct err *err)
{
	struct row  row;
	struct item item;

	if (target_get(ctx, q->name, out, err) != ERR_NONE)
		return err->code;
	*mine = is_mine(ctx, out, q->owner);
	if (!*mine || !is_due(ctx, out, q->owner))
		return ERR_NONE;
	row_from(&row, ctx->arena, &out->row);
	row_set_text(&row, "owner", q->owner);
	row_set_i64(&row, "ownedUntil", ctx->now_s + DELIVERY_OWN_S);
	item = row_item(&row);
	ctx_put(ctx, TABLE_EVENTS, item);
	*out = target_of(ctx->arena, &item);
	return ERR_NONE;
}

/* ---- what waits ---- */

static struct delivery_waiting waiting_of(const struct item *row)
{
	return (struct delivery_waiting){.shard = (uint32_t)row_i64(row, "shard", 0),
	                                 .position = row_i64(row, "position", 0),
	                                 .key = row_text(row, "subjectKey"),
	                                 .tries = row_i64(row, "tries", 0),
	                                 .next_us = row_i64(row, "nextAt", 0),
	                                 .failed_us = row_i64(row, "failedAt", 0),
	                                 .copied = item_get(row, BYTES("event")) != NULL};
}

enum err_code delivery_load(struct context *ctx, const struct target *t, struct bytes after,
                            struct delivery_page *out, struct err *err)
{
	struct bytes              pk = delivery_retry_pk(ctx->arena, t);
	struct expr_key_condition key = row_prefix(pk, BYTES(RETRY_PREFIX));
	struct item               start = row_key_two(ctx->arena, pk, after);
	struct table_query        q = {.key = &key,
	                               .limit = DELIVERY_LOAD_MAX,
	                               .start = after.len > 0 ? &start : NULL,
	                               .consistent = true};
	struct table_query_result r;

	*out = (struct delivery_page){0};
	if (ctx_query_in(ctx, TABLE_EVENTS, &q, &r, err) != ERR_NONE)
		return err->code;
	out->list = arena_array(ctx->arena, r.count, sizeof(*out->list));
	for (uint32_t i = 0; i < r.count; i++)
		out->list[out->count++] = waiting_of(&r.items[i]);
	out->more = r.more;
	if (r.more)
		out->last = row_text(&r.last_key, "SK");
	return ERR_NONE;
}

static struct event_seen seen_of(const struct delivery_at *at, const struct item *row)
{
	return (struct event_seen){.shard = at->shard,
	                           .position = at->position,
	                           .seq = row_i64(row, "seq", 0),
	                           .id = row_text(row, "id"),
	                           .type = row_text(row, "type"),
	                           .subject = row_text(row, "subject"),
	                           .time = row_text(row, "time"),
	                           .row = *row};
}

static void log_row(struct context *ctx, const struct delivery_at *at, struct looked *out)
{
	looked_init(out, arena_printf(ctx->arena, "LOG#%u", at->shard),
	            arena_printf(ctx->arena, "%0*" PRIi64, EVENT_POSITION_DIGITS, at->position));
}

/* Its copy, or what the log has; count 0: neither. */
static enum err_code event_find(struct context *ctx, const struct delivery_at *at, const struct item *retry,
                                struct item *out, struct err *err)
{
	const struct value *copy = retry == NULL ? NULL : item_get(retry, BYTES("event"));
	struct looked       row;

	*out = (struct item){0};
	if (copy != NULL && copy->type == VALUE_M) {
		*out = copy->map;
		return ERR_NONE;
	}
	log_row(ctx, at, &row);
	if (ctx_look_in(ctx, TABLE_EVENTS, &row, err) != ERR_NONE)
		return err->code;
	if (row.found)
		*out = row.item;
	return ERR_NONE;
}

enum err_code delivery_event(struct context *ctx, const struct delivery_at *at, struct event_seen *out,
                             bool *found, struct err *err)
{
	struct looked retry;
	struct item   event;

	looked_init(&retry, delivery_retry_pk(ctx->arena, at->target),
	            delivery_retry_sk(ctx->arena, at->shard, at->position));
	if (ctx_look_in(ctx, TABLE_EVENTS, &retry, err) != ERR_NONE ||
	    event_find(ctx, at, retry.found ? &retry.item : NULL, &event, err) != ERR_NONE)
		return err->code;
	*found = event.count > 0;
	if (*found)
		*out = seen_of(at, &event);
	return ERR_NONE;
}

/* ---- after sending ---- */

uint32_t delivery_note_reads(const struct delivery_note *n)
{
	return n->kind == DELIVERY_DEAD ? 3 : n->kind == DELIVERY_WAITS && n->known;
}

/* A commit over the rows of a target. */
struct settling {
	struct context               *ctx;
	const struct delivery_settle *q;
	struct target                *target;
	int64_t                       waiting, dead; /* more */
	bool                          lost;          /* a row is not there that should be */
};

static void note_into(struct row *row, const struct delivery_note *n)
{
	row_set_i64(row, "tries", n->tries);
	row_set_i64(row, "nextAt", n->next_us);
	row_set_i64(row, "failedAt", n->failed_us);
	if (n->error.len == 0)
		return;
	row_set_text(row, "error", n->error);
	row_set_i64(row, "status", n->status);
}

static enum err_code retry_look(struct settling *s, const struct delivery_note *n, struct looked *out,
                                struct err *err)
{
	looked_init(out, delivery_retry_pk(s->ctx->arena, s->target),
	            delivery_retry_sk(s->ctx->arena, n->shard, n->position));
	if (!n->known)
		return ERR_NONE;
	if (ctx_look_in(s->ctx, TABLE_EVENTS, out, err) != ERR_NONE)
		return err->code;
	s->lost = s->lost || !out->found;
	return ERR_NONE;
}

static enum err_code note_waits(struct settling *s, const struct delivery_note *n, struct err *err)
{
	struct looked before;
	struct row    row;

	if (retry_look(s, n, &before, err) != ERR_NONE || s->lost)
		return s->lost ? ERR_NONE : err->code;
	if (n->known) {
		row_from(&row, s->ctx->arena, &before.item);
	} else {
		row_init(&row, s->ctx->arena);
		row_set_text(&row, "PK", before.pk);
		row_set_text(&row, "SK", before.sk);
		row_set_i64(&row, "shard", n->shard);
		row_set_i64(&row, "position", n->position);
		row_set_text(&row, "subjectKey", n->key);
		row_set_text(&row, "id", n->id);
		row_set_text(&row, "type", n->type);
		row_set_i64(&row, "since", s->ctx->now_s);
		s->waiting++;
	}
	note_into(&row, n);
	ctx_put(s->ctx, TABLE_EVENTS, row_item(&row));
	return ERR_NONE;
}

static void retry_remove(struct settling *s, const struct delivery_note *n)
{
	ctx_delete(s->ctx, TABLE_EVENTS,
	           row_key_two(s->ctx->arena, delivery_retry_pk(s->ctx->arena, s->target),
	                       delivery_retry_sk(s->ctx->arena, n->shard, n->position)));
	s->waiting--;
}

/* One that was trimmed leaves what its retry row knows. */
static struct item event_rest(struct settling *s, const struct delivery_note *n, const struct item *retry)
{
	struct row row;

	row_init(&row, s->ctx->arena);
	row_set_text(&row, "id", n->known ? row_text(retry, "id") : n->id);
	row_set_text(&row, "type", n->known ? row_text(retry, "type") : n->type);
	row_set(&row, "trimmed", value_bool(true));
	return row_item(&row);
}

/* One that was a dead letter before, by a commit that had no room to move `after` past it, is the same one. */
static enum err_code note_dead(struct settling *s, const struct delivery_note *n, struct err *err)
{
	struct delivery_at at = {s->target, n->shard, n->position};
	struct looked      retry, dead;
	struct item        event;
	struct row         row;

	looked_init(&dead, delivery_dead_pk(s->ctx->arena, s->target),
	            delivery_dead_sk(s->ctx->arena, n->shard, n->position));
	if (ctx_look_in(s->ctx, TABLE_EVENTS, &dead, err) != ERR_NONE ||
	    retry_look(s, n, &retry, err) != ERR_NONE ||
	    event_find(s->ctx, &at, n->known && retry.found ? &retry.item : NULL, &event, err) != ERR_NONE)
		return err->code;
	if (s->lost)
		return ERR_NONE;
	if (event.count == 0)
		event = event_rest(s, n, &retry.item);
	row_init(&row, s->ctx->arena);
	row_set_text(&row, "PK", dead.pk);
	row_set_text(&row, "SK", dead.sk);
	row_set_i64(&row, "shard", n->shard);
	row_set_i64(&row, "position", n->position);
	row_set(&row, "event", (struct value){.type = VALUE_M, .map = event});
	row_set_i64(&row, "since", n->known ? row_i64(&retry.item, "since", s->ctx->now_s) : s->ctx->now_s);
	row_set_i64(&row, "diedAt", s->ctx->now_s);
	note_into(&row, n);
	row_remove(&row, "nextAt");
	ctx_put(s->ctx, TABLE_EVENTS, row_item(&row));
	s->dead += !dead.found;
	if (n->known)
		retry_remove(s, n);
	return ERR_NONE;
}

static enum err_code notes_add(struct settling *s, struct err *err)
{
	for (uint32_t i = 0; i < s->q->count && !s->lost; i++) {
		const struct delivery_note *n = &s->q->notes[i];

		if (n->kind == DELIVERY_SENT)
			retry_remove(s, n);
		else if ((n->kind == DELIVERY_WAITS ? note_waits(s, n, err) : note_dead(s, n, err)) !=
		         ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

static struct value error_value(struct arena *a, const struct target_error *e)
{
	struct row row;

	row_init(&row, a);
	row_set_i64(&row, "at", e->at_s);
	if (e->status != 0)
		row_set_i64(&row, "status", e->status);
	row_set_text(&row, "error", e->error);
	if (e->event.len > 0)
		row_set_text(&row, "event", e->event);
	return (struct value){.type = VALUE_M, .map = row_item(&row)};
}

/* The new ones, then as many of the old ones as there is room for. */
static struct value errors_value(const struct settling *s)
{
	struct arena *a = s->ctx->arena;
	struct value  v = {.type = VALUE_L,
	                   .list = {arena_array(a, TARGET_ERRORS_MAX, sizeof(struct value)), 0}};

	for (uint32_t i = 0; i < s->q->error_count && v.list.count < TARGET_ERRORS_MAX; i++)
		v.list.items[v.list.count++] = error_value(a, &s->q->errors[i]);
	for (uint32_t i = 0; i < s->target->error_count && v.list.count < TARGET_ERRORS_MAX; i++)
		v.list.items[v.list.count++] = error_value(a, &s->target->errors[i]);
	return v;
}

static void fares_into(const struct settling *s, struct row *row)
{
	const struct delivery_settle *q = s->q;

	row_set_i64(row, "sent", s->target->sent + q->sent);
	row_set_i64(row, "waiting", s->target->waiting + s->waiting + q->recount);
	row_set_i64(row, "dead", s->target->dead + s->dead);
	if (q->skipped > 0)
		row_set_i64(row, "skipped", s->target->skipped + q->skipped);
	if (q->success_s > 0)
		row_set_i64(row, "lastSuccess", q->success_s);
	row_remove(row, "failingSince");
	if (q->failing_s > 0 && q->disable.len == 0)
		row_set_i64(row, "failingSince", q->failing_s);
	if (q->error_count > 0)
		row_set(row, "errors", errors_value(s));
	if (!s->ctx->table->alone)
		row_set_i64(row, "ownedUntil", s->ctx->now_s + DELIVERY_OWN_S);
	if (q->moves && q->seeks == s->target->seeks) { /* target.h (6) */
		row_set(row, "after", cursor_value(s->ctx->arena, &q->after));
		row_set(row, "positions", cursor_value(s->ctx->arena, &q->kept));
	}
}

/* Whoever looks after the target is told by an event, in the same commit. */
static enum err_code disable(const struct settling *s, struct row *row, struct err *err)
{
	struct row data;

	row_set(row, "enabled", value_bool(false));
	row_set_text(row, "disabledReason", s->q->disable);
	row_set_i64(row, "version", s->target->version + 1);
	row_init(&data, s->ctx->arena);
	row_set_text(&data, "target", s->target->name);
	row_set_text(&data, "type", row_text(&s->target->row, "type"));
	row_set_text(&data, "reason", s->q->disable);
	ctx_publish(s->ctx, &(struct event){.type = EVENT_TARGET_DISABLED,
	                                    .subject = arena_printf(s->ctx->arena, "target:%.*s",
	                                                            BYTES_ARG(s->target->name)),
	                                    .data = row_item(&data)});
	return targets_changed(s->ctx, 0, err);
}

enum err_code delivery_settle(struct context *ctx, const struct delivery_settle *q, struct target *out,
                              bool *lost, struct err *err)
{
	struct settling s = {.ctx = ctx, .q = q, .target = out};
	enum err_code   rc = target_get(ctx, q->who.name, out, err);
	struct item     item;
	struct row      row;

	*lost = rc == ERR_NOT_FOUND ||
	        (rc == ERR_NONE && (!bytes_equal(out->id, q->id) || !bytes_equal(out->owner, q->who.owner)));
	if (*lost || rc != ERR_NONE)
		return *lost ? ERR_NONE : rc;
	if (notes_add(&s, err) != ERR_NONE)
		return err->code;
	*lost = s.lost;
	if (s.lost) {
		ctx_drop(ctx);
		return ERR_NONE;
	}
	if (q->tries != NULL)
		target_tries_put(ctx, out, q->tries);
	row_from(&row, ctx->arena, &out->row);
	fares_into(&s, &row);
	if (q->disable.len > 0 && disable(&s, &row, err) != ERR_NONE)
		return err->code;
	item = row_item(&row);
	ctx_put(ctx, TABLE_EVENTS, item);
	*out = target_of(ctx->arena, &item);
	return ERR_NONE;
}

/* ---- what a deleted target leaves ---- */

/* Removes rows of a partition, as many as there is room for; *more: there are others. */
static enum err_code rows_remove(struct context *ctx, struct job *job, struct bytes pk, bool *more,
                                 struct err *err)
{
	struct expr_key_condition key = row_prefix(pk, BYTES(""));
	struct table_query        q = {.key = &key, .limit = job_room(ctx), .consistent = true};
	struct table_query_result r;

	*more = true;
	if (q.limit == 0)
		return ERR_NONE;
	if (ctx_query_in(ctx, TABLE_EVENTS, &q, &r, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < r.count; i++)
		ctx_delete(ctx, TABLE_EVENTS, row_key_two(ctx->arena, pk, row_text(&r.items[i], "SK")));
	job_count(ctx, job, "rows", r.count);
	job->handled += r.count;
	*more = r.more;
	return ERR_NONE;
}

static enum err_code clean_step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	struct target t = {.name = row_text(&job->args, "target"), .id = row_text(&job->args, "id")};
	bool          more;

	(void)fetched;
	if (rows_remove(ctx, job, delivery_retry_pk(ctx->arena, &t), &more, err) != ERR_NONE)
		return err->code;
	if (!more && rows_remove(ctx, job, delivery_dead_pk(ctx->arena, &t), &more, err) != ERR_NONE)
		return err->code;
	job->done = !more;
	return ERR_NONE;
}

const struct job_kind delivery_clean_job = {.name = "target-clean", .step = clean_step};

enum err_code delivery_clean(struct context *ctx, const struct target *t, struct err *err)
{
	struct job_new     job = {.kind = &delivery_clean_job, .unique = t->id};
	struct job_started started;
	struct row         args;

	row_init(&args, ctx->arena);
	row_set_text(&args, "target", t->name);
	row_set_text(&args, "id", t->id);
	job.args = row_item(&args);
	return job_start(ctx, &job, &started, err);
}
