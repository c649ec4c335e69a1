/* Hold: requests that handlers have parked. Drawn in http.h, with the rules for other threads.
 *
 *   park.state   NONE --http_park--> WAITS --http_wake, any thread--> WOKEN, in the inbox
 *                 ^                    |                                |
 *                 '--deadline, peer gone, stop: on the loop--'----------'--> fn
 *
 * (1) Only who moves the state away from WAITS makes fn be called: the loop at once, a waker by way of the inbox. So
 *     it is called once, and a request with a wake under way is left alone by deadline and stop.
 * (2) In PARKED the connection has a socket and its exchange. If the peer goes, it is ABANDONED as in HANDLING. */
#ifndef HTTP_HOLD_H
#define HTTP_HOLD_H

#include "http/conn.h"

/* Ends the wait of a connection's request, unless it is not parked or a wake is on its way. */
void hold_end(struct conn *c, enum http_end why);

#endif
