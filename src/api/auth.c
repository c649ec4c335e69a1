/* Auth: SigV4 over the headers as they came; bearer keys; what a connection keeps, which is the use of a key that it
 * counts for; and whom a server without authentication answers. */
#define _GNU_SOURCE /* memmem */
#include "api/auth.h"

#include <arpa/inet.h>
#include <assert.h>
#include <string.h>
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
	                                 .body_sha256 = r->body_sha256,
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

enum err_code auth_identify_lambda(struct http_request *r, struct caller *out, struct err *err)
{
	if (is_open(r->loop_data, out))
		return ERR_NONE;
	return identified(r, verify_signature(r, BYTES("lambda"), out, err), out);
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
	if (!key_use_connect(now, &key->limits))
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
		return err_set(err, ERR_CALLER_THROTTLED,
		               "The key %.*s may have at most %u connections open. Close some, or raise the "
		               "limit with `gatehouse key limit`.",
		               BYTES_ARG(key->name), key->limits.connections_max);
	}
	if (!key_use_request(key->use, &key->limits, r->received_us)) {
		metric_add(&l->api->refused_requests, 1);
		return err_set(err, ERR_CALLER_THROTTLED,
		               "The key %.*s may make at most %u requests per second. Slow down, or raise "
		               "the limit with `gatehouse key limit`.",
		               BYTES_ARG(key->name), key->limits.requests_per_second_max);
	}
	return ERR_NONE;
}

bool key_limits_end(const struct http_request *r, enum err_code outcome)
{
	return outcome == ERR_CALLER_THROTTLED && http_conn_data(r) == NULL;
}

void key_limits_conn_end(void *api, void *use)
{
	(void)api;
	key_use_disconnect(use);
}

/* ---- a server without authentication ----
 *
 *   Host            must be localhost, 127.0.0.0/8, [::1] or one of --host-names, with any port: DNS rebinding
 *   Origin          if there is one, must be http(s)://HOST, or a page of one of --host-names: forms, fetch
 *   Sec-Fetch-Site  if there is one and no Origin, must be same-origin or none: links, images
 *
 * It listens on loopback only (server/serve.c), so that the address it listens on is among these. */

enum { HOST_SHOWN_MAX = 64 };

static bool equal_folded(struct bytes a, struct bytes b)
{
	return a.len == b.len && strncasecmp(a.data, b.data, a.len) == 0;
}

static struct bytes without(struct bytes text, size_t first)
{
	return (struct bytes){text.data + first, text.len - first};
}

static bool is_name(struct bytes text, const char *others)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    (c == '\0' || strchr(others, c) == NULL))
			return false;
	}
	return text.len > 0;
}

/* Without its port. */
static struct bytes name_of(struct bytes host)
{
	size_t len = host.len;

	while (len > 0 && host.data[len - 1] >= '0' && host.data[len - 1] <= '9')
		len--;
	return len > 1 && host.data[len - 1] == ':' ? (struct bytes){host.data, len - 1} : host;
}

static bool is_loopback(struct bytes name)
{
	char           text[INET_ADDRSTRLEN] = "";
	struct in_addr v4;

	if (equal_folded(name, BYTES("localhost")) || bytes_is(name, "[::1]"))
		return true;
	if (name.len >= sizeof(text))
		return false;
	memcpy(text, name.data, name.len);
	return inet_pton(AF_INET, text, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

static struct bytes next_name(struct bytes *rest)
{
	const char  *comma = memchr(rest->data, ',', rest->len);
	struct bytes name = {rest->data, comma == NULL ? rest->len : (size_t)(comma - rest->data)};

	*rest = without(*rest, name.len + (comma != NULL));
	return name;
}

static bool is_listed(const struct api *api, struct bytes name)
{
	struct bytes rest = api->parts.host_names;

	while (rest.len > 0)
		if (equal_folded(next_name(&rest), name))
			return true;
	return false;
}

enum err_code origin_names_check(struct bytes names, struct err *err)
{
	struct bytes rest = names;

	while (rest.len > 0)
		if (!is_name(next_name(&rest), "-._"))
			return err_set(err, ERR_INVALID,
			               "host-names: must be host names, without port, separated by commas");
	if (names.len > HOST_NAMES_BYTES_MAX)
		return err_set(err, ERR_INVALID, "host-names: must have at most %d bytes",
		               HOST_NAMES_BYTES_MAX);
	return ERR_NONE;
}

/* As much of it as an error may repeat. */
static struct bytes shown(struct bytes sent)
{
	return is_name(sent, "-._:/[]") && sent.len <= HOST_SHOWN_MAX ? sent : BYTES("(not shown)");
}

/* A page of this very server, or of a name that was allowed. */
static bool origin_fits(const struct api *api, const struct http_request *r, struct bytes origin,
                        struct bytes host)
{
	struct bytes scheme = r->secure ? BYTES("https://") : BYTES("http://");
	const char  *slashes = memmem(origin.data, origin.len, "://", 3);

	if (bytes_starts_with(origin, scheme) && equal_folded(without(origin, scheme.len), host))
		return true;
	return slashes != NULL &&
	       is_listed(api, name_of(without(origin, (size_t)(slashes - origin.data) + 3)));
}

enum err_code origin_check(const struct api *api, const struct http_request *r, struct err *err)
{
	struct bytes host, origin, site;

	if (api->parts.keyring != NULL)
		return ERR_NONE;
	host = http_header_get(r, "host");
	origin = http_header_get(r, "origin");
	site = http_header_get(r, "sec-fetch-site");
	if (host.data != NULL && !is_loopback(name_of(host)) && !is_listed(api, name_of(host)))
		return err_set(
		        err, ERR_ORIGIN,
		        "Host: %.*s is not a name of this server. Without authentication it answers to "
		        "localhost, 127.0.0.1, [::1] and the names in the setting host-names",
		        BYTES_ARG(shown(host)));
	if (origin.data != NULL && !origin_fits(api, r, origin, host))
		return err_set(err, ERR_ORIGIN,
		               "Origin: %.*s is the page of another site. Without authentication, only "
		               "programs and pages from hosts in the setting host-names are answered",
		               BYTES_ARG(shown(origin)));
	if (origin.data == NULL && site.data != NULL && !bytes_is(site, "same-origin") &&
	    !bytes_is(site, "none"))
		return err_set(err, ERR_ORIGIN,
		               "Sec-Fetch-Site: a browser sent this for the page of another site. Without "
		               "authentication, only programs and pages from hosts in the setting host-names "
		               "are answered");
	return ERR_NONE;
}
