/* Inbox: push with compare-and-swap, take with one exchange. The release on push and the acquire on take
 * are what hands the item's memory from one thread to the other. */
#include "http/inbox.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum err_code inbox_open(struct inbox *in, struct err *err)
{
	atomic_init(&in->newest, NULL);
	atomic_init(&in->pushing, 0);
	in->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (in->fd < 0)
		return err_set(err, ERR_STORAGE, "eventfd: %s", strerror(errno));
	return ERR_NONE;
}

/* The loop may have run the last item before its pusher got to write the eventfd. */
void inbox_close(struct inbox *in)
{
	while (atomic_load_explicit(&in->pushing, memory_order_acquire) > 0)
		sched_yield();
	close(in->fd);
}

static void wake(struct inbox *in)
{
	const uint64_t one = 1;
	ssize_t        n;

	/* It can only fail by reaching its maximum, 2^64 - 2, which no one lives to see. */
	do
		n = write(in->fd, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
}

void inbox_push(struct inbox *in, struct inbox_item *item)
{
	struct inbox_item *newest;

	atomic_fetch_add_explicit(&in->pushing, 1, memory_order_relaxed);
	newest = atomic_load_explicit(&in->newest, memory_order_relaxed);
	do
		item->next = newest;
	while (!atomic_compare_exchange_weak_explicit(&in->newest, &newest, item, memory_order_release,
	                                              memory_order_relaxed));
	if (newest == NULL)
		wake(in);
	atomic_fetch_sub_explicit(&in->pushing, 1, memory_order_release);
}

static struct inbox_item *reversed(struct inbox_item *newest)
{
	struct inbox_item *oldest = NULL;

	while (newest != NULL) {
		struct inbox_item *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	return oldest;
}

void inbox_run(struct inbox *in)
{
	struct inbox_item *item;

	if (atomic_load_explicit(&in->newest, memory_order_relaxed) == NULL)
		return;
	item = reversed(atomic_exchange_explicit(&in->newest, NULL, memory_order_acquire));
	while (item != NULL) {
		struct inbox_item *next = item->next;

		item->run(item);
		item = next;
	}
}
