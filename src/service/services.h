/* Services: what all of them share. Put together once, by server/; every thread may read it. */
#ifndef SERVICE_SERVICES_H
#define SERVICE_SERVICES_H

#include "service/code_message.h"
#include "service/device_token.h"
#include "service/document.h"
#include "service/identifier.h"
#include "service/row.h"

#include <stdatomic.h>

struct event_numbers;
struct hot_keys;
struct job_counts;
struct job_kind;
struct limits;
struct outage;
struct policy_store;
struct provider_calls;
struct push_numbers;
struct sync_numbers;
struct target_new;
struct target_ping;
struct target_reading;

/* What is published (event.h). All zeros: nothing is. */
struct event_settings {
	struct document_holder policy; /* struct event_policy; none: the usual one */
	_Atomic uint64_t       on;     /* its types, for whoever only asks whether one is on */
	uint32_t               shards; /* of the log: by subject, and never changed (event_shards.h); 0: 1 */
	_Atomic uint64_t
	        erasures; /* users whose events were blanked: whoever keeps copies of events reads them again */
	_Atomic int64_t expiries_told_s; /* of all locks that ended until then it was told (lock_event.h) */
};

/* Who is told that events were committed. All zeros: nobody is. Any thread; must not block. */
struct event_post {
	void (*wake)(void *ctx);
	void *ctx;
};

/* Who is told that a lock was set which ends by itself. All zeros: nobody is. Any thread; must not block. */
struct expiry_post {
	void (*due)(void *ctx, int64_t until_s);
	void *ctx;
};

/* Who is told that a sign-out waits (sign_out.h). All zeros: nobody is. Any thread; must not block. */
struct sign_out_post {
	void (*wake)(void *ctx);
	void *ctx;
};

enum { TOKEN_AGE_S = 24 * 3600 }; /* unless set */
/* Of registered devices (push_device.h). */
struct push_settings {
	uint32_t shards; /* of the index: rows keep theirs until they are written again */
};

/* Who sends push messages (push.h). All zeros: nobody does. */
struct push_post {
	bool (*is_on)(void *ctx);
	void (*wake)(void *ctx, uint32_t shards); /* bit by shard */
	void                      *ctx;
	const struct push_numbers *numbers; /* for the metrics; NULL: nobody counts */
};

/* Who delivers events (delivery.h). All zeros: nobody does. */
struct target_post {
	void (*changed)(void *ctx); /* somebody changed a target, durably */
	/* Could events be sent with these? ERR_INVALID: err->field is one of the type's. Connects to nobody. */
	enum err_code (*check)(void *ctx, const struct target_new *q, struct err *err);
	/* Sends a test.ping to a target, in the background. ERR_OVERLOADED: too many are under way. */
	enum err_code (*ping)(void *ctx, struct bytes name, uint64_t *ticket, struct err *err);
	/* How it ended; false: nobody knows that ticket any more. Told once. */
	bool (*pinged)(void *ctx, uint64_t ticket, struct target_ping *out);
	/* Of all targets that events are sent to; returns how many. */
	unsigned (*read)(void *ctx, struct target_reading *out);
	void *ctx;
};

/* Jobs (job.h): set before anything calls a service. All zeros: there are none. */
struct jobs_settings {
	const struct job_kind *const *kinds;
	struct job_counts            *counts; /* one for each */
	unsigned                      kind_count;
	void (*wake)(void *ctx); /* the worker; NULL: none runs */
	void *wake_ctx;
};

struct services {
	struct service_tables        tables;
	struct identifier_key        identifiers; /* for what must not be stored as it is */
	struct policy_store         *policies;
	struct document_holder       rules;           /* of attempts, in force */
	struct document_holder       users;           /* policies of users: struct user_policy */
	bool                         claims_verified; /* an address is taken once verified, not when added */
	struct limits               *limits;
	struct hot_keys             *hot_keys; /* NULL: nobody counts */
	struct document_holder       devices;  /* keys that sign device tokens: struct device_keys */
	struct event_settings        events;
	struct event_post            event_post;
	struct target_post           target_post;
	uint32_t                     targets_per_key, consumers_per_key; /* 0: as many as there may be */
	struct expiry_post           expiry_post;
	struct sign_out_post         sign_out_post;
	struct event_numbers        *event_numbers;  /* for the metrics; NULL: nobody counts */
	struct document_holder      *providers;      /* identity providers (provider.h); NULL: none */
	const struct provider_calls *provider_calls; /* NULL: nobody can be called */
	_Atomic int64_t token_age_s; /* the longest that tokens of any issuer are taken; 0: TOKEN_AGE_S */
	struct sync_numbers *sync;   /* for the metrics; NULL: nobody counts */
	struct jobs_settings jobs;
	struct code_post     codes; /* who sends them */
	struct push_settings push;
	struct push_post     push_post;
	_Atomic int64_t      push_queue_max;  /* messages of a lane that may wait; 0: PUSH_QUEUE_MAX */
	_Atomic int          push_on_unknown; /* enum push_on_unknown */
	_Atomic int64_t      push_rate;       /* messages that are sent per second; 0: nobody sends */
	struct outage       *outage;          /* what to do while tables do not answer; NULL: they are here */
	void (*random)(void *out, size_t len);
};

#endif
