/* Random: a store of bytes for each thread. See random.h. */
#include "base/random.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/crypto.h"
#include "base/log.h"

/* The last `left` bytes have not been given yet. */
struct random_store {
	uint8_t bytes[RANDOM_KEPT_BYTES];
	size_t  left;
};

/* (2) The system gives up to 256 bytes whole, and more unless a signal comes. */
static void from_system(uint8_t *out, size_t len)
{
	while (len > 0) {
		ssize_t got = getrandom(out, len < 256 ? len : 256, 0);

		if (got <= 0) {
			log_error("cannot get random bytes from the system");
			abort();
		}
		out += got;
		len -= (size_t)got;
	}
}

void random_bytes(void *out, size_t len)
{
	static _Thread_local struct random_store store;
	uint8_t                                 *from;

	if (len > RANDOM_KEPT_BYTES) {
		from_system(out, len);
		return;
	}
	if (len > store.left) {
		from_system(store.bytes, sizeof(store.bytes));
		store.left = sizeof(store.bytes);
	}
	from = store.bytes + sizeof(store.bytes) - store.left;
	memcpy(out, from, len);
	crypto_wipe(from, len); /* (1) */
	store.left -= len;
}
