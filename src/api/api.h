/* API: what the server serves. It gives http/ a handler, which finds the route (routes.c) and answers, on the
 * spot or after the writer had its turn. */
#ifndef API_API_H
#define API_API_H

#include <stdatomic.h>

#include "base/hash.h"
#include "engine/engine.h"
#include "http/http.h"

struct api {
	struct engine *engine;
	bool (*ready)(void *ctx); /* for /readyz: serving, not stopping, no failed flush */
	void           *ready_ctx;
	struct hash_key seed;       /* random, for request ids */
	atomic_uint     loop_count; /* loops opened so far: makes their seeds differ */
};

void api_init(struct api *api, struct engine *engine, bool (*ready)(void *ctx), void *ready_ctx,
              struct hash_key seed);

/* The handler for http_server_open; the api must outlive the server. */
struct http_handler api_handler(struct api *api);

#endif
