/* API: puts the parts together for http/. */
#include "api/api.h"

#include <stdio.h>
#include <string.h>

#include "access/policy.h"
#include "api/auth.h"
#include "api/dynamodb.h"
#include "api/loop.h"
#include "api/problem.h"
#include "api/routes.h"
#include "api/v1.h"

void api_init(struct api *api, const struct api_parts *parts)
{
	memset(api, 0, sizeof(*api));
	api->parts = *parts;
	snprintf(api->arn_home, sizeof(api->arn_home), "arn:aws:dynamodb:%.*s:" ACCESS_ACCOUNT ":",
	         BYTES_ARG(parts->region));
	api->started_us = clock_wall_us(parts->clock);
}

void api_watch(struct api *api, const struct http_server *http)
{
	atomic_store(&api->http, http);
}

/* Errors that the HTTP server finds before there is a request. The too large and the overload are in DynamoDB's form,
 * because its clients act on them, unless they are about a path of /v1. */
static struct bytes error_body(void *ctx, struct arena *a, const struct http_error *e,
                               const char **content_type)
{
	enum err_code code = e->status == 413 ? ERR_TOO_LARGE : e->status == 503 ? ERR_OVERLOADED : ERR_HTTP;
	struct buf    out;
	struct err    err;

	(void)ctx;
	buf_init(&out, a);
	*content_type = PROBLEM_CONTENT_TYPE;
	if (code == ERR_HTTP) {
		problem_write_http(&out, e->status, e->text);
		return buf_bytes(&out);
	}
	err_set(&err, code, "%s", e->text);
	if (v1_is_path(e->path)) {
		problem_write_err(&out, code, &err);
	} else {
		dynamodb_encode_error(a, code, &err, &out);
		*content_type = "application/x-amz-json-1.0";
	}
	return buf_bytes(&out);
}

/* Writes that came in one round of a loop have their turn in one batch. */
static void gathered(void *ctx)
{
	struct api *api = ctx;

	api->parts.store->backend->gathered(api->parts.store);
}

struct http_handler api_handler(struct api *api)
{
	return (struct http_handler){.ctx = api,
	                             .loop_open = api_loop_open,
	                             .loop_close = api_loop_close,
	                             .handle = routes_handle,
	                             .admits = auth_admits,
	                             .round = gathered,
	                             .conn_end = key_limits_conn_end,
	                             .error_body = error_body};
}
