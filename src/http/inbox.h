/* Inbox: how other threads reach a loop: a lock-free stack that the loop takes whole and reads oldest first.
 * Whoever puts the first item onto an empty inbox wakes the loop; those after him need not.
 *
 * Thread rule: inbox_push from any thread; everything else by the loop's own. */
#ifndef HTTP_INBOX_H
#define HTTP_INBOX_H

#include <stdatomic.h>

#include "base/err.h"

/* Embedded in whatever is sent. run is called on the loop's thread, and the item is not touched after. */
struct inbox_item {
	struct inbox_item *next;
	void (*run)(struct inbox_item *item);
};

struct inbox {
	/* any thread */
	_Atomic(struct inbox_item *) newest;
	atomic_uint pushing; /* threads inside inbox_push: inbox_close waits for them to leave */
	/* set once */
	int fd; /* an eventfd, to be watched edge-triggered: each write is an edge, so it is never read */
};

enum err_code inbox_open(struct inbox *in, struct err *err);

/* No push may start after this; one that is under way ends first. */
void inbox_close(struct inbox *in);

void inbox_push(struct inbox *in, struct inbox_item *item);

/* Runs everything that was in it, oldest first. */
void inbox_run(struct inbox *in);

#endif
