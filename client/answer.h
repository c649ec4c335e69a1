/* Answer: bytes of a connection in, one HTTP/1.1 answer out. No socket in here: the fuzzer drives it as well.
 *
 * (1) Everything fits into one buffer of ANSWER_BYTES_MAX that the answer owns; more is refused.
 * (2) How the bytes arrive, in one piece or one by one, never changes what they mean.
 * (3) What could be read in two ways is refused: a bare LF, folded lines, two lengths, a length with chunks, no
 *     length at all. */
#ifndef CLIENT_ANSWER_H
#define CLIENT_ANSWER_H

#include "text.h"

enum {
	ANSWER_BYTES_MAX = 65536,
	ANSWER_HEAD_BYTES_MAX = 8192,
	ANSWER_INTERIM_MAX = 4, /* 1xx answers before the real one */
};

enum answer_step { ANSWER_MORE, ANSWER_WHOLE, ANSWER_BAD };

enum answer_state {
	ANSWER_HEAD,
	ANSWER_BODY,
	ANSWER_CHUNK_SIZE,
	ANSWER_CHUNK,
	ANSWER_CHUNK_END,
	ANSWER_TRAILER
};

struct answer {
	/* valid once it is whole, until the next reset */
	int         status;
	bool        keep;        /* the connection can take another request */
	bool        json;        /* application/json or application/problem+json */
	bool        problem;     /* the latter */
	int64_t     retry_after; /* seconds; 0: not said */
	struct text policy;      /* RateLimit-Policy; empty: not said */
	struct text body;

	/* on the way there */
	enum answer_state state;
	unsigned          interim;
	size_t            used;    /* bytes in the buffer */
	size_t            at;      /* the first that is not understood yet */
	size_t            scanned; /* no line end lies before it */
	size_t            body_at, body_len;
	size_t            left; /* of the body, or of a chunk */
	bool              chunked, sized;
	char              buffer[ANSWER_BYTES_MAX];
};

void answer_reset(struct answer *a);

/* Where to put what comes next; 0 bytes: never, for an answer that wants more. */
char *answer_room(struct answer *a, size_t *size);

/* Says that `len` bytes were put there. Not called again once it is whole or bad. */
enum answer_step answer_took(struct answer *a, size_t len);

#endif
