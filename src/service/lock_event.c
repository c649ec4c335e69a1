/* Lock events: see lock_event.h. */
#include "service/lock_event.h"

#include "service/event.h"
#include "service/lock.h"
#include "service/lock_group.h"
#include "service/row.h"

static bool is_heeded(struct bytes sk)
{
	struct bytes type = key_split(sk).type;

	return bytes_is(type, KEY_LOCK) || bytes_is(type, KEY_SOURCE_LOCK);
}

/* ---- events ---- */

static const char *scope_name(struct bytes pk, struct bytes sk)
{
	static const char *const names[] = {[REACH_SUBJECT] = "subject",
	                                    [REACH_QUALIFIER] = "method",
	                                    [REACH_PAIR] = "subject_and_source",
	                                    [REACH_SOURCE] = "source"};
	enum lock_reach          reach = REACH_SUBJECT;

	lock_reach(pk, sk, &reach);
	return names[reach];
}

static void text_add(struct row *row, const char *name, struct bytes text)
{
	if (text.len > 0)
		row_set_text(row, name, text);
}

/* Which lock, and until when. The qualifier of a lock by source is the source's hash. */
static void which_add(struct context *ctx, const struct event *e, struct bytes sk, struct row *data)
{
	struct key_parts p = key_split(sk);

	row_set_text(data, "journey", p.journey);
	row_set_text(data, "name", p.classifier);
	row_set_text(data, "scope", bytes_of(scope_name(e->subject, sk)));
	if (!bytes_is(p.type, KEY_SOURCE_LOCK))
		text_add(data, "method", p.qualifier);
	else if (ctx_publishes_personal(ctx, e->type))
		text_add(data, "source", p.qualifier);
}

static void until_add(struct context *ctx, int64_t until_s, struct row *data)
{
	if (until_s > 0)
		row_set_text(data, "until", event_seconds_text(ctx->arena, until_s));
}

/* Who set it is told by name only where personal data may be: it is whatever the caller said. */
static void cause_add(struct context *ctx, const struct item *lock, struct row *data)
{
	row_set_text(data, "setBy", lock_is_persons(lock) ? BYTES("person") : BYTES("rule"));
	text_add(data, "cause", row_text(lock, "cause"));
	if (!lock_is_persons(lock))
		row_set_i64(data, "policyVersion", row_i64(lock, "policy_version", 0));
	if (!lock_is_persons(lock))
		text_add(data, "reason", row_text(lock, "reason"));
	if (lock_is_persons(lock) && ctx_publishes_personal(ctx, EVENT_LOCK_SET)) {
		text_add(data, "person", row_text(lock, "set_by"));
		text_add(data, "reason", row_text(lock, "reason"));
	}
}

/* The other ids of a lock that is of several, as its row, or its due row, names them. */
static void others_add(struct context *ctx, const struct item *row, struct bytes subject, struct row *data)
{
	struct value_list group = lock_group_of(row);
	struct value_list others = {arena_array(ctx->arena, group.count + 1, sizeof(struct value)), 0};

	for (uint32_t i = 0; i < group.count; i++)
		if (!bytes_equal(value_text(&group.items[i]), subject))
			others.items[others.count++] = group.items[i];
	if (others.count > 0)
		row_set(data, "otherSubjects", (struct value){.type = VALUE_L, .list = others});
}

static void lock_publish(struct context *ctx, enum event_type type, const struct item *lock, const char *why)
{
	struct event e = {.type = type, .subject = row_text(lock, "PK")};
	struct row   data;

	if (!ctx_publishes(ctx, type))
		return;
	row_init(&data, ctx->arena);
	which_add(ctx, &e, row_text(lock, "SK"), &data);
	others_add(ctx, lock, e.subject, &data);
	text_add(&data, "kind", row_text(lock, "block_type"));
	until_add(ctx, row_i64(lock, "ttl", 0), &data);
	if (type == EVENT_LOCK_SET)
		cause_add(ctx, lock, &data);
	else
		row_set_text(&data, "why", bytes_of(why));
	e.data = row_item(&data);
	ctx_publish(ctx, &e);
}

static void expired_publish(struct context *ctx, const struct item *due)
{
	struct event e = {.type = EVENT_LOCK_EXPIRED, .subject = row_text(due, "subject")};
	struct row   data;

	if (!ctx_publishes(ctx, e.type))
		return;
	row_init(&data, ctx->arena);
	which_add(ctx, &e, row_text(due, "lock"), &data);
	others_add(ctx, due, e.subject, &data);
	text_add(&data, "kind", row_text(due, "kind"));
	until_add(ctx, row_i64(due, "until", 0), &data);
	e.data = row_item(&data);
	ctx_publish(ctx, &e);
}

/* ---- due rows ---- */

static struct due_thing thing_of(const struct item *lock)
{
	return (struct due_thing){row_text(lock, "PK"), row_text(lock, "SK")};
}

/* Does its lock.set wait? (5) Until that second. */
static bool waits(const struct item *lock, int64_t now_s)
{
	return row_i64(lock, LOCK_ANNOUNCE, 0) > now_s;
}

/* When something is to be told of it next: that it was set, or that it expires. 0: never. */
static int64_t due_at(const struct item *lock)
{
	int64_t announced_s = row_i64(lock, LOCK_ANNOUNCE, 0);

	return announced_s > 0 ? announced_s : row_i64(lock, "ttl", 0);
}

static void group_add(const struct item *lock, struct row *row)
{
	if (lock_group_of(lock).count > 0)
		row_set(row, "group", (struct value){.type = VALUE_L, .list = lock_group_of(lock)});
}

/* With all that lock.set says: by then the lock may have ended. */
static void announcement_add(const struct item *lock, struct row *due)
{
	int64_t announced_s = row_i64(lock, LOCK_ANNOUNCE, 0);

	if (announced_s == 0)
		return;
	row_set_i64(due, LOCK_ANNOUNCE, announced_s);
	row_set_i64(due, "policy_version", row_i64(lock, "policy_version", 0));
	text_add(due, "cause", row_text(lock, "cause"));
}

static void lock_due_put(struct context *ctx, const struct item *lock, int64_t due_s)
{
	struct due_thing thing = thing_of(lock);
	struct item      key = due_key(ctx->arena, &thing, due_s);
	struct row       row;

	row_from(&row, ctx->arena, &key);
	row_set_text(&row, "subject", thing.subject);
	row_set_text(&row, "lock", thing.what);
	text_add(&row, "kind", row_text(lock, "block_type"));
	row_set_i64(&row, "until", row_i64(lock, "ttl", 0));
	group_add(lock, &row);
	announcement_add(lock, &row);
	due_put(ctx, &row, due_s);
}

static void lock_due_remove(struct context *ctx, const struct item *lock, int64_t due_s)
{
	struct due_thing thing = thing_of(lock);

	due_remove(ctx, &thing, due_s);
}

/* A lock that was set before its type was switched off still has its due row, whatever is on now. (1) */
static bool may_have_due(const struct context *ctx)
{
	return !ctx_lacks(ctx, TABLE_EVENTS);
}

static bool needs_due(struct context *ctx, const struct item *lock)
{
	return ctx_publishes(ctx, EVENT_LOCK_EXPIRED) ||
	       (row_i64(lock, LOCK_ANNOUNCE, 0) > 0 && ctx_publishes(ctx, EVENT_LOCK_SET));
}

/* (1) */
static void due_move(struct context *ctx, const struct item *old, const struct item *next)
{
	int64_t was_s = old == NULL ? 0 : due_at(old);
	int64_t next_s = next == NULL || !needs_due(ctx, next) ? 0 : due_at(next);

	if (was_s > 0 && was_s != next_s && may_have_due(ctx))
		lock_due_remove(ctx, old, was_s);
	if (next_s > 0)
		lock_due_put(ctx, next, next_s);
}

/* One that nobody was told of ends untold, unless its time to be told has come, and nobody did yet. (5) */
static void cleared_publish(struct context *ctx, const struct item *lock, const char *why)
{
	if (waits(lock, ctx->now_s))
		return;
	if (row_i64(lock, LOCK_ANNOUNCE, 0) > 0)
		lock_publish(ctx, EVENT_LOCK_SET, lock, NULL);
	lock_publish(ctx, EVENT_LOCK_CLEARED, lock, why);
}

/* (4) Of a group, what its head becomes is told. One that was told of by itself, and is in a group now, is told of with it. */
void lock_changed(struct context *ctx, const struct item *old, const struct item *next, const char *why)
{
	bool held = old != NULL && lock_holds(old, ctx->now_us) && lock_is_head(old);
	bool holds = next != NULL && lock_holds(next, ctx->now_us);
	bool told = holds && lock_is_head(next);

	if (!is_heeded(row_text(next != NULL ? next : old, "SK")))
		return;
	due_move(ctx, held ? old : NULL, told ? next : NULL);
	if (told && !waits(next, ctx->now_s))
		lock_publish(ctx, EVENT_LOCK_SET, next, NULL);
	else if (held && !holds)
		cleared_publish(ctx, old, why);
}

void lock_head_forget(struct context *ctx, const struct item *row)
{
	struct value_list group = lock_group_of(row);
	struct item       head;

	if (group.count == 0 || due_at(row) == 0 || !may_have_due(ctx) || !is_heeded(row_text(row, "SK")))
		return;
	head = item_with(ctx->arena, row, BYTES("PK"), &group.items[0]);
	lock_due_remove(ctx, &head, due_at(row));
}

enum err_code lock_announce(struct context *ctx, const struct item *row, struct err *err)
{
	struct lock_group *g = arena_alloc(ctx->arena, sizeof(*g));
	struct item        was, told;

	if (lock_group_find(ctx, row, g, err) != ERR_NONE)
		return err->code;
	was = lock_group_told(ctx->arena, g);
	told = item_without(ctx->arena, &was, BYTES(LOCK_ANNOUNCE));
	lock_changed(ctx, &was, &told, NULL);
	for (uint32_t i = 0; i < g->count; i++)
		ctx_put(ctx, TABLE_AUTH_STATE,
		        item_without(ctx->arena, &g->rows[i].item, BYTES(LOCK_ANNOUNCE)));
	return ERR_NONE;
}

/* The event, its number, the head of the log, and among others a look at the number before an erasure. One that was not told of yet has two. */
uint32_t lock_changed_rows(const struct context *ctx, const struct item *row)
{
	uint32_t both = row_i64(row, LOCK_ANNOUNCE, 0) > 0 && ctx_publishes(ctx, EVENT_LOCK_SET);
	uint32_t event =
	        both + (ctx_publishes(ctx, EVENT_LOCK_CLEARED) || both ? (ctx->table->alone ? 3 : 4) : 0);
	uint32_t due = may_have_due(ctx) && due_at(row) > 0 ? 1 : 0;

	return is_heeded(row_text(row, "SK")) && lock_holds(row, ctx->now_us) ? event + due : 0;
}

/* Each lock has an event and a due row; each subject has a number, and among others a look at the one before an erasure. */
uint32_t lock_set_rows(const struct services *s, uint32_t locks, uint32_t subjects)
{
	uint64_t on = atomic_load_explicit(&s->events.on, memory_order_relaxed);
	uint32_t rows = 0;

	if ((on & EVENT_BIT(EVENT_LOCK_SET)) != 0)
		rows += locks + 2 * subjects;
	if ((on & EVENT_BIT(EVENT_LOCK_EXPIRED)) != 0)
		rows += locks;
	return rows < CHANGES_RESERVED ? 0 : rows - (CHANGES_RESERVED - 1);
}

uint32_t lock_announce_rows(const struct services *s, uint32_t locks)
{
	uint64_t on = atomic_load_explicit(&s->events.on, memory_order_relaxed);

	return (on & (EVENT_BIT(EVENT_LOCK_SET) | EVENT_BIT(EVENT_LOCK_EXPIRED))) != 0 ? locks : 0;
}

/* ---- reading them ---- */

/* A lock as its due row describes it. */
static struct item lock_of_due(struct context *ctx, const struct item *due)
{
	struct row lock;

	row_init(&lock, ctx->arena);
	row_set_text(&lock, "PK", row_text(due, "subject"));
	row_set_text(&lock, "SK", row_text(due, "lock"));
	row_set_i64(&lock, "ttl", row_i64(due, "until", 0));
	row_set_i64(&lock, "policy_version", row_i64(due, "policy_version", 0));
	text_add(&lock, "block_type", row_text(due, "kind"));
	text_add(&lock, "cause", row_text(due, "cause"));
	group_add(due, &lock);
	return row_item(&lock);
}

/* The row is gone, and its time is not over: somebody removed it without us. If it was the head's of a group, the first that is left is told of
 * (lock_group.h, 5). */
static enum err_code rest_announce(struct context *ctx, const struct item *due, bool *told, struct err *err)
{
	struct value_list group = lock_group_of(due);
	struct looked     row;

	for (uint32_t i = 0; i < group.count && !*told; i++) {
		if (ctx_look(ctx, value_text(&group.items[i]), row_text(due, "lock"), &row, err) != ERR_NONE)
			return err->code;
		*told = row.found && lock_holds(&row.item, ctx->now_us) &&
		        row_i64(&row.item, LOCK_ANNOUNCE, 0) == row_i64(due, LOCK_ANNOUNCE, 0);
	}
	return *told ? lock_announce(ctx, &row.item, err) : ERR_NONE;
}

/* The lock is gone. */
static enum err_code end_publish(struct context *ctx, const struct item *due, bool *told, struct err *err)
{
	bool        waited = row_i64(due, LOCK_ANNOUNCE, 0) > 0;
	struct item lock;

	*told = false;
	if (waited && !row_expired(due, "until", ctx->now_us))
		return rest_announce(ctx, due, told, err);
	lock = lock_of_due(ctx, due);
	if (waited)
		lock_publish(ctx, EVENT_LOCK_SET, &lock, NULL);
	expired_publish(ctx, due);
	*told = true;
	return ERR_NONE;
}

/* Removes a due row, and tells of it. The commit depends on the row, so that nobody else does too. (2) */
static enum err_code due_end(struct context *ctx, const struct item *row, bool *told, struct err *err)
{
	struct looked seen;

	looked_init(&seen, row_text(row, "PK"), row_text(row, "SK"));
	if (ctx_look_in(ctx, TABLE_EVENTS, &seen, err) != ERR_NONE)
		return err->code;
	*told = seen.found;
	if (!seen.found)
		return ERR_NONE;
	changes_attach_delete(&ctx->changes, TABLE_EVENTS, row_key_two(ctx->arena, seen.pk, seen.sk));
	return end_publish(ctx, &seen.item, told, err);
}

enum err_code lock_overdue(struct context *ctx, struct bytes pk, struct bytes sk, struct err *err)
{
	struct due_thing thing = {pk, sk};
	struct item      due;
	bool             told;

	if (!(ctx_publishes(ctx, EVENT_LOCK_EXPIRED) || ctx_publishes(ctx, EVENT_LOCK_SET)) || !is_heeded(sk))
		return ERR_NONE;
	if (due_overdue(ctx, &thing, &due, err) != ERR_NONE)
		return err->code;
	return due.count == 0 ? ERR_NONE : due_end(ctx, &due, &told, err);
}

/* ---- the worker's ---- */

/* Was it set again after it had ended, and by a call that did not find the due row among so many? */
static bool is_anew(const struct item *lock, int64_t until_s)
{
	return until_s > 0 && row_i64(lock, "last_updated", 0) >= until_s;
}

/* Somebody may have written the lock's row without us: one that holds still has not expired. */
static void due_follow(struct context *ctx, const struct item *key, const struct item *lock)
{
	changes_attach_delete(&ctx->changes, TABLE_EVENTS, *key);
	if (due_at(lock) > 0 && lock_is_head(lock))
		lock_due_put(ctx, lock, due_at(lock));
}

enum err_code due_tell(struct context *ctx, const struct due *d, bool *told, struct err *err)
{
	struct item   key = row_key_two(ctx->arena, d->pk, d->sk);
	struct looked lock;

	*told = false;
	if (ctx_look(ctx, d->subject, d->lock, &lock, err) != ERR_NONE)
		return err->code;
	if (d->due_s > ctx->now_s)
		return ERR_NONE;
	if (!lock.found || !lock_holds(&lock.item, ctx->now_us) || is_anew(&lock.item, d->until_s))
		return due_end(ctx, &key, told, err);
	*told = row_i64(&lock.item, LOCK_ANNOUNCE, 0) == d->due_s;
	if (*told)
		return lock_announce(ctx, &lock.item, err);
	due_follow(ctx, &key, &lock.item);
	return ERR_NONE;
}
