/* Base64: RFC 4648's vectors, and everything that the strict reading refuses. */
#include "test.h"

#include "json/base64.h"

static void check_pair(const char *plain, const char *encoded)
{
	struct arena a;
	struct buf   out;
	struct bytes back = {0};

	arena_init(&a);
	buf_init(&out, &a);
	base64_encode(&out, bytes_of(plain));
	assert_bytes(buf_bytes(&out), encoded);
	assert_int_equal(base64_check(bytes_of(encoded)), BASE64_OK);
	assert_int_equal(base64_decode(&a, bytes_of(encoded), &back), BASE64_OK);
	assert_bytes(back, plain);
	arena_release(&a);
}

static void check_fault(const char *text, enum base64_fault fault)
{
	struct arena a;
	struct bytes out;

	arena_init(&a);
	assert_int_equal(base64_check(bytes_of(text)), fault);
	assert_int_equal(base64_decode(&a, bytes_of(text), &out), fault);
	arena_release(&a);
}

TEST(base64, the_vectors_of_the_rfc)
{
	check_pair("", "");
	check_pair("f", "Zg==");
	check_pair("fo", "Zm8=");
	check_pair("foo", "Zm9v");
	check_pair("foob", "Zm9vYg==");
	check_pair("fooba", "Zm9vYmE=");
	check_pair("foobar", "Zm9vYmFy");
}

TEST(base64, every_byte_survives)
{
	struct arena a;
	struct buf   out;
	struct bytes back = {0};
	char         all[256];

	arena_init(&a);
	buf_init(&out, &a);
	for (unsigned i = 0; i < 256; i++)
		all[i] = (char)i;
	base64_encode(&out, (struct bytes){all, 256});
	assert_int_equal(base64_decode(&a, buf_bytes(&out), &back), BASE64_OK);
	assert_true(bytes_equal(back, (struct bytes){all, 256}));
	arena_release(&a);
}

TEST(base64, padding_is_required_and_only_at_the_end)
{
	check_fault("Zg", BASE64_LENGTH);
	check_fault("Zg=", BASE64_LENGTH);
	check_fault("Zm9vY", BASE64_LENGTH);
	check_fault("Zg==Zg==", BASE64_CHARACTER);
	check_fault("Z===", BASE64_CHARACTER);
	check_fault("====", BASE64_CHARACTER);
	check_fault("=AAA", BASE64_CHARACTER);
	check_fault("AA=A", BASE64_CHARACTER);
}

TEST(base64, other_characters_are_refused)
{
	check_fault("Zm9 ", BASE64_CHARACTER);
	check_fault("Zm9\n", BASE64_CHARACTER);
	check_fault("Zm-_", BASE64_CHARACTER);
	check_fault("Zm9\x80", BASE64_CHARACTER);
}

/* ---- for URLs, of any length ---- */

static void check_url(const char *text, const char *expected)
{
	struct arena a;
	struct bytes out;

	arena_init(&a);
	if (expected == NULL) {
		assert_false(base64_url_decode(&a, bytes_of(text), &out));
	} else {
		assert_true(base64_url_decode(&a, bytes_of(text), &out));
		assert_bytes(out, expected);
	}
	arena_release(&a);
}

TEST(base64, of_urls_has_no_padding_and_one_text_for_each_run_of_bytes)
{
	check_url("", "");
	check_url("Zg", "f");
	check_url("Zm8", "fo");
	check_url("Zm9v", "foo");
	check_url("Zm9vYg", "foob");
	check_url("_-8", "\xff\xef");
	check_url("Z", NULL);
	check_url("Zm9vY", NULL);
	check_url("Zg==", NULL);
	check_url("Zh", NULL);
	check_url("Zm9", NULL);
	check_url("/+8", NULL);
	check_url("Zm9v\n", NULL);
	check_url(" Zm9v", NULL);
	check_url("Zm9\x80", NULL);
}

TEST(base64, of_urls_takes_exactly_the_characters_of_its_alphabet)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

	for (unsigned c = 0; c < 256; c++) {
		char         text[4] = {'A', 'A', 'A', (char)c};
		const char  *at = c == 0 ? NULL : strchr(alphabet, (char)c);
		struct arena a;
		struct bytes out;

		arena_init(&a);
		assert_int_equal(base64_url_decode(&a, (struct bytes){text, 4}, &out), at != NULL);
		if (at != NULL)
			assert_int_equal((uint8_t)out.data[2], at - alphabet);
		arena_release(&a);
	}
}

TEST(base64, bits_that_no_byte_uses_are_zero)
{
	check_fault("Zh==", BASE64_BITS);
	check_fault("Zm9=", BASE64_BITS);
	check_fault("//==", BASE64_BITS);
}
