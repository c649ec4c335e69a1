/* SigV4: AWS Signature Version 4 in an Authorization header, both ways: what api/ verifies of a request that
 * came in, and what a client of the same protocol puts on one that goes out. Both use one canonical form.
 *
 * Stricter than AWS where no SDK differs: SignedHeaders are lower case, in order, each once and present;
 * every header that is sent and changes what is asked (sigv4_names_cover) is signed; the body's hash is always
 * computed. Signatures in the query string are refused.
 *
 * What always holds
 * (1) A signature is accepted only if the secret that find_secret returned during this very call made it: a
 *     key that was revoked or got another secret is refused at once, whatever the cache holds.
 * (2) Once a key has been looked up, a refusal costs the same whether the key is known and whether its
 *     signing key was cached: one derivation, one HMAC.
 * (3) Only an accepted signature enters the cache: strangers cannot fill it.
 * (4) No error text holds a secret, a signature or a token: of what was sent it repeats dates, algorithm and
 *     header names, and of each no more than SIGV4_SHOWN_MAX bytes, lest a misplaced secret come back.
 *
 * Thread rule: a cache belongs to one thread (each loop has its own); all else is pure.
 * Ownership: scratch and results live in the caller's arena, or in the request's own memory. */
#ifndef DYNAMO_SIGV4_H
#define DYNAMO_SIGV4_H

#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"

enum {
	SIGV4_AUTHORIZATION_MAX = 4096, /* bytes of the header's value */
	SIGV4_SIGNED_MAX = 64,          /* header names in SignedHeaders */
	SIGV4_QUERY_MAX = 128,          /* query parameters */
	SIGV4_KEY_ID_MAX = 128,         /* bytes, as in AWS */
	SIGV4_SECRET_MAX = 128,
	SIGV4_SCOPE_MAX = 128, /* of date/region/service/aws4_request */
	SIGV4_SHOWN_MAX = 32,  /* bytes of what was sent, in an error text; secrets are longer */
	SIGV4_SKEW_S = 15 * 60,
};

struct sigv4_header {
	struct bytes name; /* in any case */
	struct bytes value;
};

struct sigv4_request {
	struct bytes               method;
	struct bytes               path;  /* as on the wire */
	struct bytes               query; /* as on the wire, without '?' */
	const struct sigv4_header *headers;
	unsigned                   header_count;
	struct bytes               body;
	const uint8_t             *body_sha256; /* of the body, if known already; else NULL */
	struct bytes               service;     /* whom it is for: "dynamodb" */
	struct bytes               region;      /* verifying: the one it must be signed for; empty: any */
	int64_t                    now_us;      /* by the clock of whoever signs or verifies */
};

/* ---- the cache of signing keys ---- */

enum { SIGV4_CACHE_WAYS = 4, SIGV4_CACHE_SETS = 64 };

struct sigv4_key_cache;

/* hash: keyed per process, so that nobody can choose names that push each other out. */
struct sigv4_key_cache *sigv4_key_cache_open(struct hash_key hash);
void                    sigv4_key_cache_close(struct sigv4_key_cache *c);

/* ---- verifying ---- */

/* Where secrets are found. */
struct sigv4_keyring {
	/* The secret of that access key, at most SIGV4_SECRET_MAX bytes, valid until sigv4_verify returns;
	 * data is NULL if there is no such key. */
	struct bytes (*find_secret)(void *ctx, struct bytes key_id);
	void                   *ctx;
	struct sigv4_key_cache *cache; /* NULL: every signing key is derived anew */
};

/* Who signed. Points into the request's headers. */
struct sigv4_identity {
	struct bytes key_id;
	struct bytes region;
	struct bytes token; /* X-Amz-Security-Token, signed but not judged here; empty if not sent */
};

/* Fills *who exactly when it returns ERR_NONE.
 * ERR_NO_CREDENTIAL: no Authorization header, or one of another kind.
 * ERR_SIGNATURE_INCOMPLETE: it lacks something or cannot be read.
 * ERR_UNKNOWN_KEY: find_secret knew no such key.
 * ERR_SIGNATURE: another date, scope or signature than the request asks for. */
enum err_code sigv4_verify(const struct sigv4_request *r, const struct sigv4_keyring *keys, struct arena *a,
                           struct sigv4_identity *who, struct err *err);

/* Whose key an Authorization header names, before anything is verified. False if it cannot be read. */
bool sigv4_claimed_key(struct bytes authorization, struct bytes *key_id);

/* ---- signing ---- */

struct sigv4_credential {
	struct bytes            key_id;
	struct bytes            secret;
	struct bytes            token; /* empty: none */
	struct bytes            region;
	struct sigv4_key_cache *cache; /* NULL: every signing key is derived anew */
};

enum { SIGV4_ADDED_MAX = 3 };

/* Headers to send beside the request's own. */
struct sigv4_addition {
	struct sigv4_header headers[SIGV4_ADDED_MAX]; /* X-Amz-Date, X-Amz-Security-Token, Authorization */
	unsigned            count;
};

/* Signs all headers of the request but those that proxies change (User-Agent, Connection, ...). Host must be
 * among them; the three that are added must not. ERR_SIGNATURE_INCOMPLETE if a limit above is passed. */
enum err_code sigv4_sign(const struct sigv4_request *r, const struct sigv4_credential *c, struct arena *a,
                         struct sigv4_addition *out, struct err *err);

#endif
