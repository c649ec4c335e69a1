/* Problem: errors outside DynamoDB's protocol, as application/problem+json (RFC 9457). */
#ifndef API_PROBLEM_H
#define API_PROBLEM_H

#include "api/loop.h"

#define PROBLEM_CONTENT_TYPE "application/problem+json"

/* {"type": "urn:gatehouse:problem:…", "title": …, "status": …, "detail": …, "field": …}. What belongs to a code is in
 * base/err.h; docs/errors.md says what a program does about each. */
void problem_write_err(struct buf *out, enum err_code code, const struct err *err);

/* What the HTTP server refuses before there is a request; its statuses are its own. */
void problem_write_http(struct buf *out, int status, const char *detail);

void problem_answer(struct api_loop *l, struct http_request *r, enum err_code code, const char *detail);

/* 405, with the methods that the path has. */
void problem_answer_method(struct api_loop *l, struct http_request *r, const char *allowed);

#endif
