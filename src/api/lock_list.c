/* GET /v1/locks: the locks that hold, of all subjects, a page at a time; and how a page of locks is written. */
#include "api/lock_list.h"

#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "service/cursor.h"
#include "service/key_names.h"

struct list_call {
	struct lock_search q;
	struct lock_page   page;
};

enum { LOCKS_PAGE_DEFAULT = 100 };

static enum err_code read_limit(struct v1_call *c, uint32_t *limit, struct err *err)
{
	struct bytes text = v1_query(c, "limit", err);
	uint64_t     number = LOCKS_PAGE_DEFAULT;

	if (text.data != NULL && (!bytes_to_u64(text, LOCKS_PAGE_MAX, &number) || number < 1))
		return err_field(err, ERR_INVALID, "limit", "limit: must be from 1 to %d", LOCKS_PAGE_MAX);
	*limit = (uint32_t)number;
	return err->code;
}

static bool name_known(const struct rules *rules, struct bytes name)
{
	for (uint32_t i = 0; i < rules->journey_count; i++)
		if (rules_has_lock(rules, rules->journeys[i].name, name))
			return true;
	return false;
}

/* A name alone is of any journey. */
static enum err_code read_filter(struct v1_call *c, struct lock_search *q, struct err *err)
{
	const struct rules *rules = v1_rules(c);

	q->journey = v1_query(c, "journey", err);
	q->name = v1_query(c, "name", err);
	if (err->code != ERR_NONE)
		return err->code;
	if (q->journey.data != NULL) {
		v1_resource(c, "journey", q->journey);
		return v1_check_lock(rules, q->journey, q->name, err);
	}
	v1_any_journey(c, rules);
	if (q->name.data != NULL && !name_known(rules, q->name))
		return err_field(err, ERR_INVALID, "name",
		                 "name: unknown; no journey in the policies has a lock of this name");
	return ERR_NONE;
}

enum err_code lock_list_decode(struct v1_call *c, struct err *err)
{
	struct list_call *l = arena_zalloc(c->arena, sizeof(*l));
	struct bytes      cursor;

	c->request = l;
	err->code = ERR_NONE;
	if (read_filter(c, &l->q, err) != ERR_NONE || read_limit(c, &l->q.limit, err) != ERR_NONE)
		return err->code;
	cursor = v1_query(c, "cursor", err);
	if (err->code == ERR_NONE && cursor.data != NULL &&
	    !cursor_read(c->arena, cursor, &l->q.after_pk, &l->q.after_sk))
		return err_field(err, ERR_INVALID, "cursor", "cursor: not a cursor returned by this API");
	return err->code;
}

enum err_code lock_list_run(struct v1_call *c, struct err *err)
{
	struct list_call *l = c->request;

	l->q.sees = v1_sees;
	l->q.sees_ctx = c;
	return locks_find(&c->ctx, &l->q, &l->page, err);
}

void lock_list_encode(struct v1_call *c, struct json_writer *w)
{
	const struct list_call *l = c->request;

	json_begin_object(w);
	lock_page_write(w, BYTES("locks"), &l->page, c->arena, c->ctx.now_us);
	json_end_object(w);
}

/* ---- locks in answers ---- */

static struct bytes lane_of(struct bytes type)
{
	return bytes_is(type, KEY_SOURCE_LOCK) ? BYTES("source") : BYTES("subject");
}

static void lock_seen_write(struct json_writer *w, const struct lock_seen *seen, int64_t now_us)
{
	struct key_parts p = key_split(seen->sk);

	json_begin_object(w);
	v1_write_text(w, BYTES("subject"), seen->pk);
	v1_write_text(w, BYTES("journey"), p.journey);
	v1_write_text(w, BYTES("name"), p.classifier);
	v1_write_text(w, BYTES("qualifier"), p.qualifier);
	v1_write_text(w, BYTES("lane"), lane_of(p.type));
	v1_write_text(w, BYTES("kind"), seen->kind);
	v1_write_text(w, BYTES("cause"), seen->cause);
	if (seen->cause.len == 0)
		v1_write_text(w, BYTES("set_by"), seen->set_by);
	v1_write_text(w, BYTES("reason"), seen->reason);
	v1_write_time(w, BYTES("since"), seen->set_s);
	v1_write_time(w, BYTES("until"), seen->until_s);
	if (seen->until_s > 0)
		v1_write_i64(w, BYTES("retry_after"), verdict_retry_after(seen->until_s, now_us));
	json_end_object(w);
}

void lock_page_write(struct json_writer *w, struct bytes name, const struct lock_page *page, struct arena *a,
                     int64_t now_us)
{
	json_name(w, name);
	json_begin_array(w);
	for (uint32_t i = 0; i < page->count; i++)
		lock_seen_write(w, &page->list[i], now_us);
	json_end_array(w);
	v1_write_bool(w, BYTES("more"), page->more);
	if (page->more)
		v1_write_text(w, BYTES("cursor"), cursor_write(a, page->last_pk, page->last_sk));
}
