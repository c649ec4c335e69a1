/* Cipher: what cipher.h promises. */
#include "test.h"

#include "base/cipher.h"

static const struct cipher_key key = {{1, 2, 3}}, other = {{1, 2, 4}};

TEST(cipher, what_was_sealed_opens_with_the_key_and_what_it_is_about)
{
	struct arena a;
	struct bytes sealed, out;

	arena_init(&a);
	sealed = cipher_seal(&key, &a, BYTES("orders/secret"), BYTES("whsec_abc"));
	assert_int_equal(sealed.len, 9 + CIPHER_OVER_BYTES);
	assert_true(cipher_open(&key, &a, BYTES("orders/secret"), sealed, &out));
	assert_true(bytes_is(out, "whsec_abc"));
	assert_false(cipher_open(&other, &a, BYTES("orders/secret"), sealed, &out));
	assert_false(cipher_open(&key, &a, BYTES("refunds/secret"), sealed, &out));
	arena_release(&a);
}

TEST(cipher, every_changed_bit_is_noticed_and_every_short_text)
{
	struct arena a;
	struct bytes sealed, out;

	arena_init(&a);
	sealed = cipher_seal(&key, &a, BYTES("x"), BYTES("secret"));
	for (size_t i = 0; i < sealed.len * 8; i++) {
		char *at = (char *)(uintptr_t)sealed.data + i / 8;

		*at = (char)(*at ^ 1 << i % 8);
		assert_false(cipher_open(&key, &a, BYTES("x"), sealed, &out));
		*at = (char)(*at ^ 1 << i % 8);
	}
	for (size_t len = 0; len < sealed.len; len++)
		assert_false(cipher_open(&key, &a, BYTES("x"), (struct bytes){sealed.data, len}, &out));
	assert_true(cipher_open(&key, &a, BYTES("x"), sealed, &out));
	arena_release(&a);
}

TEST(cipher, the_same_text_is_sealed_differently_each_time_and_may_be_empty)
{
	struct arena a;
	struct bytes one, two, out;

	arena_init(&a);
	one = cipher_seal(&key, &a, BYTES("x"), BYTES("secret"));
	two = cipher_seal(&key, &a, BYTES("x"), BYTES("secret"));
	assert_false(bytes_equal(one, two));
	one = cipher_seal(&key, &a, BYTES(""), BYTES(""));
	assert_true(cipher_open(&key, &a, BYTES(""), one, &out) && out.len == 0);
	arena_release(&a);
}
