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

TEST(base64, bits_that_no_byte_uses_are_zero)
{
	check_fault("Zh==", BASE64_BITS);
	check_fault("Zm9=", BASE64_BITS);
	check_fault("//==", BASE64_BITS);
}
