/* Issuers: whose tokens are accepted, with which rules and which keys; the keys' life; and the whole verification.
 *
 *   any thread: issuers_verify (never waits)
 *                      |  kid unknown, or no keys yet: a fetch is wanted
 *                      v
 *   a worker:   issuers_round -> fetch (passed in), of what is wanted, missing or old -> new set, or the last good one stays
 *
 * What always holds
 * (1) A key verifies only for tokens of the issuer whose set holds it.
 * (2) Fetches of one issuer begin at least AGAIN_S apart, whatever anybody sends: random kids cost one comparison each.
 * (3) A set that was fetched stays in use until another was fetched and read without error: while an issuer is down, tokens
 *     signed with its known keys verify.
 * (4) A key that a new set does not hold any more verifies nothing from then on.
 * (5) A discovery document counts only if its `issuer` is this one, letter by letter. Keys come over https, or over http
 *     if the issuer itself is at an http address.
 * (6) At most WAITS_MAX threads wait for a fetch that another one does; further ones get their answer without it.
 * (7) Issuers are counted: whoever holds a reference may go on with them while others are in force already.
 * (8) Whoever compares `iat` with a time of ours adds `ahead_s` to that time. An issuer whose tokens were never dated ahead of our
 *     clock gets a second, for clocks that differ by fractions of one. One that was seen ahead by a second or more, within
 *     AHEAD_KEPT_S, by a token or by the Date of its answers, gets its whole leeway, as does a token that is dated ahead itself. Never
 *     more than the leeway.
 *     Why: docs/decisions/061-one-mailbox-and-one-issuer.md.
 * (9) `sub` means something only together with its issuer. An issuer speaks for the users of one provider, if it names one.
 *
 * Threads: issuers are added first, by one thread; then everything may be called by any. */
#ifndef TOKEN_ISSUER_H
#define TOKEN_ISSUER_H

#include "base/clock.h"
#include "base/worker.h"
#include "token/jwks.h"

enum {
	ISSUERS_MAX = 32,
	ISSUER_AUDIENCES_MAX = 32,
	ISSUER_URL_BYTES_MAX = 1024,
	ISSUER_DISCOVERY_BYTES_MAX = 64 * 1024,
	ISSUER_REFRESH_S = 10 * 60, /* issuers_round fetches sets that are older */
	ISSUER_AGAIN_S = 30,
	ISSUER_LEEWAY_S_MAX = 10 * 60,
	ISSUER_LEEWAY_S = 60,        /* unless set */
	ISSUER_AGE_S = 24 * 60 * 60, /* unless set */
	ISSUER_LONG_S = 60 * 60,     /* tokens that live longer are warned of, once */
	ISSUER_AGE_S_MAX = 366 * ISSUER_AGE_S,
	ISSUER_AHEAD_S = 1, /* (8) */
	ISSUER_AHEAD_KEPT_S = 24 * 60 * 60,
};

/* How an issuer is reached. */
struct token_route {
	const char *ca_file;       /* NULL: the system's */
	bool        allow_private; /* on this machine, or in this network */
};

struct token_fetched {
	struct bytes body;
	int64_t      date_s; /* the issuer's clock, as its answer says; 0: it does not */
};

/* Gets what is at the URL, into the arena. Bounds the time it takes and what it reads, follows no redirects, and takes no
 * answer but 200. */
struct token_fetch {
	enum err_code (*get)(void *ctx, const struct token_route *route, struct bytes url, struct arena *a,
	                     struct token_fetched *out, struct err *err);
	void *ctx;
};

struct issuer_options {
	struct bytes       issuer;   /* as `iss` has it */
	struct bytes       jwks;     /* a document with the keys, which are never fetched; or else: */
	struct bytes       jwks_url; /* where they are; empty: discovery finds it */
	struct bytes       provider; /* of its users (9); empty: it speaks for everyone's */
	struct token_route route;    /* copied, as are the rules */
	struct jwt_rules   rules;
};

/* A user pool of Amazon Cognito. */
struct cognito_options {
	struct bytes pool; /* "eu-west-1_AbCdEf123" */
	struct bytes
	        endpoint; /* of an emulator: "http://localhost:9229"; empty: AWS's own, by the pool's region */
	struct bytes       provider; /* of its users (9); empty: it speaks for everyone's */
	struct token_route route;
	struct jwt_rules   rules; /* its clients as audiences; cognito_uses is one or both of JWT_USE_… */
};

struct issuers;

/* Rules with the defaults: RS256 alone, a minute of leeway, a day's age. The caller adds audiences. */
struct jwt_rules jwt_rules_default(void);

/* With one reference. The last one that is dropped frees them. */
struct issuers *issuers_open(struct token_fetch fetch, struct clock *clock);
struct issuers *issuers_retain(struct issuers *all);
void            issuers_drop(struct issuers *all); /* NULL: nothing */

/* ERR_INVALID says what is wrong with the options: an address, no audience, rules out of range, keys that cannot be read. */
enum err_code issuers_add(struct issuers *all, const struct issuer_options *o, struct err *err);

/* Under both names that its tokens may give as issuer; with an endpoint, under that one. */
enum err_code issuers_add_cognito(struct issuers *all, const struct cognito_options *o, struct err *err);

/* `next` takes the place of `now`: each issuer that is in both goes on with its counters, and if its keys come from the same
 * place by the same route, shares them and their fetches from now on (2). Before others have `next`. */
void issuers_inherit(struct issuers *next, struct issuers *now);

/* The longest time in seconds, of all issuers, for which a token is accepted once it is issued; 0: there is none. */
int64_t issuers_age_max_s(const struct issuers *all);

/* Who asks: the thread's own reader, memory for what is read of the token, and the time. */
struct token_call {
	struct json_reader *reader;
	struct arena       *arena;
	int64_t             now_us; /* by the wall clock */
};

/* The verdict on one token. Never waits and never fetches. *out is meaningful only if it is TOKEN_VALID.
 * *retry_s is 0 if the verdict is final. Else (TOKEN_KEY, TOKEN_NO_KEYS) newer keys might change it, in so many seconds: a fetch
 * is wanted, which the next issuers_round does as soon as (2) allows it. A key that is not in a set fetched less than AGAIN_S
 * ago, and after the token was issued, does not exist. */
enum token_outcome issuers_verify(struct issuers *all, const struct token_call *c, struct bytes text,
                                  struct jwt *out, int64_t *retry_s);

/* Fetches each set that is older than ISSUER_REFRESH_S, missing or wanted; for one worker, which is asked between two of them
 * whether to go on (NULL: yes). Returns how many fetches failed; each is logged. */
uint32_t issuers_round(struct issuers *all, struct json_reader *reader, struct worker *w);

struct issuer_numbers {
	struct bytes issuer;
	uint64_t     fetches, failures;
	bool         fixed;      /* its keys were given, and are never fetched */
	bool         long_lived; /* it issued a token for more than ISSUER_LONG_S */
	bool         ahead;      /* its clock was seen ahead of ours (8) */
	uint32_t     keys;       /* in the set in use; 0: none yet */
	int64_t      fetched_us; /* the set in use, in steady time; 0: none, or not fetched */
};

/* False past the last. */
bool issuers_read(struct issuers *all, uint32_t index, struct issuer_numbers *out);

#endif
