/* Pool: see pool.h. */
#include "pool.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* Until something changes. False: the deadline has passed. */
static bool wait_changed(struct gatehouse *g, int64_t deadline_us)
{
	struct timespec until = {.tv_sec = (time_t)(deadline_us / 1000000),
	                         .tv_nsec = (long)(deadline_us % 1000000) * 1000};

	return pthread_cond_timedwait(&g->changed, &g->lock, &until) != ETIMEDOUT;
}

/* An idle one, or room for a new one (*out NULL). Called and left with the lock held. */
static enum gatehouse_code slot_take(struct gatehouse *g, bool probe, int64_t deadline_us, struct conn **out)
{
	bool late = false;

	while (g->idle == NULL && g->made == g->connections_max) {
		if (late)
			return GATEHOUSE_TIMEOUT;
		if (!probe && g->breaker.state != BREAKER_CLOSED)
			return GATEHOUSE_UNREACHABLE;
		late = !wait_changed(g, deadline_us);
	}
	*out = g->idle;
	if (g->idle != NULL)
		g->idle = g->idle->next;
	else
		g->made++;
	return GATEHOUSE_OK;
}

static void slot_give(struct gatehouse *g, struct conn *keep)
{
	pthread_mutex_lock(&g->lock);
	if (keep != NULL) {
		keep->next = g->idle;
		g->idle = keep;
	} else {
		g->made--;
	}
	pthread_cond_signal(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

enum gatehouse_code pool_take(struct gatehouse *g, bool probe, int64_t deadline_us, struct conn **out)
{
	enum gatehouse_code rc;
	struct conn        *c = NULL;

	pthread_mutex_lock(&g->lock);
	rc = slot_take(g, probe, deadline_us, &c);
	pthread_mutex_unlock(&g->lock);
	if (rc != GATEHOUSE_OK)
		return rc;
	if (c == NULL) {
		c = malloc(sizeof(*c));
		if (c == NULL) {
			slot_give(g, NULL);
			return GATEHOUSE_NO_MEMORY;
		}
		c->link = (struct link){.fd = -1};
	} else if (!link_is_idle(&c->link)) {
		link_close(&c->link);
	}
	*out = c;
	return GATEHOUSE_OK;
}

void pool_give(struct gatehouse *g, struct conn *c)
{
	if (c->link.fd >= 0) {
		slot_give(g, c);
		return;
	}
	free(c);
	slot_give(g, NULL);
}

void pool_drop_idle(struct gatehouse *g)
{
	struct conn *c, *next;

	pthread_mutex_lock(&g->lock);
	c = g->idle;
	g->idle = NULL;
	for (const struct conn *i = c; i != NULL; i = i->next)
		g->made--;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
	for (; c != NULL; c = next) {
		next = c->next;
		link_close(&c->link);
		free(c);
	}
}
