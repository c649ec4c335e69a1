/* Consumers: members that share the events of a log by subject. The numbers are those of consumer.h. */
#include "service/scene.h"

#include "service/consumer.h"
#include "service/target.h"

enum { SUBJECTS = 12 };

static void open_with(struct scene *x, uint64_t seed, bool calm)
{
	scene_open_anywhere(x, seed, calm);
	x->s.all.events.on = EVENT_ALL;
	x->s.all.events.shards = 1;
}

/* ---- calls, each as often as it takes ---- */

static enum err_code run_again(struct scene *x, struct act *act)
{
	act->base = (struct turn_request){.run = act_run_again};
	act->x = x;
	return store_run(x->store, &act->base, &x->s.f.err);
}

static enum err_code publish_round(struct act *act, struct err *err)
{
	for (int i = 0; i < SUBJECTS; i++)
		ctx_publish(&act->ctx, &(struct event){.type = EVENT_LOCK_SET,
		                                       .subject = arena_printf(act->ctx.arena, "s%d", i)});
	return commit(act, err);
}

static void publish(struct scene *x, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		struct act act = {.run = publish_round};

		assert_int_equal(run_again(x, &act), ERR_NONE);
	}
}

static enum err_code make(struct act *act, struct err *err)
{
	struct consumer_put put;
	struct consumer_new q = {.name = BYTES("c"),
	                         .partitions = (uint32_t)act->n,
	                         .from = {.shards = event_shards(act->ctx.services)}};

	if (consumer_put(&act->ctx, &q, &put, err) != ERR_NONE)
		return err->code;
	return commit(act, err);
}

static void make_consumer(struct scene *x, int partitions)
{
	struct act act = {.run = make, .n = partitions};

	assert_int_equal(run_again(x, &act), ERR_NONE);
}

struct call {
	struct act            act;
	const char           *member;
	int64_t               lease_s, generation, after;
	bool                  leave;
	struct consumer_share share;
};

static enum err_code join_run(struct act *act, struct err *err)
{
	struct call         *c = (struct call *)act;
	struct consumer_poll q = {.name = BYTES("c"),
	                          .member = bytes_of(c->member),
	                          .lease_s = c->lease_s > 0 ? c->lease_s : 30};

	if (consumer_join(&act->ctx, &q, &c->share, err) != ERR_NONE)
		return err->code;
	return commit(act, err);
}

static enum err_code ack_run(struct act *act, struct err *err)
{
	struct call        *c = (struct call *)act;
	struct consumer_ack q = {.name = BYTES("c"),
	                         .member = bytes_of(c->member),
	                         .generation = c->generation,
	                         .after = {.shards = 1, .after = {c->after}},
	                         .leave = c->leave};

	if (consumer_ack(&act->ctx, &q, &c->share, err) != ERR_NONE)
		return err->code;
	return commit(act, err);
}

static enum err_code seek_run(struct act *act, struct err *err)
{
	struct event_cursor to = {.shards = 1, .after = {act->n}};
	struct consumer     c;
	struct event_move   move;

	if (consumer_seek(&act->ctx, &(struct consumer_seek){BYTES("c"), to}, &c, &move, err) != ERR_NONE)
		return err->code;
	return commit(act, err);
}

static struct consumer_share join(struct scene *x, const char *member)
{
	struct call c = {.act = {.run = join_run}, .member = member};

	if (run_again(x, &c.act) != ERR_NONE)
		fail_msg("%s", x->s.f.err.text);
	return c.share;
}

static enum err_code ack(struct scene *x, const char *member, const struct consumer_share *s, int64_t after)
{
	struct call c = {
	        .act = {.run = ack_run}, .member = member, .generation = s->generation, .after = after};

	return run_again(x, &c.act);
}

static struct consumer consumer_now(struct scene *x)
{
	struct store   *store = x->store;
	struct context  ctx = {.services = &x->s.all, .arena = &x->s.f.arena};
	struct consumer c;

	ctx_begin(&ctx, store->backend->read_begin(store, ctx.arena));
	assert_int_equal(consumer_get(&ctx, BYTES("c"), &c, &x->s.f.err), ERR_NONE);
	store->backend->read_end(store, ctx.table);
	return c;
}

static int64_t position_now(struct scene *x)
{
	struct consumer     c = consumer_now(x);
	struct event_cursor at, stored;

	consumer_position(&c, &at);
	cursor_of(item_get(&c.row, BYTES("positions")), &stored);
	assert_int_equal(stored.shards, x->s.all.events.shards);
	assert_true(event_cursor_reaches(&stored, &at) && event_cursor_reaches(&at, &stored)); /* (5) */
	return event_cursor_distance(&(struct event_cursor){.shards = at.shards}, &at);
}

/* How many partitions of the share are others' too. */
static int overlap(const struct consumer_share *a, const struct consumer_share *b)
{
	return __builtin_popcountll(a->mask & b->mask);
}

/* ---- shares ---- */

TEST(consumers, have_one_member_with_all_partitions_and_a_position_that_it_moves)
{
	struct scene          x;
	struct consumer_share s;

	open_with(&x, 1, true);
	publish(&x, 2);
	make_consumer(&x, 8);
	s = join(&x, "a");
	assert_int_equal(s.mask, 0xff);
	assert_int_equal(s.from.after[0], 0);
	assert_int_equal(ack(&x, "a", &s, 10), ERR_NONE);
	assert_int_equal(position_now(&x), 10);
	assert_int_equal(ack(&x, "a", &s, 4), ERR_NONE); /* (4) */
	assert_int_equal(position_now(&x), 10);
	assert_int_equal(join(&x, "a").from.after[0], 10);
	scene_close(&x);
}

TEST(consumers, are_shared_by_subject_once_those_who_have_too_much_poll_again)
{
	struct scene          x;
	struct consumer_share a, b, c;

	open_with(&x, 1, true);
	make_consumer(&x, 8);
	a = join(&x, "a");
	b = join(&x, "b");
	assert_int_equal(b.mask, 0); /* (2) */
	a = join(&x, "a");
	b = join(&x, "b");
	assert_int_equal(__builtin_popcountll(a.mask), 4);
	assert_int_equal(a.mask | b.mask, 0xff);
	c = join(&x, "c");
	a = join(&x, "a");
	b = join(&x, "b");
	c = join(&x, "c");
	assert_int_equal(a.mask | b.mask | c.mask, 0xff);
	assert_int_equal(overlap(&a, &b) + overlap(&b, &c) + overlap(&a, &c), 0);
	scene_close(&x);
}

TEST(consumers, with_more_members_than_partitions_let_the_others_wait)
{
	struct scene x;

	open_with(&x, 1, true);
	make_consumer(&x, 1);
	assert_int_equal(join(&x, "a").mask, 1);
	assert_int_equal(join(&x, "b").mask, 0);
	assert_int_equal(join(&x, "a").mask, 1);
	scene_close(&x);
}

TEST(consumers, give_the_share_of_a_member_that_died_to_others_who_begin_where_it_was)
{
	struct scene          x;
	struct consumer_share dead, b;

	open_with(&x, 1, true);
	publish(&x, 2);
	make_consumer(&x, 8);
	dead = join(&x, "dead");
	assert_int_equal(ack(&x, "dead", &dead, 7), ERR_NONE);
	assert_int_equal(join(&x, "b").mask, 0);
	at(&x.s, 29);
	assert_int_equal(join(&x, "b").mask, 0);
	at(&x.s, 30);
	b = join(&x, "b");
	assert_int_equal(b.mask, 0xff);
	assert_int_equal(b.from.after[0], 7);
	assert_int_equal(ack(&x, "dead", &dead, 20), ERR_NOT_NOW); /* (3) */
	assert_int_equal(position_now(&x), 7);
	dead = join(&x, "dead"); /* it lives again, and has nothing until b polls */
	assert_int_equal(dead.mask, 0);
	assert_int_equal(ack(&x, "b", &b, 20), ERR_NONE);
	scene_close(&x);
}

TEST(consumers, refuse_an_acknowledgement_of_a_share_that_has_changed)
{
	struct scene          x;
	struct consumer_share a, again;

	open_with(&x, 1, true);
	publish(&x, 1);
	make_consumer(&x, 8);
	a = join(&x, "a");
	join(&x, "b");
	assert_int_equal(ack(&x, "a", &a, 3), ERR_NONE); /* it still has all that it was given */
	again = join(&x, "a");
	assert_int_equal(ack(&x, "a", &a, 9), ERR_NOT_NOW);
	assert_int_equal(ack(&x, "a", &again, 9), ERR_NONE);
	assert_int_equal(position_now(&x), 3); /* of the partitions that b has not taken yet */
	scene_close(&x);
}

static enum err_code make_of_users(struct act *act, struct err *err)
{
	static const struct bytes users = BYTES_INIT("user.*");
	struct consumer_put       put;
	struct consumer_new       q = {
	              .name = BYTES("c"), .patterns = &users, .pattern_count = 1, .from = {.shards = 1}};

	if (consumer_put(&act->ctx, &q, &put, err) != ERR_NONE)
		return err->code;
	return commit(act, err);
}

static enum err_code delete_it(struct act *act, struct err *err)
{
	if (consumer_delete(&act->ctx, BYTES("c"), err) != ERR_NONE)
		return err->code;
	return commit(act, err);
}

TEST(consumers, that_get_other_types_refuse_what_was_read_without_them)
{
	struct scene          x;
	struct consumer_share a;
	struct act            types = {.run = make_of_users};

	open_with(&x, 1, true);
	publish(&x, 1);
	make_consumer(&x, 8);
	a = join(&x, "a");
	make_consumer(&x, 8); /* nothing changes */
	assert_int_equal(ack(&x, "a", &a, 3), ERR_NONE);
	assert_int_equal(run_again(&x, &types), ERR_NONE);
	assert_int_equal(ack(&x, "a", &a, 12), ERR_NOT_NOW);
	assert_int_equal(position_now(&x), 3);
	a = join(&x, "a");
	assert_int_equal(ack(&x, "a", &a, 12), ERR_NONE);
	assert_int_equal(run_again(&x, &types), ERR_NONE);
	assert_int_equal(ack(&x, "a", &a, 12), ERR_NONE);
	scene_close(&x);
}

TEST(consumers, that_are_made_anew_refuse_what_the_old_ones_of_their_name_gave)
{
	struct scene          x;
	struct consumer_share old, now;
	struct act            gone = {.run = delete_it};

	open_with(&x, 1, true);
	publish(&x, 1);
	make_consumer(&x, 8);
	old = join(&x, "a");
	assert_int_equal(run_again(&x, &gone), ERR_NONE);
	make_consumer(&x, 8);
	now = join(&x, "a");
	assert_int_equal(ack(&x, "a", &old, 12), ERR_NOT_NOW);
	assert_int_equal(position_now(&x), 0);
	assert_int_equal(ack(&x, "a", &now, 12), ERR_NONE);
	scene_close(&x);
}

TEST(consumers, are_moved_by_seek_which_refuses_what_was_given_before)
{
	struct scene          x;
	struct consumer_share a;
	struct act            seek = {.run = seek_run, .n = 2}, far = {.run = seek_run, .n = 1000};

	open_with(&x, 1, true);
	publish(&x, 1);
	make_consumer(&x, 8);
	a = join(&x, "a");
	assert_int_equal(ack(&x, "a", &a, 12), ERR_NONE);
	assert_int_equal(run_again(&x, &seek), ERR_NONE);
	assert_int_equal(position_now(&x), 2);
	assert_int_equal(ack(&x, "a", &a, 12), ERR_NOT_NOW);
	assert_int_equal(run_again(&x, &far), ERR_INVALID);
	assert_int_equal(ack(&x, "a", &(struct consumer_share){.generation = join(&x, "a").generation}, 13),
	                 ERR_INVALID); /* past the log's end */
	scene_close(&x);
}

TEST(consumers, that_get_another_number_of_partitions_begin_at_the_earliest_position)
{
	struct scene          x;
	struct consumer_share a, b;

	open_with(&x, 1, true);
	publish(&x, 1);
	make_consumer(&x, 2);
	join(&x, "a");
	join(&x, "b");
	a = join(&x, "a");
	b = join(&x, "b");
	assert_int_equal(ack(&x, "a", &a, 5), ERR_NONE);
	assert_int_equal(ack(&x, "b", &b, 9), ERR_NONE);
	make_consumer(&x, 4);
	assert_int_equal(position_now(&x), 5);
	assert_int_equal(ack(&x, "b", &b, 12), ERR_NOT_NOW);
	make_consumer(&x, 4); /* the same: nothing changes */
	assert_int_equal(position_now(&x), 5);
	scene_close(&x);
}

TEST(consumers, that_a_member_leaves_are_free_for_others_at_once)
{
	struct scene x;
	struct call  leave = {.act = {.run = ack_run}, .member = "a", .leave = true, .after = 3};

	open_with(&x, 1, true);
	publish(&x, 1);
	make_consumer(&x, 8);
	leave.generation = join(&x, "a").generation;
	assert_int_equal(run_again(&x, &leave.act), ERR_NONE);
	assert_int_equal(consumer_now(&x).member_count, 0);
	assert_int_equal(join(&x, "b").mask, 0xff);
	assert_int_equal(position_now(&x), 3);
	scene_close(&x);
}

TEST(consumers, need_no_write_for_a_poll_while_a_members_share_is_right)
{
	struct scene          x;
	struct consumer_poll  q = {.name = BYTES("c"), .member = BYTES("a"), .lease_s = 30};
	struct consumer_share s;
	struct consumer       c;

	open_with(&x, 1, true);
	make_consumer(&x, 8);
	c = consumer_now(&x);
	assert_false(consumer_holds(&c, &q, START_S, &s));
	join(&x, "a");
	c = consumer_now(&x);
	assert_true(consumer_holds(&c, &q, START_S + 15, &s));
	assert_int_equal(s.mask, 0xff);
	assert_false(consumer_holds(&c, &q, START_S + 16, &s)); /* half of its lease is over */
	join(&x, "b");
	c = consumer_now(&x);
	assert_false(consumer_holds(&c, &q, START_S, &s)); /* it has too much */
	scene_close(&x);
}

/* ---- bounds ---- */

static enum err_code make_named(struct act *act, struct err *err)
{
	struct consumer_put put;
	struct consumer_new q = {.name = arena_printf(act->ctx.arena, "c%d", act->n), .from = {.shards = 1}};

	if (consumer_put(&act->ctx, &q, &put, err) != ERR_NONE)
		return err->code;
	return commit(act, err);
}

static enum err_code delete_named(struct act *act, struct err *err)
{
	if (consumer_delete(&act->ctx, arena_printf(act->ctx.arena, "c%d", act->n), err) != ERR_NONE)
		return err->code;
	return commit(act, err);
}

TEST(consumers, are_bounded_and_a_deleted_one_makes_room)
{
	struct scene x;
	struct act   one = {.run = make_named}, gone = {.run = delete_named, .n = 3};

	open_with(&x, 1, true);
	for (int i = 0; i < CONSUMERS_MAX; i++) {
		one.n = i;
		assert_int_equal(run_again(&x, &one), ERR_NONE);
	}
	one.n = CONSUMERS_MAX;
	assert_int_equal(run_again(&x, &one), ERR_LIMIT);
	one.n = 5; /* it is there: nothing is added */
	assert_int_equal(run_again(&x, &one), ERR_NONE);
	assert_int_equal(run_again(&x, &gone), ERR_NONE);
	assert_int_equal(run_again(&x, &gone), ERR_NOT_FOUND);
	one.n = CONSUMERS_MAX;
	assert_int_equal(run_again(&x, &one), ERR_NONE);
	scene_close(&x);
}

TEST(consumers, have_at_most_so_many_members)
{
	struct scene x;
	struct call  c = {.act = {.run = join_run}};
	char         names[CONSUMER_MEMBERS_MAX + 1][8];

	open_with(&x, 1, true);
	make_consumer(&x, CONSUMER_PARTITIONS_MAX);
	for (int i = 0; i <= CONSUMER_MEMBERS_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "m%d", i);
		c.member = names[i];
		assert_int_equal(run_again(&x, &c.act), i < CONSUMER_MEMBERS_MAX ? ERR_NONE : ERR_LIMIT);
	}
	scene_close(&x);
}

/* ---- among others ---- */

enum { MEMBERS = 4, ROUNDS = 12 };

/* What the members have dealt with: of each subject the last seq, in the order in which it was done. */
struct work {
	int64_t done[SUBJECTS];
	int     again; /* that were given more than once */
};

struct worker_act {
	struct act   act;
	char         member[8];
	struct work *work;
	bool         dies; /* before it acknowledges */
};

static void work_on(struct worker_act *w, const struct event_seen *e)
{
	int     subject = (int)test_number(e->subject, 1);
	int64_t done = w->work->done[subject];

	if (e->seq > done + 1)
		fail_msg("%s: %lld came after %lld", w->member, (long long)e->seq, (long long)done);
	w->work->again += e->seq <= done;
	if (e->seq == done + 1)
		w->work->done[subject] = e->seq;
}

/* One poll: join, read, work, acknowledge; other members run between any two of its calls. */
static enum err_code poll_run(struct act *act, struct err *err)
{
	struct worker_act    *w = (struct worker_act *)act;
	struct consumer_poll  q = {.name = BYTES("c"), .member = bytes_of(w->member), .lease_s = 30};
	struct consumer_share share;
	struct event_query    events = {.limit = 10};
	struct event_page     page;
	struct consumer_ack   ack = {.name = q.name, .member = q.member};
	enum err_code         rc;

	if (consumer_join(&act->ctx, &q, &share, err) != ERR_NONE || commit(act, err) != ERR_NONE)
		return err->code;
	ctx_begin(&act->ctx, act->ctx.table);
	events.after = share.from;
	events.filter = (struct event_filter){
	        .types = EVENTS_ALL_TYPES, .partitions = share.partition_count, .mask = share.mask};
	if (share.mask == 0)
		return ERR_NONE;
	if (events_read(&act->ctx, &events, &page, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < page.count; i++) {
		const struct event_seen *e = &page.list[i];

		if (consumer_wants(&share, e->shard, e->position, event_subject_hash(e->subject)))
			work_on(w, e);
	}
	if (w->dies)
		return ERR_NONE;
	ack.generation = share.generation;
	ack.after = page.next;
	ctx_begin(&act->ctx, act->ctx.table);
	rc = consumer_ack(&act->ctx, &ack, &share, err);
	if (rc == ERR_NOT_NOW) /* its lease lapsed meanwhile: others have it */
		return ERR_NONE;
	return rc != ERR_NONE ? rc : commit(act, err);
}

static void share_among(uint64_t seed, uint32_t shards)
{
	struct scene      x;
	struct work       work = {0};
	struct worker_act workers[MEMBERS];
	struct act       *acts[MEMBERS];

	open_with(&x, seed, false);
	x.s.all.events.shards = shards;
	make_consumer(&x, 5);
	for (int round = 0; round < ROUNDS * 4; round++) {
		if (round < ROUNDS)
			publish(&x, 1);
		rough_hold(scene_rough(&x));
		for (int i = 0; i < MEMBERS; i++) {
			workers[i] = (struct worker_act){.work = &work,
			                                 .dies = round < ROUNDS && (round + i) % 5 == 0};
			workers[i].act = (struct act){
			        .base = {.run = act_run_again, .done = act_done}, .x = &x, .run = poll_run};
			snprintf(workers[i].member, sizeof(workers[i].member), "m%d", i);
			acts[i] = &workers[i].act;
			assert_int_equal(rough_submit(&x.rough->base, &acts[i]->base, &x.s.f.err), ERR_NONE);
		}
		rough_release(x.rough);
		rough_finish(x.rough);
		for (int i = 0; i < MEMBERS; i++)
			if (acts[i]->base.rc != ERR_NONE)
				fail_msg("seed %lu: %s", seed, acts[i]->base.err.text);
		at(&x.s,
		   (round + 1) * (round % 3 == 0 ? 40 : 1) + round * 40); /* now and then leases lapse */
	}
	for (int i = 0; i < SUBJECTS; i++)
		assert_int_equal(work.done[i], ROUNDS);
	assert_int_equal(position_now(&x), ROUNDS * SUBJECTS);
	assert_true(work.again > 0); /* those who died were given it */
	scene_close(&x);
}

TEST(consumers, of_members_that_come_go_and_die_get_every_event_in_the_order_of_its_subject)
{
	for (uint64_t seed = 1; seed <= 6; seed++)
		share_among(seed, seed % 2 == 0 ? 4 : 1);
}
