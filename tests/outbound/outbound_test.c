/* Calls to a scripted peer on loopback: what reaches it, and what is said when it fails. */
#include "outbound/outbound.h"

#include "base/log.h"
#include "scripted.h"

#define OK(body)     "HTTP/1.1 200 OK\r\nX-Kind: plain\r\nContent-Length: ?\r\n\r\n" body
#define SAYS(status) "HTTP/1.1 " status "\r\nContent-Length: 0\r\n\r\n"

static const struct retry_profile quick = {.attempts_max = 3,
                                           .delay_us = 1000,
                                           .throttled_delay_us = 1000,
                                           .delay_max_us = 2000,
                                           .hint_over_max_us = 5000,
                                           .quota_max = 500,
                                           .cost = 1,
                                           .throttled_cost = 1};

struct world {
	struct peer             *peer;
	struct outbound         *o;
	struct outbound_options  options;
	struct arena             arena;
	struct outbound_response answer;
	struct err               err;
};

static void world_open(struct world *w, struct peer *p)
{
	char url[64];

	log_set_level(LOG_ERROR);
	*w = (struct world){.peer = p};
	arena_init(&w->arena);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", p == NULL ? 1 : p->port);
	w->options = (struct outbound_options){.name = "peer",
	                                       .url = url,
	                                       .allow_private = true,
	                                       .calls_max = 2,
	                                       .waits_max = 1,
	                                       .connect_us = 10000000,
	                                       .attempt_us = 20000000,
	                                       .body_bytes_max = 1000,
	                                       .retry = &quick,
	                                       .circuit = {100, 1000000, 1000000},
	                                       .clock = clock_system()};
	assert_int_equal(outbound_open(&w->options, &w->o, &w->err), ERR_NONE);
}

/* With other options than the usual ones. */
static void world_reopen(struct world *w)
{
	w->options.url = arena_printf(&w->arena, "http://127.0.0.1:%u", w->peer->port).data;
	outbound_close(w->o);
	assert_int_equal(outbound_open(&w->options, &w->o, &w->err), ERR_NONE);
}

static void world_close(struct world *w)
{
	outbound_stop(w->o);
	outbound_close(w->o);
	if (w->peer != NULL)
		peer_close(w->peer);
	arena_release(&w->arena);
}

static struct outbound_request post(bool repeatable)
{
	return (struct outbound_request){.method = BYTES("POST"),
	                                 .path = BYTES("/hook?a=1"),
	                                 .body = BYTES("{}"),
	                                 .repeatable = repeatable};
}

static enum err_code call_within(struct world *w, const struct outbound_request *r, int64_t us)
{
	struct outbound_request within = *r;

	within.deadline_us = clock_steady_us(clock_system()) + us;
	return outbound_call(w->o, &within, &w->arena, &w->answer, &w->err);
}

static enum err_code call(struct world *w, bool repeatable)
{
	struct outbound_request r = post(repeatable);

	return call_within(w, &r, 60000000);
}

/* ---- one try ---- */

TEST(outbound, sends_the_request_as_it_is_and_brings_the_answer_back)
{
	struct world            w;
	struct outbound_request r = post(true);

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, OK("hello")})));
	outbound_header_add(&r, BYTES("X-Mine"), BYTES("yes"));
	outbound_header_add(&r, BYTES("X-Empty"), BYTES(""));
	assert_int_equal(call_within(&w, &r, 60000000), ERR_NONE);
	assert_int_equal(w.answer.status, 200);
	assert_bytes(w.answer.body, "hello");
	assert_bytes(outbound_header_get(&w.answer, "x-kind"), "plain");
	assert_null(outbound_header_get(&w.answer, "x-other").data);
	assert_non_null(strstr(w.peer->seen[0], "POST /hook?a=1 HTTP/1.1\r\n"));
	assert_non_null(strstr(w.peer->seen[0], "\r\nX-Mine: yes\r\n"));
	assert_non_null(strstr(w.peer->seen[0], "\r\nX-Empty:\r\n"));
	assert_null(strstr(w.peer->seen[0], "Expect"));
	assert_non_null(strstr(w.peer->seen[0], "\r\n\r\n{}"));
	world_close(&w);
}

#define TRACE "0af7651916cd43dd8448eb211c80319c"

/* The span of a request's traceparent, 16 digits, if it carries that trace on. */
static const char *span_of(const char *seen)
{
	const char *at = strstr(seen, "\r\ntraceparent: 00-" TRACE "-");

	assert_non_null(at);
	at += strlen("\r\ntraceparent: 00-" TRACE "-");
	assert_int_equal(strspn(at, "0123456789abcdef"), 16);
	assert_memory_equal(at + 16, "-01\r\n", 5);
	return at;
}

TEST(outbound, each_try_carries_the_callers_trace_on_with_a_span_of_its_own)
{
	struct outbound_request r = post(true);
	struct world            w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, SAYS("503 Busy")}, {PEER_ANSWER, OK("")})));
	r.trace = BYTES(TRACE);
	assert_int_equal(call_within(&w, &r, 60000000), ERR_NONE);
	assert_memory_not_equal(span_of(w.peer->seen[0]), span_of(w.peer->seen[1]), 16);
	r.trace = BYTES("");
	assert_int_equal(call_within(&w, &r, 60000000), ERR_NONE);
	assert_null(strstr(w.peer->seen[2], "traceparent"));
	world_close(&w);
}

TEST(outbound, keeps_its_connection_for_what_may_be_repeated_and_not_for_what_may_not)
{
	struct world w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, OK("")})));
	for (int i = 0; i < 5; i++)
		assert_int_equal(call(&w, true), ERR_NONE);
	assert_int_equal(peer_connections(w.peer), 1);
	assert_int_equal(call(&w, false), ERR_NONE);
	assert_int_equal(call(&w, false), ERR_NONE);
	assert_int_equal(peer_connections(w.peer), 3);
	world_close(&w);
}

TEST(outbound, does_not_follow_redirects)
{
	struct world w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER,
	                                         "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"
	                                         "Content-Length: 0\r\n\r\n"})));
	assert_int_equal(call(&w, true), ERR_NONE);
	assert_int_equal(w.answer.status, 302);
	assert_int_equal(peer_requests(w.peer), 1);
	world_close(&w);
}

TEST(outbound, refuses_a_line_break_in_a_header_and_a_blank_in_a_path)
{
	struct world            w;
	struct outbound_request r = post(true);

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, OK("")})));
	outbound_header_add(&r, BYTES("X-Mine"), BYTES("a\r\nX-Other: b"));
	assert_int_equal(call_within(&w, &r, 60000000), ERR_OVERLOADED);
	r = post(true);
	r.path = BYTES("/ HTTP/1.1");
	assert_int_equal(call_within(&w, &r, 60000000), ERR_OVERLOADED);
	assert_int_equal(peer_requests(w.peer), 0);
	world_close(&w);
}

TEST(outbound, refuses_private_addresses_unless_they_are_allowed)
{
	struct world w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, OK("")})));
	w.options.allow_private = false;
	world_reopen(&w);
	assert_int_equal(call(&w, true), ERR_OVERLOADED);
	assert_non_null(strstr(w.err.text, "private"));
	assert_int_equal(peer_connections(w.peer), 0);
	assert_int_equal(w.answer.tries, 1); /* trying again would not help */
	world_close(&w);
}

TEST(outbound, takes_an_answer_of_the_maximum_and_refuses_one_byte_more)
{
	struct world w;
	char         body[1100], fits[1300], past[1300];

	memset(body, 'x', sizeof(body));
	snprintf(fits, sizeof(fits), "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n%.1000s", body);
	snprintf(past, sizeof(past), "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n%.1001s", body);
	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, fits}, {PEER_ANSWER, past})));
	assert_int_equal(call(&w, true), ERR_NONE);
	assert_int_equal(w.answer.body.len, 1000);
	assert_int_equal(call(&w, true), ERR_STORAGE);
	assert_non_null(strstr(w.err.text, "too large"));
	assert_int_equal(peer_requests(w.peer), 2);
	world_close(&w);
}

TEST(outbound, refuses_an_answer_whose_head_never_ends)
{
	struct world w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_DRIP, "HTTP/1.1 200 OK\r\nX-Long: "})));
	w.options.attempt_us = 200000;
	w.options.retry = &(struct retry_profile){.attempts_max = 1};
	world_reopen(&w);
	assert_int_equal(call(&w, true), ERR_STORAGE);
	world_close(&w);
}

/* ---- more than one try ---- */

TEST(outbound, tries_again_after_a_failure_in_passing_and_gives_the_last_answer_in_the_end)
{
	struct world w;

	world_open(&w,
	           peer_open(0, PEER_SCRIPT({PEER_ANSWER, SAYS("503 Busy")}, {PEER_ANSWER, SAYS("502 Bad")},
	                                    {PEER_ANSWER, OK("third")}, {PEER_ANSWER, SAYS("500 Broken")})));
	assert_int_equal(call(&w, true), ERR_NONE);
	assert_int_equal(w.answer.status, 200);
	assert_int_equal(w.answer.tries, 3);
	assert_int_equal(call(&w, true), ERR_NONE);
	assert_int_equal(w.answer.status, 500);
	assert_int_equal(w.answer.tries, 3);
	world_close(&w);
}

TEST(outbound, what_must_not_be_repeated_is_sent_once_and_its_outcome_is_unknown)
{
	struct world w;

	world_open(&w,
	           peer_open(0, PEER_SCRIPT({PEER_CLOSE, NULL}, {PEER_ANSWER, SAYS("500 Broken")},
	                                    {PEER_ANSWER, SAYS("429 Slow down")}, {PEER_ANSWER, OK("")})));
	assert_int_equal(call(&w, false), ERR_STORAGE);
	assert_int_equal(peer_requests(w.peer), 1);
	assert_int_equal(call(&w, false), ERR_NONE);
	assert_int_equal(w.answer.status, 500);
	assert_int_equal(peer_requests(w.peer), 2);
	assert_int_equal(call(&w, false), ERR_NONE); /* the target itself refused it */
	assert_int_equal(w.answer.status, 200);
	assert_int_equal(w.answer.tries, 2);
	world_close(&w);
}

TEST(outbound, a_kept_connection_that_died_does_not_send_twice_what_must_not_be_repeated)
{
	struct world w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER_CLOSE, OK("")}, {PEER_CLOSE, NULL})));
	assert_int_equal(call(&w, true), ERR_NONE);
	assert_int_equal(call(&w, false), ERR_STORAGE);
	assert_int_equal(peer_requests(w.peer), 2);
	world_close(&w);
}

TEST(outbound, nobody_there_means_that_nothing_was_sent)
{
	struct world w;

	world_open(&w, NULL);
	assert_int_equal(call(&w, false), ERR_OVERLOADED);
	assert_int_equal(w.answer.tries, 3);
	world_close(&w);
}

struct signing {
	unsigned times;
};

static enum err_code sign(void *ctx, struct outbound_request *r, uint32_t tried, struct arena *a,
                          struct err *err)
{
	struct signing *s = ctx;

	(void)err;
	s->times++;
	outbound_header_add(r, BYTES("X-Try"), arena_printf(a, "%u", tried));
	return ERR_NONE;
}

TEST(outbound, each_try_is_prepared_anew)
{
	struct world            w;
	struct signing          s = {0};
	struct outbound_request r = post(true);

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, SAYS("500 Broken")}, {PEER_ANSWER, OK("")})));
	r.prepare = sign;
	r.ctx = &s;
	assert_int_equal(call_within(&w, &r, 60000000), ERR_NONE);
	assert_int_equal(s.times, 2);
	assert_non_null(strstr(w.peer->seen[0], "X-Try: 1\r\n"));
	assert_non_null(strstr(w.peer->seen[1], "X-Try: 2\r\n"));
	assert_null(strstr(w.peer->seen[1], "X-Try: 1\r\n"));
	world_close(&w);
}

static enum retry_kind never(void *ctx, const struct outbound_response *r)
{
	(void)ctx;
	(void)r;
	return RETRY_NEVER;
}

TEST(outbound, the_caller_may_say_what_an_answer_means)
{
	struct world            w;
	struct outbound_request r = post(true);

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, SAYS("503 Busy")})));
	r.classify = never;
	assert_int_equal(call_within(&w, &r, 60000000), ERR_NONE);
	assert_int_equal(w.answer.tries, 1);
	world_close(&w);
}

TEST(outbound, with_the_quota_used_up_calls_are_tried_once)
{
	struct world         w;
	struct retry_profile poor = quick;

	poor.quota_max = 2;
	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, SAYS("500 Broken")})));
	w.options.retry = &poor;
	world_reopen(&w);
	call(&w, true);
	assert_int_equal(w.answer.tries, 3);
	call(&w, true);
	assert_int_equal(w.answer.tries, 1);
	world_close(&w);
}

/* ---- deadlines, circuits, bounds, the end ---- */

TEST(outbound, a_silent_peer_costs_no_more_than_the_deadline)
{
	struct world            w;
	struct outbound_request r = post(true);
	int64_t                 began = clock_steady_us(clock_system());

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_SILENT, NULL})));
	assert_int_equal(call_within(&w, &r, 300000), ERR_STORAGE);
	assert_true(clock_steady_us(clock_system()) - began < 10000000);
	assert_int_equal(call_within(&w, &r, -1), ERR_OVERLOADED);
	world_close(&w);
}

TEST(outbound, an_open_circuit_refuses_without_a_try_and_a_probe_closes_it)
{
	struct world            w;
	struct outbound_request r = post(true);
	struct outbound_numbers n;

	world_open(&w,
	           peer_open(0, PEER_SCRIPT({PEER_CLOSE, NULL}, {PEER_CLOSE, NULL}, {PEER_ANSWER, OK("")})));
	w.options.circuit = (struct circuit_limits){2, 50000, 50000};
	world_reopen(&w);
	assert_int_equal(call_within(&w, &r, 60000000), ERR_STORAGE);
	assert_int_equal(peer_requests(w.peer), 2); /* the third try was not admitted */
	assert_int_equal(call_within(&w, &r, 60000000), ERR_OVERLOADED);
	assert_int_equal(peer_requests(w.peer), 2);
	n = outbound_read(w.o);
	assert_false(n.circuit_closed);
	assert_int_equal(n.circuit_opened, 1);
	while (call_within(&w, &r, 60000000) != ERR_NONE)
		poll(NULL, 0, 5);
	assert_true(outbound_read(w.o).circuit_closed);
	world_close(&w);
}

struct caller {
	struct world            *w;
	pthread_t                thread;
	struct arena             arena;
	struct outbound_response answer;
	struct err               err;
	enum err_code            rc;
};

static void *caller_run(void *arg)
{
	struct caller          *c = arg;
	struct outbound_request r = post(true);

	arena_init(&c->arena);
	r.deadline_us = clock_steady_us(clock_system()) + 60000000;
	c->rc = outbound_call(c->w->o, &r, &c->arena, &c->answer, &c->err);
	return NULL;
}

static void caller_start(struct caller *c, struct world *w)
{
	c->w = w;
	assert_int_equal(pthread_create(&c->thread, NULL, caller_run, c), 0);
}

static void await(struct world *w, uint32_t busy, uint32_t waiting)
{
	struct outbound_numbers n = outbound_read(w->o);

	for (; n.busy != busy || n.waiting != waiting; n = outbound_read(w->o))
		poll(NULL, 0, 1);
}

TEST(outbound, past_the_calls_at_once_one_waits_past_that_they_are_refused_and_a_stop_ends_all)
{
	struct world  w;
	struct caller callers[3];

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_SILENT, NULL})));
	caller_start(&callers[0], &w);
	caller_start(&callers[1], &w);
	await(&w, 2, 0);
	caller_start(&callers[2], &w);
	await(&w, 2, 1);
	assert_int_equal(call(&w, true), ERR_OVERLOADED);
	assert_non_null(strstr(w.err.text, "waiting"));
	while (peer_requests(w.peer) < 2)
		poll(NULL, 0, 1);
	outbound_stop(w.o);
	for (int i = 0; i < 3; i++) {
		pthread_join(callers[i].thread, NULL);
		arena_release(&callers[i].arena);
	}
	assert_int_equal(callers[0].rc, ERR_STORAGE);
	assert_int_equal(callers[1].rc, ERR_STORAGE);
	assert_int_equal(callers[2].rc, ERR_OVERLOADED);
	assert_int_equal(call(&w, true), ERR_OVERLOADED);
	world_close(&w);
}

TEST(outbound, an_answer_may_ask_for_a_pause_as_a_number_or_as_a_date_of_an_hour_at_most)
{
#define NOW "Tue, 17 Nov 2026 20:00:00 GMT"
	static const struct {
		const char *asked, *date;
		int64_t     wait_s;
	} cases[] = {{"0", NOW, 0},
	             {"17", NULL, 17},
	             {"3600", NULL, 3600},
	             {"3601", NULL, 3600},
	             {"18446744073709551615", NULL, 3600},
	             {"18446744073709551616", NULL, 0}, /* not a number of ours */
	             {"-1", NULL, 0},
	             {"soon", NOW, 0},
	             {"Tue, 17 Nov 2026 20:00:40 GMT", NOW, 40},
	             {"Wed, 18 Nov 2026 20:00:00 GMT", NOW, 3600},
	             {"Tue, 17 Nov 2026 19:59:59 GMT", NOW, 0},
	             {"Tue, 17 Nov 2026 20:00:40 GMT", NULL, 0},
	             {"Tue, 17 Nov 2026 20:00:40 GMT", "today", 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct outbound_response r = {
		        .headers = {{BYTES_INIT("Retry-After"), bytes_of(cases[i].asked)}},
		        .header_count = 1};

		if (cases[i].date != NULL)
			r.headers[r.header_count++] =
			        (struct outbound_header){BYTES("Date"), bytes_of(cases[i].date)};
		assert_int_equal(outbound_wait_s(&r), cases[i].wait_s);
	}
	assert_int_equal(outbound_wait_s(&(struct outbound_response){0}), 0);
}

TEST(outbound, a_url_is_scheme_host_and_port_and_nothing_else)
{
	static const char *const wrong[] = {"",
	                                    "example.org",
	                                    "ftp://example.org",
	                                    "https://",
	                                    "https://a/b",
	                                    "https://u:p@host",
	                                    "https://a b",
	                                    "http://a?b",
	                                    "http://a#b",
	                                    "file:///etc"};
	struct outbound         *o;
	struct err               err;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(
		        outbound_open(
		                &(struct outbound_options){.name = "x", .url = wrong[i], .calls_max = 1}, &o,
		                &err),
		        ERR_INVALID);
	assert_int_equal(
	        outbound_open(
	                &(struct outbound_options){.name = "x", .url = "https://[::1]:8443", .calls_max = 1},
	                &o, &err),
	        ERR_NONE);
	assert_bytes(outbound_host(o), "[::1]:8443");
	outbound_close(o);
}
