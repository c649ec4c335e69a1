/* Known shard: see known_shard.h. The numbers are those of last_known.h. */
#include "service/known_shard.h"

#include <assert.h>
#include <stdlib.h>

#include "service/user.h"

enum { BUCKET_BYTES = 2048 }; /* one bucket for so much memory */

/* ---- life ---- */

void known_shard_open(struct known_shard *s, size_t bytes_max)
{
	*s = (struct known_shard){.bytes_max = bytes_max, .bucket_count = bytes_max / BUCKET_BYTES + 1};
	pthread_mutex_init(&s->lock, NULL);
	for (int i = 0; i < STANDINGS; i++)
		list_init(&s->used[i]);
	s->buckets = mem_zalloc(s->bucket_count * sizeof(*s->buckets));
}

static void bytes_add(struct known_shard *s, struct known_partition *p, size_t bytes)
{
	p->bytes += bytes;
	s->bytes += bytes;
	s->standing_bytes[p->standing] += bytes;
}

static void bytes_remove(struct known_shard *s, struct known_partition *p, size_t bytes)
{
	p->bytes -= bytes;
	s->bytes -= bytes;
	s->standing_bytes[p->standing] -= bytes;
}

static void row_free(struct known_partition *p, struct known_shard *s, struct known_row **at)
{
	struct known_row *r = *at;

	*at = r->next;
	p->row_count--;
	bytes_remove(s, p, sizeof(*r) + r->sk_len + r->item_len);
	free(r);
}

static void partition_free(struct known_shard *s, struct known_partition *p)
{
	struct known_partition **at = &s->buckets[p->hash % s->bucket_count];

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

void known_shard_close(struct known_shard *s)
{
	for (int i = 0; i < STANDINGS; i++)
		while (!list_empty(&s->used[i]))
			partition_free(s, LIST_ENTRY(s->used[i].next, struct known_partition, used));
	free(s->buckets);
	pthread_mutex_destroy(&s->lock);
}

/* ---- partitions ---- */

struct known_partition *known_shard_find(struct known_shard *s, uint64_t hash, enum service_table which,
                                         struct bytes pk)
{
	struct known_partition *p = s->buckets[hash % s->bucket_count];

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
static void partition_place(struct known_shard *s, struct known_partition *p)
{
	enum known_standing now = p->pins > 0        ? PINNED
	                          : p->guards_us > 0 ? GUARDED
	                          : p->returned      ? RETURNING
	                                             : STRANGER;

	s->standing_bytes[p->standing] -= p->bytes;
	p->standing = now;
	s->standing_bytes[now] += p->bytes;
	list_remove(&p->used);
	list_push_back(&s->used[now], &p->used);
}

static struct known_partition *oldest(struct known_shard *s, enum known_standing standing,
                                      const struct known_partition *keep)
{
	struct known_partition *p = LIST_ENTRY(s->used[standing].next, struct known_partition, used);

	/* The analyzer does not see that list_remove() changes the head before a partition is freed.
	 * NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
	return list_empty(&s->used[standing]) || p == keep ? NULL : p;
}

/* (1b) */
static struct known_partition *victim(struct known_shard *s, const struct known_partition *keep)
{
	size_t              guarded = s->standing_bytes[GUARDED], returning = s->standing_bytes[RETURNING];
	enum known_standing first = guarded > s->bytes_max / 2                   ? GUARDED
	                            : guarded + returning > s->bytes_max / 8 * 7 ? RETURNING
	                                                                         : STRANGER;
	struct known_partition *p = oldest(s, first, keep);

	for (int i = STRANGER; p == NULL && i < PINNED; i++)
		p = oldest(s, (enum known_standing)i, keep);
	return p;
}

/* A lock that is over guards nobody. A few each time, so that it costs nothing much. */
static void guards_end(struct known_shard *s, int64_t now_us)
{
	enum { EACH_TIME = 4 };
	struct known_partition *p;

	for (int i = 0; i < EACH_TIME && (p = oldest(s, GUARDED, NULL)) != NULL && p->guards_us <= now_us;
	     i++) {
		p->guards_us = 0;
		partition_place(s, p);
	}
}

/* (1) Pinned ones are in a list of their own: as many as the spool has subjects. */
static void shard_trim(struct known_shard *s, const struct known_partition *keep)
{
	struct known_partition *p;

	while (s->bytes > s->bytes_max && (p = victim(s, keep)) != NULL) {
		s->forgotten++;
		s->guards_forgotten += p->standing == GUARDED;
		partition_free(s, p);
	}
}

struct known_partition *known_shard_get(struct known_shard *s, uint64_t hash, enum service_table which,
                                        struct bytes pk)
{
	struct known_partition *p = known_shard_find(s, hash, which, pk);

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

struct known_row **known_partition_row(struct known_partition *p, struct bytes sk, bool prefix)
{
	struct known_row **at = &p->rows;

	while (*at != NULL &&
	       ((*at)->prefix != prefix || !bytes_equal((struct bytes){(*at)->text, (*at)->sk_len}, sk)))
		at = &(*at)->next;
	return at;
}

/* A prefix whose rows are no longer all there is not known any more (2). */
static void prefixes_drop(struct known_shard *s, struct known_partition *p, struct bytes sk,
                          const struct known_row *but)
{
	for (struct known_row **at = &p->rows; *at != NULL;)
		if ((*at)->prefix && *at != but && (*at)->sk_len <= sk.len &&
		    ((*at)->sk_len == 0 || memcmp((*at)->text, sk.data, (*at)->sk_len) == 0))
			row_free(p, s, at);
		else
			at = &(*at)->next;
}

/* Which makes room: the oldest of those that stand against nobody. Whoever comes from many sources makes nobody's lock forgotten. */
static struct known_row *row_oldest(const struct known_partition *p, int64_t now_us)
{
	struct known_row *last = NULL, *any = NULL;

	for (struct known_row *r = p->rows; r != NULL; r = r->next) {
		any = r;
		last = r->guards_us > now_us ? last : r;
	}
	return last != NULL ? last : any;
}

static void row_drop_oldest(struct known_shard *s, struct known_partition *p, int64_t now_us)
{
	struct known_row **at, *last = row_oldest(p, now_us);

	prefixes_drop(s, p, (struct bytes){last->text, last->sk_len}, last);
	for (at = &p->rows; *at != last; at = &(*at)->next)
		assert(*at != NULL);
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
static void partition_judge(struct known_shard *s, struct known_partition *p, int64_t now_us)
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
static bool row_put(struct known_shard *s, struct known_partition *p, const struct known_write *w,
                    struct bytes item)
{
	struct bytes       sk = w->sk;
	struct known_row **at = known_partition_row(p, sk, w->prefix), *r;
	size_t             bytes = sizeof(*r) + sk.len + item.len;

	if (*at != NULL)
		row_free(p, s, at);
	if (bytes > KNOWN_ROW_BYTES_MAX) {
		prefixes_drop(s, p, sk, NULL);
		return false;
	}
	if (p->row_count >= KNOWN_ROWS_MAX)
		row_drop_oldest(s, p, w->now_us);
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

/* All rows with that prefix come anew: those that do not are gone, unless they are newer than the query. */
static void rows_drop_under(struct known_shard *s, struct known_partition *p, struct bytes prefix,
                            int64_t now_us)
{
	for (struct known_row **at = &p->rows; *at != NULL;)
		if (!(*at)->prefix && (*at)->learned_us <= now_us && (*at)->sk_len >= prefix.len &&
		    (prefix.len == 0 || memcmp((*at)->text, prefix.data, prefix.len) == 0))
			row_free(p, s, at);
		else
			at = &(*at)->next;
}

void known_shard_put(struct known_shard *s, struct known_partition *p, const struct known_write *list,
                     const struct bytes *items, uint32_t count)
{
	const struct known_write *last = &list[count - 1];
	bool                      whole = !last->lost;

	if (last->prefix && !last->lost && (last->ours || p->pins == 0))
		rows_drop_under(s, p, last->sk, last->now_us);
	for (uint32_t i = 0; i < count; i++) {
		if (!list[i].ours && p->pins > 0) /* (3) */
			continue;
		if (list[i].prefix && !whole) /* (2) */
			prefixes_drop(s, p, list[i].sk, NULL);
		else
			whole = row_put(s, p, &list[i], items[i]) && whole;
	}
	partition_judge(s, p, list->now_us);
	guards_end(s, list->now_us);
	shard_trim(s, p);
}

void known_shard_pin(struct known_shard *s, struct known_partition *p, bool more)
{
	assert(more || p->pins > 0);
	p->pins = more ? p->pins + 1 : p->pins - 1;
	partition_place(s, p);
	shard_trim(s, p);
}
