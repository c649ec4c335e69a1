/* User filter: users whom a caller's policy denies to it. What a service finds of them is as if it was not there. Empty for most callers, and then it costs
 * nothing. Any thread. */
#ifndef SERVICE_USER_FILTER_H
#define SERVICE_USER_FILTER_H

#include "base/bytes.h"

struct user_filter {
	bool (*hides)(const void *ctx, struct bytes user); /* NULL: none */
	const void *ctx;
};

static inline bool user_filter_hides(const struct user_filter *f, struct bytes user)
{
	return f->hides != NULL && f->hides(f->ctx, user);
}

#endif
