/* Endpoint: the store at a DynamoDB endpoint, as AWS's own settings say where it is and who we are there (outbound/credentials.h).
 * Opened by serve.c if --engine is dynamodb. */
#ifndef SERVER_ENDPOINT_H
#define SERVER_ENDPOINT_H

#include "base/clock.h"
#include "server/serve.h"
#include "table/store.h"

struct endpoint;

/* Makes the data directory if there is none, and asks the endpoint whether it takes our requests. An error says what is set up
 * wrongly, and what to do about it. */
enum err_code endpoint_open(struct endpoint **out, const struct serve_options *options, struct clock *clock,
                            struct err *err);
void          endpoint_close(struct endpoint *e); /* NULL is none */

struct store *endpoint_store(struct endpoint *e);

/* For people: "https://dynamodb.eu-west-1.amazonaws.com". */
const char *endpoint_url(const struct endpoint *e);

#endif
