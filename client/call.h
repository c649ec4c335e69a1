/* Call: one request to the server and its answer, within a deadline. The answer stays with the call's connection until
 * the call is ended, so it is decoded before. */
#ifndef CLIENT_CALL_H
#define CLIENT_CALL_H

#include "json.h"
#include "pool.h"
#include "request.h"

enum { CALL_TRIES_MAX = 2 };

struct call {
	struct gatehouse    *g;
	int64_t              deadline_us;
	struct breaker_pass  pass;
	enum breaker_sight   sight;
	struct conn         *conn; /* NULL: it has come to none */
	const struct answer *answer;
	struct text          json; /* the answer's body */
};

/* GATEHOUSE_OK: the server answered 2xx, with JSON. Ends with call_end in any case, which keeps the connection if it can
 * be used again. */
enum gatehouse_code call_begin(struct call *c, struct gatehouse *g, int deadline_ms, const struct request *q,
                               struct gatehouse_error *error);
void                call_end(struct call *c);

/* Is there nobody who could say otherwise? Not so when the server itself refused, or the request cannot be right. */
bool code_is_unreachable(enum gatehouse_code code);

#endif
