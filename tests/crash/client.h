/* Client: one connection that speaks DynamoDB's protocol, blocking, as small as the crash test allows.
 * A connection belongs to one thread. An answer is valid until the next call. */
#ifndef CRASH_CLIENT_H
#define CRASH_CLIENT_H

#include "base/buf.h"
#include "json/json.h"

enum { CLIENT_WAIT_S = 30 }; /* silence longer than this counts as a lost answer */

struct client {
	int                 fd; /* -1: not connected */
	struct buf          out, in;
	struct arena        arena; /* of the answer at hand */
	struct json_reader *reader;
};

struct answer {
	int                status;
	const struct json *body; /* NULL if it is no JSON; of an empty answer, {} */
};

void client_init(struct client *c);
void client_release(struct client *c);

bool client_open(struct client *c, unsigned port);
void client_close(struct client *c);

/* false: the connection broke before the whole answer was there. */
bool client_call(struct client *c, const char *operation, struct bytes body, struct answer *answer);

/* JSON text to a tree that lives as long as the answer at hand; NULL if it is not valid. */
const struct json *client_parse(struct client *c, struct bytes text);

#endif
