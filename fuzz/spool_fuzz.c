/* The spool after a crash, or after somebody wrote to it: whole frames are read, the rest is cut off or named as damage; and an attempt that
 * can be read from a record is the same after it was written again. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "service/outage.h"

static void again(struct arena *a, const struct spooled *x)
{
	struct spooled y;
	struct buf     bytes, twice;
	struct err     err;

	buf_init(&bytes, a);
	spooled_encode(&bytes, x);
	if (spooled_decode(a, buf_bytes(&bytes), &y, &err) != ERR_NONE)
		abort();
	buf_init(&twice, a);
	spooled_encode(&twice, &y);
	if (!bytes_equal(buf_bytes(&bytes), buf_bytes(&twice)))
		abort();
}

static void record(void *ctx, uint64_t number, bool done, const struct spool_record *r)
{
	struct arena   a;
	struct spooled x;
	struct err     err;

	(void)ctx;
	(void)number;
	if (r->bytes.len > SPOOL_RECORD_BYTES_MAX)
		abort();
	arena_init(&a);
	if (!done && spooled_decode(&a, r->bytes, &x, &err) == ERR_NONE)
		again(&a, &x);
	arena_release(&a);
}

static void parse(struct bytes file)
{
	struct err err;
	size_t     good, same;

	if (spool_parse(file, record, NULL, &good, &err) != ERR_NONE)
		return;
	if (good > file.len ||
	    spool_parse((struct bytes){file.data, good}, record, NULL, &same, &err) != ERR_NONE ||
	    same != good)
		abort();
}

static void put_le(char *to, uint64_t number, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		to[i] = (char)(number >> (8 * i));
}

/* As a file; as the content of a frame, whose checksum nobody guesses; and as a record. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {(const char *)data, size};
	char        *frame = malloc(SPOOL_FRAME_HEAD + size);

	parse(in);
	memcpy(frame, "GHSP", 4);
	put_le(frame + 4, size, 4);
	put_le(frame + 8, hash_bytes(HASH_KEY_STABLE, in), 8);
	if (size > 0)
		memcpy(frame + SPOOL_FRAME_HEAD, data, size);
	parse((struct bytes){frame, SPOOL_FRAME_HEAD + size});
	record(NULL, 1, false,
	       &(struct spool_record){1, {in.data, size < SPOOL_RECORD_BYTES_MAX ? size : 0}});
	free(frame);
	return 0;
}
