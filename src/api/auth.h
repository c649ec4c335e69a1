/* Auth: who sends a request, by a signature (SigV4) or, under /v1, a bearer key. Both are verified against the
 * credentials in force at that moment (access/). And whether its key has room for one more. */
#ifndef API_AUTH_H
#define API_AUTH_H

#include "access/credential.h"
#include "api/api.h"
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
enum err_code auth_identify(struct http_request *r, struct caller *out, struct err *err);
void          auth_release(struct caller *c);

/* The same under /v1: signatures are for the service "gatehouse"; Authorization: Bearer ID.SECRET will do too. */
enum err_code auth_identify_v1(struct http_request *r, struct caller *out, struct err *err);

/* The same for a call of AWS Lambda's: signatures are for the service "lambda". */
enum err_code auth_identify_lambda(struct http_request *r, struct caller *out, struct err *err);

/* May this request have a large body? Only the head has come: a bearer key is verified, of a signature only the key id is
 * looked up. */
bool auth_admits(void *api, const struct http_request *r);

/* The answer to one that is known by now, but was not when its body was refused. */
enum err_code auth_refused_body(struct err *err);

/* ---- the limits of a key (access/credential.h), held against the requests that it signs ----
 *
 * A connection counts for the key that signed its last request, from the first such request until the
 * connection ends; one request is under way on it at a time, so a limit on connections is one on requests
 * under way too. Only what a signature has proven is counted: nobody can use up another's share. */

/* ERR_CALLER_THROTTLED, which SDKs wait and try again after, if the caller's key is at a limit. Before anything
 * of the request is decoded. */
enum err_code key_limits_check(struct http_request *r, const struct caller *who, struct err *err);

/* Must the connection end with this answer? It does if the key may not have it. */
bool key_limits_end(const struct http_request *r, enum err_code outcome);

/* http_handler's conn_end. */
void key_limits_conn_end(void *api, void *use);

/* ---- who may speak to a server without authentication. Whoever can reach its port may do anything, and a web page in
 * a browser on the same machine can: by sending it a form (another Origin), or by having its own name resolve to
 * 127.0.0.1 (another Host). Programs send no Origin, and say whom they mean in Host. */

enum { HOST_NAMES_BYTES_MAX = 1024 };

/* ERR_ORIGIN, naming what is foreign and the setting that allows it. ERR_NONE if there is authentication. */
enum err_code origin_check(const struct api *api, const struct http_request *r, struct err *err);

/* ERR_INVALID unless it is host names, separated by commas, of HOST_NAMES_BYTES_MAX bytes at most. */
enum err_code origin_names_check(struct bytes names, struct err *err);

#endif
