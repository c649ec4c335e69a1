/* Delivery: see delivery.h. */
#define _GNU_SOURCE
#include "server/delivery.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/crypto.h"
#include "base/log.h"
#include "base/worker.h"
#include "json/write.h"
#include "server/delivery_target.h"
#include "server/own_call.h"
#include "service/delivery.h"
#include "service/user.h"

#define SECOND_US INT64_C(1000000)

enum { OWNER_CHARS = 24 };

enum ping_state { PING_FREE, PING_ASKED, PING_DONE };

/* A test, with a thread of its own: a target that hangs does not hold up the test of another. */
struct ping {
	/* set once */
	struct delivery *delivery;
	struct worker    worker;

	/* under lock */
	enum ping_state    state;
	uint64_t           ticket;
	int64_t            since_us; /* steady */
	struct sender     *sender;   /* while it is at work */
	char               name[TARGET_NAME_BYTES_MAX + 1];
	struct target_ping result;
};

struct delivery {
	/* set once */
	struct delivery_options options;
	struct target_senders   senders;
	char                    owner[OWNER_CHARS];
	struct event_post       next; /* who else is told of new events */
	struct worker           worker;

	/* under lock */
	pthread_mutex_t         lock;
	struct delivery_target *list[TARGETS_MAX];
	atomic_uint             count; /* whoever publishes looks at it without the lock */
	struct ping             pings[DELIVERY_PINGS_MAX];
	uint64_t                tickets;
	bool                    stopping;

	/* the worker's thread */
	int64_t version; /* of all targets, as it was last seen; -1: never */
};

static int64_t steady_us(void)
{
	return clock_steady_us(clock_system());
}

/* ---- which targets there are ---- */

/* Only the worker changes the list, so it may read it without the lock. */
static struct delivery_target *target_find(const struct delivery *d, struct bytes name)
{
	for (unsigned i = 0; i < d->count; i++)
		if (bytes_equal(delivery_target_name(d->list[i]), name))
			return d->list[i];
	return NULL;
}

static void target_start(struct delivery *d, struct bytes name)
{
	struct delivery_target_options o = {.services = d->options.services,
	                                    .store = d->options.store,
	                                    .senders = &d->senders,
	                                    .owner = {d->owner, sizeof(d->owner)},
	                                    .name = name};
	struct delivery_target        *t;
	struct err                     err;

	if (delivery_target_open(&t, &o, &err) != ERR_NONE) {
		log_error("target %.*s is not delivered to: %s", BYTES_ARG(name), err.text);
		delivery_target_close(t);
		return;
	}
	pthread_mutex_lock(&d->lock);
	d->list[d->count++] = t;
	pthread_mutex_unlock(&d->lock);
}

static void target_end(struct delivery *d, unsigned at)
{
	struct delivery_target *t = d->list[at];

	pthread_mutex_lock(&d->lock);
	d->list[at] = d->list[--d->count];
	pthread_mutex_unlock(&d->lock);
	delivery_target_close(t);
}

static bool is_listed(const struct targets *all, struct bytes name)
{
	for (uint32_t i = 0; i < all->count; i++)
		if (bytes_equal(all->list[i].name, name))
			return true;
	return false;
}

static void targets_match(struct delivery *d, const struct targets *all)
{
	for (unsigned i = d->count; i-- > 0;)
		if (!is_listed(all, delivery_target_name(d->list[i])))
			target_end(d, i);
	for (uint32_t i = 0; i < all->count; i++) {
		struct delivery_target *t = target_find(d, all->list[i].name);

		if (t == NULL)
			target_start(d, all->list[i].name);
		else
			delivery_target_changed(t);
	}
}

static void look(struct worker *w, void *ctx)
{
	struct delivery *d = ctx;
	struct own_call  c;
	struct targets   all;
	struct err       err;
	int64_t          version;
	bool             changed;

	own_call_init(&c, d->options.services, d->options.store);
	own_call_read(&c);
	changed = targets_version(&c.ctx, &version, &err) == ERR_NONE && version != d->version &&
	          targets_all(&c.ctx, &all, &err) == ERR_NONE;
	own_call_read_end(&c);
	if (changed) { /* to end a target may take a moment */
		targets_match(d, &all);
		d->version = version;
	}
	if (d->count > 0)
		worker_found(w);
	own_call_release(&c);
}

/* ---- tests ---- */

/* A CloudEvent that is in no log. */
static void ping_event(const struct ping *p, struct arena *a, int64_t now_us, struct sender_event *out)
{
	struct json_writer w;
	struct buf         json;
	uint8_t            bits[EVENT_ID_CHARS / 2];
	char              *id = arena_alloc(a, EVENT_ID_CHARS);

	if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		abort();
	hex_write((struct bytes){(const char *)bits, sizeof(bits)}, id);
	*out = (struct sender_event){.id = {id, EVENT_ID_CHARS},
	                             .type = BYTES("test.ping"),
	                             .subject = arena_printf(a, "target:%s", p->name),
	                             .time = user_time(a, now_us)};
	buf_init(&json, a);
	json_writer_init(&w, &json);
	json_begin_object(&w);
	json_member_text(&w, BYTES("specversion"), BYTES("1.0"));
	json_member_text(&w, BYTES("id"), out->id);
	json_member_text(&w, BYTES("type"), out->type);
	json_member_text(&w, BYTES("source"), BYTES("gatehouse"));
	json_member_text(&w, BYTES("subject"), out->subject);
	json_member_text(&w, BYTES("time"), out->time);
	json_member_text(&w, BYTES("dataschema"), BYTES(EVENT_SCHEMA_BEFORE "test.ping" EVENT_SCHEMA_AFTER));
	json_member_text(&w, BYTES("datacontenttype"), BYTES("application/json"));
	json_key(&w, BYTES("data"));
	json_begin_object(&w);
	json_member_text(&w, BYTES("target"), bytes_of(p->name));
	json_end_object(&w);
	json_end_object(&w);
	out->json = buf_bytes(&json);
}

static enum err_code ping_open(struct delivery *d, struct own_call *c, const struct ping *p,
                               struct sender **out, struct err *err)
{
	struct target t;
	enum err_code rc;

	own_call_read(c);
	rc = target_get(&c->ctx, bytes_of(p->name), &t, err);
	if (rc == ERR_NONE)
		rc = target_sender_open_stored(&d->senders, &c->ctx, &t, out, err);
	own_call_read_end(c);
	return rc;
}

/* False: the server stops. */
static bool ping_works(struct ping *p, struct sender *sender)
{
	bool goes_on;

	pthread_mutex_lock(&p->delivery->lock);
	p->sender = sender;
	goes_on = !p->delivery->stopping;
	pthread_mutex_unlock(&p->delivery->lock);
	return goes_on;
}

static struct target_ping ping_send(struct delivery *d, struct ping *p)
{
	struct target_ping  r = {.done = true};
	struct sender_event e = {.error = "the server stops"};
	struct own_call     c;
	struct sender      *sender;
	struct err          err;

	own_call_init(&c, d->options.services, d->options.store);
	if (ping_open(d, &c, p, &sender, &err) == ERR_NONE) {
		if (ping_works(p, sender)) {
			ping_event(p, &c.arena, c.ctx.now_us, &e);
			sender->kind->send(sender, &e, 1, &c.arena);
		}
		ping_works(p, NULL);
		sender->kind->close(sender);
		r.sent = e.end == SENDER_SENT;
		r.status = e.status;
		snprintf(r.error, sizeof(r.error), "%s", e.error);
	} else {
		snprintf(r.error, sizeof(r.error), "%.*s", (int)sizeof(r.error) - 1, err.text);
	}
	own_call_release(&c);
	return r;
}

static void ping_round(struct worker *w, void *ctx)
{
	struct ping       *p = ctx;
	struct delivery   *d = p->delivery;
	struct target_ping r;
	int64_t            from_us = steady_us();
	bool               asked;

	(void)w;
	pthread_mutex_lock(&d->lock);
	asked = p->state == PING_ASKED; /* from here on only this thread changes it */
	pthread_mutex_unlock(&d->lock);
	if (!asked)
		return;
	r = ping_send(d, p);
	r.took_us = steady_us() - from_us;
	pthread_mutex_lock(&d->lock);
	p->result = r;
	p->state = PING_DONE;
	pthread_mutex_unlock(&d->lock);
}

static bool ping_is_free(const struct ping *p)
{
	return p->state == PING_FREE ||
	       (p->state == PING_DONE && steady_us() - p->since_us >= DELIVERY_PING_KEPT_S * SECOND_US);
}

/* Under lock. One that may be had; or why there is none. */
static struct ping *ping_free(struct delivery *d, struct bytes name, struct err *err)
{
	struct ping *found = NULL;

	for (unsigned i = 0; i < DELIVERY_PINGS_MAX; i++) {
		struct ping *p = &d->pings[i];

		if (p->state == PING_ASKED && bytes_is(name, p->name)) {
			err_set(err, ERR_OVERLOADED, "a test of this target is under way; try again shortly");
			return NULL;
		}
		if (ping_is_free(p))
			found = p;
	}
	if (found == NULL)
		err_set(err, ERR_OVERLOADED, "%d tests of targets are under way; try again shortly",
		        DELIVERY_PINGS_MAX);
	return found;
}

static enum err_code ping_begin(void *ctx, struct bytes name, uint64_t *ticket, struct err *err)
{
	struct delivery *d = ctx;
	struct ping     *p;

	pthread_mutex_lock(&d->lock);
	p = ping_free(d, name, err);
	if (p != NULL) {
		p->state = PING_ASKED;
		p->ticket = *ticket = ++d->tickets;
		p->since_us = steady_us();
		snprintf(p->name, sizeof(p->name), "%.*s", BYTES_ARG(name));
	}
	pthread_mutex_unlock(&d->lock);
	if (p == NULL)
		return err->code;
	worker_wake(&p->worker);
	return ERR_NONE;
}

static bool ping_end(void *ctx, uint64_t ticket, struct target_ping *out)
{
	struct delivery *d = ctx;
	bool             found = false;

	*out = (struct target_ping){0};
	pthread_mutex_lock(&d->lock);
	for (unsigned i = 0; i < DELIVERY_PINGS_MAX; i++) {
		struct ping *p = &d->pings[i];

		if (p->state == PING_FREE || p->ticket != ticket)
			continue;
		found = true;
		if (p->state == PING_DONE) {
			*out = p->result;
			p->state = PING_FREE;
		}
	}
	pthread_mutex_unlock(&d->lock);
	return found;
}

/* ---- for services ---- */

static void events_came(void *ctx)
{
	struct delivery *d = ctx;

	if (d->next.wake != NULL)
		d->next.wake(d->next.ctx);
	if (atomic_load(&d->count) == 0) /* nobody to wake: most have no targets, and events come often */
		return;
	pthread_mutex_lock(&d->lock);
	for (unsigned i = 0; i < d->count; i++)
		delivery_target_wake(d->list[i]);
	pthread_mutex_unlock(&d->lock);
}

static void changed(void *ctx)
{
	worker_wake(&((struct delivery *)ctx)->worker);
}

static enum err_code check(void *ctx, const struct target_new *q, struct err *err)
{
	struct delivery      *d = ctx;
	struct target_sending s = {.name = q->name,
	                           .type = q->type,
	                           .settings = q->settings,
	                           .secrets = q->secrets,
	                           .headers = q->headers,
	                           .header_count = q->header_count,
	                           .lanes = 1};
	struct sender        *sender;

	if (target_sender_open(&d->senders, &s, &sender, err) != ERR_NONE)
		return err->code;
	sender->kind->close(sender);
	return ERR_NONE;
}

static unsigned read_all(void *ctx, struct target_reading *out)
{
	struct delivery *d = ctx;
	unsigned         count;

	pthread_mutex_lock(&d->lock);
	for (count = 0; count < d->count; count++)
		delivery_target_read(d->list[count], &out[count]);
	pthread_mutex_unlock(&d->lock);
	return count;
}

/* ---- opening, closing ---- */

static enum err_code workers_start(struct delivery *d, struct err *err)
{
	worker_init(&d->worker, &(struct worker_options){
	                                .name = "delivery",
	                                .round = look,
	                                .ctx = d,
	                                .period_us = DELIVERY_TARGETS_LOOK_MS * INT64_C(1000),
	                                .rest_us = store_rest_us(d->options.store, DELIVERY_TARGETS_REST_S)});
	for (unsigned i = 0; i < DELIVERY_PINGS_MAX; i++) {
		d->pings[i].delivery = d;
		worker_init(
		        &d->pings[i].worker,
		        &(struct worker_options){.name = "ping", .round = ping_round, .ctx = &d->pings[i]});
	}
	if (worker_start(&d->worker, err) != ERR_NONE)
		return err->code;
	worker_wake(&d->worker);
	for (unsigned i = 0; i < DELIVERY_PINGS_MAX; i++)
		if (worker_start(&d->pings[i].worker, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

enum err_code delivery_open(struct delivery **out, const struct delivery_options *options, struct err *err)
{
	struct delivery *d = mem_zalloc(sizeof(*d));
	uint8_t          bits[OWNER_CHARS / 2];

	d->options = *options;
	d->version = -1;
	target_senders_init(&d->senders, options->clock);
	d->senders.allow_private = options->allow_private;
	d->senders.ca_file = options->ca_file;
	options->services->random(bits, sizeof(bits));
	hex_write((struct bytes){(const char *)bits, sizeof(bits)}, d->owner);
	pthread_mutex_init(&d->lock, NULL);
	d->next = options->services->event_post;
	options->services->event_post = (struct event_post){events_came, d};
	options->services->target_post = (struct target_post){.changed = changed,
	                                                      .check = check,
	                                                      .ping = ping_begin,
	                                                      .pinged = ping_end,
	                                                      .read = read_all,
	                                                      .ctx = d};
	*out = d;
	return workers_start(d, err);
}

/* Those under way are cut off: nobody waits for them any more. */
static void pings_stop(struct delivery *d)
{
	pthread_mutex_lock(&d->lock);
	d->stopping = true;
	for (unsigned i = 0; i < DELIVERY_PINGS_MAX; i++)
		if (d->pings[i].sender != NULL)
			d->pings[i].sender->kind->stop(d->pings[i].sender);
	pthread_mutex_unlock(&d->lock);
}

void delivery_close(struct delivery *d)
{
	if (d == NULL)
		return;
	d->options.services->event_post = d->next;
	d->options.services->target_post = (struct target_post){0};
	pings_stop(d);
	worker_join(&d->worker);
	worker_release(&d->worker);
	for (unsigned i = 0; i < DELIVERY_PINGS_MAX; i++) {
		worker_join(&d->pings[i].worker);
		worker_release(&d->pings[i].worker);
	}
	for (unsigned i = 0; i < d->count; i++)
		delivery_target_stop(d->list[i]);
	while (d->count > 0)
		target_end(d, d->count - 1);
	target_senders_release(&d->senders);
	pthread_mutex_destroy(&d->lock);
	free(d);
}
