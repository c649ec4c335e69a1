/* Consumers of events:
 *   GET /v1/consumers
 *   PUT, GET and DELETE /v1/consumers/{name}, POST /v1/consumers/{name}/seek
 *   POST /v1/consumers/{name}/poll and …/ack: what members call */
#include "api/v1_events.h"
#include "api/v1_name.h"
#include "api/v1_routes.h"
#include "api/v1_write.h"
#include "service/consumer.h"

static enum err_code read_name(struct v1_call *c, struct bytes *out, struct err *err)
{
	*out = c->params[0];
	if (!consumer_name_is(*out))
		return err_field(err, ERR_INVALID, "name",
		                 "name: must have 1 to %d letters, digits, dots, underscores and hyphens",
		                 CONSUMER_NAME_BYTES_MAX);
	return ERR_NONE;
}

static struct event_hub *hub_of(const struct v1_call *c)
{
	return c->call.loop->api->parts.events;
}

/* Members of a consumer that wait are woken together. */
static uint64_t group_of(struct bytes name)
{
	return event_subject_hash(name) | 1;
}

static void members_wake(const struct v1_call *c, struct bytes name)
{
	if (hub_of(c) != NULL)
		event_hub_touch(hub_of(c), group_of(name));
}

/* ---- answers ---- */

struct consumer_shown {
	struct consumer  consumer;
	struct event_lag lag;
};

static uint32_t held_by(const struct consumer *c, struct bytes member)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < c->partition_count; i++)
		count += bytes_equal(c->partitions[i].member, member);
	return count;
}

static void write_members(struct json_writer *w, const struct consumer *c)
{
	json_key(w, BYTES("members"));
	json_begin_array(w);
	for (uint32_t i = 0; i < c->member_count; i++) {
		json_begin_object(w);
		json_member_text(w, BYTES("member"), c->members[i].name);
		json_member_i64(w, BYTES("partitions"), held_by(c, c->members[i].name));
		v1_write_time(w, BYTES("until"), c->members[i].until_s);
		json_end_object(w);
	}
	json_end_array(w);
}

static void write_consumer_members(struct json_writer *w, struct arena *a, const struct consumer_shown *s)
{
	const struct consumer *c = &s->consumer;
	struct event_cursor    after;

	consumer_position(c, &after);
	json_member_text(w, BYTES("name"), c->name);
	json_key(w, BYTES("types"));
	json_begin_array(w);
	for (uint32_t i = 0; i < c->pattern_count; i++)
		json_string(w, c->patterns[i]);
	json_end_array(w);
	json_member_i64(w, BYTES("partitions"), c->partition_count);
	json_member_text(w, BYTES("after"), event_cursor_text(a, &after));
	json_key(w, BYTES("lag"));
	json_begin_object(w);
	json_member_i64(w, BYTES("events"), s->lag.events);
	json_member_i64(w, BYTES("seconds"), s->lag.seconds);
	json_end_object(w);
	write_members(w, c);
	json_member_text(w, BYTES("createdAt"), c->created_at);
	json_member_text(w, BYTES("updatedAt"), c->updated_at);
}

static void write_consumer(struct json_writer *w, struct arena *a, const struct consumer_shown *s)
{
	json_begin_object(w);
	write_consumer_members(w, a, s);
	json_end_object(w);
}

/* ---- one consumer, and all ---- */

struct consumer_call {
	struct bytes           name, from;
	struct v1_seek         seek;
	struct event_move      move;
	struct consumer_new    made;
	struct consumer_shown  r;
	struct consumer_shown *list;
	uint32_t               count;
};

enum err_code consumer_get_decode(struct v1_call *c, struct err *err)
{
	struct consumer_call *k = v1_request(c, sizeof(*k));

	return read_name(c, &k->name, err);
}

enum err_code consumer_get_run(struct v1_call *c, struct err *err)
{
	struct consumer_call *k = c->request;

	if (consumer_get(&c->ctx, k->name, &k->r.consumer, err) != ERR_NONE)
		return err->code;
	return consumer_lag(&c->ctx, &k->r.consumer, &k->r.lag, err);
}

void consumer_get_encode(struct v1_call *c, struct json_writer *w)
{
	write_consumer(w, c->ctx.arena, &((const struct consumer_call *)c->request)->r);
}

enum err_code consumer_list_decode(struct v1_call *c, struct err *err)
{
	(void)err;
	v1_request(c, sizeof(struct consumer_call));
	return ERR_NONE;
}

/* Those that the key may see. */
enum err_code consumer_list_run(struct v1_call *c, struct err *err)
{
	struct consumer_call *k = c->request;
	struct consumers      all;

	if (consumers_all(&c->ctx, &all, err) != ERR_NONE)
		return err->code;
	k->list = arena_array(c->ctx.arena, all.count, sizeof(*k->list));
	for (uint32_t i = 0; i < all.count; i++) {
		struct consumer_shown *s = &k->list[k->count];

		if (!v1_allowed(c, "consumer", all.list[i].name))
			continue;
		s->consumer = all.list[i];
		if (consumer_lag(&c->ctx, &s->consumer, &s->lag, err) != ERR_NONE)
			return err->code;
		k->count++;
	}
	return ERR_NONE;
}

void consumer_list_encode(struct v1_call *c, struct json_writer *w)
{
	const struct consumer_call *k = c->request;

	json_begin_object(w);
	json_key(w, BYTES("consumers"));
	json_begin_array(w);
	for (uint32_t i = 0; i < k->count; i++)
		write_consumer(w, c->ctx.arena, &k->list[i]);
	json_end_array(w);
	json_end_object(w);
}

/* ---- changing one ---- */

static uint64_t read_types(struct v1_call *c, struct fields *f, struct consumer_new *out)
{
	const struct json *list = fields_array(f, "types", CONSUMER_PATTERNS_MAX);
	uint64_t           types = list == NULL || list->count == 0 ? EVENTS_ALL_TYPES : 0;
	struct bytes      *patterns = arena_array(c->ctx.arena, CONSUMER_PATTERNS_MAX, sizeof(*patterns));

	for (const struct json *each = fields_first(f, list); each != NULL; each = fields_next(f, each)) {
		uint64_t some = each->type == JSON_STRING ? event_types_of(json_text(each)) : 0;

		if (some == 0) {
			fields_fail(
			        f, "types", ERR_INVALID,
			        "must be event types, such as \"user.created\" or \"user.*\"; docs/events "
			        "lists them");
			return 0;
		}
		patterns[out->pattern_count++] = json_text(each);
		types |= some;
	}
	out->patterns = patterns;
	return types;
}

/* Whoever makes a consumer decides what its members see. So it must be allowed all of these types. */
enum err_code consumer_put_name(struct v1_call *c, struct err *err)
{
	struct consumer_new made = {0};
	struct fields       f;
	uint64_t            types;

	v1_resource(c, "consumer", c->params[0]);
	fields_init(&f, c->body, err);
	types = read_types(c, &f, &made);
	for (unsigned i = 0; i < EVENT_TYPE_COUNT; i++)
		if ((types >> i & 1) != 0)
			v1_resource(c, "event", bytes_of(event_type_name((enum event_type)i)));
	return fields_failed(&f) ? err->code : ERR_NONE;
}

enum err_code consumer_put_decode(struct v1_call *c, struct err *err)
{
	struct consumer_call *k = v1_request(c, sizeof(*k));
	struct fields         f;

	if (read_name(c, &k->name, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	read_types(c, &f, &k->made);
	k->made.name = k->name;
	k->made.partitions = (uint32_t)fields_i64_or(&f, "partitions", 1, CONSUMER_PARTITIONS_MAX, 0);
	k->made.from_given = fields_has(&f, "from");
	k->from = v1_from_read(&f, BYTES("last"));
	return fields_end(&f);
}

enum err_code consumer_put_run(struct v1_call *c, struct err *err)
{
	struct consumer_call *k = c->request;
	struct consumer_put   put;

	if (v1_events_from(c, k->from, &k->made.from, err) != ERR_NONE ||
	    consumer_put(&c->ctx, &k->made, &put, err) != ERR_NONE)
		return err->code;
	k->r.consumer = put.consumer;
	c->status = put.created ? 201 : 200;
	return consumer_lag(&c->ctx, &put.consumer, &k->r.lag, err);
}

void consumer_put_encode(struct v1_call *c, struct json_writer *w)
{
	consumer_get_encode(c, w);
}

/* Also of a seek and of a deletion: members that wait look again. */
void consumer_put_committed(struct v1_call *c)
{
	members_wake(c, ((const struct consumer_call *)c->request)->name);
}

enum err_code consumer_delete_decode(struct v1_call *c, struct err *err)
{
	return consumer_get_decode(c, err);
}

enum err_code consumer_delete_run(struct v1_call *c, struct err *err)
{
	return consumer_delete(&c->ctx, ((const struct consumer_call *)c->request)->name, err);
}

void consumer_delete_encode(struct v1_call *c, struct json_writer *w)
{
	json_begin_object(w);
	json_member_text(w, BYTES("name"), ((const struct consumer_call *)c->request)->name);
	json_member_bool(w, BYTES("deleted"), true);
	json_end_object(w);
}

enum err_code consumer_seek_decode(struct v1_call *c, struct err *err)
{
	struct consumer_call *k = v1_request(c, sizeof(*k));
	struct fields         f;

	if (read_name(c, &k->name, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	v1_seek_read(c, &f, &k->seek);
	return fields_end(&f);
}

enum err_code consumer_seek_run(struct v1_call *c, struct err *err)
{
	struct consumer_call *k = c->request;
	struct consumer_seek  q = {.name = k->name};

	if (v1_seek_find(c, &k->seek, err) != ERR_NONE)
		return err->code;
	q.to = k->seek.to;
	if (consumer_seek(&c->ctx, &q, &k->r.consumer, &k->move, err) != ERR_NONE)
		return err->code;
	return consumer_lag(&c->ctx, &k->r.consumer, &k->r.lag, err);
}

void consumer_seek_encode(struct v1_call *c, struct json_writer *w)
{
	const struct consumer_call *k = c->request;

	json_begin_object(w);
	write_consumer_members(w, c->ctx.arena, &k->r);
	v1_write_move(w, &k->move);
	json_end_object(w);
}

/* ---- poll ----
 *
 *   READ: does the member hold its share? --no--> WRITE: join --> READ
 *     yes: are there events? --no--> wait: for an event, for another's lapse, for a change of members --> READ
 *       yes: answer
 *
 * So a poll of a member that holds its share writes nothing; one in a while renews its lease. */

struct poll_call {
	struct v1_events_wait waiting; /* first */
	struct consumer_poll  q;
	uint32_t              limit;
	bool                  joined, rejoin;
	struct consumer_share share;
	struct event_texts    page;
	int64_t               waited_generation; /* of the share that it waited with; 0: it has not */
};

static struct bytes read_member(struct fields *f)
{
	struct bytes member = fields_text(f, "member", CONSUMER_NAME_BYTES_MAX);

	if (!fields_failed(f) && !consumer_name_is(member))
		fields_fail(f, "member", ERR_INVALID,
		            "must have only letters, digits, dots, underscores and hyphens");
	return member;
}

/* When the call must look again, whatever comes: when another's lease lapses, whose share this member could take, or when half of its own is over. A
 * member whose connection has ended does not renew its lease any more. */
static int64_t look_again_s(const struct v1_call *c, const struct poll_call *p)
{
	int64_t half_s = p->share.until_s - p->q.lease_s / 2, lapse_s = p->share.next_lapse_s;
	int64_t at_s = lapse_s > 0 && lapse_s < half_s ? lapse_s : half_s;

	return at_s > c->ctx.now_s ? at_s - c->ctx.now_s + 1 : 1;
}

static bool poll_park(struct v1_call *c, struct poll_call *p)
{
	int64_t now_us = clock_steady_us(c->call.loop->api->parts.clock);

	p->waiting.wait.filter = (struct event_filter){
	        .types = p->share.types, .partitions = p->share.partition_count, .mask = p->share.mask};
	p->waiting.wait.after = p->page.next;
	p->waiting.wait.group = group_of(p->q.name);
	return v1_events_park(c, &p->waiting, now_us + look_again_s(c, p) * 1000000);
}

static bool poll_resume(struct v1_call *c, enum call_kind as)
{
	c->call.kind = as;
	dispatch_resume(&c->call, true);
	return true;
}

static bool poll_waits(struct v1_call *c)
{
	struct poll_call *p = c->request;

	if (c->call.kind == WRITE) {
		if (p->share.changed)
			members_wake(c, p->q.name);
		return poll_resume(c, READ);
	}
	if (p->rejoin)
		return poll_resume(c, WRITE);
	return p->page.count == 0 && !p->page.more && poll_park(c, p);
}

/* What it read past need not be read again by this call; the next one begins where it was acknowledged. */
static void poll_waited(struct v1_call *c, bool once_more)
{
	struct poll_call *p = c->request;

	(void)once_more;
	p->page = (struct event_texts){.next = p->waiting.wait.after};
	p->waited_generation = p->share.generation;
}

/* Members share one place: what one of them was not shown would be lost to all. So a key that is denied a user is refused. */
enum err_code consumer_poll_name(struct v1_call *c, struct err *err)
{
	c->all_users = true;
	return v1_name_consumer(c, err);
}

enum err_code consumer_poll_decode(struct v1_call *c, struct err *err)
{
	struct poll_call *p = v1_request(c, sizeof(*p));
	struct fields     f;
	int64_t           wait_s;

	if (read_name(c, &p->q.name, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	p->q.member = read_member(&f);
	p->limit = (uint32_t)fields_i64_or(&f, "limit", 1, EVENTS_PAGE_MAX, EVENTS_LIMIT_DEFAULT);
	wait_s = fields_i64_or(&f, "wait", 0, EVENTS_WAIT_S_MAX, 0);
	p->q.lease_s =
	        fields_i64_or(&f, "lease", CONSUMER_LEASE_S_MIN, CONSUMER_LEASE_S_MAX, CONSUMER_LEASE_S);
	p->waiting.deadline_us = c->call.http->received_us + wait_s * 1000000;
	p->waiting.waited = poll_waited;
	c->waits = poll_waits;
	c->call.kind = READ;
	return fields_end(&f);
}

/* Without those that were acknowledged: partitions need not be equally far. */
static void page_clean(struct poll_call *p)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < p->page.count; i++) {
		const struct event_text *e = &p->page.list[i];

		if (consumer_wants(&p->share, e->shard, e->position, e->subject_hash))
			p->page.list[kept++] = *e;
	}
	p->page.count = kept;
}

static enum err_code poll_read(struct v1_call *c, struct poll_call *p, struct err *err)
{
	struct event_query q = {.after = p->share.from,
	                        .filter = {.types = p->share.types,
	                                   .partitions = p->share.partition_count,
	                                   .mask = p->share.mask},
	                        .limit = p->limit};

	if (p->waited_generation == p->share.generation)
		event_cursor_advance(&q.after,
		                     &p->page.next); /* nothing for this share came by before that */
	if (p->share.mask == 0) {
		p->page = (struct event_texts){.next = q.after};
		return ERR_NONE;
	}
	if (event_hub_read(hub_of(c), &c->ctx, &q, &p->page, err) != ERR_NONE)
		return err->code;
	page_clean(p);
	return ERR_NONE;
}

enum err_code consumer_poll_run(struct v1_call *c, struct err *err)
{
	struct poll_call *p = c->request;
	struct consumer   k;

	v1_events_mark(c, &p->waiting);
	c->once.key = (struct bytes){NULL, 0}; /* a poll that is sent again is another one */
	if (c->call.kind == WRITE) {
		p->joined = true;
		p->rejoin = false;
		return consumer_join(&c->ctx, &p->q, &p->share, err);
	}
	if (!p->joined) {
		if (consumer_get(&c->ctx, p->q.name, &k, err) != ERR_NONE ||
		    v1_events_check_denied(c, k.types, err) != ERR_NONE)
			return err->code;
		p->rejoin = !consumer_holds(&k, &p->q, c->ctx.now_s, &p->share);
		if (p->rejoin)
			return ERR_NONE;
	}
	p->joined = false;
	return poll_read(c, p, err);
}

void consumer_poll_encode(struct v1_call *c, struct json_writer *w)
{
	const struct poll_call *p = c->request;

	json_begin_object(w);
	v1_write_events(w, c->ctx.arena, &p->page);
	json_member_i64(w, BYTES("generation"), p->share.generation);
	json_member_i64(w, BYTES("partitions"), __builtin_popcountll(p->share.mask));
	v1_write_time(w, BYTES("until"), p->share.until_s);
	json_end_object(w);
}

/* ---- ack ---- */

struct ack_call {
	struct consumer_ack   q;
	struct consumer_share share;
};

enum err_code consumer_ack_decode(struct v1_call *c, struct err *err)
{
	struct ack_call *k = v1_request(c, sizeof(*k));
	struct fields    f;

	if (read_name(c, &k->q.name, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	k->q.member = read_member(&f);
	k->q.generation = fields_i64(&f, "generation", 0, ROW_I64_MAX);
	v1_after_read(c, &f, fields_text(&f, "after", EVENT_CURSOR_TEXT_MAX), &k->q.after);
	k->q.leave = fields_bool_or(&f, "leave", false);
	return fields_end(&f);
}

enum err_code consumer_ack_run(struct v1_call *c, struct err *err)
{
	struct ack_call *k = c->request;

	return consumer_ack(&c->ctx, &k->q, &k->share, err);
}

/* What is in force: one that goes back changes nothing. */
void consumer_ack_encode(struct v1_call *c, struct json_writer *w)
{
	const struct ack_call *k = c->request;

	json_begin_object(w);
	json_member_text(w, BYTES("after"), event_cursor_text(c->ctx.arena, &k->share.from));
	if (!k->q.leave)
		v1_write_time(w, BYTES("until"), k->share.until_s);
	json_end_object(w);
}

void consumer_ack_committed(struct v1_call *c)
{
	const struct ack_call *k = c->request;

	if (k->share.changed)
		members_wake(c, k->q.name);
}
