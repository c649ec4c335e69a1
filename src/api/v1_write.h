/* What many routes write alike: verdicts and their HTTP statuses, counts, times. */
#ifndef API_V1_WRITE_H
#define API_V1_WRITE_H

#include "api/v1.h"
#include "service/assess.h"

/* "2026-11-15T22:00:00Z" */
void v1_write_time(struct json_writer *w, struct bytes name, int64_t seconds);

/* "verdict", "reason", "until", "retry_after", "lock", as members. */
void v1_write_verdict(struct json_writer *w, const struct verdict *v, int64_t now_us);

/* The same for one of several verdicts, of which another may last longer. */
void v1_write_verdict_wait(struct json_writer *w, const struct verdict *v, const struct verdict_wait *wait,
                           int64_t now_us);

/* "required", "email_fraud_pending", as members, if there is anything to tell. */
void v1_write_required(struct json_writer *w, const struct states_required *r);

/* "count", "max", "remaining", "expires_in", as members. */
void v1_write_count(struct json_writer *w, const struct count_shown *shown, int64_t now_us);

/* "degraded", "warning", as members, if the call was decided on what was last known. */
void v1_write_degraded(const struct v1_call *c, struct json_writer *w);

/* ?enforce=status: the verdict as HTTP status, and when to come back. */
void v1_enforce_verdict(struct v1_call *c, const struct verdict *v, int64_t now_us);
void v1_enforce_wait(struct v1_call *c, enum verdict_kind kind, const struct verdict_wait *wait);

#endif
