/* Sweep: walks the buckets of the expiry index that lie wholly in the past. Reads hide expired rows by
 * themselves, at the second; this only gives the space back, up to a bucket's width later. */
#include "engine/sweep.h"

#include "engine/layout.h"
#include "engine/row.h"
#include "engine/ticker.h"

enum {
	SWEEP_ROWS_MAX = 64, /* a turn */
	SWEEP_RESTART_ROUNDS = 600,
};

struct sweep_request {
	struct turn_request base;
	struct sweep       *sweep;
	bool                more;
};

static bool same_bucket(int64_t bucket_start_s, int64_t expiry_s)
{
	return expiry_s >= bucket_start_s && expiry_s < bucket_start_s + EXPIRY_BUCKET_S;
}

/* Removes one row if it is expired, and in any case an entry that does not belong to its row any more. */
static enum err_code sweep_row(struct engine_session *s, struct arena *a, struct bytes entry, struct err *err)
{
	const struct table_entry *t;
	struct loaded             row = {0};
	int64_t                   bucket_s;
	uint32_t                  table_id;
	uint16_t                  index_id;
	bool                      found = false;

	if (!layout_expiry_parse(a, entry, &bucket_s, &row.key) ||
	    !layout_parse_owner(row.key, &table_id, &index_id))
		return err_set(err, ERR_STORAGE, "an entry of the expiry index is damaged");
	t = catalog_find_id(s->turn->catalog, table_id);
	if (t != NULL) {
		if (view_get(s, a, row.key, &row.value, &found, err) != ERR_NONE ||
		    (found && row_decode(s, a, t, row.value, &row, err) != ERR_NONE))
			return err->code;
	}
	if (found && !row.live) {
		row_store(s, a, t, &row, NULL, NULL);
		atomic_fetch_add(&s->engine->swept_rows, 1);
	}
	if (!found || !row.live || !same_bucket(bucket_s, schema_expiry(&t->schema, &row.item)))
		turn_delete(s->turn, entry, true, 0);
	return ERR_NONE;
}

static enum err_code sweep_turn(struct engine_session *s, struct arena *a, struct sweep_request *q,
                                struct err *err)
{
	struct view_cursor cursor;
	struct bytes       key, value;
	struct buf         high;
	unsigned           rows = 0;

	buf_init(&high, a);
	layout_expiry_bucket(&high, s->base.now_us / 1000000);
	if (bytes_compare(buf_bytes(&q->sweep->at), buf_bytes(&high)) >= 0)
		return ERR_NONE;
	view_cursor_open(&cursor, s, NULL, a, arena_copy(a, buf_bytes(&q->sweep->at)), buf_bytes(&high),
	                 false);
	err->code = ERR_NONE;
	while (err->code == ERR_NONE && rows < SWEEP_ROWS_MAX && view_cursor_next(&cursor, &key, &value)) {
		struct bytes entry = arena_copy(a, key);

		rows++;
		buf_reset(&q->sweep->at);
		buf_add_bytes(&q->sweep->at, entry);
		buf_add_byte(&q->sweep->at, 0);
		sweep_row(s, a, entry, err);
	}
	if (err->code == ERR_NONE)
		view_cursor_check(&cursor, err);
	view_cursor_close(&cursor);
	q->more = rows == SWEEP_ROWS_MAX;
	return err->code;
}

static enum err_code sweep_request_run(struct turn_request *w, struct table *t)
{
	struct arena  a;
	enum err_code rc;

	arena_init(&a);
	rc = sweep_turn((struct engine_session *)t, &a, (struct sweep_request *)w, &w->err);
	arena_release(&a);
	return rc;
}

/* Goes on where the last round ended, so as not to walk over what it removed. An entry may be added behind
 * that place (an item written with a time long past): now and then a round starts anew. */
enum err_code sweep_run(struct engine *e, struct sweep *s, struct err *err)
{
	struct sweep_request q;

	if (engine_now_us(e) < e->sweep_after_us)
		return ERR_NONE;
	if (s->rounds++ % SWEEP_RESTART_ROUNDS == 0) {
		buf_reset(&s->at);
		buf_add_byte(&s->at, KIND_EXPIRY);
	}
	do {
		q = (struct sweep_request){.base = {.run = sweep_request_run}, .sweep = s};
		if (engine_run(e, &q.base, err) != ERR_NONE)
			return err->code;
	} while (q.more && ticker_goes_on(e->ticker));
	return ERR_NONE;
}
