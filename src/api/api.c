/* API: puts the parts together for http/. */
#include "api/api.h"

#include <stdio.h>
#include <string.h>

#include "access/policy.h"
#include "api/auth.h"
#include "api/call.h"
#include "api/ceiling.h"
#include "api/loop.h"
#include "api/problem.h"
#include "api/routes.h"

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

/* Errors that the HTTP server finds before there is a request. The too large and the overload are in
 * DynamoDB's form, because its clients act on them. */
static struct bytes error_body(void *ctx, struct arena *a, int status, const char *text,
                               const char **content_type)
{
	enum err_code code = status == 413 ? ERR_TOO_LARGE : ERR_OVERLOADED;
	struct buf    out;
	struct err    err;

	(void)ctx;
	buf_init(&out, a);
	if (status == 413 || status == 503) {
		err_set(&err, code, "%s", text);
		call_encode_error(a, code, &err, &out);
		*content_type = "application/x-amz-json-1.0";
	} else {
		problem_write_http(&out, status, text);
		*content_type = PROBLEM_CONTENT_TYPE;
	}
	return buf_bytes(&out);
}

/* Writes that came in one round of a loop have their turn in one batch. */
static void gathered(void *ctx)
{
	struct api *api = ctx;

	engine_gathered(api->parts.engine);
}

struct http_handler api_handler(struct api *api)
{
	return (struct http_handler){.ctx = api,
	                             .loop_open = api_loop_open,
	                             .loop_close = api_loop_close,
	                             .handle = routes_handle,
	                             .admits = auth_admits,
	                             .round = gathered,
	                             .conn_end = ceiling_conn_end,
	                             .error_body = error_body};
}
