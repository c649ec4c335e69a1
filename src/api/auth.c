/* Auth: SigV4 over the headers as they came; bearer keys; and what a connection keeps, which is the use of a key that it
 * counts for. */
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
static enum err_code verify_signature(struct http_request *r, struct bytes service, struct caller *out,
                                      struct err *err)
{
	struct api_loop      *l = r->loop_data;
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

	keys.ctx = (void *)(uintptr_t)out->set;
	request.headers = headers_of(r, &r->arena);
	if (sigv4_verify(&request, &keys, &r->arena, &who, err) != ERR_NONE)
		return err->code;
	if (who.token.len > 0) /* there are no sessions here: a token belongs to none of our keys */
		return err_set(err, ERR_UNKNOWN_KEY, MSG_SIGN_KEY);
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

/* Fills in the rest; if nobody was found, gives the credentials back. */
static enum err_code identified(const struct http_request *r, enum err_code rc, struct caller *out)
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

enum err_code auth_identify(struct http_request *r, struct caller *out, struct err *err)
{
	if (is_open(r->loop_data, out))
		return ERR_NONE;
	return identified(r, verify_signature(r, BYTES("dynamodb"), out, err), out);
}

static enum err_code identify_v1(struct http_request *r, struct caller *out, struct err *err)
{
	struct bytes bearer = BYTES(BEARER), given = http_header_get(r, "authorization");

	if (given.data == NULL)
		return err_set(err, ERR_NO_CREDENTIAL,
		               "missing credentials: send Authorization: Bearer ID.SECRET, or sign the "
		               "request with AWS Signature Version 4 for the service \"gatehouse\"");
	if (given.len <= bearer.len || strncasecmp(given.data, bearer.data, bearer.len) != 0)
		return verify_signature(r, BYTES("gatehouse"), out, err);
	return verify_bearer((struct bytes){given.data + bearer.len, given.len - bearer.len}, out, err);
}

enum err_code auth_identify_v1(struct http_request *r, struct caller *out, struct err *err)
{
	return is_open(r->loop_data, out) ? ERR_NONE : identified(r, identify_v1(r, out, err), out);
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

/* ---- the limits of a key ---- */

/* False if the key may have no more. Then the connection counts for no one, and ends. */
static bool claim(struct http_request *r, const struct credential *key)
{
	struct key_use *held = http_conn_data(r), *now = key->use;

	if (held == now)
		return true;
	if (held != NULL)
		key_use_disconnect(held);
	if (!key_use_connect(now, &key->ceilings))
		now = NULL;
	http_conn_keep(r, now);
	return now != NULL;
}

enum err_code key_limits_check(struct http_request *r, const struct caller *who, struct err *err)
{
	struct api_loop         *l = r->loop_data;
	const struct credential *key = who->key;

	if (key == NULL)
		return ERR_NONE;
	if (!claim(r, key)) {
		metric_add(&l->api->refused_connections, 1);
		return err_set(err, ERR_THROTTLED,
		               "The key %.*s may have at most %u connections open. Close some, or raise the "
		               "limit with `gatehouse key limit`.",
		               BYTES_ARG(key->name), key->ceilings.connections_max);
	}
	if (!key_use_request(key->use, &key->ceilings, r->received_us)) {
		metric_add(&l->api->refused_requests, 1);
		return err_set(err, ERR_THROTTLED,
		               "The key %.*s may make at most %u requests per second. Slow down, or raise "
		               "the limit with `gatehouse key limit`.",
		               BYTES_ARG(key->name), key->ceilings.requests_per_second_max);
	}
	return ERR_NONE;
}

bool key_limits_end(const struct http_request *r, enum err_code outcome)
{
	return outcome == ERR_THROTTLED && http_conn_data(r) == NULL;
}

void key_limits_conn_end(void *api, void *use)
{
	(void)api;
	key_use_disconnect(use);
}
