/* Limits: reading asks and writing answers, for every route that has to do with limits. */
#ifndef API_V1_LIMITS_H
#define API_V1_LIMITS_H

#include "api/v1.h"
#include "json/json.h"
#include "service/limits.h"

/* The policies in force, held for the length of the call. */
struct limit_policies *limit_call_policies(struct v1_call *c);

/* ---- naming and reading; errors go into f ---- */

/* The limits of a list, as resources. */
void limit_call_name_list(struct v1_call *c, struct fields *f, const char *name, enum v1_use use);

/* A key from a member: a plain text, or {"ip": …} and the like, which is hashed. */
struct limit_key limit_call_read_key(struct v1_call *c, struct fields *f, const struct json *member);

/* One ask from an object's own members: `policy`, `key`, `cost`. */
void limit_call_read(struct v1_call *c, struct fields *f, const struct limit_policies *set,
                     struct limit_call *out);

/* The asks of a member that is a list of such objects, at least one. */
void limit_call_read_list(struct v1_call *c, struct fields *f, const char *name,
                          const struct limit_policies *set, struct limit_call *out);

/* ---- writing ---- */

/* "allowed", "degraded", "retry_after", "until", "results", as members. */
void limit_call_write(struct json_writer *w, const struct limit_call *c, int64_t now_us);

/* "limits" or "results": what each ask was answered, as a member that is a list. */
void limit_call_write_results(struct json_writer *w, struct bytes name, const struct limit_call *c,
                              int64_t now_us);

/* RateLimit-Policy, RateLimit (draft-ietf-httpapi-ratelimit-headers-10: structured fields, a member a policy) and, if
 * it is refused, Retry-After. */
void limit_call_headers(struct v1_call *v, const struct limit_call *c, int64_t now_us);

#endif
