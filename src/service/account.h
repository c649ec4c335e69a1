/* Accounts: what a user's status means for what is done in its name. The row PROFILE of the table `users` is the one truth;
 * nothing repeats it elsewhere, so the next look sees a change.
 *
 * What always holds
 * (1) A user that is not active is kept out, whether it comes by its id or by a verified address of its own. An address that
 *     nobody proved yet says nothing.
 * (2) A subject that is no user of ours is fine: teams may use attempts alone. Without the table, nothing is looked at.
 * (3) While a user is being erased nothing is written about it: else it would stay behind. */
#ifndef SERVICE_ACCOUNT_H
#define SERVICE_ACCOUNT_H

#include "service/context.h"
#include "service/user.h"
#include "service/verdict.h"

enum { SUBJECTS_MAX = 8 }; /* of one call */

/* Whom a call is about. Each list but the first may be NULL: nothing is known. */
struct account_subjects {
	const struct bytes *ids;    /* as they are stored */
	const struct bytes *emails; /* of those that came as an address: normalised; the others are empty */
	const struct bytes *users;  /* of those whose user is known already; the others are empty */
	uint32_t            count;
};

struct account {
	struct verdict verdict;             /* VERDICT_ALLOW, or what their users' status says */
	struct bytes   users[SUBJECTS_MAX]; /* the user of a subject that came as an address; empty: none */
	uint32_t       user_count;          /* how many of these are not empty */
};

/* "user_suspended", "user_deleted", "user_erasing"; NULL: it may come in. */
const char *account_reason(enum user_status status);

enum err_code account_judge(struct context *ctx, const struct account_subjects *q, struct account *out,
                            struct err *err);

/* The same for one user, by its id. Adds to *v. */
enum err_code account_judge_user(struct context *ctx, struct bytes id, struct verdict *v, struct err *err);

/* (3) ERR_NOT_NOW, if the subject is being erased. Call it before anything is written about a subject. */
enum err_code account_writable(struct context *ctx, struct bytes subject, struct err *err);

#endif
