/* Names: what policies are asked about, as most routes have it. A route's `name` runs before anything else of the request is read, and whether the
 * thing exists is not looked at: a key that is denied it learns nothing (docs/decisions/052). Those of a single route are in its own file. */
#ifndef API_V1_NAME_H
#define API_V1_NAME_H

#include "api/v1.h"

/* X(function, kind, which parameter of the path) */
#define V1_NAMED_BY_PATH(X)                                                                                  \
	X(v1_name_user, "user", 0)                                                                           \
	X(v1_name_letter, "user", 1)                                                                         \
	X(v1_name_lock, "journey", 1)                                                                        \
	X(v1_name_state, "state", 1)                                                                         \
	X(v1_name_policy, "policy", 0)                                                                       \
	X(v1_name_job, "job", 0)                                                                             \
	X(v1_name_notification, "notification", 0)                                                           \
	X(v1_name_consumer, "consumer", 0)                                                                   \
	X(v1_name_target, "target", 0)

#define X(function, kind, param) enum err_code function(struct v1_call *c, struct err *err);
V1_NAMED_BY_PATH(X)
#undef X

/* It is about whatever there is. */
enum err_code v1_name_everything(struct v1_call *c, struct err *err);

/* `journey` of the body. */
enum err_code v1_name_journey(struct v1_call *c, struct err *err);

/* `id` of the body: a user's, and of a new one it may be absent. */
enum err_code v1_name_record(struct v1_call *c, struct err *err);
enum err_code v1_name_new_user(struct v1_call *c, struct err *err);

/* Each journey in the policies. */
enum err_code v1_name_every_journey(struct v1_call *c, struct err *err);

#endif
