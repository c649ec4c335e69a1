/* Push: what becomes of messages after a call to Expo, also if nobody knows its end, and of receipts. See push.h. */
#include "service/push.h"

#include "service/push_batch.h"
#include "service/row.h"

#define SECOND_US INT64_C(1000000)

const char *const push_end_names[PUSH_END_COUNT] = {"answered", "later", "refused", "lost"};

/* Recipients of a batch that go the same way. */
struct part {
	struct push_batch b;
};

static struct part part_of(struct context *ctx, const struct push_batch *b)
{
	struct part p = {*b};

	p.b.list = arena_array(ctx->arena, b->count + 1, sizeof(*p.b.list));
	p.b.count = 0;
	return p;
}

static void part_add(struct part *p, const struct push_recipient *one)
{
	p->b.list[p->b.count++] = *one;
}

static bool is_cancelled(const struct notification *n)
{
	return n != NULL && n->cancelled_at.len > 0;
}

/* Back into the queue, unless it was cancelled meanwhile. */
static void wait_again(struct push_commit *c, struct notification *n, struct push_batch *b, int64_t due_us)
{
	bool cancelled = is_cancelled(n);

	if (b->count == 0)
		return;
	push_commit_move(c, n, PUSH_SENDING, cancelled ? PUSH_CANCELLED : PUSH_QUEUED, b->count);
	if (!cancelled)
		batch_wait(c, b, due_us);
}

static void receipt_put(struct push_commit *c, struct push_batch *b)
{
	if (b->count == 0)
		return;
	b->due_us = c->ctx->now_us + PUSH_RECEIPT_S * SECOND_US;
	batch_put(c->ctx,
	          &(struct batch_place){.kind = KEY_RECEIPT,
	                                .shard = c->shard,
	                                .key = batch_due_key(c->ctx->arena, b->due_us, b->id)},
	          b);
}

static void dead_put(struct push_commit *c, struct push_batch *b)
{
	if (b->count > 0)
		batch_put(c->ctx,
		          &(struct batch_place){
		                  .kind = KEY_DEAD, .shard = c->shard, .key = job_id_make(c->ctx)},
		          b);
}

/* ---- later, refused ---- */

static int64_t back_off_us(int64_t tries, int64_t asked_s)
{
	int64_t wait_s = (int64_t)PUSH_BACK_OFF_S << (tries < 16 ? tries : 16);

	wait_s = wait_s < PUSH_BACK_OFF_S_MAX ? wait_s : PUSH_BACK_OFF_S_MAX;
	return (wait_s > asked_s ? wait_s : asked_s) * SECOND_US;
}

static void settle_later(struct push_commit *c, struct notification *n, struct push_batch *b, int64_t wait_s)
{
	int64_t due_us = c->ctx->now_us + back_off_us(b->tries++, wait_s);

	b->apart = b->apart || b->tries >= PUSH_TRIES_TOGETHER;
	wait_again(c, n, b, due_us);
}

/* (1) */
static void settle_lost(struct push_commit *c, struct notification *n, struct push_batch *b)
{
	if (n == NULL || !n->retries || is_cancelled(n) || b->unanswered >= PUSH_RESENDS_MAX) {
		push_commit_move(c, n, PUSH_SENDING, PUSH_UNKNOWN, b->count);
		return;
	}
	b->unanswered++;
	n->resent += b->count;
	c->tally->resent += b->count;
	settle_later(c, n, b, 0);
}

static bool project_has(const struct push_project *p, struct bytes token)
{
	for (uint32_t i = 0; i < p->token_count; i++)
		if (bytes_equal(p->tokens[i], token))
			return true;
	return false;
}

/* (4) By project; those of none stay together, apart from others. */
static void settle_by_project(struct push_commit *c, const struct push_settle *q, struct notification *n,
                              const struct push_batch *b)
{
	bool *taken = arena_zalloc(c->ctx->arena, b->count + 1);

	for (uint32_t p = 0; p <= q->project_count && p <= PUSH_PROJECTS_MAX; p++) {
		bool        rest = p == q->project_count || p == PUSH_PROJECTS_MAX;
		struct part group = part_of(c->ctx, b);

		for (uint32_t i = 0; i < b->count; i++) {
			if (taken[i] || (!rest && !project_has(&q->projects[p], b->list[i].token)))
				continue;
			taken[i] = true;
			part_add(&group, &b->list[i]);
		}
		if (rest)
			group.b.apart = true;
		else
			group.b.project = q->projects[p].name;
		wait_again(c, n, &group.b, c->ctx->now_us);
	}
}

static bool tells_project(const struct push_settle *q, const struct push_batch *b)
{
	for (uint32_t p = 0; b->project.len == 0 && p < q->project_count && p < PUSH_PROJECTS_MAX; p++)
		for (uint32_t i = 0; i < b->count; i++)
			if (project_has(&q->projects[p], b->list[i].token))
				return true;
	return false;
}

/* Something in the call was refused: who it was is found by halves. */
static void settle_refused(struct push_commit *c, const struct push_settle *q, struct notification *n,
                           struct push_batch *b)
{
	struct part halves[2] = {part_of(c->ctx, b), part_of(c->ctx, b)};
	bool        whole = q->sent->count > 1;

	if (b->count == 1 && !whole) {
		push_commit_fail(c, n, PUSH_SENDING, push_error_of(q->code));
		return;
	}
	if (tells_project(q, b)) {
		settle_by_project(c, q, n, b);
		return;
	}
	for (uint32_t i = 0; i < b->count; i++)
		part_add(&halves[!whole && i >= b->count / 2], &b->list[i]);
	for (int i = 0; i < 2; i++) {
		halves[i].b.apart = true;
		wait_again(c, n, &halves[i].b, c->ctx->now_us);
	}
}

/* ---- tickets ---- */

struct sorted {
	struct part again, accepted, dead;
	struct part resend; /* of receipts */
};

static void ticket_sort(struct push_commit *c, struct notification *n, const struct push_ticket *t,
                        struct push_recipient *p, struct sorted *out)
{
	unsigned error = t->ok ? PUSH_ERROR_COUNT : push_error_of(t->error);

	p->ticket = t->ok ? t->id : (struct bytes){NULL, 0};
	if (t->ok) {
		push_commit_move(c, n, PUSH_SENDING, PUSH_ACCEPTED, 1);
		if (t->id.len > 0)
			part_add(&out->accepted, p);
		else
			push_commit_move(c, n, PUSH_ACCEPTED, PUSH_UNCONFIRMED, 1);
	} else if (error == PUSH_RATE_EXCEEDED) {
		part_add(&out->again, p);
	} else {
		push_commit_fail(c, n, PUSH_SENDING, error);
		if (error == PUSH_NOT_REGISTERED && p->token.len > 0)
			part_add(&out->dead, p);
	}
}

static void settle_tickets(struct push_commit *c, struct notification *n, struct push_batch *b,
                           const struct push_ticket *tickets)
{
	struct sorted s = {
	        .again = part_of(c->ctx, b), .accepted = part_of(c->ctx, b), .dead = part_of(c->ctx, b)};

	for (uint32_t i = 0; i < b->count; i++)
		ticket_sort(c, n, &tickets[i], &b->list[i], &s);
	s.accepted.b.sent_s = s.dead.b.sent_s =
	        b->due_us / SECOND_US; /* when it was taken: the call came after that */
	s.again.b.tries = b->tries + 1;
	wait_again(c, n, &s.again.b, c->ctx->now_us + back_off_us(b->tries, 0));
	receipt_put(c, &s.accepted.b);
	dead_put(c, &s.dead.b);
}

/* ---- settling ---- */

/* The row as it is now, with the tokens that were sent to. One who was erased meanwhile stays erased. */
static void tokens_take(struct push_batch *now, const struct push_batch *sent)
{
	for (uint32_t i = 0; i < now->count && i < sent->count; i++)
		if (now->list[i].user.len > 0)
			now->list[i].token = sent->list[i].token;
}

/* Those that were not sent to (push_recheck) go; the tickets of the others, in their order. */
static const struct push_ticket *unsent_skip(struct push_commit *c, struct notification *n,
                                             struct push_batch *b, const struct push_batch *sent,
                                             const struct push_ticket *tickets)
{
	struct push_ticket *left = arena_array(c->ctx->arena, b->count + 1, sizeof(*left));
	uint32_t            kept = 0;

	for (uint32_t i = 0; i < b->count; i++) {
		if (sent->list[i].token.len == 0)
			continue;
		if (tickets != NULL)
			left[kept] = tickets[i];
		b->list[kept++] = b->list[i];
	}
	push_commit_move(c, n, PUSH_SENDING, PUSH_SKIPPED, b->count - kept);
	b->count = kept;
	return left;
}

static enum err_code settle_one(struct push_commit *c, const struct push_settle *q,
                                const struct push_batch *sent, const struct push_ticket *tickets,
                                struct err *err)
{
	struct batch_place   at = {KEY_SENDING, c->shard, sent->id, q->who->owner};
	struct notification *n;
	struct push_batch    b;
	bool                 found;

	if (batch_look(c->ctx, &at, &b, &found, err) != ERR_NONE)
		return err->code;
	if (!found || b.count != sent->count)
		return ERR_NONE;
	if (push_commit_note(c, b.notification, &n, err) != ERR_NONE)
		return err->code;
	tokens_take(&b, sent);
	tickets = unsent_skip(c, n, &b, sent, tickets);
	batch_delete(c->ctx, &at);
	if (q->end == PUSH_TICKETS)
		settle_tickets(c, n, &b, tickets);
	else if (q->end == PUSH_LATER)
		settle_later(c, n, &b, q->wait_s);
	else if (q->end == PUSH_REFUSED)
		settle_refused(c, q, n, &b);
	else
		settle_lost(c, n, &b);
	return ERR_NONE;
}

enum err_code push_settle(struct context *ctx, const struct push_settle *q, uint32_t *next,
                          struct push_tally *tally, struct err *err)
{
	uint32_t           ticket = q->first_ticket;
	uint32_t           rows = q->end == PUSH_REFUSED ? PUSH_PROJECTS_MAX + 2 : 4;
	struct push_commit c;

	push_commit_begin(&c, ctx, q->who->shard, tally);
	for (*next = q->from; *next < q->sent->count && push_commit_room(&c, rows); ++*next) {
		const struct push_batch *b = &q->sent->list[*next];

		if (settle_one(&c, q, b, q->tickets == NULL ? NULL : &q->tickets[ticket], err) != ERR_NONE)
			return err->code;
		ticket += b->count;
	}
	return push_commit_end(&c, err);
}

/* ---- what is left of calls ---- */

/* (1), (2): ours, one of a process that is gone, or one that took longer than any call does. */
static bool is_lost(const struct context *ctx, const struct push_sender *who, const struct item *row)
{
	return ctx->table->alone || bytes_equal(row_text(row, "owner"), who->owner) ||
	       row_i64(row, "due", 0) + (int64_t)PUSH_LEASE_S * 1000000 <= ctx->now_us;
}

static enum err_code lose_one(struct push_commit *c, const struct item *row, struct err *err)
{
	struct batch_place   at = {.kind = KEY_SENDING, .shard = c->shard, .key = row_text(row, "SK")};
	struct push_batch    b;
	struct notification *n;
	bool                 found;

	if (batch_look(c->ctx, &at, &b, &found, err) != ERR_NONE)
		return err->code;
	if (!found)
		return ERR_NONE;
	if (push_commit_note(c, b.notification, &n, err) != ERR_NONE)
		return err->code;
	batch_delete(c->ctx, &at);
	settle_lost(c, n, &b);
	return ERR_NONE;
}

enum err_code push_sweep(struct context *ctx, const struct push_sender *who, struct push_tally *out,
                         struct err *err)
{
	struct batch_rows  rows;
	struct push_commit c;

	push_commit_begin(&c, ctx, who->shard, out);
	if (batch_rows(ctx, &(struct batch_place){.kind = KEY_SENDING, .shard = who->shard},
	               PUSH_CALL_BATCHES_MAX, &rows, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < rows.count && push_commit_room(&c, 3); i++)
		if (is_lost(ctx, who, &rows.items[i]) && lose_one(&c, &rows.items[i], err) != ERR_NONE)
			return err->code;
	return push_commit_end(&c, err);
}

/* ---- receipts ---- */

enum err_code push_receipts_due(struct context *ctx, uint32_t shard, struct push_batches *out,
                                struct err *err)
{
	enum { BATCHES_MAX = PUSH_RECEIPTS_MAX / PUSH_BATCH_MAX };
	struct batch_rows rows;

	*out = (struct push_batches){.list = arena_array(ctx->arena, BATCHES_MAX, sizeof(*out->list))};
	if (batch_rows(ctx, &(struct batch_place){.kind = KEY_RECEIPT, .shard = shard}, BATCHES_MAX, &rows,
	               err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < rows.count; i++) {
		struct push_batch b = batch_of(ctx->arena, &rows.items[i]);

		if (b.due_us > ctx->now_us) {
			out->next_us = b.due_us;
			break;
		}
		out->messages += b.count;
		out->list[out->count++] = b;
	}
	return ERR_NONE;
}

static void receipt_sort(struct push_commit *c, struct notification *n, const struct push_receipt *r,
                         const struct push_recipient *p, struct sorted *out)
{
	unsigned error = push_error_of(r->error);

	if (!r->found && out->again.b.sent_s + PUSH_RECEIPT_S_MAX > c->ctx->now_s) {
		part_add(&out->again, p);
	} else if (!r->found) {
		push_commit_move(c, n, PUSH_ACCEPTED, PUSH_UNCONFIRMED, 1);
	} else if (r->ok) {
		push_commit_move(c, n, PUSH_ACCEPTED, PUSH_DELIVERED, 1);
	} else if (error == PUSH_RATE_EXCEEDED && n != NULL && !notification_is_over(c->ctx, n) &&
	           n->message.len > 0) { /* it reached no phone */
		push_commit_move(c, n, PUSH_ACCEPTED, PUSH_QUEUED, 1);
		part_add(&out->resend, p);
	} else {
		push_commit_fail(c, n, PUSH_ACCEPTED, error);
		if (error == PUSH_NOT_REGISTERED && p->token.len > 0)
			part_add(&out->dead, p);
	}
}

/* Ever more slowly, as Expo asks. */
static void resend_put(struct push_commit *c, struct push_batch *b)
{
	for (uint32_t i = 0; i < b->count; i++)
		b->list[i].ticket = (struct bytes){NULL, 0};
	if (b->count == 0)
		return;
	b->tries++;
	batch_wait(c, b, c->ctx->now_us + back_off_us(b->tries, 0));
}

static enum err_code receipts_one(struct push_commit *c, const struct push_batch *asked,
                                  const struct push_receipt *list, struct err *err)
{
	struct batch_place   at = {.kind = KEY_RECEIPT, .shard = c->shard, .key = asked->key};
	struct notification *n;
	struct push_batch    b;
	struct sorted        s;
	bool                 found;

	if (batch_look(c->ctx, &at, &b, &found, err) != ERR_NONE)
		return err->code;
	if (!found || b.count != asked->count)
		return ERR_NONE;
	if (push_commit_note(c, b.notification, &n, err) != ERR_NONE)
		return err->code;
	s = (struct sorted){part_of(c->ctx, &b), part_of(c->ctx, &b), part_of(c->ctx, &b),
	                    part_of(c->ctx, &b)};
	for (uint32_t i = 0; i < b.count; i++)
		receipt_sort(c, n, &list[i], &b.list[i], &s);
	batch_delete(c->ctx, &at);
	receipt_put(c, &s.again.b);
	dead_put(c, &s.dead.b);
	resend_put(c, &s.resend.b);
	return ERR_NONE;
}

enum err_code push_receipts_settle(struct context *ctx, const struct push_receipts *q, uint32_t *next,
                                   struct push_tally *tally, struct err *err)
{
	uint32_t           first = q->first;
	struct push_commit c;

	push_commit_begin(&c, ctx, q->shard, tally);
	for (*next = q->from; *next < q->asked->count && push_commit_room(&c, 4); ++*next) {
		const struct push_batch *b = &q->asked->list[*next];

		if (receipts_one(&c, b, &q->list[first], err) != ERR_NONE)
			return err->code;
		first += b->count;
	}
	return push_commit_end(&c, err);
}
