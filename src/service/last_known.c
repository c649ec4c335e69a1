/* Last known: the memory. known_table.c has the table over it. See last_known.h. */
#include "service/last_known.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/arena.h"
#include "item/codec.h"
#include "service/known_rows.h"
#include "service/user.h"

enum { BUCKET_BYTES = 2048 }; /* one bucket for so much memory */

struct known_row {
	struct known_row *next; /* newest first */
	int64_t           learned_us;
	bool              prefix; /* not a row: all that begin like this are known */
	bool              found;
	int64_t           guards_us; /* it stands against somebody until then; 0: it does not */
	uint32_t          sk_len, item_len;
	char              text[]; /* sort key, item */
};

/* (1b) In the order in which they are forgotten; pinned ones are not. */
enum standing { STRANGER, RETURNING, GUARDED, PINNED, STANDINGS };

struct partition {
	struct list       used; /* among those of its standing, least recently used first */
	enum standing     standing;
	struct partition *next; /* in the bucket */
	struct known_row *rows;
	uint32_t          row_count;
	uint32_t          pins;
	int64_t           denied_us; /* when it was refused; 0: it was not */
	int64_t           first_us;  /* when something was first put; 0: nothing was */
	int64_t           guards_us; /* the last end of its rows' */
	bool              returned;
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
	struct list        used[STANDINGS];
	size_t             standing_bytes[STANDINGS];
	size_t             bytes, bytes_max;
	uint64_t           partitions, forgotten, guards_forgotten;
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
		for (int j = 0; j < STANDINGS; j++)
			list_init(&s->used[j]);
		s->bytes_max = options->bytes_max / KNOWN_SHARDS;
		s->bucket_count = s->bytes_max / BUCKET_BYTES + 1;
		s->buckets = mem_zalloc(s->bucket_count * sizeof(struct partition *));
	}
	return k;
}

static void bytes_add(struct shard *s, struct partition *p, size_t bytes)
{
	p->bytes += bytes;
	s->bytes += bytes;
	s->standing_bytes[p->standing] += bytes;
}

static void bytes_remove(struct shard *s, struct partition *p, size_t bytes)
{
	p->bytes -= bytes;
	s->bytes -= bytes;
	s->standing_bytes[p->standing] -= bytes;
}

static void row_free(struct partition *p, struct shard *s, struct known_row **at)
{
	struct known_row *r = *at;

	*at = r->next;
	p->row_count--;
	bytes_remove(s, p, sizeof(*r) + r->sk_len + r->item_len);
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
	bytes_remove(s, p, p->bytes);
	s->partitions--;
	free(p);
}

void known_close(struct known *k)
{
	for (unsigned i = 0; i < KNOWN_SHARDS; i++) {
		struct shard *s = &k->shards[i];

		for (int j = 0; j < STANDINGS; j++)
			while (!list_empty(&s->used[j]))
				partition_free(s, LIST_ENTRY(s->used[j].next, struct partition, used));
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
	list_push_back(&s->used[p->standing], &p->used);
	return p;
}

/* What it is worth has changed. */
static void partition_place(struct shard *s, struct partition *p)
{
	enum standing now = p->pins > 0        ? PINNED
	                    : p->guards_us > 0 ? GUARDED
	                    : p->returned      ? RETURNING
	                                       : STRANGER;

	s->standing_bytes[p->standing] -= p->bytes;
	p->standing = now;
	s->standing_bytes[now] += p->bytes;
	list_remove(&p->used);
	list_push_back(&s->used[now], &p->used);
}

static struct partition *oldest(struct shard *s, enum standing standing, const struct partition *keep)
{
	struct partition *p = LIST_ENTRY(s->used[standing].next, struct partition, used);

	return list_empty(&s->used[standing]) || p == keep ? NULL : p;
}

/* (1b) */
static struct partition *victim(struct shard *s, const struct partition *keep)
{
	size_t            guarded = s->standing_bytes[GUARDED], returning = s->standing_bytes[RETURNING];
	enum standing     first = guarded > s->bytes_max / 2                   ? GUARDED
	                          : guarded + returning > s->bytes_max / 8 * 7 ? RETURNING
	                                                                       : STRANGER;
	struct partition *p = oldest(s, first, keep);

	for (int i = STRANGER; p == NULL && i < PINNED; i++)
		p = oldest(s, (enum standing)i, keep);
	return p;
}

/* A lock that is over guards nobody. A few each time, so that it costs nothing much. */
static void guards_end(struct shard *s, int64_t now_us)
{
	enum { EACH_TIME = 4 };
	struct partition *p;

	for (int i = 0; i < EACH_TIME && (p = oldest(s, GUARDED, NULL)) != NULL && p->guards_us <= now_us;
	     i++) {
		p->guards_us = 0;
		partition_place(s, p);
	}
}

/* (1) Pinned ones are in a list of their own: as many as the spool has subjects. */
static void shard_trim(struct shard *s, const struct partition *keep)
{
	struct partition *p;

	while (s->bytes > s->bytes_max && (p = victim(s, keep)) != NULL) {
		s->forgotten++;
		s->guards_forgotten += p->standing == GUARDED;
		partition_free(s, p);
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
	list_push_back(&s->used[STRANGER], &p->used);
	bytes_add(s, p, sizeof(*p) + pk.len);
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

/* A prefix whose rows are no longer all there is not known any more (2). */
static void prefixes_drop(struct shard *s, struct partition *p, struct bytes sk, const struct known_row *but)
{
	for (struct known_row **at = &p->rows; *at != NULL;)
		if ((*at)->prefix && *at != but && (*at)->sk_len <= sk.len &&
		    ((*at)->sk_len == 0 || memcmp((*at)->text, sk.data, (*at)->sk_len) == 0))
			row_free(p, s, at);
		else
			at = &(*at)->next;
}

/* The oldest makes room. */
static void row_drop_oldest(struct shard *s, struct partition *p)
{
	struct known_row **at, *last = p->rows;

	while (last->next != NULL)
		last = last->next;
	prefixes_drop(s, p, (struct bytes){last->text, last->sk_len}, last);
	for (at = &p->rows; *at != last;)
		at = &(*at)->next;
	row_free(p, s, at);
}

/* (1b) Until when does that row stand against somebody? */
static int64_t guards_until_us(const struct known_write *w)
{
	struct bytes type, status;
	bool         guards = w->which == TABLE_REVOCATIONS;
	int64_t      end_s;

	if (w->item == NULL || w->prefix)
		return 0;
	if (w->which == TABLE_AUTH_STATE) {
		type = key_split(w->sk).type;
		guards = bytes_is(type, KEY_LOCK) || bytes_is(type, KEY_SOURCE_LOCK) ||
		         bytes_is(type, KEY_STATE);
	} else if (w->which == TABLE_USERS) {
		status = row_text(w->item, "status");
		guards = status.len > 0 && !bytes_is(status, user_status_names[USER_ACTIVE]);
	}
	end_s = row_i64(w->item, "ttl", 0);
	return !guards ? 0 : end_s <= 0 || end_s > INT64_MAX / 1000000 ? INT64_MAX : end_s * 1000000;
}

/* What stands against it, and whether it came again. */
static void partition_judge(struct shard *s, struct partition *p, int64_t now_us)
{
	p->guards_us = 0;
	for (const struct known_row *r = p->rows; r != NULL; r = r->next)
		if (r->guards_us > now_us && r->guards_us > p->guards_us)
			p->guards_us = r->guards_us;
	if (p->first_us == 0)
		p->first_us = now_us;
	p->returned = p->returned || now_us - p->first_us >= (int64_t)KNOWN_RETURN_S * 1000000;
	partition_place(s, p);
}

/* item: as w's is encoded. False: it is too large to be remembered. */
static bool row_put(struct shard *s, struct partition *p, const struct known_write *w, struct bytes item)
{
	struct bytes       sk = w->sk;
	struct known_row **at = row_find(p, sk, w->prefix), *r;
	size_t             bytes = sizeof(*r) + sk.len + item.len;

	if (*at != NULL)
		row_free(p, s, at);
	if (bytes > KNOWN_ROW_BYTES_MAX) {
		prefixes_drop(s, p, sk, NULL);
		return false;
	}
	if (p->row_count >= KNOWN_ROWS_MAX)
		row_drop_oldest(s, p);
	r = mem_alloc(bytes);
	*r = (struct known_row){.next = p->rows,
	                        .learned_us = w->now_us,
	                        .prefix = w->prefix,
	                        .found = w->item != NULL,
	                        .guards_us = guards_until_us(w),
	                        .sk_len = (uint32_t)sk.len,
	                        .item_len = (uint32_t)item.len};
	if (sk.len > 0)
		memcpy(r->text, sk.data, sk.len);
	if (item.len > 0)
		memcpy(r->text + sk.len, item.data, item.len);
	p->rows = r;
	p->row_count++;
	bytes_add(s, p, bytes);
	return true;
}

/* ---- learning ---- */

bool known_keeps(enum service_table which)
{
	return which == TABLE_AUTH_STATE || which == TABLE_USERS || which == TABLE_REVOCATIONS ||
	       which == TABLE_IDEMPOTENCY;
}

/* Under the lock. items: as they are encoded. */
static void rows_put(struct shard *s, struct partition *p, const struct known_write *list,
                     const struct bytes *items, uint32_t count)
{
	bool whole = true;

	for (uint32_t i = 0; i < count; i++) {
		if (!list[i].ours && p->pins > 0) /* (3) */
			continue;
		if (list[i].prefix && !whole) /* (2) */
			prefixes_drop(s, p, list[i].sk, NULL);
		else
			whole = row_put(s, p, &list[i], items[i]) && whole;
	}
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
		items[i].data = (const char *)text->data + from; /* it moves no more */
}

void known_put_all(struct known *k, const struct known_write *list, uint32_t count)
{
	uint64_t          hash;
	struct shard     *s;
	struct partition *p;
	struct buf        text;
	struct bytes      items[KNOWN_ROWS_MAX];

	assert(count >= 1 && count <= KNOWN_ROWS_MAX);
	if (!known_keeps(list->which) || list->pk.len == 0)
		return;
	buf_init(&text, NULL);
	items_encode(list, count, &text, items);
	hash = hash_of(k, list->which, list->pk);
	s = shard_lock(k, hash);
	p = partition_get(s, hash, list->which, list->pk);
	rows_put(s, p, list, items, count);
	partition_judge(s, p, list->now_us);
	guards_end(s, list->now_us);
	shard_trim(s, p);
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
	uint32_t           count = rows->count;

	if (rows->more || count >= KNOWN_ROWS_MAX)
		return;
	for (uint32_t i = 0; i <= count; i++)
		list[i] = (struct known_write){.which = which, .pk = key->hash.text, .now_us = now_us};
	for (uint32_t i = 0; i < count; i++) {
		list[i].sk = row_text(&rows->items[i], service_table_shape(which)->range);
		list[i].item = &rows->items[i];
	}
	list[count].sk = key->range_kind == RANGE_NONE ? (struct bytes){NULL, 0} : key->low.text;
	list[count].prefix = true;
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

static void pins_add(struct known *k, enum service_table which, struct bytes pk, bool more)
{
	uint64_t          hash = hash_of(k, which, pk);
	struct shard     *s = shard_lock(k, hash);
	struct partition *p = partition_get(s, hash, which, pk);

	assert(more || p->pins > 0);
	p->pins = more ? p->pins + 1 : p->pins - 1;
	partition_place(s, p);
	shard_trim(s, p);
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
		n.guards_forgotten += s->guards_forgotten;
		n.bytes += s->bytes;
		pthread_mutex_unlock(&s->lock);
	}
	return n;
}
