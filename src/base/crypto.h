/* Crypto: SHA-256, HMAC-SHA256, comparing in constant time, hexadecimal. crypto.c is the only file that knows
 * the library behind them.
 *
 * All functions are pure and cannot fail: any thread may call them, and none allocates. */
#ifndef BASE_CRYPTO_H
#define BASE_CRYPTO_H

#include "base/bytes.h"

enum {
	SHA256_BYTES = 32,
	SHA256_HEX_CHARS = 2 * SHA256_BYTES,
};

void sha256(struct bytes data, uint8_t digest[SHA256_BYTES]);

/* The same as lower-case hexadecimal text, without a NUL. */
void sha256_hex(struct bytes data, char text[SHA256_HEX_CHARS]);

/* The digest of what comes in pieces. */
struct sha256_stream {
	uint64_t state[14]; /* of the library's own */
};

void sha256_begin(struct sha256_stream *s);
void sha256_add(struct sha256_stream *s, struct bytes piece);
void sha256_end(struct sha256_stream *s, uint8_t digest[SHA256_BYTES]);

/* A key made ready: both of HMAC's pads have gone through the hash already, so that a short message costs two
 * or three blocks. Worth as much as the secret it was made from. */
struct hmac_key {
	uint32_t inner[SHA256_BYTES / 4];
	uint32_t outer[SHA256_BYTES / 4];
};

void hmac_key_init(struct hmac_key *k, struct bytes secret);
void hmac_sha256(const struct hmac_key *k, struct bytes data, uint8_t mac[SHA256_BYTES]);

/* Equal? Takes a time that depends on the lengths only, not on where the bytes differ. */
bool crypto_equal(struct bytes a, struct bytes b);

/* Overwrites a secret that is not needed any more; the compiler does not remove it. */
void crypto_wipe(void *secret, size_t len);

/* Writes 2 * data.len lower-case digits, without a NUL. */
void hex_write(struct bytes data, char *out);

#endif
