/* Provision: tables at the endpoint as an operator wants them, beyond what services ask for: encryption with a key of one's own, point-in-time
 * recovery. One step at a time, each but the first waited for until the table is ACTIVE and its indexes are filled. No step removes
 * anything, nor changes rows; each can be repeated. An error says what to do about it (inspect.h). */
#ifndef REMOTE_PROVISION_H
#define REMOTE_PROVISION_H

#include "remote/remote.h"

enum provision_kind {
	PROVISION_BEGIN, /* to make a table: schema, kms_key. Not waited for, so that many are made at once; one that is there stays */
	PROVISION_WAIT,   /* until it is made */
	PROVISION_CHANGE, /* changes that go together: an index, billing, protection, time to live, tags */
	PROVISION_ENCRYPTION, /* kms_key */
	PROVISION_RECOVERY,
};

struct provision_step {
	enum provision_kind        kind;
	const struct table_schema *schema; /* its name at least */
	struct bytes               kms_key;
	const struct table_change *changes;
	uint32_t                   change_count;
};

struct provision_wait {
	int64_t most_s; /* for one step */
	/* Still at it, after so many seconds: about once a second. */
	void (*progress)(void *ctx, struct bytes table, struct bytes status, int64_t waited_s);
	void *ctx;
};

enum err_code remote_provision(struct remote *r, struct arena *a, const struct provision_step *step,
                               const struct provision_wait *wait, struct err *err);

#endif
