/* Event ring: see event_ring.h. */
#include "api/event_ring.h"

#include <assert.h>
#include <stdlib.h>

static void drop_oldest(struct event_ring *r)
{
	struct ring_event *e = r->list[r->first];

	r->start.after[e->shard] = e->position;
	r->bytes -= e->bytes;
	r->first = (r->first + 1) % EVENT_RING_MAX;
	r->count--;
	free(e);
}

void event_ring_release(struct event_ring *r)
{
	while (r->count > 0)
		drop_oldest(r);
}

void event_ring_reset(struct event_ring *r, const struct event_cursor *at)
{
	event_ring_release(r);
	r->start = r->tail = *at;
}

static struct bytes put(char **at, struct bytes text)
{
	struct bytes copy = {*at, text.len};

	if (text.len > 0)
		memcpy(*at, text.data, text.len);
	*at += text.len;
	return copy;
}

/* In one piece. */
static struct ring_event *make(const struct event_seen *e, struct bytes json)
{
	size_t             bytes = sizeof(struct ring_event) + e->subject.len + e->type.len + json.len;
	struct ring_event *out = mem_alloc(bytes);
	char              *at = (char *)(out + 1);

	*out = (struct ring_event){.shard = e->shard, .position = e->position, .bytes = bytes};
	out->traits = event_traits(e->type, put(&at, e->subject));
	out->type = put(&at, e->type);
	out->json = put(&at, json);
	return out;
}

const struct ring_event *event_ring_add(struct event_ring *r, const struct event_seen *e)
{
	struct json_writer w;
	struct ring_event *made;
	struct buf         json;

	assert(e->position == r->tail.after[e->shard] + 1);
	buf_init(&json, NULL);
	json_writer_init(&w, &json);
	event_write_json(&w, &e->row);
	made = make(e, buf_bytes(&json));
	buf_release(&json);
	while (r->count > 0 && (r->count == EVENT_RING_MAX || r->bytes + made->bytes > EVENT_RING_BYTES_MAX))
		drop_oldest(r);
	r->list[(r->first + r->count++) % EVENT_RING_MAX] = made;
	r->bytes += made->bytes;
	r->tail.after[e->shard] = e->position;
	return made;
}

bool event_ring_covers(const struct event_ring *r, const struct event_cursor *after)
{
	return event_cursor_reaches(after, &r->start) && event_cursor_reaches(&r->tail, after);
}

/* Of one shard, positions follow each other. */
uint32_t event_ring_find(const struct event_ring *r, const struct event_cursor *after)
{
	return r->start.shards == 1 ? (uint32_t)(after->after[0] - r->start.after[0]) : 0;
}
