/* Counters: a worker owns a few and adds 1. Every answer must be exactly one more than the last, and after a
 * restart the counter is what was last acknowledged, or one more where the answer was lost. */
#include <stdio.h>

#include "campaign.h"
#include "text.h"

static void counters_setup(struct campaign *c)
{
	campaign_call(c, "CreateTable",
	              BYTES("{\"TableName\":\"counters\",\"BillingMode\":\"PAY_PER_REQUEST\","
	                    "\"AttributeDefinitions\":[{\"AttributeName\":\"id\",\"AttributeType\":\"S\"}],"
	                    "\"KeySchema\":[{\"AttributeName\":\"id\",\"KeyType\":\"HASH\"}]}"));
}

static void counters_compose(struct worker *w)
{
	w->counter = (unsigned)random_below(&w->random, COUNTERS);
	w->operation = "UpdateItem";
	text_add(&w->body,
	         "{\"TableName\":\"counters\",\"Key\":{\"id\":{\"S\":\"w%u-%u\"}},"
	         "\"UpdateExpression\":\"ADD hits "
	         ":one\",\"ExpressionAttributeValues\":{\":one\":{\"N\":\"1\"}},"
	         "\"ReturnValues\":\"UPDATED_NEW\"}",
	         w->id, w->counter);
}

static void counters_settle(struct worker *w, const struct answer *answer)
{
	uint64_t *value = &w->must.counters[w->counter];
	int64_t   found;

	if (answer == NULL || !answer_is_ok(w, answer))
		return;
	++*value;
	found = text_number(text_get(answer->body, "Attributes"), "hits");
	if (found != (int64_t)*value)
		differ(w->campaign, "counter w%u-%u: expected the answer %llu, found %lld", w->id, w->counter,
		       (unsigned long long)*value, (long long)found);
}

/* ---- comparing ---- */

struct found {
	int64_t values[WORKERS][COUNTERS];
};

static void notice(struct campaign *c, const struct json *item, void *ctx)
{
	struct found *found = ctx;
	struct bytes  id = text_attribute(item, "id");
	char          key[32] = "";
	unsigned      worker, counter;

	if (id.len < sizeof(key))
		memcpy(key, id.data, id.len);
	if (sscanf(key, "w%u-%u", &worker, &counter) != 2 || worker >= WORKERS || counter >= COUNTERS)
		differ_item(c, "counters", item, BYTES("no such item: nobody wrote it"));
	else
		found->values[worker][counter] = text_number(item, "hits");
}

static void counters_verify(struct campaign *c, bool whole)
{
	struct found found = {0};

	(void)whole;
	campaign_read(c, "Scan", BYTES("{\"TableName\":\"counters\",\"ConsistentRead\":true"), notice,
	              &found);
	for (unsigned i = 0; i < WORKERS * COUNTERS; i++) {
		struct worker *w = &c->workers[i / COUNTERS];
		uint64_t      *value = &w->must.counters[i % COUNTERS];
		bool           doubt = w->book == &book_counters && w->counter == i % COUNTERS;
		uint64_t       now = (uint64_t)found.values[w->id][i % COUNTERS];

		if (now != *value && !(doubt && now == *value + 1))
			differ(c, "counter w%u-%u: expected %llu%s, found %llu", w->id, i % COUNTERS,
			       (unsigned long long)*value, doubt ? " or one more" : "",
			       (unsigned long long)now);
		if (doubt && now == *value + 1)
			note_done(c, "counters");
		*value = now;
	}
}

/* More than one off, since one may be in doubt. */
static void counters_lie(struct worker *w)
{
	w->must.counters[0] += 2;
}

const struct book book_counters = {
        "counters", 30, counters_setup, counters_compose, counters_settle, counters_verify, counters_lie};
