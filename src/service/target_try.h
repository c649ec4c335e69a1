/* Tries of a target: how its last calls ended, for people who look for the reason. A row of the table gatehouse-events, beside the retry rows (delivery.h):
 *
 *   TARGET#<name>#<id>   TRIES   tries: [{at, took, end, status, event, type, error}, …], the newest first
 *
 * The process that sends keeps them in memory and writes them with what else it writes of the target, at most once per TARGET_TRIES_WRITE_S, or
 * TARGET_TRIES_FAR_S where that goes over a network. So they are the same whichever process is asked, survive restarts, and may lack those of the
 * last seconds before a kill. They have neither subjects nor bodies nor headers. */
#ifndef SERVICE_TARGET_TRY_H
#define SERVICE_TARGET_TRY_H

#include "service/target.h"

enum {
	TARGET_TRIES_KEPT = 20,
	TARGET_TRIES_WRITE_S = 1,
	TARGET_TRIES_FAR_S = 10,
};

struct target_try {
	int64_t      at_us, took_us;
	unsigned     end;    /* of delivery_end_names */
	int64_t      status; /* of HTTP; 0: none */
	struct bytes event, type, error;
};

struct target_tries {
	struct target_try list[TARGET_TRIES_KEPT]; /* the newest first */
	uint32_t          count;
};

enum err_code target_tries_get(struct context *ctx, const struct target *t, struct target_tries *out,
                               struct err *err);
void          target_tries_put(struct context *ctx, const struct target *t, const struct target_tries *tries);
void          target_tries_delete(struct context *ctx, const struct target *t);

#endif
