/* Accounts: whom a call is about: all ids of that person, and what the status of its user means for it. The row PROFILE of the table `users` is the one truth
 * about a user; nothing repeats it elsewhere, so the next look sees a change.
 *
 * A call names ids: the user's own, hashed addresses, ids that a caller gave it elsewhere. account_judge finds the rest:
 *
 *   an address or its hash  ->  whose it is (EMAIL#… or ALIAS#…)  ->  the user's PROFILE  ->  its aliases (alias.h)
 *   the user's id           ->  its PROFILE                               ->  its aliases
 *
 * What always holds
 * (1) A user that is not active is kept out, whether it comes by its id or by a verified address of its own. An address that
 *     nobody proved yet says nothing.
 * (2) A subject that is no user of ours is fine: teams may use attempts alone. Without the table, nothing is looked at.
 * (3) While a user is being erased nothing is written about it: else it would stay behind.
 * (4) Whatever ids of a person a call names, it finds the same set: so they are counted together, locked together and reset together.
 *     Each count is written to the first id of the call that is a user's, or else to the first, and stays there, also if an address moves
 *     to another user. So a pairwise id, which other calls need not name, may come first.
 * (5) An address that nobody has is looked for as long as one that is its user's only one: in as many requests. (The other addresses of a
 *     person are read with the rest once this process has seen its PROFILE; the first time, after it.)
 * (6) Of a user's aliases the first ALIASES_READ_MAX are read. A call that names a later one is counted under the user's id instead, which
 *     every call of the person reads. */
#ifndef SERVICE_ACCOUNT_H
#define SERVICE_ACCOUNT_H

#include "service/context.h"
#include "service/user.h"
#include "service/verdict.h"

enum {
	SUBJECTS_MAX = 8,      /* that a call names */
	ALIASES_READ_MAX = 24, /* (6): more than USER_EMAILS_MAX */
	PERSON_IDS_MAX =
	        2 * SUBJECTS_MAX + ALIASES_READ_MAX, /* those that are named, their users, and aliases */
};

/* Whom a call is about. Each list but the first may be NULL: nothing is known. */
struct account_subjects {
	const struct bytes *ids;    /* as they are stored */
	const struct bytes *emails; /* of those that came as an address: normalised; the others are empty */
	const struct bytes *users;  /* of those whose user is known already; the others are empty */
	uint32_t            count;
	bool                whole; /* all ids of the person are wanted, not only its status */
};

struct account {
	struct verdict verdict;             /* VERDICT_ALLOW, or what their users' status says */
	struct bytes   users[SUBJECTS_MAX]; /* the user of a subject that is an address; empty: none */
	uint32_t       user_count;          /* how many of these are not empty */
	struct item    profile;             /* of the first subject's user; no members: there is none */

	/* If the whole was wanted: the ids of the call, their users, then the aliases of these. The first is counted in. (4), (6) */
	struct bytes ids[PERSON_IDS_MAX];
	struct bytes owners[PERSON_IDS_MAX]; /* the user of each; empty: none is known */
	uint32_t     id_count;
	uint32_t     main_count; /* how many are not aliases, but named or users */
};

/* "user_suspended", "user_deleted", "user_erasing"; NULL: it may come in. */
const char *account_reason(enum user_status status);

enum err_code account_judge(struct context *ctx, const struct account_subjects *q, struct account *out,
                            struct err *err);

/* All ids of the person that has that one, which is stored so. */
enum err_code account_find(struct context *ctx, struct bytes id, struct account *out, struct err *err);

/* The same for one user, by its id. Adds to *v. */
enum err_code account_judge_user(struct context *ctx, struct bytes id, struct verdict *v, struct err *err);

/* (3) ERR_NOT_NOW, if the subject is being erased. Call it before anything is written about a subject. */
enum err_code account_writable(struct context *ctx, struct bytes subject, struct err *err);

#endif
