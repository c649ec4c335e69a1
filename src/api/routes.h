/* Routes: which path and method is answered by what. One table, read by the dispatcher and by the test that
 * says every route is covered. */
#ifndef API_ROUTES_H
#define API_ROUTES_H

#include "api/loop.h"

struct route {
	enum http_method method;
	struct bytes     path;
	void (*handle)(struct api_loop *l, struct http_request *r);
};

/* In the order of the table; NULL past its end. */
const struct route *route_at(unsigned index);

/* http_handler's handle: finds the route, or answers 404 or 405. */
void routes_handle(void *api, struct http_request *r);

#endif
