/* Pool: two bounded stacks. */
#include "http/pool.h"

#include <stdlib.h>

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
