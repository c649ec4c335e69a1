/* User terms: what is asked of users that are searched for. A search reads the table `users` as it lies and looks at every row (users_find), so a term costs nothing
 * but what it leaves out.
 *
 * What always holds
 * (1) A user that is being erased fits no terms.
 * (2) Names and addresses are compared folded, as addresses are (email.h): capitals do not count, nor how Unicode writes a letter.
 * (3) The addresses that count are those that a lookup finds: verified ones, and claims where they take the address. */
#ifndef SERVICE_USER_TERMS_H
#define SERVICE_USER_TERMS_H

#include "service/user.h"

enum {
	USER_ANY_STATUS = USER_ERASING + 1,
	USER_PREFIX_BYTES_MAX = 320,                    /* as it was typed */
	USER_FOLDED_BYTES_MAX = EMAIL_NORMAL_BYTES_MAX, /* folding can make three letters of one */
};

/* All that is given must hold. */
struct user_terms {
	int          status;                           /* USER_ANY_STATUS */
	struct bytes provider;                         /* empty: any; so with the texts below */
	int64_t      created_from_s, created_before_s; /* 0: at any time */
	struct bytes
	        name; /* what the first name, the last name, or both with a space between them begin with; folded */
	struct bytes email; /* what one of its addresses begins with; folded */
};

/* Folded, for the terms. Empty: it is no text that could be the beginning of a name, or of an address. */
struct bytes user_name_prefix(struct arena *a, struct bytes typed);
struct bytes user_email_prefix(struct arena *a, struct bytes typed);

/* Is this row of a user's an address that counts (3) and begins so? Yes, if no address is asked for. */
bool user_terms_have_address(const struct context *ctx, const struct user_terms *terms,
                             const struct item *row);

/* `has_address`: one of its rows is such an address. */
bool user_terms_fit(const struct user_terms *terms, const struct user *u, bool has_address);

#endif
