/* Keys and tokens of every algorithm, made with OpenSSL: what an issuer does. */
#ifndef TESTS_TOKEN_SUPPORT_H
#define TESTS_TOKEN_SUPPORT_H

#include <stdlib.h>

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include "base/buf.h"
#include "token/jwt.h"

static const char *const signer_names[JWS_ALGORITHM_COUNT] = {
#define X(algorithm, name) name,
        JWS_ALGORITHMS(X)
#undef X
};

struct signer {
	enum jws_algorithm algorithm;
	const char        *kid;
	EVP_PKEY          *key;
};

static inline void url64_add(struct buf *out, struct bytes data)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	const uint8_t    *at = (const uint8_t *)data.data;

	for (size_t i = 0; i < data.len; i += 3) {
		size_t   count = data.len - i < 3 ? data.len - i : 3;
		uint32_t bits = (uint32_t)at[i] << 16 | (count > 1 ? (uint32_t)at[i + 1] << 8 : 0) |
		                (count > 2 ? at[i + 2] : 0);

		for (size_t n = 0; n <= count; n++)
			buf_add_byte(out, (uint8_t)letters[bits >> (18 - 6 * n) & 63]);
	}
}

static inline struct bytes url64(struct arena *a, struct bytes data)
{
	struct buf out;

	buf_init(&out, a);
	url64_add(&out, data);
	return buf_bytes(&out);
}

static inline struct signer signer_open(enum jws_algorithm algorithm, const char *kid)
{
	struct signer s = {algorithm, kid, NULL};

	if (algorithm == JWS_ES256 || algorithm == JWS_ES384)
		s.key = EVP_EC_gen(algorithm == JWS_ES256 ? "P-256" : "P-384");
	else if (algorithm == JWS_EDDSA)
		s.key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	else
		s.key = EVP_RSA_gen(2048);
	if (s.key == NULL)
		abort();
	return s;
}

static inline void signer_close(struct signer *s)
{
	EVP_PKEY_free(s->key);
}

static inline struct bytes signer_number(const struct signer *s, const char *param, struct arena *a,
                                         size_t width)
{
	BIGNUM  *n = NULL;
	size_t   len;
	uint8_t *data;

	if (EVP_PKEY_get_bn_param(s->key, param, &n) != 1)
		abort();
	len = width > 0 ? width : (size_t)BN_num_bytes(n);
	data = arena_alloc(a, len);
	if (BN_bn2binpad(n, data, (int)len) < 0)
		abort();
	BN_free(n);
	return url64(a, (struct bytes){(const char *)data, len});
}

/* The numbers of the public key, as a JWK has them. */
static inline struct bytes signer_public(const struct signer *s, struct arena *a)
{
	uint8_t raw[32];
	size_t  len = sizeof(raw), width = s->algorithm == JWS_ES256 ? 32 : 48;

	if (s->algorithm == JWS_EDDSA) {
		if (EVP_PKEY_get_raw_public_key(s->key, raw, &len) != 1)
			abort();
		return arena_printf(a, "\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"%.*s\"",
		                    BYTES_ARG(url64(a, (struct bytes){(const char *)raw, len})));
	}
	if (s->algorithm == JWS_ES256 || s->algorithm == JWS_ES384)
		return arena_printf(a, "\"kty\":\"EC\",\"crv\":\"%s\",\"x\":\"%.*s\",\"y\":\"%.*s\"",
		                    s->algorithm == JWS_ES256 ? "P-256" : "P-384",
		                    BYTES_ARG(signer_number(s, OSSL_PKEY_PARAM_EC_PUB_X, a, width)),
		                    BYTES_ARG(signer_number(s, OSSL_PKEY_PARAM_EC_PUB_Y, a, width)));
	return arena_printf(a, "\"kty\":\"RSA\",\"n\":\"%.*s\",\"e\":\"%.*s\"",
	                    BYTES_ARG(signer_number(s, OSSL_PKEY_PARAM_RSA_N, a, 0)),
	                    BYTES_ARG(signer_number(s, OSSL_PKEY_PARAM_RSA_E, a, 0)));
}

/* A JWK with kid, and with alg if asked for. */
static inline struct bytes signer_jwk(const struct signer *s, struct arena *a, bool alg)
{
	return arena_printf(a, "{%.*s,\"use\":\"sig\",\"kid\":\"%s\"%s%s%s}", BYTES_ARG(signer_public(s, a)),
	                    s->kid, alg ? ",\"alg\":\"" : "", alg ? signer_names[s->algorithm] : "",
	                    alg ? "\"" : "");
}

/* R and S side by side, from DER. */
static inline size_t signer_raw(const struct signer *s, uint8_t *signature, size_t len)
{
	const uint8_t *at = signature;
	ECDSA_SIG     *pair = d2i_ECDSA_SIG(NULL, &at, (long)len);
	int            half = s->algorithm == JWS_ES256 ? 32 : 48;

	if (pair == NULL || BN_bn2binpad(ECDSA_SIG_get0_r(pair), signature, half) < 0 ||
	    BN_bn2binpad(ECDSA_SIG_get0_s(pair), signature + half, half) < 0)
		abort();
	ECDSA_SIG_free(pair);
	return 2 * (size_t)half;
}

/* Signs these bytes; base64url. */
static inline struct bytes signer_sign(const struct signer *s, struct arena *a, struct bytes text)
{
	static const char *const digests[] = {"SHA256", "SHA384", "SHA512", "SHA256",
	                                      "SHA256", "SHA384", NULL};
	uint8_t                  signature[1024];
	size_t                   len = sizeof(signature);
	EVP_MD_CTX              *c = EVP_MD_CTX_new();
	EVP_PKEY_CTX            *key;

	if (EVP_DigestSignInit_ex(c, &key, digests[s->algorithm], NULL, NULL, s->key, NULL) != 1)
		abort();
	if (s->algorithm == JWS_PS256 && (EVP_PKEY_CTX_set_rsa_padding(key, RSA_PKCS1_PSS_PADDING) != 1 ||
	                                  EVP_PKEY_CTX_set_rsa_pss_saltlen(key, RSA_PSS_SALTLEN_DIGEST) != 1))
		abort();
	if (EVP_DigestSign(c, signature, &len, (const uint8_t *)text.data, text.len) != 1)
		abort();
	EVP_MD_CTX_free(c);
	if (s->algorithm == JWS_ES256 || s->algorithm == JWS_ES384)
		len = signer_raw(s, signature, len);
	return url64(a, (struct bytes){(const char *)signature, len});
}

/* The whole token, of texts that are taken as they are. */
static inline struct bytes signer_token(const struct signer *s, struct arena *a, struct bytes header,
                                        struct bytes claims)
{
	struct bytes text =
	        arena_printf(a, "%.*s.%.*s", BYTES_ARG(url64(a, header)), BYTES_ARG(url64(a, claims)));

	return arena_printf(a, "%.*s.%.*s", BYTES_ARG(text), BYTES_ARG(signer_sign(s, a, text)));
}

static inline struct bytes signer_header(const struct signer *s, struct arena *a)
{
	return arena_printf(a, "{\"typ\":\"JWT\",\"alg\":\"%s\",\"kid\":\"%s\"}", signer_names[s->algorithm],
	                    s->kid);
}

#endif
