/* Network: parsing and matching, bit by bit. */
#include "service/network.h"

#include "service/identifier.h"

enum { BITS = 128, BITS_BEFORE_V4 = 96, BITS_V4 = 32 };

bool address_is_v4(const uint8_t address[16])
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	return memcmp(address, mapped, sizeof(mapped)) == 0;
}

static void clear_host(struct network *n)
{
	for (unsigned bit = n->bits; bit < BITS; bit++)
		n->address[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
}

bool network_parse(struct bytes text, struct network *out)
{
	const char  *slash = text.len == 0 ? NULL : memchr(text.data, '/', text.len);
	struct bytes address = {text.data, slash == NULL ? text.len : (size_t)(slash - text.data)};
	uint64_t     bits;
	bool         v4;

	if (!identifier_ip_parse(address, out->address))
		return false;
	out->bits = BITS;
	if (slash == NULL)
		return true;
	v4 = address_is_v4(out->address);
	if (!bytes_to_u64((struct bytes){slash + 1, text.len - address.len - 1}, v4 ? BITS_V4 : BITS, &bits))
		return false;
	out->bits = (unsigned)bits + (v4 ? BITS_BEFORE_V4 : 0);
	clear_host(out);
	return true;
}

bool network_holds(const struct network *n, const uint8_t address[16])
{
	unsigned whole = n->bits / 8, rest = n->bits % 8;

	if (n->bits < BITS_BEFORE_V4 && address_is_v4(address))
		return false;
	if (memcmp(n->address, address, whole) != 0)
		return false;
	return rest == 0 || ((n->address[whole] ^ address[whole]) >> (8 - rest)) == 0;
}
