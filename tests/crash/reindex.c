/* Reindex: a global index on the notes is made and taken away again under load, so that the end also comes
 * while it is being filled. What UpdateTable acknowledged holds after a restart: an index that was asked for
 * becomes active without being asked for again, and then has exactly one entry for each note with a color. */
#include <stdlib.h>
#include <time.h>

#include "series.h"
#include "text.h"

enum {
	ACTIVE_POLL_US = 2000,
	ACTIVE_POLLS_MAX = 10000,
};

#define INDEX_CREATE                                                                                         \
	"{\"TableName\":\"notes\",\"AttributeDefinitions\":[{\"AttributeName\":\"color\","                   \
	"\"AttributeType\":\"S\"}],\"GlobalSecondaryIndexUpdates\":[{\"Create\":{\"IndexName\":\"by-"        \
	"color\","                                                                                           \
	"\"KeySchema\":[{\"AttributeName\":\"color\",\"KeyType\":\"HASH\"}],"                                \
	"\"Projection\":{\"ProjectionType\":\"KEYS_ONLY\"}}}]}"
#define INDEX_DELETE                                                                                         \
	"{\"TableName\":\"notes\",\"GlobalSecondaryIndexUpdates\":[{\"Delete\":{\"IndexName\":\"by-color\"}" \
	"}]}"

void reindex_change(struct campaign *c)
{
	if (!client_open(&c->client, c->server.port)) {
		differ(c, "expected a connection to the server under load, found none");
		return;
	}
	campaign_call(c, "UpdateTable", c->has_index ? BYTES(INDEX_DELETE) : BYTES(INDEX_CREATE));
	c->has_index = !c->has_index;
	c->index_changed = true;
	client_close(&c->client);
}

/* ---- comparing ---- */

/* The status of the index, or "" if there is none. */
static struct bytes index_status(struct campaign *c)
{
	const struct json *answer = campaign_call(c, "DescribeTable", BYTES("{\"TableName\":\"notes\"}"));
	const struct json *indexes = text_get(text_get(answer, "Table"), "GlobalSecondaryIndexes");
	const struct json *status = indexes == NULL || indexes->count == 0
	                                    ? NULL
	                                    : text_get(json_children(indexes), "IndexStatus");

	return status == NULL ? BYTES("") : json_text(status);
}

/* Waits while it is filled. */
static struct bytes index_status_settled(struct campaign *c)
{
	const struct timespec poll = {.tv_nsec = ACTIVE_POLL_US * 1000};
	struct bytes          status = index_status(c);

	c->tally.indexes_filling += bytes_is(status, "CREATING");
	for (int i = 0; i < ACTIVE_POLLS_MAX && bytes_is(status, "CREATING"); i++) {
		nanosleep(&poll, NULL);
		status = index_status(c);
	}
	return status;
}

static void add_entry(struct buf *out, const struct place *p)
{
	text_add(out, "{");
	series_add_key(out, p);
	note_add_color(out, p);
	text_add(out, "}");
}

static void notice(struct campaign *c, const struct json *item, void *ctx)
{
	uint64_t    *entries = ctx;
	struct buf   expected;
	struct place p;

	++*entries;
	if (!series_place(c, SERIES_NOTES, item, &p)) {
		differ_item(c, "notes by-color", item, BYTES("no such item: nobody wrote it"));
		return;
	}
	buf_init(&expected, &c->client.arena);
	add_entry(&expected, &p);
	if (!note_has_color(&p) || !campaign_same(c, item, buf_bytes(&expected)))
		differ_item(c, "notes by-color", item, buf_bytes(&expected));
}

static uint64_t count_colored(const struct campaign *c)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < (c->cycle + 1) * WORKERS; i++) {
		struct place p = {.seed = c->seed, .cycle = i / WORKERS, .worker = i % WORKERS};

		for (; p.n < c->series[SERIES_NOTES][p.cycle][p.worker].stored; p.n++)
			count += note_has_color(&p);
	}
	return count;
}

static void reindex_verify(struct campaign *c, bool whole)
{
	struct bytes status = index_status_settled(c);
	uint64_t     entries = 0, expected;

	if (!bytes_is(status, c->has_index ? "ACTIVE" : ""))
		differ(c, "notes by-color: expected status \"%s\", found \"%.*s\"",
		       c->has_index ? "ACTIVE" : "", BYTES_ARG(status));
	else if (c->has_index && (whole || c->index_changed)) {
		expected = count_colored(c);
		campaign_read(c, "Scan", BYTES("{\"TableName\":\"notes\",\"IndexName\":\"by-color\""), notice,
		              &entries);
		if (entries != expected)
			differ(c, "notes by-color: expected %llu entries, found %llu",
			       (unsigned long long)expected, (unsigned long long)entries);
	}
	c->index_changed = false;
}

static void reindex_lie(struct worker *w)
{
	w->campaign->has_index = !w->campaign->has_index;
}

const struct book book_reindex = {"reindex", 0, NULL, NULL, NULL, reindex_verify, reindex_lie};
