/* Late: a queue and a thread. Connections alone do not bound the queue: a peer may send a request, leave, and come again. */
#define _GNU_SOURCE
#include "api/late.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "json/json.h"

enum { LATE_NICE = 10 };

struct late {
	pthread_t thread;

	/* under lock */
	pthread_mutex_t   lock;
	pthread_cond_t    arrived;
	struct late_work *first, **last;
	unsigned          waiting;
	bool              stopping;
};

/* NULL when there will be none any more. */
static struct late_work *take(struct late *l)
{
	struct late_work *r;

	pthread_mutex_lock(&l->lock);
	while (l->first == NULL && !l->stopping)
		pthread_cond_wait(&l->arrived, &l->lock);
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

static void *late_main(void *arg)
{
	struct json_reader *json = json_reader_open();
	struct late_work   *r;

	setpriority(PRIO_PROCESS, (id_t)gettid(),
	            LATE_NICE); /* of this thread alone; without it all is well, only slower */
	while ((r = take(arg)) != NULL)
		r->run(r, json);
	json_reader_close(json);
	return NULL;
}

struct late *late_open(void)
{
	struct late *l = mem_zalloc(sizeof(*l));

	l->last = &l->first;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->arrived, NULL);
	if (pthread_create(&l->thread, NULL, late_main, l) == 0)
		return l;
	pthread_cond_destroy(&l->arrived);
	pthread_mutex_destroy(&l->lock);
	free(l);
	return NULL;
}

void late_close(struct late *l)
{
	if (l == NULL)
		return;
	pthread_mutex_lock(&l->lock);
	l->stopping = true;
	pthread_cond_signal(&l->arrived);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->thread, NULL);
	pthread_cond_destroy(&l->arrived);
	pthread_mutex_destroy(&l->lock);
	free(l);
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
		pthread_cond_signal(&l->arrived);
	}
	pthread_mutex_unlock(&l->lock);
	return room;
}
