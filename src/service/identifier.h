/* Identifiers: what a subject, a source or a limit is called. A plain id is kept as it is. What is personal
 * (an email address, a phone number, an IP address, a device) is normalised and replaced by a keyed hash
 * before it is stored, logged or shown: "email:3q2-7w…". The same value gives the same text for as long as
 * the key is the same (an IPv6 address counts as its network of 64 bits). Without the key, nobody can find out the
 * value, not even by trying values out. */
#ifndef SERVICE_IDENTIFIER_H
#define SERVICE_IDENTIFIER_H

#include "base/bytes.h"
#include "base/crypto.h"
#include "json/json.h"
#include "service/email.h"

enum {
	IDENTIFIER_KEY_BYTES = 32,
	IDENTIFIER_BYTES_MAX = 256,   /* a plain id */
	IDENTIFIER_SOURCE_BITS = 64,  /* of an IPv6 address that make a source */
	IDENTIFIER_NETWORK_BITS = 48, /* … and a network of sources */
	IDENTIFIER_HASH_CHARS = 32,   /* 24 bytes, base64 for URLs */
	IDENTIFIER_DEVICE_MAX = 256,
	IDENTIFIER_DIGITS_MIN = 7,  /* a phone number has at least so many digits, */
	IDENTIFIER_DIGITS_MAX = 15, /* and no more than any number in the world (E.164) */
};

/* X(id, name in requests) */
#define IDENTIFIER_KINDS(X)                                                                                  \
	X(IDENTIFIER_EMAIL, "email")                                                                         \
	X(IDENTIFIER_PHONE, "phone")                                                                         \
	X(IDENTIFIER_IP, "ip")                                                                               \
	X(IDENTIFIER_DEVICE, "device")

enum identifier_kind {
#define X(id, name) id,
	IDENTIFIER_KINDS(X)
#undef X
	        IDENTIFIER_KIND_COUNT
};

struct identifier_key {
	struct hmac_key hmac;
};

void identifier_key_init(struct identifier_key *k, const uint8_t secret[IDENTIFIER_KEY_BYTES]);

/* "email:…" in the arena. False if the text is not one of that kind. */
bool identifier_hash(const struct identifier_key *k, struct arena *a, enum identifier_kind kind,
                     struct bytes text, struct bytes *out);

/* The same of an address that a row has, also of one that is refused by now (email_of_row). */
struct bytes identifier_of_row_email(const struct identifier_key *k, struct arena *a, struct bytes email);

/* The same of the IPv6 network of 48 bits that an address is in: a site has one, and with it 65,536 sources. False for IPv4. */
bool identifier_hash_network(const struct identifier_key *k, struct arena *a, struct bytes address,
                             struct bytes *out);

/* The hash alone, of a text that is no identifier; `purpose` keeps it apart from every other use of the key. */
struct bytes identifier_hash_text(const struct identifier_key *k, struct arena *a, const char *purpose,
                                  struct bytes text);

/* What subjects that were erased are called begins so: the rest is a keyed hash (event.h). */
#define IDENTIFIER_ERASED "erased:"

/* A subject: a member that is a plain id ("alice"), or an object with one member that names the kind ({"email": …}).
 * {"ip": "2001:db8:1::/48"} is that network.
 * Plain ids are kept as they are. So they are refused if they are personal on their face, or begin like a hashed one
 * without having the form of one, or like one that was erased: nothing may happen to it any more. Errors go into f. */
struct bytes identifier_read(const struct identifier_key *k, struct arena *a, struct fields *f,
                             const char *name, const struct json *member);

/* The same, with the address if it came as one, normalised: for looking up whose it is, and never to be stored or shown. */
struct identifier {
	struct bytes id, email; /* email: empty if it did not */
};

struct identifier identifier_read_subject(const struct identifier_key *k, struct arena *a, struct fields *f,
                                          const char *name, const struct json *member);

/* The same for what is asked about the past: also one that was erased. */
struct bytes identifier_read_past(const struct identifier_key *k, struct arena *a, struct fields *f,
                                  const char *name, const struct json *member);

/* The same for one of a subject's methods. A number is taken for a phone's, not for an id. */
struct bytes identifier_read_method(const struct identifier_key *k, struct arena *a, struct fields *f,
                                    const char *name, const struct json *member);

/* The same for the key of a limit. A plain one may be anything: rows of an older limiter are called so. */
struct bytes identifier_read_key(const struct identifier_key *k, struct arena *a, struct fields *f,
                                 const char *name, const struct json *member);

/* A phone number as E.164 has it: + and IDENTIFIER_DIGITS_MIN to IDENTIFIER_DIGITS_MAX digits, of which the first is not 0. */
bool identifier_phone_is(struct bytes text);

/* What a plain text is on its face: "email", "phone", "ip"; NULL if it seems to tell nobody who is meant. */
const char *identifier_looks_like(struct bytes text);

/* Is it one of ours: a kind's name, a colon, a hash? Then it tells nobody who is meant. */
bool identifier_is_hashed(struct bytes text);
bool identifier_is(struct bytes text, enum identifier_kind kind);

/* An IPv4 or IPv6 address in network order, IPv4 as ::ffff:a.b.c.d. */
bool identifier_ip_parse(struct bytes text, uint8_t out[16]);

/* ---- networks ----
 *
 * An address or a range of addresses, as policies write them: "10.0.0.0/8", "2001:db8::/32", "192.0.2.7". */

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
