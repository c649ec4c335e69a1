/* Providers: see provider.h. */
#include "service/provider.h"

struct providers *providers_acquire(const struct services *s)
{
	return s->providers == NULL ? NULL : document_acquire(s->providers);
}

void providers_release(struct providers *p)
{
	if (p != NULL)
		document_release(&p->base);
}

const struct provider *provider_named(const struct providers *p, struct bytes name)
{
	for (uint32_t i = 0; p != NULL && i < p->count; i++)
		if (bytes_equal(p->list[i].name, name))
			return &p->list[i];
	return NULL;
}

const struct provider *provider_of_pool(const struct providers *p, struct bytes pool)
{
	for (uint32_t i = 0; p != NULL && i < p->count; i++)
		if (bytes_equal(p->list[i].pool, pool))
			return &p->list[i];
	return NULL;
}
