/* Parts: the layers below the connection, without a socket: chunks, receiving in pieces, answers' heads, the
 * inbox and the timers. */
#include <pthread.h>
#include <unistd.h>

#include "http/answer.h"
#include "http/listener.h"
#include "test.h"

/* Decodes the text in pieces of `step` bytes; the data goes to out. */
static enum chunk_step decode(const char *text, size_t len, size_t step, struct buf *out, size_t *total)
{
	enum chunk_step result = CHUNK_STEP_MORE;
	struct chunk    c;
	size_t          at = 0;

	chunk_init(&c);
	while (at < len && result != CHUNK_STEP_DONE && result != CHUNK_STEP_BAD) {
		struct bytes piece;
		size_t       used = 0;

		result = chunk_next(&c, (struct bytes){text + at, len - at < step ? len - at : step}, &used,
		                    &piece);
		at += used;
		if (result == CHUNK_STEP_PIECE)
			buf_add_bytes(out, piece);
	}
	*total = at;
	return result;
}

static void expect_chunked(const char *text, const char *body, size_t left_over)
{
	for (size_t step = 1; step <= strlen(text); step++) {
		struct buf out;
		size_t     total;

		buf_init(&out, NULL);
		assert_int_equal(decode(text, strlen(text), step, &out, &total), CHUNK_STEP_DONE);
		assert_bytes(buf_bytes(&out), body);
		assert_int_equal(strlen(text) - total, left_over);
		buf_release(&out);
	}
}

static void expect_bad_chunks(const char *text)
{
	for (size_t step = 1; step <= strlen(text); step++) {
		struct buf out;
		size_t     total;

		buf_init(&out, NULL);
		if (decode(text, strlen(text), step, &out, &total) != CHUNK_STEP_BAD)
			fail_msg("taken in steps of %zu: %s", step, text);
		buf_release(&out);
	}
}

TEST(chunk, takes_bodies_apart_in_pieces_of_any_size)
{
	expect_chunked("0\r\n\r\n", "", 0);
	expect_chunked("5\r\nhello\r\n0\r\n\r\n", "hello", 0);
	expect_chunked("00005\r\nhello\r\n1\r\n!\r\n00\r\n\r\nGET", "hello!", 3);
	expect_chunked("a;name=\"v\"\r\n0123456789\r\n0;last\r\nA: b\r\nC: d\r\n\r\n", "0123456789", 0);
	expect_chunked("2\r\n\r\n\r\n0\r\n\r\n", "\r\n", 0);
}

TEST(chunk, refuses_what_two_readers_could_read_differently)
{
	expect_bad_chunks("\r\n");
	expect_bad_chunks("x\r\n");
	expect_bad_chunks(" 5\r\nhello\r\n0\r\n\r\n");
	expect_bad_chunks("5 \r\nhello\r\n0\r\n\r\n");
	expect_bad_chunks("0x5\r\nhello\r\n0\r\n\r\n");
	expect_bad_chunks("+5\r\nhello\r\n0\r\n\r\n");
	expect_bad_chunks("5\nhello\r\n0\r\n\r\n");
	expect_bad_chunks("5\rhello\r\n0\r\n\r\n");
	expect_bad_chunks("5;a\nb\r\nhello\r\n0\r\n\r\n");
	expect_bad_chunks("5\r\nhelloX\r\n0\r\n\r\n");
	expect_bad_chunks("5\r\nhello\n0\r\n\r\n");
	expect_bad_chunks("0\r\n\n");
	expect_bad_chunks("0\r\nA: b\n\r\n");
	expect_bad_chunks("0\r\n\rX");
}

/* prefix, then `count` times 'a', then suffix. */
static enum chunk_step decode_long(const char *prefix, size_t count, char fill, const char *suffix)
{
	enum chunk_step result;
	struct buf      text, out;
	size_t          total;

	buf_init(&text, NULL);
	buf_init(&out, NULL);
	buf_add(&text, prefix, strlen(prefix));
	for (size_t i = 0; i < count; i++)
		buf_add_byte(&text, (uint8_t)fill);
	buf_add(&text, suffix, strlen(suffix));
	result = decode(text.data, text.len, text.len, &out, &total);
	buf_release(&text);
	buf_release(&out);
	return result;
}

TEST(chunk, bounds_sizes_extensions_and_trailers)
{
	assert_int_equal(decode_long("", CHUNK_SIZE_DIGITS_MAX, '0', "\r\n\r\n"), CHUNK_STEP_DONE);
	assert_int_equal(decode_long("", CHUNK_SIZE_DIGITS_MAX + 1, '0', "\r\n\r\n"), CHUNK_STEP_BAD);
	assert_int_equal(decode_long("0;", CHUNK_EXTENSION_BYTES_MAX, 'e', "\r\n\r\n"), CHUNK_STEP_DONE);
	assert_int_equal(decode_long("0;", CHUNK_EXTENSION_BYTES_MAX + 1, 'e', "\r\n\r\n"), CHUNK_STEP_BAD);
	assert_int_equal(decode_long("0\r\n", CHUNK_TRAILER_BYTES_MAX, 't', "\r\n\r\n"), CHUNK_STEP_DONE);
	assert_int_equal(decode_long("0\r\n", CHUNK_TRAILER_BYTES_MAX + 1, 't', "\r\n\r\n"), CHUNK_STEP_BAD);
}

/* Receives the text as a connection would, each time showing `step` bytes more; returns the last step. */
static enum receive_step receive_in_steps(struct receive *r, const char *text, size_t step,
                                          size_t *used_total)
{
	enum receive_step result = RECEIVE_MORE;
	size_t            shown = 0, at = 0, len = strlen(text);

	while (result == RECEIVE_MORE && shown < len) {
		size_t used;

		shown = len - shown < step ? len : shown + step;
		result = receive_feed(r, (struct bytes){text + at, shown - at}, &used);
		at += used;
		if (result == RECEIVE_LARGE) {
			receive_admit(r, true);
			result = RECEIVE_MORE;
		}
	}
	*used_total = at;
	return result;
}

TEST(receive, gives_the_same_request_however_its_bytes_arrive)
{
	const char         *text = "POST /p/q?x=y HTTP/1.1\r\nHost: h\r\nA: 1\r\nb:2\r\nContent-Length: "
	                           "11\r\n\r\nhello worldGET";
	struct http_limits  limits = http_limits_default();
	struct budget       budget = {.held_bytes_max = 1 << 20};
	struct http_request q;
	struct receive      r;
	size_t              used;

	receive_init(&r, &q, &limits, &budget);
	for (size_t step = 1; step <= strlen(text); step++) {
		receive_reset(&r);
		assert_int_equal(receive_in_steps(&r, text, step, &used), RECEIVE_DONE);
		assert_int_equal(used, strlen(text) - 3);
		assert_int_equal(q.method, HTTP_POST);
		assert_bytes(q.target, "/p/q?x=y");
		assert_bytes(q.path, "/p/q");
		assert_bytes(q.query, "x=y");
		assert_int_equal(q.header_count, 4);
		assert_bytes(q.headers[2].name, "b");
		assert_bytes(http_header_get(&q, "B"), "2");
		assert_null(http_header_get(&q, "C").data);
		assert_bytes(q.body, "hello world");
	}
	receive_release(&r);
	assert_int_equal(budget.held_bytes, 0);
}

enum { LARGE = 100000 };

/* The request with a large body, of which as much as there is room for is read directly, as a connection does. */
static void receive_large(struct receive *r, const char *head, struct bytes body)
{
	size_t            used, room;
	enum receive_step step = receive_feed(r, bytes_of(head), &used);

	assert_int_equal(step, RECEIVE_LARGE);
	receive_admit(r, true);
	for (size_t at = 0; at < body.len;) {
		char  *direct = receive_room(r, &room);
		size_t left = body.len - at;

		if (direct != NULL) {
			room = room < left ? room : left;
			memcpy(direct, body.data + at, room);
			step = receive_took(r, room);
		} else {
			room = left < 777 ? left : 777;
			step = receive_feed(r, (struct bytes){body.data + at, room}, &used);
		}
		at += room;
	}
	assert_int_equal(step, RECEIVE_DONE);
}

static void assert_digest(const struct http_request *q)
{
	uint8_t expected[SHA256_BYTES];

	assert_int_equal(q->body.len, LARGE);
	sha256(q->body, expected);
	assert_non_null(q->body_sha256);
	assert_memory_equal(q->body_sha256, expected, sizeof(expected));
}

TEST(receive, hashes_a_large_body_as_it_comes_whole_or_in_chunks_and_no_small_one)
{
	struct http_limits  limits = http_limits_default();
	struct budget       budget = {.held_bytes_max = 1 << 20};
	struct http_request q;
	struct receive      r;
	struct buf          chunks;
	char                body[LARGE];
	size_t              used;

	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (char)('a' + i * 7 % 26);
	receive_init(&r, &q, &limits, &budget);
	receive_reset(&r);
	receive_large(&r, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n",
	              (struct bytes){body, sizeof(body)});
	assert_digest(&q);
	buf_init(&chunks, NULL);
	buf_add_bytes(&chunks, BYTES("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"));
	for (size_t i = 0; i < sizeof(body); i += 1000) {
		buf_add_bytes(&chunks, BYTES("3e8\r\n"));
		buf_add(&chunks, body + i, 1000);
		buf_add_bytes(&chunks, BYTES("\r\n"));
	}
	buf_add_bytes(&chunks, BYTES("0\r\n\r\n"));
	buf_add_byte(&chunks, 0);
	receive_reset(&r);
	assert_int_equal(receive_in_steps(&r, chunks.data, 1400, &used), RECEIVE_DONE);
	assert_digest(&q);
	receive_reset(&r);
	assert_int_equal(
	        receive_in_steps(&r, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi", 99, &used),
	        RECEIVE_DONE);
	assert_null(q.body_sha256);
	buf_release(&chunks);
	receive_release(&r);
}

static struct head parsed(const char *text, struct http_header headers[HTTP_HEADERS_MAX])
{
	struct refusal refusal;
	struct head    head;

	assert_true(parse_head(bytes_of(text), headers, &head, &refusal));
	return head;
}

TEST(parse, takes_the_blanks_around_a_value_and_leaves_those_within)
{
	struct http_header h[HTTP_HEADERS_MAX];
	struct head        head = parsed("GET / HTTP/1.1\r\nHost:h\r\nA: \t b  c\t \r\nB:\r\nC: \r\n\r\n", h);

	assert_int_equal(head.header_count, 4);
	assert_bytes(h[0].value, "h");
	assert_bytes(h[1].name, "A");
	assert_bytes(h[1].value, "b  c");
	assert_bytes(h[2].value, "");
	assert_bytes(h[3].value, "");
}

TEST(parse, knows_the_methods_it_has_names_for_and_takes_the_registered_others)
{
	static const struct {
		const char      *text;
		enum http_method method;
	} methods[] = {
	        {"GET * HTTP/1.0\r\n\r\n", HTTP_GET},         {"HEAD * HTTP/1.0\r\n\r\n", HTTP_HEAD},
	        {"POST * HTTP/1.0\r\n\r\n", HTTP_POST},       {"PUT * HTTP/1.0\r\n\r\n", HTTP_PUT},
	        {"DELETE * HTTP/1.0\r\n\r\n", HTTP_DELETE},   {"PATCH * HTTP/1.0\r\n\r\n", HTTP_PATCH},
	        {"OPTIONS * HTTP/1.0\r\n\r\n", HTTP_OPTIONS}, {"PROPFIND * HTTP/1.0\r\n\r\n", HTTP_OTHER},
	        {"M-SEARCH * HTTP/1.0\r\n\r\n", HTTP_OTHER},
	};
	struct http_header h[HTTP_HEADERS_MAX];

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		assert_int_equal(parsed(methods[i].text, h).method, methods[i].method);
}

TEST(receive, knows_the_forms_of_a_target)
{
	static const struct {
		const char *target, *path, *query;
	} forms[] = {
	        {"/", "/", ""},
	        {"/a?", "/a", ""},
	        {"/a?b?c", "/a", "b?c"},
	        {"*", "*", ""},
	        {"http://h/a?b", "/a", "b"},
	        {"http://h", "/", ""},
	        {"http://h?x=/a/b", "/", "x=/a/b"},
	        {"http://h/?/a", "/", "/a"},
	        {"http://h:80/", "/", ""},
	};
	struct http_limits  limits = http_limits_default();
	struct budget       budget = {.held_bytes_max = 1 << 20};
	struct http_request q;
	struct receive      r;
	char                text[256];
	size_t              used;

	receive_init(&r, &q, &limits, &budget);
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		receive_reset(&r);
		snprintf(text, sizeof(text), "OPTIONS %s HTTP/1.1\r\nHost: h\r\n\r\n", forms[i].target);
		assert_int_equal(receive_in_steps(&r, text, sizeof(text), &used), RECEIVE_DONE);
		assert_bytes(q.target, forms[i].target);
		assert_bytes(q.path, forms[i].path);
		assert_bytes(q.query, forms[i].query);
	}
	receive_release(&r);
}

TEST(receive, a_body_that_is_only_announced_costs_no_memory)
{
	struct http_limits  limits = http_limits_default();
	struct budget       budget = {.held_bytes_max = 1 << 20};
	struct http_request q;
	struct receive      r;
	size_t              used, room = 0;

	receive_init(&r, &q, &limits, &budget);
	receive_reset(&r);
	assert_int_equal(receive_in_steps(&r,
	                                  "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 17000000\r\n\r\n",
	                                  1000, &used),
	                 RECEIVE_MORE);
	assert_int_equal(budget.held_bytes, 0);
	assert_non_null(receive_room(&r, &room));
	assert_in_range(room, 1, 64 * 1024);
	assert_in_range(budget.held_bytes, 1, 64 * 1024);
	receive_release(&r);
	assert_int_equal(budget.held_bytes, 0);
}

TEST(response, writes_the_head_a_client_expects)
{
	struct http_header    header = {BYTES("X-Id"), BYTES("7")};
	struct http_response  response = {.status = 429,
	                                  .content_type = "text/plain",
	                                  .headers = &header,
	                                  .header_count = 1,
	                                  .body = BYTES("slow down")};
	struct response_facts facts = {.date = BYTES("today")};
	struct buf            out;

	buf_init(&out, NULL);
	response_head(&out, &response, &facts);
	assert_bytes(buf_bytes(&out),
	             "HTTP/1.1 429 Too Many Requests\r\nDate: today\r\nContent-Type: text/plain\r\n"
	             "Content-Length: 9\r\nX-Id: 7\r\n\r\n");
	buf_reset(&out);
	response = (struct http_response){.status = 200};
	facts.close = true;
	response_head(&out, &response, &facts);
	assert_bytes(buf_bytes(&out),
	             "HTTP/1.1 200 OK\r\nDate: today\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
	buf_release(&out);
}

TEST(response, writes_dates_as_http_has_them)
{
	struct date d;

	date_init(&d);
	assert_bytes(date_at(&d, 0), "Thu, 01 Jan 1970 00:00:00 GMT");
	assert_bytes(date_at(&d, INT64_C(951827696) * 1000000 + 999999), "Tue, 29 Feb 2000 12:34:56 GMT");
	assert_bytes(date_at(&d, INT64_C(951827697) * 1000000), "Tue, 29 Feb 2000 12:34:57 GMT");
}

TEST(timers, expire_in_time_and_not_before)
{
	struct timer  a, b;
	struct timers t;

	timers_init(&t);
	t.duration_us[TIMER_IDLE] = 100;
	t.duration_us[TIMER_HEAD] = 10;
	timer_init(&a, NULL);
	timer_init(&b, NULL);
	assert_int_equal(timers_next_us(&t), INT64_MAX);
	timers_arm(&t, &a, TIMER_IDLE, 0);
	timers_arm(&t, &b, TIMER_HEAD, 50);
	assert_int_equal(timers_next_us(&t), 60);
	assert_null(timers_expired(&t, 59));
	assert_ptr_equal(timers_expired(&t, 60), &b);
	assert_null(timers_expired(&t, 60));
	timers_arm(&t, &a, TIMER_IDLE, 60);
	assert_null(timers_expired(&t, 159));
	timers_arm(&t, &a, TIMER_NONE, 60);
	assert_null(timers_expired(&t, INT64_MAX));
}

/* Set, moved and cancelled at random, against a list that is simply searched. */
TEST(alarms, ring_earliest_first_whatever_was_moved_or_cancelled)
{
	enum { ALARMS = 300, STEPS = 20000 };
	static struct alarm alarms[ALARMS];
	struct timers       t;
	uint32_t            seed = 7;
	int64_t             now_us = 0;

	timers_init(&t);
	for (int step = 0; step < STEPS; step++) {
		struct alarm *a, *rang;
		int64_t       earliest_us = INT64_MAX;

		seed = seed * 1664525u + 1013904223u;
		a = &alarms[(seed >> 16) % ALARMS];
		if (seed % 4 == 0)
			alarm_cancel(&t, a);
		else
			alarm_set(&t, a, now_us + (seed >> 8) % 1000);
		for (int i = 0; i < ALARMS; i++)
			if (alarms[i].place != 0 && alarms[i].deadline_us < earliest_us)
				earliest_us = alarms[i].deadline_us;
		assert_int_equal(timers_next_us(&t), earliest_us);
		now_us += 2;
		while ((rang = alarms_expired(&t, now_us)) != NULL) {
			assert_int_equal(rang->place, 0);
			assert_true(rang->deadline_us >= earliest_us && rang->deadline_us <= now_us);
			earliest_us = rang->deadline_us;
		}
	}
	for (int i = 0; i < ALARMS; i++)
		alarm_cancel(&t, &alarms[i]);
	assert_int_equal(timers_next_us(&t), INT64_MAX);
	timers_release(&t);
}

enum { PUSHERS = 4, PUSHES = 2000 };

struct parcel {
	struct inbox_item item;
	unsigned          from, number;
};

static struct inbox inbox;
static unsigned     next_number[PUSHERS], arrived, out_of_order;

static void parcel_run(struct inbox_item *item)
{
	struct parcel *p = (struct parcel *)(void *)item;

	out_of_order += p->number != next_number[p->from]++;
	arrived++;
	free(p);
}

static void *push_many(void *arg)
{
	for (unsigned i = 0; i < PUSHES; i++) {
		struct parcel *p = malloc(sizeof(*p));

		*p = (struct parcel){{NULL, parcel_run}, *(unsigned *)arg, i};
		inbox_push(&inbox, &p->item, NULL);
	}
	return NULL;
}

TEST(inbox, delivers_everything_once_and_each_senders_in_order)
{
	unsigned   numbers[PUSHERS];
	pthread_t  threads[PUSHERS];
	struct err err;

	assert_int_equal(inbox_open(&inbox, &err), ERR_NONE);
	for (unsigned i = 0; i < PUSHERS; i++) {
		numbers[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, push_many, &numbers[i]), 0);
	}
	while (arrived < PUSHERS * PUSHES)
		inbox_run(&inbox);
	for (unsigned i = 0; i < PUSHERS; i++)
		pthread_join(threads[i], NULL);
	inbox_close(&inbox);
	assert_int_equal(arrived, PUSHERS * PUSHES);
	assert_int_equal(out_of_order, 0);
}

/* How often its loop was woken since this was last asked. */
static uint64_t wakes_of(const struct inbox *in)
{
	uint64_t count = 0;

	return read(in->fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

static void run_nothing(struct inbox_item *item)
{
	(void)item;
}

TEST(inbox, with_a_list_wakes_its_loop_once_when_that_is_run)
{
	struct inbox_item items[3] = {{.run = run_nothing}, {.run = run_nothing}, {.run = run_nothing}};
	struct wakes      wakes = {.count = 0};
	struct inbox      in;
	struct err        err;

	assert_int_equal(inbox_open(&in, &err), ERR_NONE);
	inbox_push(&in, &items[0], &wakes);
	inbox_push(&in, &items[1], &wakes);
	inbox_run(&in); /* the loop was awake */
	inbox_push(&in, &items[2], &wakes);
	assert_int_equal(wakes_of(&in), 0);
	wakes_run(&wakes);
	assert_int_equal(wakes_of(&in), 1);
	inbox_run(&in);
	inbox_close(&in); /* nobody is inside */
}

TEST(inbox, with_a_list_does_not_wake_a_loop_that_has_taken_all)
{
	struct inbox_item item = {.run = run_nothing};
	struct wakes      wakes = {.count = 0};
	struct inbox      in;
	struct err        err;

	assert_int_equal(inbox_open(&in, &err), ERR_NONE);
	inbox_push(&in, &item, &wakes);
	inbox_run(&in);
	wakes_run(&wakes);
	assert_int_equal(wakes_of(&in), 0);
	inbox_close(&in);
}

TEST(inbox, wakes_its_loop_at_once_if_the_list_is_full)
{
	struct inbox_item items[2] = {{.run = run_nothing}, {.run = run_nothing}};
	struct wakes      wakes = {.count = WAKES_MAX - 1};
	struct inbox      last, past;
	struct err        err;

	memset(wakes.list, 0, sizeof(wakes.list));
	assert_int_equal(inbox_open(&last, &err), ERR_NONE);
	assert_int_equal(inbox_open(&past, &err), ERR_NONE);
	inbox_push(&last, &items[0], &wakes);
	inbox_push(&past, &items[1], &wakes);
	assert_int_equal(wakes_of(&last), 0);
	assert_int_equal(wakes_of(&past), 1);
	wakes.list[WAKES_MAX - 1].now(wakes.list[WAKES_MAX - 1].sleeper);
	assert_int_equal(wakes_of(&last), 1);
	inbox_close(&last);
	inbox_close(&past);
}

struct closing {
	struct inbox *in;
	atomic_bool   closed;
};

static void *close_inbox(void *arg)
{
	struct closing *c = arg;

	inbox_close(c->in);
	atomic_store(&c->closed, true);
	return NULL;
}

/* The loop may have run the item, ended, and be about to free itself. */
TEST(inbox, is_not_closed_before_the_list_was_run)
{
	struct inbox_item item = {.run = run_nothing};
	struct wakes      wakes = {.count = 0};
	struct inbox      in;
	struct closing    c = {.in = &in};
	pthread_t         thread;
	struct err        err;

	assert_int_equal(inbox_open(&in, &err), ERR_NONE);
	inbox_push(&in, &item, &wakes);
	inbox_run(&in);
	assert_int_equal(pthread_create(&thread, NULL, close_inbox, &c), 0);
	for (int i = 0; i < 1000; i++)
		sched_yield();
	assert_false(atomic_load(&c.closed));
	wakes_run(&wakes);
	pthread_join(thread, NULL);
	assert_true(atomic_load(&c.closed));
}

TEST(address, a_peer_of_ipv6_is_as_it_is_one_of_ipv4_is_mapped_and_any_other_is_nowhere)
{
	static const uint8_t mapped[16] = {
	        [10] = 0xff, [11] = 0xff, [12] = 192, [13] = 0, [14] = 2, [15] = 7};
	static const uint8_t nowhere[16] = {0};
	union address        peer = {.v6 = {.sin6_family = AF_INET6}};

	memset(&peer.v6.sin6_addr, 0xab, sizeof(peer.v6.sin6_addr));
	assert_memory_equal(address_of_peer(&peer).bytes, &peer.v6.sin6_addr, 16);
	peer = (union address){.v4 = {.sin_family = AF_INET}};
	peer.v4.sin_addr.s_addr = htonl(0xc0000207);
	assert_memory_equal(address_of_peer(&peer).bytes, mapped, 16);
	peer = (union address){.any = {.sa_family = AF_UNIX}};
	assert_memory_equal(address_of_peer(&peer).bytes, nowhere, 16);
}
