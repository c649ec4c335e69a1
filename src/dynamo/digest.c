/* Digest: the one file here that knows a crypto library. */
#include "dynamo/digest.h"

#include <openssl/sha.h>

#include "json/write.h"

_Static_assert((int)DIGEST_BYTES == SHA256_DIGEST_LENGTH, "SHA-256");

void digest_json(struct arena *a, const struct json *tree, uint8_t digest[DIGEST_BYTES])
{
	struct buf         text;
	struct json_writer w;

	buf_init(&text, a);
	json_writer_init(&w, &text);
	json_tree(&w, tree);
	SHA256((const unsigned char *)text.data, text.len, digest);
}
