/* The hub of those who follow the log of events: over a socket, with an engine behind it. The numbers are those of event_hub.h. What
 * calls mean is tested in tests/e2e/test_events.py. */
#define _GNU_SOURCE
#include "service/scene.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/api.h"
#include "api/event_hub.h"
#include "api/event_ring.h"

enum { PATIENCE_S = 60 };

struct house {
	struct scene        x;
	struct clock       *clock;   /* the hub's; NULL: the system's */
	bool                meddles; /* something is published while a request is answered */
	struct event_hub   *hub;
	struct api          api;
	struct http_server *http;
};

static bool is_ready(void *ctx)
{
	(void)ctx;
	return true;
}

static void meddle(struct store *store);

static void house_open(struct house *h, uint32_t shards)
{
	struct http_limits  limits = http_limits_default();
	struct http_handler handler;
	struct err          err;

	scene_open(&h->x, 1, true);
	if (h->meddles)
		meddle(h->x.store);
	h->x.s.all.events.on = EVENT_ALL;
	h->x.s.all.events.shards = shards;
	assert_int_equal(event_hub_open(&h->hub,
	                                &(struct event_hub_options){
	                                        .services = &h->x.s.all,
	                                        .store = &h->x.rough->base,
	                                        .clock = h->clock != NULL ? h->clock : clock_system()},
	                                &err),
	                 ERR_NONE);
	api_init(&h->api, &(struct api_parts){.store = &h->x.rough->base,
	                                      .services = &h->x.s.all,
	                                      .events = h->hub,
	                                      .clock = clock_system(),
	                                      .ready = is_ready,
	                                      .seed = {1, 2}});
	handler = api_handler(&h->api);
	assert_int_equal(http_server_open(&h->http,
	                                  &(struct http_server_options){.listen = "127.0.0.1:0",
	                                                                .loops = 1,
	                                                                .limits = &limits,
	                                                                .handler = &handler,
	                                                                .clock = clock_system()},
	                                  &err),
	                 ERR_NONE);
}

static void house_close(struct house *h)
{
	http_server_close(h->http);
	event_hub_close(h->hub);
	scene_close(&h->x);
}

/* ---- publishing ---- */

static const char *padding = "";

static enum err_code publish_twenty(struct act *act, struct err *err)
{
	struct row data;

	row_init(&data, act->ctx.arena);
	row_set_text(&data, "padding", bytes_of(padding));
	for (int i = 0; i < 20; i++)
		ctx_publish(&act->ctx, &(struct event){.type = EVENT_LOCK_SET,
		                                       .subject = arena_printf(act->ctx.arena, "s%d", i % 4),
		                                       .data = row_item(&data)});
	if (commit(act, err) != ERR_NONE)
		return err->code;
	ctx_published(&act->ctx);
	return ERR_NONE;
}

static void publish(struct house *h, int twenties)
{
	for (int i = 0; i < twenties; i++) {
		assert_int_equal(play(&h->x, publish_twenty, 0), ERR_NONE);
		arena_reset(&h->x.s.f.arena);
	}
}

static enum err_code trim_all(struct act *act, struct err *err)
{
	struct arena *a = act->ctx.arena;
	struct row    row;

	for (int i = act->n; i > act->n - 80 && i > 0; i--)
		ctx_delete(&act->ctx, TABLE_EVENTS,
		           row_key_two(a, BYTES("LOG#0"), arena_printf(a, "%020d", i)));
	row_init(&row, a);
	row_set_text(&row, "PK", BYTES("HEAD"));
	row_set_text(&row, "SK", BYTES("FIRST#0"));
	row_set_i64(&row, "position", act->n + 1);
	ctx_put(&act->ctx, TABLE_EVENTS, row_item(&row));
	return commit(act, err);
}

/* ---- a peer ---- */

struct peer {
	int         fd;
	char       *text; /* all that came */
	size_t      len, cap;
	const char *what; /* that was looked for last */
	size_t      looked, found;
};

static struct peer peer_open(struct house *h, const char *path, const char *headers)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)http_server_port(h->http))};
	struct timeval     patience = {.tv_sec = PATIENCE_S};
	struct peer        p = {.fd = socket(AF_INET, SOCK_STREAM, 0)};
	int                small = 64 * 1024; /* so that a slow reader is one soon */
	char               text[512];

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(p.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(p.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	assert_int_equal(connect(p.fd, (struct sockaddr *)&to, sizeof(to)), 0);
	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, headers);
	assert_int_equal(send(p.fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	return p;
}

/* False: there is no more. */
static bool peer_read(struct peer *p)
{
	ssize_t got;

	if (p->cap - p->len < 65536) {
		p->cap = p->cap * 2 + 131072;
		p->text = mem_realloc(p->text, p->cap);
		p->text[p->len] = '\0';
	}
	got = recv(p->fd, p->text + p->len, p->cap - p->len - 1, 0);
	if (got < 0)
		fail_msg("nothing came for %d s; so far: %.2000s", PATIENCE_S, p->text);
	p->len += (size_t)got;
	p->text[p->len] = '\0';
	return got > 0;
}

static unsigned peer_count(const struct peer *p, const char *what)
{
	unsigned count = 0;

	for (const char *at = p->text; at != NULL && (at = strstr(at, what)) != NULL; at++)
		count++;
	return count;
}

/* So many, counted from the start; each byte is looked at about once. */
static void peer_await(struct peer *p, const char *what, unsigned count)
{
	if (p->what == NULL || strcmp(p->what, what) != 0) {
		p->what = what;
		p->looked = p->found = 0;
	}
	for (;;) {
		for (char *at; p->text != NULL && (at = strstr(p->text + p->looked, what)) != NULL;) {
			p->looked = (size_t)(at - p->text) + strlen(what);
			p->found++;
		}
		if (p->found >= count)
			return;
		if (p->len > p->looked + strlen(what)) /* what is there may be the begin of one */
			p->looked = p->len - strlen(what);
		if (!peer_read(p))
			fail_msg("ended before %u of %s: %s", count, what, p->text);
	}
}

static void peer_close(struct peer *p)
{
	close(p->fd);
	free(p->text);
	*p = (struct peer){0};
}

#define STREAM "Accept: text/event-stream\r\n"

static struct event_hub_stats stats_when(struct house *h, bool (*done)(const struct event_hub_stats *s))
{
	struct event_hub_stats s = {0};

	for (int i = 0; i < PATIENCE_S * 100; i++) {
		s = event_hub_stats(h->hub);
		if (done(&s))
			return s;
		usleep(10000);
	}
	fail_msg("not within %d s: %u streams, %u behind, %u polls, %lu events, %lu sent", PATIENCE_S,
	         s.streams, s.streams_behind, s.polls, s.events, s.sent);
	return s;
}

static bool is_live(const struct event_hub_stats *s)
{
	return s->streams > 0 && s->streams_behind == 0;
}

static bool is_behind(const struct event_hub_stats *s)
{
	return s->streams_behind > 0;
}

static bool is_waiting(const struct event_hub_stats *s)
{
	return s->polls > 0;
}

static bool is_empty(const struct event_hub_stats *s)
{
	return s->streams == 0 && s->polls == 0;
}

/* ---- tests ---- */

TEST(event_hub, reads_nothing_while_nobody_follows)
{
	struct house h = {0};

	house_open(&h, 1);
	publish(&h, 3);
	assert_int_equal(event_hub_stats(h.hub).reads, 0);
	house_close(&h);
}

TEST(event_hub, follows_a_log_that_nobody_wrote_to_yet)
{
	struct house h = {0};
	struct peer  p;

	house_open(&h, 1);
	p = peer_open(&h, "/v1/events", STREAM);
	peer_await(&p, "id: 0", 1);
	stats_when(&h, is_live);
	publish(&h, 1);
	peer_await(&p, "event: lock.set", 20);
	peer_close(&p);
	house_close(&h);
}

TEST(event_hub, reads_each_event_once_whatever_the_number_of_its_followers)
{
	struct house h = {0};
	struct peer  peers[10];

	house_open(&h, 1);
	publish(&h, 1);
	for (int i = 0; i < 10; i++)
		peers[i] = peer_open(&h, i < 5 ? "/v1/events?subject=s1" : "/v1/events", STREAM);
	for (int i = 0; i < 10; i++)
		peer_await(&peers[i], "retry:", 1);
	stats_when(&h, is_live);
	publish(&h, 2);
	for (int i = 0; i < 10; i++)
		peer_await(&peers[i], "event: lock.set", i < 5 ? 10 : 40);
	assert_int_equal(event_hub_stats(h.hub).events, 40);
	assert_int_equal(event_hub_stats(h.hub).sent, 5 * 10 + 5 * 40);
	for (int i = 0; i < 10; i++)
		peer_close(&peers[i]);
	stats_when(&h, is_empty);
	house_close(&h);
}

TEST(event_hub, sends_events_of_several_shards_with_the_cursor_of_all)
{
	struct house h = {0};
	struct peer  p;
	char         path[64], *id;
	int          a, b, c;

	house_open(&h, 3);
	p = peer_open(&h, "/v1/events", STREAM);
	peer_await(&p, "id: 0-0-0", 1);
	publish(&h, 2);
	peer_await(&p, "event: lock.set", 40);
	id = p.text;
	for (char *next = id; (next = strstr(next + 1, "id: ")) != NULL;)
		id = next;
	assert_int_equal(sscanf(id, "id: %d-%d-%d", &a, &b, &c), 3);
	assert_int_equal(a + b + c, 40);
	peer_close(&p);
	publish(&h, 1);
	snprintf(path, sizeof(path), "Last-Event-ID: %d-%d-%d\r\n" STREAM, a, b, c);
	p = peer_open(&h, "/v1/events", path); /* it goes on where it was */
	peer_await(&p, "event: lock.set", 20);
	publish(&h, 1);
	peer_await(&p, "event: lock.set", 40);
	peer_close(&p);
	house_close(&h);
}

/* (2) */
TEST(event_hub, reads_on_for_a_slow_reader_once_it_reads_and_holds_nobody_up)
{
	enum { TWENTIES = 60 };
	struct house h = {0};
	struct peer  slow, quick;
	char        *large = mem_zalloc(6001);

	house_open(&h, 1);
	memset(large, 'x', 6000);
	padding = large;
	slow = peer_open(&h, "/v1/events", STREAM);
	quick = peer_open(&h, "/v1/events?subject=s0", STREAM);
	peer_await(&slow, "retry:", 1);
	peer_await(&quick, "retry:", 1);
	stats_when(&h, is_live);
	for (int i = 0; i < TWENTIES; i++) { /* 7 MB, more than sockets take */
		publish(&h, 1);
		peer_await(&quick, "event: lock.set", (unsigned)(i + 1) * 5);
	}
	stats_when(&h, is_behind);
	assert_int_equal(peer_count(&slow, "event: lock.set"), 0);
	peer_await(&slow, "event: lock.set", TWENTIES * 20);
	stats_when(&h, is_live);
	padding = "";
	publish(&h, 1);
	peer_await(&slow, "event: lock.set", (TWENTIES + 1) * 20);
	assert_int_equal(peer_count(&slow, "\"position\":1220,"), 1);
	peer_close(&slow);
	peer_close(&quick);
	free(large);
	house_close(&h);
}

/* (1) */
TEST(event_hub, tells_a_stream_that_what_comes_next_was_trimmed_and_ends_it)
{
	enum { TWENTIES = 60 };
	struct house h = {0};
	struct peer  p;
	char        *large = mem_zalloc(6001);

	house_open(&h, 1);
	memset(large, 'x', 6000);
	padding = large;
	p = peer_open(&h, "/v1/events", STREAM);
	peer_await(&p, "retry:", 1);
	stats_when(&h, is_live);
	publish(&h, TWENTIES);
	stats_when(&h, is_behind);
	assert_int_equal(play(&h.x, trim_all, TWENTIES * 20), ERR_NONE);
	while (peer_read(&p))
		;
	assert_int_equal(peer_count(&p, "event: problem"), 1);
	assert_int_equal(peer_count(&p, "\"after\":\"1200\""), 1);
	peer_close(&p);
	padding = "";
	free(large);
	house_close(&h);
}

TEST(event_hub, sends_an_event_that_is_too_large_for_a_stream_without_its_data)
{
	struct house h = {0};
	struct peer  p;
	char        *large = mem_zalloc(14001);

	house_open(&h, 1);
	memset(large, 'x', 14000);
	padding = large;
	p = peer_open(&h, "/v1/events?subject=s1", STREAM);
	peer_await(&p, "retry:", 1);
	stats_when(&h, is_live);
	publish(&h, 1);
	peer_await(&p, "\"toolarge\":true", 5);
	padding = "";
	publish(&h, 1);
	peer_await(&p, "\"seq\":10,", 1);
	peer_close(&p);
	free(large);
	house_close(&h);
}

TEST(event_hub, answers_a_long_poll_from_the_ring_and_a_reader_who_is_behind_from_the_table)
{
	struct house h = {0};
	struct peer  p;

	house_open(&h, 1);
	publish(&h, 1);
	p = peer_open(&h, "/v1/events?after=20&wait=60", "Connection: close\r\n");
	stats_when(&h, is_waiting);
	publish(&h, 1);
	while (peer_read(&p))
		;
	assert_true(peer_count(&p, "\"position\":") > 0);
	assert_true(event_hub_stats(h.hub).ring_hits > 0);
	peer_close(&p);
	p = peer_open(&h, "/v1/events?after=0&limit=5", "Connection: close\r\n");
	while (peer_read(&p))
		;
	assert_int_equal(peer_count(&p, "\"position\":"), 5);
	peer_close(&p);
	house_close(&h);
}

TEST(event_hub, shows_what_a_call_published_to_whoever_asks_after_its_answer)
{
	struct house h = {0};
	struct peer  p;
	char         path[64];

	house_open(&h, 1);
	for (int i = 0; i < 100; i++) {
		publish(&h, 1);
		snprintf(path, sizeof(path), "/v1/events?after=%d&limit=1000", i * 20);
		p = peer_open(&h, path, "Connection: close\r\n");
		while (peer_read(&p))
			;
		if (peer_count(&p, "\"more\":true") == 0)
			assert_int_equal(peer_count(&p, "\"position\":"), 20);
		peer_close(&p);
	}
	house_close(&h);
}

/* ---- a hub that sleeps (3) ---- */

static bool is_asleep(const struct event_hub_stats *s)
{
	return !s->awake;
}

/* Somebody has followed, left, and nobody came since. By then 40 events were published. */
static void fall_asleep(struct house *h, struct clock_manual *clock)
{
	struct peer p;

	clock_manual_init(clock, 1000000);
	h->clock = &clock->base;
	house_open(h, 1);
	publish(h, 1);
	p = peer_open(h, "/v1/events?after=20&wait=60", "Connection: close\r\n");
	stats_when(h, is_waiting);
	assert_true(event_hub_stats(h->hub).awake);
	publish(h, 1);
	while (peer_read(&p))
		;
	peer_close(&p);
	stats_when(h, is_empty);
	clock_manual_set(clock, clock_steady_us(h->clock) +
	                                (EVENT_HUB_AWAKE_MS + EVENT_HUB_PERIOD_MS) * INT64_C(1000));
	stats_when(h, is_asleep);
}

static void assert_gets(struct house *h, const char *path, const char *headers, unsigned count)
{
	struct peer p = peer_open(h, path, headers);

	peer_await(&p, "\"position\":", count);
	peer_close(&p);
}

TEST(event_hub, that_sleeps_reads_nothing_of_what_is_published_and_whoever_comes_then_gets_it)
{
	struct clock_manual clock;
	struct house        h = {0};
	uint64_t            reads;
	struct peer         p;

	fall_asleep(&h, &clock);
	reads = event_hub_stats(h.hub).reads;
	publish(&h, 1);
	assert_int_equal(event_hub_stats(h.hub).reads, reads);
	assert_gets(&h, "/v1/events?after=40&wait=60", "", 20);
	assert_gets(&h, "/v1/events", "Last-Event-ID: 40\r\n" STREAM, 20);
	p = peer_open(&h, "/v1/events?after=60&wait=60", ""); /* and it follows again */
	stats_when(&h, is_waiting);
	publish(&h, 1);
	peer_await(&p, "\"position\":", 1);
	peer_close(&p);
	house_close(&h);
}

/* Something is published as soon as a request has looked at where the log ends. */
static _Atomic(struct house *)     meanwhile;
static struct store_backend        late_store;
static struct table_backend        late_table;
static const struct table_backend *usual_table;
static struct table *(*usual_begin)(struct store *s, struct arena *a);

static enum err_code look_then_publish(struct table *t, struct arena *a, const struct table_batch_get *q,
                                       struct table_batch_get_result *r, struct err *err)
{
	enum err_code rc = usual_table->batch_get(t, a, q, r, err);
	struct house *h = atomic_exchange(&meanwhile, NULL);

	if (h != NULL)
		publish(h, 1);
	return rc;
}

static struct table *begin_of_request(struct store *s, struct arena *a)
{
	struct table *t = usual_begin(s, a);
	char          thread[16] = "";

	pthread_getname_np(pthread_self(), thread, sizeof(thread));
	if (strcmp(thread, "event-hub") == 0)
		return t;
	usual_table = t->backend;
	late_table = *t->backend;
	late_table.batch_get = look_then_publish;
	t->backend = &late_table;
	return t;
}

/* Before any other thread has the store. */
static void meddle(struct store *store)
{
	late_store = *store->backend;
	usual_begin = late_store.read_begin;
	late_store.read_begin = begin_of_request;
	store->backend = &late_store;
}

/* It wakes nobody: the hub sleeps. Then the request waits, and the hub begins with what the request has read. */
TEST(event_hub, that_sleeps_while_an_event_comes_between_a_look_and_the_wait_misses_nothing)
{
	struct clock_manual clock;
	struct house        h = {0};

	h.meddles = true;
	fall_asleep(&h, &clock);
	atomic_store(&meanwhile, &h);
	assert_gets(&h, "/v1/events?after=40&wait=60", "", 1);
	assert_null(atomic_load(&meanwhile));
	assert_true(
	        event_hub_stats(h.hub).awake); /* so it has waited, and did not find the event by itself */
	house_close(&h);
}

/* ---- the ring ---- */

static struct event_seen seen_at(struct arena *a, int64_t position)
{
	struct row row;

	row_init(&row, a);
	row_set_text(&row, "PK", BYTES("LOG#0"));
	row_set_i64(&row, "position", position);
	return (struct event_seen){.position = position,
	                           .type = BYTES("lock.set"),
	                           .subject = BYTES("s"),
	                           .row = row_item(&row)};
}

TEST(event_ring, keeps_the_newest_and_knows_what_it_covers)
{
	struct event_ring  *r = mem_zalloc(sizeof(*r));
	struct event_cursor at = {.shards = 1, .after = {100}};
	struct arena        a;

	arena_init(&a);
	event_ring_reset(r, &at);
	assert_true(event_ring_covers(r, &at));
	for (int64_t i = 101; i <= 100 + EVENT_RING_MAX; i++) {
		struct event_seen e = seen_at(&a, i);

		event_ring_add(r, &e);
	}
	assert_true(event_ring_covers(r, &at));
	assert_int_equal(event_ring_find(r, &at), 0);
	{
		struct event_seen e = seen_at(&a, 101 + EVENT_RING_MAX);

		event_ring_add(r, &e); /* one more than there is room for */
	}
	assert_false(event_ring_covers(r, &at));
	at.after[0] = 101;
	assert_true(event_ring_covers(r, &at));
	assert_int_equal(event_ring_at(r, event_ring_find(r, &at))->position, 102);
	at.after[0] = 102 + EVENT_RING_MAX; /* past its end */
	assert_false(event_ring_covers(r, &at));
	event_ring_release(r);
	free(r);
	arena_release(&a);
}
