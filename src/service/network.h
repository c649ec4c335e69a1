/* Network: an address or a range of addresses, as policies write them: "10.0.0.0/8", "2001:db8::/32", "192.0.2.7". */
#ifndef SERVICE_NETWORK_H
#define SERVICE_NETWORK_H

#include "base/bytes.h"

struct network {
	uint8_t  address[16]; /* in network order, IPv4 as ::ffff:a.b.c.d; the bits past `bits` are zero */
	unsigned bits;        /* of 128 */
};

/* False if it is neither an address nor a range. */
bool network_parse(struct bytes text, struct network *out);

/* ::/0 holds every IPv6 address, and no IPv4 address: that is 0.0.0.0/0. */
bool network_holds(const struct network *n, const uint8_t address[16]);

bool address_is_v4(const uint8_t address[16]);

#endif
