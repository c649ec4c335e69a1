/* A document with keys. What is read must be usable: every key found by its kid, and none verifies a signature of zeros. */
#include <stdlib.h>

#include "token/jwks.h"

static struct json_reader *reader;

static void try_key(const struct jwk *key)
{
	static const char zeros[256] = {0};

	for (unsigned i = 0; i < JWS_ALGORITHM_COUNT; i++)
		if (jwk_verify(key, (enum jws_algorithm)i, BYTES("text"),
		               (struct bytes){zeros, i == JWS_ES384   ? 96
		                                     : i >= JWS_ES256 ? 64
		                                                      : 256}) == TOKEN_VALID &&
		    i != JWS_EDDSA) /* a key of small order takes zeros; whoever publishes one harms only itself */
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a;
	struct jwks *set;
	struct err   err;

	if (reader == NULL)
		reader = json_reader_open();
	arena_init(&a);
	if (jwks_read(reader, &a, (struct bytes){(const char *)data, size}, &set, &err) == ERR_NONE) {
		if (jwks_count(set) == 0 || jwks_count(set) > JWKS_KEYS_MAX)
			abort();
		if (jwks_find(set, BYTES("")) != NULL)
			try_key(jwks_find(set, BYTES("")));
		jwks_drop(set);
	}
	arena_release(&a);
	return 0;
}
