/* Lying store: a table that returns other rows than it was asked for. Stores do not (remote/ refuses such answers of an endpoint); but services
 * size their lists by the limit of the query, so they look. */
#include "test.h"

#include "service/foresight.h"
#include "service/lock_event.h"
#include "service/notification.h"
#include "service/push_list.h"
#include "service/row.h"

/* What is returned to every query. */
struct liar {
	struct table base; /* first */
	uint32_t     more; /* items beyond the limit */
	bool         no_items;
};

struct world {
	struct liar     liar;
	struct services services;
	struct context  ctx;
	struct arena    arena;
	struct err      err;
};

static enum err_code query(struct table *t, struct arena *a, const struct table_query *q,
                           struct table_query_result *r, struct err *err)
{
	const struct liar *liar = (struct liar *)t;

	(void)err;
	*r = (struct table_query_result){.count = q->limit + liar->more, .scanned = q->limit + liar->more};
	r->items = liar->no_items ? NULL : arena_zalloc(a, (r->count + 1) * sizeof(*r->items));
	for (uint32_t i = 0; !liar->no_items && i < r->count; i++)
		r->items[i] = row_key_two(a, q->key->hash.text, arena_printf(a, "%012u#%u", 1, i));
	return ERR_NONE;
}

static const struct table_backend backend = {.name = "liar", .query = query};

static void world_open(struct world *w)
{
	*w = (struct world){.liar = {.base = {.backend = &backend, .now_us = INT64_C(1794830400000000)}}};
	arena_init(&w->arena);
	w->services.tables = service_tables_default();
	w->services.tables.device_index = true;
	w->services.push.shards = 1;
	w->ctx = (struct context){.services = &w->services, .arena = &w->arena};
	ctx_begin(&w->ctx, &w->liar.base);
}

/* A list that is asked for; the rows that it takes. */
static enum err_code dues(struct world *w, uint32_t *count)
{
	static struct due_places places;
	struct due_page         *page = arena_alloc(&w->arena, sizeof(*page));
	enum err_code            rc = dues_read(&w->ctx, 0, &places, page, &w->err);

	*count = page->count;
	return rc;
}

static enum err_code notifications(struct world *w, uint32_t *count)
{
	struct notifications_search q = {.limit = 3};
	struct notifications_page   page;
	enum err_code               rc = notifications_find(&w->ctx, &q, &page, &w->err);

	*count = page.count;
	return rc;
}

static enum err_code broadcast(struct world *w, uint32_t *count)
{
	struct push_broadcast      q = {.platform = BYTES("ios"), .limit = 3};
	struct push_broadcast_page page;
	enum err_code              rc = push_devices_broadcast(&w->ctx, &q, &page, &w->err);

	*count = page.count;
	return rc;
}

static enum err_code (*const lists[])(struct world *w, uint32_t *count) = {dues, notifications, broadcast};

TEST(list, of_no_more_rows_than_its_limit_is_read)
{
	struct world w;
	uint32_t     count;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		world_open(&w);
		assert_int_equal(lists[i](&w, &count), ERR_NONE);
		assert_true(count >= 3);
		arena_release(&w.arena);
	}
}

TEST(list, of_more_rows_than_its_limit_counts_as_an_outage)
{
	struct world w;
	uint32_t     count;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		world_open(&w);
		w.liar.more = 2;
		assert_int_equal(lists[i](&w, &count), ERR_OVERLOADED);
		arena_release(&w.arena);
	}
}

TEST(list, of_rows_that_are_only_counted_counts_as_an_outage)
{
	struct world w;
	uint32_t     count;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		world_open(&w);
		w.liar.no_items = true;
		assert_int_equal(lists[i](&w, &count), ERR_OVERLOADED);
		arena_release(&w.arena);
	}
}
