/* Routes: the table, and the one function that reads it. */
#include "api/routes.h"

#include "api/door.h"
#include "api/health.h"
#include "api/metrics.h"
#include "api/problem.h"
#include "api/v1.h"

static const struct route routes[] = {
        {HTTP_POST, BYTES_INIT("/"), door_handle},          {HTTP_GET, BYTES_INIT("/"), health_home},
        {HTTP_GET, BYTES_INIT("/livez"), health_live},      {HTTP_GET, BYTES_INIT("/readyz"), health_ready},
        {HTTP_GET, BYTES_INIT("/metrics"), metrics_handle},
};

enum { ROUTE_COUNT = sizeof(routes) / sizeof(routes[0]) };

const struct route *route_at(unsigned index)
{
	return index < ROUTE_COUNT ? &routes[index] : NULL;
}

/* What a path allows, for the Allow header: bit by method. */
static const char *allowed_print(unsigned methods)
{
	bool get = methods >> HTTP_GET & 1, post = methods >> HTTP_POST & 1;

	return get && post ? "GET, HEAD, POST" : get ? "GET, HEAD" : "POST";
}

void routes_handle(void *api, struct http_request *r)
{
	struct api_loop *l = r->loop_data;
	enum http_method method = r->method == HTTP_HEAD ? HTTP_GET : r->method;
	unsigned         methods = 0;

	(void)api;
	if (v1_handles(r)) {
		v1_handle(l, r);
		return;
	}
	for (unsigned i = 0; i < ROUTE_COUNT; i++) {
		if (!bytes_equal(routes[i].path, r->path))
			continue;
		if (routes[i].method == method) {
			routes[i].handle(l, r);
			return;
		}
		methods |= 1u << routes[i].method;
	}
	if (methods == 0)
		problem_answer(l, r, ERR_NOT_FOUND, "there is nothing at this path");
	else
		problem_answer_method(l, r, allowed_print(methods));
}
