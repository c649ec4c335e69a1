/* Answers of Expo's push API: whatever comes, an answer has a ticket per recipient or is none, and texts are bounded. */
#include <stdlib.h>

#include "outbound/expo.h"

static void check_answer(const struct expo_answer *r, uint32_t recipients)
{
	if ((r->end == EXPO_ANSWERED && r->ticket_count != recipients) ||
	    r->project_count > EXPO_PROJECTS_MAX || r->code.len > EXPO_TEXT_BYTES_MAX)
		abort();
	for (uint32_t i = 0; i < r->ticket_count; i++)
		if (r->tickets[i].id.len > EXPO_TEXT_BYTES_MAX ||
		    r->tickets[i].error.len > EXPO_TEXT_BYTES_MAX)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int   statuses[] = {200, 400, 429, 502};
	struct bytes       ids[] = {BYTES("a"), BYTES("b")}, text;
	struct arena       a;
	struct expo_answer r;
	uint32_t           recipients;

	if (size < 1)
		return 0;
	text = (struct bytes){(const char *)data + 1, size - 1};
	recipients = 1 + data[0] % 4;
	arena_init(&a);
	r = expo_read(statuses[data[0] / 4 % 4], text, recipients, &a);
	check_answer(&r, recipients);
	expo_read_receipts(200, text, ids, 2, &a);
	arena_release(&a);
	return 0;
}
