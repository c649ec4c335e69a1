/* Aliases: the further ids that attempts know a user by. Today these are the hashed ids of its verified addresses ("email:…"). Whatever
 * name is used at a login page, it is one person: one budget, one lock, one reset (account.h finds all ids of a call).
 *
 *   USER#<id>     PROFILE   aliases: a list of ids     all of a user, in the row that says its status: one read finds both
 *   ALIAS#<id>    OWNER     userId                     whose an alias is
 *
 * What always holds
 * (1) Both are written in the commit that verifies, removes or erases the address.
 * (2) A PROFILE without the list was written by an earlier program, or by somebody else. Then the user's addresses are read instead, until
 *     the next change of an address, or the job `adopt`, writes the list.
 * (3) An id is an alias of one user at most, as an address is (user_email.h, 1). */
#ifndef SERVICE_ALIAS_H
#define SERVICE_ALIAS_H

#include "service/context.h"
#include "service/row.h"

struct aliases {
	struct bytes *list;
	uint32_t      count;
};

/* The id of a normalised address. False: it has none. */
bool alias_of_email(struct context *ctx, struct bytes email, struct bytes *out);

/* The key of the row that says whose an alias is, to be looked at. */
void alias_owner_key(struct arena *a, struct bytes id, struct looked *out);

/* Does the PROFILE have a list? Then *out is it. */
bool aliases_of(struct arena *a, const struct item *profile, struct aliases *out);

/* All of a user, whether or not its PROFILE has a list (2). */
enum err_code aliases_find(struct context *ctx, struct bytes user, const struct item *profile,
                           struct aliases *out, struct err *err);

bool aliases_have(const struct aliases *all, struct bytes id);

/* The list of a user that has none yet. */
void aliases_begin(struct row *profile);

/* Which user, which address (normalised), and its PROFILE, which the caller writes. */
struct alias_change {
	struct bytes user, email;
	struct row  *profile;
};

/* The address is verified; it is no longer the user's. */
enum err_code alias_add(struct context *ctx, const struct alias_change *q, struct err *err);
enum err_code alias_remove(struct context *ctx, const struct alias_change *q, struct err *err);

/* Only the row that says whose it is, if it is that user's: its PROFILE goes too. */
enum err_code alias_erase(struct context *ctx, struct bytes id, struct bytes user, struct err *err);

#endif
