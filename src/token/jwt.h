/* JWT: one signed token in compact form (RFC 7515, RFC 7519): parsing it, and the rules of RFC 8725 for its header and its
 * claims. Nothing here knows keys: jwks.h verifies the signature, issuer.h puts the steps in order.
 *
 *   jwt_parse -> who issued it? -> header rules (jwt_check_header) -> key and signature -> claims (jwt_check_claims)
 *
 * What always holds
 * (1) The signature is verified over the bytes that arrived, never over bytes that were written again.
 * (2) A header that brings or names its own key is refused: jku, x5u, jwk, x5c. Nothing is ever fetched because of a token's
 *     text. x5t is a mere name, and is ignored.
 * (3) Every `crit` is refused, since no extension is understood here; so are `b64` and `zip`.
 * (4) Objects hold each member once, at every depth.
 * (5) Each text decodes from exactly one base64url text: no padding, no white space, no stray bits.
 *
 * Pure functions: any thread. Results live in the caller's arena and in the token's text. No outcome's text holds any part
 * of a token. */
#ifndef TOKEN_JWT_H
#define TOKEN_JWT_H

#include "base/arena.h"
#include "json/json.h"

enum {
	TOKEN_BYTES_MAX = 16 * 1024,
	TOKEN_HEADER_CHARS_MAX = 4 * 1024, /* as base64url */
	TOKEN_MEMBERS_MAX = 128,           /* of one object: they are compared pairwise */
	TOKEN_KID_BYTES_MAX = 256,
	TOKEN_TEXT_BYTES_MAX = 1024, /* of sub, jti, client_id and the like */
	TOKEN_AUDIENCES_MAX = 64,    /* in one token */
};

/* X(outcome, name for programs and metrics, text for people). Names are a promise: they never change. */
#define TOKEN_OUTCOMES(X)                                                                                    \
	X(TOKEN_VALID, "valid", "the token is valid")                                                        \
	X(TOKEN_TOO_LARGE, "too-large", "the token, its header or one of its objects is too large")          \
	X(TOKEN_MALFORMED, "malformed", "not three parts of base64url, separated by dots")                   \
	X(TOKEN_JSON, "json", "header or claims are not a JSON object")                                      \
	X(TOKEN_DUPLICATE, "duplicate-member", "header or claims name a member twice")                       \
	X(TOKEN_HEADER, "header", "a member of the header is missing or has the wrong type")                 \
	X(TOKEN_EMBEDDED_KEY, "embedded-key", "the header brings or names a key (jku, x5u, jwk, x5c)")       \
	X(TOKEN_CRITICAL, "critical", "the header asks for an extension (crit, b64, zip)")                   \
	X(TOKEN_TYPE, "type", "typ is not one that is accepted here")                                        \
	X(TOKEN_ALGORITHM, "algorithm", "alg is not allowed for this issuer")                                \
	X(TOKEN_ISSUER, "issuer", "iss is missing, or names no issuer that is set up")                       \
	X(TOKEN_NO_KEYS, "no-keys", "the issuer's keys have not been fetched yet: try again")                \
	X(TOKEN_KEY, "key", "the issuer has no key with this kid")                                           \
	X(TOKEN_KEY_ALGORITHM, "key-algorithm", "the key is not for this alg")                               \
	X(TOKEN_SIGNATURE, "signature", "the signature does not match")                                      \
	X(TOKEN_CLAIM, "claim", "a claim is missing or has the wrong type")                                  \
	X(TOKEN_EXPIRED, "expired", "the token has expired")                                                 \
	X(TOKEN_NOT_YET, "not-yet-valid", "the token is not valid yet")                                      \
	X(TOKEN_FUTURE, "issued-in-future", "iat is in the future")                                          \
	X(TOKEN_TOO_OLD, "too-old", "the token was issued longer ago than this issuer's maximum age")        \
	X(TOKEN_AUDIENCE, "audience", "the token is for another audience or client")                         \
	X(TOKEN_USE, "token-use", "token_use is not one that is accepted here")                              \
	X(TOKEN_SUBJECT, "subject", "sub has characters that the header X-Gatehouse-Subject cannot hold")

enum token_outcome {
#define X(outcome, ...) outcome,
	TOKEN_OUTCOMES(X)
#undef X
};

enum {
#define X(outcome, ...) +1
	TOKEN_OUTCOME_COUNT = 0 TOKEN_OUTCOMES(X)
#undef X
};

const char *token_outcome_name(enum token_outcome outcome);
const char *token_outcome_text(enum token_outcome outcome);

/* X(algorithm, name). These and no others: `none` and the HMACs cannot be expressed. */
#define JWS_ALGORITHMS(X)                                                                                    \
	X(JWS_RS256, "RS256")                                                                                \
	X(JWS_RS384, "RS384")                                                                                \
	X(JWS_RS512, "RS512")                                                                                \
	X(JWS_PS256, "PS256")                                                                                \
	X(JWS_ES256, "ES256")                                                                                \
	X(JWS_ES384, "ES384")                                                                                \
	X(JWS_EDDSA, "EdDSA")

enum jws_algorithm {
#define X(algorithm, ...) algorithm,
	JWS_ALGORITHMS(X)
#undef X
	        JWS_ALGORITHM_COUNT
};

/* False if it is none of them. */
bool jws_algorithm_find(struct bytes name, enum jws_algorithm *out);

/* A parsed token. Nothing in it is to be trusted before its signature was verified. */
struct jwt {
	struct bytes       signed_text; /* (1): header, dot and claims, as they arrived */
	struct bytes       signature;
	const struct json *header, *claims;
	enum jws_algorithm algorithm;
	bool               algorithm_known; /* else `algorithm` means nothing */
	struct bytes       kid;             /* empty: there is none */
	struct bytes       issuer;          /* empty: there is none */

	/* set by jwt_check_claims */
	struct bytes subject, id, client,
	        use;                   /* sub, jti, client_id or azp, token_use; all but sub may be empty */
	int64_t expires_us, issued_us; /* rounded down */
	int64_t not_before_us;         /* rounded up; 0: always */

	/* set by issuers_verify */
	struct bytes provider; /* whose users it may speak of (issuer.h, 9); empty: everyone's */
	int64_t      ahead_s;  /* by how much its issuer's clock may be ahead of ours (issuer.h, 8) */
};

/* `iat`, as a token says that nobody has verified; 0: it says none. */
int64_t jwt_issued_unproved_us(const struct jwt *t);

/* TOKEN_VALID: it can be read. The text must outlive *out. */
enum token_outcome jwt_parse(struct json_reader *r, struct arena *a, struct bytes text, struct jwt *out);

enum { JWT_USE_ACCESS = 1, JWT_USE_ID = 2 };

/* What an issuer's tokens must be. */
struct jwt_rules {
	uint32_t            algorithms; /* 1 << enum jws_algorithm */
	const struct bytes *audiences;  /* one of them must be in aud, or be Cognito's client_id */
	uint32_t            audience_count;
	bool                audience_any; /* audiences are not looked at */
	/* JWT_USE_…: Cognito's token_use is required and one of these; an access token names its audience in client_id, an
	 * id token in aud. 0: token_use is not looked at. */
	uint32_t cognito_uses;
	int64_t  leeway_us;  /* for exp, nbf and iat */
	int64_t  age_max_us; /* since iat */
};

/* typ, crit, embedded keys, algorithm. */
enum token_outcome jwt_check_header(const struct jwt *t, const struct jwt_rules *rules);

/* Requires sub, exp and iat; checks nbf if it is there. Call it after the signature was verified. */
enum token_outcome jwt_check_claims(struct jwt *t, const struct jwt_rules *rules, int64_t now_us);

/* Is the audience among those in aud, or its client? Of a token whose claims were checked. */
bool jwt_is_for(const struct jwt *t, struct bytes audience);

/* Has any object within, or the tree itself, a member twice, or more members than TOKEN_MEMBERS_MAX? TOKEN_VALID if not. */
enum token_outcome jwt_check_members(const struct json *tree);

#endif
