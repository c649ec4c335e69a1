/* Checking users: whether the rows of the table `users` are what user.h and user_email.h promise. Others may write to this table
 * through DynamoDB's protocol, and may forget a marker. For `gatehouse check`; the job of adopt.h repairs most of it.
 *
 * What is checked
 * (1) A verified address, and one with GSI1PK, has its marker; a marker has its address.
 * (2) A user has one primary address if it has a verified one, and none otherwise. The primary one is verified.
 * (3) PROFILE names the primary address, and no other.
 * (4) GSI1PK and GSI1SK say what the address and the user are.
 * (5) An address has a user, and is written as it is compared: normalised.
 * A user that is being erased may lack some of that.
 *
 * Texts name users and addresses by their ids, and hold no address. */
#ifndef SERVICE_USER_CHECK_H
#define SERVICE_USER_CHECK_H

#include "service/context.h"

enum { USERS_CHECK_PAGE = 500 };

struct users_checked {
	uint64_t users, addresses, markers, problems;
};

struct users_check {
	void (*problem)(void *ctx, const char *text);
	void                *ctx;
	struct users_checked found; /* so far */

	/* where the next page begins; no data: at the first */
	struct bytes after_pk, after_sk;
	bool         more; /* set by each page */
};

/* One page of the table. Texts of the cursor are in the context's arena: keep them if that is reset. */
enum err_code users_check_page(struct context *ctx, struct users_check *c, struct err *err);

#endif
