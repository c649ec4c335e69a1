/* Endings: the ways in which a cycle's load meets its end. */
#ifndef CRASH_ENDINGS_H
#define CRASH_ENDINGS_H

#include "campaign.h"

/* run takes a running server and leaves one running, having ended the first in the middle of the load.
 * Differences it finds itself it reports. */
struct ending {
	const char *name;
	void (*run)(struct campaign *c);
	bool armed; /* the server that it leaves must not be loaded again: a fault is still armed */
};

extern const struct ending ending_kill, ending_lose_log;

const struct ending *ending_of(unsigned cycle);

/* Without load: starts a server on the data directory; stops it. */
void ending_start(struct campaign *c);
void ending_stop(struct campaign *c);

#endif
