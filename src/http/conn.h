/* Conn: a connection, from accept to close. Only its loop's thread touches it.
 *
 *   NEW --on its loop--> HANDSHAKE (TLS only) ---no TLS, or not in time--> LINGER or CLOSED
 *    |                    |
 *    '-----------------> IDLE --first byte--> HEAD --head complete--> BODY
 *                         ^                    |  |                  |  |
 *                         |                    |  '--- request ------'  |
 *                         |                    |        whole           |
 *                         |                    |          v             |
 *                         |                    |       HANDLING --peer gone--> ABANDONED <--peer gone-- PARKED
 *                         |                refused,    |  |  ^          |          |                     ^ |
 *                         |                too slow    |  |  '------- http_park, and its end ------------|-'
 *                         |                    |       |  '-------------|----------|---------------------'
 *                         |                    |    answered            |          |
 *                         |                    v       v                |       answered
 *                         |                    '--> SENDING <-----------'          |
 *                         '--- sent, kept open -------'  |                         |
 *                                                   sent, to be closed             |
 *                                                        v                         v
 *                                                     LINGER ------------------> CLOSED
 *
 *   HANDLING --http_stream_open--> STREAM <--all taken, not all--> STREAM_WAIT; both --ended--> LINGER or CLOSED
 *
 * (1) Every state but HANDLING, PARKED, STREAM and ABANDONED has a deadline or ends at once, and can go to CLOSED. PARKED
 *     has one of its own (exchange.h), and STREAM a heartbeat (stream.h).
 * (2) There is an exchange exactly in HEAD, BODY, HANDLING, PARKED and ABANDONED, and a stream in STREAM and STREAM_WAIT.
 * (3) The socket is open in every state but ABANDONED and CLOSED.
 * (4) In HANDLING, PARKED and SENDING nothing is read: pipelined bytes wait in the buffer, in the kernel, or, the rest of a
 *     record, with TLS. conn_drive takes those up again, because epoll would not report them.
 * (5) ABANDONED and CLOSED connections are freed by the loop, at the end of a round, never earlier. */
#ifndef HTTP_CONN_H
#define HTTP_CONN_H

#include "http/exchange.h"
#include "http/io.h"

enum conn_state {
	CONN_NEW,
	CONN_HANDSHAKE,
	CONN_IDLE,
	CONN_HEAD,
	CONN_BODY,
	CONN_HANDLING,
	CONN_PARKED,
	CONN_ABANDONED,
	CONN_SENDING,
	CONN_STREAM,
	CONN_STREAM_WAIT,
	CONN_LINGER,
	CONN_CLOSED,
	CONN_STATES
};

struct conn {
	struct watch        watch;
	struct timer        timer;
	struct list         link;  /* in its loop */
	struct list         grave; /* once closed */
	struct loop        *loop;
	struct io           io;
	struct http_address peer;
	enum conn_state     state;
	uint32_t            interest;    /* what epoll watches for */
	bool                driving;     /* conn_drive is on the stack */
	bool                close_after; /* the answer under way is the last */
	bool                linger;      /* … and the peer may be sending still */

	struct read_buffer *in; /* NULL when it holds nothing */
	size_t              in_start, in_end;
	size_t              took;           /* bytes just read straight into the body */
	size_t              lingered_bytes; /* read and dropped */

	struct exchange    *exchange;
	struct http_stream *stream;   /* the answer, if it is one */
	int64_t             began_us; /* when the first byte of the request came */
	int64_t moving_since_us; /* this interval of the body in, or of what the socket would not take out */
	size_t  moved_before;    /* bytes of it in earlier intervals */
	size_t  body_seen;       /* of the body, when its deadline was last moved */

	struct buf out; /* what the socket would not take yet */
	size_t     out_sent;

	void *data; /* the handler's */

	struct inbox_item arrival;
};

/* Makes one of a fresh non-blocking socket and sends it to its loop. Called by the accepting thread. */
void conn_open(struct loop *l, int fd, struct http_address peer);

/* Graceful stop: closes it if nothing is under way. */
void conn_stop(struct conn *c);

/* The time for that is over: gives up the socket now. */
void conn_abort(struct conn *c);

void conn_free(struct conn *c);

/* For answer.c. conn_drive goes on with what has been read, or leaves it to the conn_drive that is on the
 * stack already, so that a thousand pipelined requests are a loop and not a recursion. */
void conn_move(struct conn *c, enum conn_state to);
void conn_close(struct conn *c);
void conn_linger(struct conn *c);
void conn_drive(struct conn *c);

/* Measures how fast a body comes or an answer goes: a new measurement, and whether `moved_bytes` in all are too few. That
 * is asked of each interval by itself, or a fast start would buy a long idle. */
void conn_measure(struct conn *c);
bool conn_is_slow(struct conn *c, size_t moved_bytes);

#endif
