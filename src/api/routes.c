/* Routes: the table, and the one function that reads it. */
#include "api/routes.h"

#include "api/dynamodb.h"
#include "api/health.h"
#include "api/metrics.h"
#include "api/origin.h"
#include "api/problem.h"
#include "api/v1.h"

static const struct route routes[] = {
        {HTTP_POST, BYTES_INIT("/"), dynamodb_handle},      {HTTP_GET, BYTES_INIT("/"), health_home},
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

/* "." or "..", also percent-encoded: whoever stands between would take another path for the same. */
static bool is_dots(struct bytes segment)
{
	unsigned dots = 0;

	for (size_t i = 0; i < segment.len; dots++) {
		bool encoded = segment.len - i >= 3 && segment.data[i] == '%' && segment.data[i + 1] == '2' &&
		               (segment.data[i + 2] == 'e' || segment.data[i + 2] == 'E');

		if (!encoded && segment.data[i] != '.')
			return false;
		i += encoded ? 3 : 1;
	}
	return dots == 1 || dots == 2;
}

static bool has_dot_segment(struct bytes path)
{
	for (size_t start = 0, end = 0; start <= path.len; start = end + 1) {
		for (end = start; end < path.len && path.data[end] != '/';)
			end++;
		if (is_dots((struct bytes){path.data + start, end - start}))
			return true;
	}
	return false;
}

/* In the form that the caller understands. */
static void refuse_origin(struct api_loop *l, struct http_request *r, const struct err *err)
{
	if (v1_is_path(r->path) || r->method != HTTP_POST)
		problem_answer(l, r, err->code, err->text);
	else
		dynamodb_refuse(r, err);
}

void routes_handle(void *api, struct http_request *r)
{
	struct api_loop *l = r->loop_data;
	enum http_method method = r->method == HTTP_HEAD ? HTTP_GET : r->method;
	unsigned         methods = 0;
	struct err       err;

	if (origin_check(api, r, &err) != ERR_NONE) {
		refuse_origin(l, r, &err);
		return;
	}
	if (has_dot_segment(r->path)) {
		problem_answer(l, r, ERR_SERIALIZATION, "the path must not contain a segment . or ..");
		return;
	}
	if (v1_is_path(r->path)) {
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
		problem_answer(l, r, ERR_NOT_FOUND, "unknown path");
	else
		problem_answer_method(l, r, allowed_print(methods));
}
