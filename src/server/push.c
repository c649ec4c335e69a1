/* Push: see push.h. */
#define _GNU_SOURCE
#include "server/push.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/trouble.h"
#include "base/worker.h"
#include "server/own_call.h"
#include "server/push_gate.h"
#include "server/push_sharing.h"

#define SECOND_US INT64_C(1000000)

enum {
	OWNER_CHARS = 32,
	TURN_COST_BYTES = 256 * 1024, /* of what waits for its turn */
};

/* What a shard commits. Each can fail by itself: the row of one user that is no good stops nothing but what names that user. */
enum commit { COMMIT_SWEEP, COMMIT_DEAD, COMMIT_TAKE, COMMIT_SETTLE, COMMIT_RECEIPTS, COMMITS };

static const char *const commit_names[COMMITS] = {
        [COMMIT_SWEEP] = "what was under way when a server ended is not settled",
        [COMMIT_DEAD] = "devices that are gone are not disabled",
        [COMMIT_TAKE] = "messages that are due are not sent",
        [COMMIT_SETTLE] = "what became of messages is not stored",
        [COMMIT_RECEIPTS] = "what receipts say is not stored",
};

struct shard {
	struct push       *p;
	struct push_sender who;
	struct worker      worker;
	struct push_route *route;       /* of the step under way; the gate's */
	int64_t            receipts_us; /* not before that: Expo did not answer the last time */
	struct trouble     troubles[COMMITS];
};

struct push {
	/* set once */
	struct services    *services;
	struct store       *store;
	char                owner[OWNER_CHARS];
	struct shard        shards[PUSH_SHARDS];
	unsigned            started;
	struct push_numbers numbers;

	/* any thread */
	atomic_bool      on;
	struct push_gate gate; /* (2), (3) */

	struct push_sharing sharing; /* the gate's */
};

static int64_t steady_us(void)
{
	return clock_steady_us(clock_system());
}

/* ---- where to ---- */

void push_target_close(struct push_target *t)
{
	if (t == NULL)
		return;
	expo_close(t->expo);
	free(t);
}

static void wake(void *ctx, uint32_t shards)
{
	struct push *p = ctx;

	for (unsigned i = 0; i < p->started; i++)
		if (shards >> i & 1)
			worker_wake(&p->shards[i].worker);
}

void push_put(struct push *p, struct push_target *target)
{
	int64_t queue_max = target == NULL ? 0 : target->queue_max, rate = target == NULL ? 0 : target->rate;
	int     on_unknown = target == NULL ? PUSH_ON_UNKNOWN_AUTO : (int)target->on_unknown;
	bool    on = target != NULL;

	push_gate_put(&p->gate, target);
	if (on)
		atomic_store(&p->services->push_queue_max, queue_max);
	atomic_store(&p->services->push_rate, rate);
	atomic_store(&p->services->push_on_unknown, on_unknown);
	atomic_store(&p->on, on);
	wake(p, UINT32_MAX);
}

static bool is_on(void *ctx)
{
	return atomic_load(&((struct push *)ctx)->on);
}

/* ---- calls of services ---- */

/* One arena from what is due to what became of it. */
struct calling {
	struct own_call own; /* first */
	struct shard   *s;

	struct push_batches  due, taken;
	struct push_settle   settle;
	struct push_receipts receipts;
	struct push_tally    tally;
	uint32_t             next;
	bool                 more;
};

static void calling_init(struct calling *c, struct shard *s)
{
	*c = (struct calling){.s = s};
	own_call_init(&c->own, s->p->services, s->p->store);
}

static enum err_code sweep(struct own_call *own, struct err *err)
{
	struct calling *c = (struct calling *)own;

	return push_sweep(&c->own.ctx, &c->s->who, &c->tally, err);
}

static enum err_code take_dead(struct own_call *own, struct err *err)
{
	struct calling *c = (struct calling *)own;

	return push_dead_take(&c->own.ctx, c->s->who.shard, &c->more, &c->tally, err);
}

static enum err_code take(struct own_call *own, struct err *err)
{
	struct calling  *c = (struct calling *)own;
	struct push_take q = {&c->s->who, &c->due};

	return push_take(&c->own.ctx, &q, &c->taken, &c->tally, err);
}

static enum err_code settle(struct own_call *own, struct err *err)
{
	struct calling *c = (struct calling *)own;

	return push_settle(&c->own.ctx, &c->settle, &c->next, &c->tally, err);
}

static enum err_code settle_receipts(struct own_call *own, struct err *err)
{
	struct calling *c = (struct calling *)own;

	return push_receipts_settle(&c->own.ctx, &c->receipts, &c->next, &c->tally, err);
}

static void tally_add(struct push_numbers *n, const struct push_tally *t)
{
	for (int i = 0; i < PUSH_STATE_COUNT; i++)
		metric_add(&n->states[i], t->states[i]);
	for (int i = 0; i < PUSH_ERROR_COUNT; i++)
		metric_add(&n->errors[i], t->errors[i]);
	metric_add(&n->disabled, t->disabled);
	metric_add(&n->resent, t->resent);
}

static bool call_waits(const struct shard *s, enum commit what)
{
	return trouble_waits(&s->troubles[what], steady_us());
}

/* Counts what it changed. */
static enum err_code call_run(struct calling *c, enum commit what)
{
	static enum err_code (*const decide[COMMITS])(struct own_call *, struct err *) = {
	        [COMMIT_SWEEP] = sweep,   [COMMIT_DEAD] = take_dead,           [COMMIT_TAKE] = take,
	        [COMMIT_SETTLE] = settle, [COMMIT_RECEIPTS] = settle_receipts,
	};
	struct trouble *trouble = &c->s->troubles[what];
	struct err      err;
	enum err_code   rc =
	        own_call_run(&c->own, &(struct own_step){decide[what], sizeof(*c), TURN_COST_BYTES}, &err);

	if (rc == ERR_NONE) {
		tally_add(&c->s->p->numbers, &c->tally);
		if (trouble_ends(trouble))
			log_info("push, shard %u: commits work again", c->s->who.shard);
	} else if (trouble_begins(trouble, steady_us())) {
		log_warn("push, shard %u: %s; it is tried again, less and less often: %s", c->s->who.shard,
		         commit_names[what], err.text);
	}
	return rc;
}

/* A call was made: what came of it has to be kept, however long it takes. */
static enum err_code call_run_on(struct calling *c, enum commit what)
{
	enum err_code rc;
	bool          goes_on = true;

	while ((rc = call_run(c, what)) != ERR_NONE && goes_on)
		goes_on = push_gate_pause(&c->s->p->gate, c->s->troubles[what].due_us - steady_us());
	return rc;
}

/* ---- what is left of calls; dead tokens ---- */

/* One step; false: nothing is left, or it failed. */
static bool sweep_some(struct shard *s)
{
	struct calling c;
	bool           more;

	if (call_waits(s, COMMIT_SWEEP))
		return false;
	calling_init(&c, s);
	more = call_run(&c, COMMIT_SWEEP) == ERR_NONE && c.tally.states[PUSH_UNKNOWN] + c.tally.resent > 0;
	if (more)
		log_warn(
		        "push messages were being sent when the server ended, and it is unknown whether they "
		        "arrived: %llu are sent again, %llu are not",
		        (unsigned long long)c.tally.resent, (unsigned long long)c.tally.states[PUSH_UNKNOWN]);
	own_call_release(&c.own);
	return more;
}

static bool dead_some(struct shard *s)
{
	struct calling c;
	bool           more;

	if (call_waits(s, COMMIT_DEAD))
		return false;
	calling_init(&c, s);
	more = call_run(&c, COMMIT_DEAD) == ERR_NONE && c.more;
	own_call_release(&c.own);
	return more;
}

/* ---- sending ---- */

/* The message, with what is left of its `ttl`. */
static struct bytes members_of(struct calling *c, const struct notification *n)
{
	int64_t waited_s = c->own.ctx.now_s - n->created_s;
	int64_t left_s = waited_s < 0 ? n->ttl_s : n->ttl_s > waited_s ? n->ttl_s - waited_s : 0;

	if (n->ttl_s < 0)
		return n->message;
	return arena_printf(&c->own.arena, "%.*s%s\"ttl\":%lld", BYTES_ARG(n->message),
	                    n->message.len > 0 ? "," : "", (long long)left_s);
}

/* Tokens as they are now: one may have moved while the commit waited for its turn. */
static bool recheck(struct calling *c)
{
	struct err err;
	bool       good;

	own_call_read(&c->own);
	good = push_recheck(&c->own.ctx, &c->taken, &err) == ERR_NONE;
	own_call_read_end(&c->own);
	return good;
}

/* What of a batch is sent. */
static struct expo_message message_of(struct calling *c, const struct push_batch *b)
{
	struct bytes *to = arena_array(&c->own.arena, b->count + 1, sizeof(*to));
	uint32_t      count = 0;

	for (uint32_t i = 0; i < b->count; i++)
		if (b->list[i].token.len > 0)
			to[count++] = b->list[i].token;
	return (struct expo_message){members_of(c, &b->n), to, count};
}

static struct expo_answer send(struct calling *c, struct expo *expo)
{
	const struct push_batches *b = &c->taken;
	struct expo_message       *list = arena_array(&c->own.arena, b->count, sizeof(*list));
	uint32_t                   count = 0;

	if (!recheck(c))
		return (struct expo_answer){.end = EXPO_LATER};
	for (uint32_t i = 0; i < b->count; i++) {
		list[count] = message_of(c, &b->list[i]);
		count += list[count].to_count > 0;
	}
	if (count == 0) /* nobody is left */
		return (struct expo_answer){.end = EXPO_ANSWERED};
	return expo_send(expo, list, count, &c->own.arena);
}

/* One ticket per message that was taken: those that were not sent have an empty one. */
static struct push_ticket *tickets_of(struct calling *c, const struct expo_answer *a)
{
	struct push_ticket *tickets = arena_zalloc(&c->own.arena, (c->taken.messages + 1) * sizeof(*tickets));
	uint32_t            at = 0, next = 0;

	for (uint32_t i = 0; i < c->taken.count; i++)
		for (uint32_t k = 0; k < c->taken.list[i].count; k++, at++) {
			const struct expo_ticket *t = &a->tickets[next];

			if (c->taken.list[i].list[k].token.len == 0)
				continue;
			tickets[at] = (struct push_ticket){t->ok, t->id, t->error};
			next++;
		}
	return tickets;
}

/* Expo's answer, in the words of services. */
static struct push_settle settle_of(struct calling *c, const struct expo_answer *a)
{
	static const enum push_end ends[] = {[EXPO_ANSWERED] = PUSH_TICKETS,
	                                     [EXPO_LATER] = PUSH_LATER,
	                                     [EXPO_REFUSED] = PUSH_REFUSED,
	                                     [EXPO_UNKNOWN] = PUSH_LOST};
	struct push_settle         q = {.who = &c->s->who,
	                                .sent = &c->taken,
	                                .end = ends[a->end],
	                                .code = a->code,
	                                .project_count = a->project_count,
	                                .wait_s = a->wait_s};
	struct push_project *projects = arena_array(&c->own.arena, a->project_count + 1, sizeof(*projects));

	for (uint32_t i = 0; i < a->project_count; i++)
		projects[i] = (struct push_project){a->projects[i].name, a->projects[i].tokens,
		                                    a->projects[i].token_count};
	q.projects = projects;
	if (q.end == PUSH_TICKETS)
		q.tickets = tickets_of(c, a);
	return q;
}

static void settle_all(struct calling *c)
{
	while (c->settle.from < c->taken.count) {
		if (call_run_on(c, COMMIT_SETTLE) != ERR_NONE)
			return; /* at a stop: they are unknown */
		for (; c->settle.from < c->next; c->settle.from++)
			c->settle.first_ticket += c->taken.list[c->settle.from].count;
	}
}

static void log_answer(const struct expo_answer *a)
{
	if (a->end == EXPO_ANSWERED)
		return;
	log_warn("push: Expo answered %d%s%.*s: %s", a->status, a->code.len > 0 ? " " : "",
	         BYTES_ARG(a->code),
	         a->end == EXPO_LATER     ? "these messages are sent later"
	         : a->end == EXPO_REFUSED ? "the call is split"
	                                  : "it is unknown whether these messages arrived");
}

/* How it ended, for the gate. */
static struct push_left call_expo(struct calling *c, const struct push_route *route)
{
	struct expo_answer answer = send(c, route->target->expo);

	log_answer(&answer);
	c->settle = settle_of(c, &answer);
	metric_add(&c->s->p->numbers.calls[c->settle.end], 1);
	return (struct push_left){.called = true,
	                          .later = answer.end == EXPO_LATER || answer.end == EXPO_UNKNOWN,
	                          .asked_s = answer.wait_s};
}

static bool find_due(struct calling *c, uint32_t room)
{
	struct err err;
	bool       good;

	own_call_read(&c->own);
	good = push_due(&c->own.ctx, c->s->who.shard, room, &c->due, &err) == ERR_NONE;
	own_call_read_end(&c->own);
	atomic_store_explicit(&c->s->p->numbers.oldest_us[c->s->who.shard], good ? c->due.oldest_us : 0,
	                      memory_order_relaxed);
	return good && c->due.count > 0;
}

/* A broadcast's calls are as large as they may be; a user's message waits for no more than itself. */
static struct push_ask ask_of(const struct calling *c, const struct push_route *route)
{
	enum push_lane lane = c->s->who.shard / PUSH_LANE_SHARDS;

	return (struct push_ask){route, lane, lane == PUSH_LANE_USER ? c->due.messages : PUSH_BATCH_MAX};
}

/* Once it may be sent. What was read before a wait is read again: a token may have moved to somebody else. */
static bool send_due(struct calling *c, const struct push_route *route)
{
	struct push_gate *gate = &c->s->p->gate;
	struct push_ask   ask = ask_of(c, route);
	struct push_left  left = {0};
	struct push_pass  pass;
	bool              more;

	if (!push_gate_enter(gate, &ask, &pass))
		return false;
	more = (!pass.waited && pass.messages >= c->due.messages) || find_due(c, pass.messages);
	more = more && call_run(c, COMMIT_TAKE) == ERR_NONE;
	if (more && c->taken.count > 0) {
		push_gate_shrink(gate, &pass, c->taken.messages);
		left = call_expo(c, route);
	}
	push_gate_leave(gate, &pass, &left);
	if (left.called)
		settle_all(c);
	return more;
}

/* One call; false: nothing is due, or nothing may be sent now. What may not be sent any more (cancelled, expired) goes at any time, also if
 * there is nowhere to send to: `route` is NULL. */
static bool send_some(struct shard *s, struct push_route *route)
{
	struct calling c;
	bool           more = false;

	if (call_waits(s, COMMIT_TAKE))
		return false;
	calling_init(&c, s);
	if (find_due(&c, route == NULL ? 0 : push_gate_room(&s->p->gate)))
		more = route == NULL || c.due.messages == 0 ? call_run(&c, COMMIT_TAKE) == ERR_NONE
		                                            : send_due(&c, route);
	own_call_release(&c.own);
	return more;
}

/* ---- receipts ---- */

static struct expo_receipts ask(struct calling *c, struct expo *expo)
{
	struct bytes *ids = arena_array(&c->own.arena, c->due.messages + 1, sizeof(*ids));
	uint32_t      count = 0;

	for (uint32_t i = 0; i < c->due.count; i++)
		for (uint32_t k = 0; k < c->due.list[i].count; k++)
			ids[count++] = c->due.list[i].list[k].ticket;
	metric_add(&c->s->p->numbers.receipts, count);
	return expo_receipts(expo, ids, count, &c->own.arena);
}

/* Without an answer none was found: others get their turn, and after a day it is given up. */
static void receipts_all(struct calling *c, const struct expo_receipts *r)
{
	struct push_receipt *list = arena_zalloc(&c->own.arena, (c->due.messages + 1) * sizeof(*list));

	for (uint32_t i = 0; r->answered && i < c->due.messages; i++)
		list[i] = (struct push_receipt){r->list[i].found, r->list[i].ok, r->list[i].error};
	c->receipts = (struct push_receipts){.shard = c->s->who.shard, .asked = &c->due, .list = list};
	while (c->receipts.from < c->due.count) {
		if (call_run_on(c, COMMIT_RECEIPTS) != ERR_NONE)
			return; /* at a stop: they are asked for again */
		for (; c->receipts.from < c->next; c->receipts.from++)
			c->receipts.first += c->due.list[c->receipts.from].count;
	}
}

static bool receipts_find(struct calling *c)
{
	struct err err;
	bool       good;

	own_call_read(&c->own);
	good = push_receipts_due(&c->own.ctx, c->s->who.shard, &c->due, &err) == ERR_NONE;
	own_call_read_end(&c->own);
	return good && c->due.count > 0;
}

/* False: none are due, or Expo does not answer. `route` is NULL: nobody asks. */
static bool receipts_some(struct shard *s, struct push_route *route)
{
	struct calling       c;
	struct expo_receipts r = {0};

	if (steady_us() < s->receipts_us)
		return false;
	calling_init(&c, s);
	if (receipts_find(&c)) {
		if (route != NULL)
			r = ask(&c, route->target->expo);
		receipts_all(&c, &r);
		if (!r.answered)
			s->receipts_us =
			        steady_us() +
			        (r.wait_s > PUSH_LATER_S_MAX ? r.wait_s : PUSH_LATER_S_MAX) * SECOND_US;
	}
	own_call_release(&c.own);
	return r.answered;
}

/* ---- the workers ---- */

static void count_queued(struct shard *s)
{
	struct calling c;
	struct err     err;
	int64_t        queued;

	calling_init(&c, s);
	own_call_read(&c.own);
	if (push_queued(&c.own.ctx, &queued, &err) == ERR_NONE)
		atomic_store_explicit(&s->p->numbers.queued, queued, memory_order_relaxed);
	own_call_read_end(&c.own);
	own_call_release(&c.own);
}

/* One step with the target of now, so that a new one counts from the next call on. */
static bool receipts_step(struct shard *s)
{
	bool more = receipts_some(s, push_gate_take(&s->p->gate, &s->route));

	push_gate_return(&s->p->gate, &s->route);
	return more;
}

static bool send_step(struct shard *s)
{
	struct push_route *route = push_gate_take(&s->p->gate, &s->route);
	bool               more = send_some(s, route);

	push_gate_return(&s->p->gate, &s->route);
	return more;
}

static void shard_round(struct worker *w, void *ctx)
{
	struct shard *s = ctx;
	bool          sent;

	while (worker_goes_on(w) && sweep_some(s))
		worker_found(w);
	while (worker_goes_on(w) && dead_some(s))
		worker_found(w);
	while (worker_goes_on(w) && receipts_step(s))
		worker_found(w);
	for (sent = false; worker_goes_on(w) && send_step(s);) {
		sent = true;
		worker_found(w);
	}
	while (sent && worker_goes_on(w) &&
	       dead_some(s)) /* of these calls: the next round may be a second away */
		;
	if (s->who.shard == 0 || sent)
		count_queued(s);
}

/* ---- opening, closing ---- */

static void owner_make(char out[OWNER_CHARS])
{
	uint8_t bits[OWNER_CHARS / 2];

	if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits)) {
		log_error("cannot get random bytes from the system");
		abort();
	}
	hex_write((struct bytes){(const char *)bits, sizeof(bits)}, out);
}

static enum err_code shards_start(struct push *p, struct err *err)
{
	for (uint32_t i = 0; i < PUSH_SHARDS; i++) {
		struct shard *s = &p->shards[i];

		*s = (struct shard){.p = p, .who = {i, {p->owner, sizeof(p->owner)}}};
		worker_init(&s->worker,
		            &(struct worker_options){.name = "push",
		                                     .round = shard_round,
		                                     .ctx = s,
		                                     .period_us = PUSH_LOOK_MS * 1000,
		                                     .rest_us = store_rest_us(p->store, PUSH_REST_S),
		                                     .stop_ms = PUSH_STOP_MS});
		p->started++;
		if (worker_start(&s->worker, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

enum err_code push_open(struct push **out, const struct push_options *options, struct err *err)
{
	struct push      *p = mem_zalloc(sizeof(*p));
	struct push_share share = push_sharing_of(&p->sharing);

	p->services = options->services;
	p->store = options->store;
	p->sharing = (struct push_sharing){.services = p->services, .store = p->store};
	owner_make(p->owner);
	push_gate_init(&p->gate, p->store->backend->reads_wait ? &share : NULL);
	options->services->push_post =
	        (struct push_post){.is_on = is_on, .wake = wake, .ctx = p, .numbers = &p->numbers};
	*out = p;
	return shards_start(p, err);
}

/* A call under way gets a moment to end; then it is cut off, and its messages are unknown. */
static void shards_stop(struct push *p)
{
	bool ended = true;

	push_gate_stop(&p->gate);
	for (unsigned i = 0; i < p->started; i++) {
		ended = ended && worker_stop(&p->shards[i].worker);
	}
	for (unsigned i = 0; !ended && i < p->started; i++)
		push_gate_cut(&p->gate, &p->shards[i].route);
	for (unsigned i = 0; i < p->started; i++) {
		worker_join(&p->shards[i].worker);
		worker_release(&p->shards[i].worker);
	}
}

void push_close(struct push *p)
{
	if (p == NULL)
		return;
	p->services->push_post = (struct push_post){0};
	shards_stop(p);
	p->started = 0;
	push_gate_release(&p->gate);
	free(p);
}
