/* Push messages: what push.h and notification.h promise, on the engine or the rough store. */
#include "service/turn.h"

#include "service/erase.h"
#include "service/push.h"
#include "service/push_batch.h"
#include "service/push_register.h"

/* ---- calls ---- */

struct call {
	struct turn              turn;
	struct push_registration enrol;
	struct notify_request    notify;
	struct bytes             id;
	struct notification      n;
	struct push_sender       who;
	uint32_t                 room;
	struct push_batches      due, taken;
	struct push_settle       settle;
	struct push_receipts     receipts;
	struct push_tally        tally;
	struct push_registered   registered;
	struct push_device       device;
	struct push_ref          ref;
	uint32_t                 next;
	int64_t                  queued;
	bool                     more;
};

#define CALL(name, expression)                                                                               \
	static enum err_code name(struct turn *t, struct err *err)                                           \
	{                                                                                                    \
		struct call *c = (struct call *)t;                                                           \
                                                                                                             \
		return expression;                                                                           \
	}

CALL(enrol, push_device_register(&t->ctx, &c->enrol, &c->registered, err))
CALL(look_device, push_device_get(&t->ctx, &c->ref, &c->device, err))
CALL(notify, notify_user(&t->ctx, &c->notify, &c->n, err))
CALL(get, notification_get(&t->ctx, c->id, &c->n, err))
CALL(due, push_due(&t->ctx, c->who.shard, c->room, &c->due, err))
CALL(take, push_take(&t->ctx, &(struct push_take){&c->who, &c->due}, &c->taken, &c->tally, err))
CALL(recheck, push_recheck(&t->ctx, &c->taken, err))
CALL(settle, push_settle(&t->ctx, &c->settle, &c->next, &c->tally, err))
CALL(sweep, push_sweep(&t->ctx, &c->who, &c->tally, err))
CALL(receipts_due, push_receipts_due(&t->ctx, c->who.shard, &c->due, err))
CALL(receipts_settle, push_receipts_settle(&t->ctx, &c->receipts, &c->next, &c->tally, err))
CALL(dead, push_dead_take(&t->ctx, c->who.shard, &c->more, &c->tally, err))
CALL(count, push_queued(&t->ctx, &c->queued, err))
CALL(cancel, notification_cancel(&t->ctx, c->id, &c->n, err))

/* ---- words ---- */

static bool is_on(void *ctx)
{
	(void)ctx;
	return true;
}

static void open_on(struct service *s)
{
	service_open(s, NULL);
	s->all.push_post = (struct push_post){.is_on = is_on};
}

static void devices(struct service *s, const char *user, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct bytes name = arena_printf(&s->f.arena, "d%03u", i);
		struct call  c = {.enrol = {.user = bytes_of(user),
		                            .device = name,
		                            .platform = BYTES("ios"),
		                            .devices_max = 1000,
		                            .tokens = {[PUSH_EXPO] = arena_printf(&s->f.arena,
		                                                                  "ExponentPushToken[%s-%.*s]",
		                                                                  user, BYTES_ARG(name))}}};

		turn_take(s, &c.turn, enrol);
	}
}

static struct call notifying(const char *user)
{
	return (struct call){.notify = {.user = bytes_of(user),
	                                .message = {.members = BYTES("\"title\":\"Hello\""), .ttl_s = -1}}};
}

static struct notification notified(struct service *s, const char *user)
{
	struct call c = notifying(user);

	turn_take(s, &c.turn, notify);
	return c.n;
}

static struct notification now_of(struct service *s, const struct notification *n)
{
	struct call c = {.id = n->id};
	int64_t     sum = 0;

	turn_take(s, &c.turn, get);
	for (int i = 0; i < PUSH_STATE_COUNT; i++)
		sum += c.n.counts[i];
	assert_int_equal(sum, c.n.messages); /* (1) of notification.h */
	return c.n;
}

static int64_t queued(struct service *s)
{
	struct call c = {0};

	turn_take(s, &c.turn, count);
	return c.queued;
}

/* Takes what is due in any shard; the call says which. */
static struct call taken_at_most(struct service *s, uint32_t room)
{
	struct call c = {0};

	for (uint32_t shard = 0; shard < PUSH_SHARDS && c.taken.count == 0; shard++) {
		c = (struct call){.who = {shard, BYTES("me")}, .room = room};
		turn_take(s, &c.turn, due);
		turn_take(s, &c.turn, take);
	}
	return c;
}

static struct call taken(struct service *s)
{
	return taken_at_most(s, PUSH_BATCH_MAX);
}

static void settle_as(struct service *s, struct call *c, struct push_settle how)
{
	how.who = &c->who;
	how.sent = &c->taken;
	c->settle = how;
	while (c->settle.from < c->taken.count) {
		turn_take(s, &c->turn, settle);
		assert_true(c->next > c->settle.from);
		for (; c->settle.from < c->next; c->settle.from++)
			c->settle.first_ticket += c->taken.list[c->settle.from].count;
	}
}

static struct push_ticket *tickets_ok(struct service *s, uint32_t count)
{
	struct push_ticket *list = arena_array(&s->f.arena, count, sizeof(*list));

	for (uint32_t i = 0; i < count; i++)
		list[i] = (struct push_ticket){true, arena_printf(&s->f.arena, "t%u", i), {NULL, 0}};
	return list;
}

static bool is_active(struct service *s, const char *user, const char *device)
{
	struct call c = {.ref = {bytes_of(user), bytes_of(device)}};

	turn_take(s, &c.turn, look_device);
	return c.device.active;
}

struct writing {
	struct turn turn;
	struct item item;
};

static enum err_code write_item(struct turn *t, struct err *err)
{
	(void)err;
	ctx_put(&t->ctx, TABLE_PUSH, ((struct writing *)t)->item);
	return ERR_NONE;
}

/* Writes a row, as the job that erases does. */
static void blanked(struct service *s, struct item item)
{
	struct writing w = {.item = item};

	turn_take(s, &w.turn, write_item);
}

/* ---- queueing ---- */

TEST(push, a_notification_of_250_devices_waits_as_three_batches_and_each_is_taken_once)
{
	struct service      s;
	struct notification n;
	struct call         c;
	uint32_t            batches = 0, messages = 0;

	open_on(&s);
	devices(&s, "ann", 250);
	n = notified(&s, "ann");
	assert_int_equal(n.messages, 250);
	assert_int_equal(queued(&s), 250);
	while ((c = taken(&s)).taken.count > 0) {
		batches += c.taken.count;
		messages += c.taken.messages;
		assert_true(c.taken.messages <= PUSH_BATCH_MAX);
	}
	assert_int_equal(batches, 3);
	assert_int_equal(messages, 250);
	assert_int_equal(now_of(&s, &n).counts[PUSH_SENDING], 250);
	service_close(&s);
}

TEST(push, the_queue_takes_its_maximum_and_refuses_one_more_and_nothing_is_done_3)
{
	struct service s;
	struct call    c = notifying("ann");

	open_on(&s);
	s.all.push_queue_max = 8;
	devices(&s, "ann", 2);
	for (int i = 0; i < 4; i++)
		notified(&s, "ann");
	assert_int_equal(queued(&s), 8);
	assert_int_equal(turn_try(&s, &c.turn, notify), ERR_OVERLOADED);
	assert_int_equal(queued(&s), 8);
	c = taken(&s);
	assert_int_equal(queued(&s), 8); /* being sent is not sent */
	settle_as(&s, &c, (struct push_settle){.end = PUSH_LOST});
	assert_int_equal(queued(&s), 8 - c.taken.messages);
	notified(&s, "ann");
	service_close(&s);
}

static void note_woken(void *ctx, uint32_t shards)
{
	*(uint32_t *)ctx |= shards;
}

static enum err_code enqueue_broadcast(struct turn *t, struct err *err)
{
	struct call                *c = (struct call *)t;
	const struct push_recipient to = {.user = BYTES("ann"), .device = BYTES("d000")};

	c->n.id = c->n.job = BYTES("00000000-0000-7000-8000-000000000001");
	return push_enqueue(&t->ctx, &c->n, &to, 1, err);
}

TEST(push, what_is_queued_wakes_the_workers_of_its_shards_and_no_others)
{
	struct service s;
	struct call    user, broadcast = {0};
	uint32_t       woken = 0;

	open_on(&s);
	devices(&s, "ann", 1);
	s.all.push_post.wake = note_woken;
	s.all.push_post.ctx = &woken;
	user = notifying("ann");
	turn_take(&s, &user.turn, notify);
	ctx_published(&user.turn.ctx);
	assert_int_equal(__builtin_popcount(woken), 1);
	assert_true(woken < 1u << PUSH_LANE_SHARDS);
	woken = 0;
	turn_take(&s, &broadcast.turn, enqueue_broadcast);
	ctx_published(&broadcast.turn.ctx);
	assert_int_equal(__builtin_popcount(woken), 1);
	assert_true(woken >= 1u << PUSH_LANE_SHARDS);
	service_close(&s);
}

TEST(push, a_call_with_room_for_one_takes_one_of_a_batch_and_the_rest_waits_on)
{
	struct service      s;
	struct notification n;
	struct call         c;
	uint32_t            messages = 1;

	open_on(&s);
	devices(&s, "ann", 30);
	n = notified(&s, "ann");
	c = taken_at_most(&s, 1);
	assert_true(c.taken.count == 1 && c.taken.messages == 1);
	settle_as(&s, &c, (struct push_settle){.end = PUSH_LOST});
	assert_int_equal(queued(&s), 29);
	while ((c = taken(&s)).taken.count > 0)
		messages += c.taken.messages;
	assert_int_equal(messages, 30);
	n = now_of(&s, &n);
	assert_true(n.counts[PUSH_UNKNOWN] == 1 && n.counts[PUSH_SENDING] == 29);
	service_close(&s);
}

/* ---- cancelling ---- */

static void cancelled(struct service *s, const struct notification *n)
{
	struct call c = {.id = n->id};

	turn_take(s, &c.turn, cancel);
}

TEST(push,
     what_waits_of_a_cancelled_notification_is_counted_at_once_and_leaves_the_queue_without_room_in_a_call)
{
	struct service      s;
	struct notification n;
	struct call         c = {0};

	open_on(&s);
	devices(&s, "ann", 250);
	n = notified(&s, "ann");
	cancelled(&s, &n);
	n = now_of(&s, &n);
	assert_true(n.counts[PUSH_CANCELLED] == 250 && n.counts[PUSH_QUEUED] == 0);
	assert_true(notification_ended(&n) && n.message.len == 0);
	assert_int_equal(queued(&s), 250);
	for (uint32_t shard = 0; shard < PUSH_SHARDS; shard++) {
		c = (struct call){.who = {shard, BYTES("me")}};
		turn_take(&s, &c.turn, due);
		assert_int_equal(c.due.messages, 0);
		turn_take(&s, &c.turn, take);
		assert_int_equal(c.taken.count, 0);
	}
	assert_int_equal(queued(&s), 0);
	assert_int_equal(now_of(&s, &n).counts[PUSH_CANCELLED], 250);
	service_close(&s);
}

TEST(push, what_is_being_sent_when_it_is_cancelled_is_cancelled_only_if_it_would_have_to_be_sent_again)
{
	static const enum push_end ends[] = {PUSH_LATER, PUSH_REFUSED, PUSH_TICKETS};
	struct service             s;
	struct notification        n;
	struct call                c;

	open_on(&s);
	devices(&s, "ann", 3);
	for (int i = 0; i < 3; i++) {
		n = notified(&s, "ann");
		c = taken(&s);
		cancelled(&s, &n);
		assert_int_equal(now_of(&s, &n).counts[PUSH_SENDING], 3);
		settle_as(&s, &c, (struct push_settle){.end = ends[i], .tickets = tickets_ok(&s, 3)});
		assert_int_equal(
		        now_of(&s, &n).counts[ends[i] == PUSH_TICKETS ? PUSH_ACCEPTED : PUSH_CANCELLED], 3);
		assert_int_equal(queued(&s), 0);
		assert_int_equal(taken(&s).taken.count, 0);
	}
	c = (struct call){.id = n.id};
	turn_take(&s, &c.turn, cancel); /* once more changes nothing */
	n = notified(&s, "ann");
	c = taken(&s);
	settle_as(&s, &c, (struct push_settle){.end = PUSH_TICKETS, .tickets = tickets_ok(&s, 3)});
	c = (struct call){.id = n.id};
	assert_int_equal(turn_try(&s, &c.turn, cancel), ERR_NOT_NOW);
	service_close(&s);
}

TEST(push, nobody_who_sends_is_a_clear_refusal)
{
	struct service s;
	struct call    c = notifying("ann");

	service_open(&s, NULL);
	assert_int_equal(turn_try(&s, &c.turn, notify), ERR_NOT_NOW);
	assert_non_null(strstr(s.f.err.text, "no section `push`"));
	service_close(&s);
}

/* ---- sending ---- */

TEST(push, what_was_being_sent_is_unknown_afterwards_and_never_due_again_1)
{
	struct service      s;
	struct notification n;
	struct call         c;

	open_on(&s);
	devices(&s, "ann", 3);
	n = notified(&s, "ann");
	c = taken(&s);
	assert_int_equal(c.taken.messages, 3);
	c.who.owner = BYTES("another");
	at(&s, PUSH_LEASE_S);
	turn_take(&s, &c.turn, sweep);
	assert_int_equal(c.tally.states[PUSH_UNKNOWN], 3);
	n = now_of(&s, &n);
	assert_true(n.counts[PUSH_UNKNOWN] == 3 && notification_ended(&n) && n.message.len == 0);
	at(&s, 86400);
	assert_int_equal(taken(&s).taken.count, 0);
	assert_int_equal(queued(&s), 0);
	service_close(&s);
}

TEST(push, an_answer_that_comes_after_the_sweep_changes_nothing)
{
	struct service      s;
	struct notification n;
	struct call         c, other;

	open_on(&s);
	devices(&s, "ann", 3);
	n = notified(&s, "ann");
	c = taken(&s);
	other = (struct call){.who = {c.who.shard, BYTES("another")}};
	at(&s, PUSH_LEASE_S);
	turn_take(&s, &other.turn, sweep);
	settle_as(&s, &c, (struct push_settle){.end = PUSH_TICKETS, .tickets = tickets_ok(&s, 3)});
	assert_int_equal(now_of(&s, &n).counts[PUSH_UNKNOWN], 3);
	service_close(&s);
}

TEST(push, later_waits_twice_as_long_each_time_and_at_least_as_long_as_asked)
{
	struct service      s;
	struct notification n;
	struct call         c;

	open_on(&s);
	devices(&s, "ann", 1);
	n = notified(&s, "ann");
	c = taken(&s);
	settle_as(&s, &c, (struct push_settle){.end = PUSH_LATER});
	assert_int_equal(taken(&s).taken.count, 0);
	at(&s, 1);
	c = taken(&s);
	assert_int_equal(c.taken.count, 1);
	settle_as(&s, &c, (struct push_settle){.end = PUSH_LATER, .wait_s = 60});
	at(&s, 60);
	assert_int_equal(taken(&s).taken.count, 0);
	at(&s, 61);
	assert_int_equal(taken(&s).taken.count, 1);
	assert_int_equal(now_of(&s, &n).counts[PUSH_SENDING], 1);
	service_close(&s);
}

/* Puts off whatever is due; returns the most batches that one call had. */
static uint32_t put_off(struct service *s)
{
	uint32_t    most = 0;
	struct call c;

	for (c = taken(s); c.taken.count > 0; c = taken(s)) {
		most = c.taken.count > most ? c.taken.count : most;
		settle_as(s, &c, (struct push_settle){.end = PUSH_LATER});
	}
	return most;
}

TEST(push, a_batch_that_is_put_off_again_and_again_does_not_hold_up_those_that_it_was_sent_with)
{
	struct service s;

	open_on(&s);
	devices(&s, "ann", 1);
	for (int i = 0; i <= PUSH_SHARDS; i++)
		notified(&s, "ann");
	for (int tries = 0; tries < PUSH_TRIES_TOGETHER; tries++) {
		at(&s, 1000 * tries);
		assert_true(put_off(&s) > 1);
	}
	at(&s, 1000 * PUSH_TRIES_TOGETHER);
	assert_int_equal(put_off(&s), 1);
	assert_int_equal(queued(&s), PUSH_SHARDS + 1);
	service_close(&s);
}

TEST(push, what_is_not_sent_by_its_time_has_expired_at_the_second)
{
	struct service      s;
	struct notification n, m;
	struct call         c = notifying("ann");

	open_on(&s);
	devices(&s, "ann", 1);
	c.notify.message.ttl_s = 100;
	turn_take(&s, &c.turn, notify);
	n = c.n;
	turn_take(&s, &c.turn, notify);
	m = c.n;
	at(&s, 99);
	c = taken(&s);
	settle_as(&s, &c, (struct push_settle){.end = PUSH_LOST});
	at(&s, 100);
	while (taken(&s).taken.count > 0)
		;
	assert_int_equal(now_of(&s, &n).counts[PUSH_EXPIRED] + now_of(&s, &m).counts[PUSH_EXPIRED] +
	                         now_of(&s, &n).counts[PUSH_UNKNOWN] + now_of(&s, &m).counts[PUSH_UNKNOWN],
	                 2);
	assert_int_equal(queued(&s), 0);
	service_close(&s);
}

TEST(push, a_refused_call_is_halved_until_the_one_that_is_wrong_is_alone)
{
	struct service      s;
	struct notification n;
	struct call         c;
	uint32_t            calls = 0;

	open_on(&s);
	devices(&s, "ann", 100);
	n = notified(&s, "ann");
	for (; (c = taken(&s)).taken.count > 0; calls++) {
		bool bad = false;

		for (uint32_t i = 0; i < c.taken.list[0].count; i++)
			bad = bad || bytes_is(c.taken.list[0].list[i].device, "d042");
		settle_as(&s, &c,
		          bad ? (struct push_settle){.end = PUSH_REFUSED, .code = BYTES("VALIDATION_ERROR")}
		              : (struct push_settle){.end = PUSH_TICKETS,
		                                     .tickets = tickets_ok(&s, c.taken.messages)});
	}
	n = now_of(&s, &n);
	assert_true(n.counts[PUSH_ACCEPTED] == 99 && n.counts[PUSH_FAILED] == 1);
	assert_int_equal(row_i64(&n.errors, "VALIDATION_ERROR", 0), 1);
	assert_true(calls <= 16);
	service_close(&s);
}

TEST(push, projects_are_told_apart_up_to_the_maximum_and_the_rest_goes_on_4)
{
	struct service      s;
	struct notification n;
	struct call         c;
	struct push_project projects[PUSH_PROJECTS_MAX + 1];

	open_on(&s);
	devices(&s, "ann", PUSH_PROJECTS_MAX + 4);
	n = notified(&s, "ann");
	c = taken(&s);
	for (uint32_t i = 0; i <= PUSH_PROJECTS_MAX; i++)
		projects[i] = (struct push_project){arena_printf(&s.f.arena, "@a/%u", i),
		                                    &c.taken.list[0].list[i].token, 1};
	settle_as(&s, &c,
	          (struct push_settle){.end = PUSH_REFUSED,
	                               .code = BYTES("PUSH_TOO_MANY_EXPERIENCE_IDS"),
	                               .projects = projects,
	                               .project_count = PUSH_PROJECTS_MAX + 1});
	for (uint32_t calls = 0; (c = taken(&s)).taken.count > 0; calls++) {
		assert_true(c.taken.messages == 1 || c.taken.messages == 4);
		settle_as(&s, &c,
		          (struct push_settle){.end = PUSH_TICKETS,
		                               .tickets = tickets_ok(&s, c.taken.messages)});
	}
	assert_int_equal(now_of(&s, &n).counts[PUSH_ACCEPTED], PUSH_PROJECTS_MAX + 4);
	service_close(&s);
}

TEST(push, of_two_who_saw_a_batch_due_one_takes_it_2)
{
	struct service s;
	struct call    both[2];
	uint32_t       messages = 0;

	open_on(&s);
	devices(&s, "ann", 5);
	notified(&s, "ann");
	for (uint32_t shard = 0; shard < PUSH_SHARDS; shard++) {
		for (int i = 0; i < 2; i++) {
			both[i] = (struct call){.who = {shard, i == 0 ? BYTES("a") : BYTES("b")},
			                        .room = PUSH_BATCH_MAX};
			turn_take(&s, &both[i].turn, due);
		}
		for (int i = 0; i < 2; i++) {
			turn_take(&s, &both[i].turn, take);
			messages += both[i].taken.messages;
		}
		assert_int_equal(both[1].taken.count, 0);
	}
	assert_int_equal(messages, 5);
	service_close(&s);
}

TEST(push, one_who_is_erased_while_the_message_is_sent_leaves_nothing_in_what_comes_after)
{
	struct service      s;
	struct notification n;
	struct call         c;
	struct erasing      e = {.id = BYTES("ann")};
	struct push_batch   b;
	union answer        rows;

	open_on(&s);
	devices(&s, "ann", 2);
	n = notified(&s, "ann");
	c = taken(&s);
	rows = fixture_ok(&s.f, "Scan", "{'TableName':'gatehouse-push'}");
	for (uint32_t i = 0; i < rows.query.count; i++) {
		struct context ctx = {.services = &s.all, .arena = &s.f.arena};

		if (push_owns(&ctx, &e, &rows.query.items[i]))
			blanked(&s, push_blank(&ctx, &e, &rows.query.items[i]));
	}
	settle_as(&s, &c, (struct push_settle){.end = PUSH_TICKETS, .tickets = tickets_ok(&s, 2)});
	rows = fixture_ok(&s.f, "Scan", "{'TableName':'gatehouse-push'}");
	for (uint32_t i = 0; i < rows.query.count; i++) {
		b = batch_of(&s.f.arena, &rows.query.items[i]);
		for (uint32_t k = 0; k < b.count; k++)
			assert_true(b.list[k].user.len == 0 && b.list[k].token.len == 0 &&
			            b.list[k].ticket.len > 0);
	}
	n = now_of(&s, &n);
	assert_true(n.counts[PUSH_ACCEPTED] == 2 && n.user.len == 0);
	service_close(&s);
}

/* Another user registers the token of ann's device. */
static void taken_over(struct service *s, const char *device)
{
	struct call c = {.enrol = {.user = BYTES("bob"),
	                           .device = bytes_of(device),
	                           .platform = BYTES("ios"),
	                           .devices_max = 1000,
	                           .tokens = {[PUSH_EXPO] = arena_printf(
	                                              &s->f.arena, "ExponentPushToken[ann-%s]", device)}}};

	turn_take(s, &c.turn, enrol);
}

TEST(push, a_token_that_moves_once_the_message_is_taken_is_not_sent_to)
{
	static const enum push_end ends[] = {PUSH_TICKETS, PUSH_LOST, PUSH_LATER};

	for (int i = 0; i < 3; i++) {
		struct service      s;
		struct notification n;
		struct call         c;
		struct push_ticket *tickets;

		open_on(&s);
		devices(&s, "ann", 3);
		n = notified(&s, "ann");
		c = taken(&s);
		taken_over(&s, "d001");
		turn_take(&s, &c.turn, recheck);
		assert_true(c.taken.list[0].list[0].token.len > 0 && c.taken.list[0].list[2].token.len > 0);
		assert_int_equal(c.taken.list[0].list[1].token.len, 0);
		tickets = tickets_ok(&s, 3);
		tickets[1].ok = false; /* there was none for it */
		settle_as(&s, &c, (struct push_settle){.end = ends[i], .tickets = i == 0 ? tickets : NULL});
		n = now_of(&s, &n);
		assert_int_equal(n.counts[PUSH_SKIPPED], 1);
		assert_int_equal(n.counts[i == 0 ? PUSH_ACCEPTED : i == 1 ? PUSH_UNKNOWN : PUSH_QUEUED], 2);
		assert_int_equal(queued(&s), i == 2 ? 2 : 0);
		service_close(&s);
	}
}

TEST(push, one_who_is_deactivated_or_gone_once_the_message_is_taken_gets_nothing)
{
	struct service      s;
	struct notification n;
	struct call         c;

	open_on(&s);
	devices(&s, "ann", 1);
	n = notified(&s, "ann");
	c = taken(&s);
	fixture_ok(&s.f, "DeleteItem",
	           "{'TableName':'device-tokens','Key':{'userId':{'S':'ann'},'deviceId':{'S':'d000'}}}");
	turn_take(&s, &c.turn, recheck);
	settle_as(&s, &c, (struct push_settle){.end = PUSH_TICKETS, .tickets = tickets_ok(&s, 1)});
	n = now_of(&s, &n);
	assert_true(n.counts[PUSH_SKIPPED] == 1 && notification_ended(&n));
	service_close(&s);
}

/* ---- receipts and dead tokens ---- */

TEST(push, receipts_are_due_after_15_minutes_and_given_up_after_a_day)
{
	struct service      s;
	struct notification n;
	struct call         c, r;
	struct push_receipt list[3] = {{true, true, {NULL, 0}}, {true, false, BYTES("MessageTooBig")}, {0}};

	open_on(&s);
	devices(&s, "ann", 3);
	n = notified(&s, "ann");
	c = taken(&s);
	settle_as(&s, &c, (struct push_settle){.end = PUSH_TICKETS, .tickets = tickets_ok(&s, 3)});
	r = (struct call){.who = c.who};
	at(&s, PUSH_RECEIPT_S - 1);
	turn_take(&s, &r.turn, receipts_due);
	assert_int_equal(r.due.count, 0);
	at(&s, PUSH_RECEIPT_S);
	turn_take(&s, &r.turn, receipts_due);
	assert_int_equal(r.due.messages, 3);
	r.receipts = (struct push_receipts){.shard = c.who.shard, .asked = &r.due, .list = list};
	turn_take(&s, &r.turn, receipts_settle);
	n = now_of(&s, &n);
	assert_true(n.counts[PUSH_DELIVERED] == 1 && n.counts[PUSH_FAILED] == 1 &&
	            n.counts[PUSH_ACCEPTED] == 1);
	at(&s, PUSH_RECEIPT_S_MAX);
	turn_take(&s, &r.turn, receipts_due);
	assert_int_equal(r.due.messages, 1);
	r.receipts = (struct push_receipts){.shard = c.who.shard, .asked = &r.due, .list = &list[2]};
	turn_take(&s, &r.turn, receipts_settle);
	n = now_of(&s, &n);
	assert_true(n.counts[PUSH_UNCONFIRMED] == 1 && notification_ended(&n));
	service_close(&s);
}

TEST(push, the_end_of_a_notification_is_told_once_as_sent_if_one_device_or_more_may_have_it)
{
	for (int failed = 0; failed <= 1; failed++) {
		struct push_receipt list[2] = {{true, !failed, BYTES("MessageTooBig")},
		                               {true, false, BYTES("MessageTooBig")}};
		enum event_type     type = failed ? EVENT_PUSH_FAILED : EVENT_PUSH_SENT;
		struct service      s;
		struct notification n;
		struct call         c, r;
		struct item         data;

		open_on(&s);
		s.all.events.on = EVENT_BIT(EVENT_PUSH_SENT) | EVENT_BIT(EVENT_PUSH_FAILED);
		devices(&s, "ann", 2);
		n = notified(&s, "ann");
		c = taken(&s);
		settle_as(&s, &c, (struct push_settle){.end = PUSH_TICKETS, .tickets = tickets_ok(&s, 2)});
		assert_false(has_events(&s)); /* it has not ended */
		at(&s, PUSH_RECEIPT_S);
		r = (struct call){.who = c.who};
		turn_take(&s, &r.turn, receipts_due);
		r.receipts = (struct push_receipts){.shard = c.who.shard, .asked = &r.due, .list = list};
		turn_take(&s, &r.turn, receipts_settle);
		assert_int_equal(events_of(&s, type).count, 1);
		assert_int_equal(events_of(&s, failed ? EVENT_PUSH_SENT : EVENT_PUSH_FAILED).count, 0);
		assert_bytes(row_text(&events_of(&s, type).items[0], "subject"), "ann");
		data = event_data(&events_of(&s, type).items[0]);
		assert_true(bytes_equal(row_text(&data, "notificationId"), n.id));
		assert_int_equal(row_i64(&data, "messages", 0), 2);
		service_close(&s);
	}
}

TEST(push, a_hundred_dead_tokens_are_disabled_over_several_commits)
{
	struct service      s;
	struct notification n;
	struct call         c, d;
	struct push_ticket  tickets[100];

	open_on(&s);
	devices(&s, "ann", 100);
	n = notified(&s, "ann");
	c = taken(&s);
	for (int i = 0; i < 100; i++)
		tickets[i] = (struct push_ticket){.error = BYTES("DeviceNotRegistered")};
	settle_as(&s, &c, (struct push_settle){.end = PUSH_TICKETS, .tickets = tickets});
	d = (struct call){.who = c.who};
	do
		turn_take(&s, &d.turn, dead);
	while (d.more);
	n = now_of(&s, &n);
	assert_true(n.disabled == 100 && n.counts[PUSH_FAILED] == 100 && notification_ended(&n));
	assert_false(is_active(&s, "ann", "d000") || is_active(&s, "ann", "d099"));
	service_close(&s);
}

TEST(push, a_device_that_was_registered_again_after_the_message_stays_active)
{
	struct service     s;
	struct call        c, d;
	struct push_ticket ticket = {.error = BYTES("DeviceNotRegistered")};

	open_on(&s);
	devices(&s, "ann", 1);
	notified(&s, "ann");
	c = taken(&s);
	settle_as(&s, &c, (struct push_settle){.end = PUSH_TICKETS, .tickets = &ticket});
	at(&s, 10);
	devices(&s, "ann", 1);
	d = (struct call){.who = c.who};
	turn_take(&s, &d.turn, dead);
	assert_true(is_active(&s, "ann", "d000"));
	service_close(&s);
}

TEST(push, a_device_that_is_registered_again_during_the_call_stays_active)
{
	struct service     s;
	struct call        c, d;
	struct push_ticket ticket = {.error = BYTES("DeviceNotRegistered")};

	open_on(&s);
	devices(&s, "ann", 1);
	notified(&s, "ann");
	c = taken(&s);
	at(&s, 5);
	devices(&s, "ann", 1);
	at(&s, 10);
	settle_as(&s, &c, (struct push_settle){.end = PUSH_TICKETS, .tickets = &ticket});
	d = (struct call){.who = c.who};
	turn_take(&s, &d.turn, dead);
	assert_true(is_active(&s, "ann", "d000"));
	service_close(&s);
}

/* As others write it: without a marker. */
static void device_literally(struct service *s)
{
	fixture_ok(&s->f, "PutItem",
	           "{'TableName':'device-tokens','Item':{'userId':{'S':'eve'},'deviceId':{'S':'phone'},"
	           "'expoPushToken':{'S':'ExponentPushToken[eve]'},'platform':{'S':'ios'},"
	           "'isActive':{'BOOL':true},'updatedAt':{'S':'2001-01-01T00:00:00Z'}}}");
}

TEST(push, a_dead_token_of_a_row_that_others_wrote_is_disabled_by_its_ticket_and_by_its_receipt)
{
	struct push_ticket  bad = {.error = BYTES("DeviceNotRegistered")};
	struct push_receipt gone = {true, false, BYTES("DeviceNotRegistered")};

	for (int by_receipt = 0; by_receipt < 2; by_receipt++) {
		struct service      s;
		struct notification n;
		struct call         c, r, d;

		open_on(&s);
		devices(&s, "ann", 1); /* makes the table */
		device_literally(&s);
		n = notified(&s, "eve");
		c = taken(&s);
		settle_as(&s, &c,
		          (struct push_settle){.end = PUSH_TICKETS,
		                               .tickets = by_receipt ? tickets_ok(&s, 1) : &bad});
		at(&s, PUSH_RECEIPT_S);
		r = (struct call){.who = c.who};
		turn_take(&s, &r.turn, receipts_due);
		r.receipts = (struct push_receipts){.shard = c.who.shard, .asked = &r.due, .list = &gone};
		turn_take(&s, &r.turn, receipts_settle);
		d = (struct call){.who = c.who};
		turn_take(&s, &d.turn, dead);
		assert_false(is_active(&s, "eve", "phone"));
		assert_int_equal(now_of(&s, &n).disabled, 1);
		service_close(&s);
	}
}

TEST(push, a_call_of_as_many_notifications_as_it_may_have_is_settled_however_it_ends)
{
	struct push_ticket gone[PUSH_BATCH_MAX];

	for (uint32_t i = 0; i < PUSH_BATCH_MAX; i++)
		gone[i] = (struct push_ticket){.error = BYTES("DeviceNotRegistered")};
	for (int end = 0; end < PUSH_END_COUNT; end++) {
		struct service s;
		struct call    c, d;
		uint32_t       most = 0;

		open_on(&s);
		s.all.events.on = EVENT_ALL;
		for (int i = 0; i < 80; i++) {
			const char *user = arena_printf(&s.f.arena, "user-%d", i).data;

			devices(&s, user, 1);
			notified(&s, user);
		}
		while ((c = taken(&s)).taken.count > 0 && most < PUSH_CALL_BATCHES_MAX) {
			most = c.taken.count > most ? c.taken.count : most;
			settle_as(&s, &c,
			          (struct push_settle){.end = (enum push_end)end,
			                               .tickets = end == PUSH_TICKETS ? gone : NULL,
			                               .code = BYTES("VALIDATION_ERROR")});
		}
		assert_int_equal(most, PUSH_CALL_BATCHES_MAX);
		d = (struct call){.who = c.who};
		do
			turn_take(&s, &d.turn, dead);
		while (d.more);
		service_close(&s);
	}
}

TEST(push, a_sweep_of_as_many_as_there_may_be_is_one_commit_after_the_other)
{
	struct service s;
	struct call    c;
	uint64_t       unknown = 0;
	uint32_t       took = 0;

	open_on(&s);
	s.all.events.on = EVENT_ALL;
	for (int i = 0; i < 80; i++) {
		const char *user = arena_printf(&s.f.arena, "user-%d", i).data;

		devices(&s, user, 1);
		notified(&s, user);
	}
	while ((c = taken(&s)).taken.count > 0)
		took += c.taken.messages;
	at(&s, PUSH_LEASE_S);
	for (uint32_t shard = 0; shard < PUSH_SHARDS; shard++) {
		c = (struct call){.who = {shard, BYTES("another")}};
		do {
			turn_take(&s, &c.turn, sweep);
			unknown += c.tally.states[PUSH_UNKNOWN];
		} while (c.tally.states[PUSH_UNKNOWN] > 0);
	}
	assert_int_equal(took, 80);
	assert_int_equal(unknown, 80);
	service_close(&s);
}
