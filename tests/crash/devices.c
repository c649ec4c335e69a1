/* Devices: rows that are put, updated and deleted again and again, so that their entries in a global and a
 * local index move, appear and vanish. A row's attributes follow from its version; each write names the
 * version it replaces in its condition, which must hold.
 *
 * (D1) After a restart a row is the last acknowledged one, or the one whose answer was lost.
 * (D2) Each index holds exactly the projections of the rows that have its key. */
#include <stdio.h>

#include "campaign.h"
#include "text.h"

enum view { VIEW_TABLE, VIEW_BY_MOOD, VIEW_BY_RNK, VIEWS };

static const char *const view_scans[VIEWS] = {
        "{\"TableName\":\"devices\",\"ConsistentRead\":true",
        "{\"TableName\":\"devices\",\"IndexName\":\"by-mood\"",
        "{\"TableName\":\"devices\",\"IndexName\":\"by-rnk\"",
};
static const char *const view_names[VIEWS] = {"devices", "devices by-mood", "devices by-rnk"};

static void devices_setup(struct campaign *c)
{
	campaign_call(
	        c, "CreateTable",
	        BYTES("{\"TableName\":\"devices\",\"BillingMode\":\"PAY_PER_REQUEST\","
	              "\"AttributeDefinitions\":["
	              "{\"AttributeName\":\"uid\",\"AttributeType\":\"S\"},"
	              "{\"AttributeName\":\"did\",\"AttributeType\":\"S\"},"
	              "{\"AttributeName\":\"mood\",\"AttributeType\":\"S\"},"
	              "{\"AttributeName\":\"seen\",\"AttributeType\":\"N\"},"
	              "{\"AttributeName\":\"rnk\",\"AttributeType\":\"N\"}],"
	              "\"KeySchema\":[{\"AttributeName\":\"uid\",\"KeyType\":\"HASH\"},"
	              "{\"AttributeName\":\"did\",\"KeyType\":\"RANGE\"}],"
	              "\"GlobalSecondaryIndexes\":[{\"IndexName\":\"by-mood\",\"KeySchema\":["
	              "{\"AttributeName\":\"mood\",\"KeyType\":\"HASH\"},"
	              "{\"AttributeName\":\"seen\",\"KeyType\":\"RANGE\"}],"
	              "\"Projection\":{\"ProjectionType\":\"ALL\"}}],"
	              "\"LocalSecondaryIndexes\":[{\"IndexName\":\"by-rnk\",\"KeySchema\":["
	              "{\"AttributeName\":\"uid\",\"KeyType\":\"HASH\"},"
	              "{\"AttributeName\":\"rnk\",\"KeyType\":\"RANGE\"}],"
	              "\"Projection\":{\"ProjectionType\":\"INCLUDE\",\"NonKeyAttributes\":[\"note\"]}}]}"));
}

/* ---- content ---- */

struct attributes {
	unsigned      mood, seen, rnk;
	bool          has_rnk;
	struct random note;
};

static struct attributes attributes_of(const struct worker *w, unsigned device, uint32_t version)
{
	struct random     r = text_random(w->campaign->seed, SERIES_KINDS, w->id, device, version);
	struct attributes a = {.mood = (unsigned)random_below(&r, 4),
	                       .seen = (unsigned)random_below(&r, 1000),
	                       .rnk = (unsigned)random_below(&r, 50),
	                       .has_rnk = random_below(&r, 3) != 0};

	a.note = r;
	return a;
}

static void add_key(struct buf *out, unsigned worker, unsigned device)
{
	text_add(out, "\"uid\":{\"S\":\"u%u\"},\"did\":{\"S\":\"d%u\"}", worker, device);
}

static void add_note(struct buf *out, const struct attributes *a)
{
	struct random r = a->note;

	text_add(out, "{\"S\":\"");
	text_add_random(out, &r, random_below(&r, 100));
	text_add(out, "\"}");
}

/* The row as the table or an index shows it. */
static void add_row(struct buf *out, const struct worker *w, unsigned device, uint32_t version,
                    enum view view)
{
	struct attributes a = attributes_of(w, device, version);

	text_add(out, "{");
	add_key(out, w->id, device);
	text_add(out, ",\"note\":");
	add_note(out, &a);
	if (a.has_rnk)
		text_add(out, ",\"rnk\":{\"N\":\"%u\"}", a.rnk);
	if (view != VIEW_BY_RNK)
		text_add(out, ",\"mood\":{\"S\":\"m%u\"},\"seen\":{\"N\":\"%u\"},\"ver\":{\"N\":\"%u\"}",
		         a.mood, a.seen, version);
	text_add(out, "}");
}

/* ---- the load ---- */

static void compose_put(struct worker *w)
{
	w->operation = "PutItem";
	text_add(&w->body, "{\"TableName\":\"devices\",\"Item\":");
	add_row(&w->body, w, w->device, w->wanted.version, VIEW_TABLE);
}

static void compose_delete(struct worker *w)
{
	w->operation = "DeleteItem";
	w->wanted.exists = false;
	text_add(&w->body, "{\"TableName\":\"devices\",\"Key\":{");
	add_key(&w->body, w->id, w->device);
	text_add(&w->body, "}");
}

static void compose_update(struct worker *w)
{
	struct attributes a = attributes_of(w, w->device, w->wanted.version);

	w->operation = "UpdateItem";
	text_add(&w->body, "{\"TableName\":\"devices\",\"Key\":{");
	add_key(&w->body, w->id, w->device);
	text_add(&w->body,
	         "},\"UpdateExpression\":\"SET mood = :mood, seen = :seen, ver = :ver, note = :note %s\"",
	         a.has_rnk ? ", rnk = :rnk" : "REMOVE rnk");
}

/* The condition, and the values that the update and the condition name. */
static void compose_rest(struct worker *w)
{
	struct attributes    a = attributes_of(w, w->device, w->wanted.version);
	const struct device *d = &w->must.devices[w->device];
	bool                 updates = strcmp(w->operation, "UpdateItem") == 0;

	text_add(&w->body, ",\"ConditionExpression\":\"%s\"",
	         d->exists ? "ver = :old" : "attribute_not_exists(ver)");
	if (!updates && !d->exists) {
		text_add(&w->body, "}");
		return;
	}
	text_add(&w->body, ",\"ExpressionAttributeValues\":{");
	if (updates) {
		text_add(&w->body,
		         "\":mood\":{\"S\":\"m%u\"},\":seen\":{\"N\":\"%u\"},\":ver\":{\"N\":\"%u\"},\":"
		         "note\":",
		         a.mood, a.seen, w->wanted.version);
		add_note(&w->body, &a);
	}
	if (updates && a.has_rnk)
		text_add(&w->body, ",\":rnk\":{\"N\":\"%u\"}", a.rnk);
	if (d->exists)
		text_add(&w->body, "%s\":old\":{\"N\":\"%u\"}", updates ? "," : "", d->version);
	text_add(&w->body, "}}");
}

static void devices_compose(struct worker *w)
{
	uint64_t dice = random_below(&w->random, 5);

	w->device = (unsigned)random_below(&w->random, DEVICES);
	w->wanted = (struct device){w->must.devices[w->device].version + 1, true};
	if (dice == 0)
		compose_put(w);
	else if (dice == 1 && w->must.devices[w->device].exists)
		compose_delete(w);
	else
		compose_update(w);
	compose_rest(w);
}

static void devices_settle(struct worker *w, const struct answer *answer)
{
	if (answer != NULL && answer_is_ok(w, answer))
		w->must.devices[w->device] = w->wanted;
}

/* ---- comparing ---- */

struct sightings {
	enum view view;
	bool      seen[WORKERS][DEVICES];
};

static bool row_is(struct campaign *c, const struct json *item, const struct worker *w, unsigned device,
                   uint32_t version, enum view view)
{
	struct buf expected;

	buf_init(&expected, &c->client.arena);
	add_row(&expected, w, device, version, view);
	return campaign_same(c, item, buf_bytes(&expected));
}

static bool device_of(const struct json *item, unsigned *worker, unsigned *device)
{
	struct bytes uid = text_attribute(item, "uid"), did = text_attribute(item, "did");
	char         key[64];

	snprintf(key, sizeof(key), "%.*s %.*s", BYTES_ARG(uid), BYTES_ARG(did));
	return sscanf(key, "u%u d%u", worker, device) == 2 && *worker < WORKERS && *device < DEVICES;
}

static bool in_doubt(const struct worker *w, unsigned device)
{
	return w->book == &book_devices && w->device == device;
}

static void notice(struct campaign *c, const struct json *item, void *ctx)
{
	struct sightings *s = ctx;
	struct worker    *w;
	struct device    *d;
	struct buf        expected;
	unsigned          worker, device;

	if (!device_of(item, &worker, &device)) {
		differ_item(c, view_names[s->view], item, BYTES("no such item: nobody wrote it"));
		return;
	}
	w = &c->workers[worker];
	d = &w->must.devices[device];
	s->seen[worker][device] = true;
	if (s->view == VIEW_TABLE && in_doubt(w, device) && w->wanted.exists &&
	    row_is(c, item, w, device, w->wanted.version, VIEW_TABLE)) {
		*d = w->wanted; /* (D1) */
		note_done(c, "devices");
	}
	if (d->exists && row_is(c, item, w, device, d->version, s->view))
		return;
	buf_init(&expected, &c->client.arena);
	if (d->exists)
		add_row(&expected, w, device, d->version, s->view);
	else
		text_add(&expected, "no such item: it was deleted");
	differ_item(c, view_names[s->view], item, buf_bytes(&expected));
}

static void judge(struct campaign *c, const struct sightings *s, struct worker *w, unsigned device)
{
	struct device *d = &w->must.devices[device];
	bool           expected = d->exists;

	if (s->seen[w->id][device])
		return;
	if (s->view == VIEW_BY_RNK && !attributes_of(w, device, d->version).has_rnk)
		expected = false;
	if (expected && s->view == VIEW_TABLE && in_doubt(w, device) && !w->wanted.exists) {
		*d = w->wanted; /* (D1): the delete was done */
		note_done(c, "devices");
		expected = false;
	}
	if (expected)
		differ(c, "%s u%u/d%u: expected version %u, found none", view_names[s->view], w->id, device,
		       d->version);
}

static void devices_verify(struct campaign *c, bool whole)
{
	(void)whole;
	for (int view = VIEW_TABLE; view < VIEWS; view++) { /* the table first: it settles what is in doubt */
		struct sightings s = {.view = (enum view)view};

		campaign_read(c, "Scan", bytes_of(view_scans[view]), notice, &s);
		for (unsigned i = 0; i < WORKERS * DEVICES; i++)
			judge(c, &s, &c->workers[i / DEVICES], i % DEVICES);
	}
}

/* About a device that is not in doubt. */
static void devices_lie(struct worker *w)
{
	struct device *d = &w->must.devices[(w->device + 1) % DEVICES];

	d->exists = !d->exists;
}

const struct book book_devices = {"devices",      20,         devices_setup, devices_compose, devices_settle,
                                  devices_verify, devices_lie};
