/* Lambda: the post-confirmation trigger of Amazon Cognito, in the form in which Cognito calls a function of AWS Lambda:
 *
 *   POST /2015-03-31/functions/{name}/invocations
 *
 * One function: it writes the user who was confirmed (sync.h) and returns the event. It is a route like those of /v1 (v1_routes.c):
 * the same dispatcher, limits, policies, metrics and log. Only who calls (a signature for the service "lambda") and how it is
 * answered is Lambda's. A function that fails is a call that succeeds: 200, with the header X-Amz-Function-Error. */
#ifndef API_LAMBDA_H
#define API_LAMBDA_H

#include "api/v1.h"

#define LAMBDA_PATH "/2015-03-31/functions/"

void lambda_handle(struct api_loop *l, struct http_request *r);

#endif
