/* Policy following: see policy_follow.h. */
#include "server/policy_follow.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/worker.h"
#include "server/own_call.h"
#include "service/policy_store.h"

struct policy_follower {
	struct services *services;
	struct store    *store;
	struct worker    worker;

	/* the worker's thread */
	bool failing;
};

static void look(struct worker *w, void *arg)
{
	struct policy_follower *f = arg;
	struct own_call         c;
	struct err              err;
	bool                    good;

	(void)w;
	own_call_init(&c, f->services, f->store);
	own_call_read(&c);
	good = policy_store_follow(f->services->policies, &c.ctx, &err) == ERR_NONE;
	own_call_read_end(&c);
	own_call_release(&c);
	if (!good && !f->failing)
		log_warn("policies that other processes may have changed were not read; it is tried again "
		         "every %d s: %s",
		         POLICY_FOLLOW_S, err.text);
	f->failing = !good;
}

enum err_code policy_follow_open(struct policy_follower **out, struct services *services, struct store *store,
                                 struct err *err)
{
	struct policy_follower *f = mem_zalloc(sizeof(*f));

	f->services = services;
	f->store = store;
	worker_init(&f->worker, &(struct worker_options){.name = "policy-follow",
	                                                 .round = look,
	                                                 .ctx = f,
	                                                 .period_us = POLICY_FOLLOW_S * INT64_C(1000000)});
	*out = f;
	return worker_start(&f->worker, err);
}

void policy_follow_close(struct policy_follower *f)
{
	if (f == NULL)
		return;
	worker_join(&f->worker);
	worker_release(&f->worker);
	free(f);
}
