/* Actions in calls: what /v1/check and /v1/tokens/verify share. */
#ifndef API_V1_CHECK_H
#define API_V1_CHECK_H

#include "api/v1.h"
#include "service/check.h"

/* `journey`, `actions` and what comes with them, but for the subjects. c->who.rules is set before. */
void check_read(struct v1_call *c, struct fields *f, struct check *out);

/* "actions", and the version of the policies; counts each verdict. */
struct check_shown {
	const struct check   *q;
	const struct checked *r;
};

void check_write(struct json_writer *w, const struct check_shown *s, int64_t now_us);

#endif
