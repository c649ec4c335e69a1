/* Cipher: see cipher.h. The only file that knows the library behind it. */
#include "base/cipher.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/log.h"

static void must(bool done)
{
	if (done)
		return;
	log_error("the system's encryption does not work");
	abort();
}

void cipher_key_make(const struct hmac_key *from, struct bytes purpose, struct cipher_key *out)
{
	_Static_assert((int)CIPHER_KEY_BYTES == (int)SHA256_BYTES, "a mac is a key");
	hmac_sha256(from, purpose, out->bytes);
}

struct bytes cipher_seal(const struct cipher_key *k, struct arena *a, struct bytes about, struct bytes text)
{
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	uint8_t        *out = arena_alloc(a, text.len + CIPHER_OVER_BYTES), *body = out + CIPHER_NONCE_BYTES;
	int             len;

	assert(text.len <= CIPHER_TEXT_BYTES_MAX && about.len <= CIPHER_TEXT_BYTES_MAX);
	must(c != NULL && getrandom(out, CIPHER_NONCE_BYTES, 0) == CIPHER_NONCE_BYTES);
	must(EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, k->bytes, out) == 1 &&
	     EVP_EncryptUpdate(c, NULL, &len, (const uint8_t *)about.data, (int)about.len) == 1 &&
	     EVP_EncryptUpdate(c, body, &len, (const uint8_t *)text.data, (int)text.len) == 1 &&
	     EVP_EncryptFinal_ex(c, body + len, &len) == 1 &&
	     EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, CIPHER_TAG_BYTES, body + text.len) == 1);
	EVP_CIPHER_CTX_free(c);
	return (struct bytes){(const char *)out, text.len + CIPHER_OVER_BYTES};
}

bool cipher_open(const struct cipher_key *k, struct arena *a, struct bytes about, struct bytes sealed,
                 struct bytes *out)
{
	const uint8_t  *from = (const uint8_t *)sealed.data, *body = from + CIPHER_NONCE_BYTES;
	size_t          text_len = sealed.len - CIPHER_OVER_BYTES;
	uint8_t         tag[CIPHER_TAG_BYTES], *to;
	EVP_CIPHER_CTX *c;
	int             len;
	bool            good;

	if (sealed.len < CIPHER_OVER_BYTES || text_len > CIPHER_TEXT_BYTES_MAX ||
	    about.len > CIPHER_TEXT_BYTES_MAX)
		return false;
	to = arena_alloc(a, text_len + 1);
	memcpy(tag, body + text_len, sizeof(tag));
	c = EVP_CIPHER_CTX_new();
	must(c != NULL);
	good = EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, k->bytes, from) == 1 &&
	       EVP_DecryptUpdate(c, NULL, &len, (const uint8_t *)about.data, (int)about.len) == 1 &&
	       EVP_DecryptUpdate(c, to, &len, body, (int)text_len) == 1 &&
	       EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, CIPHER_TAG_BYTES, tag) == 1 &&
	       EVP_DecryptFinal_ex(c, to + len, &len) == 1;
	EVP_CIPHER_CTX_free(c);
	if (good)
		*out = (struct bytes){(const char *)to, text_len};
	return good;
}
