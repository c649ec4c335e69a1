/* Delivery: events to targets (service/target.h). A thread (`delivery`) starts and ends what runs for each target (delivery_target.h) as rows come, change
 * and go, and sends the tests that people ask for. Opened after whoever else is told of new events, and closed before. */
#ifndef SERVER_DELIVERY_H
#define SERVER_DELIVERY_H

#include "server/target_sender.h"
#include "table/store.h"

enum {
	DELIVERY_TARGETS_LOOK_MS = 1000, /* for targets that other processes changed */
	DELIVERY_TARGETS_REST_S = 16,    /* … at most, over a network, while there is none */
	DELIVERY_PINGS_MAX = 8,          /* at once, each of another target and in a thread of its own */
	DELIVERY_PING_KEPT_S = 60,       /* if nobody asks how it ended */
};

struct delivery_options {
	struct services *services;
	struct store    *store;
	struct clock    *clock;
	bool             allow_private; /* targets on this machine and in this network */
	const char      *ca_file;       /* NULL: the system's */
};

struct delivery;

enum err_code delivery_open(struct delivery **out, const struct delivery_options *options, struct err *err);
void          delivery_close(struct delivery *d); /* NULL: nothing */

#endif
