/* Services: put together as the options say, on a store. Opened after it, closed before it. */
#ifndef SERVER_SERVICES_H
#define SERVER_SERVICES_H

#include "server/serve.h"
#include "service/event.h"
#include "service/services.h"
#include "service/sync.h"
#include "table/store.h"

enum { POLICY_KINDS = 4 };

struct server_services {
	struct services        all;
	struct sync_numbers    sync;
	struct event_numbers   events;
	struct document_holder providers;           /* struct providers */
	struct document_kind   kinds[POLICY_KINDS]; /* of policies */
	const char            *data;                /* the data directory */
	uint64_t               device_keys_seen;
	int64_t counting_seen[2]; /* the versions of `attempts` and `users` that were compared */
	bool    keeping_failed;   /* of versions of the policy file, the last time */
};

/* *s is zeroed before. If it fails, services_close is called all the same. */
enum err_code services_open(struct server_services *s, const struct serve_options *options,
                            struct store *store, struct err *err);
void          services_close(struct server_services *s); /* as far as it came */

/* Now and then, from one thread: looks whether the policy file or the device keys changed. */
void services_refresh(struct server_services *s, struct store *store);

/* What services call their tables, and which they may make. */
struct service_tables services_tables(const struct serve_options *options);

/* Do the tables have names of their own, and is the file of policies, if there is one, good? */
enum err_code services_check(const struct serve_options *options, struct err *err);

#endif
