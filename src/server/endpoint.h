/* Endpoint: the store at a DynamoDB endpoint, as AWS's own settings say where it is and who we are there (outbound/credentials.h).
 * Opened by serve.c if --engine is dynamodb. */
#ifndef SERVER_ENDPOINT_H
#define SERVER_ENDPOINT_H

#include "base/clock.h"
#include "server/serve.h"
#include "table/store.h"

struct endpoint;

/* Where it is and who we are there; asks it nothing yet. Of the options, region, table_prefix, workers and queue_mb count. An error says
 * what is set up wrongly, and what to do about it: here and below. If it fails, endpoint_close is called all the same. */
enum err_code endpoint_connect(struct endpoint **out, const struct serve_options *options,
                               struct clock *clock, struct err *err);

/* For a server: makes the data directory if there is none, connects, and looks at every table, in two requests each: ERR_NO_RESOURCE if one is
 * missing that is not to be made, ERR_FOREIGN_TABLE if services cannot use one. */
enum err_code endpoint_open(struct endpoint **out, const struct serve_options *options, struct clock *clock,
                            struct err *err);
void          endpoint_close(struct endpoint *e); /* NULL is none */

/* The region alone, in the arena: no credentials are needed if the options say it. */
enum err_code endpoint_region_find(const struct serve_options *options, struct arena *a, const char **out,
                                   struct err *err);

struct store  *endpoint_store(struct endpoint *e);
struct remote *endpoint_remote(struct endpoint *e);

/* For people: "https://dynamodb.eu-west-1.amazonaws.com". */
const char *endpoint_url(const struct endpoint *e);
const char *endpoint_region(const struct endpoint *e);

#endif
