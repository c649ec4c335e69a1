/* Door: DynamoDB's protocol over HTTP: POST / with X-Amz-Target. */
#ifndef API_DOOR_H
#define API_DOOR_H

#include "api/loop.h"

/* A route's handler: answers r, now or later. */
void door_handle(struct api_loop *l, struct http_request *r);

/* Answers one that was refused before, in DynamoDB's form. */
void door_refuse(struct api_loop *l, struct http_request *r, const struct err *err);

#endif
