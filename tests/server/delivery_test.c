/* Deliveries: whoever else is told of events is told, with targets and without; a target gets what was published before it came, and what comes
 * then. What targets promise is tested in tests/service/delivery_test.c and tests/e2e/test_targets.py. */
#include "service/turn.h"

#include <time.h>

#include "scripted.h"
#include "server/delivery.h"
#include "service/delivery.h"

enum { PATIENCE_MS = 60000 };

struct world {
	struct service   s;
	struct peer     *receiver;
	struct delivery *delivery;
	atomic_uint      told; /* the one who was told of events before */
};

static void note_told(void *ctx)
{
	atomic_fetch_add(&((struct world *)ctx)->told, 1);
}

static void world_open(struct world *w)
{
	struct delivery_options o = {.services = &w->s.all, .clock = clock_system(), .allow_private = true};

	*w = (struct world){0};
	service_open(&w->s, NULL);
	w->s.all.events.on = EVENT_ALL;
	w->s.all.events.shards = 1;
	w->s.all.event_post = (struct event_post){note_told, w};
	w->receiver = peer_open(
	        0, PEER_SCRIPT({PEER_ANSWER, "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"}));
	o.store = w->s.rough != NULL ? &w->s.rough->base : engine_store(fixture_engine(&w->s.f));
	assert_int_equal(delivery_open(&w->delivery, &o, &w->s.f.err), ERR_NONE);
}

static void world_close(struct world *w)
{
	delivery_close(w->delivery);
	assert_ptr_equal(w->s.all.event_post.ctx, w);
	peer_close(w->receiver);
	service_close(&w->s);
}

/* ---- calls ---- */

struct call {
	struct turn       turn;
	struct target_new make;
	struct target_put put;
};

static enum err_code publish_one(struct turn *t, struct err *err)
{
	(void)err;
	ctx_publish(&t->ctx, &(struct event){.type = EVENT_LOCK_SET, .subject = BYTES("ann")});
	return ERR_NONE;
}

static enum err_code put_target(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return target_put(&t->ctx, &c->make, &c->put, err);
}

static enum err_code delete_target(struct turn *t, struct err *err)
{
	return target_delete(&t->ctx, BYTES("hook"), err);
}

/* As the dispatcher does: others are told once it is durable. */
static void publish(struct world *w, int count)
{
	for (int i = 0; i < count; i++) {
		struct call c = {0};

		turn_take(&w->s, &c.turn, publish_one);
		ctx_published(&c.turn.ctx);
	}
}

static void changed(struct world *w)
{
	w->s.all.target_post.changed(w->s.all.target_post.ctx);
}

static void make_target_with(struct world *w, enum err_code (*put)(struct turn *, struct err *))
{
	struct call c = {.make = {.name = BYTES("hook"),
	                          .type = target_type_find(BYTES("webhook")),
	                          .lanes = 4,
	                          .tries = 10,
	                          .disable_after_s = 100,
	                          .enabled = true,
	                          .from = TARGET_FROM_START}};
	struct row  settings;

	row_init(&settings, &w->s.f.arena);
	row_set_text(&settings, "url",
	             arena_printf(&w->s.f.arena, "http://127.0.0.1:%u/hook", w->receiver->port));
	c.make.settings = row_item(&settings);
	turn_take(&w->s, &c.turn, put);
	changed(w);
}

static void make_target(struct world *w)
{
	make_target_with(w, put_target);
}

/* Workers are in threads of their own: what they do comes soon. */
static void await_delivered(struct world *w, unsigned count)
{
	struct timespec pause = {0, 5000000};

	for (int ms = 0; ms < PATIENCE_MS && peer_requests(w->receiver) < count; ms += 5)
		nanosleep(&pause, NULL);
	assert_int_equal(peer_requests(w->receiver), count);
}

static void await_targets(struct world *w, unsigned count)
{
	struct target_reading readings[TARGETS_MAX];
	struct timespec       pause = {0, 5000000};
	unsigned              seen = TARGETS_MAX;

	for (int ms = 0; ms < PATIENCE_MS && seen != count; ms += 5) {
		seen = w->s.all.target_post.read(w->s.all.target_post.ctx, readings);
		nanosleep(&pause, NULL);
	}
	assert_int_equal(seen, count);
}

/* ---- tests ---- */

TEST(delivery, without_targets_passes_on_that_events_came)
{
	struct world w;

	world_open(&w);
	publish(&w, 3);
	assert_int_equal(atomic_load(&w.told), 3);
	world_close(&w);
}

TEST(delivery, to_a_target_begins_with_what_was_published_while_there_was_none)
{
	struct world w;

	world_open(&w);
	publish(&w, 3);
	make_target(&w);
	await_delivered(&w, 3);
	publish(&w, 1);
	await_delivered(&w, 4);
	assert_int_equal(atomic_load(&w.told), 4);
	world_close(&w);
}

TEST(delivery, without_targets_again_wakes_nobody_and_still_passes_on_that_events_came)
{
	struct world w;
	struct call  c = {0};

	world_open(&w);
	make_target(&w);
	publish(&w, 1);
	await_delivered(&w, 1);
	turn_take(&w.s, &c.turn, delete_target);
	changed(&w);
	await_targets(&w, 0);
	publish(&w, 2);
	assert_int_equal(atomic_load(&w.told), 3);
	assert_int_equal(peer_requests(w.receiver), 1);
	world_close(&w);
}

/* ---- several shards ---- */

enum { SHARDS = 4, SUBJECTS = 12 };

static enum err_code publish_each(struct turn *t, struct err *err)
{
	(void)err;
	for (int i = 0; i < SUBJECTS; i++)
		ctx_publish(&t->ctx, &(struct event){.type = EVENT_LOCK_SET,
		                                     .subject = arena_printf(t->ctx.arena, "s%d", i)});
	return ERR_NONE;
}

static unsigned subjects_of(struct world *w, uint32_t shard)
{
	unsigned count = 0;

	for (int i = 0; i < SUBJECTS; i++)
		count += event_shard(arena_printf(&w->s.f.arena, "s%d", i), SHARDS) == shard;
	return count;
}

/* As of a log that was replaced: it goes further in the first shard than there is. */
static enum err_code put_ahead(struct turn *t, struct err *err)
{
	struct event_cursor at = {.shards = SHARDS, .after = {99}};
	struct call        *c = (struct call *)t;
	struct row          row;

	if (target_put(&t->ctx, &c->make, &c->put, err) != ERR_NONE)
		return err->code;
	row_from(&row, t->ctx.arena, &c->put.target.row);
	row_set(&row, "after", cursor_value(t->ctx.arena, &at));
	ctx_put(&t->ctx, TABLE_EVENTS, row_item(&row));
	return ERR_NONE;
}

TEST(delivery, of_several_shards_one_of_which_is_shorter_than_known_goes_on_in_the_others)
{
	struct world w;
	struct call  c = {0};
	unsigned     first;

	world_open(&w);
	w.s.all.events.shards = SHARDS;
	turn_take(&w.s, &c.turn, publish_each);
	first = subjects_of(&w, 0);
	assert_true(first > 0 && first < SUBJECTS);
	make_target_with(&w, put_ahead);
	await_delivered(&w, SUBJECTS - first);
	turn_take(&w.s, &c.turn, publish_each);
	ctx_published(&c.turn.ctx);
	await_delivered(&w, 2 * SUBJECTS - first);
	world_close(&w);
}
