/* Health: what an orchestrator, or a person with a browser, asks first. */
#ifndef API_HEALTH_H
#define API_HEALTH_H

#include "api/loop.h"

void health_home(struct api_loop *l, struct http_request *r);
void health_live(struct api_loop *l, struct http_request *r);
void health_ready(struct api_loop *l, struct http_request *r);

#endif
