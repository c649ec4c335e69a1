/* Limit keys: texts are found by halving, networks one after the other. */
#include "service/limit_keys.h"

#include <stdlib.h>

#include "service/identifier.h"

enum { V6_KEY_BITS = 64 }; /* of an IPv6 address, as identifier.h counts it */

struct limit_key limit_key_plain(struct bytes text)
{
	struct limit_key key = {.text = text};

	key.is_address = identifier_ip_parse(text, key.address);
	return key;
}

/* ---- reading ---- */

/* "email:someone@example.org": what is kept, and so what is compared, is the hash. */
static bool is_personal_in_plain(struct bytes text)
{
	static const char *const kinds[] = {
#define X(id, name) name ":",
	        IDENTIFIER_KINDS(X)
#undef X
	};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (bytes_starts_with(text, bytes_of(kinds[i])))
			return !identifier_is_hashed(text);
	return false;
}

static bool begins_with_address(struct bytes text)
{
	const char *slash = memchr(text.data, '/', text.len);
	uint8_t     address[16];

	return slash != NULL &&
	       identifier_ip_parse((struct bytes){text.data, (size_t)(slash - text.data)}, address);
}

static const char *network_check(struct limit_entry *e)
{
	static const uint8_t none[8] = {0};
	struct network      *n = &e->network;

	if (address_is_v4(n->address) || n->bits <= V6_KEY_BITS)
		return NULL;
	if (memchr(e->text.data, '/', e->text.len) != NULL)
		return "an IPv6 network must have a prefix of at most 64 bits, because IPv6 keys are counted "
		       "by their /64";
	n->bits = V6_KEY_BITS;
	memcpy(n->address + sizeof(none), none, sizeof(none));
	return NULL;
}

const char *limit_entry_parse(struct limit_entry *e)
{
	if (e->text.len < 1 || e->text.len > LIMIT_KEY_MAX)
		return "a key must have 1 to 256 bytes";
	e->is_network = network_parse(e->text, &e->network);
	if (e->is_network)
		return network_check(e);
	if (begins_with_address(e->text))
		return "not a network: write it like 10.0.0.0/8";
	if (is_personal_in_plain(e->text))
		return "personal values are stored as hashes: write the hash that POST /v1/subjects/lookup "
		       "returns";
	return NULL;
}

/* ---- sorting ---- */

/* Texts by text, then by what goes first; networks by what goes first, longest first, then by address. */
static int compare(const void *a, const void *b)
{
	const struct limit_entry *x = a, *y = b;
	int                       order;

	if (x->is_network != y->is_network)
		return x->is_network ? 1 : -1;
	if (!x->is_network && (order = bytes_compare(x->text, y->text)) != 0)
		return order;
	if (x->list != y->list)
		return x->list > y->list ? -1 : 1;
	if (!x->is_network)
		return 0;
	if (x->network.bits != y->network.bits)
		return x->network.bits > y->network.bits ? -1 : 1;
	return memcmp(x->network.address, y->network.address, sizeof(x->network.address));
}

const struct limit_entry *limit_keys_sort(struct limit_keys *k)
{
	if (k->count > 0)
		qsort(k->list, k->count, sizeof(*k->list), compare);
	k->text_count = 0;
	for (uint32_t i = 0; i < k->count; i++)
		k->text_count += !k->list[i].is_network;
	for (uint32_t i = 1; i < k->count; i++)
		if (compare(&k->list[i - 1], &k->list[i]) == 0)
			return &k->list[i];
	return NULL;
}

/* ---- finding ---- */

/* The first of that text. */
static const struct limit_entry *find_text(const struct limit_keys *k, struct bytes text)
{
	uint32_t low = 0, high = k->text_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (bytes_compare(k->list[middle].text, text) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < k->text_count && bytes_equal(k->list[low].text, text) ? &k->list[low] : NULL;
}

static const struct limit_entry *find_network(const struct limit_keys *k, const uint8_t address[16])
{
	for (uint32_t i = k->text_count; i < k->count; i++)
		if (network_holds(&k->list[i].network, address))
			return &k->list[i];
	return NULL;
}

const struct limit_entry *limit_keys_find(const struct limit_keys *k, const struct limit_key *key)
{
	const struct limit_entry *text, *network;

	if (k->count == 0)
		return NULL;
	text = find_text(k, key->text);
	network = key->is_address ? find_network(k, key->address) : NULL;
	if (text == NULL || network == NULL)
		return text != NULL ? text : network;
	return network->list > text->list ? network : text;
}
