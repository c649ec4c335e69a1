/* Tokens in calls: reading one, what it is worth, and telling it; for every route that takes one.
 *
 *   decode: v1_token_read    signature, issuer, audience, times (token/verifier.h): on this thread, waits for nobody
 *   run:    v1_token_judge   status, revocation, interventions, locks (service/token_judge.h): by what is committed
 *   encode: v1_token_write, v1_token_challenge
 *
 * No part of a token reaches a log, a metric, a kept answer or an error's text. What its claims say is told to the caller only if
 * the token was verified. */
#ifndef API_V1_TOKENS_H
#define API_V1_TOKENS_H

#include "api/v1.h"
#include "service/token_judge.h"
#include "token/verifier.h"

struct v1_token {
	bool                given;
	enum token_outcome  outcome; /* TOKEN_VALID: as far as the token itself goes */
	int64_t             retry_s; /* of an outcome that a fetch of keys may change; 0: it is final */
	struct jwt          jwt;
	const struct rules *rules;  /* in force; set by the route after v1_token_read */
	bool                judged; /* the verdict below is of what is committed */
	struct token_judged is;
};

/* `audience`: one more that must be the token's; empty: the issuer's rules say enough. In decode. */
void v1_token_read(struct v1_call *c, struct bytes text, struct bytes audience, struct v1_token *out);

/* Sets t->is, also of one that is not valid. actions: those that are asked about, or NULL. ERR_ACCESS if the caller's policy denies
 * it this user. In run. */
enum err_code v1_token_judge(struct v1_call *c, struct v1_token *t, const struct token_actions *actions,
                             struct err *err);

/* For routes whose answer lets the token's user in: ERR_OVERLOADED if it is refused only because too little is known (outage.h, 6). Then it
 * is not judged. In run, after v1_token_judge. */
enum err_code v1_token_settle(struct v1_call *c, struct v1_token *t, struct err *err);

/* X-Gatehouse-Degraded: for proxies, which do not look into bodies. In encode. */
void v1_token_degraded(struct v1_call *c);

/* "valid", and of one that was verified "subject", "issuer", "client", "token_use", "issued_at", "expires_at"; of one that is
 * revoked "revoked"; as members. */
void v1_token_write(struct json_writer *w, const struct v1_token *t);

/* ?enforce=status and proxies: 401 with WWW-Authenticate as RFC 6750 has it, or 503 while its key is fetched. */
void v1_token_challenge(struct v1_call *c, const struct v1_token *t);

/* Once, before it is answered: counts the verdict. */
void v1_token_count(struct v1_call *c, const struct v1_token *t);

#endif
