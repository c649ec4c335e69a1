/* Problem: errors outside DynamoDB's protocol, as application/problem+json (RFC 9457). */
#ifndef API_PROBLEM_H
#define API_PROBLEM_H

#include "api/loop.h"

#define PROBLEM_CONTENT_TYPE "application/problem+json"

/* {"type": "about:blank", "title": …, "status": …, "detail": …} */
void problem_write(struct buf *out, int status, const char *title, struct bytes detail);

/* Of an error under /v1, with the field it is about. */
void problem_write_err(struct buf *out, enum err_code code, const struct err *err);

void problem_answer(struct api_loop *l, struct http_request *r, int status, const char *title,
                    const char *detail);

/* 405, with the methods that the path has. */
void problem_answer_method(struct api_loop *l, struct http_request *r, const char *allowed);

#endif
