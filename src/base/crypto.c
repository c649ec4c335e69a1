/* Crypto: over OpenSSL's low-level SHA-256. Those calls are deprecated in version 3, whose replacements look
 * the algorithm up by name on every call: that costs more than hashing a whole request does. They also give
 * access to the state between two blocks, which is what a prepared HMAC key consists of. */
#define OPENSSL_API_COMPAT 0x10100000L /* declares them without the warning */

#include "base/crypto.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

enum { INNER_PAD = 0x36, OUTER_PAD = 0x5c };

_Static_assert((int)SHA256_BYTES == SHA256_DIGEST_LENGTH, "SHA-256");
_Static_assert(sizeof(((struct hmac_key *)NULL)->inner) == sizeof(((SHA256_CTX *)NULL)->h), "the same state");

void sha256(struct bytes data, uint8_t digest[SHA256_BYTES])
{
	SHA256_CTX c;

	SHA256_Init(&c);
	SHA256_Update(&c, data.data, data.len);
	SHA256_Final(digest, &c);
}

_Static_assert(sizeof(SHA256_CTX) <= sizeof(struct sha256_stream), "the state has room");

void sha256_begin(struct sha256_stream *s)
{
	SHA256_Init((SHA256_CTX *)s->state);
}

void sha256_add(struct sha256_stream *s, struct bytes piece)
{
	SHA256_Update((SHA256_CTX *)s->state, piece.data, piece.len);
}

void sha256_end(struct sha256_stream *s, uint8_t digest[SHA256_BYTES])
{
	SHA256_Final(digest, (SHA256_CTX *)s->state);
}

void sha256_hex(struct bytes data, char text[SHA256_HEX_CHARS])
{
	uint8_t digest[SHA256_BYTES];

	sha256(data, digest);
	hex_write((struct bytes){(const char *)digest, sizeof(digest)}, text);
}

/* ---- HMAC (RFC 2104) ---- */

/* The state after one block: the key, each byte combined with the pad. */
static void pad_hash(const uint8_t key[SHA256_CBLOCK], uint8_t pad, uint32_t state[SHA256_BYTES / 4])
{
	SHA256_CTX c;
	uint8_t    block[SHA256_CBLOCK];

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = key[i] ^ pad;
	SHA256_Init(&c);
	SHA256_Transform(&c, block);
	memcpy(state, c.h, sizeof(c.h));
	crypto_wipe(block, sizeof(block));
	crypto_wipe(&c, sizeof(c));
}

void hmac_key_init(struct hmac_key *k, struct bytes secret)
{
	uint8_t key[SHA256_CBLOCK] = {0};

	if (secret.len > sizeof(key))
		sha256(secret, key);
	else if (secret.len > 0)
		memcpy(key, secret.data, secret.len);
	pad_hash(key, INNER_PAD, k->inner);
	pad_hash(key, OUTER_PAD, k->outer);
	crypto_wipe(key, sizeof(key));
}

/* Goes on hashing where pad_hash stopped. */
static void hash_from(const uint32_t state[SHA256_BYTES / 4], const void *data, size_t len,
                      uint8_t digest[SHA256_BYTES])
{
	SHA256_CTX c;

	SHA256_Init(&c);
	memcpy(c.h, state, sizeof(c.h));
	c.Nl = SHA256_CBLOCK * 8; /* bits so far */
	SHA256_Update(&c, data, len);
	SHA256_Final(digest, &c);
}

void hmac_sha256(const struct hmac_key *k, struct bytes data, uint8_t mac[SHA256_BYTES])
{
	uint8_t inner[SHA256_BYTES];

	hash_from(k->inner, data.data, data.len, inner);
	hash_from(k->outer, inner, sizeof(inner), mac);
}

/* ---- the rest ---- */

bool crypto_equal(struct bytes a, struct bytes b)
{
	return a.len == b.len && (a.len == 0 || CRYPTO_memcmp(a.data, b.data, a.len) == 0);
}

void crypto_wipe(void *secret, size_t len)
{
	OPENSSL_cleanse(secret, len);
}

void hex_write(struct bytes data, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < data.len; i++) {
		uint8_t byte = (uint8_t)data.data[i];

		*out++ = digits[byte >> 4];
		*out++ = digits[byte & 15];
	}
}
