/* Services: what all of them share. Put together once, by server/; every thread may read it. */
#ifndef SERVICE_SERVICES_H
#define SERVICE_SERVICES_H

#include "service/device_token.h"
#include "service/document.h"
#include "service/identifier.h"
#include "service/row.h"

struct limits;
struct policy_store;

/* What is published (event.h). All zeros: nothing is. */
struct event_settings {
	uint64_t     on;     /* a bit for each type */
	struct bytes source; /* of the CloudEvents */
	uint32_t     shards; /* of the log: by subject, and never changed while there are events */
};

struct services {
	struct service_tables  tables;
	struct identifier_key  identifiers; /* for what must not be stored as it is */
	struct policy_store   *policies;
	struct document_holder rules; /* of attempts, in force */
	struct limits         *limits;
	struct document_holder devices; /* keys that sign device tokens: struct device_keys */
	struct event_settings  events;
	void (*random)(void *out, size_t len);
};

#endif
