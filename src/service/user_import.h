/* Importing users: one line of another user service's data (POST /v1/users/import) becomes a user here: created if it is absent, changed if
 * something differs. The way in for a team that moves; docs/moving-in.md follows one.
 *
 * What always holds
 * (1) A line is one commit: the user, its addresses with their markers, and the events; or none of it, and the reason.
 * (2) The same line twice is the same as once. A line of a named run says the same each time: its row remembers the run, the line and what became
 *     of it (`importedAs`), in the same commit. So a caller that lost the answer sends it again. A line that changed nothing leaves no mark: it is decided again, by what
 *     the user is then.
 * (3) A field that the line does not have stays as it is, and so does an address; null takes a field away.
 * (4) An address that the line calls verified is verified here. It takes the place of a claim, which was not proved, and never of a proof
 *     (user_email.h, 6). One that is not verified is a claim without a code, and ends like one; if another user has the address, it is left
 *     out, and named.
 * (5) A line suspends and deletes, and never leads back: it neither reactivates, nor changes a deleted user, nor brings one back that was
 *     erased (erased.h). That is a person's to do.
 * (6) Two lines of one run for one user: the second is refused, if the first changed something. */
#ifndef SERVICE_USER_IMPORT_H
#define SERVICE_USER_IMPORT_H

#include "service/user.h"
#include "service/user_policy.h"

enum {
	IMPORT_ROWS_MAX = 100, /* lines of one call */
	IMPORT_BODY_BYTES_MAX = 1024 * 1024,
	IMPORT_EMAILS_MAX = USER_EMAILS_LIMIT,
	IMPORT_RUN_BYTES_MAX = 64,
	IMPORT_EMAIL_ID_BYTES_MAX = 64,
};

struct import_email {
	struct bytes email, typed;                /* normalised; (7) of user_email.h */
	struct bytes id, created_at, verified_at; /* empty: a new one, now */
	bool         verified, primary;
};

struct user_import {
	struct bytes               run; /* empty: none (2) */
	int64_t                    line;
	struct bytes               id;
	bool                       has_status;
	enum user_status           status; /* not USER_ERASING */
	struct bytes               suspended_by, created_at;
	struct bytes               provider, provider_user; /* empty: not said */
	struct user_fields         fields;
	const struct import_email *emails;
	uint32_t                   email_count;
};

/* X(id, name) */
#define IMPORT_OUTCOMES(X)                                                                                   \
	X(IMPORT_CREATED, "created")                                                                         \
	X(IMPORT_UPDATED, "updated")                                                                         \
	X(IMPORT_UNCHANGED, "unchanged")                                                                     \
	X(IMPORT_REFUSED, "refused")

enum import_outcome {
#define X(id, name) id,
	IMPORT_OUTCOMES(X)
#undef X
	        IMPORT_OUTCOME_COUNT
};

extern const char *const import_outcome_names[IMPORT_OUTCOME_COUNT];

struct user_imported {
	enum import_outcome outcome;  /* one of the first three */
	struct bytes        left_out; /* (4) "emails[1] emails[2]"; empty: none */
};

/* Is an error a refusal of this line (user_import_refuses)? Else nothing is known, and the call fails. */
enum err_code user_import(struct context *ctx, const struct user_import *q, struct user_imported *out,
                          struct err *err);
bool          user_import_refuses(enum err_code rc);

#endif
