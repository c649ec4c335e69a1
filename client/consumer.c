/* Consumer: a member of a consumer of events; see gatehouse.h. One round is: poll, hand over what is new, acknowledge.
 *
 * (1) An event is acknowledged only after its handler has dealt with it, and so have all before it.
 * (2) An event that was dealt with here is not handed over again: by its id, and by its subject's seq. What is remembered is
 *     bounded, and compared as a whole, never by its hash alone: nothing new is taken for something old. What was forgotten may
 *     be handed over twice. */
#include <stdio.h>
#include <stdlib.h>

#include "call.h"
#include "error.h"

enum {
	ID_BYTES = sizeof(((struct gatehouse_event *)NULL)->id),
	SUBJECT_BYTES = sizeof(((struct gatehouse_event *)NULL)->subject),
	CURSOR_BYTES = 2200,
	PATH_BYTES = 128,
	NAME_BYTES_MAX = 64,
	SHARDS_MAX = 100, /* of the log */
};

/* "42-17-3": how far the page goes in each shard of the log. */
struct cursor {
	long long after[SHARDS_MAX];
	int       shards;
};

/* The last event of a subject. */
struct subject_seen {
	char    subject[SUBJECT_BYTES];
	int64_t seq;
};

struct gatehouse_consumer {
	struct gatehouse                 *g;
	struct gatehouse_consumer_options options;
	char                              name[NAME_BYTES_MAX + 1], member[NAME_BYTES_MAX + 1];
	int     limit; /* of the next poll: less after an answer that was too long */
	char    after[CURSOR_BYTES];
	int64_t generation;
	bool    polled; /* there is something to acknowledge, if only that it leaves */
	size_t  slots;
	char (*ids)[ID_BYTES]; /* each at the place of its hash: a newer one takes it */
	struct subject_seen *subjects;
};

/* ---- what was seen (2) ---- */

static size_t slot_of(const struct gatehouse_consumer *c, const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return (size_t)((hash ^ hash >> 32) % c->slots);
}

static bool is_seen(const struct gatehouse_consumer *c, const struct gatehouse_event *e)
{
	return e->id[0] != '\0' && strcmp(c->ids[slot_of(c, e->id)], e->id) == 0;
}

static bool is_stale(const struct gatehouse_consumer *c, const struct gatehouse_event *e)
{
	const struct subject_seen *s = &c->subjects[slot_of(c, e->subject)];

	return e->seq > 0 && s->seq >= e->seq && strcmp(s->subject, e->subject) == 0;
}

static void remember(struct gatehouse_consumer *c, const struct gatehouse_event *e)
{
	struct subject_seen *s = &c->subjects[slot_of(c, e->subject)];

	memcpy(c->ids[slot_of(c, e->id)], e->id, ID_BYTES);
	memcpy(s->subject, e->subject, SUBJECT_BYTES);
	s->seq = e->seq;
}

/* ---- life ---- */

static bool name_is(const char *text)
{
	size_t len = text == NULL ? 0 : strlen(text);

	return len > 0 && len <= NAME_BYTES_MAX &&
	       strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

/* A name of its own: two processes must not share one. */
static bool member_make(struct gatehouse_consumer *c)
{
	uint64_t bits[2];

	if (c->options.member != NULL) {
		snprintf(c->member, sizeof(c->member), "%s", c->options.member);
		return true;
	}
	if (!random_fill(bits, sizeof(bits)))
		return false;
	snprintf(c->member, sizeof(c->member), "%016llx%016llx", (unsigned long long)bits[0],
	         (unsigned long long)bits[1]);
	return true;
}

static enum gatehouse_code options_check(const struct gatehouse_consumer_options *o,
                                         struct gatehouse_error                  *error)
{
	if (!name_is(o->name))
		return error_set(error, GATEHOUSE_INVALID,
		                 "name: must have 1 to %d letters, digits, dots, underscores and hyphens",
		                 NAME_BYTES_MAX);
	if (o->member != NULL && !name_is(o->member))
		return error_set(error, GATEHOUSE_INVALID,
		                 "member: must have 1 to %d letters, digits, dots, underscores and hyphens",
		                 NAME_BYTES_MAX);
	if (o->handle == NULL)
		return error_set(error, GATEHOUSE_INVALID, "handle: must be there");
	if (o->limit < 0 || o->limit > GATEHOUSE_EVENTS_MAX)
		return error_set(error, GATEHOUSE_INVALID, "limit: must be from 1 to %d",
		                 GATEHOUSE_EVENTS_MAX);
	if (o->wait_s < -1 || o->wait_s > 60)
		return error_set(error, GATEHOUSE_INVALID, "wait_s: must be from 1 to 60, or -1 for none");
	if (o->lease_s < 0 || o->lease_s == 1 || o->lease_s > 3600)
		return error_set(error, GATEHOUSE_INVALID, "lease_s: must be from 2 to 3600");
	if (o->remember_max > GATEHOUSE_REMEMBER_MAX)
		return error_set(error, GATEHOUSE_INVALID, "remember_max: must be at most %d",
		                 GATEHOUSE_REMEMBER_MAX);
	return GATEHOUSE_OK;
}

static void options_default(struct gatehouse_consumer *c)
{
	struct gatehouse_consumer_options *o = &c->options;

	o->limit = o->limit == 0 ? GATEHOUSE_EVENTS_DEFAULT : o->limit;
	o->wait_s = o->wait_s == 0 ? GATEHOUSE_WAIT_S_DEFAULT : o->wait_s < 0 ? 0 : o->wait_s;
	o->lease_s = o->lease_s == 0 ? GATEHOUSE_LEASE_S_DEFAULT : o->lease_s;
	c->limit = o->limit;
	c->slots = o->remember_max == 0 ? GATEHOUSE_REMEMBER_DEFAULT : o->remember_max;
}

struct gatehouse_consumer *gatehouse_consumer_open(struct gatehouse                        *g,
                                                   const struct gatehouse_consumer_options *options,
                                                   struct gatehouse_error                  *error)
{
	struct gatehouse_error     unwanted;
	struct gatehouse_consumer *c;

	if (error == NULL)
		error = &unwanted;
	if (options_check(options, error) != GATEHOUSE_OK)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (c != NULL) {
		c->g = g;
		c->options = *options;
		options_default(c);
		c->ids = calloc(c->slots, sizeof(*c->ids));
		c->subjects = calloc(c->slots, sizeof(*c->subjects));
		snprintf(c->name, sizeof(c->name), "%s", options->name);
	}
	if (c == NULL || c->ids == NULL || c->subjects == NULL || !member_make(c)) {
		error_set(error, GATEHOUSE_NO_MEMORY, "out of memory for a consumer");
		gatehouse_consumer_close(c);
		return NULL;
	}
	c->options.name = c->options.member = NULL; /* copied */
	return c;
}

/* ---- calls ---- */

static enum gatehouse_code call_make(struct gatehouse_consumer *c, struct call *call, struct request *q,
                                     const char *what, struct gatehouse_error *error)
{
	int  wait_ms = strcmp(what, "poll") == 0 ? c->options.wait_s * 1000 : 0;
	char path[PATH_BYTES];

	request_close(q, '}');
	snprintf(path, sizeof(path), "/v1/consumers/%s/%s", c->name, what);
	if (request_finish(q, c->g, path, NULL, error) != GATEHOUSE_OK)
		return error->code;
	return call_begin(call, c->g, c->g->deadline_ms + wait_ms, q, error);
}

static enum gatehouse_code acknowledge(struct gatehouse_consumer *c, bool leave,
                                       struct gatehouse_error *error)
{
	struct request      request;
	struct call         call = {0};
	enum gatehouse_code rc;

	request_init(&request);
	request_open(&request, NULL, '{');
	request_text(&request, "member", c->member);
	request_whole(&request, "generation", c->generation);
	request_text(&request, "after", c->after);
	if (leave)
		request_flag(&request, "leave", true);
	rc = call_make(c, &call, &request, "ack", error);
	call_end(&call);
	return rc;
}

/* ---- one round ---- */

static bool text_find(struct text json, const char *name, char *out, size_t size)
{
	struct text value;

	return json_find(json, name, &value) && json_string(value, out, size);
}

static bool event_read(struct text json, struct gatehouse_event *e)
{
	struct text value;

	*e = (struct gatehouse_event){.json = json.data, .json_len = json.len};
	if (json_find(json, "seq", &value))
		(void)json_whole(value, &e->seq);
	if (json_find(json, "position", &value))
		(void)json_whole(value, &e->position);
	if (json_find(json, "erased", &value))
		(void)json_bool(value, &e->erased);
	return text_find(json, "id", e->id, sizeof(e->id)) &&
	       text_find(json, "type", e->type, sizeof(e->type)) &&
	       text_find(json, "subject", e->subject, sizeof(e->subject));
}

/* Up to the first that its handler refuses: *at is where that one begins. */
static bool events_hand_over(struct gatehouse_consumer *c, struct text events,
                             struct gatehouse_consumer_round *r, size_t *at)
{
	struct gatehouse_event e;
	struct text            value;

	for (size_t next = *at; json_next(events, &next, &value); *at = next) {
		if (!event_read(value, &e))
			continue; /* of a newer server: nothing that this library can hand over */
		if (is_seen(c, &e) || is_stale(c, &e)) {
			r->repeated++;
			continue;
		}
		if (!c->options.handle(c->options.ctx, &e))
			return false;
		remember(c, &e);
		r->handled++;
	}
	return true;
}

static bool cursor_read(const char *text, struct cursor *out)
{
	char *end;

	out->shards = 0;
	do {
		if (out->shards == SHARDS_MAX || *text < '0' || *text > '9')
			return false;
		out->after[out->shards++] = strtoll(text, &end, 10);
		text = end + 1;
	} while (*end == '-');
	return *end == '\0';
}

static void cursor_write(const struct cursor *cursor, char *text, size_t size)
{
	size_t len = 0;

	for (int i = 0; i < cursor->shards && len < size; i++)
		len += (size_t)snprintf(text + len, size - len, "%s%lld", i > 0 ? "-" : "", cursor->after[i]);
}

/* What is done of a page whose end was not reached: in each shard, what comes before the first event that is left. False: that cannot be told. (1) */
static bool after_refused(struct gatehouse_consumer *c, struct text events, size_t at)
{
	struct cursor cursor;
	struct text   event, value;

	if (!cursor_read(c->after, &cursor))
		return false;
	while (json_next(events, &at, &event)) {
		int64_t shard = 0, position;

		if (json_find(event, "shard", &value) && !json_whole(value, &shard))
			return false;
		if (shard < 0 || shard >= cursor.shards || !json_find(event, "position", &value) ||
		    !json_whole(value, &position))
			return false;
		if (position - 1 < cursor.after[shard])
			cursor.after[shard] = position - 1;
	}
	cursor_write(&cursor, c->after, sizeof(c->after));
	return true;
}

static enum gatehouse_code page_work(struct gatehouse_consumer *c, struct text json,
                                     struct gatehouse_consumer_round *r, struct gatehouse_error *error)
{
	struct text events = {NULL, 0}, value;
	size_t      at = 0;

	if (!json_find(json, "events", &events) || !text_find(json, "after", c->after, sizeof(c->after)) ||
	    !json_find(json, "generation", &value) || !json_whole(value, &c->generation))
		return error_set(error, GATEHOUSE_PROTOCOL, "the answer is not one to a poll");
	c->polled = true;
	if (json_find(json, "more", &value))
		(void)json_bool(value, &r->more);
	r->refused = !events_hand_over(c, events, r, &at);
	if (r->refused && !after_refused(c, events, at))
		c->polled = false;
	return GATEHOUSE_OK;
}

static enum gatehouse_code poll_page(struct gatehouse_consumer *c, struct gatehouse_consumer_round *r,
                                     struct gatehouse_error *error)
{
	struct request      request;
	struct call         call = {0};
	enum gatehouse_code rc;

	request_init(&request);
	request_open(&request, NULL, '{');
	request_text(&request, "member", c->member);
	request_whole(&request, "limit", c->limit);
	request_whole(&request, "wait", c->options.wait_s);
	request_whole(&request, "lease", c->options.lease_s);
	rc = call_make(c, &call, &request, "poll", error);
	if (rc == GATEHOUSE_OK)
		rc = page_work(c, call.json, r, error);
	else if (rc == GATEHOUSE_PROTOCOL && c->limit > 1)
		c->limit /= 2; /* the answer may have been too long: fewer, next time */
	call_end(&call);
	return rc;
}

enum gatehouse_code gatehouse_consumer_run(struct gatehouse_consumer       *c,
                                           struct gatehouse_consumer_round *round,
                                           struct gatehouse_error          *error)
{
	struct gatehouse_error unwanted;
	enum gatehouse_code    rc;

	if (error == NULL)
		error = &unwanted;
	*round = (struct gatehouse_consumer_round){0};
	c->polled = false;
	rc = poll_page(c, round, error);
	if (rc != GATEHOUSE_OK || !c->polled)
		return rc;
	if (c->limit < c->options.limit)
		c->limit++;
	rc = acknowledge(c, false, error);
	round->lost = rc == GATEHOUSE_REFUSED && error->status == 409; /* others have them now */
	return round->lost ? GATEHOUSE_OK : rc;
}

void gatehouse_consumer_close(struct gatehouse_consumer *c)
{
	struct gatehouse_error unwanted;

	if (c == NULL)
		return;
	if (c->polled)
		(void)acknowledge(c, true, &unwanted);
	free(c->ids);
	free(c->subjects);
	free(c);
}
