/* Notify: tells the service manager how the server is: ready, stopping, alive. Speaks the manager's protocol,
 * a datagram to the socket that $NOTIFY_SOCKET names (a path, or '@' and an abstract name). Without that
 * variable nothing is sent. A message that cannot be sent is logged, and is no reason to stop.
 *
 * If the manager keeps a watchdog ($WATCHDOG_USEC), a thread says WATCHDOG=1 twice in its time, as long as
 * alive says so: it is asked once each time, so it may say what has happened since. */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

#include "base/worker.h"

struct notify {
	/* set once, before the thread starts */
	int fd; /* -1: nobody listens */
	bool (*alive)(void *ctx);
	void         *ctx;
	struct worker worker;
	bool          pinging;
};

/* With all signals blocked that the caller waits for: the thread inherits that. alive is called on the
 * thread, until notify_close. */
void notify_open(struct notify *n, bool (*alive)(void *ctx), void *ctx);

/* "READY=1", "STOPPING=1". Any thread. */
void notify_send(struct notify *n, const char *state);

void notify_close(struct notify *n);

#endif
