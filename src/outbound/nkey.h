/* Nkey: the keys of NATS, Ed25519 with a text form of their own (base32, a prefix that says what it is for, a checksum), and files with
 * credentials, which hold a user's JWT and the seed of its key. A key signs the nonce of a server's INFO. */
#ifndef OUTBOUND_NKEY_H
#define OUTBOUND_NKEY_H

#include "base/arena.h"

enum {
	NKEY_SEED_CHARS = 58,
	NKEY_PUBLIC_CHARS = 56,
	NKEY_SIGNATURE_CHARS = 86, /* base64 for URLs, without padding */
	NKEY_CREDENTIALS_BYTES_MAX = 16 * 1024,
};

struct nkey {
	uint8_t seed[32];
	char    name[NKEY_PUBLIC_CHARS]; /* the public key's text: "U…" */
};

/* False: it is not the seed of a user's key ("SU…"), or its checksum is wrong. */
bool nkey_read(struct bytes seed, struct nkey *out);

/* False: it cannot be signed. */
bool nkey_sign(const struct nkey *k, struct bytes nonce, char out[NKEY_SIGNATURE_CHARS]);

/* A file with credentials. The JWT points into the text. False: it is none. */
bool nkey_credentials_read(struct bytes text, struct bytes *jwt, struct nkey *key);

#endif
