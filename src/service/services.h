/* Services: what all of them share. Put together once, by server/; every thread may read it. */
#ifndef SERVICE_SERVICES_H
#define SERVICE_SERVICES_H

#include "service/device_token.h"
#include "service/document.h"
#include "service/identifier.h"
#include "service/tables.h"

struct limits;
struct policy_store;

struct services {
	struct service_tables  tables;
	struct identifier_key  identifiers; /* for what must not be stored as it is */
	struct policy_store   *policies;
	struct document_holder rules; /* of attempts, in force */
	struct limits         *limits;
	struct document_holder devices; /* keys that sign device tokens: struct device_keys */
	void (*random)(void *out, size_t len);
};

#endif
