/* Tokens: what stands against one that its issuer signed and that has not expired: revocation, the status of its user's account,
 * interventions and locks, as one verdict. The signature is not known here (token/).
 *
 * What always holds
 * (1) It reads what is committed, and writes nothing: the next look after a suspend or a revocation sees it.
 * (2) Of an account that is not active and a token that is revoked, which a suspension brings about together, the account is told.
 * (3) Failed attempts of strangers never void somebody's tokens: unless actions are asked about, only locks that people set count,
 *     whatever their journey, and all of a journey that only people lock (one without types, such as AUTHENTICATION).
 *     Counts do not.
 * (4) The subject of a token is the id of a user; one that looks like an email address is looked up as that.
 * (5) An issuer speaks for users of its provider only. Of a user of another, or of none, its token is refused and nothing is told: for it
 *     the user does not exist. A subject that is no user of ours is nobody's, so its token is judged as before. */
#ifndef SERVICE_TOKEN_JUDGE_H
#define SERVICE_TOKEN_JUDGE_H

#include "service/account.h"
#include "service/check.h"
#include "service/revocation.h"

/* What a verified token says. */
struct token_facts {
	struct bytes issuer, jti, client; /* the last two may be empty */
	struct bytes subject;
	struct bytes provider; /* whose users its issuer speaks for (5); empty: everyone's */
	int64_t      issued_s;
	int64_t      ahead_s; /* by how much the issuer's clock may be ahead of ours (token/issuer.h) */
};

struct token_judged {
	struct verdict          verdict;
	struct verdict_wait     wait; /* for the last of it */
	struct states_required  required;
	struct revocation_found revoked;
	struct bytes            user;     /* whose it is: its subject, or the owner of that address */
	bool                    inactive; /* its user's account is not active (2) */
	bool                    foreign;  /* its user is not its issuer's (5) */
	bool unsure; /* nothing stands against it but that too little is known while tables do not answer (outage.h, 6) */
};

/* By the rules in force, without actions (3). */
enum err_code token_judge(struct context *ctx, const struct token_facts *t, const struct rules *rules,
                          struct token_judged *out, struct err *err);

/* Actions that are asked about, and what they would meet. */
struct token_actions {
	const struct check *q; /* its subject is the token's */
	struct checked     *out;
};

/* With actions: all that stands against them counts. */
enum err_code token_judge_actions(struct context *ctx, const struct token_facts *t,
                                  const struct token_actions *actions, struct token_judged *out,
                                  struct err *err);

/* The subject as attempts name it: hashed if it is an address. Empty: nothing can be stored about such a subject. `email`: the
 * address as it is normalised, or empty. */
struct bytes token_subject(struct context *ctx, struct bytes subject, struct bytes *email);

#endif
