/* Device tokens: see device_token.h. */
#include "service/device_token.h"

#include <assert.h>

#include "json/base64.h"

enum {
	TOKEN_VERSION = 1,
	KEY_ID_AT = 1,
	ISSUED_AT = KEY_ID_AT + 4,
	DEVICE_AT = ISSUED_AT + 8,
	SUBJECT_AT = DEVICE_AT + DEVICE_ID_BYTES,
	SUBJECT_BYTES = 16,
	MAC_AT = SUBJECT_AT + SUBJECT_BYTES,
	SUBJECT_ID_MAX = 512, /* longer than any that a request may name (identifier.h) */
};

static_assert(MAC_AT + SHA256_BYTES == DEVICE_TOKEN_BYTES, "the parts add up");
static_assert(DEVICE_TOKEN_BYTES % 3 == 0, "no character has bits to spare");

struct device_keys *device_keys_make(const struct device_key *list, uint32_t count)
{
	struct device_keys *keys = document_make(sizeof(*keys));

	assert(count >= 1 && count <= DEVICE_KEYS_MAX);
	keys->count = count;
	for (uint32_t i = 0; i < count; i++) {
		keys->list[i] = list[i];
		hmac_key_init(&keys->hmac[i], (struct bytes){(const char *)list[i].secret, DEVICE_KEY_BYTES});
	}
	return keys;
}

void device_name(const uint8_t id[DEVICE_ID_BYTES], char name[DEVICE_NAME_CHARS])
{
	uint8_t digest[SHA256_BYTES];

	sha256((struct bytes){(const char *)id, DEVICE_ID_BYTES}, digest);
	base64_url_write((struct bytes){(const char *)digest, DEVICE_NAME_CHARS / 4 * 3}, name);
}

/* ---- numbers, the greatest byte first ---- */

static void number_put(uint8_t *at, uint64_t number, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		at[i] = (uint8_t)(number >> (8 * (bytes - 1 - i)));
}

static uint64_t number_get(const uint8_t *at, unsigned bytes)
{
	uint64_t number = 0;

	for (unsigned i = 0; i < bytes; i++)
		number = number << 8 | at[i];
	return number;
}

/* ---- both hashes begin with a word of their own, so that neither can stand for the other ---- */

static bool subject_hash(const struct hmac_key *key, struct bytes subject, uint8_t mac[SHA256_BYTES])
{
	char message[8 + SUBJECT_ID_MAX];

	if (subject.len == 0 || subject.len > SUBJECT_ID_MAX)
		return false;
	memcpy(message, "subject:", 8);
	memcpy(message + 8, subject.data, subject.len);
	hmac_sha256(key, (struct bytes){message, 8 + subject.len}, mac);
	return true;
}

static void token_mac(const struct hmac_key *key, const uint8_t token[DEVICE_TOKEN_BYTES],
                      uint8_t mac[SHA256_BYTES])
{
	char message[6 + MAC_AT];

	memcpy(message, "token:", 6);
	memcpy(message + 6, token, MAC_AT);
	hmac_sha256(key, (struct bytes){message, sizeof(message)}, mac);
}

void device_token_make(const struct device_keys *keys, const uint8_t id[DEVICE_ID_BYTES],
                       struct bytes subject, int64_t now_s, char text[DEVICE_TOKEN_CHARS])
{
	uint8_t token[DEVICE_TOKEN_BYTES] = {TOKEN_VERSION}, mac[SHA256_BYTES];
	bool    fits = subject_hash(&keys->hmac[0], subject, mac);

	assert(fits);
	(void)fits;
	number_put(token + KEY_ID_AT, keys->list[0].id, 4);
	number_put(token + ISSUED_AT, (uint64_t)now_s, 8);
	memcpy(token + DEVICE_AT, id, DEVICE_ID_BYTES);
	memcpy(token + SUBJECT_AT, mac, SUBJECT_BYTES);
	token_mac(&keys->hmac[0], token, token + MAC_AT);
	base64_url_write((struct bytes){(const char *)token, sizeof(token)}, text);
	crypto_wipe(token, sizeof(token));
}

static const struct hmac_key *key_find(const struct device_keys *keys, uint32_t id)
{
	for (uint32_t i = 0; i < keys->count; i++)
		if (keys->list[i].id == id)
			return &keys->hmac[i];
	return NULL;
}

static bool same(const uint8_t *a, const uint8_t *b, size_t len)
{
	return crypto_equal((struct bytes){(const char *)a, len}, (struct bytes){(const char *)b, len});
}

bool device_token_read(const struct device_keys *keys, struct bytes text, struct bytes subject,
                       char name[DEVICE_NAME_CHARS])
{
	uint8_t                token[DEVICE_TOKEN_BYTES], mac[SHA256_BYTES];
	const struct hmac_key *key;

	if (text.len != DEVICE_TOKEN_CHARS || !base64_url_read(text, token) || token[0] != TOKEN_VERSION)
		return false;
	key = key_find(keys, (uint32_t)number_get(token + KEY_ID_AT, 4));
	if (key == NULL)
		return false;
	token_mac(key, token, mac);
	if (!same(mac, token + MAC_AT, SHA256_BYTES)) /* (1) */
		return false;
	if (!subject_hash(key, subject, mac) || !same(mac, token + SUBJECT_AT, SUBJECT_BYTES)) /* (2) */
		return false;
	device_name(token + DEVICE_AT, name);
	return true;
}
