/* Nkey: see nkey.h. */
#define _GNU_SOURCE
#include "outbound/nkey.h"

#include <openssl/evp.h>

#include "base/crypto.h"
#include "json/base64.h"

enum {
	KEY_BYTES = 32,
	SIGNATURE_BYTES = 64,
	PREFIX_SEED = 18 << 3, /* 'S' */
	PREFIX_USER = 20 << 3, /* 'U' */
	SEED_BYTES = 2 + KEY_BYTES + 2,
	PUBLIC_BYTES = 1 + KEY_BYTES + 2,
};

/* ---- texts ---- */

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/* Base32 without padding; false if a letter is none, or bits are left over that are not 0. */
static bool base32_read(struct bytes text, uint8_t *out, size_t len)
{
	uint32_t bits = 0;
	unsigned held = 0;
	size_t   n = 0;

	for (size_t i = 0; i < text.len; i++) {
		const char *at = text.data[i] == '\0' ? NULL : strchr(letters, text.data[i]);

		if (at == NULL)
			return false;
		bits = bits << 5 | (uint32_t)(at - letters);
		held += 5;
		if (held < 8)
			continue;
		held -= 8;
		if (n == len)
			return false;
		out[n++] = (uint8_t)(bits >> held);
		bits &= (1u << held) - 1;
	}
	return n == len && bits == 0;
}

static void base32_write(const uint8_t *data, size_t len, char *out)
{
	uint32_t bits = 0;
	unsigned held = 0;

	for (size_t i = 0; i < len; i++) {
		bits = bits << 8 | data[i];
		held += 8;
		while (held >= 5) {
			held -= 5;
			*out++ = letters[bits >> held & 31];
		}
	}
	if (held > 0)
		*out = letters[bits << (5 - held) & 31];
}

/* CRC-16/XMODEM */
static uint16_t checksum(const uint8_t *data, size_t len)
{
	uint16_t crc = 0;

	for (size_t i = 0; i < len; i++) {
		crc = (uint16_t)(crc ^ data[i] << 8);
		for (int bit = 0; bit < 8; bit++)
			crc = (uint16_t)((crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1);
	}
	return crc;
}

/* ---- keys ---- */

static bool public_write(const struct nkey *k, char out[NKEY_PUBLIC_CHARS])
{
	uint8_t   raw[PUBLIC_BYTES] = {PREFIX_USER};
	size_t    len = KEY_BYTES;
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, k->seed, KEY_BYTES);
	bool      good = key != NULL && EVP_PKEY_get_raw_public_key(key, raw + 1, &len) == 1;
	uint16_t  crc = checksum(raw, 1 + KEY_BYTES);

	EVP_PKEY_free(key);
	raw[1 + KEY_BYTES] = (uint8_t)crc;
	raw[2 + KEY_BYTES] = (uint8_t)(crc >> 8);
	base32_write(raw, sizeof(raw), out);
	return good;
}

bool nkey_read(struct bytes seed, struct nkey *out)
{
	uint8_t  raw[SEED_BYTES];
	uint16_t crc;
	bool     good = seed.len == NKEY_SEED_CHARS && base32_read(seed, raw, sizeof(raw));

	if (good) {
		crc = checksum(raw, SEED_BYTES - 2);
		good = raw[SEED_BYTES - 2] == (uint8_t)crc && raw[SEED_BYTES - 1] == (uint8_t)(crc >> 8) &&
		       (raw[0] & 0xf8) == PREFIX_SEED && ((raw[0] & 7) << 5 | raw[1] >> 3) == PREFIX_USER;
		memcpy(out->seed, raw + 2, KEY_BYTES);
	}
	crypto_wipe(raw, sizeof(raw));
	return good && public_write(out, out->name);
}

bool nkey_sign(const struct nkey *k, struct bytes nonce, char out[NKEY_SIGNATURE_CHARS])
{
	uint8_t     signature[SIGNATURE_BYTES + 2] = {0}; /* whole groups of three */
	char        text[(SIGNATURE_BYTES + 2) / 3 * 4];
	size_t      len = SIGNATURE_BYTES;
	EVP_PKEY   *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, k->seed, KEY_BYTES);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool good = key != NULL && ctx != NULL && EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) == 1 &&
	            EVP_DigestSign(ctx, signature, &len, (const uint8_t *)nonce.data, nonce.len) == 1;

	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	base64_url_write((struct bytes){(const char *)signature, sizeof(signature)}, text);
	memcpy(out, text,
	       NKEY_SIGNATURE_CHARS); /* the zeros that were added are in the last two characters */
	return good;
}

/* ---- files with credentials ---- */

/* The line after one that has `marker`. */
static struct bytes line_after(struct bytes text, const char *marker)
{
	const char *at = text.len == 0 ? NULL : memmem(text.data, text.len, marker, strlen(marker));
	const char *end = text.data + text.len, *stop;

	if (at != NULL)
		at = memchr(at, '\n', (size_t)(end - at));
	if (at == NULL)
		return (struct bytes){"", 0};
	at++;
	stop = memchr(at, '\n', (size_t)(end - at));
	if (stop == NULL)
		stop = end;
	if (stop > at && stop[-1] == '\r')
		stop--;
	return bytes_trimmed((struct bytes){at, (size_t)(stop - at)});
}

bool nkey_credentials_read(struct bytes text, struct bytes *jwt, struct nkey *key)
{
	*jwt = line_after(text, "BEGIN NATS USER JWT");
	return text.len <= NKEY_CREDENTIALS_BYTES_MAX && jwt->len > 0 && bytes_hold_only(*jwt, "-_.") &&
	       nkey_read(line_after(text, "BEGIN USER NKEY SEED"), key);
}
