/* Fuzz: what is on disk. Any bytes decode or are refused; what decodes encodes to something that decodes to
 * the same. */
#include <stdlib.h>

#include "item/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void item(struct arena *a, struct bytes in)
{
	struct item first, second;
	uint32_t    hour = item_lapse(in);
	struct buf  out;
	struct err  err;

	if (item_decode(a, in, &first, &err) != ERR_NONE)
		return;
	buf_init(&out, a);
	if (hour != 0)
		item_encode_lapsing(&out, hour, &first);
	else
		item_encode(&out, &first);
	if (item_lapse(buf_bytes(&out)) != hour ||
	    item_decode(a, buf_bytes(&out), &second, &err) != ERR_NONE || !item_equal(&first, &second))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a;

	arena_init(&a);
	item(&a, (struct bytes){(const char *)data, size});
	arena_release(&a);
	return 0;
}
