/* JWKS: see jwks.h. Keys become OpenSSL's EVP_PKEY when the set is read; a verification only uses them. OpenSSL keeps a list of
 * errors per thread, in which TLS looks for its own: whatever fails here leaves that list empty. */
#include "token/jwks.h"

#include <stdatomic.h>
#include <stdlib.h>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#include "json/base64.h"

enum family { FAMILY_RSA, FAMILY_P256, FAMILY_P384, FAMILY_ED25519 };

/* What an algorithm asks of a key, and how it hashes. */
static const struct scheme {
	enum family family;
	const char *digest; /* NULL: it hashes by itself */
	bool        pss;
} schemes[JWS_ALGORITHM_COUNT] = {
        [JWS_RS256] = {FAMILY_RSA, "SHA256", false},  [JWS_RS384] = {FAMILY_RSA, "SHA384", false},
        [JWS_RS512] = {FAMILY_RSA, "SHA512", false},  [JWS_PS256] = {FAMILY_RSA, "SHA256", true},
        [JWS_ES256] = {FAMILY_P256, "SHA256", false}, [JWS_ES384] = {FAMILY_P384, "SHA384", false},
        [JWS_EDDSA] = {FAMILY_ED25519, NULL, false},
};

/* Curves, and how many bytes a coordinate has: a signature has two of that length. */
static const struct curve {
	struct bytes name;
	const char  *group;
	enum family  family;
	size_t       bytes;
} curves[] = {
        {BYTES_INIT("P-256"), "P-256", FAMILY_P256, 32},
        {BYTES_INIT("P-384"), "P-384", FAMILY_P384, 48},
};

enum { COORDINATE_BYTES_MAX = 48, ED25519_BYTES = 32, RSA_EXPONENT_BYTES_MAX = 8, DER_BYTES_MAX = 128 };

struct jwk {
	EVP_PKEY          *key;
	enum family        family;
	bool               one_algorithm; /* its `alg` was given */
	enum jws_algorithm algorithm;
	struct bytes       kid; /* own memory */
};

struct jwks {
	atomic_uint references;
	uint32_t    count, passed_over;
	const char *first_reason;
	struct jwk  keys[JWKS_KEYS_MAX];
};

/* ---- one key ---- */

/* Reads a member that is base64url of 1 to max bytes. */
static bool number_read(const struct json *object, struct bytes name, struct arena *a, size_t max,
                        struct bytes *out)
{
	const struct json *member = json_get(object, name);

	return member != NULL && member->type == JSON_STRING &&
	       base64_url_decode(a, json_text(member), out) && out->len > 0 && out->len <= max;
}

/* NULL unless OpenSSL finds the parameters sound: for a curve, that the point is on it. Takes `b`. */
static EVP_PKEY *key_build(const char *type, OSSL_PARAM_BLD *b)
{
	OSSL_PARAM   *params = OSSL_PARAM_BLD_to_param(b);
	EVP_PKEY_CTX *make = EVP_PKEY_CTX_new_from_name(NULL, type, NULL), *check = NULL;
	EVP_PKEY     *key = NULL;

	if (params == NULL || make == NULL || EVP_PKEY_fromdata_init(make) != 1 ||
	    EVP_PKEY_fromdata(make, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
		key = NULL;
	if (key != NULL)
		check = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
	if (check == NULL || EVP_PKEY_public_check(check) != 1) {
		EVP_PKEY_free(key);
		key = NULL;
	}
	EVP_PKEY_CTX_free(check);
	EVP_PKEY_CTX_free(make);
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(b);
	ERR_clear_error();
	return key;
}

/* Returns why not, or NULL. */
static const char *rsa_read(const struct json *object, struct arena *a, struct jwk *k)
{
	struct bytes    n, e;
	BIGNUM         *modulus, *exponent;
	OSSL_PARAM_BLD *b;
	const char     *why = NULL;

	if (!number_read(object, BYTES("n"), a, JWKS_RSA_BITS_MAX / 8 + 1, &n) ||
	    !number_read(object, BYTES("e"), a, RSA_EXPONENT_BYTES_MAX, &e))
		return "n or e of an RSA key is missing, too long or not base64url";
	modulus = BN_bin2bn((const uint8_t *)n.data, (int)n.len, NULL);
	exponent = BN_bin2bn((const uint8_t *)e.data, (int)e.len, NULL);
	b = OSSL_PARAM_BLD_new();
	if (modulus == NULL || exponent == NULL || b == NULL)
		abort(); /* no memory */
	if (BN_num_bits(modulus) < JWKS_RSA_BITS_MIN || BN_num_bits(modulus) > JWKS_RSA_BITS_MAX)
		why = "an RSA key has fewer than 2048 or more than 8192 bits";
	else if (!BN_is_odd(modulus) || !BN_is_odd(exponent) || BN_is_one(exponent))
		why = "modulus or exponent of an RSA key is none";
	k->family = FAMILY_RSA;
	if (why == NULL && OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
	    OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_RSA_E, exponent) == 1) {
		k->key = key_build("RSA", b);
		why = k->key == NULL ? "OpenSSL refuses an RSA key" : NULL;
	} else {
		OSSL_PARAM_BLD_free(b);
	}
	BN_free(modulus);
	BN_free(exponent);
	return why;
}

static const char *ec_read(const struct json *object, struct arena *a, struct jwk *k)
{
	const struct json  *name = json_get(object, BYTES("crv"));
	const struct curve *curve = NULL;
	struct bytes        x, y;
	uint8_t             point[1 + 2 * COORDINATE_BYTES_MAX];
	OSSL_PARAM_BLD     *b;

	for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++)
		if (name != NULL && name->type == JSON_STRING && bytes_equal(json_text(name), curves[i].name))
			curve = &curves[i];
	if (curve == NULL)
		return "an EC key is on a curve that is not used here";
	if (!number_read(object, BYTES("x"), a, curve->bytes, &x) || x.len != curve->bytes ||
	    !number_read(object, BYTES("y"), a, curve->bytes, &y) || y.len != curve->bytes)
		return "a coordinate of an EC key is missing, of the wrong length or not base64url";
	point[0] = POINT_CONVERSION_UNCOMPRESSED;
	memcpy(point + 1, x.data, x.len);
	memcpy(point + 1 + x.len, y.data, y.len);
	b = OSSL_PARAM_BLD_new();
	if (b == NULL ||
	    OSSL_PARAM_BLD_push_utf8_string(b, OSSL_PKEY_PARAM_GROUP_NAME, curve->group, 0) != 1 ||
	    OSSL_PARAM_BLD_push_octet_string(b, OSSL_PKEY_PARAM_PUB_KEY, point, 1 + 2 * curve->bytes) != 1)
		abort(); /* no memory */
	k->family = curve->family;
	k->key = key_build("EC", b);
	return k->key == NULL ? "the point of an EC key is not on its curve" : NULL;
}

static const char *okp_read(const struct json *object, struct arena *a, struct jwk *k)
{
	const struct json *name = json_get(object, BYTES("crv"));
	struct bytes       x;

	if (name == NULL || name->type != JSON_STRING || !bytes_is(json_text(name), "Ed25519"))
		return "an OKP key is on a curve that is not used here";
	if (!number_read(object, BYTES("x"), a, ED25519_BYTES, &x) || x.len != ED25519_BYTES)
		return "x of an Ed25519 key is missing, of the wrong length or not base64url";
	k->family = FAMILY_ED25519;
	k->key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, (const uint8_t *)x.data, x.len);
	ERR_clear_error();
	return k->key == NULL ? "OpenSSL refuses an Ed25519 key" : NULL;
}

/* Is a key with these `use` and `key_ops` there to verify with? */
static bool key_verifies(const struct json *object)
{
	const struct json *use = json_get(object, BYTES("use")), *ops = json_get(object, BYTES("key_ops"));

	if (use != NULL && (use->type != JSON_STRING || !bytes_is(json_text(use), "sig")))
		return false;
	if (ops == NULL)
		return true;
	if (ops->type != JSON_ARRAY)
		return false;
	for (const struct json *op = json_children(ops); op != NULL; op = op->next)
		if (op->type == JSON_STRING && bytes_is(json_text(op), "verify"))
			return true;
	return false;
}

/* The names of a key: alg and kid. */
static const char *names_read(const struct json *object, struct jwk *k)
{
	const struct json *alg = json_get(object, BYTES("alg")), *kid = json_get(object, BYTES("kid"));

	if (alg != NULL) {
		if (alg->type != JSON_STRING || !jws_algorithm_find(json_text(alg), &k->algorithm))
			return "the alg of a key is not one that is used here";
		k->one_algorithm = true;
	}
	if (kid == NULL)
		return NULL;
	if (kid->type != JSON_STRING || json_text(kid).len == 0 || json_text(kid).len > TOKEN_KID_BYTES_MAX)
		return "the kid of a key is not a text of 1 to 256 bytes";
	k->kid = json_text(kid);
	return NULL;
}

/* Fills *k, whose kid is in the arena. Returns why the key is passed over, or NULL. */
static const char *key_read(const struct json *object, struct arena *a, struct jwk *k)
{
	const struct json *type = json_get(object, BYTES("kty"));
	const char        *why;

	*k = (struct jwk){0};
	if (object->type != JSON_OBJECT || type == NULL || type->type != JSON_STRING)
		return "a key has no type";
	if (jwt_check_members(object) != TOKEN_VALID)
		return "a key names a member twice, or has too many";
	if (!key_verifies(object))
		return "a key is not for verifying signatures";
	why = names_read(object, k);
	if (why != NULL)
		return why;
	if (json_get(object, BYTES("d")) != NULL)
		return "a key is private: whoever published it must replace it";
	if (bytes_is(json_text(type), "RSA"))
		why = rsa_read(object, a, k);
	else if (bytes_is(json_text(type), "EC"))
		why = ec_read(object, a, k);
	else if (bytes_is(json_text(type), "OKP"))
		why = okp_read(object, a, k);
	else
		why = "a key is of a type that is not used here";
	if (why == NULL && k->one_algorithm && schemes[k->algorithm].family != k->family) {
		EVP_PKEY_free(k->key);
		why = "the alg of a key does not fit its type";
	}
	return why;
}

/* ---- the set ---- */

static struct bytes bytes_keep(struct bytes text)
{
	char *copy = mem_alloc(text.len + 1);

	if (text.len > 0)
		memcpy(copy, text.data, text.len);
	return (struct bytes){copy, text.len};
}

/* (2), (3) */
static enum err_code keys_read(struct jwks *set, const struct json *keys, struct arena *a, struct err *err)
{
	for (const struct json *each = json_children(keys); each != NULL; each = each->next) {
		struct jwk  key;
		const char *why = key_read(each, a, &key);

		if (why != NULL) {
			set->first_reason = set->passed_over++ == 0 ? why : set->first_reason;
			continue;
		}
		key.kid = bytes_keep(key.kid);
		set->keys[set->count++] = key;
	}
	if (set->count == 0)
		return err_set(err, ERR_INVALID, "key set: none of %u keys can be used%s%s", keys->count,
		               set->first_reason == NULL ? "" : "; the first: ",
		               set->first_reason == NULL ? "" : set->first_reason);
	return ERR_NONE;
}

enum err_code jwks_read(struct json_reader *r, struct arena *a, struct bytes text, struct jwks **out,
                        struct err *err)
{
	struct json       *tree;
	const struct json *keys;
	struct jwks       *set;

	if (text.len > JWKS_BYTES_MAX)
		return err_set(err, ERR_INVALID, "key set: more than %d bytes", JWKS_BYTES_MAX);
	if (json_read(r, a, text, &tree, err) != ERR_NONE)
		return err_set(err, ERR_INVALID, "key set: not JSON");
	keys = json_get(tree, BYTES("keys"));
	if (keys == NULL || keys->type != JSON_ARRAY)
		return err_set(err, ERR_INVALID, "key set: no array \"keys\"");
	for (const struct json *each = keys->next; each != NULL; each = each->next)
		if (bytes_is(each->name, "keys"))
			return err_set(err, ERR_INVALID, "key set: two arrays \"keys\"");
	if (keys->count > JWKS_KEYS_MAX)
		return err_set(err, ERR_INVALID, "key set: more than %d keys", JWKS_KEYS_MAX);
	set = mem_zalloc(sizeof(*set));
	atomic_init(&set->references, 1);
	if (keys_read(set, keys, a, err) != ERR_NONE) {
		jwks_drop(set);
		return err->code;
	}
	*out = set;
	return ERR_NONE;
}

struct jwks *jwks_retain(struct jwks *set)
{
	atomic_fetch_add_explicit(&set->references, 1, memory_order_relaxed);
	return set;
}

void jwks_drop(struct jwks *set)
{
	if (set == NULL || atomic_fetch_sub_explicit(&set->references, 1, memory_order_acq_rel) != 1)
		return;
	for (uint32_t i = 0; i < set->count; i++) {
		EVP_PKEY_free(set->keys[i].key);
		free((void *)set->keys[i].kid.data);
	}
	free(set);
}

uint32_t jwks_count(const struct jwks *set)
{
	return set->count;
}

uint32_t jwks_passed_over(const struct jwks *set)
{
	return set->passed_over;
}

const char *jwks_first_reason(const struct jwks *set)
{
	return set->first_reason;
}

const struct jwk *jwks_find(const struct jwks *set, struct bytes kid)
{
	if (kid.len == 0)
		return set->count == 1 ? &set->keys[0] : NULL;
	for (uint32_t i = 0; i < set->count; i++)
		if (bytes_equal(set->keys[i].kid, kid))
			return &set->keys[i];
	return NULL;
}

const struct jwk *jwks_next(const struct jwks *set, const struct jwk *key)
{
	for (const struct jwk *k = key + 1; k < set->keys + set->count; k++)
		if (key->kid.len > 0 && bytes_equal(k->kid, key->kid))
			return k;
	return NULL;
}

/* ---- verifying ---- */

/* R and S, each of fixed length, to the DER that OpenSSL takes. False unless the length is right. */
static bool ecdsa_to_der(enum family family, struct bytes signature, uint8_t der[DER_BYTES_MAX], size_t *len)
{
	size_t         half = curves[family == FAMILY_P384].bytes;
	const uint8_t *raw = (const uint8_t *)signature.data;
	ECDSA_SIG     *s;
	uint8_t       *at = der;

	if (signature.len != 2 * half)
		return false;
	s = ECDSA_SIG_new();
	if (s == NULL ||
	    ECDSA_SIG_set0(s, BN_bin2bn(raw, (int)half, NULL), BN_bin2bn(raw + half, (int)half, NULL)) != 1)
		abort(); /* no memory */
	*len = (size_t)i2d_ECDSA_SIG(s, &at);
	ECDSA_SIG_free(s);
	return true;
}

static bool padding_set(EVP_PKEY_CTX *c, bool pss)
{
	if (!pss)
		return EVP_PKEY_CTX_set_rsa_padding(c, RSA_PKCS1_PADDING) == 1;
	return EVP_PKEY_CTX_set_rsa_padding(c, RSA_PKCS1_PSS_PADDING) == 1 &&
	       EVP_PKEY_CTX_set_rsa_pss_saltlen(c, RSA_PSS_SALTLEN_DIGEST) == 1;
}

enum token_outcome jwk_verify(const struct jwk *key, enum jws_algorithm algorithm, struct bytes text,
                              struct bytes signature)
{
	const struct scheme *scheme = &schemes[algorithm];
	uint8_t              der[DER_BYTES_MAX];
	const uint8_t       *data = (const uint8_t *)signature.data;
	size_t               len = signature.len;
	EVP_MD_CTX          *digest;
	EVP_PKEY_CTX        *context;
	bool                 good;

	if (scheme->family != key->family || (key->one_algorithm && key->algorithm != algorithm))
		return TOKEN_KEY_ALGORITHM; /* (1) */
	if (key->family == FAMILY_P256 || key->family == FAMILY_P384) {
		if (!ecdsa_to_der(key->family, signature, der, &len))
			return TOKEN_SIGNATURE;
		data = der;
	}
	digest = EVP_MD_CTX_new();
	if (digest == NULL)
		abort(); /* no memory */
	good = EVP_DigestVerifyInit_ex(digest, &context, scheme->digest, NULL, NULL, key->key, NULL) == 1 &&
	       (key->family != FAMILY_RSA || padding_set(context, scheme->pss)) &&
	       EVP_DigestVerify(digest, data, len, (const uint8_t *)text.data, text.len) == 1;
	EVP_MD_CTX_free(digest);
	if (!good)
		ERR_clear_error();
	return good ? TOKEN_VALID : TOKEN_SIGNATURE;
}
