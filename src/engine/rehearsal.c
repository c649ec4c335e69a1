/* Rehearsal: see rehearsal.h. */
#include "engine/rehearsal.h"

#include "engine/layout.h"

/* ---- the log ---- */

static atomic_ullong *place(struct change_log *l, uint64_t hash)
{
	return &l->places[hash % CHANGE_LOG_PLACES];
}

/* Relaxed, because whoever reads the row comes by a lock that the writer takes afterwards. */
void change_log_add(struct change_log *l, uint64_t hash)
{
	unsigned long long next = atomic_load_explicit(&l->committed, memory_order_relaxed) + 1;

	atomic_store_explicit(place(l, hash), next, memory_order_relaxed);
}

void change_log_next(struct change_log *l)
{
	atomic_fetch_add_explicit(&l->committed, 1, memory_order_release);
}

static bool unchanged(struct change_log *l, uint64_t hash, uint64_t from)
{
	return atomic_load_explicit(place(l, hash), memory_order_relaxed) <= from;
}

/* ---- before the turn ---- */

void rehearsal_begin(struct engine_session *s, struct arena *a)
{
	s->rehearses = true;
	s->rehearsal = arena_zalloc(a, sizeof(*s->rehearsal));
	s->rehearsal->catalog = s->catalog;
	s->rehearsal->from = atomic_load_explicit(&s->engine->change_log->committed, memory_order_acquire);
}

/* What has expired may come to life again, years later (schema_expired): such a row is tested again. */
void rehearsal_note(struct engine_session *s, const struct table_entry *t, const struct loaded *row,
                    bool holds)
{
	struct rehearsal *r = s->rehearsal;
	int64_t           expiry_s = row->live ? schema_expiry(&t->schema, &row->item) : 0;

	r->list[r->count++] = (struct rehearsed){.hash = hash_bytes(s->engine->hash_key, row->key),
	                                         .holds = holds && row->live == row->stored,
	                                         .lapse_us = expiry_s > 0 ? expiry_s * 1000000 : INT64_MAX,
	                                         .size_bytes = row->size_bytes};
}

static bool catalog_stands(struct engine_session *s)
{
	bool same;

	pthread_mutex_lock(&s->engine->catalog_lock);
	same = s->engine->catalog == s->catalog;
	pthread_mutex_unlock(&s->engine->catalog_lock);
	return same;
}

bool rehearsal_is_final(struct engine_session *s)
{
	const struct rehearsal *r = s->rehearsal;

	if (r->writes || !catalog_stands(s))
		return false;
	for (uint32_t i = 0; i < r->count; i++)
		if (!unchanged(s->engine->change_log, r->list[i].hash, r->from))
			return false;
	return true;
}

/* ---- in the turn ---- */

static const struct rehearsed *find(const struct rehearsal *r, uint64_t hash)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (r->list[i].hash == hash)
			return &r->list[i];
	return NULL;
}

const struct rehearsed *rehearsal_holds(const struct engine_session *s, struct arena *a,
                                        const struct table_entry *t, const struct item *key)
{
	const struct rehearsal *r = s->rehearsal;
	const struct rehearsed *known;
	struct buf              row;
	uint64_t                hash;

	if (s->turn == NULL || s->turn->catalog != r->catalog)
		return NULL;
	buf_init(&row, a);
	layout_row(&row, t->id, &t->schema.keys, key);
	hash = hash_bytes(s->engine->hash_key, buf_bytes(&row));
	known = find(r, hash);
	if (known == NULL || !known->holds || known->lapse_us <= s->base.now_us ||
	    !unchanged(s->engine->change_log, hash, r->from) ||
	    turn_find(s->turn, hash, buf_bytes(&row)) != NULL)
		return NULL;
	return known;
}
