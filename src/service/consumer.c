/* Consumers: see consumer.h. */
#include "service/consumer.h"

#include <assert.h>
#include <stdio.h>

#include "service/row.h"
#include "service/target.h"
#include "service/user.h"

#define PARTITION "CONSUMER"

bool consumer_name_is(struct bytes name)
{
	return name.len > 0 && name.len <= CONSUMER_NAME_BYTES_MAX && bytes_hold_only(name, "._-");
}

/* ---- rows ---- */

static struct value_list list_of(const struct item *row, const char *name, uint32_t most)
{
	const struct value *v = item_get(row, bytes_of(name));
	struct value_list   none = {NULL, 0}, list = v != NULL && v->type == VALUE_L ? v->list : none;

	if (list.count > most)
		list.count = most;
	return list;
}

static const struct item *map_at(const struct value_list *list, uint32_t i)
{
	static const struct item none = {NULL, 0};

	return list->items[i].type == VALUE_M ? &list->items[i].map : &none;
}

static void patterns_of(struct arena *a, const struct item *row, struct consumer *out)
{
	struct value_list list = list_of(row, "types", CONSUMER_PATTERNS_MAX);

	out->types = list.count == 0 ? EVENTS_ALL_TYPES : 0;
	out->patterns = arena_array(a, list.count, sizeof(*out->patterns));
	for (uint32_t i = 0; i < list.count; i++) {
		out->patterns[out->pattern_count++] = value_text(&list.items[i]);
		out->types |= event_types_of(out->patterns[i]);
	}
}

static struct consumer consumer_of(struct arena *a, const struct item *row)
{
	struct value_list partitions = list_of(row, "partitions", CONSUMER_PARTITIONS_MAX);
	struct value_list members = list_of(row, "members", CONSUMER_MEMBERS_MAX);
	struct consumer   c = {.name = row_text(row, "SK"),
	                       .partitions = arena_array(a, partitions.count, sizeof(*c.partitions)),
	                       .partition_count = partitions.count,
	                       .members = arena_array(a, members.count + 1, sizeof(*c.members)),
	                       .member_count = members.count,
	                       .generation = row_i64(row, "generation", 0),
	                       .created_at = row_text(row, "createdAt"),
	                       .created_by = row_text(row, "createdBy"),
	                       .updated_at = row_text(row, "updatedAt"),
	                       .row = *row};

	patterns_of(a, row, &c);
	for (uint32_t i = 0; i < partitions.count; i++) {
		const struct item *map = map_at(&partitions, i);

		c.partitions[i].member = row_text(map, "member");
		cursor_of(item_get(map, BYTES("after")), &c.partitions[i].after);
	}
	for (uint32_t i = 0; i < members.count; i++) {
		const struct item *map = map_at(&members, i);

		c.members[i] = (struct consumer_member){.name = row_text(map, "name"),
		                                        .until_s = row_i64(map, "until", 0),
		                                        .lease_s = row_i64(map, "lease", CONSUMER_LEASE_S),
		                                        .generation = row_i64(map, "generation", 0)};
	}
	return c;
}

static struct value texts_value(struct arena *a, const struct bytes *texts, uint32_t count)
{
	struct value v = {.type = VALUE_L, .list = {arena_array(a, count, sizeof(struct value)), count}};

	for (uint32_t i = 0; i < count; i++)
		v.list.items[i] = value_string(texts[i]);
	return v;
}

static struct value partition_value(struct arena *a, const struct consumer_partition *p)
{
	struct row row;

	row_init(&row, a);
	row_set(&row, "after", cursor_value(a, &p->after));
	if (p->member.len > 0)
		row_set_text(&row, "member", p->member);
	return (struct value){.type = VALUE_M, .map = row_item(&row)};
}

static struct value member_value(struct arena *a, const struct consumer_member *m)
{
	struct row row;

	row_init(&row, a);
	row_set_text(&row, "name", m->name);
	row_set_i64(&row, "until", m->until_s);
	row_set_i64(&row, "lease", m->lease_s);
	row_set_i64(&row, "generation", m->generation);
	return (struct value){.type = VALUE_M, .map = row_item(&row)};
}

void consumer_position(const struct consumer *c, struct event_cursor *out)
{
	*out = c->partitions[0].after;
	for (uint32_t i = 1; i < c->partition_count; i++)
		event_cursor_hold_back(out, &c->partitions[i].after);
}

/* Adds it to the changes. */
static void consumer_write(struct context *ctx, struct consumer *c)
{
	struct arena       *a = ctx->arena;
	struct value        partitions = {.type = VALUE_L}, members = {.type = VALUE_L};
	struct event_cursor position;
	struct row          row;

	partitions.list.items = arena_array(a, c->partition_count, sizeof(struct value));
	members.list.items = arena_array(a, c->member_count, sizeof(struct value));
	for (uint32_t i = 0; i < c->partition_count; i++)
		partitions.list.items[partitions.list.count++] = partition_value(a, &c->partitions[i]);
	for (uint32_t i = 0; i < c->member_count; i++)
		members.list.items[members.list.count++] = member_value(a, &c->members[i]);
	consumer_position(c, &position);
	row_init(&row, a);
	row_set_text(&row, "PK", BYTES(PARTITION));
	row_set_text(&row, "SK", c->name);
	row_set(&row, "types", texts_value(a, c->patterns, c->pattern_count));
	row_set(&row, "partitions", partitions);
	row_set(&row, "members", members);
	row_set(&row, "positions", cursor_value(a, &position)); /* (5) */
	row_set_i64(&row, "generation", c->generation);
	row_set_text(&row, "createdAt", c->created_at);
	if (c->created_by.len > 0)
		row_set_text(&row, "createdBy", c->created_by);
	row_set_text(&row, "updatedAt", c->updated_at);
	c->row = row_item(&row);
	ctx_put(ctx, TABLE_EVENTS, c->row);
}

/* ---- reading ---- */

static enum err_code look(struct context *ctx, struct bytes name, struct looked *out, struct err *err)
{
	looked_init(out, BYTES(PARTITION), name);
	return ctx_look_in(ctx, TABLE_EVENTS, out, err);
}

enum err_code consumer_get(struct context *ctx, struct bytes name, struct consumer *out, struct err *err)
{
	struct looked row;
	enum err_code rc = look(ctx, name, &row, err);

	if (rc != ERR_NONE)
		return rc;
	if (!row.found || list_of(&row.item, "partitions", CONSUMER_PARTITIONS_MAX).count == 0)
		return err_field(err, ERR_NOT_FOUND, "name", "name: there is no such consumer");
	*out = consumer_of(ctx->arena, &row.item);
	return ERR_NONE;
}

enum err_code consumers_all(struct context *ctx, struct consumers *out, struct err *err)
{
	struct expr_key_condition key = row_prefix(BYTES(PARTITION), BYTES(""));
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result r;
	struct item               start;

	*out = (struct consumers){.list = arena_array(ctx->arena, CONSUMERS_MAX, sizeof(*out->list))};
	do {
		if (ctx_query_in(ctx, TABLE_EVENTS, &q, &r, err) != ERR_NONE)
			return err->code;
		for (uint32_t i = 0; i < r.count && out->count < CONSUMERS_MAX; i++)
			if (list_of(&r.items[i], "partitions", CONSUMER_PARTITIONS_MAX).count > 0)
				out->list[out->count++] = consumer_of(ctx->arena, &r.items[i]);
		start = r.last_key;
		q.start = &start;
	} while (r.more);
	return ERR_NONE;
}

enum err_code consumer_lag(struct context *ctx, const struct consumer *c, struct event_lag *out,
                           struct err *err)
{
	struct event_cursor after;

	consumer_position(c, &after);
	return events_lag(ctx, &after, c->types, out, err);
}

/* ---- what people change ---- */

/* HEAD CONSUMERS: how many there are, and the last generation of those that were deleted. *generation: of one that goes; of a new one that is
 * where it begins, so that nothing that one of its name gave before is taken for its own. (3) */
static enum err_code count_change(struct context *ctx, int by, int64_t *generation, struct err *err)
{
	struct looked head;
	struct row    row;
	int64_t       count, last;

	looked_init(&head, BYTES("HEAD"), BYTES("CONSUMERS"));
	if (ctx_look_in(ctx, TABLE_EVENTS, &head, err) != ERR_NONE)
		return err->code;
	count = (head.found ? row_i64(&head.item, "count", 0) : 0) + by;
	if (count > CONSUMERS_MAX)
		return err_set(err, ERR_LIMIT,
		               "there are %d consumers already, which is as many as there may be",
		               CONSUMERS_MAX);
	last = head.found ? row_i64(&head.item, "generation", 0) : 0;
	*generation = by < 0 && *generation > last ? *generation : last;
	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", head.pk);
	row_set_text(&row, "SK", head.sk);
	row_set_i64(&row, "count", count);
	row_set_i64(&row, "generation", *generation);
	ctx_put(ctx, TABLE_EVENTS, row_item(&row));
	return ERR_NONE;
}

/* HEAD CONSUMERS moves with each that is created, so two that are created at once do not miss each other. */
static enum err_code share_check(struct context *ctx, struct err *err)
{
	uint32_t         most = ctx->services->consumers_per_key, count = 0;
	struct consumers all;

	if (most == 0 || bytes_is(ctx->caller, "-"))
		return ERR_NONE;
	if (consumers_all(ctx, &all, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < all.count; i++)
		count += bytes_equal(all.list[i].created_by, ctx->caller);
	return count < most
	               ? ERR_NONE
	               : err_set(err, ERR_LIMIT,
	                         "this key has created %u consumers, which is as many as one key may have; "
	                         "delete some, or raise the setting consumers-per-key",
	                         count);
}

static void partitions_make(struct context *ctx, struct consumer *c, uint32_t count,
                            const struct event_cursor *at)
{
	c->partitions = arena_array(ctx->arena, count, sizeof(*c->partitions));
	c->partition_count = count;
	for (uint32_t i = 0; i < count; i++)
		c->partitions[i] = (struct consumer_partition){.after = *at};
	c->member_count = 0;
	c->generation++;
}

/* Acknowledgements of what was given before are refused. (3), (4) */
static void given_refuse(struct consumer *c)
{
	c->generation++;
	for (uint32_t i = 0; i < c->member_count; i++)
		c->members[i].generation = c->generation;
}

/* Of a new one, or of one that is there. */
static void consumer_apply(struct context *ctx, const struct consumer_new *q, struct consumer *c)
{
	struct event_cursor at = q->from;
	uint32_t            count = q->partitions;
	uint64_t            before = c->types;

	if (c->partition_count > 0)
		consumer_position(c, &at);
	if (count == 0)
		count = c->partition_count > 0 ? c->partition_count : CONSUMER_PARTITIONS;
	if (count != c->partition_count)
		partitions_make(ctx, c, count, &at);
	c->patterns = (struct bytes *)(uintptr_t)q->patterns;
	c->pattern_count = q->pattern_count;
	c->types = q->pattern_count == 0 ? EVENTS_ALL_TYPES : 0;
	for (uint32_t i = 0; i < q->pattern_count; i++)
		c->types |= event_types_of(q->patterns[i]);
	if (c->member_count > 0 &&
	    c->types != before) /* a member that waits has read past events of the types that are new */
		given_refuse(c);
	c->updated_at = user_time(ctx->arena, ctx->now_us);
	consumer_write(ctx, c);
}

enum err_code consumer_put(struct context *ctx, const struct consumer_new *q, struct consumer_put *out,
                           struct err *err)
{
	struct looked row;
	int64_t       generation = 0;

	assert(q->partitions <= CONSUMER_PARTITIONS_MAX);
	*out = (struct consumer_put){0};
	if (look(ctx, q->name, &row, err) != ERR_NONE)
		return err->code;
	out->created = !row.found;
	if (row.found && q->from_given)
		return err_field(
		        err, ERR_NOT_NOW, "from",
		        "from: the consumer exists and keeps its place; leave `from` out, and move it with "
		        "POST /v1/consumers/%.*s/seek",
		        BYTES_ARG(q->name));
	if (out->created &&
	    (share_check(ctx, err) != ERR_NONE || count_change(ctx, 1, &generation, err) != ERR_NONE))
		return err->code;
	if (row.found)
		out->consumer = consumer_of(ctx->arena, &row.item);
	else
		out->consumer = (struct consumer){
		        .name = q->name,
		        .members = arena_array(ctx->arena, 1, sizeof(struct consumer_member)),
		        .generation = generation,
		        .created_by = ctx->caller,
		        .created_at = user_time(ctx->arena, ctx->now_us)};
	consumer_apply(ctx, q, &out->consumer);
	return ERR_NONE;
}

enum err_code consumer_delete(struct context *ctx, struct bytes name, struct err *err)
{
	struct consumer c;

	if (consumer_get(ctx, name, &c, err) != ERR_NONE ||
	    count_change(ctx, -1, &c.generation, err) != ERR_NONE)
		return err->code;
	ctx_delete(ctx, TABLE_EVENTS, row_key_two(ctx->arena, BYTES(PARTITION), name));
	return ERR_NONE;
}

/* ERR_INVALID if the log is not that long. */
static enum err_code check_cursor(struct context *ctx, const struct event_cursor *after, struct err *err)
{
	struct event_bounds bounds;
	struct event_cursor last;

	if (events_bounds(ctx, &bounds, err) != ERR_NONE)
		return err->code;
	event_cursor_last(&bounds, &last);
	return event_cursor_reaches(&last, after)
	               ? ERR_NONE
	               : err_field(err, ERR_INVALID, "after", "after: the log does not go that far");
}

enum err_code consumer_seek(struct context *ctx, const struct consumer_seek *q, struct consumer *out,
                            struct event_move *move, struct err *err)
{
	struct event_cursor first, last;

	if (consumer_get(ctx, q->name, out, err) != ERR_NONE || events_check(ctx, &q->to, err) != ERR_NONE)
		return err->code;
	consumer_position(out, &first);
	last = first;
	for (uint32_t i = 0; i < out->partition_count; i++) {
		event_cursor_advance(&last, &out->partitions[i].after);
		out->partitions[i].after = q->to;
	}
	*move = event_cursor_move(&first, &last, &q->to);
	given_refuse(out);
	out->updated_at = user_time(ctx->arena, ctx->now_us);
	consumer_write(ctx, out);
	return ERR_NONE;
}

/* ---- shares ---- */

static struct consumer_member *member_find(const struct consumer *c, struct bytes name)
{
	for (uint32_t i = 0; i < c->member_count; i++)
		if (bytes_equal(c->members[i].name, name))
			return &c->members[i];
	return NULL;
}

static uint32_t partitions_of(const struct consumer *c, struct bytes member)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < c->partition_count; i++)
		count += bytes_equal(c->partitions[i].member, member);
	return count;
}

/* The most that a member should have, so that all are taken. */
static uint32_t fair_share(const struct consumer *c)
{
	return c->member_count == 0 ? c->partition_count
	                            : (c->partition_count + c->member_count - 1) / c->member_count;
}

static void share_fill(const struct consumer *c, const struct consumer_member *m, struct consumer_share *out)
{
	*out = (struct consumer_share){.partition_count = c->partition_count,
	                               .partitions = c->partitions,
	                               .types = c->types,
	                               .generation = m->generation,
	                               .until_s = m->until_s};
	consumer_position(c, &out->from); /* of one that has none: what it need not be before */
	for (uint32_t i = 0; i < c->partition_count; i++) {
		if (!bytes_equal(c->partitions[i].member, m->name))
			continue;
		if (out->mask == 0)
			out->from = c->partitions[i].after;
		else
			event_cursor_hold_back(&out->from, &c->partitions[i].after);
		out->mask |= UINT64_C(1) << i;
	}
	for (uint32_t i = 0; i < c->member_count; i++)
		if (!bytes_equal(c->members[i].name, m->name) &&
		    (out->next_lapse_s == 0 || c->members[i].until_s < out->next_lapse_s))
			out->next_lapse_s = c->members[i].until_s;
}

bool consumer_holds(const struct consumer *c, const struct consumer_poll *q, int64_t now_s,
                    struct consumer_share *out)
{
	const struct consumer_member *m = member_find(c, q->member);
	uint32_t                      mine = partitions_of(c, q->member), fair = fair_share(c);

	if (m == NULL || m->lease_s != q->lease_s || m->until_s - now_s < q->lease_s / 2)
		return false;
	for (uint32_t i = 0; i < c->member_count; i++)
		if (c->members[i].until_s <= now_s)
			return false;
	if (mine > fair || (mine < fair && partitions_of(c, (struct bytes){NULL, 0}) > 0))
		return false;
	share_fill(c, m, out);
	return true;
}

bool consumer_wants(const struct consumer_share *s, uint32_t shard, int64_t position, uint64_t subject_hash)
{
	uint32_t i = (uint32_t)(subject_hash % s->partition_count);

	return (s->mask >> i & 1) != 0 && position > s->partitions[i].after.after[shard];
}

/* It has no partitions any more. */
static void member_drop(struct consumer *c, struct bytes name)
{
	for (uint32_t i = 0; i < c->partition_count; i++)
		if (bytes_equal(c->partitions[i].member, name))
			c->partitions[i].member = (struct bytes){NULL, 0};
	for (uint32_t i = 0; i < c->member_count; i++)
		if (bytes_equal(c->members[i].name, name)) {
			c->members[i] = c->members[--c->member_count];
			return;
		}
}

/* Others whose lease has lapsed. (2) */
static bool lapsed_drop(struct consumer *c, struct bytes but, int64_t now_s)
{
	bool dropped = false;

	for (uint32_t i = 0; i < c->member_count;) {
		if (c->members[i].until_s <= now_s && !bytes_equal(c->members[i].name, but)) {
			member_drop(c, c->members[i].name);
			dropped = true;
		} else {
			i++;
		}
	}
	return dropped;
}

/* Gives up what is too much, the last ones first, or takes what is free. */
static bool share_balance(struct consumer *c, struct bytes member)
{
	uint32_t mine = partitions_of(c, member), before = mine, fair = fair_share(c);

	for (uint32_t i = c->partition_count; mine > fair && i-- > 0;)
		if (bytes_equal(c->partitions[i].member, member)) {
			c->partitions[i].member = (struct bytes){NULL, 0};
			mine--;
		}
	for (uint32_t i = 0; mine < fair && i < c->partition_count; i++)
		if (c->partitions[i].member.len == 0) {
			c->partitions[i].member = member;
			mine++;
		}
	return mine != before;
}

enum err_code consumer_join(struct context *ctx, const struct consumer_poll *q, struct consumer_share *out,
                            struct err *err)
{
	struct consumer         c;
	struct consumer_member *m;
	bool                    changed, balanced;

	if (consumer_get(ctx, q->name, &c, err) != ERR_NONE)
		return err->code;
	changed = lapsed_drop(&c, q->member, ctx->now_s);
	m = member_find(&c, q->member);
	if (m == NULL) {
		if (c.member_count == CONSUMER_MEMBERS_MAX)
			return err_set(err, ERR_LIMIT, "the consumer has %d members already",
			               CONSUMER_MEMBERS_MAX);
		m = &c.members[c.member_count++];
		*m = (struct consumer_member){.name = q->member};
		changed = true;
	}
	balanced = share_balance(&c, q->member);
	if (balanced || m->generation == 0) /* (3) */
		m->generation = ++c.generation;
	m->lease_s = q->lease_s;
	m->until_s = ctx->now_s + q->lease_s;
	consumer_write(ctx, &c);
	share_fill(&c, m, out);
	out->changed = changed || balanced;
	return ERR_NONE;
}

enum err_code consumer_ack(struct context *ctx, const struct consumer_ack *q, struct consumer_share *out,
                           struct err *err)
{
	struct consumer         c;
	struct consumer_member *m;

	if (consumer_get(ctx, q->name, &c, err) != ERR_NONE)
		return err->code;
	m = member_find(&c, q->member);
	if (m == NULL)
		return err_field(
		        err, ERR_NOT_NOW, "member",
		        "member: it has no lease: it has not polled, it has left, or it was late and "
		        "others took its share; poll again");
	if (m->generation != q->generation)
		return err_field(
		        err, ERR_NOT_NOW, "generation",
		        "generation: the member's share has changed since it polled, so others may have "
		        "its events; poll again");
	if (check_cursor(ctx, &q->after, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < c.partition_count; i++)
		if (bytes_equal(c.partitions[i].member, q->member))
			event_cursor_advance(&c.partitions[i].after, &q->after);
	if (m->until_s < ctx->now_s + m->lease_s)
		m->until_s = ctx->now_s + m->lease_s;
	share_fill(&c, m, out);
	out->changed = q->leave;
	if (q->leave)
		member_drop(&c, q->member);
	consumer_write(ctx, &c);
	return ERR_NONE;
}
