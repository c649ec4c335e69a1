/* Sign-outs: whoever is suspended here is to be signed out at the identity provider, too, however long that takes. Suspending
 * writes a row in its own commit; the worker `sign-outs` (server/sign_outs.h) calls the provider until it succeeds.
 *
 *   SIGN_OUT   <user>#<provider>    name, requestedAt, tries, nextAt, error        of the table gatehouse-sync
 *
 * What always holds
 * (1) No suspension without its row, no row without its suspension. The same holds for deleting and erasing.
 * (2) A row goes when the provider has signed the user out, or says that there is no such user. A kill repeats a call: that is
 *     harmless. Erasing leaves it: nothing else would end the user's sessions there.
 * (3) Between two tries of one row there is a pause, which doubles from SIGN_OUT_PAUSE_S to SIGN_OUT_PAUSE_MAX_S. */
#ifndef SERVICE_SIGN_OUT_H
#define SERVICE_SIGN_OUT_H

#include "service/provider.h"

enum {
	SIGN_OUT_PAUSE_S = 1,
	SIGN_OUT_PAUSE_MAX_S = 300,
	SIGN_OUTS_ROUND_MAX = 100, /* of one look */
};

/* Adds the row to the changes, if the user came from a provider that signs out. Of a user that is being suspended. */
void signout_queue(struct context *ctx, const struct user *u);

struct sign_out {
	struct bytes user, provider, name, trace; /* trace: of whoever suspended it; may be empty */
	int64_t      requested_s, next_s, tries;
};

struct sign_outs {
	struct sign_out *list; /* those that are due */
	uint32_t         count;
	uint64_t         pending; /* with those that are not */
};

/* What waits; of more than SIGN_OUTS_ROUND_MAX that are due, so many. */
enum err_code sign_outs_find(struct context *ctx, struct sign_outs *out, struct err *err);

/* In a turn: the call ended like this. Nothing, if the row is not the one that was read any more. `why`: NULL if it succeeded (2). */
enum err_code sign_out_note(struct context *ctx, const struct sign_out *q, const char *why, struct err *err);

#endif
