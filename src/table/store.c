/* Store: what can be done with any backend. */
#include "table/store.h"

#include <pthread.h>

struct waiter {
	pthread_mutex_t lock;
	pthread_cond_t  finished;
	bool            done;
};

static void wake_waiter(struct turn_request *w)
{
	struct waiter *waiter = w->waiter;

	pthread_mutex_lock(&waiter->lock);
	waiter->done = true;
	pthread_cond_signal(&waiter->finished);
	pthread_mutex_unlock(&waiter->lock);
}

enum err_code store_run(struct store *s, struct turn_request *w, struct err *err)
{
	struct waiter waiter = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

	w->done = wake_waiter;
	w->waiter = &waiter;
	if (s->backend->submit(s, w, err) != ERR_NONE)
		return err->code;
	s->backend->gathered(s);
	pthread_mutex_lock(&waiter.lock);
	while (!waiter.done)
		pthread_cond_wait(&waiter.finished, &waiter.lock);
	pthread_mutex_unlock(&waiter.lock);
	if (w->rc != ERR_NONE)
		*err = w->err;
	return w->rc;
}
