/* JWKS: a set of public keys (RFC 7517), made ready once and used by any number of threads. jwks.c is the only file of this
 * folder that knows OpenSSL.
 *
 * What always holds
 * (1) A key is bound to a family of algorithms by its type and curve, and to one algorithm if its `alg` says so. A key of one
 *     family never verifies for another: there is no call that could.
 * (2) Every key in a set is usable: RSA of JWKS_RSA_BITS_MIN to _MAX with an odd exponent, a point on P-256 or P-384, Ed25519.
 *     Others are passed over and counted: other types and curves, weak keys, keys that are not for signatures (`use`,
 *     `key_ops`), and private keys, which nobody should publish.
 * (3) Keys may share a kid (RFC 7517, 4.5): each of them is tried, up to SAME_KID_MAX, by its own type and algorithm.
 * (4) A set never changes. Whoever holds a reference may use it; the last one frees it. */
#ifndef TOKEN_JWKS_H
#define TOKEN_JWKS_H

#include "token/jwt.h"

enum {
	JWKS_BYTES_MAX = 256 * 1024,
	JWKS_SAME_KID_MAX = 4, /* so many are tried (3) */
	JWKS_KEYS_MAX = 64,
	JWKS_RSA_BITS_MIN = 2048,
	JWKS_RSA_BITS_MAX = 8192, /* verifying takes time: it grows with the square */
};

struct jwks;
struct jwk;

/* Reads a document {"keys": […]}. ERR_INVALID says what is wrong with it, or that it holds no key that can be used. The
 * caller holds the first reference. The arena is for scratch memory. */
enum err_code jwks_read(struct json_reader *r, struct arena *a, struct bytes text, struct jwks **out,
                        struct err *err);

struct jwks *jwks_retain(struct jwks *set);
void         jwks_drop(struct jwks *set); /* NULL: nothing */

uint32_t jwks_count(const struct jwks *set);

/* How many keys were passed over, and why the first of them was: a static text, or NULL. */
uint32_t    jwks_passed_over(const struct jwks *set);
const char *jwks_first_reason(const struct jwks *set);

/* The key with this kid. An empty kid finds the only key of a set that holds just one. NULL: there is none. */
const struct jwk *jwks_find(const struct jwks *set, struct bytes kid);

/* Another one with the same kid, behind this one; NULL: there is none (3). */
const struct jwk *jwks_next(const struct jwks *set, const struct jwk *key);

/* TOKEN_VALID, TOKEN_KEY_ALGORITHM (1) or TOKEN_SIGNATURE. */
enum token_outcome jwk_verify(const struct jwk *key, enum jws_algorithm algorithm, struct bytes text,
                              struct bytes signature);

#endif
