/* SigV4 parse: what an Authorization header says, and whether its list of signed headers covers the request.
 * Nothing here knows a secret. */
#ifndef DYNAMO_SIGV4_PARSE_H
#define DYNAMO_SIGV4_PARSE_H

#include "dynamo/sigv4.h"

/* The parts of
 *   AWS4-HMAC-SHA256 Credential=AKID/20150830/eu-west-1/dynamodb/aws4_request, SignedHeaders=…, Signature=…
 * as found: data is NULL where a parameter is missing. */
struct sigv4_authorization {
	struct bytes algorithm;
	struct bytes credential;
	struct bytes signed_headers;
	struct bytes signature;
};

/* Is it a Signature Version 4 at all, of whatever algorithm? */
bool sigv4_authorization_is(struct bytes value);

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

bool sigv4_name_folds_to(struct bytes lower, const char *name);

/* Header names are equal whatever their case; `lower` is in lower case already. Mostly the lengths tell. */
static inline bool sigv4_name_equal(struct bytes lower, struct bytes name)
{
	return lower.len == name.len && sigv4_name_folds_to(lower, name.data);
}

#endif
