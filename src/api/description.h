/* The description of the API: openapi.yaml, as bytes of the program, so that a server always serves the one that fits it. It is public: who may do
 * what is no part of it. */
#ifndef API_DESCRIPTION_H
#define API_DESCRIPTION_H

#include "api/api.h"

/* GET /openapi.yaml */
void description_handle(struct api_loop *l, struct http_request *r);

#endif
