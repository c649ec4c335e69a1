/* Issuers: see issuer.h. */
#define _GNU_SOURCE
#include "token/issuer.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"

static const int64_t second_us = 1000000;

struct issuer {
	/* set once */
	struct arena     arena; /* of all texts here */
	struct bytes     name, jwks_url;
	struct jwt_rules rules;
	bool             fixed; /* its keys were given, and are never fetched */

	/* shared under lock */
	pthread_mutex_t lock;
	pthread_cond_t  done;
	struct jwks    *keys; /* NULL: none yet */
	bool            fetching;
	uint32_t        waiting;
	bool            tried;
	int64_t         tried_us; /* when the last fetch began */
	int64_t         fetched_us;
	uint64_t        fetches, failures;
};

struct issuers {
	struct token_fetch fetch;
	struct clock      *clock;
	uint32_t           count;
	struct issuer     *list[ISSUERS_MAX];
};

/* ---- setting up ---- */

struct jwt_rules jwt_rules_default(void)
{
	return (struct jwt_rules){.algorithms = 1u << JWS_RS256,
	                          .leeway_us = ISSUER_LEEWAY_S * second_us,
	                          .age_max_us = ISSUER_AGE_S * second_us};
}

struct issuers *issuers_open(struct token_fetch fetch, struct clock *clock)
{
	struct issuers *all = mem_zalloc(sizeof(*all));

	all->fetch = fetch;
	all->clock = clock;
	return all;
}

static void issuer_close(struct issuer *i)
{
	jwks_drop(i->keys);
	pthread_cond_destroy(&i->done);
	pthread_mutex_destroy(&i->lock);
	arena_release(&i->arena);
	free(i);
}

void issuers_close(struct issuers *all)
{
	for (uint32_t i = 0; i < all->count; i++)
		issuer_close(all->list[i]);
	free(all);
}

static struct issuer *issuer_find(const struct issuers *all, struct bytes name)
{
	for (uint32_t i = 0; i < all->count; i++)
		if (bytes_equal(all->list[i]->name, name))
			return all->list[i];
	return NULL;
}

static bool is_http(struct bytes url)
{
	return bytes_starts_with(url, BYTES("http://"));
}

/* (5): https, or http for an issuer that is at an http address itself; visible ASCII and no more. */
static bool url_is_accepted(struct bytes url, struct bytes issuer)
{
	if (url.len > ISSUER_URL_BYTES_MAX)
		return false;
	for (size_t i = 0; i < url.len; i++)
		if (url.data[i] <= ' ' || url.data[i] > '~' || url.data[i] == '#')
			return false;
	if (is_http(url))
		return is_http(issuer) && url.len > strlen("http://");
	return bytes_starts_with(url, BYTES("https://")) && url.len > strlen("https://");
}

static enum err_code rules_check(const struct jwt_rules *r, struct err *err)
{
	if (r->algorithms == 0 || r->algorithms >> JWS_ALGORITHM_COUNT != 0)
		return err_set(err, ERR_INVALID, "issuer: no algorithm, or one that does not exist");
	if (r->audience_any ? r->audience_count > 0
	                    : r->audience_count == 0 || r->audience_count > ISSUER_AUDIENCES_MAX)
		return err_set(err, ERR_INVALID, "issuer: name 1 to %d audiences, or say that any will do",
		               ISSUER_AUDIENCES_MAX);
	if (r->leeway_us < 0 || r->leeway_us > ISSUER_LEEWAY_S_MAX * second_us)
		return err_set(err, ERR_INVALID, "issuer: leeway must be 0 to %d seconds",
		               ISSUER_LEEWAY_S_MAX);
	if (r->age_max_us <= 0 || r->age_max_us > 366 * ISSUER_AGE_S * second_us)
		return err_set(err, ERR_INVALID, "issuer: the maximum age must be up to 366 days");
	if ((r->cognito_uses & ~(uint32_t)(JWT_USE_ACCESS | JWT_USE_ID)) != 0)
		return err_set(err, ERR_INVALID, "issuer: unknown token use");
	return ERR_NONE;
}

static enum err_code options_check(const struct issuers *all, const struct issuer_options *o, struct err *err)
{
	if (all->count == ISSUERS_MAX)
		return err_set(err, ERR_INVALID, "issuer: more than %d", ISSUERS_MAX);
	if (o->issuer.len == 0 || o->issuer.len > TOKEN_TEXT_BYTES_MAX)
		return err_set(err, ERR_INVALID, "issuer: 1 to %d bytes", TOKEN_TEXT_BYTES_MAX);
	if (issuer_find(all, o->issuer) != NULL)
		return err_set(err, ERR_INVALID, "issuer: set up twice");
	if (o->jwks.len == 0 && !url_is_accepted(o->issuer, o->issuer))
		return err_set(err, ERR_INVALID, "issuer: not an https address, so its keys must be given");
	if (o->jwks_url.len > 0 && !url_is_accepted(o->jwks_url, o->issuer))
		return err_set(err, ERR_INVALID, "issuer: the address of its keys is not an https address");
	return rules_check(&o->rules, err);
}

/* The keys that were given, if any. */
static enum err_code keys_take(struct issuer *i, struct bytes jwks, struct err *err)
{
	struct json_reader *reader;
	struct arena        scratch;
	enum err_code       rc;

	if (jwks.len == 0)
		return ERR_NONE;
	reader = json_reader_open();
	arena_init(&scratch);
	rc = jwks_read(reader, &scratch, jwks, &i->keys, err);
	arena_release(&scratch);
	json_reader_close(reader);
	i->fixed = true;
	return rc;
}

enum err_code issuers_add(struct issuers *all, const struct issuer_options *o, struct err *err)
{
	struct issuer *i;
	struct bytes  *audiences;

	if (options_check(all, o, err) != ERR_NONE)
		return err->code;
	i = mem_zalloc(sizeof(*i));
	arena_init(&i->arena);
	i->name = arena_copy(&i->arena, o->issuer);
	i->jwks_url = arena_copy(&i->arena, o->jwks_url);
	i->rules = o->rules;
	audiences = arena_array(&i->arena, o->rules.audience_count, sizeof(*audiences));
	for (uint32_t n = 0; n < o->rules.audience_count; n++)
		audiences[n] = arena_copy(&i->arena, o->rules.audiences[n]);
	i->rules.audiences = audiences;
	pthread_mutex_init(&i->lock, NULL);
	pthread_cond_init(&i->done, NULL);
	if (keys_take(i, o->jwks, err) != ERR_NONE) {
		issuer_close(i);
		return err->code;
	}
	all->list[all->count++] = i;
	return ERR_NONE;
}

enum err_code issuers_add_cognito(struct issuers *all, struct bytes pool, const struct jwt_rules *rules,
                                  struct err *err)
{
	static const char *const hosts[] = {"cognito-idp", "issuer-cognito-idp"};
	const char              *mark = pool.len == 0 ? NULL : memchr(pool.data, '_', pool.len);
	struct bytes             region = {pool.data, mark == NULL ? 0 : (size_t)(mark - pool.data)};
	enum err_code            rc = ERR_NONE;

	if (region.len == 0 || pool.len > 128 || pool.len == region.len + 1 ||
	    !bytes_hold_only(region, "-") ||
	    !bytes_hold_only((struct bytes){mark + 1, pool.len - region.len - 1}, ""))
		return err_set(err, ERR_INVALID,
		               "Cognito: not the id of a user pool, such as eu-west-1_AbCdEf123");
	if (rules->cognito_uses == 0)
		return err_set(err, ERR_INVALID, "Cognito: accept access tokens, id tokens or both");
	for (unsigned n = 0; n < 2 && rc == ERR_NONE; n++) {
		struct arena          scratch;
		struct issuer_options o = {.rules = *rules};

		arena_init(&scratch);
		o.issuer = arena_printf(&scratch, "https://%s.%.*s.amazonaws.com/%.*s", hosts[n],
		                        BYTES_ARG(region), BYTES_ARG(pool));
		o.jwks_url = arena_printf(&scratch, "%s/.well-known/jwks.json", o.issuer.data);
		rc = issuers_add(all, &o, err);
		arena_release(&scratch);
	}
	return rc;
}

/* ---- verifying ---- */

/* The keys in use, with a reference of the caller's own; NULL: none yet. */
static struct jwks *keys_of(struct issuer *i)
{
	struct jwks *keys;

	pthread_mutex_lock(&i->lock);
	keys = i->keys == NULL ? NULL : jwks_retain(i->keys);
	pthread_mutex_unlock(&i->lock);
	return keys;
}

static enum token_outcome signature_check(struct issuer *i, const struct jwt *t)
{
	struct jwks       *keys = keys_of(i);
	const struct jwk  *key;
	enum token_outcome outcome;

	if (keys == NULL)
		return TOKEN_NO_KEYS;
	key = jwks_find(keys, t->kid);
	outcome = key == NULL ? TOKEN_KEY : jwk_verify(key, t->algorithm, t->signed_text, t->signature);
	jwks_drop(keys);
	return outcome;
}

/* Signature and claims, once header and issuer are known to be good. */
static enum token_outcome judge(struct issuers *all, struct issuer *i, struct jwt *t)
{
	enum token_outcome outcome = signature_check(i, t);

	if (outcome != TOKEN_VALID)
		return outcome;
	return jwt_check_claims(t, &i->rules, clock_wall_us(all->clock));
}

/* Whose token is it, and may one with this header be looked at? Then *i is set. */
static enum token_outcome begin(struct issuers *all, const struct token_call *c, struct bytes text,
                                struct jwt *t, struct issuer **i)
{
	enum token_outcome outcome = jwt_parse(c->reader, c->arena, text, t);

	if (outcome != TOKEN_VALID)
		return outcome;
	*i = issuer_find(all, t->issuer);
	return *i == NULL ? TOKEN_ISSUER : jwt_check_header(t, &(*i)->rules);
}

enum token_outcome issuers_verify(struct issuers *all, const struct token_call *c, struct bytes text,
                                  struct jwt *out)
{
	struct issuer     *i;
	enum token_outcome outcome = begin(all, c, text, out, &i);

	return outcome == TOKEN_VALID ? judge(all, i, out) : outcome;
}

/* ---- fetching ---- */

/* Where the keys are, by what the issuer itself says. */
static enum err_code discover(const struct issuers *all, const struct issuer *i, const struct token_call *c,
                              struct bytes *url, struct err *err)
{
	bool               slash = i->name.data[i->name.len - 1] == '/';
	struct bytes       where = arena_printf(c->arena, "%.*s/.well-known/openid-configuration",
	                                        (int)(i->name.len - slash), i->name.data);
	struct bytes       text;
	struct json       *tree;
	const struct json *issuer, *keys;

	if (all->fetch.get(all->fetch.ctx, where, c->arena, &text, err) != ERR_NONE)
		return err->code;
	if (text.len > ISSUER_DISCOVERY_BYTES_MAX)
		return err_set(err, ERR_INVALID, "discovery: more than %d bytes", ISSUER_DISCOVERY_BYTES_MAX);
	if (json_read(c->reader, c->arena, text, &tree, err) != ERR_NONE)
		return err_set(err, ERR_INVALID, "discovery: not JSON");
	if (jwt_check_members(tree) != TOKEN_VALID)
		return err_set(err, ERR_INVALID, "discovery: a member twice, or too many");
	issuer = json_get(tree, BYTES("issuer"));
	if (issuer == NULL || issuer->type != JSON_STRING || !bytes_equal(issuer->text, i->name))
		return err_set(err, ERR_INVALID, "discovery: the document is of another issuer"); /* (5) */
	keys = json_get(tree, BYTES("jwks_uri"));
	if (keys == NULL || keys->type != JSON_STRING || !url_is_accepted(keys->text, i->name))
		return err_set(err, ERR_INVALID, "discovery: jwks_uri is missing or no https address");
	*url = keys->text;
	return ERR_NONE;
}

static enum err_code keys_fetch(const struct issuers *all, const struct issuer *i, struct json_reader *reader,
                                struct jwks **out, struct err *err)
{
	struct arena      a;
	struct token_call c = {reader, &a};
	struct bytes      url = i->jwks_url, text;
	enum err_code     rc = ERR_NONE;

	arena_init(&a);
	if (url.len == 0)
		rc = discover(all, i, &c, &url, err);
	if (rc == ERR_NONE)
		rc = all->fetch.get(all->fetch.ctx, url, &a, &text, err);
	if (rc == ERR_NONE)
		rc = jwks_read(reader, &a, text, out, err);
	arena_release(&a);
	return rc;
}

/* Says how a fetch ended. The set that is replaced stays with those who use it. */
static void fetched(struct issuers *all, struct issuer *i, struct jwks *keys)
{
	struct jwks *old = keys;

	pthread_mutex_lock(&i->lock);
	if (keys != NULL) {
		old = i->keys;
		i->keys = keys;
		i->fetched_us = clock_steady_us(all->clock);
	} else {
		i->failures++; /* (3) */
	}
	i->fetching = false;
	pthread_cond_broadcast(&i->done);
	pthread_mutex_unlock(&i->lock);
	jwks_drop(old);
}

/* Begins a fetch if (2) allows it and nobody else does; else waits for whoever does, if `waits`. True: fetch, and call
 * `fetched`. */
static bool fetch_begin(struct issuers *all, struct issuer *i, bool waits)
{
	int64_t now_us = clock_steady_us(all->clock);
	bool    ours;

	pthread_mutex_lock(&i->lock);
	ours = !i->fixed && !i->fetching && (!i->tried || now_us - i->tried_us >= ISSUER_AGAIN_S * second_us);
	if (ours) {
		i->fetching = i->tried = true;
		i->tried_us = now_us;
		i->fetches++;
	} else if (waits && i->fetching && i->waiting < ISSUER_WAITS_MAX) { /* (6) */
		uint64_t fetch = i->fetches;

		i->waiting++;
		while (i->fetching && i->fetches == fetch)
			pthread_cond_wait(&i->done, &i->lock);
		i->waiting--;
	}
	pthread_mutex_unlock(&i->lock);
	return ours;
}

/* Tries to have newer keys. False: the fetch failed, which is logged. */
static bool refresh(struct issuers *all, struct issuer *i, struct json_reader *reader, bool waits)
{
	struct jwks  *keys = NULL;
	struct err    err;
	enum err_code rc;

	if (!fetch_begin(all, i, waits))
		return true;
	rc = keys_fetch(all, i, reader, &keys, &err);
	if (rc != ERR_NONE)
		log_warn("the keys of the token issuer %.*s were not fetched: %s", BYTES_ARG(i->name),
		         err.text);
	fetched(all, i, rc == ERR_NONE ? keys : NULL);
	return rc == ERR_NONE;
}

enum token_outcome issuers_verify_fetching(struct issuers *all, const struct token_call *c, struct bytes text,
                                           struct jwt *out)
{
	struct issuer     *i;
	enum token_outcome outcome = begin(all, c, text, out, &i);

	if (outcome != TOKEN_VALID)
		return outcome;
	outcome = judge(all, i, out);
	/* Without a kid, another set would not help to find the key. */
	if (outcome == TOKEN_NO_KEYS || (outcome == TOKEN_KEY && out->kid.len > 0)) {
		refresh(all, i, c->reader, true);
		outcome = judge(all, i, out);
	}
	return outcome;
}

uint32_t issuers_round(struct issuers *all, struct json_reader *reader)
{
	uint32_t failed = 0;

	for (uint32_t n = 0; n < all->count; n++) {
		struct issuer *i = all->list[n];
		bool           due;

		pthread_mutex_lock(&i->lock);
		due = !i->fixed && (i->keys == NULL || clock_steady_us(all->clock) - i->fetched_us >=
		                                               ISSUER_REFRESH_S * second_us);
		pthread_mutex_unlock(&i->lock);
		if (due && !refresh(all, i, reader, false))
			failed++;
	}
	return failed;
}

bool issuers_read(struct issuers *all, uint32_t index, struct issuer_numbers *out)
{
	struct issuer *i;

	if (index >= all->count)
		return false;
	i = all->list[index];
	pthread_mutex_lock(&i->lock);
	*out = (struct issuer_numbers){.issuer = i->name,
	                               .fetches = i->fetches,
	                               .failures = i->failures,
	                               .keys = i->keys == NULL ? 0 : jwks_count(i->keys),
	                               .fetched_us = i->fetched_us};
	pthread_mutex_unlock(&i->lock);
	return true;
}
