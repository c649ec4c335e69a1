/* CRC-32: zlib's, but for what is long on a processor that multiplies polynomials: there 64 bytes are folded into those before them at a
 * time, which costs a tenth. Each commit's journal record is summed, and most of a checksum's cost is per byte.
 *
 * Bits are reflected: the lowest bit of a byte has the highest power. A constant below is x^n mod P, for the distance n that it carries bits over;
 * FOLD_… has those for the two halves of 16 bytes. */
#include "base/crc32.h"

#include <zlib.h>

#if defined(__x86_64__)
#include <immintrin.h>

enum { PIECE = 16, PIECES = 4, LONG_BYTES = 2 * PIECE * PIECES };

#define FOLD_64 _mm_set_epi64x(0x01c6e41596, 0x0154442bd4) /* over 64 bytes */
#define FOLD_16 _mm_set_epi64x(0x00ccaa009e, 0x01751997d0) /* over 16 */
#define FOLD_8  _mm_set_epi64x(0, 0x0163cd6124)            /* of what is left, over 8 */
#define REDUCE  _mm_set_epi64x(0x01f7011641, 0x01db710641) /* P' and P, for Barrett's reduction */

#define CARRYLESS __attribute__((target("pclmul,sse4.1")))

CARRYLESS static inline __m128i piece_at(const char *data)
{
	return _mm_loadu_si128((const __m128i *)(const void *)data);
}

/* What x stands for, so much later, and what comes there. */
CARRYLESS static inline __m128i fold(__m128i x, __m128i by, __m128i next)
{
	__m128i low = _mm_clmulepi64_si128(x, by, 0x00), high = _mm_clmulepi64_si128(x, by, 0x11);

	return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

CARRYLESS static inline uint32_t reduce(__m128i x)
{
	const __m128i low_halves = _mm_setr_epi32(-1, 0, -1, 0);
	__m128i       y = _mm_xor_si128(_mm_clmulepi64_si128(x, FOLD_16, 0x10), _mm_srli_si128(x, 8));

	y = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(y, low_halves), FOLD_8, 0x00),
	                  _mm_srli_si128(y, 4));
	x = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(y, low_halves), REDUCE, 0x10), low_halves);
	return (uint32_t)_mm_extract_epi32(_mm_xor_si128(_mm_clmulepi64_si128(x, REDUCE, 0x00), y), 1);
}

/* Of whole pieces, at least PIECES of them. */
CARRYLESS static uint32_t crc32_pieces(struct bytes data)
{
	__m128i     x[PIECES];
	const char *at = data.data, *end = data.data + data.len;

	for (int i = 0; i < PIECES; i++, at += PIECE)
		x[i] = piece_at(at);
	x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128(-1));
	for (; end - at >= PIECE * PIECES; at += PIECE * PIECES)
		for (int i = 0; i < PIECES; i++)
			x[i] = fold(x[i], FOLD_64, piece_at(at + PIECE * i));
	for (int i = 1; i < PIECES; i++)
		x[0] = fold(x[0], FOLD_16, x[i]);
	for (; at < end; at += PIECE)
		x[0] = fold(x[0], FOLD_16, piece_at(at));
	return ~reduce(x[0]);
}

uint32_t crc32_of(struct bytes data)
{
	size_t   whole = data.len / PIECE * PIECE;
	uint32_t crc;

	if (data.len < LONG_BYTES || !__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1"))
		return (uint32_t)crc32_z(0, (const unsigned char *)data.data, data.len);
	crc = crc32_pieces((struct bytes){data.data, whole});
	if (whole == data.len)
		return crc;
	return (uint32_t)crc32_z(crc, (const unsigned char *)data.data + whole, data.len - whole);
}

#else

uint32_t crc32_of(struct bytes data)
{
	return (uint32_t)crc32_z(0, (const unsigned char *)data.data, data.len);
}

#endif
