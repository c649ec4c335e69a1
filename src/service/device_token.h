/* Device tokens: the cookie of a known device. Gatehouse issues one with the success that makes a device known; the
 * caller keeps it in the browser and sends it back as context.device_token. Nothing else opens a known device's lane
 * (device.h).
 *
 * A token is 81 bytes, written as 108 characters of base64 for URLs:
 *
 *   1 byte    version
 *   4 bytes   id of the key that signed it
 *   8 bytes   when it was issued, in seconds since 1970
 *   20 bytes  the device: random
 *   16 bytes  the subject: a keyed hash of its id
 *   32 bytes  HMAC-SHA-256 of all the above
 *
 * What always holds
 * (1) A token that differs in any bit from one that was issued is refused.
 * (2) A token is worth something for the subject it was issued to, and for no other.
 * (3) Neither a token nor the device in it is ever stored or logged. Rows hold its name, which is a hash.
 *
 * Pure functions over immutable keys: any thread may call them. */
#ifndef SERVICE_DEVICE_TOKEN_H
#define SERVICE_DEVICE_TOKEN_H

#include "base/crypto.h"
#include "service/document.h"

enum {
	DEVICE_KEY_BYTES = 32,
	DEVICE_KEYS_MAX = 32,
	DEVICE_ID_BYTES = 20,
	DEVICE_NAME_CHARS = 32,
	DEVICE_TOKEN_BYTES = 81,
	DEVICE_TOKEN_CHARS = DEVICE_TOKEN_BYTES / 3 * 4,
	DEVICE_TOKEN_SENT_MAX = 1024, /* longer ones are a mistake of the caller; others are just not valid */
};

struct device_key {
	uint32_t id;
	int64_t  created_s;
	uint8_t  secret[DEVICE_KEY_BYTES];
};

/* Those that verify, the newest first: that one signs. A document, so that it can be replaced while it is used. */
struct device_keys {
	struct document   base;
	struct device_key list[DEVICE_KEYS_MAX];
	struct hmac_key   hmac[DEVICE_KEYS_MAX]; /* of each, made ready */
	uint32_t          count;
};

/* 1 to DEVICE_KEYS_MAX of them, the newest first. */
struct device_keys *device_keys_make(const struct device_key *list, uint32_t count);

/* The name of a device: what rows and lists call it. */
void device_name(const uint8_t id[DEVICE_ID_BYTES], char name[DEVICE_NAME_CHARS]);

void device_token_make(const struct device_keys *keys, const uint8_t id[DEVICE_ID_BYTES],
                       struct bytes subject, int64_t now_s, char text[DEVICE_TOKEN_CHARS]);

/* Is it one that these keys signed for that subject? Then `name` is its device's. */
bool device_token_read(const struct device_keys *keys, struct bytes text, struct bytes subject,
                       char name[DEVICE_NAME_CHARS]);

#endif
