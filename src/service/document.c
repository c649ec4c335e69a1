/* Documents: counting. */
#include "service/document.h"

void *document_make(size_t len)
{
	struct arena     arena;
	struct document *d;

	arena_init(&arena);
	d = arena_zalloc(&arena, len);
	atomic_init(&d->refs, 1);
	d->arena = arena;
	return d;
}

void document_release(struct document *d)
{
	struct arena arena;

	if (d == NULL || atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) != 1)
		return;
	arena = d->arena; /* it lies in its own arena */
	arena_release(&arena);
}

void document_holder_init(struct document_holder *h)
{
	pthread_mutex_init(&h->lock, NULL);
	h->now = NULL;
}

void document_holder_release(struct document_holder *h)
{
	document_release(h->now);
	pthread_mutex_destroy(&h->lock);
}

void *document_acquire(struct document_holder *h)
{
	struct document *d;

	pthread_mutex_lock(&h->lock);
	d = h->now;
	atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
	pthread_mutex_unlock(&h->lock);
	return d;
}

void document_put(struct document_holder *h, struct document *d)
{
	struct document *old;

	pthread_mutex_lock(&h->lock);
	old = h->now;
	h->now = d;
	pthread_mutex_unlock(&h->lock);
	document_release(old);
}

bool document_put_newer(struct document_holder *h, struct document *d)
{
	struct document *other = d;
	bool             newer;

	pthread_mutex_lock(&h->lock);
	newer = d->version > h->now->version;
	if (newer) {
		other = h->now;
		h->now = d;
	}
	pthread_mutex_unlock(&h->lock);
	document_release(other);
	return newer;
}
