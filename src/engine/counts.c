/* Counts: a sorted array under a lock, touched once a change and once a batch. */
#include "engine/counts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct slot {
	uint32_t     table_id;
	uint16_t     index_id;
	bool         changed;
	struct count count;
};

struct counts {
	pthread_mutex_t lock;
	struct slot    *slots; /* sorted by table, then index */
	size_t          len, cap;
	bool            changed; /* some slot is */
};

struct counts *counts_open(void)
{
	struct counts *c = mem_zalloc(sizeof(*c));

	pthread_mutex_init(&c->lock, NULL);
	return c;
}

void counts_close(struct counts *c)
{
	pthread_mutex_destroy(&c->lock);
	free(c->slots);
	free(c);
}

static uint64_t slot_key(uint32_t table_id, uint16_t index_id)
{
	return (uint64_t)table_id << 16 | index_id;
}

/* The position of the first slot not before it. */
static size_t position(const struct counts *c, uint64_t key)
{
	size_t low = 0, high = c->len;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (slot_key(c->slots[middle].table_id, c->slots[middle].index_id) < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct slot *slot_at(struct counts *c, uint32_t table_id, uint16_t index_id)
{
	size_t at = position(c, slot_key(table_id, index_id));

	if (at < c->len && c->slots[at].table_id == table_id && c->slots[at].index_id == index_id)
		return &c->slots[at];
	if (c->len == c->cap) {
		c->cap = c->cap == 0 ? 16 : c->cap * 2;
		c->slots = mem_realloc(c->slots, c->cap * sizeof(*c->slots));
	}
	memmove(&c->slots[at + 1], &c->slots[at], (c->len - at) * sizeof(*c->slots));
	c->len++;
	c->slots[at] = (struct slot){table_id, index_id, false, {0, 0}};
	return &c->slots[at];
}

struct count counts_get(struct counts *c, uint32_t table_id, uint16_t index_id)
{
	struct count count;

	pthread_mutex_lock(&c->lock);
	count = slot_at(c, table_id, index_id)->count;
	pthread_mutex_unlock(&c->lock);
	if (count.items < 0)
		count.items = 0;
	if (count.bytes < 0)
		count.bytes = 0;
	return count;
}

void counts_add(struct counts *c, uint32_t table_id, uint16_t index_id, struct count change)
{
	struct slot *s;

	pthread_mutex_lock(&c->lock);
	s = slot_at(c, table_id, index_id);
	s->count.items += change.items;
	s->count.bytes += change.bytes;
	s->changed = c->changed = true;
	pthread_mutex_unlock(&c->lock);
}

static void drop(struct counts *c, uint64_t first, uint64_t end)
{
	size_t from, to;

	pthread_mutex_lock(&c->lock);
	from = position(c, first);
	to = position(c, end);
	memmove(&c->slots[from], &c->slots[to], (c->len - to) * sizeof(*c->slots));
	c->len -= to - from;
	pthread_mutex_unlock(&c->lock);
}

void counts_drop(struct counts *c, uint32_t table_id)
{
	drop(c, slot_key(table_id, 0), slot_key(table_id + 1, 0));
}

void counts_drop_index(struct counts *c, uint32_t table_id, uint16_t index_id)
{
	drop(c, slot_key(table_id, index_id), slot_key(table_id, index_id) + 1);
	counts_add(c, table_id, 0, (struct count){0, 0}); /* so that it is stored without the index */
}

/* One attribute an index: its id -> [items, bytes]. */
static void add_slot(struct arena *a, struct item *item, const struct slot *s)
{
	struct value v = {.type = VALUE_L, .list = {arena_array(a, 2, sizeof(struct value)), 2}};
	struct bytes name = arena_printf(a, "%u", s->index_id);

	v.list.items[0] = value_i64(s->count.items);
	v.list.items[1] = value_i64(s->count.bytes);
	*item = item_with(a, item, name, &v);
}

void counts_save(struct counts *c, struct arena                                             *a,
                 void (*store)(void *ctx, uint32_t table_id, const struct item *item), void *ctx)
{
	size_t at = 0;

	pthread_mutex_lock(&c->lock);
	while (c->changed && at < c->len) {
		uint32_t    table_id = c->slots[at].table_id;
		struct item item = {0};
		bool        changed = false;

		for (; at < c->len && c->slots[at].table_id == table_id; at++) {
			changed = changed || c->slots[at].changed;
			c->slots[at].changed = false;
			add_slot(a, &item, &c->slots[at]);
		}
		if (changed)
			store(ctx, table_id, &item);
	}
	c->changed = false;
	pthread_mutex_unlock(&c->lock);
}

void counts_unsave(struct counts *c)
{
	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < c->len; i++)
		c->slots[i].changed = c->changed = true;
	pthread_mutex_unlock(&c->lock);
}

void counts_load(struct counts *c, uint32_t table_id, const struct item *item)
{
	for (uint32_t i = 0; i < item->count; i++) {
		const struct value *v = &item->members[i].value;
		uint64_t            index_id;
		struct count        count;

		if (!bytes_to_u64(item->members[i].name, UINT16_MAX, &index_id) || v->type != VALUE_L ||
		    v->list.count != 2 || !number_to_i64(&v->list.items[0].number, &count.items) ||
		    !number_to_i64(&v->list.items[1].number, &count.bytes))
			continue;
		pthread_mutex_lock(&c->lock);
		slot_at(c, table_id, (uint16_t)index_id)->count = count;
		pthread_mutex_unlock(&c->lock);
	}
}

/* Slots of nothing are made by who asks for them. */
static bool agree(struct counts *a, struct counts *b, char out[128])
{
	for (size_t i = 0; i < a->len; i++) {
		const struct slot *s = &a->slots[i];
		struct count       other = counts_get(b, s->table_id, s->index_id);

		if (other.items == s->count.items && other.bytes == s->count.bytes)
			continue;
		snprintf(out, 128, "index %u of table %u: %lld items of %lld bytes, and %lld of %lld",
		         s->index_id, s->table_id, (long long)s->count.items, (long long)s->count.bytes,
		         (long long)other.items, (long long)other.bytes);
		return false;
	}
	return true;
}

const char *counts_compare(struct counts *a, struct counts *b, char out[128])
{
	return agree(a, b, out) && agree(b, a, out) ? NULL : out;
}
