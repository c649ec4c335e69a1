/* Known: a memory of rows, told and asked row by row. */
#ifndef TESTS_SERVICE_KNOWN_H
#define TESTS_SERVICE_KNOWN_H

#include "service/fixture.h"

#include "service/known_rows.h"

static inline struct known *memory(size_t bytes)
{
	return known_open(&(struct known_options){.bytes_max = bytes, .denied_us = 1000});
}

static inline void learn(struct known *k, const char *pk, const char *sk, const struct item *item,
                         int64_t now_us)
{
	struct looked row;

	looked_init(&row, bytes_of(pk), bytes_of(sk));
	row.found = item != NULL;
	if (item != NULL)
		row.item = *item;
	known_learn(k, TABLE_AUTH_STATE, &row, now_us);
}

/* -1: nothing is known; 0: it is absent; else its count. */
static inline int64_t recall(struct known *k, struct arena *a, const char *pk, const char *sk,
                             int64_t since_us)
{
	struct known_ask q = {.which = TABLE_AUTH_STATE,
	                      .pk = bytes_of(pk),
	                      .sk = bytes_of(sk),
	                      .since_us = since_us,
	                      .arena = a};
	struct item      item;
	bool             found;

	if (!known_get(k, &q, &found, &item))
		return -1;
	return found ? row_i64(&item, "count", 0) : 0;
}

static inline struct item counted(struct arena *a, const char *pk, const char *sk, int64_t count)
{
	struct row row;

	row_init(&row, a);
	row_set_text(&row, "PK", bytes_of(pk));
	row_set_text(&row, "SK", bytes_of(sk));
	row_set_i64(&row, "count", count);
	return row_item(&row);
}

/* The same of a row that ends at this second. */
static inline struct item counted_until(struct arena *a, const char *pk, const char *sk, int64_t ttl)
{
	struct item once = counted(a, pk, sk, 1);
	struct row  row;

	row_from(&row, a, &once);
	row_set_i64(&row, "ttl", ttl);
	return row_item(&row);
}

/* A query of the partition's rows whose keys begin so has found these. */
static inline void learn_found(struct known *k, const char *pk, const char *prefix,
                               struct table_query_result r, int64_t now_us)
{
	struct expr_key_condition key = row_prefix(bytes_of(pk), bytes_of(prefix));

	known_learn_rows(k, TABLE_AUTH_STATE, &key, &r, now_us);
}

static inline void strangers(struct known *k, struct arena *a, const char *what, int count, int64_t now_us)
{
	struct item one = counted(a, "x", "S", 1);
	char        name[32];

	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%s-%d", what, i);
		learn(k, name, "S", &one, now_us);
	}
}

#endif
