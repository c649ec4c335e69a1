/* Lock events: see lock_event.h. */
#include "service/lock_event.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/crypto.h"
#include "base/hash.h"
#include "json/base64.h"
#include "service/event.h"
#include "service/lock.h"
#include "service/lock_group.h"
#include "service/row.h"

enum { DUE_HASH_BYTES = 18, DUE_HASH_CHARS = DUE_HASH_BYTES / 3 * 4, DUE_TIME_DIGITS = 12 };

_Static_assert(DUE_SK_CHARS == DUE_TIME_DIGITS + 1 + DUE_HASH_CHARS, "a due row's sort key");

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

static struct bytes due_partition(struct arena *a, uint32_t shard)
{
	return arena_printf(a, "DUE#%u", shard);
}

/* Of a subject, as the log's shards. */
static uint32_t due_shard(struct bytes subject)
{
	return hash_shard(hash_fnv(HASH_FNV, subject), DUE_SHARDS);
}

static struct bytes lock_hash(struct arena *a, struct bytes pk, struct bytes sk)
{
	struct bytes key = arena_printf(a, "%zu:%.*s%.*s", pk.len, BYTES_ARG(pk), BYTES_ARG(sk));
	uint8_t      digest[SHA256_BYTES];
	char        *text = arena_alloc(a, DUE_HASH_CHARS);

	sha256(key, digest);
	base64_url_write((struct bytes){(const char *)digest, DUE_HASH_BYTES}, text);
	return (struct bytes){text, DUE_HASH_CHARS};
}

static struct item due_key(struct arena *a, const struct item *lock, int64_t until_s)
{
	struct bytes pk = row_text(lock, "PK"), hash = lock_hash(a, pk, row_text(lock, "SK"));

	return row_key_two(a, due_partition(a, due_shard(pk)),
	                   arena_printf(a, "%0*" PRIi64 "#%.*s", DUE_TIME_DIGITS, until_s, BYTES_ARG(hash)));
}

static void due_put(struct context *ctx, const struct item *lock, int64_t until_s)
{
	struct item key = due_key(ctx->arena, lock, until_s);
	struct row  row;

	row_from(&row, ctx->arena, &key);
	row_set_text(&row, "subject", row_text(lock, "PK"));
	row_set_text(&row, "lock", row_text(lock, "SK"));
	text_add(&row, "kind", row_text(lock, "block_type"));
	row_set_i64(&row, "until", until_s);
	if (lock_group_of(lock).count > 0)
		row_set(&row, "group", (struct value){.type = VALUE_L, .list = lock_group_of(lock)});
	changes_attach_put(&ctx->changes, TABLE_EVENTS, row_item(&row));
	if (ctx->changes.due_s == 0 || until_s < ctx->changes.due_s)
		ctx->changes.due_s = until_s;
}

static void due_remove(struct context *ctx, const struct item *lock, int64_t until_s)
{
	changes_attach_delete(&ctx->changes, TABLE_EVENTS, due_key(ctx->arena, lock, until_s));
}

/* A lock that was set before its type was switched off still has its due row, whatever is on now. (1) */
static bool may_have_due(const struct context *ctx)
{
	return !ctx_lacks(ctx, TABLE_EVENTS);
}

/* (1) */
static void due_move(struct context *ctx, const struct item *old, const struct item *next)
{
	int64_t was_s = old == NULL ? 0 : row_i64(old, "ttl", 0);
	int64_t until_s = next == NULL ? 0 : row_i64(next, "ttl", 0);

	if (!ctx_publishes(ctx, EVENT_LOCK_EXPIRED))
		until_s = 0;
	if (was_s > 0 && was_s != until_s && may_have_due(ctx))
		due_remove(ctx, old, was_s);
	if (until_s > 0)
		due_put(ctx, next, until_s);
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
	if (told)
		lock_publish(ctx, EVENT_LOCK_SET, next, NULL);
	else if (held && !holds)
		lock_publish(ctx, EVENT_LOCK_CLEARED, old, why);
}

/* The event, its number, the head of the log, and among others a look at the number before an erasure. */
uint32_t lock_changed_rows(const struct context *ctx, const struct item *row)
{
	uint32_t event = ctx_publishes(ctx, EVENT_LOCK_CLEARED) ? (ctx->table->alone ? 3 : 4) : 0;
	uint32_t due = may_have_due(ctx) && row_i64(row, "ttl", 0) > 0 ? 1 : 0;

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

/* ---- reading them ---- */

/* Those of a shard, from one second to another. */
struct due_range {
	uint32_t           shard, limit;
	int64_t            from_s, to_s;
	const char        *after; /* the sort key after which to begin; NULL or "": at from_s */
	const struct item *start; /* the key after which to go on; NULL: none */
};

static enum err_code due_query(struct context *ctx, const struct due_range *range,
                               struct table_query_result *r, struct err *err)
{
	struct arena             *a = ctx->arena;
	struct expr_key_condition key = row_prefix(due_partition(a, range->shard), (struct bytes){NULL, 0});
	struct table_query        q = {
	               .key = &key, .consistent = true, .limit = range->limit, .start = range->start};

	key.range_name = BYTES("SK");
	key.range_kind = RANGE_BETWEEN;
	if (range->after != NULL && *range->after != '\0')
		key.low = value_string(arena_printf(a, "%s~", range->after));
	else
		key.low = value_string(arena_printf(a, "%0*" PRIi64, DUE_TIME_DIGITS, range->from_s));
	key.high = value_string(arena_printf(a, "%0*" PRIi64 "#~", DUE_TIME_DIGITS, range->to_s));
	return ctx_query_in(ctx, TABLE_EVENTS, &q, r, err);
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
	expired_publish(ctx, &seen.item);
	return ERR_NONE;
}

static bool is_of(const struct item *due, struct bytes hash)
{
	struct bytes sk = row_text(due, "SK");

	return sk.len == DUE_TIME_DIGITS + 1 + DUE_HASH_CHARS &&
	       memcmp(sk.data + DUE_TIME_DIGITS + 1, hash.data, hash.len) == 0;
}

/* From where due rows may still be: those before were told of, by this process. */
static int64_t told_until(const struct context *ctx)
{
	int64_t told_s = atomic_load_explicit(&ctx->services->events.expiries_told_s, memory_order_relaxed);

	return told_s > DUE_MARGIN_S ? told_s - DUE_MARGIN_S : 0;
}

static const struct item *due_among(const struct table_query_result *r, struct bytes hash)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (is_of(&r->items[i], hash)) /* there is no second one: lock_overdue sees to that */
			return &r->items[i];
	return NULL;
}

/* Looks through what is overdue in the shard: mostly nothing, or what ended in this second. */
enum err_code lock_overdue(struct context *ctx, struct bytes pk, struct bytes sk, struct err *err)
{
	struct due_range          range = {.shard = due_shard(pk), .limit = DUE_PAGE, .to_s = ctx->now_s};
	struct table_query_result r = {.more = true};
	const struct item        *due = NULL;
	struct arena             *a = ctx->arena;
	struct bytes              hash;
	struct item               last;
	bool                      told;

	if (!ctx_publishes(ctx, EVENT_LOCK_EXPIRED) || !is_heeded(sk) || ctx_lacks(ctx, TABLE_EVENTS))
		return ERR_NONE;
	range.from_s = told_until(ctx);
	hash = lock_hash(a, pk, sk);
	for (uint32_t seen = 0; due == NULL && r.more && seen < DUE_OVERDUE_MAX; seen += r.count) {
		if (due_query(ctx, &range, &r, err) != ERR_NONE)
			return err->code;
		due = due_among(&r, hash);
		last = r.last_key;
		range.start = &last;
		range.limit = DUE_SEARCH_PAGE;
	}
	return due == NULL ? ERR_NONE : due_end(ctx, due, &told, err);
}

/* ---- the worker's ---- */

static struct due due_of(const struct item *row, uint32_t shard)
{
	return (struct due){.shard = shard,
	                    .pk = row_text(row, "PK"),
	                    .sk = row_text(row, "SK"),
	                    .subject = row_text(row, "subject"),
	                    .lock = row_text(row, "lock"),
	                    .until_s = row_i64(row, "until", 0)};
}

static int compare(const void *x, const void *y)
{
	const struct due *a = x, *b = y;

	return bytes_compare(a->sk, b->sk);
}

/* The seconds that all shards were read up to: those of a full page end earlier. What comes after waits, to be in order. */
static void page_cut(struct due_page *p, int64_t whole_s)
{
	while (p->count > 0 && p->list[p->count - 1].until_s > whole_s)
		p->count--;
}

/* A sort key of another length is none of ours. It is told of all the same, and walked over. */
void dues_pass(struct due_places *places, const struct due_page *p)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (p->list[i].sk.len == DUE_SK_CHARS)
			memcpy(places->after[p->list[i].shard], p->list[i].sk.data, DUE_SK_CHARS);
}

enum err_code dues_read(struct context *ctx, int64_t from_s, struct due_places *places, struct due_page *out,
                        struct err *err)
{
	struct due_range range = {.limit = DUE_PAGE, .from_s = from_s, .to_s = INT64_C(999999999999)};
	int64_t          whole_s = ctx->now_s;
	struct table_query_result r;

	out->count = 0;
	out->more = false;
	out->next_s = 0;
	if (places->from_s != from_s)
		*places = (struct due_places){.from_s = from_s};
	for (uint32_t shard = 0; shard < DUE_SHARDS; shard++) {
		int64_t last_s = 0;

		range.shard = shard;
		range.after = places->after[shard];
		if (due_query(ctx, &range, &r, err) != ERR_NONE)
			return err->code;
		for (uint32_t i = 0; i < r.count; i++) {
			struct due d = due_of(&r.items[i], shard);

			last_s = d.until_s;
			if (d.until_s <= ctx->now_s)
				out->list[out->count++] = d;
			else if (out->next_s == 0 || d.until_s < out->next_s)
				out->next_s = d.until_s;
			if (d.until_s > ctx->now_s)
				break;
		}
		if (r.more && last_s <= ctx->now_s) {
			out->more = true;
			whole_s = last_s < whole_s ? last_s : whole_s;
		}
	}
	qsort(out->list, out->count, sizeof(out->list[0]), compare);
	page_cut(out, whole_s);
	return ERR_NONE;
}

/* Was it set again after it had ended, and by a call that did not find the due row among so many? */
static bool is_anew(const struct item *lock, int64_t until_s)
{
	return row_i64(lock, "last_updated", 0) >= until_s;
}

/* Somebody may have written the lock's row without us: one that holds still has not expired. */
enum err_code due_tell(struct context *ctx, const struct due *d, bool *told, struct err *err)
{
	struct looked lock;
	struct row    key;
	int64_t       until_s;

	*told = false;
	if (ctx_look(ctx, d->subject, d->lock, &lock, err) != ERR_NONE)
		return err->code;
	until_s = lock.found ? row_i64(&lock.item, "ttl", 0) : 0;
	row_init(&key, ctx->arena);
	row_set_text(&key, "PK", d->pk);
	row_set_text(&key, "SK", d->sk);
	if (d->until_s > ctx->now_s)
		return ERR_NONE;
	if (!lock.found || !lock_holds(&lock.item, ctx->now_us) || is_anew(&lock.item, d->until_s))
		return due_end(ctx, &key.item, told, err);
	changes_attach_delete(&ctx->changes, TABLE_EVENTS, row_item(&key));
	if (until_s > 0)
		due_put(ctx, &lock.item, until_s);
	return ERR_NONE;
}
