/* Documents: reference counting. */
#include "service/document.h"

static const char *const origins[] = {
#define X(id, name) [id] = name,
        DOCUMENT_ORIGINS(X)
#undef X
};

const char *document_origin_name(enum document_origin origin)
{
	return origins[origin];
}

enum document_origin document_origin_of(struct bytes name)
{
	for (unsigned i = 0; i < sizeof(origins) / sizeof(origins[0]); i++)
		if (bytes_is(name, origins[i]))
			return (enum document_origin)i;
	return DOCUMENT_STORED;
}

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
	if (d != NULL)
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
