/* Feedback: what push providers say of tokens. A token that is dead is sent to no more. */
#ifndef SERVICE_PUSH_FEEDBACK_H
#define SERVICE_PUSH_FEEDBACK_H

#include "service/push_device.h"
#include "service/user_filter.h"

enum push_feedback_outcome {
	FEEDBACK_DISABLED, /* the token: it was the device's only one, and the device is inactive now; or it is gone */
	FEEDBACK_INACTIVE, /* it was before */
	FEEDBACK_UNKNOWN,  /* no device has it */
	FEEDBACK_STALE,    /* the device was registered after that message was sent */
	FEEDBACK_IGNORED,  /* what went wrong is no fault of the token's */
	FEEDBACK_DEFERRED, /* no room in this commit: to be sent again */
	FEEDBACK_INVALID,  /* it is no token of any kind */
	FEEDBACK_OUTCOMES
};
extern const char *const push_feedback_names[FEEDBACK_OUTCOMES];

struct push_feedback {
	enum push_kind     kind; /* PUSH_KINDS: of none */
	struct bytes       token;
	struct push_ref    to; /* the device that it was sent to; empty: the one that registered the token */
	int64_t            sent_s;         /* when the message was sent; 0: not said */
	bool               not_registered; /* the provider says that the token is dead */
	struct user_filter users;          /* their devices have no token */
};

/* What a provider says of a token. */
enum err_code push_feedback_take(struct context *ctx, const struct push_feedback *q,
                                 enum push_feedback_outcome *out, struct err *err);

#endif
