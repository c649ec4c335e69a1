/* Request: one HTTP request with a JSON body, written into one buffer. The body is written first, and the head, which
 * has to say how long the body is, is then put right before it.
 *
 * A text that is too long or not UTF-8, or a body that does not fit, is remembered, and request_finish
 * says so: the functions that write need not be asked each time. */
#ifndef CLIENT_REQUEST_H
#define CLIENT_REQUEST_H

#include "handle.h"

enum { REQUEST_HEAD_BYTES_MAX = 2048, REQUEST_BODY_BYTES_MAX = 16384, REQUEST_KEY_BYTES_MAX = 64 };

struct request {
	const char *fault; /* NULL: none yet */
	const char *field; /* which member it is about */
	bool        comma; /* before the next member */
	size_t      start; /* of the head, once finished */
	size_t      end;
	char        bytes[REQUEST_HEAD_BYTES_MAX + REQUEST_BODY_BYTES_MAX];
};

void request_init(struct request *q);

/* `name` is NULL inside an array and outside of everything. */
void request_open(struct request *q, const char *name, char bracket);
void request_close(struct request *q, char bracket);
void request_text(struct request *q, const char *name, const char *value);     /* which must be there */
void request_optional(struct request *q, const char *name, const char *value); /* NULL: left out */
/* A text, or an object that says what kind of text it is. It must be there. */
void request_identifier(struct request *q, const char *name, const char *value, enum gatehouse_kind kind);
void request_whole(struct request *q, const char *name, int64_t value);
void request_flag(struct request *q, const char *name, bool value);

/* Puts the head before it. `once`: the idempotency key, or NULL. */
enum gatehouse_code request_finish(struct request *q, const struct gatehouse *g, const char *path,
                                   const char *once, struct gatehouse_error *error);

#endif
