/* The log of events as its readers find it: pages without a gap, cursors, what was trimmed. Numbers are those of event_log.h. */
#include "service/scene.h"

#include "service/event_log.h"

enum { TYPES = 3 };

static const enum event_type types[TYPES] = {EVENT_USER_CREATED, EVENT_LOCK_SET, EVENT_DEVICE_MOVED};

static void log_open(struct scene *x, uint32_t shards)
{
	scene_open_anywhere(x, 1, true);
	x->s.all.events.on = EVENT_ALL;
	x->s.all.events.shards = shards;
}

static enum err_code publish_one(struct act *act, struct err *err)
{
	struct row data;

	row_init(&data, act->ctx.arena);
	row_set_i64(&data, "n", act->n);
	ctx_publish(&act->ctx, &(struct event){.type = types[act->n % TYPES],
	                                       .subject = arena_printf(act->ctx.arena, "s%d", act->n % 5),
	                                       .data = row_item(&data)});
	return commit(act, err);
}

static enum err_code publish_many(struct act *act, struct err *err)
{
	for (int i = 0; i < 20; i++)
		ctx_publish(&act->ctx, &(struct event){.type = EVENT_LOCK_SET, .subject = BYTES("other")});
	return commit(act, err);
}

/* n = 0, 1, 2 …, each in a commit of its own. */
static void publish(struct scene *x, int count)
{
	for (int i = 0; i < count; i++)
		assert_int_equal(play(x, publish_one, i), ERR_NONE);
}

/* As trimming does it, in one commit: rows up to the position go, and FIRST says so. */
static enum err_code trim_to(struct act *act, struct err *err)
{
	struct arena *a = act->ctx.arena;
	struct row    row;

	for (int i = 1; i < act->n; i++)
		ctx_delete(&act->ctx, TABLE_EVENTS,
		           row_key_two(a, BYTES("LOG#0"), arena_printf(a, "%020d", i)));
	row_init(&row, a);
	row_set_text(&row, "PK", BYTES("HEAD"));
	row_set_text(&row, "SK", BYTES("FIRST#0"));
	row_set_i64(&row, "position", act->n);
	ctx_put(&act->ctx, TABLE_EVENTS, row_item(&row));
	return commit(act, err);
}

/* What is committed, read as a route reads it. */
struct reader {
	struct context ctx;
	struct store  *store;
};

static struct reader reader_open(struct scene *x)
{
	struct reader r = {.ctx = {.services = &x->s.all, .arena = &x->s.f.arena}, .store = x->store};

	ctx_begin(&r.ctx, r.store->backend->read_begin(r.store, r.ctx.arena));
	return r;
}

static void reader_close(struct reader *r)
{
	r->store->backend->read_end(r->store, r->ctx.table);
}

static enum err_code read_page(struct scene *x, const struct event_query *q, struct event_page *out)
{
	struct reader r = reader_open(x);
	enum err_code rc = events_read(&r.ctx, q, out, &x->s.f.err);

	reader_close(&r);
	return rc;
}

static struct event_page page_after(struct scene *x, const struct event_query *q)
{
	struct event_page page;

	if (read_page(x, q, &page) != ERR_NONE)
		fail_msg("%s", x->s.f.err.text);
	return page;
}

static struct event_query query_from(int64_t after, uint32_t limit)
{
	return (struct event_query){.after = {.shards = 1, .after = {after}},
	                            .filter = {.types = EVENTS_ALL_TYPES},
	                            .limit = limit};
}

TEST(event_log, is_read_in_pages_that_follow_each_other)
{
	struct scene       x;
	struct event_query q = query_from(0, 4);
	struct event_page  page;
	int64_t            next = 1;

	log_open(&x, 1);
	publish(&x, 10);
	do {
		page = page_after(&x, &q);
		for (uint32_t i = 0; i < page.count; i++)
			assert_int_equal(page.list[i].position, next++);
		q.after = page.next;
	} while (page.more);
	assert_int_equal(next, 11);
	assert_bytes(event_cursor_text(&x.s.f.arena, &q.after), "10");
	assert_int_equal(page_after(&x, &q).count, 0);
	scene_close(&x);
}

TEST(event_log, that_nobody_wrote_to_is_empty)
{
	struct scene       x;
	struct event_query q = query_from(0, 10);
	struct event_page  page;

	log_open(&x, 1);
	page = page_after(&x, &q);
	assert_int_equal(page.count, 0);
	assert_false(page.more);
	scene_close(&x);
}

TEST(event_log, is_filtered_by_subject_and_by_type_and_the_cursor_goes_past_what_is_left_out)
{
	struct scene       x;
	struct event_query q = query_from(0, 10);
	struct event_page  page;

	log_open(&x, 1);
	publish(&x, 15);
	q.filter.subject = BYTES("s1");
	page = page_after(&x, &q);
	assert_int_equal(page.count, 3);
	assert_int_equal(page.next.after[0], 15);
	q.filter.types = UINT64_C(1) << EVENT_LOCK_SET; /* n % 3 == 1 and n % 5 == 1: only 1 */
	page = page_after(&x, &q);
	assert_int_equal(page.count, 1);
	assert_bytes(page.list[0].type, "lock.set");
	assert_int_equal(page.list[0].seq, 1);
	assert_false(page.more);
	scene_close(&x);
}

TEST(event_log, examines_only_so_many_rows_for_one_page)
{
	struct scene       x;
	struct event_query q = query_from(0, 10);
	struct event_page  page;

	log_open(&x, 1);
	for (int i = 0; i < EVENTS_EXAMINED_MAX; i += 20)
		assert_int_equal(play(&x, publish_many, 0), ERR_NONE);
	publish(&x, 1);
	q.filter.subject = BYTES("s0");
	page = page_after(&x, &q);
	assert_int_equal(page.count, 0);
	assert_true(page.more);
	assert_int_equal(page.next.after[0], EVENTS_EXAMINED_MAX);
	q.after = page.next;
	assert_int_equal(page_after(&x, &q).count, 1);
	scene_close(&x);
}

TEST(event_log, answers_a_reader_that_is_behind_with_gone_and_where_to_go_on)
{
	struct scene       x;
	struct event_query q = query_from(2, 10);
	struct event_page  page;

	log_open(&x, 1);
	publish(&x, 10);
	assert_int_equal(play(&x, trim_to, 5), ERR_NONE);
	assert_int_equal(read_page(&x, &q, &page), ERR_GONE);
	assert_string_equal(x.s.f.err.after, "4");
	assert_non_null(strstr(x.s.f.err.text, "position 5"));
	q.after.after[0] = 4; /* the next is the first that exists */
	assert_int_equal(page_after(&x, &q).list[0].position, 5);
	assert_int_equal(play(&x, trim_to, 11), ERR_NONE); /* all of them */
	assert_int_equal(read_page(&x, &q, &page), ERR_GONE);
	assert_string_equal(x.s.f.err.after, "10");
	q.after.after[0] = 10;
	assert_int_equal(page_after(&x, &q).count, 0);
	scene_close(&x);
}

TEST(event_log, refuses_a_cursor_past_its_end)
{
	struct scene       x;
	struct event_query q = query_from(11, 10);
	struct event_page  page;

	log_open(&x, 1);
	publish(&x, 10);
	assert_int_equal(read_page(&x, &q, &page), ERR_INVALID);
	assert_string_equal(x.s.f.err.field, "after");
	q.after.after[0] = 10;
	assert_int_equal(read_page(&x, &q, &page), ERR_NONE);
	scene_close(&x);
}

/* What a query may find on an engine that is not alone: an event, but not the one before it. */
static enum err_code hide_third(struct act *act, struct err *err)
{
	ctx_delete(&act->ctx, TABLE_EVENTS,
	           row_key_two(act->ctx.arena, BYTES("LOG#0"), BYTES("00000000000000000003")));
	return commit(act, err);
}

TEST(event_log, ends_a_page_at_a_gap)
{
	struct scene       x;
	struct event_query q = query_from(0, 10);
	struct event_page  page;

	log_open(&x, 1);
	publish(&x, 5);
	assert_int_equal(play(&x, hide_third, 0), ERR_NONE);
	page = page_after(&x, &q);
	assert_int_equal(page.count, 2);
	assert_int_equal(page.next.after[0], 2);
	assert_true(page.more);
	scene_close(&x);
}

TEST(event_log, of_several_shards_gives_each_its_share)
{
	struct scene       x;
	struct event_query q = {.after = {.shards = 3}, .filter = {.types = EVENTS_ALL_TYPES}, .limit = 2};
	struct event_page  page;
	int64_t            last[3] = {0};
	uint32_t           seen = 0;

	log_open(&x, 3);
	publish(&x, 40);
	do {
		page = page_after(&x, &q);
		assert_true(page.count <= 2);
		for (uint32_t i = 0; i < page.count; i++, seen++)
			assert_int_equal(page.list[i].position, ++last[page.list[i].shard]);
		q.after = page.next;
	} while (page.more);
	assert_int_equal(seen, 40);
	scene_close(&x);
}

/* ---- several shards ---- */

enum { SHARDS = 4 };

static struct event_bounds bounds_of(struct scene *x)
{
	struct reader       r = reader_open(x);
	struct event_bounds b;

	assert_int_equal(events_bounds(&r.ctx, &b, &x->s.f.err), ERR_NONE);
	reader_close(&r);
	return b;
}

/* A shard that has at least so many events, from this one on. */
static uint32_t shard_with(const struct event_bounds *b, int64_t least, uint32_t from)
{
	for (uint32_t i = from; i < SHARDS; i++)
		if (b->last[i] >= least)
			return i;
	fail_msg("no shard has %d events", (int)least);
	return 0;
}

TEST(event_log, of_several_shards_has_the_bounds_of_each)
{
	struct scene        x;
	struct event_bounds b;

	log_open(&x, SHARDS);
	b = bounds_of(&x); /* of a table that is not there */
	assert_int_equal(b.last[SHARDS - 1], 0);
	publish(&x, 30);
	b = bounds_of(&x);
	for (uint32_t i = 0; i < SHARDS; i++)
		assert_int_equal(b.first[i], 1);
	assert_int_equal(b.last[0] + b.last[1] + b.last[2] + b.last[3], 30);
	assert_true(shard_with(&b, 6, 1) > 0);
	scene_close(&x);
}

TEST(event_log, that_was_trimmed_in_one_shard_says_where_to_go_on_and_nothing_else_comes_again)
{
	struct scene       x;
	struct event_query q = {
	        .after = {.shards = SHARDS}, .filter = {.types = EVENTS_ALL_TYPES}, .limit = 100};
	struct event_page   page;
	struct event_cursor goes_on;
	struct event_bounds b;
	uint32_t            other;

	log_open(&x, SHARDS);
	publish(&x, 50);
	b = bounds_of(&x);
	assert_true(b.last[0] >= 10); /* trim_to trims the first */
	other = shard_with(&b, 10, 1);
	assert_int_equal(play(&x, trim_to, 8), ERR_NONE);
	q.after.after[0] = 3;
	q.after.after[other] = 9;
	assert_int_equal(read_page(&x, &q, &page), ERR_GONE);
	assert_true(event_cursor_read(bytes_of(x.s.f.err.after), SHARDS, &goes_on));
	assert_int_equal(goes_on.after[0], 7);
	assert_int_equal(goes_on.after[other], 9);
	q.after = goes_on;
	page = page_after(&x, &q);
	for (uint32_t i = 0; i < page.count; i++)
		assert_true(page.list[i].shard != other || page.list[i].position > 9);
	scene_close(&x);
}

TEST(event_log, that_is_too_long_for_a_problem_still_says_where_to_go_on)
{
	struct scene       x;
	struct event_query q = {
	        .after = {.shards = EVENT_SHARDS_MAX}, .filter = {.types = EVENTS_ALL_TYPES}, .limit = 1};
	struct event_page   page;
	struct event_cursor goes_on;

	log_open(&x, EVENT_SHARDS_MAX);
	assert_int_equal(play(&x, trim_to, 1), ERR_NONE);
	x.s.f.err.after[0] = '\0';
	for (int i = 1; i < EVENT_SHARDS_MAX; i++)
		q.after.after[i] = ROW_I64_MAX; /* as many digits as there may be */
	assert_int_equal(play(&x, trim_to, 8), ERR_NONE);
	assert_int_equal(read_page(&x, &q, &page), ERR_GONE);
	assert_true(event_cursor_read(bytes_of(x.s.f.err.after), EVENT_SHARDS_MAX, &goes_on));
	assert_int_equal(goes_on.after[0], 7);
	scene_close(&x);
}

/* The oldest event that waits, whichever shard it is in. */
TEST(event_log, of_several_shards_is_as_late_as_the_latest_of_them)
{
	struct scene        x;
	struct event_cursor after = {.shards = SHARDS};
	struct event_bounds b;
	struct event_lag    lag;
	struct reader       r;

	log_open(&x, SHARDS);
	for (int i = 0; i < 10; i++) {
		fixture_set_clock(&x.s.f, START_S + i * 10);
		assert_int_equal(play(&x, publish_one, i), ERR_NONE);
	}
	fixture_set_clock(&x.s.f, START_S + 100);
	b = bounds_of(&x);
	r = reader_open(&x);
	assert_int_equal(events_lag(&r.ctx, &after, EVENTS_ALL_TYPES, &lag, &x.s.f.err), ERR_NONE);
	assert_int_equal(lag.events, 10);
	assert_int_equal(lag.seconds, 100);
	event_cursor_last(&b, &after);
	assert_int_equal(events_lag(&r.ctx, &after, EVENTS_ALL_TYPES, &lag, &x.s.f.err), ERR_NONE);
	assert_int_equal(lag.events + lag.seconds, 0);
	reader_close(&r);
	scene_close(&x);
}

TEST(event_log, of_several_shards_is_entered_at_a_time)
{
	struct scene        x;
	struct event_cursor cursor;
	struct reader       r;

	log_open(&x, SHARDS);
	for (int i = 0; i < 20; i++) {
		fixture_set_clock(&x.s.f, START_S + i * 10);
		assert_int_equal(play(&x, publish_one, i), ERR_NONE);
	}
	r = reader_open(&x);
	for (int i = 0; i <= 20; i++) {
		int64_t at_us = (START_S + i * 10) * INT64_C(1000000);

		assert_int_equal(events_at_time(&r.ctx, at_us, &cursor, &x.s.f.err), ERR_NONE);
		assert_int_equal(event_cursor_distance(&(struct event_cursor){.shards = SHARDS}, &cursor), i);
	}
	reader_close(&r);
	scene_close(&x);
}

TEST(event_log, is_entered_at_a_time)
{
	struct scene        x;
	struct event_cursor cursor;
	struct reader       r;

	log_open(&x, 1);
	for (int i = 0; i < 20; i++) {
		fixture_set_clock(&x.s.f, START_S + i / 2 * 10);
		assert_int_equal(play(&x, publish_one, i), ERR_NONE);
	}
	r = reader_open(&x);
	for (int s = -1; s < 100; s += 7) {
		int expected = s <= 0 ? 0 : (s + 9) / 10 * 2;

		assert_int_equal(
		        events_at_time(&r.ctx, (START_S + s) * INT64_C(1000000), &cursor, &x.s.f.err),
		        ERR_NONE);
		assert_int_equal(cursor.after[0], expected < 20 ? expected : 20);
	}
	reader_close(&r);
	assert_int_equal(play(&x, trim_to, 8), ERR_NONE);
	r = reader_open(&x);
	assert_int_equal(events_at_time(&r.ctx, START_S * INT64_C(1000000), &cursor, &x.s.f.err), ERR_NONE);
	assert_int_equal(cursor.after[0], 7); /* the first that exists */
	reader_close(&r);
	scene_close(&x);
}

/* (3) */
static enum err_code read_and_write(struct act *act, struct err *err)
{
	struct event_query q = query_from(0, 10);
	struct event_page  page;

	q.after.shards = event_shards(act->ctx.services);
	if (events_read(&act->ctx, &q, &page, err) != ERR_NONE)
		return err->code;
	others_put(act, "a", "A#B#C", 1);
	if (act->n-- > 0) { /* others publish meanwhile */
		struct context other = act->ctx;

		ctx_begin(&other, act->ctx.table);
		ctx_publish(&other, &(struct event){.type = EVENT_LOCK_SET, .subject = BYTES("s")});
		assert_int_equal(changes_commit(&other.changes, other.table, err), ERR_NONE);
	}
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "p", "A#B#C", 1));
	return commit(act, err);
}

TEST(event_log, leaves_no_condition_in_the_call_that_reads_it)
{
	struct scene x;

	for (uint32_t shards = 1; shards <= SHARDS; shards += SHARDS - 1) {
		log_open(&x, shards);
		publish(&x, 3);
		assert_int_equal(play(&x, read_and_write, 1), ERR_NONE);
		scene_close(&x);
	}
}

/* ---- cursors and events as text ---- */

TEST(event_cursors, are_the_last_position_of_each_shard)
{
	static const char *const wrong[] = {"",      "-",      "1",      "1-2",    "1-2-3-4",
	                                    "1-2-x", "1-2--3", "-1-2-3", "1-2-3 ", "1-2-9999999999999999999",
	                                    "+1-2-3"};
	struct event_cursor      c;
	struct arena             a;

	arena_init(&a);
	assert_true(event_cursor_read(BYTES("42-17-3"), 3, &c));
	assert_int_equal(c.after[1], 17);
	assert_bytes(event_cursor_text(&a, &c), "42-17-3");
	assert_true(event_cursor_read(BYTES("0"), 1, &c));
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(event_cursor_read(bytes_of(wrong[i]), 3, &c));
	assert_false(event_cursor_read((struct bytes){NULL, 0}, 1, &c));
	arena_release(&a);
}

/* Rows had these too. */
static struct item as_stored_before(struct arena *a, const struct item *event)
{
	struct row row;

	row_from(&row, a, event);
	row_set_text(&row, "specversion", BYTES("1.0"));
	row_set_text(&row, "dataschema", BYTES("urn:gatehouse:event:user.created:1"));
	row_set_text(&row, "datacontenttype", BYTES("application/json"));
	row_set_i64(&row, "position", 1);
	return row_item(&row);
}

TEST(event_log, shows_events_as_cloudevents_in_json_also_those_of_older_programs)
{
	struct scene       x;
	struct event_query q = query_from(0, 10);
	struct event_seen  e;
	struct json_writer w;
	struct buf         out;
	struct bytes       expected;
	struct item        before;

	log_open(&x, 1);
	clock_manual_set(&x.s.f.clock, (int64_t)START_S * 1000000 + 123456);
	publish(&x, 1);
	e = page_after(&x, &q).list[0];
	buf_init(&out, &x.s.f.arena);
	json_writer_init(&w, &out);
	event_write_json(&w, &e.row);
	expected =
	        arena_printf(&x.s.f.arena,
	                     "{\"specversion\":\"1.0\",\"id\":\"%.*s\",\"type\":\"user.created\",\"source\":"
	                     "\"gatehouse\",\"time\":\"2026-09-10T00:26:40.123456Z\",\"subject\":\"s0\","
	                     "\"dataschema\":\"urn:gatehouse:event:user.created:1\",\"datacontenttype\":"
	                     "\"application/json\",\"seq\":1,\"position\":1,\"data\":{\"n\":0}}%c",
	                     BYTES_ARG(e.id), '\0');
	assert_bytes(buf_bytes(&out), expected.data);
	assert_int_equal(event_time_us(e.time), (int64_t)START_S * 1000000 + 123456);
	buf_init(&out, &x.s.f.arena);
	json_writer_init(&w, &out);
	before = as_stored_before(&x.s.f.arena, &e.row);
	event_write_json(&w, &before);
	assert_bytes(buf_bytes(&out), expected.data);
	scene_close(&x);
}

/* A newer program may publish it. */
TEST(event_log, names_the_schema_of_a_type_that_it_does_not_know_unless_that_is_too_long)
{
	struct scene       x;
	struct json_writer w;
	struct buf         out;

	log_open(&x, 1);
	for (size_t len = EVENT_TYPE_CHARS_MAX; len <= EVENT_TYPE_CHARS_MAX + 1; len++) {
		struct row   row;
		struct bytes type = arena_printf(&x.s.f.arena, "%0*d", (int)len, 7);

		row_init(&row, &x.s.f.arena);
		row_set_text(&row, "type", type);
		buf_init(&out, &x.s.f.arena);
		json_writer_init(&w, &out);
		event_write_json(&w, &row.item);
		buf_add_byte(&out, '\0');
		assert_true((strstr(out.data, "7:1\"") != NULL) == (len == EVENT_TYPE_CHARS_MAX));
	}
	scene_close(&x);
}
