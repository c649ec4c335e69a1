/* Pages of events, and requests that wait for one. A page is answered from the ring if that will do (6), and from the table otherwise. A request that waits is
 * parked at its loop; the hub wakes it when an event comes by that passes its filter. See event_hub.h. */
#include "api/event_hub_state.h"

/* ---- pages ---- */

/* (6) It goes on from here. Streams have been sent what was in it, and others read the table. */
static void ring_forget_locked(struct event_hub *h)
{
	struct event_cursor tail = h->ring.tail;

	event_ring_reset(&h->ring, &tail);
}

static bool ring_read_locked(struct event_hub *h, struct arena *a, const struct event_query *q,
                             struct event_texts *out)
{
	const struct event_ring *r = &h->ring;
	uint32_t                 i = event_ring_find(r, &q->after);

	out->list = arena_array(a, q->limit, sizeof(*out->list));
	for (; i < r->count && out->count < q->limit; i++) {
		const struct ring_event *e = event_ring_at(r, i);

		if (e->position <= out->next.after[e->shard])
			continue;
		out->next.after[e->shard] = e->position;
		if (event_passes(&q->filter, &e->traits))
			out->list[out->count++] = (struct event_text){
			        e->shard, e->position, e->traits.subject_hash, arena_copy(a, e->json)};
	}
	out->more = i < r->count || h->fresh != atomic_load(&h->published);
	return out->count > 0 || !out->more;
}

/* False: the table must be asked. */
static bool ring_read(struct event_hub *h, struct context *ctx, const struct event_query *q,
                      struct event_texts *out)
{
	uint64_t erasures = atomic_load(&h->options.services->events.erasures);
	bool     read = false;

	if (h->options.store->backend->reads_wait) /* (6) */
		return false;
	hub_lock(h);
	if (erasures != h->erasures)
		ring_forget_locked(h);
	h->erasures = erasures;
	if (atomic_load(&h->awake) && event_ring_covers(&h->ring, &q->after)) {
		h->awake_until_us = hub_now_us(h) + (int64_t)EVENT_HUB_AWAKE_MS * 1000;
		read = ring_read_locked(h, ctx->arena, q, out);
	}
	if (read)
		h->stats.ring_hits++;
	else
		h->stats.ring_misses++;
	pthread_mutex_unlock(&h->lock);
	return read;
}

static struct event_text text_of(struct arena *a, const struct event_seen *e)
{
	struct json_writer w;
	struct buf         json;

	buf_init(&json, a);
	json_writer_init(&w, &json);
	event_write_json(&w, &e->row);
	return (struct event_text){e->shard, e->position, event_subject_hash(e->subject), buf_bytes(&json)};
}

enum err_code event_hub_read(struct event_hub *h, struct context *ctx, const struct event_query *q,
                             struct event_texts *out, struct err *err)
{
	struct event_page page;

	*out = (struct event_texts){.next = q->after};
	if (h != NULL && ring_read(h, ctx, q, out))
		return ERR_NONE;
	if (events_read(ctx, q, &page, err) != ERR_NONE)
		return err->code;
	*out = (struct event_texts){.next = page.next, .more = page.more, .count = page.count};
	out->list = arena_array(ctx->arena, q->limit, sizeof(*out->list));
	for (uint32_t i = 0; i < page.count; i++)
		out->list[i] = text_of(ctx->arena, &page.list[i]);
	return ERR_NONE;
}

/* ---- requests that wait ---- */

void polls_offer_locked(struct event_hub *h, const struct ring_event *e, const struct event_cursor *before)
{
	for (struct list *l = h->polls.next; l != &h->polls; l = l->next) {
		struct event_wait *w = LIST_ENTRY(l, struct event_wait, link);

		if (w->settled || e->position <= w->after.after[e->shard] ||
		    !event_passes(&w->filter, &e->traits))
			continue;
		event_cursor_advance(&w->after, before);
		w->settled = true;
		http_wake(w->request);
	}
}

void polls_lose_locked(struct event_hub *h)
{
	for (struct list *l = h->polls.next; l != &h->polls; l = l->next) {
		struct event_wait *w = LIST_ENTRY(l, struct event_wait, link);

		w->settled = true;
		http_wake(w->request);
	}
}

void polls_look_locked(struct event_hub *h, const struct credentials *set)
{
	for (struct list *l = h->polls.next; l != &h->polls; l = l->next) {
		struct event_wait *w = LIST_ENTRY(l, struct event_wait, link);

		if (w->set != set)
			http_wake(w->request);
	}
}

/* Is there something for it in the ring already, or nobody knows? Nothing ever is for a member that has no partition: it waits for a change of
 * members, wherever its consumer is. */
static bool is_due_locked(struct event_hub *h, const struct event_wait *w)
{
	const struct event_ring *r = &h->ring;
	bool                     nothing = w->filter.partitions > 0 && w->filter.mask == 0;

	if (nothing || event_cursor_reaches(&w->after, &r->tail))
		return false;
	if (!event_ring_covers(r, &w->after))
		return true;
	for (uint32_t i = event_ring_find(r, &w->after); i < r->count; i++) {
		const struct ring_event *e = event_ring_at(r, i);

		if (e->position > w->after.after[e->shard] && event_passes(&w->filter, &e->traits))
			return true;
	}
	return false;
}

bool event_hub_wait(struct event_hub *h, struct event_wait *w, struct http_request *r, int64_t deadline_us,
                    void (*fn)(struct http_request *r, enum http_end why))
{
	if (w->use != NULL && !key_use_follow(w->use, h->options.followers_per_key))
		return false;
	if (!http_park(r, deadline_us, fn)) {
		if (w->use != NULL)
			key_use_unfollow(w->use);
		return false;
	}
	hub_lock(h);
	w->request = r;
	list_push_back(&h->polls, &w->link);
	h->stats.polls++;
	hub_awaken_locked(h, &w->after);
	w->settled = is_due_locked(h, w);
	if (w->settled)
		http_wake(r);
	pthread_mutex_unlock(&h->lock);
	return true;
}

bool event_hub_waited(struct event_hub *h, struct event_wait *w)
{
	const struct credentials *set =
	        h->options.keyring != NULL ? keyring_acquire(h->options.keyring) : NULL;
	bool same = w->set == set;

	if (w->use != NULL)
		key_use_unfollow(w->use);
	hub_lock(h);
	list_remove(&w->link);
	h->stats.polls--;
	if (!w->settled) /* nothing came by that would have passed */
		event_cursor_advance(&w->after, &h->ring.tail);
	pthread_mutex_unlock(&h->lock);
	if (set != NULL)
		credentials_release(set);
	return same;
}

void event_hub_touch(struct event_hub *h, uint64_t group)
{
	hub_lock(h);
	for (struct list *l = h->polls.next; l != &h->polls; l = l->next) {
		struct event_wait *w = LIST_ENTRY(l, struct event_wait, link);

		if (w->group == group)
			http_wake(w->request);
	}
	pthread_mutex_unlock(&h->lock);
}
