/* Auth: SigV4 over the headers as they came. */
#include "api/auth.h"

#include "item/messages.h"

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

enum err_code auth_identify(struct api_loop *l, const struct http_request *r, struct arena *a,
                            struct caller *out, struct err *err)
{
	struct sigv4_request  request = {.method = BYTES("POST"),
	                                 .path = r->path,
	                                 .query = r->query,
	                                 .header_count = r->header_count,
	                                 .body = r->body,
	                                 .service = BYTES("dynamodb")};
	struct sigv4_keyring  keys = {.find_secret = find_secret, .cache = l->signatures};
	struct sigv4_identity who;

	*out = (struct caller){0};
	if (l->api->parts.keyring == NULL)
		return ERR_NONE;
	out->set = keyring_acquire(l->api->parts.keyring);
	keys.ctx = (void *)(uintptr_t)out->set;
	request.headers = headers_of(r, a);
	err->code = ERR_NONE;
	if (sigv4_verify(&request, &keys, clock_wall_us(l->api->parts.clock), a, &who, err) == ERR_NONE &&
	    who.token.len > 0) /* there are no sessions here: a token belongs to none of our keys */
		err_set(err, ERR_UNKNOWN_KEY, MSG_SIGN_KEY);
	if (err->code != ERR_NONE) {
		auth_release(out);
		return err->code;
	}
	out->key = credentials_find(out->set, who.key_id);
	out->region = who.region;
	out->secure = r->secure;
	return ERR_NONE;
}

void auth_release(struct caller *c)
{
	if (c->set != NULL)
		credentials_release(c->set);
	c->set = NULL;
}
