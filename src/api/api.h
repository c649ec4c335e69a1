/* API: what the server serves. It gives http/ a handler, which finds the route (routes.c) and answers, on the
 * spot or after the writer had its turn. */
#ifndef API_API_H
#define API_API_H

#include <stdatomic.h>

#include "api/meter.h"
#include "base/hash.h"
#include "http/http.h"
#include "table/store.h"

enum { ARN_HOME_BYTES = 64 };

struct audit;
struct keyring;
struct services;

/* What an API is made of; set once. */
struct api_parts {
	struct store    *store;
	struct keyring  *keyring;    /* who may sign; NULL: no authentication */
	struct services *services;   /* behind /v1 */
	struct audit    *audit;      /* NULL: acts are not written down */
	struct bytes     region;     /* of ARNs and signatures */
	struct bytes     host_names; /* origin.h: others than loopback's, separated by commas */
	struct clock    *clock;
	bool (*ready)(void *ctx); /* for /readyz: serving, not stopping, no failed flush */
	void           *ready_ctx;
	struct hash_key seed;         /* random, for request ids */
	bool            log_requests; /* all of them; else only failures of ours */
	bool            metrics_open; /* /metrics answers: it needs no signature */
	bool            restarted;    /* by itself, after a failed flush: for the metrics */
};

struct api {
	struct api_parts parts;
	int64_t          started_us;               /* wall clock */
	char             arn_home[ARN_HOME_BYTES]; /* what ARNs of tables begin with */
	atomic_uint      loop_count;               /* loops opened so far: makes their seeds differ */
	struct meter     meter;

	struct metric_counter refused_connections, refused_requests; /* at a key's limit: auth.c */

	_Atomic(const struct http_server *) http; /* NULL until api_watch */
};

void api_init(struct api *api, const struct api_parts *parts);

/* Tells the metrics which server's connections to count, once it is open. */
void api_watch(struct api *api, const struct http_server *http);

/* The handler for http_server_open; the api must outlive the server. */
struct http_handler api_handler(struct api *api);

#endif
