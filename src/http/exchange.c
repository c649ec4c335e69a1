/* Exchange: two bounded stacks of spare ones; what handlers ask of a request; parking, waking, and the ends that the loop notices. */
#include "http/exchange.h"

#include <assert.h>
#include <stdlib.h>

#include "http/conn.h"

enum { BUFFER_BYTES_MIN = 16 * 1024 };

void pool_init(struct pool *p, const struct http_limits *limits, struct budget *budget)
{
	*p = (struct pool){.limits = limits, .budget = budget, .buffer_bytes = BUFFER_BYTES_MIN};
	if (limits->head_bytes_max > p->buffer_bytes)
		p->buffer_bytes = limits->head_bytes_max;
}

static void exchange_free(struct exchange *x)
{
	receive_release(&x->receive);
	free(x);
}

void pool_release(struct pool *p)
{
	while (p->exchanges != NULL) {
		struct exchange *next = p->exchanges->next;

		exchange_free(p->exchanges);
		p->exchanges = next;
	}
	while (p->buffers != NULL) {
		struct read_buffer *next = p->buffers->next;

		free(p->buffers);
		p->buffers = next;
	}
}

static struct exchange *exchange_make(struct pool *p)
{
	struct exchange *x = mem_zalloc(sizeof(*x));

	receive_init(&x->receive, &x->request, p->limits, p->budget);
	receive_reset(&x->receive);
	return x;
}

struct exchange *exchange_take(struct pool *p, struct conn *c)
{
	struct exchange *x = p->exchanges;

	if (x == NULL) {
		x = exchange_make(p);
	} else {
		p->exchanges = x->next;
		p->exchange_count--;
	}
	x->conn = c;
	atomic_store_explicit(&x->abandoned, false, memory_order_relaxed);
	return x;
}

/* Reset now, not when next taken: large bodies and arenas go back at once. */
void exchange_give(struct pool *p, struct exchange *x)
{
	receive_reset(&x->receive);
	if (p->exchange_count == POOL_KEPT_MAX) {
		exchange_free(x);
		return;
	}
	x->next = p->exchanges;
	p->exchanges = x;
	p->exchange_count++;
}

struct read_buffer *buffer_take(struct pool *p)
{
	struct read_buffer *b = p->buffers;

	if (b == NULL)
		return mem_alloc(sizeof(*b) + p->buffer_bytes);
	p->buffers = b->next;
	p->buffer_count--;
	return b;
}

void buffer_give(struct pool *p, struct read_buffer *b)
{
	if (p->buffer_count == POOL_KEPT_MAX) {
		free(b);
		return;
	}
	b->next = p->buffers;
	p->buffers = b;
	p->buffer_count++;
}

/* ---- for handlers ---- */

void *http_conn_data(const struct http_request *r)
{
	return exchange_of((struct http_request *)(uintptr_t)r)->conn->data;
}

void http_conn_keep(struct http_request *r, void *data)
{
	struct conn *c = exchange_of(r)->conn;

	assert(data == NULL || c->loop->handler->conn_end != NULL);
	c->data = data;
}

bool http_charge(struct http_request *r, size_t bytes)
{
	return receive_charge(&exchange_of(r)->receive, bytes);
}

bool http_abandoned(struct http_request *r)
{
	return atomic_load_explicit(&exchange_of(r)->abandoned, memory_order_relaxed);
}

static void resume_run(struct inbox_item *item)
{
	struct exchange *x = LIST_ENTRY(item, struct exchange, item);

	x->resume(&x->request);
}

void http_resume(struct http_request *r, void (*fn)(struct http_request *r))
{
	http_resume_with(r, fn, NULL);
}

void http_resume_with(struct http_request *r, void (*fn)(struct http_request *r), struct wakes *wakes)
{
	struct exchange *x = exchange_of(r);

	x->resume = fn;
	x->item.run = resume_run;
	inbox_push(&x->conn->loop->inbox, &x->item, wakes);
}

/* ---- parked requests ---- */

/* The request is the handler's again. The last thing that happens to a parked request, whoever ended it. */
static void park_finish(struct exchange *x, enum http_end why)
{
	struct conn *c = x->conn;

	alarm_cancel(&c->loop->timers, &x->park.alarm);
	budget_unpark(&c->loop->budget, x->park.bytes);
	metric_down(&c->loop->counts.parked_now);
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
	struct exchange *x = LIST_ENTRY(alarm, struct exchange, park.alarm);
	enum http_end    why = HTTP_END_DEADLINE;

	if (x->conn->state == CONN_ABANDONED)
		why = HTTP_END_GONE;
	else if (x->conn->loop->stopping)
		why = HTTP_END_STOPPING;
	park_end(x->conn, why);
}

static void park_run(struct inbox_item *item)
{
	park_finish(LIST_ENTRY(item, struct exchange, item), HTTP_END_WOKEN);
}

/* What the request keeps from others for as long as it waits. */
static size_t park_bytes(const struct conn *c)
{
	const struct exchange *x = c->exchange;
	size_t                 in = c->in_end > c->in_start ? c->loop->pool.buffer_bytes : 0;

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
	metric_up(&l->counts.parked_now);
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
	inbox_push(&x->conn->loop->inbox, &x->item, NULL);
	return true;
}

void park_end(struct conn *c, enum http_end why)
{
	if (park_move(c->exchange, PARK_NONE))
		park_finish(c->exchange, why);
}

struct bytes http_header_get(const struct http_request *r, const char *name)
{
	struct bytes wanted = bytes_of(name);

	for (unsigned i = 0; i < r->header_count; i++)
		if (parse_name_is(r->headers[i].name, wanted))
			return r->headers[i].value;
	return (struct bytes){0};
}
