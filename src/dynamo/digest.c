/* Digest: the tree is written as JSON again, and the text is what is hashed. */
#include "dynamo/digest.h"

#include "base/crypto.h"
#include "json/write.h"

_Static_assert((int)DIGEST_BYTES == (int)SHA256_BYTES, "SHA-256");

void digest_json(struct arena *a, const struct json *tree, uint8_t digest[DIGEST_BYTES])
{
	struct buf         text;
	struct json_writer w;

	buf_init(&text, a);
	json_writer_init(&w, &text);
	json_tree(&w, tree);
	sha256(buf_bytes(&text), digest);
}
