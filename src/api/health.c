/* Health: alive is that this runs at all; ready is whether work should be sent here. */
#include "api/health.h"

static void answer_text(struct http_request *r, int status, struct bytes text)
{
	struct http_header   retry = {BYTES("Retry-After"), BYTES("1")};
	struct http_response response = {.status = status,
	                                 .content_type = "text/plain; charset=utf-8",
	                                 .headers = &retry,
	                                 .header_count = status == 503 ? 1 : 0,
	                                 .body = text};

	http_respond(r, &response);
}

void health_home(struct api_loop *l, struct http_request *r)
{
	(void)l;
	answer_text(r, 200,
	            BYTES("Gatehouse: durable tables behind DynamoDB's protocol.\n"
	                  "POST / with X-Amz-Target: DynamoDB_20120810.<operation>\n"
	                  "GET /livez, GET /readyz, GET /metrics\n"));
}

void health_live(struct api_loop *l, struct http_request *r)
{
	(void)l;
	answer_text(r, 200, BYTES("ok\n"));
}

void health_ready(struct api_loop *l, struct http_request *r)
{
	if (l->api->parts.ready(l->api->parts.ready_ctx))
		answer_text(r, 200, BYTES("ready\n"));
	else
		answer_text(r, 503, BYTES("not ready\n"));
}
