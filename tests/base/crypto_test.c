/* Crypto: against published values, and HMAC against its definition; and random bytes. */
#include "test.h"

#include <pthread.h>

#include "base/crypto.h"
#include "base/random.h"

static void assert_hex(const uint8_t *data, size_t len, const char *expected)
{
	char text[2 * SHA256_BYTES + 1] = {0};

	hex_write((struct bytes){(const char *)data, len}, text);
	assert_string_equal(text, expected);
}

static void assert_sha256(struct bytes data, const char *expected)
{
	uint8_t digest[SHA256_BYTES];
	char    text[SHA256_HEX_CHARS];

	sha256(data, digest);
	assert_hex(digest, sizeof(digest), expected);
	sha256_hex(data, text);
	assert_bytes((struct bytes){text, sizeof(text)}, expected);
}

TEST(sha256, agrees_with_fips_180)
{
	assert_sha256((struct bytes){NULL, 0},
	              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	assert_sha256(BYTES("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_sha256(BYTES("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
	              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(hmac, agrees_with_rfc_4231)
{
	struct hmac_key key;
	uint8_t         mac[SHA256_BYTES];
	char            large[131];

	hmac_key_init(&key, BYTES("Jefe"));
	hmac_sha256(&key, BYTES("what do ya want for nothing?"), mac);
	assert_hex(mac, sizeof(mac), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	memset(large, 0xaa, sizeof(large));
	hmac_key_init(&key, (struct bytes){large, sizeof(large)});
	hmac_sha256(&key, BYTES("Test Using Larger Than Block-Size Key - Hash Key First"), mac);
	assert_hex(mac, sizeof(mac), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/* H((K ^ opad) || H((K ^ ipad) || text)), with nothing prepared. */
static void hmac_plain(struct bytes secret, struct bytes text, uint8_t mac[SHA256_BYTES])
{
	uint8_t key[64] = {0};
	char    block[64 + 300];
	uint8_t inner[SHA256_BYTES];

	if (secret.len > sizeof(key))
		sha256(secret, key);
	else
		memcpy(key, secret.data, secret.len);
	for (size_t i = 0; i < sizeof(key); i++)
		block[i] = (char)(key[i] ^ 0x36);
	memcpy(block + 64, text.data, text.len);
	sha256((struct bytes){block, 64 + text.len}, inner);
	for (size_t i = 0; i < sizeof(key); i++)
		block[i] = (char)(key[i] ^ 0x5c);
	memcpy(block + 64, inner, sizeof(inner));
	sha256((struct bytes){block, 64 + sizeof(inner)}, mac);
}

TEST(hmac, is_the_same_with_a_prepared_key_at_every_length_around_a_block)
{
	char data[300];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7);
	for (size_t secret = 0; secret<140; secret += secret> 70 ? 21 : 1)
		for (size_t len = 0; len < sizeof(data); len++) {
			struct hmac_key key;
			uint8_t         mac[SHA256_BYTES], plain[SHA256_BYTES];

			hmac_key_init(&key, (struct bytes){data, secret});
			hmac_sha256(&key, (struct bytes){data, len}, mac);
			hmac_plain((struct bytes){data, secret}, (struct bytes){data, len}, plain);
			assert_memory_equal(mac, plain, sizeof(mac));
		}
}

TEST(crypto, equal_means_same_length_and_same_bytes)
{
	assert_true(crypto_equal((struct bytes){NULL, 0}, BYTES("")));
	assert_true(crypto_equal(BYTES("secret"), BYTES("secret")));
	assert_false(crypto_equal(BYTES("secret"), BYTES("secre")));
	assert_false(crypto_equal(BYTES("secret"), BYTES("secreT")));
	assert_false(crypto_equal(BYTES("secret"), BYTES("Secret")));
}

TEST(crypto, wiping_leaves_zeros)
{
	char secret[] = "secret";

	crypto_wipe(secret, sizeof(secret));
	for (size_t i = 0; i < sizeof(secret); i++)
		assert_int_equal(secret[i], 0);
}

/* ---- random ---- */

static bool same(const uint8_t *a, const uint8_t *b, size_t len)
{
	return memcmp(a, b, len) == 0;
}

TEST(random, gives_no_bytes_twice_also_where_its_store_ends)
{
	static uint8_t given[4 * RANDOM_KEPT_BYTES / 16 + 1]
	                    [16]; /* 16 bytes each time, past several stores */
	size_t count = sizeof(given) / sizeof(given[0]);

	for (size_t i = 0; i < count; i++)
		random_bytes(given[i], 16);
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < i; j++)
			assert_false(same(given[i], given[j], 16));
}

TEST(random, fills_all_of_what_is_asked_for_up_to_its_store_and_past_it)
{
	const size_t lens[] = {1, 7, RANDOM_KEPT_BYTES - 1, RANDOM_KEPT_BYTES, RANDOM_KEPT_BYTES + 1, 5000};

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		uint8_t seen[5001] = {0}, out[5001];

		for (int round = 0; round < 8; round++) { /* all eight zero: once in 2^64 */
			memset(out, 0, sizeof(out));
			random_bytes(out, lens[i]);
			assert_int_equal(out[lens[i]], 0);
			for (size_t at = 0; at < lens[i]; at++)
				seen[at] |= out[at];
		}
		for (size_t at = 0; at < lens[i]; at++)
			assert_int_not_equal(seen[at], 0);
	}
}

static void *random_of_thread(void *out)
{
	random_bytes(out, 64);
	return NULL;
}

TEST(random, gives_each_thread_its_own)
{
	uint8_t   here[64], there[2][64];
	pthread_t threads[2];

	random_bytes(here, sizeof(here));
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, random_of_thread, there[i]), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_false(same(here, there[0], 64) || same(here, there[1], 64) || same(there[0], there[1], 64));
}
