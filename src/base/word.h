/* Word: eight bytes of a text looked at in one step, for loops over text that nearly always find nothing. The answer
 * is only whether there is such a byte among them; which one, a loop over bytes then says. */
#ifndef BASE_WORD_H
#define BASE_WORD_H

#include <stdint.h>
#include <string.h>

enum { WORD_BYTES = 8 };

#define WORD_ONES  UINT64_C(0x0101010101010101)
#define WORD_HIGHS UINT64_C(0x8080808080808080)

static inline uint64_t word_at(const char *text)
{
	uint64_t word;

	memcpy(&word, text, WORD_BYTES);
	return word;
}

/* Is one of the bytes less than `limit`, which is at most 128? Non-zero if so. */
static inline uint64_t word_below(uint64_t word, uint8_t limit)
{
	return (word - WORD_ONES * limit) & ~word & WORD_HIGHS;
}

/* Is one of the bytes this one? Non-zero if so. */
static inline uint64_t word_has(uint64_t word, uint8_t byte)
{
	return word_below(word ^ WORD_ONES * byte, 1);
}

#endif
