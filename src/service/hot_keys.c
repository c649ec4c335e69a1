/* Hot keys: one sketch over all tables, by "table/key". */
#include "service/hot_keys.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"

struct hot_keys {
	struct hot_keys_options options;
	struct limit_top       *top;
	_Atomic uint64_t        seconds;
	_Atomic int64_t         warned_us;
};

struct hot_keys *hot_keys_open(const struct hot_keys_options *options)
{
	struct hot_keys *h = mem_zalloc(sizeof(*h));

	h->options = *options;
	h->top = limit_top_open();
	return h;
}

void hot_keys_close(struct hot_keys *h)
{
	limit_top_close(h->top);
	free(h);
}

static struct bytes hash_of(const struct hot_keys *h, struct arena *a, struct bytes key)
{
	return identifier_hash_text(h->options.identifiers, a, "hot key", key);
}

/* Now and then: several may be hot for long. */
static void warn(struct hot_keys *h, struct bytes table, struct bytes key, int64_t now_us)
{
	int64_t      last_us = atomic_load(&h->warned_us);
	struct arena a;
	struct bytes hash;

	if (now_us - last_us < HOT_KEYS_WARN_EVERY_S * INT64_C(1000000) ||
	    !atomic_compare_exchange_strong(&h->warned_us, &last_us, now_us))
		return;
	arena_init(&a);
	hash = hash_of(h, &a, key);
	log_warn("one key of the table %.*s takes %llu write units per second or more from this process; "
	         "DynamoDB throttles "
	         "at about 1000: key hash %.*s, see GET /v1/hot-keys",
	         BYTES_ARG(table), (unsigned long long)h->options.warn_units, BYTES_ARG(hash));
	arena_release(&a);
}

void hot_keys_add(struct hot_keys *h, struct bytes table, struct bytes pk, uint64_t units, int64_t now_us)
{
	char                 text[LIMIT_TOP_KEY_BYTES_MAX];
	size_t               room = sizeof(text) - table.len - 1;
	size_t               len = pk.len < room ? pk.len : room;
	struct limit_top_ask ask = {{text, table.len + 1 + len}, 0, false};
	uint64_t             now;

	if (h == NULL)
		return;
	memcpy(text, table.data, table.len); /* names of tables are shorter than that */
	text[table.len] = '/';
	memcpy(text + table.len + 1, pk.data, len);
	ask.hash = hash_bytes(h->options.seed, ask.key);
	now = limit_top_add(h->top, &ask, units, now_us);
	if (now < h->options.warn_units || now - units >= h->options.warn_units)
		return;
	atomic_fetch_add(&h->seconds, 1);
	warn(h, table, ask.key, now_us);
}

/* ---- watching ---- */

unsigned hot_keys_read(struct hot_keys *h, struct arena *a, unsigned max, int64_t now_us, struct hot_key *out)
{
	unsigned                    count;
	const struct limit_top_key *list = limit_top_read(h->top, a, max, now_us, &count);

	for (unsigned i = 0; i < count; i++) {
		struct bytes key = list[i].key;
		size_t       slash = (size_t)((const char *)memchr(key.data, '/', key.len) - key.data);

		out[i] = (struct hot_key){.table = {key.data, slash},
		                          .pk = {key.data + slash + 1, key.len - slash - 1},
		                          .hash = hash_of(h, a, key),
		                          .units = list[i].count,
		                          .doubt = list[i].doubt,
		                          .rate = list[i].rate};
	}
	return count;
}

uint64_t hot_keys_warn_units(const struct hot_keys *h)
{
	return h->options.warn_units;
}

uint64_t hot_keys_seconds(struct hot_keys *h)
{
	return atomic_load(&h->seconds);
}
