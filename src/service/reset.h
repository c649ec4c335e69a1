/* Resets: what follows when a credential was replaced. The counts and locks that the rules name are cleared,
 * with every qualifier and in every lane; known devices are forgotten, unless the rules keep them; a demand for a
 * new password, or for a new proof of identity, is met.
 *
 * A lock that a person set stays, unless the request says otherwise.
 *
 * One call clears RESET_ROWS_MAX rows at most: what counts first (locks, then counts of the subject and its
 * devices), what sources left last. If rows remain the result says so, and another call clears them. */
#ifndef SERVICE_RESET_H
#define SERVICE_RESET_H

#include "service/device.h"
#include "service/rules.h"
#include "service/state.h"

enum { RESET_ROWS_MAX = 90 };

struct reset_row {
	struct bytes sk;
	int64_t      count;
};

/* What is asked. */
struct reset_request {
	const struct rules *rules;
	const struct reset *reset;
	struct bytes        subject;
	bool                operator_locks; /* locks that people set are cleared too */
};

struct reset_result {
	struct reset_row  cleared[RESET_ROWS_MAX];
	uint32_t          count;
	uint32_t          kept; /* locks that people set, and that hold still */
	bool              more;
	struct demand_met met;
	uint32_t          devices; /* known ones that were forgotten */
};

enum err_code subject_reset(struct context *ctx, const struct reset_request *q, struct reset_result *out,
                            struct err *err);

#endif
