/* Pool: the handle's few connections. A call takes one and gives it back; when all are taken it waits its turn.
 * (1) At most connections_max exist. (2) An idle one that is handed out was open and silent a moment before. */
#ifndef CLIENT_POOL_H
#define CLIENT_POOL_H

#include "handle.h"

/* A connection, open or yet to be opened (link.fd < 0). GATEHOUSE_TIMEOUT: none became free. GATEHOUSE_UNREACHABLE: while
 * waiting, the server was given up; a probe is not told so. */
enum gatehouse_code pool_take(struct gatehouse *g, bool probe, int64_t deadline_us, struct conn **out);

/* Keeps it if it is open. */
void pool_give(struct gatehouse *g, struct conn *c);

/* Closes all idle ones: when one has broken, the others, left from the same server, have too. */
void pool_drop_idle(struct gatehouse *g);

#endif
