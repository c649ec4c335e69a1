/* Verifier: the issuers in force, and the worker that keeps their keys fresh. What the server's routes call.
 *
 *   any thread     verifier_verify -> issuers in force -> verdict, at once
 *                        | a key is not there: a fetch is wanted
 *                        v
 *   its worker     issuers_round: what is wanted, missing or older than ten minutes -> fetch
 *
 * What always holds
 * (1) Verifying never waits for a fetch. A verdict that a fetch might change says so, and when to ask again
 *     (docs/decisions/021-a-token-never-waits-for-a-key.md).
 * (2) Issuers are replaced as a whole. Those who verify meanwhile finish with the ones they began with.
 * (3) No token reaches a log or a metric.
 *
 * Threads: verify, read and issuers by any; open, put and close by one. */
#ifndef TOKEN_VERIFIER_H
#define TOKEN_VERIFIER_H

#include "base/metric.h"
#include "token/issuer.h"

struct verifier;

/* Without issuers. ERR_STORAGE if no thread can be had. */
enum err_code verifier_open(struct verifier **out, struct clock *clock, struct err *err);
void          verifier_close(struct verifier *v); /* NULL: nothing. Nobody may be in a call */

/* Takes the caller's reference. They inherit from those before (issuers_inherit), and missing keys are fetched. */
void verifier_put(struct verifier *v, struct issuers *next);

/* Those in force, with a reference of the caller's own. */
struct issuers *verifier_issuers(struct verifier *v);

/* The verdict (1). *retry_s is 0 if it is final, else in how many seconds it may be another one. */
enum token_outcome verifier_verify(struct verifier *v, const struct token_call *c, struct bytes text,
                                   struct jwt *out, int64_t *retry_s);

/* What became of tokens that are valid as such. X(judgement, name in metrics) */
#define TOKEN_JUDGEMENTS(X)                                                                                  \
	X(TOKEN_TAKEN, "valid")                                                                              \
	X(TOKEN_REVOKED, "revoked")                                                                          \
	X(TOKEN_INACTIVE, "inactive") /* its user's account is not active */                                 \
	X(TOKEN_BARRED, "barred")     /* locks, interventions, limits */

enum token_judgement {
#define X(judgement, ...) judgement,
	TOKEN_JUDGEMENTS(X)
#undef X
	        TOKEN_JUDGEMENT_COUNT
};

/* Whoever judged one says so. */
void verifier_judged(struct verifier *v, enum token_judgement judgement);

/* ---- for the metrics ---- */

/* How many tokens had this outcome; of TOKEN_VALID see below. */
uint64_t    verifier_count(const struct verifier *v, enum token_outcome outcome);
uint64_t    verifier_judgements(const struct verifier *v, enum token_judgement judgement);
const char *token_judgement_name(enum token_judgement judgement);

#endif
