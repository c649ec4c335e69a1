/* Word: what it says of eight bytes, against a loop over them. */
#include "base/bytes.h"
#include "test.h"

enum { LIMIT = 0x20, WANTED = '"' };

/* Each value at each place, among bytes that are next to what is looked for on either side. */
TEST(word, finds_a_byte_below_the_limit_or_equal_to_the_wanted_one_wherever_it_is)
{
	static const unsigned char around[] = {LIMIT, WANTED - 1, WANTED + 1, 0x7f, 0x80, 0xff};

	for (size_t a = 0; a < sizeof(around); a++)
		for (int place = 0; place < WORD_BYTES; place++)
			for (int value = 0; value < 256; value++) {
				char text[WORD_BYTES];

				memset(text, around[a], sizeof(text));
				text[place] = (char)value;
				assert_int_equal(word_below(word_at(text), LIMIT) != 0, value < LIMIT);
				assert_int_equal(word_has(word_at(text), WANTED) != 0, value == WANTED);
			}
}
