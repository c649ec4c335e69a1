/* Attempt events: what is told of attempts themselves. Off unless a policy switches them on: they may come with every attempt.
 *
 *   SOURCE#SEEN#RECENT   known, tried: sources of a subject's attempts, newest last, each the beginning of its hash
 *
 * attempt.near_limit   a failure was counted, and few tries are left (the policy's near_limit)
 * attempt.new_source   a success from a source that is not among the last SOURCES_SEEN_MAX which succeeded; or a failure from one that is in
 *                      neither list. Failures have a list of their own, so that nobody can push out the sources of the owner.
 *
 * The row expires with disuse, and is written only if something in it changes, or it would expire soon. */
#ifndef SERVICE_ATTEMPT_EVENT_H
#define SERVICE_ATTEMPT_EVENT_H

#include "service/attempt.h"

enum {
	SOURCES_SEEN_MAX = 16,            /* of each list */
	SOURCES_SEEN_LIFE_S = 90 * 86400, /* since the row was written */
	SOURCES_SEEN_RENEW_S = 86400, /* a row is written anew if it is older, and its subject comes back */
};

/* The attempt was counted as a failure, and is not taken back. */
void attempt_near_limit(struct context *ctx, const struct attempt *q, const struct count_shown *nearest);

/* The attempt is recorded: a failure that counted, or a success. Adds to the changes. */
enum err_code attempt_new_source(struct context *ctx, const struct attempt *q, enum outcome outcome,
                                 struct err *err);

#endif
