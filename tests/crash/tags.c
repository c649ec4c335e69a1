/* Tags: each worker keeps one tag of a table counting up. This is a change of the catalog, and wakes the
 * server's housekeeping (sweeping of expired rows), so that the end also comes in the middle of that. */
#include <stdio.h>

#include "campaign.h"
#include "text.h"

#define TAGGED_ARN "arn:aws:dynamodb:local:000000000000:table/counters"

static void tags_compose(struct worker *w)
{
	w->operation = "TagResource";
	text_add(&w->body,
	         "{\"ResourceArn\":\"" TAGGED_ARN "\",\"Tags\":[{\"Key\":\"w%u\",\"Value\":\"%llu\"}]}",
	         w->id, (unsigned long long)w->must.tag + 1);
}

static void tags_settle(struct worker *w, const struct answer *answer)
{
	if (answer != NULL && answer_is_ok(w, answer))
		w->must.tag++;
}

static const struct json *find_tag(const struct json *answer, unsigned worker)
{
	const struct json *tags = text_get(answer, "Tags");
	char               name[16];

	snprintf(name, sizeof(name), "w%u", worker);
	for (const struct json *t = tags == NULL ? NULL : json_children(tags); t != NULL; t = t->next) {
		const struct json *key = text_get(t, "Key");

		if (key != NULL && key->type == JSON_STRING && bytes_is(json_text(key), name))
			return text_get(t, "Value");
	}
	return NULL;
}

static void tags_verify(struct campaign *c, bool whole)
{
	const struct json *answer =
	        campaign_call(c, "ListTagsOfResource", BYTES("{\"ResourceArn\":\"" TAGGED_ARN "\"}"));

	(void)whole;
	for (unsigned i = 0; i < WORKERS; i++) {
		struct worker     *w = &c->workers[i];
		const struct json *value = find_tag(answer, i);
		uint64_t           found = 0;

		if (value != NULL && !bytes_to_u64(json_text(value), UINT64_MAX, &found))
			differ(c, "tag w%u: expected a number, found \"%.*s\"", i,
			       BYTES_ARG(json_text(value)));
		if (found != w->must.tag && !(w->book == &book_tags && found == w->must.tag + 1))
			differ(c, "tag w%u: expected %llu, found %llu", i, (unsigned long long)w->must.tag,
			       (unsigned long long)found);
		if (found == w->must.tag + 1)
			note_done(c, "tags");
		w->must.tag = found;
	}
}

static void tags_lie(struct worker *w)
{
	w->must.tag += 2;
}

const struct book book_tags = {"tags", 1, NULL, tags_compose, tags_settle, tags_verify, tags_lie};
