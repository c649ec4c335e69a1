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

#include "http/budget.h"
#include "http/chunk.h"
#include "http/http.h"
#include "http/parse.h"

enum receive_part { RECEIVE_HEAD, RECEIVE_BODY };

enum receive_step {
	RECEIVE_MORE, /* every byte that could be used was; more must come */
	RECEIVE_LARGE, /* a body that must be admitted: set `admitted` and feed it the rest, or answer it now */
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
	bool   continue_wanted; /* the peer waits for "100 Continue" before it sends the body */
	bool   admitted;        /* the body may be large */
	size_t charged_bytes;   /* by the handler, beside the body */
};

/* Once in the life of the memory; then receive_reset before each request, receive_release at the end. */
void receive_init(struct receive *r, struct http_request *request, const struct http_limits *limits,
                  struct budget *budget);
void receive_reset(struct receive *r);
void receive_release(struct receive *r);

/* `in` is everything received of the request and not used yet. *used: how much of it is done with. */
enum receive_step receive_feed(struct receive *r, struct bytes in, size_t *used);

/* Counts memory that was taken to work on the request, until the next reset. False: there is no room. */
bool receive_charge(struct receive *r, size_t bytes);

/* For large bodies: where the socket may be read straight into, at most *room bytes of it; NULL if this is
 * not the moment. receive_took says how many bytes came. */
char             *receive_room(struct receive *r, size_t *room);
enum receive_step receive_took(struct receive *r, size_t len);

#endif
