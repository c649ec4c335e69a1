/* JWT: see jwt.h. */
#include "token/jwt.h"

#include <math.h>

#include "json/base64.h"

static const char *const outcome_names[] = {
#define X(outcome, name, text) name,
        TOKEN_OUTCOMES(X)
#undef X
};

static const char *const outcome_texts[] = {
#define X(outcome, name, text) text,
        TOKEN_OUTCOMES(X)
#undef X
};

static const struct bytes algorithm_names[] = {
#define X(algorithm, name) BYTES_INIT(name),
        JWS_ALGORITHMS(X)
#undef X
};

/* The last second of the year 9999: what is later is no time. */
static const double seconds_max = 253402300799.0;

const char *token_outcome_name(enum token_outcome outcome)
{
	return outcome_names[outcome];
}

const char *token_outcome_text(enum token_outcome outcome)
{
	return outcome_texts[outcome];
}

bool jws_algorithm_find(struct bytes name, enum jws_algorithm *out)
{
	for (unsigned i = 0; i < JWS_ALGORITHM_COUNT; i++) {
		if (bytes_equal(algorithm_names[i], name)) {
			*out = (enum jws_algorithm)i;
			return true;
		}
	}
	return false;
}

/* ---- parsing ---- */

static bool member_repeats(const struct json *member)
{
	for (const struct json *later = member->next; later != NULL; later = later->next)
		if (bytes_equal(later->name, member->name))
			return true;
	return false;
}

enum token_outcome jwt_check_members(const struct json *tree)
{
	if (tree->type != JSON_OBJECT && tree->type != JSON_ARRAY)
		return TOKEN_VALID;
	if (tree->type == JSON_OBJECT && tree->count > TOKEN_MEMBERS_MAX)
		return TOKEN_TOO_LARGE;
	for (const struct json *child = json_children(tree); child != NULL; child = child->next) {
		enum token_outcome within;

		if (tree->type == JSON_OBJECT && member_repeats(child))
			return TOKEN_DUPLICATE;
		within = jwt_check_members(child);
		if (within != TOKEN_VALID)
			return within;
	}
	return TOKEN_VALID;
}

/* One part: base64url of a JSON object that begins at once (a byte order mark does not). */
static enum token_outcome object_read(struct json_reader *r, struct arena *a, struct bytes part,
                                      const struct json **out)
{
	struct bytes text;
	struct json *tree;
	struct err   err;

	if (part.len == 0 || !base64_url_decode(a, part, &text))
		return TOKEN_MALFORMED;
	if (text.data[0] != '{' || json_read(r, a, text, &tree, &err) != ERR_NONE ||
	    tree->type != JSON_OBJECT)
		return TOKEN_JSON;
	*out = tree;
	return jwt_check_members(tree);
}

/* A member that is a text of 1 to TOKEN_TEXT_BYTES_MAX bytes, or absent: then it is empty. */
static bool text_read(const struct json *object, struct bytes name, struct bytes *out)
{
	const struct json *member = json_get(object, name);

	*out = (struct bytes){0};
	if (member == NULL)
		return true;
	if (member->type != JSON_STRING || json_text(member).len == 0 ||
	    json_text(member).len > TOKEN_TEXT_BYTES_MAX)
		return false;
	*out = json_text(member);
	return true;
}

enum token_outcome jwt_parse(struct json_reader *r, struct arena *a, struct bytes text, struct jwt *out)
{
	const char        *first, *second;
	struct bytes       header, claims, signature, algorithm;
	enum token_outcome outcome;

	*out = (struct jwt){0};
	if (text.len > TOKEN_BYTES_MAX)
		return TOKEN_TOO_LARGE;
	first = text.len == 0 ? NULL : memchr(text.data, '.', text.len);
	if (first == NULL)
		return TOKEN_MALFORMED;
	header = (struct bytes){text.data, (size_t)(first - text.data)};
	second = memchr(first + 1, '.', text.len - header.len - 1);
	if (second == NULL)
		return TOKEN_MALFORMED;
	claims = (struct bytes){first + 1, (size_t)(second - first - 1)};
	out->signed_text = (struct bytes){text.data, (size_t)(second - text.data)};
	signature = (struct bytes){second + 1, text.len - out->signed_text.len - 1};
	if (header.len > TOKEN_HEADER_CHARS_MAX)
		return TOKEN_TOO_LARGE;
	/* A third dot is outside the alphabet. */
	if (signature.len == 0 || !base64_url_decode(a, signature, &out->signature))
		return TOKEN_MALFORMED;
	outcome = object_read(r, a, header, &out->header);
	if (outcome == TOKEN_VALID)
		outcome = object_read(r, a, claims, &out->claims);
	if (outcome != TOKEN_VALID)
		return outcome;
	if (!text_read(out->header, BYTES("alg"), &algorithm) || algorithm.len == 0 ||
	    !text_read(out->header, BYTES("kid"), &out->kid) || out->kid.len > TOKEN_KID_BYTES_MAX)
		return TOKEN_HEADER;
	out->algorithm_known = jws_algorithm_find(algorithm, &out->algorithm);
	return text_read(out->claims, BYTES("iss"), &out->issuer) ? TOKEN_VALID : TOKEN_ISSUER;
}

/* ---- the header's rules ---- */

static bool has_one_of(const struct json *object, const struct bytes *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (json_get(object, names[i]) != NULL)
			return true;
	return false;
}

/* "application/at+jwt" and "AT+JWT" mean at+jwt (RFC 7515, section 4.1.9). Other types are for other purposes: logout
 * tokens, proofs of possession, events. */
static bool type_is_accepted(const struct json *header)
{
	static const struct bytes prefix = BYTES_INIT("application/");
	const struct json        *member = json_get(header, BYTES("typ"));
	struct bytes              type;

	if (member == NULL)
		return true;
	if (member->type != JSON_STRING)
		return false;
	type = json_text(member);
	if (type.len > prefix.len && bytes_folds_to(prefix, type.data))
		type = (struct bytes){type.data + prefix.len, type.len - prefix.len};
	return bytes_equal_lower(BYTES("jwt"), type) || bytes_equal_lower(BYTES("at+jwt"), type);
}

enum token_outcome jwt_check_header(const struct jwt *t, const struct jwt_rules *rules)
{
	static const struct bytes keys[] = {BYTES_INIT("jku"), BYTES_INIT("x5u"), BYTES_INIT("jwk"),
	                                    BYTES_INIT("x5c")};
	static const struct bytes extensions[] = {BYTES_INIT("crit"), BYTES_INIT("b64"), BYTES_INIT("zip")};

	if (has_one_of(t->header, keys, sizeof(keys) / sizeof(keys[0])))
		return TOKEN_EMBEDDED_KEY; /* (2) */
	if (has_one_of(t->header, extensions, sizeof(extensions) / sizeof(extensions[0])))
		return TOKEN_CRITICAL; /* (3) */
	if (!type_is_accepted(t->header))
		return TOKEN_TYPE;
	if (!t->algorithm_known || (rules->algorithms >> t->algorithm & 1) == 0)
		return TOKEN_ALGORITHM;
	return TOKEN_VALID;
}

/* ---- claims ---- */

/* Seconds since 1970, possibly with a fraction (RFC 7519, section 2). Absent: *found is false. */
static bool time_read(const struct json *claims, struct bytes name, double (*round)(double), bool *found,
                      int64_t *us)
{
	const struct json *member = json_get(claims, name);
	double             seconds;

	*found = member != NULL;
	if (member == NULL)
		return true;
	if (member->type != JSON_INT && member->type != JSON_DOUBLE)
		return false;
	seconds = member->type == JSON_INT ? (double)json_integer(member) : json_real(member);
	if (!(seconds >= 0 && seconds <= seconds_max))
		return false;
	*us = (int64_t)round(seconds * 1e6);
	return true;
}

int64_t jwt_issued_unproved_us(const struct jwt *t)
{
	int64_t us = 0;
	bool    found;

	return time_read(t->claims, BYTES("iat"), floor, &found, &us) && found ? us : 0;
}

static bool times_read(struct jwt *t)
{
	bool found;

	if (!time_read(t->claims, BYTES("exp"), floor, &found, &t->expires_us) || !found)
		return false;
	if (!time_read(t->claims, BYTES("iat"), floor, &found, &t->issued_us) || !found)
		return false;
	t->not_before_us = 0;
	return time_read(t->claims, BYTES("nbf"), ceil, &found, &t->not_before_us);
}

static enum token_outcome times_check(const struct jwt *t, const struct jwt_rules *rules, int64_t now_us)
{
	if (now_us >= t->expires_us + rules->leeway_us)
		return TOKEN_EXPIRED;
	if (now_us < t->not_before_us - rules->leeway_us)
		return TOKEN_NOT_YET;
	if (now_us < t->issued_us - rules->leeway_us)
		return TOKEN_FUTURE;
	if (now_us - t->issued_us > rules->age_max_us + rules->leeway_us)
		return TOKEN_TOO_OLD;
	return TOKEN_VALID;
}

static bool audience_is_ours(const struct jwt_rules *rules, struct bytes audience)
{
	for (uint32_t i = 0; i < rules->audience_count; i++)
		if (bytes_equal(rules->audiences[i], audience))
			return true;
	return false;
}

/* aud: a text, or an array of texts, each of them a text even where one that is ours came before. Absent: nobody. */
static enum token_outcome aud_read(const struct jwt *t, const struct jwt_rules *rules, bool *ours)
{
	const struct json *aud = json_get(t->claims, BYTES("aud"));

	*ours = false;
	if (aud == NULL)
		return TOKEN_VALID;
	if (aud->type == JSON_STRING) {
		*ours = audience_is_ours(rules, json_text(aud));
		return TOKEN_VALID;
	}
	if (aud->type != JSON_ARRAY)
		return TOKEN_CLAIM;
	if (aud->count > TOKEN_AUDIENCES_MAX)
		return TOKEN_TOO_LARGE;
	for (const struct json *each = json_children(aud); each != NULL; each = each->next) {
		if (each->type != JSON_STRING)
			return TOKEN_CLAIM;
		*ours = *ours || audience_is_ours(rules, json_text(each));
	}
	return TOKEN_VALID;
}

/* Cognito's two kinds have exclusive rules (RFC 8725, section 3.12): neither passes for the other. */
static enum token_outcome cognito_check(struct jwt *t, const struct jwt_rules *rules, bool *ours)
{
	const struct json *aud = json_get(t->claims, BYTES("aud"));
	bool               access = bytes_is(t->use, "access");

	if (!access && !bytes_is(t->use, "id"))
		return TOKEN_USE;
	if ((rules->cognito_uses & (access ? JWT_USE_ACCESS : JWT_USE_ID)) == 0)
		return TOKEN_USE;
	if (!access) {
		if (aud == NULL || aud->type != JSON_STRING || json_text(aud).len == 0)
			return TOKEN_CLAIM;
		t->client = json_text(aud);
		return TOKEN_VALID;
	}
	*ours = audience_is_ours(rules, t->client);
	return t->client.len > 0 ? TOKEN_VALID : TOKEN_CLAIM;
}

/* Claims that are read elsewhere as texts must be texts, though nobody asks for them here. */
static bool texts_read(struct jwt *t)
{
	const struct json *scope = json_get(t->claims, BYTES("scope"));

	if (!text_read(t->claims, BYTES("sub"), &t->subject) || t->subject.len == 0)
		return false;
	if (scope != NULL && scope->type != JSON_STRING)
		return false;
	return text_read(t->claims, BYTES("jti"), &t->id) &&
	       text_read(t->claims, BYTES("client_id"), &t->client) &&
	       text_read(t->claims, BYTES("token_use"), &t->use);
}

/* Keycloak, Auth0 and others name the client in azp (OpenID Connect Core, section 2). Cognito does not: there it would be another
 * client's word. */
static bool party_read(struct jwt *t, const struct jwt_rules *rules)
{
	return t->client.len > 0 || rules->cognito_uses != 0 ||
	       text_read(t->claims, BYTES("azp"), &t->client);
}

enum token_outcome jwt_check_claims(struct jwt *t, const struct jwt_rules *rules, int64_t now_us)
{
	enum token_outcome outcome;
	bool               ours;

	if (!texts_read(t) || !party_read(t, rules) || !times_read(t))
		return TOKEN_CLAIM;
	outcome = times_check(t, rules, now_us);
	if (outcome == TOKEN_VALID)
		outcome = aud_read(t, rules, &ours);
	if (outcome == TOKEN_VALID && rules->cognito_uses != 0)
		outcome = cognito_check(t, rules, &ours);
	if (outcome == TOKEN_VALID && !ours && !rules->audience_any)
		outcome = TOKEN_AUDIENCE;
	return outcome;
}

bool jwt_is_for(const struct jwt *t, struct bytes audience)
{
	struct jwt_rules one = {.audiences = &audience, .audience_count = 1};
	bool             ours;

	return bytes_equal(t->client, audience) || (aud_read(t, &one, &ours) == TOKEN_VALID && ours);
}
