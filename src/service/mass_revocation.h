/* Mass revocation: the tokens of many users, by a filter, as a job (job.h). Everyone's at once is one row of revocation.h and needs
 * no job; this is for those who are affected.
 *
 * What always holds
 * (1) Each user's tokens are revoked up to the same second: that of the start, unless the caller said another one.
 * (2) A user that came from an identity provider is signed out there too (sign_out.h).
 * (3) A dry run counts who would be affected and revokes nothing.
 *
 * Progress: examined, matched, revoked; unknown: ids of the list that are no users. Their tokens are revoked too, unless
 * something else is asked of them. */
#ifndef SERVICE_MASS_REVOCATION_H
#define SERVICE_MASS_REVOCATION_H

#include "service/job.h"
#include "service/user.h"

enum {
	MASS_REVOCATION_USERS_MAX = 1000, /* ids of one job's list */
	MASS_REVOCATION_STEP = 20,        /* users of one commit */
	MASS_REVOCATION_RATE = 500,       /* users per second, unless set */
	MASS_REVOCATION_ANY_STATUS = 99,
};

struct mass_revocation {
	struct bytes *users; /* NULL: all that fit the rest */
	uint32_t      user_count;
	int           status;           /* enum user_status, or MASS_REVOCATION_ANY_STATUS */
	int64_t       created_before_s; /* 0: whenever */
	struct bytes  provider;         /* empty: any, or none */
	struct bytes  reason;
	int64_t       not_before_s; /* 0: now */
	bool          dry_run;
	int64_t       rate; /* 0: MASS_REVOCATION_RATE */
};

extern const struct job_kind mass_revocation_kind;

/* ERR_INVALID if nothing is asked of the users: that is everyone. */
enum err_code mass_revocation_start(struct context *ctx, const struct mass_revocation *q,
                                    struct job_started *out, struct err *err);

#endif
