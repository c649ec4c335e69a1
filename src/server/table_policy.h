/* Table policy: the least IAM policy with which the tables at a DynamoDB endpoint can be used, or set up, as a document for IAM.
 * tests/e2e/test_table_policy.py shows that each right is needed, and that no other is. */
#ifndef SERVER_TABLE_POLICY_H
#define SERVER_TABLE_POLICY_H

#include "json/write.h"
#include "server/table_plan.h"

enum table_policy_for {
	POLICY_FOR_SERVE,  /* a server whose tables are there */
	POLICY_FOR_CREATE, /* whoever runs `gatehouse tables`; also a server that creates them on demand */
	POLICY_FOR_IMPORT, /* `gatehouse import`, into tables that are there or that it creates, and `gatehouse export` */
	POLICY_FOR_KINDS,
};

/* "serve", "create", "import": as they are asked for. */
extern const char *const table_policy_names[POLICY_FOR_KINDS];

struct table_policy_place {
	const char *region, *account;
};

/* ERR_INVALID: that is no account, or no region. */
enum err_code table_policy_place_check(const struct table_policy_place *place, struct err *err);

/* Of the tables of a plan that need not have looked at an endpoint. */
void table_policy_write(struct json_writer *w, const struct table_plan *p, enum table_policy_for what,
                        const struct table_policy_place *place);

#endif
