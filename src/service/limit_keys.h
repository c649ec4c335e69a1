/* Limit keys: the keys that a policy treats in their own way.
 *
 *   keys:                               # limits of their own
 *     client-a: {limit: 1000, per: minute}
 *     monitor: unlimited
 *     10.0.0.0/8: {limit: 600}          # each address in it
 *   allow: [monitor, 192.0.2.0/24]      # always allowed, and not counted
 *   deny: [203.0.113.0/24]              # always refused
 *
 * An entry is a key as callers send it, the hash that a personal key is kept as ("email:3q2-…"), or an address or a
 * network. A network is for every key that is an address in it, sent as text or as {"ip": …}. Since an IPv6 key counts
 * as its network of 64 bits, so does an entry that is an IPv6 address.
 *
 * deny goes before allow, and allow before keys; within one of them a text goes before a network, and the longest
 * network first. */
#ifndef SERVICE_LIMIT_KEYS_H
#define SERVICE_LIMIT_KEYS_H

#include "base/arena.h"
#include "service/limit.h"
#include "service/identifier.h"

enum {
	LIMIT_KEY_MAX = 256,          /* bytes, as callers send it */
	LIMIT_KEYS_LISTED_MAX = 1000, /* of one policy, all lists together */
};

/* A key as a call names it. */
struct limit_key {
	struct bytes text;       /* as it is kept, behind the policy's prefix */
	bool         hashed;     /* by us: it tells nobody who is meant */
	bool         is_address; /* or the hash of one */
	uint8_t      address[16];

	const struct limit_rule
	        *asked; /* the limit that came with the call (limit_policy.h, inline); NULL: none did */
};

/* Of a text that a caller sent as it is. */
struct limit_key limit_key_plain(struct bytes text);

/* In the order of what goes first, from the last. */
enum limit_list { LIMIT_LIST_KEYS, LIMIT_LIST_ALLOW, LIMIT_LIST_DENY };

struct limit_entry {
	enum limit_list   list;
	struct bytes      text; /* as it is written */
	bool              is_network;
	struct network    network;
	bool              unlimited; /* LIMIT_LIST_KEYS; else it has a rule */
	struct limit_rule rule;
};

struct limit_keys {
	struct limit_entry *list; /* texts, then networks: see limit_keys_sort */
	uint32_t            count, text_count;
};

/* What is wrong with an entry's text; NULL: nothing. Fills the network, if it is one. */
const char *limit_entry_parse(struct limit_entry *e);

/* Once all are there. The first entry that is listed twice, or NULL. */
const struct limit_entry *limit_keys_sort(struct limit_keys *k);

/* The one that goes first of those for that key, or NULL. */
const struct limit_entry *limit_keys_find(const struct limit_keys *k, const struct limit_key *key);

#endif
