/* Fuzz: what is on disk. Any bytes decode or are refused; what decodes encodes to something that decodes to
 * the same; its numbers are texts that are read as the same numbers; and a number in it is counted up. */
#include <stdlib.h>

#include "item/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void numbers(const struct item *item)
{
	for (uint32_t i = 0; i < item->count; i++) {
		const struct value *v = &item->members[i].value;
		char                text[NUMBER_TEXT_MAX];
		struct number       back;
		struct err          err;

		if (v->type != VALUE_N)
			continue;
		if (number_parse((struct bytes){text, number_format(&v->number, text)}, &back, &err) !=
		            ERR_NONE ||
		    !number_equal(&v->number, &back))
			abort();
	}
}

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
	numbers(&first);
}

static bool is_whole(const struct value *v, int64_t number)
{
	int64_t found;

	return v->type == VALUE_N && number_to_i64(&v->number, &found) && found == number;
}

/* A number goes up by one, and nothing else changes: whatever the bytes are, it stays whole. */
static void count(struct arena *a, struct bytes in)
{
	struct item first, second;
	struct buf  out;
	struct err  err;
	int64_t     number;

	buf_init(&out, a);
	if (!item_count_up(&out, in, BYTES("n"), &number) || item_decode(a, in, &first, &err) != ERR_NONE)
		return;
	if (item_decode(a, buf_bytes(&out), &second, &err) != ERR_NONE || first.count != second.count)
		abort();
	for (uint32_t i = 0; i < first.count; i++) {
		const struct value *before = &first.members[i].value, *after = &second.members[i].value;
		bool                counts = bytes_equal(first.members[i].name, BYTES("n"));

		if (counts ? !is_whole(before, number - 1) || !is_whole(after, number)
		           : !value_equal_any(before, after))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a;

	arena_init(&a);
	item(&a, (struct bytes){(const char *)data, size});
	count(&a, (struct bytes){(const char *)data, size});
	arena_release(&a);
	return 0;
}
