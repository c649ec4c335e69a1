/* CRC-32: the same as zlib's, of every length and wherever the bytes begin. */
#include "test.h"

#include <zlib.h>

#include "base/crc32.h"

enum { LENGTH_MAX = 700, OFFSETS = 17 };

static uint32_t zlibs(struct bytes data)
{
	return (uint32_t)crc32_z(0, (const unsigned char *)data.data, data.len);
}

static void fill(char *data, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * UINT64_C(6364136223846793005) + 1;
		data[i] = (char)(seed >> 56);
	}
}

TEST(crc32, is_the_published_one)
{
	assert_int_equal(crc32_of(BYTES("123456789")), 0xcbf43926);
	assert_int_equal(crc32_of(BYTES("")), 0);
}

TEST(crc32, is_zlibs_for_every_length_and_place)
{
	char data[LENGTH_MAX + OFFSETS];

	fill(data, sizeof(data), 7);
	for (size_t from = 0; from < OFFSETS; from++)
		for (size_t len = 0; len <= LENGTH_MAX; len++)
			assert_int_equal(crc32_of((struct bytes){data + from, len}),
			                 zlibs((struct bytes){data + from, len}));
}

TEST(crc32, is_zlibs_for_what_is_long_and_for_zeros_and_ones)
{
	static char data[1 << 20];

	assert_int_equal(crc32_of((struct bytes){data, sizeof(data)}),
	                 zlibs((struct bytes){data, sizeof(data)}));
	memset(data, 0xff, sizeof(data));
	assert_int_equal(crc32_of((struct bytes){data, sizeof(data)}),
	                 zlibs((struct bytes){data, sizeof(data)}));
	fill(data, sizeof(data), 42);
	assert_int_equal(crc32_of((struct bytes){data, sizeof(data)}),
	                 zlibs((struct bytes){data, sizeof(data)}));
	assert_int_equal(crc32_of((struct bytes){data + 3, sizeof(data) - 5}),
	                 zlibs((struct bytes){data + 3, sizeof(data) - 5}));
}
