/* The routes of /v1: one table, read by the dispatcher, the metrics, and the test that says every route is
 * documented and has a test. */
#include "api/v1_routes.h"

enum { BODY = V1_BODY_BYTES_MAX, NO_BODY = 0 };

#define FUNCTIONS(name) name##_decode, name##_run, name##_encode

static const struct v1_route routes[] = {
        {HTTP_POST, "/v1/attempts", WRITE, "RecordAttempt", BODY, FUNCTIONS(attempt), NULL, NULL},
        {HTTP_POST, "/v1/subjects/lookup", READ, "LookupSubject", BODY, FUNCTIONS(subject_lookup), NULL,
         NULL},
};

enum { ROUTE_COUNT = sizeof(routes) / sizeof(routes[0]) };

const struct v1_route *v1_route_at(unsigned index)
{
	return index < ROUTE_COUNT ? &routes[index] : NULL;
}

unsigned v1_route_index(const struct v1_route *route)
{
	return (unsigned)(route - routes);
}
