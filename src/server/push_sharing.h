/* Push sharing: permits for push messages where several processes share the rate (service/push_rate.h), as the gate asks for them. */
#ifndef SERVER_PUSH_SHARING_H
#define SERVER_PUSH_SHARING_H

#include "base/trouble.h"
#include "server/push_gate.h"

struct push_sharing {
	/* set once */
	struct services *services;
	struct store    *store;

	/* the thread that takes permits: the gate lets in one at a time */
	int64_t        row_us, seen_us; /* the row's time, and when that was by the steady clock */
	struct trouble trouble;
};

/* It must outlive the gate. */
struct push_share push_sharing_of(struct push_sharing *s);

#endif
