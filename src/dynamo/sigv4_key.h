/* SigV4 key: a secret becomes the key for one day, region and service; and the cache of those. */
#ifndef DYNAMO_SIGV4_KEY_H
#define DYNAMO_SIGV4_KEY_H

#include "base/crypto.h"
#include "dynamo/sigv4_parse.h"

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
