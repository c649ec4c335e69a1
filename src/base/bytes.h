/* Bytes: a borrowed run of bytes, never NUL-terminated by contract. Whoever made it owns the memory. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
	const char *data;
	size_t      len;
};

/* A string literal as bytes; BYTES_INIT for static initialisers. */
#define BYTES(literal) ((struct bytes){(literal), sizeof(literal) - 1})
#define BYTES_INIT(literal)                                                                                  \
	{                                                                                                    \
		(literal), sizeof(literal) - 1                                                               \
	}

/* For printf's "%.*s". */
#define BYTES_ARG(b) (int)(b).len, (b).data

static inline struct bytes bytes_of(const char *text)
{
	return (struct bytes){text, strlen(text)};
}

/* What differs mostly differs in length or at an end, which costs less to see than a call. */
static inline bool bytes_equal(struct bytes a, struct bytes b)
{
	if (a.len != b.len)
		return false;
	if (a.len == 0 || a.data == b.data)
		return true;
	if (a.data[0] != b.data[0] || a.data[a.len - 1] != b.data[a.len - 1])
		return false;
	return a.len <= 2 || memcmp(a.data, b.data, a.len) == 0;
}

static inline bool bytes_is(struct bytes a, const char *text)
{
	return bytes_equal(a, bytes_of(text));
}

static inline bool bytes_starts_with(struct bytes a, struct bytes prefix)
{
	return a.len >= prefix.len && (prefix.len == 0 || memcmp(a.data, prefix.data, prefix.len) == 0);
}

/* Order of unsigned bytes; a prefix comes before what it starts. */
static inline int bytes_compare(struct bytes a, struct bytes b)
{
	size_t len = a.len < b.len ? a.len : b.len;
	int    order = len == 0 ? 0 : (uint8_t)a.data[0] - (uint8_t)b.data[0];

	if (order == 0 && len > 1)
		order = memcmp(a.data, b.data, len);
	if (order != 0)
		return order;
	return (a.len > b.len) - (a.len < b.len);
}

/* Of an ASCII letter; anything else is as it was. */
static inline char ascii_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static inline bool ascii_is_alphanumeric(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Is every byte an ASCII letter, a digit, or one of `others`? */
bool bytes_hold_only(struct bytes text, const char *others);

/* -1: it is none. */
static inline int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Lower case of the ASCII letters, into memory of the same length. */
void bytes_lower(struct bytes text, char *out);

/* Of two runs of one length, the first in lower case already. */
bool bytes_folds_to(struct bytes lower, const char *text);

/* Equal whatever the case of ASCII letters; `lower` is in lower case already. Mostly the lengths tell. */
static inline bool bytes_equal_lower(struct bytes lower, struct bytes text)
{
	return lower.len == text.len && bytes_folds_to(lower, text.data);
}

/* Without the blanks and tabs on both sides. */
static inline struct bytes bytes_trimmed(struct bytes text)
{
	while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
		text = (struct bytes){text.data + 1, text.len - 1};
	while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
		text.len--;
	return text;
}

/* Does `needle` occur in `hay`? The empty needle does. Takes time linear in both lengths, whatever they hold. */
bool bytes_contains(struct bytes hay, struct bytes needle);

/* Is it well-formed UTF-8 (no surrogates, no overlong forms)? */
bool bytes_is_utf8(struct bytes text);

/* Parses a whole decimal number without sign; false if empty, not digits only, or above max. */
bool bytes_to_u64(struct bytes text, uint64_t max, uint64_t *out);

/* For "did you mean": how many letters to insert, remove or replace. SIZE_MAX if `meant` was hardly meant: more than
 * two typos, or more than one letter in three. */
size_t bytes_typos(struct bytes written, struct bytes meant);

/* ---- a word: eight bytes looked at in one step, for loops over text that nearly always find nothing. The answer is only
 * whether there is such a byte among them; which one, a loop over bytes then says ---- */

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
