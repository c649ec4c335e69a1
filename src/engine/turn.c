/* Turn: a hash table of changes and a log to undo them. */
#include "engine/turn.h"

#include <assert.h>
#include <stdlib.h>

#include "engine/layout.h"
#include "item/codec.h"

enum { BUCKETS_MIN = 256 };

/* What a change was, or (change NULL) which catalog was replaced. */
struct undo {
	struct change        *change;
	struct bytes          value;
	bool                  deleted, written;
	const struct catalog *catalog;
};

void turn_init(struct turn *t, struct hash_key hash_key)
{
	*t = (struct turn){.hash_key = hash_key};
	arena_init(&t->arena);
	buf_init(&t->encoded, NULL);
	t->bucket_count = BUCKETS_MIN;
	t->buckets = mem_zalloc(t->bucket_count * sizeof(struct change *));
	t->last = &t->first;
}

void turn_release(struct turn *t)
{
	if (t->catalog != NULL)
		catalog_release(t->catalog);
	arena_release(&t->arena);
	buf_release(&t->encoded);
	free(t->buckets);
	free(t->undo);
}

static void catalog_set(struct turn *t, const struct catalog *catalog)
{
	if (t->catalog != catalog) {
		memset(t->tables, 0, sizeof(t->tables));
		t->counted = NULL;
	}
	t->catalog = catalog;
}

const struct table_entry *turn_table(struct turn *t, struct bytes name)
{
	const struct table_entry *found;

	for (int i = 0; i < TURN_TABLES_MAX; i++)
		if (t->tables[i] != NULL && bytes_equal(t->tables[i]->schema.name, name))
			return t->tables[i];
	found = catalog_find(t->catalog, name);
	if (found == NULL)
		return NULL;
	t->tables[t->tables_next] = found;
	t->tables_next = (t->tables_next + 1) % TURN_TABLES_MAX;
	return found;
}

void turn_begin(struct turn *t, const struct catalog *catalog)
{
	const struct catalog *old = t->catalog;

	assert(t->undo_count == 0);
	catalog_set(t, catalog_ref(catalog));
	if (old != NULL)
		catalog_release(old);
	memset(t->buckets, 0, t->bucket_count * sizeof(struct change *));
	t->change_count = 0;
	t->bytes = 0;
	t->first = NULL;
	t->last = &t->first;
	t->ranges = NULL;
	t->closes = 0;
	t->counted = NULL;
	memset(t->touched, 0, sizeof(t->touched));
	arena_reset(&t->arena);
}

/* ---- what was seen ---- */

static void seen_forget(struct turn *t)
{
	t->seen_count = t->seen_next = 0;
	memset(t->known, 0, sizeof(t->known));
}

void turn_see(struct turn *t, struct seen seen)
{
	t->seen[t->seen_next] = seen;
	t->seen_next = (t->seen_next + 1) % TURN_SEEN_MAX;
	if (t->seen_count < TURN_SEEN_MAX)
		t->seen_count++;
}

/* (T3) A row is about to change. Its hash: 0, or the caller knows it. Of one that was seen it is known. */
static uint64_t seen_change(struct turn *t, uint64_t hash, struct bytes key)
{
	for (struct seen *s = t->seen; s < t->seen + t->seen_count; s++) {
		if (!bytes_equal(s->key, key))
			continue;
		s->row = NULL;
		hash = s->hash != 0 ? s->hash : hash;
	}
	return hash != 0 ? hash : hash_bytes(t->hash_key, key);
}

void turn_know(struct turn *t, const struct known *known)
{
	t->known[t->known_next] = known;
	t->known_next = (t->known_next + 1) % TURN_KNOWN_MAX;
}

const struct known *turn_known(const struct turn *t, const struct arena *a, const struct table_entry *table,
                               const struct value *hash)
{
	for (int i = 0; i < TURN_KNOWN_MAX; i++) {
		const struct known *k = t->known[i];

		if (k != NULL && k->table == table && k->arena == a && value_equal(&k->hash, hash))
			return k;
	}
	return NULL;
}

/* (T3) */
static void known_forget(struct turn *t, uint64_t number)
{
	for (int i = 0; i < TURN_KNOWN_MAX; i++)
		if (t->known[i] != NULL && t->known[i]->number == number)
			t->known[i] = NULL;
}

static uint64_t *touched_word(const struct turn *t, uint64_t number)
{
	return (uint64_t *)&t->touched[number % TURN_TOUCHED_BITS / 64];
}

bool turn_touched(const struct turn *t, uint64_t number)
{
	return (*touched_word(t, number) >> number % 64 & 1) != 0;
}

static void touched_note(struct turn *t, uint64_t number)
{
	*touched_word(t, number) |= UINT64_C(1) << number % 64;
}

/* ---- undoing ---- */

static struct undo *undo_add(struct turn *t)
{
	if (t->undo_count == t->undo_cap) {
		t->undo_cap = t->undo_cap == 0 ? 64 : t->undo_cap * 2;
		t->undo = mem_realloc(t->undo, t->undo_cap * sizeof(*t->undo));
	}
	t->undo[t->undo_count] = (struct undo){0};
	return &t->undo[t->undo_count++];
}

struct turn_mark turn_mark(const struct turn *t)
{
	return (struct turn_mark){t->undo_count, t->ranges, t->catalog};
}

void turn_rollback(struct turn *t, struct turn_mark mark)
{
	seen_forget(t);
	while (t->undo_count > mark.undo_count) {
		struct undo *u = &t->undo[--t->undo_count];

		if (u->change == NULL) {
			catalog_release(t->catalog);
			catalog_set(t, u->catalog);
			continue;
		}
		u->change->value = u->value;
		u->change->deleted = u->deleted;
		u->change->written = u->written;
	}
	t->ranges = mark.ranges;
	assert(t->catalog == mark.catalog);
}

void turn_keep(struct turn *t, struct turn_mark mark)
{
	seen_forget(t);
	while (t->undo_count > mark.undo_count) {
		struct undo *u = &t->undo[--t->undo_count];

		if (u->change == NULL)
			catalog_release(u->catalog);
	}
}

/* ---- rows ---- */

static struct change *find(const struct turn *t, uint64_t hash, struct bytes key)
{
	struct change *c = t->buckets[hash & (t->bucket_count - 1)];

	while (c != NULL && (c->hash != hash || !bytes_equal(c->key, key)))
		c = c->next_in_bucket;
	return c;
}

const struct change *turn_find(const struct turn *t, uint64_t hash, struct bytes key)
{
	const struct change *c = t->change_count == 0 ? NULL : find(t, hash, key);

	return c != NULL && c->written ? c : NULL; /* (T2) */
}

static void rehash(struct turn *t)
{
	t->bucket_count *= 2;
	free(t->buckets);
	t->buckets = mem_zalloc(t->bucket_count * sizeof(struct change *));
	for (struct change *c = t->first; c != NULL; c = c->next) {
		struct change **bucket = &t->buckets[c->hash & (t->bucket_count - 1)];

		c->next_in_bucket = *bucket;
		*bucket = c;
	}
}

static struct change *add(struct turn *t, uint64_t hash, struct bytes key, struct bytes before)
{
	struct change  *c = arena_zalloc(&t->arena, sizeof(*c));
	struct change **bucket;

	c->key = arena_copy(&t->arena, key);
	c->hash = hash;
	c->partition = layout_partition_number(key);
	touched_note(t, c->partition);
	c->existed = before.data != NULL;
	c->existed_bytes = before.len;
	c->existed_hour = item_lapse(before);
	if (t->change_count == t->bucket_count)
		rehash(t);
	bucket = &t->buckets[hash & (t->bucket_count - 1)];
	c->next_in_bucket = *bucket;
	*bucket = c;
	*t->last = c;
	t->last = &c->next;
	t->change_count++;
	t->bytes += key.len;
	return c;
}

/* The change of this row, with its present state in the undo log. */
static struct change *touch(struct turn *t, uint64_t known_hash, struct bytes key, struct bytes before)
{
	uint64_t       hash = seen_change(t, known_hash, key);
	struct change *c = find(t, hash, key);
	struct undo   *u;

	if (c == NULL)
		c = add(t, hash, key, before);
	known_forget(t, c->partition);
	u = undo_add(t);
	u->change = c;
	u->value = c->value;
	u->deleted = c->deleted;
	u->written = c->written;
	c->written = true;
	return c;
}

void turn_put(struct turn *t, struct bytes key, struct bytes value, struct bytes before)
{
	turn_put_hashed(t, 0, key, value, before);
}

void turn_put_hashed(struct turn *t, uint64_t hash, struct bytes key, struct bytes value, struct bytes before)
{
	struct change *c = touch(t, hash, key, before);

	c->value = arena_copy(&t->arena, value);
	c->deleted = false;
	t->bytes += value.len;
}

void turn_delete(struct turn *t, struct bytes key, struct bytes before)
{
	struct change *c = touch(t, 0, key, before);

	c->value = (struct bytes){"", 0};
	c->deleted = true;
}

void turn_delete_range(struct turn *t, struct bytes low, struct bytes high)
{
	struct range_delete *r = arena_alloc(&t->arena, sizeof(*r));

	seen_forget(t);
	*r = (struct range_delete){arena_copy(&t->arena, low), arena_copy(&t->arena, high), t->ranges};
	t->ranges = r;
}

void turn_set_catalog(struct turn *t, const struct catalog *catalog)
{
	struct undo *u = undo_add(t);

	u->catalog = t->catalog;
	catalog_set(t, catalog);
}
