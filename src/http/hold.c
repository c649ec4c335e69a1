/* Hold: park, wake, and the ends that the loop itself notices. */
#include "http/hold.h"

#include <assert.h>

static struct exchange *exchange_of_park(struct park *p)
{
	return LIST_ENTRY(p, struct exchange, park);
}

/* The request is the handler's again. The last thing that happens to a parked request, whoever ended it. */
static void park_end(struct exchange *x, enum http_end why)
{
	struct conn *c = x->conn;

	alarm_cancel(&c->loop->timers, &x->park.alarm);
	budget_unpark(&c->loop->budget, x->park.bytes);
	loop_uncount(&c->loop->counts.parked_now);
	atomic_store_explicit(&x->park.state, PARK_NONE, memory_order_relaxed);
	if (c->state == CONN_PARKED)
		conn_move(c, CONN_HANDLING);
	x->park.fn(&x->request, why);
}

/* (1): false if a wake is on its way already. */
static bool park_move(struct exchange *x, enum park_state to)
{
	enum park_state waits = PARK_WAITS;

	return atomic_compare_exchange_strong_explicit(&x->park.state, &waits, to, memory_order_acq_rel,
	                                               memory_order_relaxed);
}

static void park_ring(struct alarm *alarm)
{
	struct exchange *x = exchange_of_park(LIST_ENTRY(alarm, struct park, alarm));
	enum http_end    why = HTTP_END_DEADLINE;

	if (x->conn->state == CONN_ABANDONED)
		why = HTTP_END_GONE;
	else if (x->conn->loop->stopping)
		why = HTTP_END_STOPPING;
	hold_end(x->conn, why);
}

static void park_run(struct inbox_item *item)
{
	park_end(LIST_ENTRY(item, struct exchange, item), HTTP_END_WOKEN);
}

/* What the request keeps from others for as long as it waits. */
static size_t park_bytes(const struct conn *c)
{
	const struct exchange *x = c->exchange;
	size_t                 in = conn_buffered(c) > 0 ? c->loop->pool.buffer_bytes : 0;

	return sizeof(*c) + sizeof(*x) + x->request.arena.used_bytes + x->receive.body.cap + in;
}

/* One whose peer has gone, or that comes while the server stops, is told so by its alarm: fn is never called in here. */
bool http_park(struct http_request *r, int64_t deadline_us,
               void (*fn)(struct http_request *r, enum http_end why))
{
	struct exchange *x = exchange_of(r);
	struct conn     *c = x->conn;
	struct loop     *l = c->loop;
	int64_t          latest_us = l->now_us + (int64_t)HTTP_PARK_MS_MAX * 1000;

	assert(pthread_equal(l->self, pthread_self()));
	assert(c->state == CONN_HANDLING || c->state == CONN_ABANDONED);
	x->park.bytes = park_bytes(c);
	if (!budget_park(&l->budget, x->park.bytes))
		return false;
	loop_count(&l->counts.parked_now);
	x->park.fn = fn;
	x->park.alarm.ring = park_ring;
	x->item.run = park_run;
	atomic_store_explicit(&x->park.state, PARK_WAITS, memory_order_release);
	if (c->state == CONN_ABANDONED || l->stopping)
		deadline_us = l->now_us;
	alarm_set(&l->timers, &x->park.alarm, deadline_us < latest_us ? deadline_us : latest_us);
	if (c->state == CONN_HANDLING)
		conn_move(c, CONN_PARKED);
	conn_drive(c);
	return true;
}

bool http_wake(struct http_request *r)
{
	struct exchange *x = exchange_of(r);

	if (!park_move(x, PARK_WOKEN))
		return false;
	inbox_push(&x->conn->loop->inbox, &x->item);
	return true;
}

void hold_end(struct conn *c, enum http_end why)
{
	if (park_move(c->exchange, PARK_NONE))
		park_end(c->exchange, why);
}
