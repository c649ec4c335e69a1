/* SigV4 canonical: the text that both sides derive from a request, each on its own, and the text that is
 * signed in the end. */
#ifndef DYNAMO_SIGV4_CANONICAL_H
#define DYNAMO_SIGV4_CANONICAL_H

#include "base/buf.h"
#include "base/crypto.h"
#include "dynamo/sigv4_date.h"
#include "dynamo/sigv4_parse.h"

#define SIGV4_ALGORITHM  "AWS4-HMAC-SHA256"
#define SIGV4_TERMINATOR "aws4_request"

/* Appends the canonical request. Every name was sent (sigv4_names_cover). The buf needs an arena: it is
 * scratch space too. ERR_SIGNATURE_INCOMPLETE past SIGV4_QUERY_MAX; ERR_SIGNATURE if the method is no method.
 */
enum err_code sigv4_canonical_write(struct buf *out, const struct sigv4_request *r,
                                    const struct sigv4_names *names, const char body_hex[SHA256_HEX_CHARS],
                                    struct err *err);

/* Appends the string to sign. `scope` is date/region/service/aws4_request. */
void sigv4_string_write(struct buf *out, const char date[SIGV4_DATE_CHARS], struct bytes scope,
                        struct bytes canonical_request);

void sigv4_body_hex(const struct sigv4_request *r, char hex[SHA256_HEX_CHARS]);

#endif
