/* SigV4: signing keys, and verifying, in the order in which DynamoDB complains:
 *
 *   is there a signature -> can it be read -> is it of now -> does it cover the request -> is it for us
 *     -> whose key is it -> is it right
 *
 * Everything before the last two steps is decided by what the client sent and the clock alone. */
#include "dynamo/sigv4_parts.h"

#include <assert.h>
#include <stdlib.h>

#include "item/messages.h"

/* ---- signing keys ----
 * The cache is a table of small sets, each searched in full. It never grows, so that all an authorised client can do by
 * varying regions is to push out its neighbours' keys, which then cost one derivation again.
 *
 * What always holds: an entry holds the secret that its key was made from, and is found with that secret only. */

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

/* ---- verifying ---- */

/* Headers that mean something here: each may be sent once. */
enum found_header { AUTHORIZATION, AMZ_DATE, DATE, CONTENT_SHA256, TOKEN, HOST, FOUND_COUNT };

static const struct {
	struct bytes lower;
	const char  *name;
} found_headers[FOUND_COUNT] = {
        [AUTHORIZATION] = {BYTES_INIT("authorization"), "Authorization"},
        [AMZ_DATE] = {BYTES_INIT("x-amz-date"), "X-Amz-Date"},
        [DATE] = {BYTES_INIT("date"), "Date"},
        [CONTENT_SHA256] = {BYTES_INIT("x-amz-content-sha256"), "X-Amz-Content-SHA256"},
        [TOKEN] = {BYTES_INIT("x-amz-security-token"), "X-Amz-Security-Token"},
        [HOST] = {BYTES_INIT("host"), "Host"},
};

/* One request on its way through the checks. */
struct check {
	const struct sigv4_request *r;
	struct arena               *arena;
	int64_t                     now_s;
	struct bytes                found[FOUND_COUNT]; /* data is NULL if not sent */
	struct sigv4_authorization  authorization;
	struct sigv4_names          names;
	struct sigv4_scope          scope;
	char                        date[DATE_BASIC_CHARS];
};

/* ---- is there a signature? ---- */

static enum err_code header_note(struct check *c, const struct sigv4_header *header, struct err *err)
{
	for (unsigned i = 0; i < FOUND_COUNT; i++) {
		if (!bytes_equal_lower(found_headers[i].lower, header->name))
			continue;
		if (c->found[i].data != NULL)
			return err_set(err, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_TWICE, found_headers[i].name);
		c->found[i] = header->value.data == NULL ? BYTES("") : bytes_trimmed(header->value);
	}
	return ERR_NONE;
}

static bool query_is_signed(struct bytes query)
{
	struct bytes name = BYTES("X-Amz-Algorithm=");

	for (size_t i = 0; i + name.len <= query.len; i++)
		if ((i == 0 || query.data[i - 1] == '&') && memcmp(query.data + i, name.data, name.len) == 0)
			return true;
	return false;
}

static enum err_code signature_find(struct check *c, struct err *err)
{
	bool in_query = query_is_signed(c->r->query);

	for (unsigned i = 0; i < c->r->header_count; i++)
		if (header_note(c, &c->r->headers[i], err) != ERR_NONE)
			return err->code;
	if (in_query && c->found[AUTHORIZATION].data != NULL)
		return err_set(err, ERR_SIGNATURE, MSG_SIGN_BOTH);
	if (in_query)
		return err_set(err, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_QUERY);
	if (!bytes_starts_with(c->found[AUTHORIZATION], BYTES("AWS4-")))
		return err_set(err, ERR_NO_CREDENTIAL, MSG_SIGN_MISSING);
	return ERR_NONE;
}

/* ---- can it be read? ---- */

static void text_add(struct check *c, struct buf *out, const char *format, const char *name)
{
	buf_add_bytes(out, arena_printf(c->arena, format, name));
}

/* All that is missing is named at once. */
static enum err_code signature_read(struct check *c, struct err *err)
{
	struct sigv4_authorization *auth = &c->authorization;
	struct buf                  missing;

	if (sigv4_authorization_read(c->found[AUTHORIZATION], auth, err) != ERR_NONE)
		return err->code;
	buf_init(&missing, c->arena);
	if (auth->credential.len == 0)
		text_add(c, &missing, MSG_SIGN_NEEDS, "Credential");
	if (auth->signature.len == 0)
		text_add(c, &missing, MSG_SIGN_NEEDS, "Signature");
	if (auth->signed_headers.data == NULL)
		text_add(c, &missing, MSG_SIGN_NEEDS, "SignedHeaders");
	if (c->found[AMZ_DATE].len == 0 && c->found[DATE].len == 0)
		buf_add_bytes(&missing, BYTES(MSG_SIGN_NEEDS_DATE));
	if (missing.len > 0)
		return err_set(err, ERR_SIGNATURE_INCOMPLETE, "%.*s", BYTES_ARG(buf_bytes(&missing)));
	return ERR_NONE;
}

/* ---- is it of now? ---- */

static enum err_code skew_refuse(const struct check *c, const char *format, int64_t bound_s, struct err *err)
{
	char bound[DATE_BASIC_CHARS];
	char now[DATE_BASIC_CHARS];

	date_write_basic(bound_s > 0 ? bound_s : 0, bound);
	date_write_basic(c->now_s > 0 ? c->now_s : 0, now);
	return err_set(err, ERR_SIGNATURE, format, DATE_BASIC_CHARS, c->date, DATE_BASIC_CHARS, bound,
	               DATE_BASIC_CHARS, now);
}

/* X-Amz-Date goes before Date, and is in the signed form; Date may be in either. */
static bool date_read(const struct check *c, int64_t *date_s)
{
	if (c->found[AMZ_DATE].len > 0)
		return date_read_basic(c->found[AMZ_DATE], date_s);
	return date_read_basic(c->found[DATE], date_s) || date_read_http(c->found[DATE], date_s);
}

static enum err_code date_check(struct check *c, struct err *err)
{
	struct bytes sent = c->found[AMZ_DATE].len > 0 ? c->found[AMZ_DATE] : c->found[DATE];
	int64_t      date_s;

	if (!date_read(c, &date_s))
		return err_set(err, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_DATE, BYTES_ARG(sigv4_shown(sent)));
	date_write_basic(date_s, c->date);
	if (date_s < c->now_s - SIGV4_SKEW_S)
		return skew_refuse(c, MSG_SIGN_EXPIRED, c->now_s - SIGV4_SKEW_S, err);
	if (date_s > c->now_s + SIGV4_SKEW_S)
		return skew_refuse(c, MSG_SIGN_EARLY, c->now_s + SIGV4_SKEW_S, err);
	return ERR_NONE;
}

/* ---- is it for us? ---- */

/* All that is wrong is named at once. */
static enum err_code scope_check(struct check *c, struct err *err)
{
	const struct sigv4_scope *s = &c->scope;
	struct bytes              day = {c->date, SIGV4_DAY_CHARS}, region = c->r->region;
	struct buf                wrong;

	buf_init(&wrong, c->arena);
	if (region.len > 0 && !bytes_equal(s->region, region))
		buf_add_bytes(&wrong, arena_printf(c->arena, MSG_SIGN_REGION_IS, BYTES_ARG(region)));
	else if (s->region.len == 0 || !bytes_hold_only(s->region, "-_"))
		buf_add_bytes(&wrong, BYTES(MSG_SIGN_REGION));
	if (!bytes_equal(s->service, c->r->service))
		buf_add_bytes(&wrong, arena_printf(c->arena, MSG_SIGN_SERVICE, BYTES_ARG(c->r->service)));
	if (!bytes_is(s->terminator, SIGV4_TERMINATOR))
		buf_add_bytes(&wrong, BYTES(MSG_SIGN_TERMINATOR));
	if (!bytes_equal(s->date, day))
		buf_add_bytes(&wrong,
		              arena_printf(c->arena, MSG_SIGN_SCOPE_DATE, BYTES_ARG(sigv4_shown(s->date)),
		                           BYTES_ARG(day), DATE_BASIC_CHARS, c->date));
	if (wrong.len > 0)
		return err_set(err, ERR_SIGNATURE, "%.*s", BYTES_ARG(buf_bytes(&wrong)));
	return ERR_NONE;
}

static enum err_code credential_check(struct check *c, struct err *err)
{
	const struct sigv4_authorization *auth = &c->authorization;

	if (!bytes_is(auth->algorithm, SIGV4_ALGORITHM))
		return err_set(err, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_ALGORITHM,
		               BYTES_ARG(sigv4_shown(auth->algorithm)));
	if (sigv4_scope_read(auth->credential, &c->scope, err) != ERR_NONE)
		return err->code;
	return scope_check(c, err);
}

/* ---- is it right? ---- */

static enum err_code string_to_sign(const struct check *c, struct buf *out, struct err *err)
{
	char       body_hex[SHA256_HEX_CHARS];
	struct buf canonical;

	sigv4_body_hex(c->r, body_hex);
	if (c->found[CONTENT_SHA256].data != NULL &&
	    !bytes_equal(c->found[CONTENT_SHA256], (struct bytes){body_hex, sizeof(body_hex)}))
		return err_set(err, ERR_SIGNATURE, MSG_SIGN_PAYLOAD);
	buf_init(&canonical, c->arena);
	if (sigv4_canonical_write(&canonical, c->r, &c->names, body_hex, err) != ERR_NONE)
		return err->code;
	buf_init(out, c->arena);
	sigv4_string_write(out, c->date, c->scope.text, buf_bytes(&canonical));
	return ERR_NONE;
}

static bool signature_equals(const struct check *c, const struct hmac_key *key, struct bytes text)
{
	uint8_t mac[SHA256_BYTES];
	char    hex[SHA256_HEX_CHARS];

	hmac_sha256(key, text, mac);
	hex_write((struct bytes){(const char *)mac, sizeof(mac)}, hex);
	return crypto_equal((struct bytes){hex, sizeof(hex)}, c->authorization.signature);
}

/* With a cached key. If that fails, a derivation is done for nothing, as if there had been none. (2) */
static bool cached_holds(const struct check *c, const struct hmac_key *cached, struct bytes secret,
                         struct bytes text)
{
	struct hmac_key unused;

	if (signature_equals(c, cached, text))
		return true;
	sigv4_key_derive(&unused, secret, &c->scope);
	crypto_wipe(&unused, sizeof(unused));
	return false;
}

static bool derived_holds(const struct check *c, struct sigv4_key_cache *cache, bool known,
                          struct bytes secret, struct bytes text)
{
	struct hmac_key key;
	bool            equal;

	sigv4_key_derive(&key, secret, &c->scope);
	equal = signature_equals(c, &key, text);
	if (known && equal && cache != NULL)
		sigv4_key_keep(cache, &c->scope, secret, &key); /* (3) */
	crypto_wipe(&key, sizeof(key));
	return equal;
}

/* An unknown key is verified against a secret that nobody has, which takes as long. (2) */
static enum err_code signature_check(const struct check *c, const struct sigv4_keyring *keys,
                                     struct bytes text, struct err *err)
{
	struct bytes           secret = keys->find_secret(keys->ctx, c->scope.key_id); /* (1) */
	bool                   known = secret.data != NULL;
	const struct hmac_key *cached;
	bool                   holds;

	if (!known)
		secret = BYTES("no key has this forty-character secret..");
	cached = keys->cache == NULL ? NULL : sigv4_key_find(keys->cache, &c->scope, secret);
	holds = cached != NULL ? cached_holds(c, cached, secret, text)
	                       : derived_holds(c, keys->cache, known, secret, text);
	if (!known)
		return err_set(err, ERR_UNKNOWN_KEY, MSG_SIGN_KEY);
	if (!holds)
		return err_set(err, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
	return ERR_NONE;
}

enum err_code sigv4_verify(const struct sigv4_request *r, const struct sigv4_keyring *keys, struct arena *a,
                           struct sigv4_identity *who, struct err *err)
{
	struct check c;
	struct buf   text;

	c.r = r;
	c.arena = a;
	c.now_s = r->now_us / 1000000;
	memset(c.found, 0, sizeof(c.found));
	if (signature_find(&c, err) != ERR_NONE || signature_read(&c, err) != ERR_NONE ||
	    date_check(&c, err) != ERR_NONE)
		return err->code;
	if (sigv4_names_read(c.authorization.signed_headers, &c.names, err) != ERR_NONE ||
	    sigv4_names_cover(&c.names, r, err) != ERR_NONE)
		return err->code;
	if (credential_check(&c, err) != ERR_NONE || string_to_sign(&c, &text, err) != ERR_NONE ||
	    signature_check(&c, keys, buf_bytes(&text), err) != ERR_NONE)
		return err->code;
	*who = (struct sigv4_identity){c.scope.key_id, c.scope.region, c.found[TOKEN]};
	return ERR_NONE;
}
