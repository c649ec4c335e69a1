/* Issuers: see issuer.h. */
#define _GNU_SOURCE
#include "token/issuer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

static const int64_t second_us = 1000000;

/* The keys of an issuer, and how fetching them goes. Issuers that are replaced by ones with the same source share it with them,
 * so that a fetch under way is of use to both. */
struct source {
	atomic_uint refs;

	/* shared under lock */
	pthread_mutex_t lock;
	struct jwks    *keys; /* NULL: none yet */
	bool            fetching, wanted;
	bool            tried;
	int64_t         tried_us; /* when the last fetch began */
	int64_t         fetched_us;
	uint64_t        fetches, failures;
	bool            failed; /* the last fetch */

	atomic_bool long_lived;
	atomic_llong
	        ahead_until_us; /* steady: its clock counts as ahead of ours until then (8); 0: it never was */
};

struct issuer {
	/* set once */
	struct arena       arena; /* of all texts here */
	struct bytes       name, jwks_url, provider;
	struct token_route route;
	struct jwt_rules   rules;
	bool               fixed; /* its keys were given, and are never fetched */
	struct source     *source;
};

struct issuers {
	atomic_uint        refs;
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
	atomic_init(&all->refs, 1);
	return all;
}

struct issuers *issuers_retain(struct issuers *all)
{
	atomic_fetch_add(&all->refs, 1);
	return all;
}

static struct source *source_open(void)
{
	struct source *s = mem_zalloc(sizeof(*s));

	atomic_init(&s->refs, 1);
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

static void source_drop(struct source *s)
{
	if (atomic_fetch_sub(&s->refs, 1) > 1)
		return;
	jwks_drop(s->keys);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static void issuer_close(struct issuer *i)
{
	source_drop(i->source);
	arena_release(&i->arena);
	free(i);
}

void issuers_drop(struct issuers *all)
{
	if (all == NULL || atomic_fetch_sub(&all->refs, 1) > 1)
		return;
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

/* A name or password before the host: no call would be made with it, and the log would show it. */
static bool has_user(struct bytes url)
{
	size_t at = is_http(url) ? strlen("http://") : strlen("https://");

	while (at < url.len && url.data[at] != '/' && url.data[at] != '?' && url.data[at] != '@')
		at++;
	return at < url.len && url.data[at] == '@';
}

/* (5): https, or http for an issuer that is at an http address itself; visible ASCII and no more. */
static bool url_is_accepted(struct bytes url, struct bytes issuer)
{
	if (url.len > ISSUER_URL_BYTES_MAX)
		return false;
	for (size_t i = 0; i < url.len; i++)
		if (url.data[i] <= ' ' || url.data[i] > '~' || url.data[i] == '#')
			return false;
	if (has_user(url))
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
	if (r->age_max_us <= 0 || r->age_max_us > ISSUER_AGE_S_MAX * second_us)
		return err_set(err, ERR_INVALID, "issuer: the maximum age must be up to 366 days");
	if ((r->cognito_uses & ~(uint32_t)(JWT_USE_ACCESS | JWT_USE_ID)) != 0)
		return err_set(err, ERR_INVALID, "issuer: unknown token use");
	return ERR_NONE;
}

/* It is shown in the log and in the metrics. */
static bool is_plain(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] <= ' ' || text.data[i] > '~' || text.data[i] == '"' || text.data[i] == '\\')
			return false;
	return true;
}

static enum err_code options_check(const struct issuers *all, const struct issuer_options *o, struct err *err)
{
	if (all->count == ISSUERS_MAX)
		return err_set(err, ERR_INVALID, "issuer: more than %d", ISSUERS_MAX);
	if (o->issuer.len == 0 || o->issuer.len > TOKEN_TEXT_BYTES_MAX)
		return err_set(err, ERR_INVALID, "issuer: 1 to %d bytes", TOKEN_TEXT_BYTES_MAX);
	if (!is_plain(o->issuer))
		return err_set(err, ERR_INVALID,
		               "issuer: visible ASCII characters only, without quotes and backslashes");
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
	rc = jwks_read(reader, &scratch, jwks, &i->source->keys, err);
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
	i->provider = arena_copy(&i->arena, o->provider);
	i->route = o->route;
	if (o->route.ca_file != NULL)
		i->route.ca_file = arena_printf(&i->arena, "%s", o->route.ca_file).data;
	i->rules = o->rules;
	audiences = arena_array(&i->arena, o->rules.audience_count, sizeof(*audiences));
	for (uint32_t n = 0; n < o->rules.audience_count; n++)
		audiences[n] = arena_copy(&i->arena, o->rules.audiences[n]);
	i->rules.audiences = audiences;
	i->source = source_open();
	if (keys_take(i, o->jwks, err) != ERR_NONE) {
		issuer_close(i);
		return err->code;
	}
	all->list[all->count++] = i;
	return ERR_NONE;
}

static enum err_code pool_check(struct bytes pool, struct bytes *region, struct err *err)
{
	const char *mark = pool.len == 0 ? NULL : memchr(pool.data, '_', pool.len);

	*region = (struct bytes){pool.data, mark == NULL ? 0 : (size_t)(mark - pool.data)};
	if (region->len == 0 || pool.len > 128 || pool.len == region->len + 1 ||
	    !bytes_hold_only(*region, "-") ||
	    !bytes_hold_only((struct bytes){mark + 1, pool.len - region->len - 1}, ""))
		return err_set(err, ERR_INVALID,
		               "Cognito: not the id of a user pool, such as eu-west-1_AbCdEf123");
	return ERR_NONE;
}

/* The pool under one of its names: where it is, without a slash at the end. */
static enum err_code pool_add(struct issuers *all, const struct cognito_options *c, struct bytes place,
                              struct err *err)
{
	struct issuer_options o = {.rules = c->rules, .route = c->route, .provider = c->provider};
	struct arena          scratch;
	enum err_code         rc;

	arena_init(&scratch);
	o.issuer = arena_printf(&scratch, "%.*s/%.*s", BYTES_ARG(place), BYTES_ARG(c->pool));
	o.jwks_url = arena_printf(&scratch, "%s/.well-known/jwks.json", o.issuer.data);
	rc = issuers_add(all, &o, err);
	arena_release(&scratch);
	return rc;
}

enum err_code issuers_add_cognito(struct issuers *all, const struct cognito_options *o, struct err *err)
{
	static const char *const hosts[] = {"cognito-idp", "issuer-cognito-idp"};
	struct bytes             region, end = o->endpoint;
	enum err_code            rc = pool_check(o->pool, &region, err);

	if (rc != ERR_NONE)
		return rc;
	if (o->rules.cognito_uses == 0)
		return err_set(err, ERR_INVALID, "Cognito: accept access tokens, id tokens or both");
	if (end.len > 0) {
		end.len -= end.data[end.len - 1] == '/';
		return pool_add(all, o, end, err);
	}
	for (unsigned n = 0; n < 2 && rc == ERR_NONE; n++) {
		char place[256];

		snprintf(place, sizeof(place), "https://%s.%.*s.amazonaws.com", hosts[n], BYTES_ARG(region));
		rc = pool_add(all, o, bytes_of(place), err);
	}
	return rc;
}

/* ---- taking the place of others ---- */

static bool same_route(const struct token_route *a, const struct token_route *b)
{
	const char *one = a->ca_file == NULL ? "" : a->ca_file, *other = b->ca_file == NULL ? "" : b->ca_file;

	return a->allow_private == b->allow_private && strcmp(one, other) == 0;
}

/* Counters go on in any case: those of metrics must not fall. */
static void issuer_inherit(struct issuer *next, struct issuer *now)
{
	bool same = !next->fixed && !now->fixed && bytes_equal(next->jwks_url, now->jwks_url) &&
	            same_route(&next->route, &now->route);

	if (same) {
		source_drop(next->source);
		next->source = now->source;
		atomic_fetch_add(&next->source->refs, 1);
		return;
	}
	atomic_store(&next->source->ahead_until_us, atomic_load(&now->source->ahead_until_us));
	pthread_mutex_lock(&now->source->lock);
	next->source->fetches = now->source->fetches;
	next->source->failures = now->source->failures;
	pthread_mutex_unlock(&now->source->lock);
}

void issuers_inherit(struct issuers *next, struct issuers *now)
{
	for (uint32_t n = 0; n < next->count; n++) {
		struct issuer *before = issuer_find(now, next->list[n]->name);

		if (before != NULL)
			issuer_inherit(next->list[n], before);
	}
}

int64_t issuers_age_max_s(const struct issuers *all)
{
	int64_t most_us = 0;

	for (uint32_t n = 0; n < all->count; n++) {
		const struct jwt_rules *r = &all->list[n]->rules;

		if (r->age_max_us + r->leeway_us > most_us)
			most_us = r->age_max_us + r->leeway_us;
	}
	return most_us / second_us;
}

/* ---- verifying ---- */

/* The keys in use, with a reference of the caller's own; NULL: none yet. */
static struct jwks *keys_of(struct source *s)
{
	struct jwks *keys;

	pthread_mutex_lock(&s->lock);
	keys = s->keys == NULL ? NULL : jwks_retain(s->keys);
	pthread_mutex_unlock(&s->lock);
	return keys;
}

/* The key, or another one with the same kid. What is wrong is what is wrong with the first whose algorithm fits. */
static enum token_outcome keys_verify(const struct jwks *keys, const struct jwk *key, const struct jwt *t)
{
	enum token_outcome outcome = TOKEN_KEY_ALGORITHM;

	for (int tried = 0; key != NULL && tried < JWKS_SAME_KID_MAX && outcome != TOKEN_VALID; tried++) {
		enum token_outcome one = jwk_verify(key, t->algorithm, t->signed_text, t->signature);

		if (outcome == TOKEN_KEY_ALGORITHM || one == TOKEN_VALID)
			outcome = one;
		key = jwks_next(keys, key);
	}
	return outcome;
}

static enum token_outcome signature_check(struct issuer *i, const struct jwt *t)
{
	struct jwks       *keys = keys_of(i->source);
	const struct jwk  *key;
	enum token_outcome outcome;

	if (keys == NULL)
		return TOKEN_NO_KEYS;
	key = jwks_find(keys, t->kid);
	outcome = key == NULL ? TOKEN_KEY : keys_verify(keys, key, t);
	jwks_drop(keys);
	return outcome;
}

/* A revocation is kept until the token would have expired, and a token that nobody revoked is good until then. */
static void warn_of_long_life(struct issuer *i, const struct jwt *t)
{
	if (t->expires_us - t->issued_us <= ISSUER_LONG_S * second_us ||
	    atomic_load_explicit(&i->source->long_lived, memory_order_relaxed) ||
	    atomic_exchange(&i->source->long_lived, true))
		return;
	log_warn("the issuer %.*s issues tokens that live longer than %d minutes: have it issue shorter ones",
	         BYTES_ARG(i->name), ISSUER_LONG_S / 60);
}

static bool is_ahead(const struct issuers *all, const struct source *s)
{
	return atomic_load_explicit(&s->ahead_until_us, memory_order_relaxed) > clock_steady_us(all->clock);
}

/* (8) */
static void note_ahead(const struct issuers *all, const struct issuer *i, int64_t ahead_us)
{
	int64_t until_us = clock_steady_us(all->clock) + ISSUER_AHEAD_KEPT_S * second_us;

	if (!is_ahead(all, i->source))
		log_warn(
		        "the clock of the issuer %.*s is ahead of this server's by %lld s or more: set one "
		        "of "
		        "them right, or people who are signed out may have to wait up to its leeway (%lld s) "
		        "before they can sign in again",
		        BYTES_ARG(i->name), (long long)(ahead_us / second_us),
		        (long long)(i->rules.leeway_us / second_us));
	atomic_store_explicit(&i->source->ahead_until_us, until_us, memory_order_relaxed);
}

/* (8) */
static int64_t ahead_s(const struct issuers *all, struct issuer *i, const struct jwt *t, int64_t now_us)
{
	int64_t ahead_us = t->issued_us - now_us, leeway_s = i->rules.leeway_us / second_us;

	if (ahead_us >= ISSUER_AHEAD_S * second_us)
		note_ahead(all, i, ahead_us);
	if (ahead_us > 0 || is_ahead(all, i->source))
		return leeway_s;
	return leeway_s < ISSUER_AHEAD_S ? leeway_s : ISSUER_AHEAD_S;
}

static bool may_begin(const struct source *s, int64_t now_us)
{
	return !s->fetching && (!s->tried || now_us - s->tried_us >= ISSUER_AGAIN_S * second_us); /* (2) */
}

/* Is the set younger than the token? Then the key is not in it because there is none. A token that may be younger could have a
 * newer key: others, who ask for keys that never were, must not decide when a rotation is seen. */
static bool is_settled(const struct issuer *i, const struct jwt *t, int64_t set_age_us, int64_t now_us)
{
	return now_us - jwt_issued_unproved_us(t) > set_age_us + i->rules.leeway_us;
}

/* A token needs a key that is not there: might another set have it, and when? 0: no. */
static int64_t want(const struct issuers *all, struct issuer *i, const struct jwt *t, int64_t wall_us)
{
	struct source *s = i->source;
	int64_t        now_us = clock_steady_us(all->clock), wait_s = 1;

	if (i->fixed)
		return 0;
	pthread_mutex_lock(&s->lock);
	if (s->keys != NULL && !s->failed && !s->fetching &&
	    now_us - s->fetched_us < ISSUER_AGAIN_S * second_us &&
	    is_settled(i, t, now_us - s->fetched_us, wall_us))
		wait_s = 0;
	else if (!s->fetching && !may_begin(s, now_us))
		wait_s = ISSUER_AGAIN_S - (now_us - s->tried_us) / second_us;
	s->wanted = s->wanted || (wait_s > 0 && !s->fetching);
	pthread_mutex_unlock(&s->lock);
	return wait_s;
}

/* Signature and claims, once header and issuer are known to be good. */
static enum token_outcome judge(struct issuer *i, struct jwt *t, int64_t now_us)
{
	enum token_outcome outcome = signature_check(i, t);

	if (outcome == TOKEN_VALID)
		outcome = jwt_check_claims(t, &i->rules, now_us);
	if (outcome == TOKEN_VALID)
		warn_of_long_life(i, t);
	return outcome;
}

enum token_outcome issuers_verify(struct issuers *all, const struct token_call *c, struct bytes text,
                                  struct jwt *out, int64_t *retry_s)
{
	struct issuer     *i;
	enum token_outcome outcome = jwt_parse(c->reader, c->arena, text, out);

	*retry_s = 0;
	if (outcome != TOKEN_VALID)
		return outcome;
	i = issuer_find(all, out->issuer);
	outcome = i == NULL ? TOKEN_ISSUER : jwt_check_header(out, &i->rules);
	if (outcome == TOKEN_VALID)
		outcome = judge(i, out, c->now_us);
	if (outcome == TOKEN_VALID) {
		out->ahead_s = ahead_s(all, i, out, c->now_us);
		out->provider = arena_copy(c->arena, i->provider);
	}
	/* Without a kid, another set would not help to find the key. */
	if (outcome == TOKEN_NO_KEYS || (outcome == TOKEN_KEY && out->kid.len > 0))
		*retry_s = want(all, i, out, c->now_us);
	return outcome;
}

/* ---- fetching ---- */

/* (8) An answer of the issuer tells its clock, also if no token of it was seen yet. One from a cache is dated back, and says nothing. */
static enum err_code document_get(const struct issuers *all, const struct issuer *i, struct bytes url,
                                  struct arena *a, struct bytes *text, struct err *err)
{
	struct token_fetched fetched = {0};
	int64_t              ahead_us;

	if (all->fetch.get(all->fetch.ctx, &i->route, url, a, &fetched, err) != ERR_NONE)
		return err->code;
	ahead_us = fetched.date_s * second_us - clock_wall_us(all->clock);
	if (fetched.date_s > 0 && ahead_us >= ISSUER_AHEAD_S * second_us)
		note_ahead(all, i, ahead_us);
	*text = fetched.body;
	return ERR_NONE;
}

/* Where the keys are, by what the issuer itself says. */
static enum err_code discover(const struct issuers *all, const struct issuer *i, const struct token_call *c,
                              struct bytes *url, struct err *err)
{
	bool               slash = i->name.data[i->name.len - 1] == '/';
	struct bytes       where = arena_printf(c->arena, "%.*s/.well-known/openid-configuration",
	                                        (int)(i->name.len - slash), i->name.data);
	struct bytes       text = {NULL, 0};
	struct json       *tree;
	const struct json *issuer, *keys;

	if (document_get(all, i, where, c->arena, &text, err) != ERR_NONE)
		return err->code;
	if (text.len > ISSUER_DISCOVERY_BYTES_MAX)
		return err_set(err, ERR_INVALID, "discovery: more than %d bytes", ISSUER_DISCOVERY_BYTES_MAX);
	if (json_read(c->reader, c->arena, text, &tree, err) != ERR_NONE)
		return err_set(err, ERR_INVALID, "discovery: not JSON");
	if (jwt_check_members(tree) != TOKEN_VALID)
		return err_set(err, ERR_INVALID, "discovery: a member twice, or too many");
	issuer = json_get(tree, BYTES("issuer"));
	if (issuer == NULL || issuer->type != JSON_STRING || !bytes_equal(json_text(issuer), i->name))
		return err_set(err, ERR_INVALID, "discovery: the document is of another issuer"); /* (5) */
	keys = json_get(tree, BYTES("jwks_uri"));
	if (keys == NULL || keys->type != JSON_STRING || !url_is_accepted(json_text(keys), i->name))
		return err_set(err, ERR_INVALID, "discovery: jwks_uri is missing or no https address");
	*url = json_text(keys);
	return ERR_NONE;
}

static enum err_code keys_fetch(const struct issuers *all, const struct issuer *i, struct json_reader *reader,
                                struct jwks **out, struct err *err)
{
	struct arena      a;
	struct token_call c = {reader, &a, 0};
	struct bytes      url = i->jwks_url, text = {NULL, 0};
	enum err_code     rc = ERR_NONE;

	arena_init(&a);
	if (url.len == 0)
		rc = discover(all, i, &c, &url, err);
	if (rc == ERR_NONE)
		rc = document_get(all, i, url, &a, &text, err);
	if (rc == ERR_NONE)
		rc = jwks_read(reader, &a, text, out, err);
	arena_release(&a);
	return rc;
}

/* Says how a fetch ended. The set that is replaced stays with those who use it. */
static void fetched(struct issuers *all, struct source *s, struct jwks *keys)
{
	struct jwks *old = keys;

	pthread_mutex_lock(&s->lock);
	if (keys != NULL) {
		old = s->keys;
		s->keys = keys;
		s->fetched_us = clock_steady_us(all->clock);
	} else {
		s->failures++; /* (3) */
	}
	s->failed = keys == NULL;
	s->fetching = false;
	pthread_mutex_unlock(&s->lock);
	jwks_drop(old);
}

/* True: fetch, and call `fetched`. */
static bool fetch_begin(struct issuers *all, struct source *s)
{
	int64_t now_us = clock_steady_us(all->clock);
	bool    due;

	pthread_mutex_lock(&s->lock);
	due = s->keys == NULL || s->wanted || now_us - s->fetched_us >= ISSUER_REFRESH_S * second_us;
	due = due && may_begin(s, now_us);
	if (due) {
		s->fetching = s->tried = true;
		s->wanted = false;
		s->tried_us = now_us;
		s->fetches++;
	}
	pthread_mutex_unlock(&s->lock);
	return due;
}

/* Newer keys, if they are due. False: the fetch failed, which is logged. */
static bool refresh(struct issuers *all, struct issuer *i, struct json_reader *reader)
{
	struct jwks  *keys = NULL;
	struct err    err;
	enum err_code rc;

	if (i->fixed || !fetch_begin(all, i->source))
		return true;
	rc = keys_fetch(all, i, reader, &keys, &err);
	if (rc != ERR_NONE)
		log_warn("the keys of the token issuer %.*s were not fetched: %s", BYTES_ARG(i->name),
		         err.text);
	fetched(all, i->source, rc == ERR_NONE ? keys : NULL);
	return rc == ERR_NONE;
}

uint32_t issuers_round(struct issuers *all, struct json_reader *reader, struct worker *w)
{
	uint32_t failed = 0;

	for (uint32_t n = 0; n < all->count && (w == NULL || worker_goes_on(w)); n++)
		if (!refresh(all, all->list[n], reader))
			failed++;
	return failed;
}

bool issuers_read(struct issuers *all, uint32_t index, struct issuer_numbers *out)
{
	struct issuer *i;
	struct source *s;

	if (index >= all->count)
		return false;
	i = all->list[index];
	s = i->source;
	pthread_mutex_lock(&s->lock);
	*out = (struct issuer_numbers){.issuer = i->name,
	                               .fetches = s->fetches,
	                               .failures = s->failures,
	                               .fixed = i->fixed,
	                               .long_lived = atomic_load(&s->long_lived),
	                               .ahead = is_ahead(all, s),
	                               .keys = s->keys == NULL ? 0 : jwks_count(s->keys),
	                               .fetched_us = s->fetched_us};
	pthread_mutex_unlock(&s->lock);
	return true;
}
