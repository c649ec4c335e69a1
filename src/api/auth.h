/* Auth: who sends a request, by a signature (SigV4) or, under /v1, a bearer key. Both are verified against the
 * credentials in force at that moment (access/). */
#ifndef API_AUTH_H
#define API_AUTH_H

#include "access/credential.h"
#include "api/loop.h"
#include "dynamo/sigv4.h"

/* Who called. With no authentication (no keyring) the key is NULL and everything is allowed. */
struct caller {
	const struct credentials *set; /* a reference: keeps the key alive */
	const struct credential  *key;
	struct bytes              region; /* of this server */
	bool                      secure; /* came over TLS */
	struct access_address     peer;
};

/* ERR_NO_CREDENTIAL, ERR_SIGNATURE_INCOMPLETE, ERR_UNKNOWN_KEY, ERR_SIGNATURE: see sigv4_verify. On success
 * the caller must be released. */
enum err_code auth_identify(struct api_loop *l, const struct http_request *r, struct arena *a,
                            struct caller *out, struct err *err);
void          auth_release(struct caller *c);

/* The same under /v1: signatures are for the service "gatehouse"; Authorization: Bearer ID.SECRET will do too. */
enum err_code auth_identify_v1(struct api_loop *l, const struct http_request *r, struct arena *a,
                               struct caller *out, struct err *err);

/* May this request have a large body? Only the head has come: a bearer key is verified, of a signature only the key id is
 * looked up. */
bool auth_admits(void *api, const struct http_request *r);

/* The answer to one that is known by now, but was not when its body was refused. */
enum err_code auth_refused_body(struct err *err);

#endif
