/* Rows: three books of rows that are only added: notes (PutItem of every type of value, some large), batches
 * (BatchWriteItem of 25), sessions (with a time to live: some long, some that run out within the campaign,
 * some that were over before they were written; and with an index). */
#include "series.h"
#include "text.h"

enum {
	NOTE_PIECES = 150,
	NOTE_PIECES_LARGE = 12000, /* one note in 64 */
	NOTE_COLORS = 8,
	NOTE_BLOB_BYTES = 300,
	BATCH_ITEMS = 25,
	SESSION_LONG_S = 3600,
	SESSION_SHORT_S = 4,
	SESSION_OVER_S = 5000, /* ago */
	SESSION_ROOMS = 8,
};

/* Every lie in this file: claims a step that was never sent. */
static void claim_one_more(struct worker *w, enum series_kind kind)
{
	w->campaign->series[kind][w->campaign->cycle][w->id].stored++;
}

/* ---- notes ---- */

bool note_has_color(const struct place *p)
{
	struct random r = series_random(p, SERIES_KINDS);

	return random_below(&r, 4) != 0;
}

void note_add_color(struct buf *out, const struct place *p)
{
	if (note_has_color(p))
		text_add(out, ",\"color\":{\"S\":\"k%u\"}", p->n % NOTE_COLORS);
}

static void note_item(struct buf *out, const struct place *p)
{
	struct random r = series_random(p, SERIES_NOTES);
	uint64_t      pieces = random_below(&r, 64) == 0 ? NOTE_PIECES_LARGE : NOTE_PIECES;

	text_add(out, "{");
	series_add_key(out, p);
	note_add_color(out, p);
	text_add(out, ",\"text\":{\"S\":\"");
	text_add_random(out, &r, random_below(&r, pieces));
	text_add(out, "\"},\"blob\":{\"B\":\"");
	text_add_base64(out, &r, random_below(&r, NOTE_BLOB_BYTES));
	text_add(out,
	         "\"},\"big\":{\"N\":\"-9%018llu7\"},\"more\":{\"M\":{\"list\":{\"L\":[{\"NULL\":true},"
	         "{\"BOOL\":%s},{\"SS\":[\"a\",\"b%u\"]}]},\"none\":{\"M\":{}}}}}",
	         (unsigned long long)random_below(&r, 1000000000000000000), p->n % 2 == 0 ? "true" : "false",
	         p->n);
}

const struct series_type series_notes = {"notes", 1, note_item, NULL, NULL};

static void notes_setup(struct campaign *c)
{
	series_setup(c, SERIES_NOTES);
}

static void compose_put(struct worker *w, enum series_kind kind, const struct series_type *type)
{
	struct place p = series_next(w, kind);

	w->operation = "PutItem";
	text_add(&w->body, "{\"TableName\":\"%s\",\"Item\":", type->table);
	type->item(&w->body, &p);
	text_add(&w->body, "}");
}

static void notes_compose(struct worker *w)
{
	compose_put(w, SERIES_NOTES, &series_notes);
}

static void notes_settle(struct worker *w, const struct answer *answer)
{
	series_settle(w, SERIES_NOTES, answer);
}

static void notes_verify(struct campaign *c, bool whole)
{
	series_verify(c, SERIES_NOTES, whole);
}

static void notes_lie(struct worker *w)
{
	claim_one_more(w, SERIES_NOTES); /* the unanswered one may be there */
	claim_one_more(w, SERIES_NOTES);
}

const struct book book_notes = {"notes",      20,           notes_setup, notes_compose,
                                notes_settle, notes_verify, notes_lie};

/* ---- batches ---- */

static void batch_item(struct buf *out, const struct place *p)
{
	struct random r = series_random(p, SERIES_BATCHES);

	text_add(out, "{");
	series_add_key(out, p);
	text_add(out, ",\"text\":{\"S\":\"");
	text_add_random(out, &r, 20);
	text_add(out, "\"}}");
}

const struct series_type series_batches = {"batches", BATCH_ITEMS, batch_item, NULL, NULL};

static void batches_setup(struct campaign *c)
{
	series_setup(c, SERIES_BATCHES);
}

static void batches_compose(struct worker *w)
{
	struct place p = series_next(w, SERIES_BATCHES);

	w->operation = "BatchWriteItem";
	text_add(&w->body, "{\"RequestItems\":{\"batches\":[");
	for (unsigned i = 0; i < BATCH_ITEMS; i++, p.n++) {
		text_add(&w->body, "%s{\"PutRequest\":{\"Item\":", i == 0 ? "" : ",");
		batch_item(&w->body, &p);
		text_add(&w->body, "}}");
	}
	text_add(&w->body, "]}}");
}

static void batches_settle(struct worker *w, const struct answer *answer)
{
	const struct json *left;

	if (!series_settle(w, SERIES_BATCHES, answer))
		return;
	left = text_get(answer->body, "UnprocessedItems");
	if (left == NULL || left->count != 0)
		differ(w->campaign, "batches: expected no UnprocessedItems, found some");
}

static void batches_verify(struct campaign *c, bool whole)
{
	series_verify(c, SERIES_BATCHES, whole);
}

static void batches_lie(struct worker *w)
{
	claim_one_more(w, SERIES_BATCHES); /* the unanswered one may be there */
	claim_one_more(w, SERIES_BATCHES);
}

const struct book book_batches = {"batches",      2,          batches_setup, batches_compose, batches_settle,
                                  batches_verify, batches_lie};

/* ---- sessions ---- */

static int64_t session_expires_s(const struct place *p)
{
	struct random r = series_random(p, SERIES_SESSIONS);

	switch (random_below(&r, 3)) {
	case 0:
		return p->began_s + SESSION_LONG_S;
	case 1:
		return p->began_s + (int64_t)random_below(&r, SESSION_SHORT_S);
	default:
		return p->began_s - SESSION_OVER_S;
	}
}

static void session_item(struct buf *out, const struct place *p)
{
	text_add(out, "{");
	series_add_key(out, p);
	text_add(out, ",\"room\":{\"S\":\"r%u\"},\"expires\":{\"N\":\"%lld\"}}", p->n % SESSION_ROOMS,
	         (long long)session_expires_s(p));
}

const struct series_type series_sessions = {"sessions", 1, session_item, session_expires_s, "room"};

static void sessions_setup(struct campaign *c)
{
	series_setup(c, SERIES_SESSIONS);
	campaign_call(c, "UpdateTimeToLive",
	              BYTES("{\"TableName\":\"sessions\",\"TimeToLiveSpecification\":{\"Enabled\":true,"
	                    "\"AttributeName\":\"expires\"}}"));
}

static void sessions_compose(struct worker *w)
{
	compose_put(w, SERIES_SESSIONS, &series_sessions);
}

static void sessions_settle(struct worker *w, const struct answer *answer)
{
	series_settle(w, SERIES_SESSIONS, answer);
}

static void sessions_verify(struct campaign *c, bool whole)
{
	series_verify(c, SERIES_SESSIONS, whole);
}

/* Several, since two of three are not expected to be seen. */
static void sessions_lie(struct worker *w)
{
	for (int i = 0; i < 20; i++)
		claim_one_more(w, SERIES_SESSIONS);
}

const struct book book_sessions = {
        "sessions", 10, sessions_setup, sessions_compose, sessions_settle, sessions_verify, sessions_lie};
