/* Auth: SigV4 over the headers as they came. */
#include "api/auth.h"

#include <assert.h>
#include <strings.h>

#include "base/crypto.h"
#include "item/messages.h"

#define BEARER "Bearer "

static_assert(sizeof(struct http_address) == sizeof(struct access_address), "one form of address");

/* A revoked key is as good as none. */
static struct bytes find_secret(void *ctx, struct bytes key_id)
{
	const struct credential *key = credentials_find(ctx, key_id);

	return key != NULL && key->active ? key->secret : (struct bytes){NULL, 0};
}

static const struct sigv4_header *headers_of(const struct http_request *r, struct arena *a)
{
	struct sigv4_header *headers = arena_array(a, r->header_count, sizeof(*headers));

	for (unsigned i = 0; i < r->header_count; i++)
		headers[i] = (struct sigv4_header){r->headers[i].name, r->headers[i].value};
	return headers;
}

static struct bytes method_name(enum http_method method)
{
	static const char *const names[] = {
	        [HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",     [HTTP_POST] = "POST",
	        [HTTP_PUT] = "PUT",         [HTTP_DELETE] = "DELETE", [HTTP_PATCH] = "PATCH",
	        [HTTP_OPTIONS] = "OPTIONS", [HTTP_OTHER] = ""};

	return bytes_of(names[method]);
}

/* out->set is there. */
static enum err_code verify_signature(struct api_loop *l, const struct http_request *r, struct bytes service,
                                      struct arena *a, struct caller *out, struct err *err)
{
	struct sigv4_request  request = {.method = method_name(r->method),
	                                 .path = r->path,
	                                 .query = r->query,
	                                 .header_count = r->header_count,
	                                 .body = r->body,
	                                 .service = service,
	                                 .region = l->api->parts.region,
	                                 .now_us = clock_wall_us(l->api->parts.clock)};
	struct sigv4_keyring  keys = {.find_secret = find_secret, .cache = l->signatures};
	struct sigv4_identity who;
	enum err_code         rc;

	keys.ctx = (void *)(uintptr_t)out->set;
	request.headers = headers_of(r, a);
	rc = sigv4_verify(&request, &keys, a, &who, err);
	if (rc == ERR_NONE &&
	    who.token.len > 0) /* there are no sessions here: a token belongs to none of our keys */
		rc = err_set(err, ERR_UNKNOWN_KEY, MSG_SIGN_KEY);
	if (rc != ERR_NONE)
		return rc;
	out->key = credentials_find(out->set, who.key_id);
	return ERR_NONE;
}

/* ID.SECRET. An id that is unknown or revoked is compared too, with a secret that nobody has. */
static enum err_code verify_bearer(struct bytes token, struct caller *out, struct err *err)
{
	static const char nobody[CREDENTIAL_SECRET_BYTES] = {0};
	struct bytes id = {token.data, token.len < CREDENTIAL_ID_BYTES ? token.len : CREDENTIAL_ID_BYTES};
	const struct credential *key = credentials_find(out->set, id);
	struct bytes             secret = {nobody, sizeof(nobody)};
	bool                     known = key != NULL && key->active;
	bool         whole = token.len > CREDENTIAL_ID_BYTES && token.data[CREDENTIAL_ID_BYTES] == '.';
	struct bytes given = {NULL, 0};

	if (known)
		secret = key->secret;
	if (whole)
		given = (struct bytes){token.data + CREDENTIAL_ID_BYTES + 1,
		                       token.len - CREDENTIAL_ID_BYTES - 1};
	if (!crypto_equal(secret, given) || !known)
		return err_set(err, ERR_UNKNOWN_KEY, "the bearer key is unknown, revoked or wrong");
	out->key = key;
	return ERR_NONE;
}

/* Who it is has been settled; keeps or gives back the credentials. */
static enum err_code settle(const struct http_request *r, enum err_code rc, struct caller *out)
{
	out->secure = r->secure;
	memcpy(out->peer.bytes, r->peer.bytes, sizeof(out->peer.bytes));
	if (rc != ERR_NONE)
		auth_release(out);
	return rc;
}

static bool is_open(struct api_loop *l, struct caller *out)
{
	*out = (struct caller){.region = l->api->parts.region};
	if (l->api->parts.keyring == NULL)
		return true;
	out->set = keyring_acquire(l->api->parts.keyring);
	return false;
}

enum err_code auth_identify(struct api_loop *l, const struct http_request *r, struct arena *a,
                            struct caller *out, struct err *err)
{
	if (is_open(l, out))
		return ERR_NONE;
	return settle(r, verify_signature(l, r, BYTES("dynamodb"), a, out, err), out);
}

enum err_code auth_identify_v1(struct api_loop *l, const struct http_request *r, struct arena *a,
                               struct caller *out, struct err *err)
{
	struct bytes bearer = BYTES(BEARER);
	struct bytes given;

	if (is_open(l, out))
		return ERR_NONE;
	given = http_header_get(r, "authorization");
	if (given.data == NULL)
		return settle(
		        r,
		        err_set(err, ERR_NO_CREDENTIAL,
		                "missing credentials: send Authorization: Bearer ID.SECRET, or sign the "
		                "request with AWS Signature Version 4 for the service \"gatehouse\""),
		        out);
	if (given.len > bearer.len && strncasecmp(given.data, bearer.data, bearer.len) == 0) {
		given = (struct bytes){given.data + bearer.len, given.len - bearer.len};
		return settle(r, verify_bearer(given, out, err), out);
	}
	return settle(r, verify_signature(l, r, BYTES("gatehouse"), a, out, err), out);
}

static bool signer_is_known(struct bytes authorization, const struct credentials *set)
{
	const struct credential *key;
	struct bytes             key_id;

	if (!sigv4_claimed_key(authorization, &key_id))
		return false;
	key = credentials_find(set, key_id);
	return key != NULL && key->active;
}

bool auth_admits(void *api, const struct http_request *r)
{
	struct bytes  given = http_header_get(r, "authorization"), bearer = BYTES(BEARER);
	struct caller who;
	struct err    err;
	bool          known;

	(void)api;
	if (is_open(r->loop_data, &who))
		return true;
	if (given.len > bearer.len && strncasecmp(given.data, bearer.data, bearer.len) == 0)
		known = verify_bearer((struct bytes){given.data + bearer.len, given.len - bearer.len}, &who,
		                      &err) == ERR_NONE;
	else
		known = given.data != NULL && signer_is_known(given, who.set);
	auth_release(&who);
	return known;
}

enum err_code auth_refused_body(struct err *err)
{
	return err_set(err, ERR_OVERLOADED,
	               "the key was not active yet when the request began; send the request again");
}

void auth_release(struct caller *c)
{
	if (c->set != NULL)
		credentials_release(c->set);
	c->set = NULL;
}
