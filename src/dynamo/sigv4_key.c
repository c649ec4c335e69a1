/* SigV4 key: the cache is a table of small sets, each searched in full. It never grows, so that all an
 * authorised client can do by varying regions is to push out its neighbours' keys, which then cost one
 * derivation again.
 *
 * What always holds: an entry holds the secret that its key was made from, and is found with that secret
 * only. */
#include "dynamo/sigv4_key.h"

#include <assert.h>
#include <stdlib.h>

#include "dynamo/sigv4_canonical.h"

struct entry {
	uint64_t        used; /* turn of the last use; 0: empty */
	uint64_t        hash;
	struct hmac_key key;
	uint8_t         key_id_len, scope_len, secret_len;
	char            key_id[SIGV4_KEY_ID_MAX];
	char            scope[SIGV4_SCOPE_MAX];
	char            secret[SIGV4_SECRET_MAX];
};

struct sigv4_key_cache {
	struct hash_key hash;
	uint64_t        turn;
	struct entry    sets[SIGV4_CACHE_SETS][SIGV4_CACHE_WAYS];
};

/* ---- derivation ---- */

static void step(struct hmac_key *key, struct bytes text)
{
	uint8_t mac[SHA256_BYTES];

	hmac_sha256(key, text, mac);
	hmac_key_init(key, (struct bytes){(const char *)mac, sizeof(mac)});
	crypto_wipe(mac, sizeof(mac));
}

void sigv4_key_derive(struct hmac_key *key, struct bytes secret, const struct sigv4_scope *scope)
{
	struct bytes prefix = BYTES("AWS4");
	char         start[4 + SIGV4_SECRET_MAX];

	assert(secret.len <= SIGV4_SECRET_MAX);
	memcpy(start, prefix.data, prefix.len);
	if (secret.len > 0)
		memcpy(start + prefix.len, secret.data, secret.len);
	hmac_key_init(key, (struct bytes){start, prefix.len + secret.len});
	crypto_wipe(start, sizeof(start));
	step(key, scope->date);
	step(key, scope->region);
	step(key, scope->service);
	step(key, scope->terminator);
}

/* ---- the cache ---- */

struct sigv4_key_cache *sigv4_key_cache_open(struct hash_key hash)
{
	struct sigv4_key_cache *c = mem_zalloc(sizeof(*c));

	c->hash = hash;
	return c;
}

void sigv4_key_cache_close(struct sigv4_key_cache *c)
{
	if (c == NULL)
		return;
	crypto_wipe(c, sizeof(*c));
	free(c);
}

static uint64_t hash_of(const struct sigv4_key_cache *c, const struct sigv4_scope *scope)
{
	return hash_bytes(c->hash, scope->key_id) ^
	       hash_bytes((struct hash_key){c->hash.k1, c->hash.k0}, scope->text);
}

static bool entry_is_for(const struct entry *e, uint64_t hash, const struct sigv4_scope *scope)
{
	return e->used > 0 && e->hash == hash &&
	       bytes_equal((struct bytes){e->key_id, e->key_id_len}, scope->key_id) &&
	       bytes_equal((struct bytes){e->scope, e->scope_len}, scope->text);
}

const struct hmac_key *sigv4_key_find(struct sigv4_key_cache *c, const struct sigv4_scope *scope,
                                      struct bytes secret)
{
	uint64_t      hash = hash_of(c, scope);
	struct entry *set = c->sets[hash % SIGV4_CACHE_SETS];

	for (unsigned i = 0; i < SIGV4_CACHE_WAYS; i++) {
		struct entry *e = &set[i];

		if (!entry_is_for(e, hash, scope) ||
		    !crypto_equal((struct bytes){e->secret, e->secret_len}, secret))
			continue;
		e->used = ++c->turn;
		return &e->key;
	}
	return NULL;
}

static struct entry *entry_to_replace(struct entry *set, uint64_t hash, const struct sigv4_scope *scope)
{
	struct entry *oldest = &set[0];

	for (unsigned i = 0; i < SIGV4_CACHE_WAYS; i++) {
		if (entry_is_for(&set[i], hash, scope))
			return &set[i];
		if (set[i].used < oldest->used)
			oldest = &set[i];
	}
	return oldest;
}

void sigv4_key_keep(struct sigv4_key_cache *c, const struct sigv4_scope *scope, struct bytes secret,
                    const struct hmac_key *key)
{
	uint64_t      hash = hash_of(c, scope);
	struct entry *e = entry_to_replace(c->sets[hash % SIGV4_CACHE_SETS], hash, scope);

	assert(scope->key_id.len <= SIGV4_KEY_ID_MAX && scope->text.len <= SIGV4_SCOPE_MAX);
	assert(secret.len <= SIGV4_SECRET_MAX);
	crypto_wipe(e, sizeof(*e));
	e->used = ++c->turn;
	e->hash = hash;
	e->key = *key;
	e->key_id_len = (uint8_t)scope->key_id.len;
	e->scope_len = (uint8_t)scope->text.len;
	e->secret_len = (uint8_t)secret.len;
	memcpy(e->key_id, scope->key_id.data, scope->key_id.len);
	memcpy(e->scope, scope->text.data, scope->text.len);
	if (secret.len > 0)
		memcpy(e->secret, secret.data, secret.len);
}
