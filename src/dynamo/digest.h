/* Digest: SHA-256 of a part of a request, to tell a retry from another request under the same token. */
#ifndef DYNAMO_DIGEST_H
#define DYNAMO_DIGEST_H

#include "json/json.h"

enum { DIGEST_BYTES = 32 };

/* Of the tree, whatever its white space and escapes were. The arena is scratch space. */
void digest_json(struct arena *a, const struct json *tree, uint8_t digest[DIGEST_BYTES]);

#endif
