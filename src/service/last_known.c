/* Last known: the memory. known_table.c has the table over it. See last_known.h. */
#include "service/last_known.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/arena.h"
#include "item/codec.h"
#include "service/known_rows.h"

enum { BUCKET_BYTES = 2048 }; /* one bucket for so much memory */

struct known_row {
	struct known_row *next; /* newest first */
	int64_t           learned_us;
	bool              prefix; /* not a row: all that begin like this are known */
	bool              found;
	uint32_t          sk_len, item_len;
	char              text[]; /* sort key, item */
};

struct partition {
	struct list       used; /* in the shard, least recently used first */
	struct partition *next; /* in the bucket */
	struct known_row *rows;
	uint32_t          row_count;
	uint32_t          pins;
	int64_t           denied_us; /* when it was refused; 0: it was not */
	size_t            bytes;
	uint64_t          hash;
	size_t            pk_len;
	uint8_t           which;
	char              pk[];
};

struct shard {
	pthread_mutex_t    lock;
	struct partition **buckets;
	size_t             bucket_count;
	struct list        used;
	size_t             bytes, bytes_max;
	uint64_t           partitions, forgotten;
};

struct known {
	struct known_options options;
	struct shard         shards[KNOWN_SHARDS];
};

/* ---- life ---- */

struct known *known_open(const struct known_options *options)
{
	struct known *k = mem_zalloc(sizeof(*k));

	assert(options->bytes_max >= KNOWN_BYTES_MIN);
	k->options = *options;
	for (unsigned i = 0; i < KNOWN_SHARDS; i++) {
		struct shard *s = &k->shards[i];

		pthread_mutex_init(&s->lock, NULL);
		list_init(&s->used);
		s->bytes_max = options->bytes_max / KNOWN_SHARDS;
		s->bucket_count = s->bytes_max / BUCKET_BYTES + 1;
		s->buckets = mem_zalloc(s->bucket_count * sizeof(struct partition *));
	}
	return k;
}

static void row_free(struct partition *p, struct shard *s, struct known_row **at)
{
	struct known_row *r = *at;
	size_t            bytes = sizeof(*r) + r->sk_len + r->item_len;

	*at = r->next;
	p->row_count--;
	p->bytes -= bytes;
	s->bytes -= bytes;
	free(r);
}

static void partition_free(struct shard *s, struct partition *p)
{
	struct partition **at = &s->buckets[p->hash % s->bucket_count];

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	while (p->rows != NULL)
		row_free(p, s, &p->rows);
	list_remove(&p->used);
	s->bytes -= sizeof(*p) + p->pk_len;
	s->partitions--;
	free(p);
}

void known_close(struct known *k)
{
	for (unsigned i = 0; i < KNOWN_SHARDS; i++) {
		struct shard *s = &k->shards[i];

		while (!list_empty(&s->used))
			partition_free(s, LIST_ENTRY(s->used.next, struct partition, used));
		free(s->buckets);
		pthread_mutex_destroy(&s->lock);
	}
	free(k);
}

/* ---- partitions, under the shard's lock ---- */

static uint64_t hash_of(const struct known *k, enum service_table which, struct bytes pk)
{
	return hash_bytes(k->options.seed, pk) + (uint64_t)which;
}

static struct shard *shard_lock(struct known *k, uint64_t hash)
{
	struct shard *s = &k->shards[(hash >> 40) % KNOWN_SHARDS];

	pthread_mutex_lock(&s->lock);
	return s;
}

static struct partition *partition_find(struct shard *s, uint64_t hash, enum service_table which,
                                        struct bytes pk)
{
	struct partition *p = s->buckets[hash % s->bucket_count];

	while (p != NULL && (p->hash != hash || p->which != (uint8_t)which ||
	                     !bytes_equal((struct bytes){p->pk, p->pk_len}, pk)))
		p = p->next;
	if (p == NULL)
		return NULL;
	list_remove(&p->used);
	list_push_back(&s->used, &p->used);
	return p;
}

/* (1) Pinned ones are passed over: as many as the spool has subjects. */
static void shard_trim(struct shard *s, const struct partition *keep)
{
	struct list *node = s->used.next;

	while (s->bytes > s->bytes_max && node != &s->used) {
		struct partition *p = LIST_ENTRY(node, struct partition, used);

		node = node->next;
		if (p == keep || p->pins > 0)
			continue;
		partition_free(s, p);
		s->forgotten++;
	}
}

static struct partition *partition_get(struct shard *s, uint64_t hash, enum service_table which,
                                       struct bytes pk)
{
	struct partition *p = partition_find(s, hash, which, pk);

	if (p != NULL)
		return p;
	p = mem_zalloc(sizeof(*p) + pk.len);
	p->hash = hash;
	p->which = (uint8_t)which;
	p->pk_len = pk.len;
	memcpy(p->pk, pk.data, pk.len);
	p->next = s->buckets[hash % s->bucket_count];
	s->buckets[hash % s->bucket_count] = p;
	list_push_back(&s->used, &p->used);
	s->bytes += sizeof(*p) + pk.len;
	s->partitions++;
	return p;
}

static struct known_row **row_find(struct partition *p, struct bytes sk, bool prefix)
{
	struct known_row **at = &p->rows;

	while (*at != NULL &&
	       ((*at)->prefix != prefix || !bytes_equal((struct bytes){(*at)->text, (*at)->sk_len}, sk)))
		at = &(*at)->next;
	return at;
}

/* The oldest makes room. A prefix whose rows are no longer all there is not known any more. */
static void row_drop_oldest(struct shard *s, struct partition *p)
{
	struct known_row **at = &p->rows, **prefix;

	while ((*at)->next != NULL)
		at = &(*at)->next;
	for (prefix = &p->rows; *prefix != NULL && *prefix != *at;)
		if ((*prefix)->prefix && (*prefix)->sk_len <= (*at)->sk_len &&
		    memcmp((*prefix)->text, (*at)->text, (*prefix)->sk_len) == 0) {
			bool is_last = (*prefix)->next == *at;

			row_free(p, s, prefix);
			at = is_last ? prefix : at;
		} else {
			prefix = &(*prefix)->next;
		}
	row_free(p, s, at);
}

/* item: as w's is encoded. */
static void row_put(struct shard *s, struct partition *p, const struct known_write *w, struct bytes item)
{
	struct bytes       sk = w->sk;
	struct known_row **at = row_find(p, sk, w->prefix), *r;
	size_t             bytes = sizeof(*r) + sk.len + item.len;

	if (*at != NULL)
		row_free(p, s, at);
	if (bytes > KNOWN_ROW_BYTES_MAX)
		return;
	if (p->row_count >= KNOWN_ROWS_MAX)
		row_drop_oldest(s, p);
	r = mem_alloc(bytes);
	*r = (struct known_row){.next = p->rows,
	                        .learned_us = w->now_us,
	                        .prefix = w->prefix,
	                        .found = w->item != NULL,
	                        .sk_len = (uint32_t)sk.len,
	                        .item_len = (uint32_t)item.len};
	if (sk.len > 0)
		memcpy(r->text, sk.data, sk.len);
	if (item.len > 0)
		memcpy(r->text + sk.len, item.data, item.len);
	p->rows = r;
	p->row_count++;
	p->bytes += bytes;
	s->bytes += bytes;
}

/* ---- learning ---- */

bool known_keeps(enum service_table which)
{
	return which == TABLE_AUTH_STATE || which == TABLE_USERS || which == TABLE_REVOCATIONS ||
	       which == TABLE_IDEMPOTENCY;
}

void known_put(struct known *k, const struct known_write *w)
{
	uint64_t          hash;
	struct shard     *s;
	struct partition *p;
	struct buf        text;

	if (!known_keeps(w->which) || w->pk.len == 0)
		return;
	buf_init(&text, NULL);
	if (w->item != NULL)
		item_encode(&text, w->item);
	hash = hash_of(k, w->which, w->pk);
	s = shard_lock(k, hash);
	p = partition_get(s, hash, w->which, w->pk);
	if (w->ours || p->pins == 0) /* (3) */
		row_put(s, p, w, buf_bytes(&text));
	shard_trim(s, p);
	pthread_mutex_unlock(&s->lock);
	buf_release(&text);
}

void known_learn(struct known *k, enum service_table which, const struct looked *row, int64_t now_us)
{
	if (which == TABLE_IDEMPOTENCY) /* what others keep: too many, and asked for once */
		return;
	known_put(k, &(struct known_write){.which = which,
	                                   .pk = row->pk,
	                                   .sk = row->sk,
	                                   .item = row->found ? &row->item : NULL,
	                                   .now_us = now_us});
}

void known_learn_rows(struct known *k, enum service_table which, const struct expr_key_condition *key,
                      const struct table_query_result *rows, int64_t now_us)
{
	struct known_write w = {.which = which, .pk = key->hash.text, .now_us = now_us};

	if (rows->more || rows->count >= KNOWN_ROWS_MAX)
		return;
	for (uint32_t i = 0; i < rows->count; i++) {
		w.sk = row_text(&rows->items[i], service_table_shape(which)->range);
		w.item = &rows->items[i];
		known_put(k, &w);
	}
	w.sk = key->range_kind == RANGE_NONE ? (struct bytes){NULL, 0} : key->low.text;
	w.item = NULL;
	w.prefix = true;
	known_put(k, &w);
}

/* ---- reading ---- */

static void row_read(const struct known_row *r, struct arena *a, struct item *out)
{
	struct bytes  text = arena_copy(a, (struct bytes){r->text + r->sk_len, r->item_len});
	struct err    err;
	enum err_code rc = item_decode(a, text, out, &err);

	assert(rc == ERR_NONE); /* we encoded it */
	(void)rc;
}

/* Is it under a prefix of which all is known? */
static bool under_prefix(const struct partition *p, struct bytes sk, int64_t since_us)
{
	for (const struct known_row *r = p->rows; r != NULL; r = r->next)
		if (r->prefix && r->learned_us >= since_us && r->sk_len <= sk.len &&
		    memcmp(r->text, sk.data, r->sk_len) == 0)
			return true;
	return false;
}

bool known_get(struct known *k, const struct known_ask *q, bool *found, struct item *out)
{
	uint64_t          hash = hash_of(k, q->which, q->pk);
	struct shard     *s = shard_lock(k, hash);
	struct partition *p = partition_find(s, hash, q->which, q->pk);
	struct known_row *r = p == NULL ? NULL : *row_find(p, q->sk, false);
	bool              is_known = r != NULL ? r->learned_us >= q->since_us
	                                       : p != NULL && q->sk.data != NULL && under_prefix(p, q->sk, q->since_us);

	*found = is_known && r != NULL && r->found;
	if (*found)
		row_read(r, q->arena, out);
	pthread_mutex_unlock(&s->lock);
	return is_known;
}

bool known_rows(struct known *k, const struct known_ask *q, struct table_query_result *out)
{
	uint64_t          hash = hash_of(k, q->which, q->pk);
	struct shard     *s = shard_lock(k, hash);
	struct partition *p = partition_find(s, hash, q->which, q->pk);
	bool              is_known = p != NULL && under_prefix(p, q->sk, q->since_us);

	*out = (struct table_query_result){0};
	out->items = arena_array(q->arena, p == NULL ? 1 : p->row_count + 1, sizeof(*out->items));
	for (const struct known_row *r = p == NULL ? NULL : p->rows; r != NULL; r = r->next)
		if (!r->prefix && r->found && r->sk_len >= q->sk.len &&
		    (q->sk.len == 0 || memcmp(r->text, q->sk.data, q->sk.len) == 0))
			row_read(r, q->arena, &out->items[out->count++]);
	out->scanned = out->count;
	pthread_mutex_unlock(&s->lock);
	return is_known;
}

/* ---- subjects ---- */

static void pins_add(struct known *k, struct bytes subject, bool more)
{
	uint64_t          hash = hash_of(k, TABLE_AUTH_STATE, subject);
	struct shard     *s = shard_lock(k, hash);
	struct partition *p = partition_get(s, hash, TABLE_AUTH_STATE, subject);

	assert(more || p->pins > 0);
	p->pins = more ? p->pins + 1 : p->pins - 1;
	shard_trim(s, p);
	pthread_mutex_unlock(&s->lock);
}

void known_pin(struct known *k, struct bytes subject)
{
	pins_add(k, subject, true);
}

void known_unpin(struct known *k, struct bytes subject)
{
	pins_add(k, subject, false);
}

uint32_t known_pins(struct known *k, struct bytes subject)
{
	uint64_t                hash = hash_of(k, TABLE_AUTH_STATE, subject);
	struct shard           *s = shard_lock(k, hash);
	const struct partition *p = partition_find(s, hash, TABLE_AUTH_STATE, subject);
	uint32_t                pins = p == NULL ? 0 : p->pins;

	pthread_mutex_unlock(&s->lock);
	return pins;
}

void known_deny(struct known *k, struct bytes subject, int64_t now_us)
{
	uint64_t      hash = hash_of(k, TABLE_AUTH_STATE, subject);
	struct shard *s;

	if (k->options.denied_us == 0)
		return;
	s = shard_lock(k, hash);
	partition_get(s, hash, TABLE_AUTH_STATE, subject)->denied_us = now_us;
	pthread_mutex_unlock(&s->lock);
}

bool known_denied(struct known *k, struct bytes subject, int64_t now_us)
{
	uint64_t                hash = hash_of(k, TABLE_AUTH_STATE, subject);
	struct shard           *s;
	const struct partition *p;
	bool                    denied;

	if (k->options.denied_us == 0)
		return false;
	s = shard_lock(k, hash);
	p = partition_find(s, hash, TABLE_AUTH_STATE, subject);
	denied = p != NULL && p->denied_us > 0 && now_us >= p->denied_us && /* a clock may step back */
	         now_us - p->denied_us < k->options.denied_us;
	pthread_mutex_unlock(&s->lock);
	return denied;
}

int64_t known_denied_us(const struct known *k)
{
	return k->options.denied_us;
}

struct known_numbers known_read(struct known *k)
{
	struct known_numbers n = {0};

	for (unsigned i = 0; i < KNOWN_SHARDS; i++) {
		struct shard *s = &k->shards[i];

		pthread_mutex_lock(&s->lock);
		n.partitions += s->partitions;
		n.forgotten += s->forgotten;
		n.bytes += s->bytes;
		pthread_mutex_unlock(&s->lock);
	}
	return n;
}
