/* Issuers: whose tokens are accepted, with which rules and which keys; the keys' life; and the whole verification.
 *
 *                 issuers_verify (never waits)
 *                      |  kid unknown, or no keys yet, and a fetch is allowed
 *                      v
 *   issuers_round -> refresh: one at a time per issuer -> fetch (passed in) -> new set, or the last good one stays
 *   (by age)
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
 *
 * Threads: issuers are added first, by one thread; then everything may be called by any. */
#ifndef TOKEN_ISSUER_H
#define TOKEN_ISSUER_H

#include "base/clock.h"
#include "token/jwks.h"

enum {
	ISSUERS_MAX = 32,
	ISSUER_AUDIENCES_MAX = 32,
	ISSUER_URL_BYTES_MAX = 1024,
	ISSUER_DISCOVERY_BYTES_MAX = 64 * 1024,
	ISSUER_REFRESH_S = 10 * 60, /* issuers_round fetches sets that are older */
	ISSUER_AGAIN_S = 30,
	ISSUER_WAITS_MAX = 8,
	ISSUER_LEEWAY_S_MAX = 10 * 60,
	ISSUER_LEEWAY_S = 60,        /* unless set */
	ISSUER_AGE_S = 24 * 60 * 60, /* unless set */
};

/* Gets what is at the URL, into the arena. Bounds the time it takes and what it reads, follows no redirects, and takes no
 * answer but 200. */
struct token_fetch {
	enum err_code (*get)(void *ctx, struct bytes url, struct arena *a, struct bytes *body,
	                     struct err *err);
	void *ctx;
};

struct issuer_options {
	struct bytes     issuer;   /* as `iss` has it */
	struct bytes     jwks;     /* a document with the keys, which are never fetched; or else: */
	struct bytes     jwks_url; /* where they are; empty: discovery finds it */
	struct jwt_rules rules;    /* copied */
};

struct issuers;

/* Rules with the defaults: RS256 alone, a minute of leeway, a day's age. The caller adds audiences. */
struct jwt_rules jwt_rules_default(void);

struct issuers *issuers_open(struct token_fetch fetch, struct clock *clock);
/* Nobody may be in a call. */
void issuers_close(struct issuers *all);

/* ERR_INVALID says what is wrong with the options: an address, no audience, rules out of range, keys that cannot be read. */
enum err_code issuers_add(struct issuers *all, const struct issuer_options *o, struct err *err);

/* A user pool of Amazon Cognito ("eu-west-1_AbCdEf123"), under both names that its tokens may give as issuer. `rules` names
 * the clients as audiences; cognito_uses is one or both of JWT_USE_…. */
enum err_code issuers_add_cognito(struct issuers *all, struct bytes pool, const struct jwt_rules *rules,
                                  struct err *err);

/* Who asks: the thread's own reader, and memory for what is read of the token. */
struct token_call {
	struct json_reader *reader;
	struct arena       *arena;
};

/* The verdict on one token. Never waits and never fetches. *out is meaningful only if it is TOKEN_VALID. With TOKEN_KEY and
 * TOKEN_NO_KEYS, issuers_verify_fetching may come to another verdict. */
enum token_outcome issuers_verify(struct issuers *all, const struct token_call *c, struct bytes text,
                                  struct jwt *out);

/* The same, but fetches the issuer's keys if the token needs one that is not there and (2) allows it. Takes as long as a
 * fetch may. */
enum token_outcome issuers_verify_fetching(struct issuers *all, const struct token_call *c, struct bytes text,
                                           struct jwt *out);

/* Fetches each set that is older than ISSUER_REFRESH_S, or missing; for a worker. Returns how many fetches failed; each is
 * logged. */
uint32_t issuers_round(struct issuers *all, struct json_reader *reader);

struct issuer_numbers {
	struct bytes issuer;
	uint64_t     fetches, failures;
	uint32_t     keys;       /* in the set in use; 0: none yet */
	int64_t      fetched_us; /* the set in use, in steady time; 0: none, or not fetched */
};

/* False past the last. */
bool issuers_read(struct issuers *all, uint32_t index, struct issuer_numbers *out);

#endif
