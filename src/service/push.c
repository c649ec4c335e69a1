/* Push: queueing, and taking what is due. See push.h; push_settle.c has what comes after a call. */
#include "service/push.h"

#include "service/account.h"
#include "service/push_batch.h"
#include "service/push_feedback.h"
#include "service/row.h"

bool push_is_on(const struct services *s)
{
	return s->push_post.is_on != NULL && s->push_post.is_on(s->push_post.ctx);
}

void push_wake(const struct services *s)
{
	if (s->push_post.wake != NULL)
		s->push_post.wake(s->push_post.ctx, UINT32_MAX);
}

/* ---- queueing ---- */

/* The counts of the shards, read when they are first needed. */
struct counting {
	struct looked rows[PUSH_SHARDS];
	int64_t       messages[PUSH_SHARDS];
	bool          read[PUSH_SHARDS], changed[PUSH_SHARDS];
};

static enum err_code count_read(struct context *ctx, struct counting *c, uint32_t shard, struct err *err)
{
	if (c->read[shard])
		return ERR_NONE;
	looked_init(&c->rows[shard], BYTES(KEY_COUNT), arena_printf(ctx->arena, "%u", shard));
	if (ctx_look_in(ctx, TABLE_PUSH, &c->rows[shard], err) != ERR_NONE)
		return err->code;
	c->read[shard] = true;
	c->messages[shard] = c->rows[shard].found ? row_i64(&c->rows[shard].item, "messages", 0) : 0;
	return ERR_NONE;
}

static void counts_put(struct context *ctx, const struct counting *c)
{
	struct row row;

	for (uint32_t i = 0; i < PUSH_SHARDS; i++) {
		if (!c->changed[i])
			continue;
		row_init(&row, ctx->arena);
		row_set_text(&row, "PK", c->rows[i].pk);
		row_set_text(&row, "SK", c->rows[i].sk);
		row_set_i64(&row, "messages", c->messages[i]);
		ctx_put(ctx, TABLE_PUSH, row_item(&row));
	}
}

static int64_t shard_max(struct services *s)
{
	int64_t most = atomic_load_explicit(&s->push_queue_max, memory_order_relaxed);

	most = most > 0 ? most : PUSH_QUEUE_MAX;
	return most / PUSH_LANE_SHARDS > 0 ? most / PUSH_LANE_SHARDS : 1;
}

/* (3) A shard of *out's lane with room for so many more; it begins at a random one. */
static enum err_code shard_find(struct context *ctx, struct counting *c, uint32_t more, uint32_t *out,
                                struct err *err)
{
	uint32_t lane = *out / PUSH_LANE_SHARDS;
	uint8_t  first;

	ctx_random(ctx, &first, sizeof(first));
	for (uint32_t i = 0; i < PUSH_LANE_SHARDS; i++) {
		*out = lane * PUSH_LANE_SHARDS + (first + i) % PUSH_LANE_SHARDS;
		if (count_read(ctx, c, *out, err) != ERR_NONE)
			return err->code;
		if (c->messages[*out] + more <= shard_max(ctx->services))
			return ERR_NONE;
	}
	return err_set(err, ERR_OVERLOADED, "too many push messages wait to be sent; try again later");
}

enum err_code push_enqueue(struct context *ctx, struct notification *n, const struct push_recipient *list,
                           uint32_t count, struct err *err)
{
	enum push_lane  lane = n->job.len > 0 ? PUSH_LANE_BROADCAST : PUSH_LANE_USER;
	uint32_t        shard = lane * PUSH_LANE_SHARDS;
	struct counting c = {0};

	for (uint32_t at = 0; at < count; at += PUSH_BATCH_MAX) {
		uint32_t          part = count - at < PUSH_BATCH_MAX ? count - at : PUSH_BATCH_MAX;
		struct push_batch b = {.id = job_id_make(ctx),
		                       .notification = n->id,
		                       .since_us = ctx->now_us,
		                       .due_us = ctx->now_us,
		                       .list = (struct push_recipient *)(uintptr_t)&list[at],
		                       .count = part};

		if (shard_find(ctx, &c, part, &shard, err) != ERR_NONE)
			return err->code;
		batch_put(ctx,
		          &(struct batch_place){.kind = KEY_WAIT,
		                                .shard = shard,
		                                .key = batch_due_key(ctx->arena, b.due_us, b.id)},
		          &b);
		c.messages[shard] += part;
		c.changed[shard] = true;
		ctx->changes.push_shards |= UINT32_C(1) << shard;
	}
	counts_put(ctx, &c);
	n->messages += count;
	n->counts[PUSH_QUEUED] += count;
	return ERR_NONE;
}

enum err_code push_queued(struct context *ctx, int64_t *out, struct err *err)
{
	struct counting c = {0};

	*out = 0;
	for (uint32_t i = 0; i < PUSH_SHARDS; i++) {
		if (count_read(ctx, &c, i, err) != ERR_NONE)
			return err->code;
		*out += c.messages[i];
	}
	return ERR_NONE;
}

/* ---- what is due ---- */

static enum err_code user_is_active(struct context *ctx, struct bytes user, bool *out, struct err *err)
{
	struct verdict v = {0};

	if (account_judge_user(ctx, user, &v, err) != ERR_NONE)
		return err->code;
	*out = v.kind == VERDICT_ALLOW;
	return ERR_NONE;
}

/* A row that somebody else wrote may have a token that another device has registered: the one that was seen last has it. */
static enum err_code token_claim(struct context *ctx, struct push_recipient *p, const struct push_device *d,
                                 struct err *err)
{
	struct push_marker m = {PUSH_EXPO, d->tokens[PUSH_EXPO]};
	struct push_ref    ref;
	struct looked      marker, holder = {0};

	if (push_marker_look(ctx, &m, &marker, err) != ERR_NONE)
		return err->code;
	if (marker.found && !push_marker_names(&marker, p->user, p->device)) {
		ref = (struct push_ref){row_text(&marker.item, "userId"), row_text(&marker.item, "deviceId")};
		if (push_device_look(ctx, &ref, &holder, err) != ERR_NONE)
			return err->code;
	}
	if (!holder.found || !bytes_equal(row_text(&holder.item, push_kind_names[PUSH_EXPO]), m.token) ||
	    push_seen_of(&holder.item) < push_seen_of(&d->row))
		p->token = m.token;
	return ERR_NONE;
}

/* The token that the device has now; empty: it gets nothing. */
static enum err_code token_read(struct context *ctx, struct push_recipient *p, struct err *err)
{
	struct push_ref    ref = {p->user, p->device};
	struct push_device d;
	bool               active = false;
	enum err_code      rc;

	p->token = (struct bytes){NULL, 0};
	if (p->user.len == 0)
		return ERR_NONE;
	rc = push_device_get(ctx, &ref, &d, err);
	if (rc == ERR_NOT_FOUND)
		return ERR_NONE;
	if (rc != ERR_NONE || user_is_active(ctx, p->user, &active, err) != ERR_NONE)
		return err->code;
	return active && d.active && push_token_is(PUSH_EXPO, d.tokens[PUSH_EXPO])
	               ? token_claim(ctx, p, &d, err)
	               : ERR_NONE;
}

/* Rows that others wrote may repeat a token: it gets one message. */
static bool has_token(const struct push_batch *b, uint32_t before, struct bytes token)
{
	for (uint32_t i = 0; i < before; i++)
		if (bytes_equal(b->list[i].token, token))
			return true;
	return false;
}

static enum err_code tokens_read(struct context *ctx, struct push_batch *b, struct err *err)
{
	for (uint32_t i = 0; i < b->count; i++) {
		if (token_read(ctx, &b->list[i], err) != ERR_NONE)
			return err->code;
		if (b->list[i].token.len > 0 && has_token(b, i, b->list[i].token))
			b->list[i].token = (struct bytes){NULL, 0};
	}
	return ERR_NONE;
}

/* What is chosen, and what a call may still take. */
struct choosing {
	struct push_batches *out;
	struct push_batch   *first; /* that is to be sent; NULL: none yet */
	uint32_t             room;
};

/* (4) */
static bool goes_with(const struct choosing *c, const struct push_batch *b)
{
	if (c->first == NULL)
		return c->room > 0;
	return c->out->messages + b->count <= c->room && !b->apart && !c->first->apart &&
	       bytes_equal(c->first->project, b->project);
}

/* One that cannot be sent any more is taken all the same, and leaves the queue. */
static enum err_code choose(struct context *ctx, struct choosing *c, struct push_batch *b, struct err *err)
{
	struct push_batches *out = c->out;

	if (notification_look(ctx, b->notification, &b->n, err) != ERR_NONE)
		return err->code;
	b->over = notification_is_over(ctx, &b->n);
	if (!b->over && !goes_with(c, b))
		return ERR_NONE;
	if (!b->over && b->count > c->room)
		b->count = c->room;
	if (!b->over && tokens_read(ctx, b, err) != ERR_NONE)
		return err->code;
	out->list[out->count] = *b;
	if (!b->over) {
		c->first = c->first == NULL ? &out->list[out->count] : c->first;
		out->messages += b->count;
	}
	out->count++;
	return ERR_NONE;
}

enum err_code push_due(struct context *ctx, uint32_t shard, uint32_t room, struct push_batches *out,
                       struct err *err)
{
	struct choosing   c = {.out = out, .room = room};
	struct batch_rows rows;

	*out = (struct push_batches){
	        .list = arena_array(ctx->arena, PUSH_CALL_BATCHES_MAX, sizeof(*out->list))};
	if (batch_rows(ctx, &(struct batch_place){.kind = KEY_WAIT, .shard = shard}, PUSH_CALL_BATCHES_MAX,
	               &rows, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < rows.count; i++) {
		struct push_batch b = batch_of(ctx->arena, &rows.items[i]);

		if (out->oldest_us == 0 || b.since_us < out->oldest_us)
			out->oldest_us = b.since_us;
		if (b.due_us > ctx->now_us) {
			out->next_us = b.due_us;
			break;
		}
		if (choose(ctx, &c, &b, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

/* ---- taking ---- */

/* Of a batch, those that get their message; `now` is the row as it is now, `due` has the tokens. */
static void live_keep(const struct push_batch *now, const struct push_batch *due, struct push_batch *out)
{
	for (uint32_t i = 0; i < now->count && i < due->count; i++) {
		if (due->list[i].token.len == 0 || !bytes_equal(now->list[i].user, due->list[i].user) ||
		    !bytes_equal(now->list[i].device, due->list[i].device))
			continue;
		out->list[out->count++] = due->list[i];
	}
}

/* Tokens are not written: whoever comes after a kill has no use for them. */
static void sending_put(struct push_commit *c, const struct push_sender *who, const struct push_batch *b)
{
	struct push_batch row = *b;

	row.list = arena_array(c->ctx->arena, b->count, sizeof(*row.list));
	for (uint32_t i = 0; i < b->count; i++)
		row.list[i] = (struct push_recipient){.user = b->list[i].user, .device = b->list[i].device};
	row.due_us = c->ctx->now_us; /* (2) from when the lease counts */
	batch_put(c->ctx, &(struct batch_place){KEY_SENDING, who->shard, b->id, who->owner}, &row);
}

/* Of a batch that was too large for the call, the rest goes on waiting. */
static void rest_put(struct push_commit *c, struct push_batch *now, uint32_t taken)
{
	struct push_batch rest = *now;

	if (now->count <= taken)
		return;
	rest.list += taken;
	rest.count -= taken;
	now->count = taken;
	batch_wait(c, &rest, now->due_us);
}

/* Those of `now` that have a token in `due`. */
static void take_live(struct push_commit *c, const struct push_take *q, struct push_batch *now,
                      const struct push_batch *due, struct push_batch *live)
{
	rest_put(c, now, due->count);
	*live = *now;
	live->list = arena_array(c->ctx->arena, now->count + 1, sizeof(*live->list));
	live->count = 0;
	live_keep(now, due, live);
	if (live->count > 0)
		sending_put(c, q->who, live);
}

static enum err_code take_one(struct push_commit *c, const struct push_take *q, const struct push_batch *due,
                              struct push_batches *out, struct err *err)
{
	struct batch_place   at = {.kind = KEY_WAIT, .shard = c->shard, .key = due->key};
	struct push_batch    now, live;
	struct notification *n;
	bool                 found, over;

	if (batch_look(c->ctx, &at, &now, &found, err) != ERR_NONE)
		return err->code;
	if (!found)
		return ERR_NONE;
	if (push_commit_note(c, now.notification, &n, err) != ERR_NONE)
		return err->code;
	over = n == NULL || notification_is_over(c->ctx, n);
	if (due->over && !over) /* the clock went back: its tokens were not read */
		return ERR_NONE;
	batch_delete(c->ctx, &at);
	if (over) {
		push_commit_over(c, n, now.count);
		return ERR_NONE;
	}
	take_live(c, q, &now, due, &live);
	push_commit_move(c, n, PUSH_QUEUED, PUSH_SKIPPED, now.count - live.count);
	if (live.count == 0)
		return ERR_NONE;
	push_commit_move(c, n, PUSH_QUEUED, PUSH_SENDING, live.count);
	live.n = *n;
	out->messages += live.count;
	out->list[out->count++] = live;
	return ERR_NONE;
}

enum err_code push_take(struct context *ctx, const struct push_take *q, struct push_batches *out,
                        struct push_tally *tally, struct err *err)
{
	struct push_commit c;

	*out = (struct push_batches){
	        .list = arena_array(ctx->arena, PUSH_CALL_BATCHES_MAX, sizeof(*out->list))};
	push_commit_begin(&c, ctx, q->who->shard, tally);
	for (uint32_t i = 0; i < q->due->count && push_commit_room(&c, 3); i++)
		if (take_one(&c, q, &q->due->list[i], out, err) != ERR_NONE)
			return err->code;
	return push_commit_end(&c, err);
}

/* The commit may have waited for its turn while somebody else registered the token, or the user was suspended. */
enum err_code push_recheck(struct context *ctx, struct push_batches *taken, struct err *err)
{
	for (uint32_t i = 0; i < taken->count; i++)
		if (tokens_read(ctx, &taken->list[i], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

/* ---- dead tokens ---- */

static enum err_code feedback(struct context *ctx, const struct push_batch *b, uint32_t i,
                              enum push_feedback_outcome *out, struct err *err)
{
	const struct push_recipient *p = &b->list[i];
	struct push_feedback         q = {.kind = PUSH_EXPO,
	                                  .token = p->token,
	                                  .to = {p->user, p->device},
	                                  .sent_s = b->sent_s,
	                                  .not_registered = true};

	*out = FEEDBACK_UNKNOWN;
	return q.token.len == 0 ? ERR_NONE : push_feedback_take(ctx, &q, out, err);
}

static enum err_code dead_take_one(struct push_commit *c, const struct item *row, struct err *err)
{
	struct batch_place         at = {.kind = KEY_DEAD, .shard = c->shard, .key = row_text(row, "SK")};
	enum push_feedback_outcome outcome = FEEDBACK_UNKNOWN;
	struct push_batch          b;
	struct notification       *n;
	uint32_t                   i;
	bool                       found;

	if (batch_look(c->ctx, &at, &b, &found, err) != ERR_NONE)
		return err->code;
	if (!found)
		return ERR_NONE;
	if (push_commit_note(c, b.notification, &n, err) != ERR_NONE)
		return err->code;
	for (i = 0; i < b.count && push_commit_room(c, PUSH_REMOVE_ROOM); i++) {
		if (feedback(c->ctx, &b, i, &outcome, err) != ERR_NONE)
			return err->code;
		if (outcome == FEEDBACK_DEFERRED && i > 0)
			break; /* the first of a commit has all the room that there is */
		c->tally->disabled += outcome == FEEDBACK_DISABLED;
	}
	if (n != NULL)
		n->disabled += (int64_t)c->tally->disabled;
	b.list += i;
	b.count -= i;
	if (b.count > 0)
		batch_put(c->ctx, &at, &b);
	else
		batch_delete(c->ctx, &at);
	return ERR_NONE;
}

enum err_code push_dead_take(struct context *ctx, uint32_t shard, bool *more, struct push_tally *tally,
                             struct err *err)
{
	struct batch_rows  rows;
	struct push_commit c;

	push_commit_begin(&c, ctx, shard, tally);
	if (batch_rows(ctx, &(struct batch_place){.kind = KEY_DEAD, .shard = shard}, 1, &rows, err) !=
	    ERR_NONE)
		return err->code;
	*more = rows.count > 0;
	if (*more && dead_take_one(&c, &rows.items[0], err) != ERR_NONE)
		return err->code;
	return push_commit_end(&c, err);
}
