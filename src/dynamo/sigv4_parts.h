/* SigV4 parts: what verifying and signing share. Internal to dynamo/. Only the last section knows a secret. */
#ifndef DYNAMO_SIGV4_PARTS_H
#define DYNAMO_SIGV4_PARTS_H

#include "base/buf.h"
#include "base/crypto.h"
#include "base/date.h"
#include "dynamo/sigv4.h"

#define SIGV4_ALGORITHM  "AWS4-HMAC-SHA256"
#define SIGV4_TERMINATOR "aws4_request"

enum { SIGV4_DAY_CHARS = 8 }; /* of a date, as in a credential's scope */

/* ---- what was sent (sigv4_parse.c) ---- */

/* The parts of
 *   AWS4-HMAC-SHA256 Credential=AKID/20150830/eu-west-1/dynamodb/aws4_request, SignedHeaders=…, Signature=…
 * as found: data is NULL where a parameter is missing. */
struct sigv4_authorization {
	struct bytes algorithm;
	struct bytes credential;
	struct bytes signed_headers;
	struct bytes signature;
};

/* Splits it. ERR_SIGNATURE_INCOMPLETE if it is too long, or what follows the algorithm is not name=value
 * pairs separated by white space, one comma, or both; or a pair is unknown or there twice. */
enum err_code sigv4_authorization_read(struct bytes value, struct sigv4_authorization *out, struct err *err);

struct sigv4_scope {
	struct bytes key_id;
	struct bytes text; /* all that follows the key id: date/region/service/aws4_request */
	struct bytes date, region, service, terminator;
};

/* ERR_SIGNATURE_INCOMPLETE unless it has five parts, key id and scope within their limits. */
enum err_code sigv4_scope_read(struct bytes credential, struct sigv4_scope *out, struct err *err);

/* The names in a SignedHeaders list, checked to be lower-case tokens in strict order, so that the list as
 * sent is the list in canonical form. */
struct sigv4_names {
	struct bytes text;
	unsigned     count;
	struct bytes names[SIGV4_SIGNED_MAX];
};

enum err_code sigv4_names_read(struct bytes text, struct sigv4_names *out, struct err *err);

bool sigv4_names_hold(const struct sigv4_names *names, struct bytes header_name);

/* The host is signed, and every header that was sent and changes what is asked: x-amz-*, x-gatehouse-*, if-match,
 * if-none-match, idempotency-key. Every name in the list was sent. */
enum err_code sigv4_names_cover(const struct sigv4_names *names, const struct sigv4_request *r,
                                struct err *err);

/* As much of it as an error text may repeat. sigv4.h (4) */
static inline struct bytes sigv4_shown(struct bytes sent)
{
	return (struct bytes){sent.data, sent.len < SIGV4_SHOWN_MAX ? sent.len : SIGV4_SHOWN_MAX};
}

/* ---- the text that is signed (sigv4_sign.c) ---- */

/* Appends the canonical request. Every name was sent (sigv4_names_cover). The buf needs an arena: it is
 * scratch space too. ERR_SIGNATURE_INCOMPLETE past SIGV4_QUERY_MAX; ERR_SIGNATURE if the method is no method.
 */
enum err_code sigv4_canonical_write(struct buf *out, const struct sigv4_request *r,
                                    const struct sigv4_names *names, const char body_hex[SHA256_HEX_CHARS],
                                    struct err *err);

/* Appends the string to sign. `scope` is date/region/service/aws4_request. */
void sigv4_string_write(struct buf *out, const char date[DATE_BASIC_CHARS], struct bytes scope,
                        struct bytes canonical_request);

void sigv4_body_hex(const struct sigv4_request *r, char hex[SHA256_HEX_CHARS]);

/* ---- keys (sigv4.c) ---- */

void sigv4_key_derive(struct hmac_key *key, struct bytes secret, const struct sigv4_scope *scope);

/* The key that was kept for this key id and scope, if it was made from this very secret; else NULL. Valid
 * until the next call of sigv4_key_keep. */
const struct hmac_key *sigv4_key_find(struct sigv4_key_cache *c, const struct sigv4_scope *scope,
                                      struct bytes secret);

/* Keeps it, in place of an older one of the same id and scope, or of the one in its set that was least lately
 * used. */
void sigv4_key_keep(struct sigv4_key_cache *c, const struct sigv4_scope *scope, struct bytes secret,
                    const struct hmac_key *key);

#endif
