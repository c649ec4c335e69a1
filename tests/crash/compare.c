/* Compare: the main thread's requests, and the report of what is not as it should be. */
#include <stdarg.h>
#include <stdio.h>

#include "campaign.h"
#include "json/write.h"
#include "text.h"

enum {
	DIFFERENCES_SHOWN_MAX = 20,
	SHOWN_BYTES_MAX = 600,
};

void differ(struct campaign *c, const char *format, ...)
{
	char    text[2 * SHOWN_BYTES_MAX + 256];
	va_list args;

	if (atomic_fetch_add(&c->differences, 1) >= DIFFERENCES_SHOWN_MAX)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("VIOLATION seed %llu, cycle %u (%s): %s\n", (unsigned long long)c->seed,
	       c->cycles_before + c->cycle + 1, c->ending, text);
}

static int shown(size_t len)
{
	return len > SHOWN_BYTES_MAX ? SHOWN_BYTES_MAX : (int)len;
}

void differ_item(struct campaign *c, const char *where, const struct json *found, struct bytes expected)
{
	struct json_writer writer;
	struct buf         text;

	buf_init(&text, NULL);
	json_writer_init(&writer, &text);
	json_tree(&writer, found);
	differ(c, "%s: expected %.*s\n    found %.*s", where, shown(expected.len), expected.data,
	       shown(text.len), text.data);
	buf_release(&text);
}

void note_done(struct campaign *c, const char *what)
{
	c->tally.unanswered_done++;
	if (c->graceful)
		differ(c,
		       "%s: expected what was done before a graceful stop to be answered, found it was not",
		       what);
}

bool answer_is_ok(struct worker *w, const struct answer *answer)
{
	const struct json *message = text_get(answer->body, "message");

	if (answer->status == 200 && answer->body != NULL)
		return true;
	differ(w->campaign, "%s, %s: expected the answer 200, found %d %.*s\n    %.*s", w->book->name,
	       w->operation, answer->status, message == NULL ? 0 : shown(json_text(message).len),
	       message == NULL ? "" : json_text(message).data, shown(w->body.len), w->body.data);
	return false;
}

const struct json *campaign_call(struct campaign *c, const char *operation, struct bytes body)
{
	struct answer answer;

	if (!client_call(&c->client, operation, body, &answer))
		differ(c, "%s: expected an answer, found the connection broken\n    %.*s", operation,
		       shown(body.len), body.data);
	else if (answer.status != 200 || answer.body == NULL)
		differ(c, "%s: expected the answer 200, found %d %.*s\n    %.*s", operation, answer.status,
		       shown(c->client.in.len), c->client.in.data, shown(body.len), body.data);
	else
		return answer.body;
	return NULL;
}

/* Visits the items of one page; where to go on, or NULL after the last. */
static const struct json *read_page(struct campaign *c, const char *operation, struct bytes body,
                                    void (*visit)(struct campaign *, const struct json *, void *), void *ctx)
{
	const struct json *answer = campaign_call(c, operation, body);
	const struct json *items = text_get(answer, "Items");

	if (answer == NULL)
		return NULL;
	if (items == NULL || items->type != JSON_ARRAY) {
		differ(c, "%s: expected Items, found none", operation);
		return NULL;
	}
	for (const struct json *item = json_children(items); item != NULL; item = item->next)
		visit(c, item, ctx);
	return text_get(answer, "LastEvaluatedKey");
}

void campaign_read(struct campaign *c, const char *operation, struct bytes body,
                   void (*visit)(struct campaign *c, const struct json *item, void *ctx), void *ctx)
{
	const struct json *last = NULL;
	struct json_writer writer;
	struct buf         page;

	buf_init(&page, NULL);
	do {
		buf_reset(&page);
		buf_add_bytes(&page, body);
		if (last != NULL) {
			text_add(&page, ",\"ExclusiveStartKey\":");
			json_writer_init(&writer, &page);
			json_tree(&writer, last);
		}
		text_add(&page, "}");
		last = read_page(c, operation, buf_bytes(&page), visit, ctx);
	} while (last != NULL);
	buf_release(&page);
}

bool campaign_same(struct campaign *c, const struct json *item, struct bytes expected)
{
	const struct json *tree = client_parse(&c->client, expected);

	return tree != NULL && text_same(item, tree);
}
