/* Known devices: OWASP's device cookies. A device that made a full sign-in carries a token (device_token.h), and the
 * token opens a lane: a budget of failures of its own, which strangers' failures do not use up. So nobody can lock an
 * owner out of her own browser.
 *
 * What always holds
 * (1) A lane is open only for a valid token of one of the person's ids (account.h), whose row is there and has not expired, whose
 *     row names every other subject of the call that is not the same user's, and which a success of a type in the rule's `after` made known
 *     within `remember`. Anything else is a stranger; it is never an error. A token is issued for the user's id, if there is a user: so
 *     it works by every name of the person, and ends with none of them.
 * (2) A token is worth `max` failures in all, however long it lives: no success and no passing of time gives any back.
 *     The failure that uses up the last one forgets the device. A success issues a new token, with a budget of its own,
 *     and the old one, with what is left of its budget, lives for DEVICE_GRACE_S at most: long enough for a
 *     browser that never got the new one.
 * (3) A subject has `devices` of them at most; those that would expire first are forgotten for new ones.
 * (4) Failures over all lanes of a subject, forgotten ones too, are counted in one row. At `max_all` every lane is closed
 *     until that row expires. A success from a known device takes that device's own failures off it, once.
 *
 * Rows: DEVICE#COOKIE#name, one for each device; DEVICE#ISSUED#COUNT, on whose count each issue is conditioned, so that
 * two at once cannot both see room (3). */
#ifndef SERVICE_DEVICE_H
#define SERVICE_DEVICE_H

#include "service/context.h"
#include "service/device_token.h"
#include "service/rules.h"

enum {
	DEVICE_GRACE_S = 24 * 3600,
	DEVICE_SUBJECTS_MAX = 16, /* other ids that a device is known for */
};

/* The registered device that a known one is (push_lane.h), if a success said so. */
#define DEVICE_LINK "device_id"

struct attempt;

/* What a new token is made of; from the caller, so that services are free of randomness. */
struct device_making {
	const struct device_keys *keys;
	uint8_t                   id[DEVICE_ID_BYTES];
};

struct device_lane {
	bool        open;
	struct item row; /* if open */
	int64_t     failures;
};

/* Does q->device, which is not empty, open the lane of q->rule, which has lanes? */
enum err_code device_lane_look(struct context *ctx, const struct attempt *q, struct device_lane *out,
                               struct err *err);

/* The lane that was open, of a device's row as it was then. */
struct device_lane device_lane_was(struct arena *a, const struct item *row, const struct rule *rule);

/* Counts a failure in an open lane. True: it was the last one, and the device is forgotten. One that is only begun
 * (reservation.h) leaves a spent device's row, which opens nothing, for the way back. */
bool device_lane_fail(struct context *ctx, const struct attempt *q, struct device_lane *lane);

/* One that is begun and was the last ends as a failure: the device is forgotten, unless it got some of its budget back. */
enum err_code device_forget_spent(struct context *ctx, const struct attempt *q, bool *forgotten,
                                  struct err *err);

/* Takes one failure back that device_lane_fail counted, if the device is still known. */
enum err_code device_lane_take_back(struct context *ctx, const struct attempt *q, struct err *err);

struct device_issued {
	struct bytes token; /* empty: none was issued */
	struct bytes name;
	int64_t      expires_s;
	bool         replaced; /* the call came from a device that was known already */
};

/* After a success of q->rule. Issues nothing unless a lane names that type in its `after`. */
enum err_code device_issue(struct context *ctx, const struct attempt *q, struct device_issued *out,
                           struct err *err);

/* ---- for people ---- */

struct device_list {
	const struct item *rows; /* of known devices, expired ones left out, in the order of their names */
	uint32_t           count;
};

enum err_code device_list(struct context *ctx, struct bytes subject, struct device_list *out,
                          struct err *err);

/* Forgets the one of that name, or all if it is empty. */
enum err_code device_forget(struct context *ctx, struct bytes subject, struct bytes name, uint32_t *count,
                            struct err *err);

#endif
