/* Listener: accepts connections on loop 0 and deals them out to all loops in turn. */
#ifndef HTTP_LISTENER_H
#define HTTP_LISTENER_H

#include "http/loop.h"

struct listener {
	struct watch watch;
	struct timer pause; /* armed while accepting rests for want of descriptors */
	struct loop *loops;
	unsigned     loop_count;
	unsigned     next; /* whose turn it is */
	int          fd;
	int          spare_fd; /* given up for a moment to be able to turn a peer away */
};

/* Takes over fd, success or not. loops[0] is the one that accepts. */
enum err_code listener_init(struct listener *li, int fd, struct loop *loops, unsigned loop_count,
                            struct err *err);

/* On loop 0's thread: accepts what waits already, then stops listening. */
void listener_stop(struct listener *li);

/* For when loop 0 never ran. */
void listener_release(struct listener *li);

#endif
