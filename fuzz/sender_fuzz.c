/* Answers of SQS and EventBridge to a batch: whatever comes, each event has one result, only what the answer names as taken is SENT, and
 * error texts hold nothing that is not a known code. */
#include <stdlib.h>

#include "outbound/eventbridge.h"
#include "outbound/sqs.h"

static void check(const struct sender_event *e, const struct aws_answer *answer)
{
	if (e->end > SENDER_GONE || (e->end == SENDER_SENT) != (e->error[0] == '\0'))
		abort();
	if (e->end == SENDER_SENT && answer->http.status != 200)
		abort();
	for (const char *c = e->error; *c != '\0'; c++)
		if (!ascii_is_alphanumeric(*c) && *c != ' ' && *c != '\'')
			abort();
}

static void read_as(const struct aws_batch_kind *kind, struct bytes text, int status, uint32_t count)
{
	struct sender_event events[AWS_BATCH_EVENTS_MAX] = {0}, *list[AWS_BATCH_EVENTS_MAX];
	struct aws_answer   answer = {.http = {.status = status, .body = text}};
	struct arena        a;

	arena_init(&a);
	answer.type = aws_error_type(&answer.http, &a);
	for (uint32_t i = 0; i < count; i++)
		list[i] = &events[i];
	aws_batch_read(kind, &answer, list, count, &a);
	for (uint32_t i = 0; i < count; i++)
		check(&events[i], &answer);
	arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int statuses[] = {200, 400, 413, 503};
	struct bytes     text;
	uint32_t         count;

	if (size < 1)
		return 0;
	text = (struct bytes){(const char *)data + 1, size - 1};
	count = 1 + data[0] % AWS_BATCH_EVENTS_MAX;
	read_as(&sqs_batch, text, statuses[data[0] / 64], count);
	read_as(&eventbridge_batch, text, statuses[data[0] / 64], count);
	return 0;
}
