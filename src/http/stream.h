/* Stream: an answer of Server-Sent Events, open for as long as both sides like. Drawn in http.h.
 *
 *   any thread                                       loop
 *   http_stream_send --> pending --one inbox item--> out --> socket
 *
 * (1) waiting_bytes counts pending and what is left of out. Nothing is added that would take it past buffer_bytes_max, but
 *     the answer's head and the last chunk.
 * (2) If pending holds something, the item is in the inbox, or out holds something and the socket is awaited.
 * (3) state leaves OPEN once. After that nothing is added to pending but the last chunk, at that moment.
 * (4) stream_over is the only way out, from whatever state. It calls `ended`, then frees the stream, or leaves that to the
 *     item if it is in the inbox still.
 *
 * The connection is in STREAM while the socket has taken everything, and in STREAM_WAIT, with send_ms as its deadline,
 * while it has not. What the peer sends meanwhile is read and dropped: it is the last answer of its connection. */
#ifndef HTTP_STREAM_H
#define HTTP_STREAM_H

#include "http/conn.h"

/* The socket can be read or written. */
void stream_on_event(struct conn *c, uint32_t events);

/* The peer has taken nothing for send_ms. */
void stream_on_timeout(struct conn *c);

/* Ends it in order: what has been sent, and the last chunk. */
void stream_finish(struct conn *c, enum http_end why);

/* Called when the connection closes, for a stream that has not ended otherwise. */
void stream_over(struct conn *c);

#endif
