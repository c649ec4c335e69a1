/* Registering devices: the one call that an app makes on every launch. push_device.h numbers what it keeps to. */
#ifndef SERVICE_PUSH_REGISTER_H
#define SERVICE_PUSH_REGISTER_H

#include "service/push_device.h"
#include "service/user_filter.h"

struct push_registration {
	struct bytes       user, device, platform;
	struct bytes       tokens[PUSH_KINDS]; /* at least one, well-formed and normal; empty: it has none */
	uint32_t           devices_max;        /* of the user (user_policy.h) */
	struct user_filter users;              /* a token of theirs is not taken */
};

struct push_registered {
	struct push_device device;
	bool               created;
	uint32_t           moved;   /* devices that lost a token to this one */
	uint32_t           trimmed; /* devices of the same user that went (4) */
};

/* ERR_ACCESS if a device of a user who is hidden has a token. ERR_NOT_NOW if the user is not active. It need not have an account here. */
enum err_code push_device_register(struct context *ctx, const struct push_registration *q,
                                   struct push_registered *out, struct err *err);

#endif
