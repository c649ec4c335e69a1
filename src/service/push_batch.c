/* Batches: see push_batch.h. */
#include "service/push_batch.h"

#include "service/erase.h"
#include "service/row.h"

/* ---- rows ---- */

struct bytes batch_pk(struct arena *a, const char *kind, uint32_t shard)
{
	return arena_printf(a, "%s#%u", kind, shard);
}

struct bytes batch_due_key(struct arena *a, int64_t due_us, struct bytes id)
{
	return arena_printf(a, "%016lld#%.*s", (long long)due_us, BYTES_ARG(id));
}

static struct push_recipient recipient_of(const struct value *v)
{
	if (v->type != VALUE_M)
		return (struct push_recipient){0};
	return (struct push_recipient){.user = row_text(&v->map, "u"),
	                               .device = row_text(&v->map, "d"),
	                               .token = row_text(&v->map, "t"),
	                               .ticket = row_text(&v->map, "i")};
}

static struct value recipient_value(struct context *ctx, const struct push_recipient *p)
{
	struct row map;

	row_init(&map, ctx->arena);
	if (p->device.len > 0)
		row_set_text(&map, "d", p->device);
	if (p->ticket.len > 0)
		row_set_text(&map, "i", p->ticket);
	if (p->token.len > 0)
		row_set_text(&map, "t", p->token);
	if (p->user.len > 0)
		row_set_text(&map, "u", p->user);
	return (struct value){.type = VALUE_M, .map = row_item(&map)};
}

static struct value recipients_value(struct context *ctx, const struct push_batch *b)
{
	struct value_list list = {arena_array(ctx->arena, b->count + 1, sizeof(struct value)), 0};

	for (uint32_t i = 0; i < b->count; i++)
		list.items[list.count++] = recipient_value(ctx, &b->list[i]);
	return (struct value){.type = VALUE_L, .list = list};
}

struct push_batch batch_of(struct arena *a, const struct item *row)
{
	const struct value *list = item_get(row, BYTES("recipients")), *apart = item_get(row, BYTES("apart"));
	struct push_batch   b = {.key = row_text(row, "SK"),
	                         .id = row_text(row, "batchId"),
	                         .notification = row_text(row, "notificationId"),
	                         .project = row_text(row, "project"),
	                         .apart = apart != NULL,
	                         .tries = row_i64(row, "tries", 0),
	                         .unanswered = row_i64(row, "unanswered", 0),
	                         .since_us = row_i64(row, "since", 0),
	                         .due_us = row_i64(row, "due", 0),
	                         .sent_s = row_i64(row, "sentAt", 0)};
	uint32_t            count = list != NULL && list->type == VALUE_L ? list->list.count : 0;

	b.list = arena_array(a, count + 1, sizeof(*b.list));
	for (uint32_t i = 0; i < count && i < PUSH_BATCH_MAX; i++)
		b.list[b.count++] = recipient_of(&list->list.items[i]);
	return b;
}

void batch_put(struct context *ctx, const struct batch_place *at, const struct push_batch *b)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", batch_pk(ctx->arena, at->kind, at->shard));
	row_set_text(&row, "SK", at->key);
	row_set_text(&row, "batchId", b->id);
	row_set_text(&row, "notificationId", b->notification);
	if (b->project.len > 0)
		row_set_text(&row, "project", b->project);
	if (b->apart)
		row_set(&row, "apart", value_bool(true));
	if (at->owner.len > 0)
		row_set_text(&row, "owner", at->owner);
	row_set_i64(&row, "tries", b->tries);
	if (b->unanswered > 0)
		row_set_i64(&row, "unanswered", b->unanswered);
	row_set_i64(&row, "since", b->since_us);
	row_set_i64(&row, "due", b->due_us);
	if (b->sent_s > 0)
		row_set_i64(&row, "sentAt", b->sent_s);
	row_set(&row, "recipients", recipients_value(ctx, b));
	ctx_put(ctx, TABLE_PUSH, row_item(&row));
}

void batch_delete(struct context *ctx, const struct batch_place *at)
{
	ctx_delete(ctx, TABLE_PUSH,
	           row_key_two(ctx->arena, batch_pk(ctx->arena, at->kind, at->shard), at->key));
}

enum err_code batch_look(struct context *ctx, const struct batch_place *at, struct push_batch *out,
                         bool *found, struct err *err)
{
	struct looked row;

	looked_init(&row, batch_pk(ctx->arena, at->kind, at->shard), at->key);
	if (ctx_look_in(ctx, TABLE_PUSH, &row, err) != ERR_NONE)
		return err->code;
	*found = row.found && (at->owner.len == 0 || bytes_equal(row_text(&row.item, "owner"), at->owner));
	if (*found)
		*out = batch_of(ctx->arena, &row.item);
	return ERR_NONE;
}

enum err_code batch_rows(struct context *ctx, const struct batch_place *at, uint32_t limit,
                         struct batch_rows *out, struct err *err)
{
	struct expr_key_condition key =
	        row_prefix(batch_pk(ctx->arena, at->kind, at->shard), (struct bytes){NULL, 0});
	struct table_query        q = {.key = &key, .limit = limit, .consistent = true};
	struct table_query_result r;

	if (ctx_query_in(ctx, TABLE_PUSH, &q, &r, err) != ERR_NONE)
		return err->code;
	*out = (struct batch_rows){r.items, r.count};
	return ERR_NONE;
}

/* ---- a commit ---- */

void push_commit_begin(struct push_commit *c, struct context *ctx, uint32_t shard, struct push_tally *tally)
{
	*c = (struct push_commit){.ctx = ctx,
	                          .shard = shard,
	                          .notes = arena_array(ctx->arena, PUSH_CALL_BATCHES_MAX, sizeof(*c->notes)),
	                          .tally = tally};
	*tally = (struct push_tally){0};
}

enum err_code push_commit_note(struct push_commit *c, struct bytes id, struct notification **out,
                               struct err *err)
{
	struct notification n;

	*out = NULL;
	for (uint32_t i = 0; i < c->note_count; i++)
		if (bytes_equal(c->notes[i].id, id))
			*out = &c->notes[i];
	if (*out != NULL)
		return ERR_NONE;
	if (notification_look(c->ctx, id, &n, err) != ERR_NONE)
		return err->code;
	if (n.id.len == 0)
		return ERR_NONE;
	c->notes[c->note_count] = n;
	*out = &c->notes[c->note_count++];
	return ERR_NONE;
}

static bool is_open(enum push_state state)
{
	return state == PUSH_QUEUED || state == PUSH_SENDING;
}

void push_commit_move(struct push_commit *c, struct notification *n, enum push_state from, enum push_state to,
                      int64_t count)
{
	if (n != NULL)
		notification_move(n, from, to, count);
	if (is_open(from) != is_open(to))
		c->left += is_open(from) ? count : -count;
	c->tally->states[to] += (uint64_t)count;
}

void push_commit_over(struct push_commit *c, struct notification *n, int64_t count)
{
	if (n != NULL && n->cancelled_at.len > 0) {
		c->left += count;
		c->tally->states[PUSH_CANCELLED] += (uint64_t)count;
	} else {
		push_commit_move(c, n, PUSH_QUEUED, PUSH_EXPIRED, count);
	}
}

void batch_wait(struct push_commit *c, struct push_batch *b, int64_t due_us)
{
	for (uint32_t i = 0; i < b->count; i++)
		b->list[i].token = (struct bytes){NULL, 0};
	b->id = job_id_make(c->ctx);
	b->due_us = due_us;
	b->sent_s = 0;
	batch_put(c->ctx,
	          &(struct batch_place){.kind = KEY_WAIT,
	                                .shard = c->shard,
	                                .key = batch_due_key(c->ctx->arena, due_us, b->id)},
	          b);
}

void push_commit_fail(struct push_commit *c, struct notification *n, enum push_state from, unsigned error)
{
	push_commit_move(c, n, from, PUSH_FAILED, 1);
	c->tally->errors[error]++;
	if (n != NULL)
		notification_error(c->ctx, n, error, 1);
}

/* With one for each notification, and the count. */
bool push_commit_room(const struct push_commit *c, uint32_t rows)
{
	return c->note_count < PUSH_CALL_BATCHES_MAX &&
	       changes_room(&c->ctx->changes) >= rows + c->note_count + 2;
}

static enum err_code count_less(struct push_commit *c, struct err *err)
{
	struct looked count;
	struct row    row;
	int64_t       left;

	if (c->left == 0)
		return ERR_NONE;
	looked_init(&count, BYTES(KEY_COUNT), arena_printf(c->ctx->arena, "%u", c->shard));
	if (ctx_look_in(c->ctx, TABLE_PUSH, &count, err) != ERR_NONE)
		return err->code;
	left = (count.found ? row_i64(&count.item, "messages", 0) : 0) - c->left;
	row_init(&row, c->ctx->arena);
	row_set_text(&row, "PK", count.pk);
	row_set_text(&row, "SK", count.sk);
	row_set_i64(&row, "messages", left > 0 ? left : 0);
	ctx_put(c->ctx, TABLE_PUSH, row_item(&row));
	return ERR_NONE;
}

enum err_code push_commit_end(struct push_commit *c, struct err *err)
{
	for (uint32_t i = 0; i < c->note_count; i++)
		notification_put(c->ctx, &c->notes[i]);
	return count_less(c, err);
}

/* ---- erasing: what is left of a recipient is its place, and its ticket ---- */

static bool owns_recipient(const struct erasing *e, const struct push_recipient *p)
{
	return p->user.len > 0 && erase_is_handle(e, p->user);
}

bool push_owns(struct context *ctx, const struct erasing *e, const struct item *row)
{
	struct push_batch b = batch_of(ctx->arena, row);

	for (uint32_t i = 0; i < b.count; i++)
		if (owns_recipient(e, &b.list[i]))
			return true;
	return erase_is_handle(e, row_text(row, "userId"));
}

struct item push_blank(struct context *ctx, const struct erasing *e, const struct item *row)
{
	struct push_batch b = batch_of(ctx->arena, row);
	struct row        blank;

	row_from(&blank, ctx->arena, row);
	if (erase_is_handle(e, row_text(row, "userId"))) {
		row_remove(&blank, "userId");
		row_remove(&blank, "message");
	}
	for (uint32_t i = 0; i < b.count; i++)
		if (owns_recipient(e, &b.list[i]))
			b.list[i] = (struct push_recipient){.ticket = b.list[i].ticket};
	if (b.count > 0)
		row_set(&blank, "recipients", recipients_value(ctx, &b));
	return row_item(&blank);
}
