/* Providers: the identity providers that Gatehouse knows and calls. Which ones there are is a document, read from the identity
 * file (server/identity_providers.c); how they are called is plugged in by server/, because services call nobody. */
#ifndef SERVICE_PROVIDER_H
#define SERVICE_PROVIDER_H

#include "service/sync.h"

enum {
	PROVIDERS_MAX = 32,
	PROVIDER_PAGE_MAX = 60, /* users of one call: Cognito's maximum */
	PROVIDER_RECONCILE_S = 86400,
	PROVIDER_RATE = 50, /* users per second while reconciling */
};

/* What the trigger is called as a Lambda function, unless the identity file says otherwise. */
#define PROVIDER_FUNCTION "gatehouse-post-confirmation"

struct provider {
	struct bytes name;
	struct bytes pool, region; /* of Cognito */
	struct bytes endpoint;     /* "https://…", with its NUL */
	struct bytes ca_file;      /* with its NUL; empty: the system's */
	bool         allow_private;
	bool         sign_out;     /* whoever is suspended here is signed out there */
	bool         keeps_absent; /* fields that its records no longer have stay here */
	int64_t      reconcile_s;  /* how often it is reconciled by itself; 0: never */
	int64_t      rate;         /* users per second, meanwhile */
};

struct providers {
	struct document base;
	struct bytes    function;
	struct provider list[PROVIDERS_MAX];
	uint32_t        count;
};

/* Those in force, with a reference; NULL: there are none. */
struct providers *providers_acquire(const struct services *s);
void              providers_release(struct providers *p); /* NULL is fine */

/* NULL: none. */
const struct provider *provider_named(const struct providers *p, struct bytes name);
const struct provider *provider_of_pool(const struct providers *p, struct bytes pool);

/* ---- calls, by threads that may wait ---- */

struct provider_page {
	struct sync_record *list; /* in the arena */
	uint32_t            count;
	uint32_t            unreadable; /* users whose id cannot be one here */
	struct bytes        next;       /* where the next page begins; empty: this was the last */
};

struct provider_call {
	const struct provider *provider;
	struct bytes           trace; /* the trace id of whoever caused it; empty: nobody's */
	struct arena          *arena;
};

/* ERR_OVERLOADED, ERR_THROTTLED, ERR_STORAGE: for now. Others: until somebody changes something. */
struct provider_calls {
	/* A page of all users; `from` is what the page before said. */
	enum err_code (*list)(void *ctx, const struct provider_call *c, struct bytes from,
	                      struct provider_page *out, struct err *err);
	/* One user, by its name there. ERR_NOT_FOUND. */
	enum err_code (*get)(void *ctx, const struct provider_call *c, struct bytes name,
	                     struct sync_record *out, struct err *err);
	/* Ends all its sessions. ERR_NOT_FOUND. */
	enum err_code (*sign_out)(void *ctx, const struct provider_call *c, struct bytes name,
	                          struct err *err);
	void *ctx;
};

#endif
