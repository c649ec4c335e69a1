/* Cipher: short secrets that must be stored where others may read, encrypted and authenticated (AES-256-GCM). `about` is what a
 * secret belongs to: it is not stored with it, and a secret that was moved elsewhere does not open there.
 *
 *   sealed: 12 bytes nonce, random · as many bytes as the text · 16 bytes tag
 *
 * A random nonce is good for 2^32 secrets under one key. Any thread. */
#ifndef BASE_CIPHER_H
#define BASE_CIPHER_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/crypto.h"

enum {
	CIPHER_KEY_BYTES = 32,
	CIPHER_NONCE_BYTES = 12,
	CIPHER_TAG_BYTES = 16,
	CIPHER_OVER_BYTES = CIPHER_NONCE_BYTES + CIPHER_TAG_BYTES,
	CIPHER_TEXT_BYTES_MAX = 1 << 20,
};

struct cipher_key {
	uint8_t bytes[CIPHER_KEY_BYTES];
};

/* One that is made from another; `purpose` keeps it apart from every other use of that. */
void cipher_key_make(const struct hmac_key *from, struct bytes purpose, struct cipher_key *out);

struct bytes cipher_seal(const struct cipher_key *k, struct arena *a, struct bytes about, struct bytes text);

/* False: it was not sealed with this key for this, or it is damaged. */
bool cipher_open(const struct cipher_key *k, struct arena *a, struct bytes about, struct bytes sealed,
                 struct bytes *out);

#endif
