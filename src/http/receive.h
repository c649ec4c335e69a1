/* Receive: turns bytes into one whole request, without a socket: conn.c feeds it, and so do tests and
 * fuzzers.
 *
 *   RECEIVE_HEAD --head complete--> RECEIVE_BODY --body complete--> done
 *         '------------ refused ---------'
 *
 * The head is copied into the request's arena and the body into a buffer of the request's own, so whatever
 * the request shows stays valid however the caller's buffer moves on. */
#ifndef HTTP_RECEIVE_H
#define HTTP_RECEIVE_H

#include <assert.h>

#include "base/buf.h"
#include "base/crypto.h"
#include "http/parse.h"

/* Budget: how many bytes of large bodies, of what was decoded from them, and of answers one loop may hold at a time; and of
 * parked requests and streams. One thread only. */

/* A buffer up to this size is not counted: connections_max bounds those. */
enum { BUDGET_FREE_BYTES = HTTP_SMALL_BODY_BYTES };

struct budget {
	size_t held_bytes;
	size_t held_bytes_max;
	size_t parked_bytes; /* for as long as a peer likes, so of a share of its own */
};

/* A buffer goes from one capacity to another. False: there is no room, and nothing changed. */
bool budget_move(struct budget *b, size_t cap_from, size_t cap_to);

/* More for a request that holds `own` bytes of it already. One that is alone always gets it: later would be no better. */
bool budget_take(struct budget *b, size_t own, size_t bytes);

/* For a parked request or a stream. These may have half as much again as everything else, and never take from it. */
bool budget_park(struct budget *b, size_t bytes);
void budget_unpark(struct budget *b, size_t bytes);

/* Chunk: takes a chunked body apart, in bytes that arrive in any pieces. Strict: sizes
 * are hex digits only, every line ends with CR LF, extensions and trailers are bounded and dropped.
 *
 *   SIZE --digits, CR LF--> DATA --all of it--> DATA_END --CR LF--> SIZE
 *    '--size 0--> TRAILER --empty line--> DONE */

enum {
	CHUNK_SIZE_DIGITS_MAX = 15,
	CHUNK_EXTENSION_BYTES_MAX = 256, /* a chunk */
	CHUNK_TRAILER_BYTES_MAX = 4096,  /* all of it */
};

enum chunk_state {
	CHUNK_SIZE,
	CHUNK_EXTENSION,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	CHUNK_TRAILER, /* inside a trailer line, or at its start if line_bytes is 0 */
	CHUNK_TRAILER_LF,
	CHUNK_DONE,
};

struct chunk {
	enum chunk_state state;
	uint64_t         left;       /* of this chunk's data */
	unsigned         digits;     /* of its size so far */
	size_t           line_bytes; /* of this extension or trailer line so far */
	size_t           trailer_bytes;
};

enum chunk_step {
	CHUNK_STEP_MORE,  /* everything used, the body goes on */
	CHUNK_STEP_PIECE, /* *piece is the next of the body; call again with the rest */
	CHUNK_STEP_DONE,  /* the body ended at *used */
	CHUNK_STEP_BAD,
};

void chunk_init(struct chunk *c);

/* *used says how many bytes of `in` were taken. *piece points into `in`. */
enum chunk_step chunk_next(struct chunk *c, struct bytes in, size_t *used, struct bytes *piece);

enum receive_part { RECEIVE_HEAD, RECEIVE_BODY };

enum receive_step {
	RECEIVE_MORE, /* every byte that could be used was; more must come */
	RECEIVE_LARGE, /* a body that must be admitted: call receive_admit and feed it the rest, or answer it now */
	RECEIVE_DONE,    /* the request is whole */
	RECEIVE_REFUSED, /* `refusal` says why */
};

struct receive {
	const struct http_limits *limits;
	struct http_request      *request;
	struct budget            *budget;
	enum receive_part         part;
	struct scan               scan;
	struct head               head;
	struct chunk              chunk;
	struct buf                body; /* heap; kept for the next request if small */
	struct refusal            refusal;
	bool                 continue_wanted; /* the peer waits for "100 Continue" before it sends the body */
	bool                 admitted;        /* the body may be large */
	bool                 digests;         /* it is, and it is hashed as it comes */
	size_t               digested_bytes;
	size_t               charged_bytes; /* by the handler, beside the body */
	struct sha256_stream digest;
	uint8_t              sha256[SHA256_BYTES]; /* request->body_sha256 */
};

/* Once in the life of the memory; then receive_reset before each request, receive_release at the end. */
void receive_init(struct receive *r, struct http_request *request, const struct http_limits *limits,
                  struct budget *budget);
void receive_reset(struct receive *r);
void receive_release(struct receive *r);

/* After RECEIVE_LARGE, if it was admitted: with a digest? */
void receive_admit(struct receive *r, bool digests);

/* `in` is everything received of the request and not used yet. *used: how much of it is done with. */
enum receive_step receive_feed(struct receive *r, struct bytes in, size_t *used);

/* Counts memory that was taken to work on the request, until the next reset. False: there is no room. */
bool receive_charge(struct receive *r, size_t bytes);

/* For large bodies: where the socket may be read straight into, at most *room bytes of it; NULL if this is
 * not the moment. receive_took says how many bytes came. */
char             *receive_room(struct receive *r, size_t *room);
enum receive_step receive_took(struct receive *r, size_t len);

#endif
