/* Late: a queue and a thread. Connections alone do not bound the queue: a peer may send a request, leave, and come again. */
#include "api/late.h"

#include <stdlib.h>

#include "base/worker.h"
#include "json/json.h"

enum { LATE_SLICE_US = 100000 };

struct late {
	struct worker worker;

	/* under lock */
	pthread_mutex_t   lock;
	struct late_work *first, **last;
	unsigned          waiting;

	/* late thread only */
	struct json_reader *json;
};

/* NULL if nothing waits. */
static struct late_work *take(struct late *l)
{
	struct late_work *r;

	pthread_mutex_lock(&l->lock);
	r = l->first;
	if (r != NULL) {
		l->first = r->next;
		l->waiting--;
	}
	if (l->first == NULL)
		l->last = &l->first;
	pthread_mutex_unlock(&l->lock);
	return r;
}

static void run_waiting(struct worker *worker, void *ctx)
{
	struct late      *l = ctx;
	struct late_work *r;

	while ((r = take(l)) != NULL) {
		r->run(r, l->json);
		worker_beat(worker);
	}
}

static void late_free(struct late *l)
{
	worker_release(&l->worker);
	json_reader_close(l->json);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

struct late *late_open(void)
{
	struct late *l = mem_zalloc(sizeof(*l));
	struct err   err;

	l->last = &l->first;
	l->json = json_reader_open();
	pthread_mutex_init(&l->lock, NULL);
	worker_init(&l->worker, &(struct worker_options){.name = "late",
	                                                 .round = run_waiting,
	                                                 .ctx = l,
	                                                 .slice_us = LATE_SLICE_US,
	                                                 .drains = true});
	if (worker_start(&l->worker, &err) == ERR_NONE)
		return l;
	late_free(l);
	return NULL;
}

void late_close(struct late *l)
{
	if (l == NULL)
		return;
	worker_join(&l->worker);
	late_free(l);
}

bool late_submit(struct late *l, struct late_work *r)
{
	bool room;

	r->next = NULL;
	pthread_mutex_lock(&l->lock);
	room = l->waiting < LATE_WAITING_MAX;
	if (room) {
		*l->last = r;
		l->last = &r->next;
		l->waiting++;
	}
	pthread_mutex_unlock(&l->lock);
	if (room)
		worker_wake(&l->worker);
	return room;
}
