/* Series: reads rows back and compares them with what their place says they are.
 *
 * (S1) Every item of an acknowledged step is there, whole, unless it expired.
 * (S2) The step whose answer was lost is there with all its items or with none.
 * (S3) Nothing else is there; nothing that expired is visible.
 * (S4) An index shows what the table does. */
#include "series.h"

#include <stdio.h>
#include <stdlib.h>

#include "text.h"

static const struct series_type *const types[SERIES_KINDS] = {
        [SERIES_NOTES] = &series_notes,
        [SERIES_BATCHES] = &series_batches,
        [SERIES_SESSIONS] = &series_sessions,
        [SERIES_TRANSFERS] = &series_transfers,
};

/* ---- writing ---- */

void series_setup(struct campaign *c, enum series_kind kind)
{
	struct buf body;

	buf_init(&body, NULL);
	text_add(&body,
	         "{\"TableName\":\"%s\",\"BillingMode\":\"PAY_PER_REQUEST\",\"KeySchema\":["
	         "{\"AttributeName\":\"pk\",\"KeyType\":\"HASH\"},"
	         "{\"AttributeName\":\"n\",\"KeyType\":\"RANGE\"}],\"AttributeDefinitions\":["
	         "{\"AttributeName\":\"pk\",\"AttributeType\":\"S\"},"
	         "{\"AttributeName\":\"n\",\"AttributeType\":\"N\"}",
	         types[kind]->table);
	if (types[kind]->index != NULL)
		text_add(&body,
		         ",{\"AttributeName\":\"%s\",\"AttributeType\":\"S\"}],\"GlobalSecondaryIndexes\":[{"
		         "\"IndexName\":\"%s\",\"KeySchema\":[{\"AttributeName\":\"%s\",\"KeyType\":\"HASH\"}"
		         "],"
		         "\"Projection\":{\"ProjectionType\":\"ALL\"}}",
		         types[kind]->index, types[kind]->index, types[kind]->index);
	text_add(&body, "]}");
	campaign_call(c, "CreateTable", buf_bytes(&body));
	buf_release(&body);
}

struct place series_next(const struct worker *w, enum series_kind kind)
{
	const struct campaign *c = w->campaign;
	const struct series   *s = &c->series[kind][c->cycle][w->id];

	return (struct place){c->seed, c->cycle, w->id, s->stored * types[kind]->per_step, s->began_s};
}

bool series_settle(struct worker *w, enum series_kind kind, const struct answer *answer)
{
	struct series *s = &w->campaign->series[kind][w->campaign->cycle][w->id];

	if (answer == NULL) {
		s->doubt = true;
		return false;
	}
	if (!answer_is_ok(w, answer))
		return false;
	s->stored++;
	return true;
}

struct random series_random(const struct place *p, enum series_kind kind)
{
	return text_random(p->seed, kind, p->cycle, p->worker, p->n);
}

void series_add_key(struct buf *out, const struct place *p)
{
	text_add(out, "\"pk\":{\"S\":\"c%u-w%u\"},\"n\":{\"N\":\"%u\"}", p->cycle, p->worker, p->n);
}

/* ---- comparing ---- */

struct sightings {
	enum series_kind kind;
	int64_t          before_s, after_s; /* the wall clock around the reading */
	bool            *seen[EPOCH_CYCLES][WORKERS];
};

/* Items that may be there: those that must, and those in doubt. */
static uint32_t items_max(const struct series *s, const struct series_type *type)
{
	return (s->stored + (s->doubt ? 1 : 0)) * type->per_step;
}

bool series_place(const struct campaign *c, enum series_kind kind, const struct json *item, struct place *p)
{
	struct bytes pk = text_attribute(item, "pk");
	char         key[32] = "";
	int64_t      n = text_number(item, "n");

	if (pk.len < sizeof(key))
		memcpy(key, pk.data, pk.len);
	*p = (struct place){.seed = c->seed};
	if (sscanf(key, "c%u-w%u", &p->cycle, &p->worker) != 2 || p->cycle > c->cycle || p->worker >= WORKERS)
		return false;
	if (n < 0 || n >= items_max(&c->series[kind][p->cycle][p->worker], types[kind]))
		return false;
	p->n = (uint32_t)n;
	p->began_s = c->series[kind][p->cycle][p->worker].began_s;
	return true;
}

static void notice(struct campaign *c, const struct json *item, void *ctx)
{
	struct sightings         *s = ctx;
	const struct series_type *type = types[s->kind];
	struct buf                expected;
	struct place              p;

	if (!series_place(c, s->kind, item, &p)) { /* (S3) */
		differ_item(c, type->table, item, BYTES("no such item: nobody wrote it"));
		return;
	}
	buf_init(&expected, &c->client.arena);
	type->item(&expected, &p);
	if (!campaign_same(c, item, buf_bytes(&expected))) /* (S1) */
		differ_item(c, type->table, item, buf_bytes(&expected));
	s->seen[p.cycle][p.worker][p.n] = true;
}

static bool is_expired(const struct series_type *type, const struct place *p, int64_t now_s)
{
	int64_t expires_s = type->expires_s == NULL ? 0 : type->expires_s(p);

	return expires_s != 0 && expires_s <= now_s;
}

static void judge_item(struct campaign *c, const struct sightings *s, const struct place *p, bool must)
{
	const struct series_type *type = types[s->kind];
	bool                      seen = s->seen[p->cycle][p->worker][p->n];

	if (seen && is_expired(type, p, s->before_s))
		differ(c, "%s c%u-w%u/%u: expected it to be hidden after it expired, found it", type->table,
		       p->cycle, p->worker, p->n);
	if (must && !seen && !is_expired(type, p, s->after_s))
		differ(c, "%s c%u-w%u/%u: expected the acknowledged item, found none", type->table, p->cycle,
		       p->worker, p->n);
}

/* (S2) */
static void judge_doubt(struct campaign *c, const struct sightings *s, struct series *series,
                        const struct place *first)
{
	unsigned per_step = types[s->kind]->per_step, seen = 0;

	for (uint32_t i = 0; i < per_step; i++)
		seen += s->seen[first->cycle][first->worker][first->n + i];
	if (seen != 0 && seen != per_step)
		differ(c, "%s c%u-w%u/%u: expected all %u items of the unanswered request or none, found %u",
		       types[s->kind]->table, first->cycle, first->worker, first->n, per_step, seen);
	if (seen != 0) {
		note_done(c, types[s->kind]->table);
		series->stored++;
	}
	series->doubt = false;
}

static void judge_series(struct campaign *c, struct sightings *s, unsigned cycle, unsigned worker)
{
	struct series *series = &c->series[s->kind][cycle][worker];
	uint32_t       must = series->stored * types[s->kind]->per_step;
	struct place   p = {c->seed, cycle, worker, 0, series->began_s};

	for (; p.n < items_max(series, types[s->kind]); p.n++)
		judge_item(c, s, &p, p.n < must);
	p.n = must;
	if (series->doubt)
		judge_doubt(c, s, series, &p);
}

static void read_series(struct campaign *c, struct sightings *s, unsigned worker)
{
	struct buf body;

	buf_init(&body, NULL);
	text_add(&body,
	         "{\"TableName\":\"%s\",\"ConsistentRead\":true,\"KeyConditionExpression\":\"pk = :p\","
	         "\"ExpressionAttributeValues\":{\":p\":{\"S\":\"c%u-w%u\"}}",
	         types[s->kind]->table, c->cycle, worker);
	campaign_read(c, "Query", buf_bytes(&body), notice, s);
	buf_release(&body);
}

/* Or its index. */
static void read_table(struct campaign *c, struct sightings *s, const char *index)
{
	struct buf body;

	buf_init(&body, NULL);
	text_add(&body, "{\"TableName\":\"%s\"", types[s->kind]->table);
	if (index == NULL)
		text_add(&body, ",\"ConsistentRead\":true");
	else
		text_add(&body, ",\"IndexName\":\"%s\"", index);
	campaign_read(c, "Scan", buf_bytes(&body), notice, s);
	buf_release(&body);
}

static void verify_view(struct campaign *c, enum series_kind kind, bool whole, const char *index)
{
	struct sightings *s = mem_zalloc(sizeof(*s));
	unsigned          first = whole ? 0 : c->cycle;

	s->kind = kind;
	s->before_s = server_now_s(&c->server);
	for (unsigned cycle = first; cycle <= c->cycle; cycle++)
		for (unsigned w = 0; w < WORKERS; w++)
			s->seen[cycle][w] =
			        mem_zalloc(items_max(&c->series[kind][cycle][w], types[kind]) + 1);
	if (whole)
		read_table(c, s, index);
	for (unsigned w = 0; !whole && w < WORKERS; w++)
		read_series(c, s, w);
	s->after_s = server_now_s(&c->server);
	for (unsigned cycle = first; cycle <= c->cycle; cycle++)
		for (unsigned w = 0; w < WORKERS; w++) {
			judge_series(c, s, cycle, w);
			free(s->seen[cycle][w]);
		}
	free(s);
}

/* The table first: it settles what is in doubt. */
void series_verify(struct campaign *c, enum series_kind kind, bool whole)
{
	verify_view(c, kind, whole, NULL);
	if (whole && types[kind]->index != NULL) /* (S4) */
		verify_view(c, kind, whole, types[kind]->index);
}
