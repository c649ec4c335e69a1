/* The section `issuers` of the identity file: whose tokens are accepted, by which rules, with keys from where. Each is an entry
 * with `issuer`, or one with `cognito`, which knows what a pool's tokens look like.
 *
 *   issuers:
 *     - issuer: https://login.example.com        # as `iss` has it
 *       discovery: true                          # or jwks_url: …, or jwks_file: …; discovery unless set
 *       audiences: [orders-api]                  # or: any
 *       algorithms: [RS256, ES256]               # RS256 unless set
 *       leeway: 60                               # seconds, for exp, nbf and iat
 *       max_age: 86400                           # seconds since iat
 *       provider: customers                      # whose users it speaks for; or: any
 *       ca_file: private-ca.pem                  # the system's unless set
 *       allow_private: true                      # its address may be on this machine or in this network
 *     - cognito:
 *         pool: eu-west-1_AbCdEf123
 *         clients: [4h5j6k]                      # or: any
 *         uses: [access, id]                     # access unless set
 *         endpoint: http://localhost:9229        # an emulator's */
#include "server/identity.h"
#include "service/sync.h"
#include "token/fetch.h"

#define SECOND_US INT64_C(1000000)

enum { CA_BYTES_MAX = 4 * 1024 * 1024 };

/* The section while it is read. */
struct section {
	const struct identity_reading *r;
	const struct fields           *file;
	struct issuers                *all;
	bool                           alone; /* it has one entry */
};

/* A list of texts, or the word `any`; into the rules' audiences. */
static void read_audiences(const struct identity_reading *r, struct fields *f, const char *name,
                           struct jwt_rules *rules)
{
	const struct json *member = fields_get(f, name);
	struct bytes      *list;

	if (member != NULL && member->type == JSON_STRING && bytes_is(json_text(member), "any")) {
		rules->audience_any = true;
		return;
	}
	member = fields_array(f, name, ISSUER_AUDIENCES_MAX);
	if (member == NULL || member->count == 0) {
		fields_fail(f, name, ERR_INVALID, "must be a list of 1 to %d texts, or the word any",
		            ISSUER_AUDIENCES_MAX);
		return;
	}
	rules->audiences = list = arena_array(r->arena, member->count, sizeof(*list));
	for (const struct json *m = fields_first(f, member); m != NULL; m = fields_next(f, m)) {
		if (m->type != JSON_STRING || json_text(m).len == 0 ||
		    json_text(m).len > TOKEN_TEXT_BYTES_MAX)
			fields_fail(f, name, ERR_INVALID, "must be a list of texts of 1 to %d bytes",
			            TOKEN_TEXT_BYTES_MAX);
		else
			list[rules->audience_count++] = json_text(m);
	}
}

static void read_algorithms(struct fields *f, struct jwt_rules *rules)
{
	const struct json *list = fields_array(f, "algorithms", JWS_ALGORITHM_COUNT);
	enum jws_algorithm one;

	if (list == NULL)
		return;
	rules->algorithms = 0;
	for (const struct json *m = fields_first(f, list); m != NULL; m = fields_next(f, m)) {
		if (m->type == JSON_STRING && jws_algorithm_find(json_text(m), &one))
			rules->algorithms |= 1u << one;
		else
			fields_fail(f, "algorithms", ERR_INVALID,
			            "must be a list of RS256, RS384, RS512, PS256, ES256, ES384 and EdDSA");
	}
	if (rules->algorithms == 0)
		fields_fail(f, "algorithms", ERR_INVALID, "must name at least one");
}

/* What every issuer may set, beside its audiences. */
static struct jwt_rules read_rules(struct fields *f)
{
	struct jwt_rules rules = jwt_rules_default();

	read_algorithms(f, &rules);
	rules.leeway_us = fields_i64_or(f, "leeway", 0, ISSUER_LEEWAY_S_MAX, ISSUER_LEEWAY_S) * SECOND_US;
	rules.age_max_us = fields_i64_or(f, "max_age", 1, ISSUER_AGE_S_MAX, ISSUER_AGE_S) * SECOND_US;
	return rules;
}

/* Looks whether the file of certificates can be read: better now than when keys are due. */
static struct token_route read_route(const struct identity_reading *r, struct fields *f)
{
	struct token_route route = {.ca_file = identity_path(r, f, "ca_file"),
	                            .allow_private = fields_bool_or(f, "allow_private", false)};

	if (route.ca_file != NULL)
		identity_file(r, f, "ca_file", route.ca_file, CA_BYTES_MAX);
	return route;
}

/* Where the keys are: exactly one place. */
static void read_keys(const struct identity_reading *r, struct fields *f, struct issuer_options *o)
{
	const char *file = identity_path(r, f, "jwks_file");
	bool        discovery;

	o->jwks_url = fields_text_or(f, "jwks_url", ISSUER_URL_BYTES_MAX, (struct bytes){NULL, 0});
	discovery = fields_bool_or(f, "discovery", file == NULL && o->jwks_url.len == 0);
	if ((file != NULL) + (o->jwks_url.len > 0) + discovery != 1)
		fields_fail(f, NULL, ERR_INVALID,
		            "the keys come from one place: set one of jwks_url, jwks_file and discovery");
	if (file == NULL)
		return;
	o->jwks = identity_file(r, f, "jwks_file", file, JWKS_BYTES_MAX);
	if (o->jwks.len == 0)
		fields_fail(f, "jwks_file", ERR_INVALID, "the file is empty");
}

/* What the section `providers` calls a pool: its name there, or else its id. */
static struct bytes pool_provider(const struct json *file, struct bytes pool)
{
	const struct json *pools = json_get(json_get(file, BYTES("providers")), BYTES("pools"));

	for (const struct json *one = json_children(pools); one != NULL; one = one->next) {
		struct bytes name = json_text(json_get(one, BYTES("name")));

		if (bytes_equal(json_text(json_get(one, BYTES("pool"))), pool) && name.len > 0)
			return name;
	}
	return pool;
}

/* Whose users it speaks for; empty: everyone's. Where there is one issuer, nobody else could have meant them. */
static struct bytes read_provider(const struct section *x, struct fields *f, struct bytes usual)
{
	struct bytes name;

	if (!fields_has(f, "provider") && (x->alone || usual.len > 0))
		return x->alone ? (struct bytes){NULL, 0} : usual;
	name = fields_text_or(f, "provider", SYNC_PROVIDER_BYTES_MAX, (struct bytes){NULL, 0});
	if (!fields_failed(f) && name.len == 0)
		fields_fail(f, "provider", ERR_INVALID,
		            "missing; where there are several issuers, each must name the provider of its "
		            "users, or "
		            "say any: one that may act as every user");
	else if (!fields_failed(f) && !sync_provider_is(name))
		fields_fail(f, "provider", ERR_INVALID, "must have letters, digits, '-', '_' and '.' only");
	return bytes_is(name, "any") ? (struct bytes){NULL, 0} : name;
}

static void read_issuer(const struct section *x, struct fields *f)
{
	const struct identity_reading *r = x->r;
	struct issuer_options          o = {.issuer = fields_text(f, "issuer", TOKEN_TEXT_BYTES_MAX)};
	struct err                     why;

	o.rules = read_rules(f);
	o.route = read_route(r, f);
	o.provider = read_provider(x, f, (struct bytes){NULL, 0});
	read_audiences(r, f, "audiences", &o.rules);
	read_keys(r, f, &o);
	if (!fields_failed(f) && issuers_add(x->all, &o, &why) != ERR_NONE)
		fields_fail(f, NULL, ERR_INVALID, "%s", why.text);
}

/* Access tokens alone unless set: an id token says who somebody is, not what a caller may do. */
static uint32_t read_uses(struct fields *f)
{
	const struct json *list = fields_array(f, "uses", 2);
	uint32_t           uses = list == NULL ? JWT_USE_ACCESS : 0;

	for (const struct json *m = fields_first(f, list); m != NULL; m = fields_next(f, m)) {
		if (m->type == JSON_STRING && bytes_is(json_text(m), "access"))
			uses |= JWT_USE_ACCESS;
		else if (m->type == JSON_STRING && bytes_is(json_text(m), "id"))
			uses |= JWT_USE_ID;
		else
			fields_fail(f, "uses", ERR_INVALID, "must be a list of access and id");
	}
	if (uses == 0)
		fields_fail(f, "uses", ERR_INVALID, "must name access, id or both");
	return uses;
}

static void read_cognito(const struct section *x, struct fields *entry, const struct json *tree)
{
	struct cognito_options o = {.rules = read_rules(entry), .route = read_route(x->r, entry)};
	struct fields          f;
	struct err             why;

	fields_enter(&f, entry, BYTES("cognito"), tree);
	o.pool = fields_text(&f, "pool", 128);
	o.endpoint = fields_text_or(&f, "endpoint", ISSUER_URL_BYTES_MAX, (struct bytes){NULL, 0});
	o.rules.cognito_uses = read_uses(&f);
	read_audiences(x->r, &f, "clients", &o.rules);
	o.provider = read_provider(x, entry, pool_provider(x->file->object, o.pool));
	if (fields_end(&f) == ERR_NONE && issuers_add_cognito(x->all, &o, &why) != ERR_NONE)
		fields_fail(&f, NULL, ERR_INVALID, "%s", why.text);
}

static void read_entry(const struct section *x, const struct json *entry, uint32_t at)
{
	const struct json *cognito;
	struct fields      f;

	fields_enter(&f, x->file, arena_printf(x->r->arena, "issuers[%u]", at), entry);
	cognito = fields_get(&f, "cognito");
	if (cognito != NULL)
		read_cognito(x, &f, cognito);
	else
		read_issuer(x, &f);
	fields_end(&f);
}

static void read_section(const struct identity_reading *r, struct fields *file, void **out)
{
	const struct json *list = fields_array(file, "issuers", ISSUERS_MAX);
	struct section     x = {.r = r,
	                        .file = file,
	                        .all = issuers_open(token_fetch_https(r->clock), r->clock),
	                        .alone = list != NULL && list->count == 1};
	uint32_t           at = 0;

	for (const struct json *m = fields_first(file, list); m != NULL; m = fields_next(file, m))
		read_entry(&x, m, at++);
	*out = x.all;
}

static void drop(void *made)
{
	issuers_drop(made);
}

const struct identity_section identity_issuers = {"issuers", read_section, drop};
