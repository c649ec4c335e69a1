/* Last known: the memory, of several shards (known_shard.h). known_table.c has the table over it. See last_known.h. */
#include "service/last_known.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/arena.h"
#include "item/codec.h"
#include "service/known_shard.h"

struct known {
	struct known_options options;
	struct known_shard   shards[KNOWN_SHARDS];
};

/* ---- life ---- */

struct known *known_open(const struct known_options *options)
{
	struct known *k = mem_zalloc(sizeof(*k));

	assert(options->bytes_max >= KNOWN_BYTES_MIN);
	k->options = *options;
	for (unsigned i = 0; i < KNOWN_SHARDS; i++)
		known_shard_open(&k->shards[i], options->bytes_max / KNOWN_SHARDS);
	return k;
}

void known_close(struct known *k)
{
	for (unsigned i = 0; i < KNOWN_SHARDS; i++)
		known_shard_close(&k->shards[i]);
	free(k);
}

static uint64_t hash_of(const struct known *k, enum service_table which, struct bytes pk)
{
	return hash_bytes(k->options.seed, pk) + (uint64_t)which;
}

static struct known_shard *shard_lock(struct known *k, uint64_t hash)
{
	struct known_shard *s = &k->shards[(hash >> 40) % KNOWN_SHARDS];

	pthread_mutex_lock(&s->lock);
	return s;
}

/* ---- learning ---- */

bool known_keeps(enum service_table which)
{
	return which == TABLE_AUTH_STATE || which == TABLE_USERS || which == TABLE_REVOCATIONS ||
	       which == TABLE_IDEMPOTENCY;
}

static void items_encode(const struct known_write *list, uint32_t count, struct buf *text,
                         struct bytes *items)
{
	for (uint32_t i = 0; i < count; i++) {
		size_t from = text->len;

		if (list[i].item != NULL)
			item_encode(text, list[i].item);
		items[i].len = text->len - from;
	}
	for (uint32_t i = 0, from = 0; i < count; from += (uint32_t)items[i++].len)
		items[i].data = text->len == 0 ? NULL : text->data + from; /* it moves no more */
}

void known_put_all(struct known *k, const struct known_write *list, uint32_t count)
{
	uint64_t                hash;
	struct known_shard     *s;
	struct known_partition *p;
	struct buf              text;
	struct bytes            items[KNOWN_ROWS_MAX];

	assert(count >= 1 && count <= KNOWN_ROWS_MAX);
	if (!(k->options.of_limits ? list->which == TABLE_RATE_LIMITS : known_keeps(list->which)) ||
	    list->pk.len == 0)
		return;
	buf_init(&text, NULL);
	items_encode(list, count, &text, items);
	hash = hash_of(k, list->which, list->pk);
	s = shard_lock(k, hash);
	p = known_shard_get(s, hash, list->which, list->pk);
	known_shard_put(s, p, list, items, count);
	pthread_mutex_unlock(&s->lock);
	buf_release(&text);
}

void known_put(struct known *k, const struct known_write *w)
{
	known_put_all(k, w, 1);
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
	struct known_write list[KNOWN_ROWS_MAX];
	bool               whole = !rows->more && rows->count < KNOWN_ROWS_MAX;
	uint32_t           count = whole ? rows->count : 0;

	for (uint32_t i = 0; i <= count; i++)
		list[i] = (struct known_write){.which = which, .pk = key->hash.text, .now_us = now_us};
	for (uint32_t i = 0; i < count; i++) {
		list[i].sk = row_text(&rows->items[i], service_table_shape(which)->range);
		list[i].item = &rows->items[i];
	}
	list[count].sk = key->range_kind == RANGE_NONE ? (struct bytes){NULL, 0} : key->low.text;
	list[count].prefix = true;
	list[count].lost = !whole;
	known_put_all(k, list, count + 1);
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

/* Was it learned late enough? */
static bool is_told(const struct known_row *r, const struct known_ask *q)
{
	if (r->learned_us < q->since_us)
		return false;
	if (q->oldest_us != NULL && r->learned_us < *q->oldest_us)
		*q->oldest_us = r->learned_us;
	return true;
}

/* Is it under a prefix of which all is known? */
static bool under_prefix(const struct known_partition *p, const struct known_ask *q)
{
	for (const struct known_row *r = p->rows; r != NULL; r = r->next)
		if (r->prefix && r->sk_len <= q->sk.len && memcmp(r->text, q->sk.data, r->sk_len) == 0 &&
		    is_told(r, q))
			return true;
	return false;
}

bool known_get(struct known *k, const struct known_ask *q, bool *found, struct item *out)
{
	uint64_t                hash = hash_of(k, q->which, q->pk);
	struct known_shard     *s = shard_lock(k, hash);
	struct known_partition *p = known_shard_find(s, hash, q->which, q->pk);
	struct known_row       *r = p == NULL ? NULL : *known_partition_row(p, q->sk, false);
	bool                    is_known;

	if (r != NULL)
		is_known = is_told(r, q);
	else
		is_known = p != NULL && q->sk.data != NULL && under_prefix(p, q);
	*found = is_known && r != NULL && r->found;
	if (*found)
		row_read(r, q->arena, out);
	pthread_mutex_unlock(&s->lock);
	return is_known;
}

bool known_rows(struct known *k, const struct known_ask *q, struct table_query_result *out)
{
	uint64_t                hash = hash_of(k, q->which, q->pk);
	struct known_shard     *s = shard_lock(k, hash);
	struct known_partition *p = known_shard_find(s, hash, q->which, q->pk);
	bool                    is_known = p != NULL && under_prefix(p, q);

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

static void pins_add(struct known *k, enum service_table which, struct bytes pk, bool more)
{
	uint64_t            hash = hash_of(k, which, pk);
	struct known_shard *s = shard_lock(k, hash);

	known_shard_pin(s, known_shard_get(s, hash, which, pk), more);
	pthread_mutex_unlock(&s->lock);
}

void known_pin(struct known *k, enum service_table which, struct bytes pk)
{
	pins_add(k, which, pk, true);
}

void known_unpin(struct known *k, enum service_table which, struct bytes pk)
{
	pins_add(k, which, pk, false);
}

uint32_t known_pins(struct known *k, struct bytes subject)
{
	uint64_t                      hash = hash_of(k, TABLE_AUTH_STATE, subject);
	struct known_shard           *s = shard_lock(k, hash);
	const struct known_partition *p = known_shard_find(s, hash, TABLE_AUTH_STATE, subject);
	uint32_t                      pins = p == NULL ? 0 : p->pins;

	pthread_mutex_unlock(&s->lock);
	return pins;
}

void known_deny(struct known *k, struct bytes subject, int64_t now_us)
{
	uint64_t            hash = hash_of(k, TABLE_AUTH_STATE, subject);
	struct known_shard *s;

	if (k->options.denied_us == 0)
		return;
	s = shard_lock(k, hash);
	known_shard_get(s, hash, TABLE_AUTH_STATE, subject)->denied_us = now_us;
	pthread_mutex_unlock(&s->lock);
}

bool known_denied(struct known *k, struct bytes subject, int64_t now_us)
{
	uint64_t                      hash = hash_of(k, TABLE_AUTH_STATE, subject);
	struct known_shard           *s;
	const struct known_partition *p;
	bool                          denied;

	if (k->options.denied_us == 0)
		return false;
	s = shard_lock(k, hash);
	p = known_shard_find(s, hash, TABLE_AUTH_STATE, subject);
	denied = p != NULL && p->denied_us > 0 && now_us >= p->denied_us && /* a clock may step back */
	         now_us - p->denied_us < k->options.denied_us;
	pthread_mutex_unlock(&s->lock);
	return denied;
}

bool known_is_old(const struct table *t)
{
	const struct known_session *s = known_session_of(t);

	return s != NULL && (s->unknown || t->now_us - s->oldest_us >= s->known->options.token_us);
}

int64_t known_token_us(const struct known *k)
{
	return k->options.token_us;
}

int64_t known_denied_us(const struct known *k)
{
	return k->options.denied_us;
}

struct known_numbers known_read(struct known *k)
{
	struct known_numbers n = {0};

	for (unsigned i = 0; i < KNOWN_SHARDS; i++) {
		struct known_shard *s = &k->shards[i];

		pthread_mutex_lock(&s->lock);
		n.partitions += s->partitions;
		n.forgotten += s->forgotten;
		n.guards_forgotten += s->guards_forgotten;
		n.bytes += s->bytes;
		pthread_mutex_unlock(&s->lock);
	}
	return n;
}
