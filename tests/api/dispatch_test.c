/* The dispatcher over a socket, with a clock that stands until a test moves it and a store that does what a test says: it
 * refuses, fails, and keeps requests waiting. Every way out of a call is answered, metered and audited once, and gives
 * back its caller, its session and its documents.
 *
 * Most calls are of a protocol that counts what is done with them. Those at the end are of the real ones. */
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "api/dynamodb.h"
#include "api/v1.h"
#include "base/audit.h"
#include "base/log.h"

enum { START_US = 1000000000, STEPS_MAX_US = 1234, HEAVY_BYTES = 2 * DEBT_HEAVY_BYTES };

/* ---- a store that follows a script ---- */

enum ending { COMMITS, FAILS, THROTTLES, TOO_HEAVY };

struct scripted_store {
	struct store  base;
	struct table  table;
	struct clock *clock;
	bool          refuses; /* submit does */
	enum err_code write_fails;
	atomic_int    sessions; /* that read, open now */
	atomic_uint   rehearsals;
	bool          rehearsal_decides;

	/* a row of an Idempotency-Key, if one was written */
	struct arena arena;
	bool         has_row;
	struct item  row;

	/* under lock */
	pthread_mutex_t      lock;
	pthread_cond_t       arrived;
	struct turn_request *waiting; /* at most one */
};

static struct table *store_read_begin(struct store *s, struct arena *a)
{
	struct scripted_store *store = (struct scripted_store *)s;
	struct table          *t = arena_alloc(a, sizeof(*t));

	atomic_fetch_add(&store->sessions, 1);
	*t = store->table;
	return t;
}

static void store_read_end(struct store *s, struct table *t)
{
	memset(t, 0xdd, sizeof(*t)); /* nobody may use it any more */
	atomic_fetch_sub(&((struct scripted_store *)s)->sessions, 1);
}

static enum err_code store_submit(struct store *s, struct turn_request *w, struct err *err)
{
	struct scripted_store *store = (struct scripted_store *)s;

	if (store->refuses)
		return err_set(err, ERR_OVERLOADED, "as the script says");
	pthread_mutex_lock(&store->lock);
	assert_null(store->waiting);
	store->waiting = w;
	pthread_cond_signal(&store->arrived);
	pthread_mutex_unlock(&store->lock);
	return ERR_NONE;
}

static void store_rehearse(struct store *s, struct table *t, struct arena *a)
{
	(void)t;
	(void)a;
	atomic_fetch_add(&((struct scripted_store *)s)->rehearsals, 1);
}

static bool store_rehearsed(struct store *s, struct table *t)
{
	(void)t;
	return ((struct scripted_store *)s)->rehearsal_decides;
}

static void store_gathered(struct store *s)
{
	(void)s;
}

static int64_t store_now_us(struct store *s)
{
	return clock_steady_us(((struct scripted_store *)s)->clock);
}

/* Waits for a request, which is then the test's to end. */
static struct turn_request *store_take(struct scripted_store *s)
{
	struct turn_request *w;

	pthread_mutex_lock(&s->lock);
	while (s->waiting == NULL)
		pthread_cond_wait(&s->arrived, &s->lock);
	w = s->waiting;
	s->waiting = NULL;
	pthread_mutex_unlock(&s->lock);
	return w;
}

static void store_end(struct scripted_store *s, struct turn_request *w, enum ending how)
{
	struct table session = s->table;

	w->too_heavy = how == TOO_HEAVY;
	if (how == THROTTLES || how == TOO_HEAVY)
		w->rc = err_set(&w->err, ERR_THROTTLED, "as the script says");
	else
		w->rc = w->run(w, &session);
	if (how == FAILS)
		w->rc = err_set(&w->err, ERR_STORAGE, "as the script says");
	w->done(w);
}

/* ---- its tables: one row, of whatever key ---- */

static struct scripted_store *script; /* of the house that is open */

static enum err_code table_get(struct table *t, struct arena *a, const struct table_get *q,
                               struct table_get_result *r, struct err *err)
{
	(void)t;
	(void)a;
	(void)q;
	(void)err;
	*r = (struct table_get_result){.found = script->has_row, .item = script->row};
	return ERR_NONE;
}

static enum err_code table_keep(const struct table_write *w, struct err *err)
{
	if (script->write_fails != ERR_NONE)
		return err_set(err, script->write_fails, "as the script says");
	if (w->kind == TABLE_PUT && item_get(&w->item, BYTES("digest")) != NULL) {
		script->row = item_copy(&script->arena, &w->item);
		script->has_row = true;
	}
	return ERR_NONE;
}

static enum err_code table_write(struct table *t, struct arena *a, const struct table_write *q,
                                 struct table_write_result *r, struct err *err)
{
	(void)t;
	(void)a;
	memset(r, 0, sizeof(*r));
	return table_keep(q, err);
}

static enum err_code table_transact(struct table *t, struct arena *a, const struct table_transact_write *q,
                                    struct table_transact_result *r, struct err *err)
{
	(void)t;
	*r = (struct table_transact_result){.results = arena_zalloc(a, q->count * sizeof(*r->results))};
	for (uint32_t i = 0; i < q->count; i++)
		if (table_keep(&q->writes[i], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

static enum err_code table_create(struct table *t, struct arena *a, const struct table_schema *q,
                                  struct table_description *r, struct err *err)
{
	(void)t;
	(void)err;
	*r = (struct table_description){.schema = schema_copy(a, q)};
	return ERR_NONE;
}

static const struct table_backend scripted_table = {.name = "scripted",
                                                    .get = table_get,
                                                    .write = table_write,
                                                    .transact_write = table_transact,
                                                    .create = table_create};

static const struct store_backend scripted_backend = {.name = "scripted",
                                                      .read_begin = store_read_begin,
                                                      .read_end = store_read_end,
                                                      .rehearse = store_rehearse,
                                                      .rehearsed = store_rehearsed,
                                                      .submit = store_submit,
                                                      .gathered = store_gathered,
                                                      .now_us = store_now_us};

/* ---- a house: a loop, a protocol that counts, a caller with a key ---- */

enum step { NOWHERE, IDENTIFY, DECODE, AUTHORISE, RUN };

/* What the calls of a test are to do. Set while none is under way. */
struct plan {
	enum step      fails_at;
	enum call_kind kind;
	bool           reads;       /* authorise looks at a table */
	bool           tableless;   /* of a READ */
	bool           conditional; /* of a WRITE */
	bool           heavy;       /* decode takes a lot of memory */
	bool           keyed;       /* its caller has a key */
	bool           fills_late;  /* before it is dispatched: the late thread has as much as it may */
	bool           refused;     /* dispatch_refuse */
	unsigned       turns;       /* that a write which failed has besides the first */
	int64_t        pause_us;    /* before each */
	void (*handle)(struct api_loop *l, struct http_request *r); /* a real protocol's, instead */
};

struct house {
	struct api            api; /* first: the handler's ctx */
	struct clock_manual   clock;
	struct scripted_store store;
	struct http_server   *http;
	struct plan           plan;
	struct credentials    credentials;
	struct credential     key;
	struct late_work      dummies[LATE_WAITING_MAX];
	pthread_mutex_t       gate; /* held: the late thread waits in the work of such a request */
	atomic_bool           gated;
	unsigned              under_way; /* calls with a key that have not ended */
	char                  answer[4096];

	/* What was done. */
	atomic_uint   identified, decoded, ran, answered, labelled, audited, released;
	atomic_bool   late, had_backend, was_last;
	atomic_uint   asked_again;
	enum err_code outcome; /* the audit's */
	int64_t       ran_us;  /* the table's time */
};

static struct house *house_of(const struct call *c)
{
	return (struct house *)c->loop->api;
}

static enum err_code fail_at(const struct call *c, enum step step, struct err *err)
{
	if (house_of(c)->plan.fails_at != step)
		return ERR_NONE;
	return err_set(err, ERR_INVALID, "as the plan says");
}

static enum err_code probe_identify(struct call *c, struct err *err)
{
	struct house *h = house_of(c);
	enum err_code rc = fail_at(c, IDENTIFY, err);

	if (rc == ERR_NONE && h->plan.keyed) {
		atomic_fetch_add(&h->credentials.refs, 1);
		c->who.set = &h->credentials;
		c->who.key = &h->key;
	}
	atomic_fetch_add(&h->identified, 1); /* last: a test may change the plan from here on */
	return rc;
}

static enum err_code probe_decode(struct call *c, struct json_reader *json, struct err *err)
{
	struct house *h = house_of(c);

	atomic_fetch_add(&h->decoded, 1);
	atomic_store(&h->late, json != c->loop->json);
	if (atomic_load(&h->gated)) {
		pthread_mutex_lock(&h->gate);
		pthread_mutex_unlock(&h->gate);
	}
	c->kind = h->plan.kind;
	c->tableless = h->plan.tableless;
	c->conditional = h->plan.conditional;
	if (h->plan.heavy)
		arena_alloc(&c->http->arena, HEAVY_BYTES);
	return fail_at(c, DECODE, err);
}

static enum err_code probe_authorise(struct call *c, struct err *err)
{
	if (house_of(c)->plan.reads)
		assert_ptr_equal(call_reader(c)->backend, &scripted_table);
	return fail_at(c, AUTHORISE, err);
}

static enum err_code probe_run(struct call *c, struct table *t, struct err *err)
{
	struct house *h = house_of(c);

	atomic_fetch_add(&h->ran, 1);
	atomic_store(&h->had_backend, t->backend != NULL);
	h->ran_us = t->now_us;
	return fail_at(c, RUN, err);
}

static enum err_code probe_answer(struct call *c, enum err_code rc, struct err *err,
                                  struct http_response *out)
{
	struct buf *text = api_loop_answer(c->loop);

	atomic_fetch_add(&house_of(c)->answered, 1);
	buf_add_bytes(text, rc == ERR_NONE ? BYTES("fine") : bytes_of(err->text));
	*out = (struct http_response){.status = rc == ERR_NONE ? 200 : err_status(rc),
	                              .content_type = "text/plain",
	                              .body = buf_bytes(text)};
	return rc;
}

static struct call_label probe_label(const struct call *c)
{
	atomic_fetch_add(&house_of(c)->labelled, 1);
	return (struct call_label){0, BYTES("Probe")};
}

static void probe_audit(const struct call *c, enum err_code outcome, struct audit *audit)
{
	(void)audit;
	atomic_fetch_add(&house_of(c)->audited, 1);
	house_of(c)->outcome = outcome;
}

static void probe_release(struct call *c)
{
	atomic_fetch_add(&house_of(c)->released, 1);
}

static bool probe_again(struct call *c, enum err_code rc, bool last, int64_t *pause_us)
{
	struct house *h = house_of(c);

	assert_int_not_equal(rc, ERR_NONE);
	*pause_us = last ? 0 : h->plan.pause_us;
	atomic_store(&h->was_last, last);
	return atomic_fetch_add(&h->asked_again, 1) < h->plan.turns;
}

static const struct protocol probe = {.identify = probe_identify,
                                      .foresee = probe_authorise,
                                      .decode = probe_decode,
                                      .authorise = probe_authorise,
                                      .run = probe_run,
                                      .answer = probe_answer,
                                      .again = probe_again,
                                      .label = probe_label,
                                      .audit = probe_audit,
                                      .release = probe_release};

static void dummy_run(struct late_work *w, struct json_reader *json)
{
	(void)w;
	(void)json;
}

static void house_handle(void *ctx, struct http_request *r)
{
	struct house    *h = ctx;
	struct api_loop *l = r->loop_data;
	struct call     *c = arena_alloc(&r->arena, sizeof(*c));
	struct err       err;

	if (h->plan.handle != NULL) {
		h->plan.handle(l, r);
		return;
	}
	for (unsigned i = 0; h->plan.fills_late && i < LATE_WAITING_MAX; i++)
		late_submit(l->late, &h->dummies[i]);
	memset(c, 0xdd, sizeof(*c)); /* call_init leaves nothing to chance */
	call_init(c, &probe, r);
	if (!h->plan.refused) {
		dispatch(c);
		return;
	}
	err_set(&err, ERR_ORIGIN, "a stranger");
	dispatch_refuse(c, &err);
}

static void house_open(struct house *h)
{
	struct http_limits  limits = http_limits_default();
	struct http_handler handler;
	struct err          err;

	memset(h, 0, sizeof(*h));
	log_set_level((enum log_level)(LOG_ERROR + 1));
	clock_manual_init(&h->clock, START_US);
	h->store.base.backend = &scripted_backend;
	h->store.table = (struct table){.backend = &scripted_table, .now_us = START_US, .alone = true};
	h->store.clock = &h->clock.base;
	arena_init(&h->store.arena);
	pthread_mutex_init(&h->store.lock, NULL);
	pthread_cond_init(&h->store.arrived, NULL);
	pthread_mutex_init(&h->gate, NULL);
	script = &h->store;
	atomic_store(&h->credentials.refs, 1);
	h->key = (struct credential){.id = BYTES("AKIATEST"), .use = key_use_open()};
	for (unsigned i = 0; i < LATE_WAITING_MAX; i++)
		h->dummies[i].run = dummy_run;
	api_init(&h->api,
	         &(struct api_parts){.store = &h->store.base, .clock = &h->clock.base, .seed = {1, 2}});
	handler = api_handler(&h->api);
	handler.handle = house_handle;
	if (http_server_open(&h->http,
	                     &(struct http_server_options){.listen = "127.0.0.1:0",
	                                                   .loops = 1,
	                                                   .limits = &limits,
	                                                   .handler = &handler,
	                                                   .clock = &h->clock.base},
	                     &err) != ERR_NONE)
		fail_msg("%s", err.text);
}

static void house_close(struct house *h)
{
	http_server_close(h->http);
	assert_int_equal(atomic_load(&h->credentials.refs), 1);
	assert_int_equal(atomic_load(&h->store.sessions), 0);
	key_use_release(h->key.use);
	arena_release(&h->store.arena);
}

static void *house_stop(void *house)
{
	http_server_close(((struct house *)house)->http);
	return NULL;
}

/* ---- requests ---- */

static int dial(struct house *h)
{
	int                fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in to = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)http_server_port(h->http))};

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static void send_to(int fd, const char *headers, const char *body)
{
	char text[1024];
	int  len = snprintf(text, sizeof(text),
	                    "POST / HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n%s", headers,
	                    strlen(body), body);

	assert_int_equal(send(fd, text, (size_t)len, MSG_NOSIGNAL), len);
}

/* One answer, whole; its status. */
static int receive(struct house *h, int fd)
{
	size_t      len = 0;
	int         status = 0;
	const char *body, *length;

	for (;;) {
		ssize_t got = recv(fd, h->answer + len, sizeof(h->answer) - 1 - len, 0);

		assert_true(got > 0);
		len += (size_t)got;
		h->answer[len] = '\0';
		body = strstr(h->answer, "\r\n\r\n");
		length = strstr(h->answer, "Content-Length: ");
		if (body != NULL && length != NULL &&
		    len >= (size_t)(body + 4 - h->answer) + (size_t)atoi(length + 16))
			break;
	}
	assert_int_equal(sscanf(h->answer, "HTTP/1.1 %d", &status), 1);
	assert_int_equal(len,
	                 (size_t)(body + 4 - h->answer) + (size_t)atoi(length + 16)); /* and no second one */
	return status;
}

static bool is_silent(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) < 0;
}

static int ask(struct house *h)
{
	int fd = dial(h), status;

	send_to(fd, "", "{}");
	status = receive(h, fd);
	close(fd);
	return status;
}

/* A write: the store has it, and nobody is answered; then it ends. */
static int ask_ending(struct house *h, enum ending how)
{
	struct turn_request *w;
	int                  fd = dial(h), status;

	send_to(fd, "", "{}");
	w = store_take(&h->store);
	assert_true(is_silent(fd));
	assert_int_equal(atomic_load(&h->answered), 0);
	clock_manual_set(&h->clock, START_US + STEPS_MAX_US);
	store_end(&h->store, w, how);
	status = receive(h, fd);
	close(fd);
	return status;
}

/* Of the one call that has ended since the last time: done once, and nothing of it is left. */
static void assert_once(struct house *h, enum err_code outcome)
{
	struct metric_reading latency = meter_latency(&h->api.meter, 0);

	assert_int_equal(atomic_exchange(&h->answered, 0), 1);
	assert_int_equal(atomic_exchange(&h->labelled, 0), 1);
	assert_int_equal(atomic_exchange(&h->audited, 0), 1);
	assert_int_equal(atomic_exchange(&h->released, 0), 1);
	assert_int_equal(h->outcome, outcome);
	assert_int_equal(atomic_load(&h->store.sessions), 0);
	assert_int_equal(atomic_load(&h->credentials.refs), 1 + h->under_way);
	for (unsigned code = 0; code < METER_OUTCOMES; code++)
		assert_int_equal(meter_requests(&h->api.meter, 0, (enum err_code)code), code == outcome);
	assert_int_equal(metric_reading_count(&latency), 1);
	memset(&h->api.meter, 0, sizeof(h->api.meter));
}

/* ---- refused ---- */

TEST(dispatch, a_stranger_is_refused_before_anything_is_decoded)
{
	static struct house h;

	house_open(&h);
	h.plan = (struct plan){.fails_at = IDENTIFY};
	assert_int_equal(ask(&h), 400);
	assert_once(&h, ERR_INVALID);
	assert_int_equal(atomic_load(&h.decoded), 0);
	house_close(&h);
}

TEST(dispatch, who_is_refused_at_once_is_not_even_identified)
{
	static struct house h;

	house_open(&h);
	h.plan = (struct plan){.refused = true};
	assert_int_equal(ask(&h), err_status(ERR_ORIGIN));
	assert_once(&h, ERR_ORIGIN);
	assert_int_equal(atomic_load(&h.identified), 0);
	house_close(&h);
}

TEST(dispatch, a_request_that_cannot_be_decoded_or_may_not_be_is_not_run)
{
	static struct house h;

	house_open(&h);
	for (enum step step = DECODE; step <= AUTHORISE; step++)
		for (enum call_kind kind = READ; kind <= WRITE; kind++) {
			h.plan = (struct plan){.fails_at = step, .kind = kind, .reads = true, .keyed = true};
			assert_int_equal(ask(&h), 400);
			assert_once(&h, ERR_INVALID);
		}
	assert_int_equal(atomic_load(&h.ran), 0);
	house_close(&h);
}

TEST(dispatch, a_key_past_its_limits_is_refused_and_past_its_connections_cut_off)
{
	static struct house h;
	int                 first, second;
	char                byte;

	house_open(&h);
	h.plan = (struct plan){.keyed = true};
	h.key.limits.requests_per_second_max = 1;
	assert_int_equal(ask(&h), 200);
	assert_once(&h, ERR_NONE);
	assert_int_equal(ask(&h), err_status(ERR_THROTTLED));
	assert_once(&h, ERR_THROTTLED);
	h.key.limits = (struct key_limits){.connections_max = 1};
	first = dial(&h);
	send_to(first, "", "{}");
	assert_int_equal(receive(&h, first), 200);
	assert_once(&h, ERR_NONE);
	second = dial(&h);
	send_to(second, "", "{}");
	assert_int_equal(receive(&h, second), err_status(ERR_THROTTLED));
	assert_int_equal(recv(second, &byte, 1, 0), 0);
	assert_once(&h, ERR_THROTTLED);
	assert_int_equal(atomic_load(&h.decoded), 2);
	close(first);
	close(second);
	house_close(&h);
}

/* ---- reads ---- */

TEST(dispatch, a_read_runs_at_once_in_a_session_that_has_ended_by_then)
{
	static struct house h;

	house_open(&h);
	h.plan = (struct plan){.kind = READ, .reads = true, .keyed = true};
	assert_int_equal(ask(&h), 200);
	assert_once(&h, ERR_NONE);
	assert_true(atomic_load(&h.had_backend));
	h.plan.fails_at = RUN;
	assert_int_equal(ask(&h), 400);
	assert_once(&h, ERR_INVALID);
	assert_int_equal(atomic_load(&h.ran), 2);
	house_close(&h);
}

TEST(dispatch, a_read_without_a_table_has_the_stores_time_and_no_session)
{
	static struct house h;

	house_open(&h);
	h.plan = (struct plan){.kind = READ, .tableless = true};
	clock_manual_set(&h.clock, START_US + 5);
	assert_int_equal(ask(&h), 200);
	assert_once(&h, ERR_NONE);
	assert_false(atomic_load(&h.had_backend));
	assert_int_equal(h.ran_us, START_US + 5);
	house_close(&h);
}

/* No loop may wait for a network: the store has it run, as it does writes. */
TEST(dispatch, a_read_of_a_store_over_a_network_is_submitted_and_has_one_turn)
{
	static struct house         h;
	static struct store_backend network;

	house_open(&h);
	network = scripted_backend;
	network.reads_wait = true;
	h.store.base.backend = &network;
	h.plan = (struct plan){.kind = READ, .keyed = true, .turns = 3};
	assert_int_equal(ask_ending(&h, COMMITS), 200);
	assert_once(&h, ERR_NONE);
	assert_int_equal(atomic_load(&h.ran), 1);
	assert_int_equal(ask_ending(&h, THROTTLES), err_status(ERR_THROTTLED));
	assert_once(&h, ERR_THROTTLED);
	assert_int_equal(atomic_load(&h.asked_again), 0);
	h.store.refuses = true;
	assert_int_equal(ask(&h), 503);
	assert_once(&h, ERR_OVERLOADED);
	h.plan = (struct plan){.kind = READ, .tableless = true}; /* looks at no table: runs at once */
	assert_int_equal(ask(&h), 200);
	assert_once(&h, ERR_NONE);
	house_close(&h);
}

/* ---- writes ---- */

TEST(dispatch, a_write_is_answered_only_once_it_is_done_and_metered_until_then)
{
	static struct house   h;
	struct metric_reading latency;

	house_open(&h);
	h.plan = (struct plan){.kind = WRITE, .reads = true, .keyed = true};
	assert_int_equal(ask_ending(&h, COMMITS), 200);
	latency = meter_latency(&h.api.meter, 0);
	assert_int_equal(latency.sum, STEPS_MAX_US);
	assert_once(&h, ERR_NONE);
	assert_int_equal(atomic_load(&h.ran), 1);
	house_close(&h);
}

TEST(dispatch, a_write_that_fails_is_answered_once_wherever_it_fails)
{
	static struct house h;

	house_open(&h);
	h.plan = (struct plan){.kind = WRITE, .keyed = true, .fails_at = RUN};
	assert_int_equal(ask_ending(&h, COMMITS), 400);
	assert_once(&h, ERR_INVALID);
	h.plan.fails_at = NOWHERE;
	assert_int_equal(ask_ending(&h, FAILS), 500);
	assert_once(&h, ERR_STORAGE);
	assert_int_equal(ask_ending(&h, THROTTLES), err_status(ERR_THROTTLED));
	assert_once(&h, ERR_THROTTLED);
	h.store.refuses = true;
	assert_int_equal(ask(&h), 503);
	assert_once(&h, ERR_OVERLOADED);
	assert_int_equal(atomic_load(&h.ran), 2);
	house_close(&h);
}

/* ---- further turns ---- */

TEST(dispatch, a_write_that_failed_has_as_many_turns_as_its_protocol_says_and_is_answered_once)
{
	static struct house h;
	int                 fd;

	house_open(&h);
	h.plan = (struct plan){.kind = WRITE, .keyed = true, .turns = 2};
	fd = dial(&h);
	send_to(fd, "", "{}");
	store_end(&h.store, store_take(&h.store), THROTTLES);
	store_end(&h.store, store_take(&h.store), FAILS);
	store_end(&h.store, store_take(&h.store), COMMITS);
	assert_int_equal(receive(&h, fd), 200);
	assert_once(&h, ERR_NONE);
	assert_int_equal(atomic_exchange(&h.asked_again, 0), 2);
	send_to(fd, "", "{}");
	for (int i = 0; i < 3; i++)
		store_end(&h.store, store_take(&h.store), FAILS);
	assert_int_equal(receive(&h, fd), 500);
	assert_once(&h, ERR_STORAGE);
	atomic_store(&h.asked_again, 0);
	h.store.refuses = true; /* a store that takes none is asked as often */
	send_to(fd, "", "{}");
	assert_int_equal(receive(&h, fd), 503);
	assert_once(&h, ERR_OVERLOADED);
	assert_int_equal(atomic_load(&h.asked_again), 3);
	close(fd);
	house_close(&h);
}

/* The loop looks at its clock when something comes in. */
static void pass_time(struct house *h, int64_t us)
{
	int fd = dial(h);

	clock_manual_set(&h->clock, START_US + us);
	assert_int_equal(send(fd, "P", 1, MSG_NOSIGNAL), 1);
	close(fd);
}

static struct http_stats await_parked(struct house *h)
{
	struct http_stats stats;

	while (stats = http_server_stats(h->http), stats.parked_now == 0)
		usleep(100);
	return stats;
}

TEST(dispatch, between_two_turns_it_waits_parked_and_no_longer_than_the_pause)
{
	static struct house h;
	int                 fd;

	house_open(&h);
	h.plan = (struct plan){.kind = WRITE, .keyed = true, .turns = 1, .pause_us = 100000};
	fd = dial(&h);
	send_to(fd, "", "{}");
	store_end(&h.store, store_take(&h.store), THROTTLES);
	await_parked(&h);
	assert_true(is_silent(fd));
	pass_time(&h, 200000);
	store_end(&h.store, store_take(&h.store), COMMITS);
	assert_int_equal(receive(&h, fd), 200);
	assert_once(&h, ERR_NONE);
	assert_false(atomic_load(&h.was_last));
	close(fd);
	house_close(&h);
}

TEST(dispatch, a_peer_that_goes_during_the_pause_does_not_end_what_it_asked_for)
{
	static struct house h;
	int                 fd;

	house_open(&h);
	h.plan = (struct plan){.kind = WRITE, .keyed = true, .turns = 2, .pause_us = 100000};
	fd = dial(&h);
	send_to(fd, "", "{}");
	store_end(&h.store, store_take(&h.store), THROTTLES);
	await_parked(&h);
	close(fd);
	store_end(&h.store, store_take(&h.store), THROTTLES); /* at once */
	store_end(&h.store, store_take(&h.store), COMMITS);   /* the protocol is told that it is the last */
	while (atomic_load(&h.released) == 0)
		usleep(100);
	assert_once(&h, ERR_NONE);
	assert_true(atomic_load(&h.was_last));
	house_close(&h);
}

TEST(dispatch, a_stop_during_the_pause_lets_the_call_have_its_last_turn)
{
	static struct house h;
	pthread_t           stopper;
	int                 fd;

	house_open(&h);
	h.plan = (struct plan){.kind = WRITE, .keyed = true, .turns = 1, .pause_us = 100000};
	fd = dial(&h);
	send_to(fd, "", "{}");
	store_end(&h.store, store_take(&h.store), THROTTLES);
	await_parked(&h);
	assert_int_equal(pthread_create(&stopper, NULL, house_stop, &h), 0);
	store_end(&h.store, store_take(&h.store), COMMITS);
	pthread_join(stopper, NULL);
	assert_once(&h, ERR_NONE);
	close(fd);
	arena_release(&h.store.arena);
	key_use_release(h.key.use);
}

TEST(dispatch, a_connection_goes_on_after_every_way_out)
{
	static struct house h;
	int                 fd;

	house_open(&h);
	fd = dial(&h);
	for (enum step step = NOWHERE; step <= RUN; step++) {
		h.plan = (struct plan){.kind = READ, .reads = true, .keyed = true, .fails_at = step};
		send_to(fd, "", "{}");
		assert_int_equal(receive(&h, fd), step == NOWHERE ? 200 : 400);
		assert_once(&h, step == NOWHERE ? ERR_NONE : ERR_INVALID);
	}
	close(fd);
	house_close(&h);
}

/* ---- late ---- */

/* Puts the key into debt. */
static void make_debts(struct house *h)
{
	h->plan = (struct plan){.kind = READ, .keyed = true, .heavy = true};
	assert_int_equal(ask(h), 200);
	assert_once(h, ERR_NONE);
	assert_false(atomic_load(&h->late));
	h->plan.heavy = false;
}

TEST(dispatch, who_is_in_debt_is_served_late_and_after_it_like_all_others)
{
	static struct house h;

	house_open(&h);
	make_debts(&h);
	h.plan.reads = true;
	assert_int_equal(ask(&h), 200);
	assert_once(&h, ERR_NONE);
	assert_true(atomic_load(&h.late));
	h.plan.fails_at = AUTHORISE;
	assert_int_equal(ask(&h), 400);
	assert_once(&h, ERR_INVALID);
	h.plan = (struct plan){.kind = WRITE, .keyed = true};
	assert_int_equal(ask_ending(&h, COMMITS), 200);
	assert_once(&h, ERR_NONE);
	assert_true(atomic_load(&h.late));
	clock_manual_set(&h.clock, START_US + DEBT_MS_MAX * 1000);
	h.plan.kind = READ;
	assert_int_equal(ask(&h), 200);
	assert_once(&h, ERR_NONE);
	assert_false(atomic_load(&h.late));
	house_close(&h);
}

/* The late thread is in the work of a request, and stays there until the gate opens. */
static int hold_late(struct house *h)
{
	int      fd = dial(h);
	unsigned before = atomic_load(&h->decoded);

	pthread_mutex_lock(&h->gate);
	atomic_store(&h->gated, true);
	send_to(fd, "", "{}");
	while (atomic_load(&h->decoded) == before)
		usleep(100);
	h->under_way++;
	return fd;
}

static void let_late_go(struct house *h, int fd)
{
	atomic_store(&h->gated, false);
	pthread_mutex_unlock(&h->gate);
	assert_int_equal(receive(h, fd), 200);
	close(fd);
	h->under_way--;
}

TEST(dispatch, past_what_may_wait_late_a_request_is_refused_unseen)
{
	static struct house h;
	int                 fd;

	house_open(&h);
	make_debts(&h);
	fd = hold_late(&h);
	h.plan.fills_late = true;
	assert_int_equal(ask(&h), err_status(ERR_THROTTLED));
	assert_once(&h, ERR_THROTTLED);
	assert_int_equal(atomic_load(&h.decoded), 2);
	h.plan.fills_late = false;
	let_late_go(&h, fd);
	assert_once(&h, ERR_NONE);
	house_close(&h);
}

TEST(dispatch, late_work_for_a_peer_that_has_gone_is_skipped_and_ends_like_any_other)
{
	static struct house h;
	struct linger       reset = {.l_onoff = 1};
	int                 held, gone;

	house_open(&h);
	make_debts(&h);
	held = hold_late(&h);
	gone = dial(&h);
	send_to(gone, "", "{}");
	while (atomic_load(&h.identified) < 3)
		usleep(100);
	h.under_way++;
	setsockopt(gone, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(gone);
	h.plan.keyed =
	        false; /* nobody in debt: served at once, and after the loop has seen that the other went */
	atomic_store(&h.gated, false);
	assert_int_equal(ask(&h), 200);
	assert_once(&h, ERR_NONE);
	let_late_go(&h, held);
	while (atomic_load(&h.released) < 2)
		usleep(100);
	assert_int_equal(atomic_load(&h.answered), 2);
	assert_int_equal(atomic_load(&h.audited), 2);
	assert_int_equal(meter_requests(&h.api.meter, 0, ERR_THROTTLED), 1);
	assert_int_equal(meter_requests(&h.api.meter, 0, ERR_NONE), 1);
	assert_int_equal(atomic_load(&h.decoded), 3); /* not that of who had gone */
	house_close(&h);
}

/* ---- rehearsed ---- */

/* A write that was too heavy for its turn. */
static int ask_too_heavy(struct house *h, int fd)
{
	struct turn_request *w;

	send_to(fd, "", "{}");
	w = store_take(&h->store);
	assert_true(w->rehearses);
	assert_null(w->rehearsal);
	store_end(&h->store, w, TOO_HEAVY);
	return fd;
}

TEST(dispatch, a_write_too_heavy_for_its_turn_is_rehearsed_and_has_another)
{
	static struct house  h;
	struct turn_request *w;
	int                  fd;

	house_open(&h);
	h.plan = (struct plan){.kind = WRITE, .conditional = true, .keyed = true};
	fd = ask_too_heavy(&h, dial(&h));
	w = store_take(&h.store);
	assert_non_null(w->rehearsal);
	assert_int_equal(atomic_load(&h.store.sessions), 1); /* until done */
	assert_true(is_silent(fd));
	store_end(&h.store, w, COMMITS);
	assert_int_equal(receive(&h, fd), 200);
	assert_once(&h, ERR_NONE);
	assert_int_equal(atomic_load(&h.store.rehearsals), 1);
	close(fd);
	house_close(&h);
}

TEST(dispatch, a_write_whose_rehearsal_fails_has_no_other_turn)
{
	static struct house h;
	int                 fd;

	house_open(&h);
	h.store.rehearsal_decides = true;
	h.plan = (struct plan){.kind = WRITE, .conditional = true, .keyed = true, .fails_at = RUN};
	fd = ask_too_heavy(&h, dial(&h));
	assert_int_equal(receive(&h, fd), 400);
	assert_once(&h, ERR_INVALID);
	assert_int_equal(atomic_load(&h.ran), 1);
	close(fd);
	house_close(&h);
}

TEST(dispatch, a_write_of_who_is_in_debt_is_rehearsed_before_its_turn)
{
	static struct house h;

	house_open(&h);
	make_debts(&h);
	h.plan = (struct plan){.kind = WRITE, .conditional = true, .keyed = true};
	assert_int_equal(ask_ending(&h, COMMITS), 200);
	assert_once(&h, ERR_NONE);
	assert_int_equal(atomic_load(&h.store.rehearsals), 1);
	house_close(&h);
}

/* ---- /v1: a route that counts ---- */

static struct {
	atomic_uint      committed, refused, ran;
	struct document *document;
	struct services  services;
} v1;

static enum err_code route_decode(struct v1_call *c, struct err *err)
{
	(void)err;
	atomic_fetch_add(&v1.document->refs, 1);
	v1_hold(c, v1.document);
	return ERR_NONE;
}

static enum err_code route_run(struct v1_call *c, struct err *err)
{
	atomic_fetch_add(&v1.ran, 1);
	return fail_at(&c->call, RUN, err);
}

static void route_encode(struct v1_call *c, struct json_writer *w)
{
	(void)c;
	json_begin_object(w);
	json_end_object(w);
}

static void route_committed(struct v1_call *c)
{
	(void)c;
	atomic_fetch_add(&v1.committed, 1);
}

static enum err_code route_refused(struct v1_call *c, enum err_code rc, struct err *err)
{
	(void)c;
	(void)err;
	atomic_fetch_add(&v1.refused, 1);
	return rc;
}

static const struct v1_route route = {HTTP_POST,    "/v1/probe",  ADMINISTER, "Probe",      1024,
                                      "",           route_decode, route_run,  route_encode, route_committed,
                                      route_refused};

static struct protocol v1_counting; /* v1_protocol, but for a route that is in no table */

static void v1_probe_handle(struct api_loop *l, struct http_request *r)
{
	struct v1_call *c = arena_zalloc(&r->arena, sizeof(*c));

	(void)l;
	call_init(&c->call, &v1_counting, r);
	c->route = &route;
	c->ctx = (struct context){.services = &v1.services, .arena = &r->arena, .caller = BYTES("-")};
	dispatch(&c->call);
}

static void v1_open(struct house *h)
{
	static const uint8_t secret[IDENTIFIER_KEY_BYTES] = {7};

	house_open(h);
	memset(&v1, 0, sizeof(v1));
	v1.document = document_make(sizeof(struct document));
	v1.services.tables = service_tables_default();
	identifier_key_init(&v1.services.identifiers, secret);
	v1_counting = v1_protocol;
	v1_counting.label = probe_label;
	h->plan = (struct plan){.handle = v1_probe_handle};
}

static void v1_close(struct house *h)
{
	house_close(h);
	assert_int_equal(atomic_load(&v1.document->refs), 1);
	document_release(v1.document);
}

static int v1_ask(struct house *h, const char *headers, enum ending how)
{
	int fd = dial(h), status;

	send_to(fd, headers, "{}");
	if (!h->store.refuses)
		store_end(&h->store, store_take(&h->store), how);
	status = receive(h, fd);
	close(fd);
	return status;
}

static void assert_v1(struct house *h, unsigned committed, unsigned refused)
{
	assert_int_equal(atomic_exchange(&v1.committed, 0), committed);
	assert_int_equal(atomic_exchange(&v1.refused, 0), refused);
	assert_int_equal(atomic_exchange(&h->labelled, 0), 1);
	assert_int_equal(atomic_load(&v1.document->refs), 1);
	assert_int_equal(atomic_load(&h->store.sessions), 0);
}

TEST(dispatch_v1, a_route_is_told_exactly_once_whether_its_call_holds)
{
	static struct house h;

	v1_open(&h);
	assert_int_equal(v1_ask(&h, "", COMMITS), 200);
	assert_v1(&h, 1, 0);
	assert_int_equal(v1_ask(&h, "", FAILS), 500);
	assert_v1(&h, 0, 1);
	assert_int_equal(v1_ask(&h, "", THROTTLES), 429);
	assert_v1(&h, 0, 1);
	h.plan.fails_at = RUN;
	assert_int_equal(v1_ask(&h, "", COMMITS), 422);
	assert_v1(&h, 0, 1);
	h.plan.fails_at = NOWHERE;
	h.store.refuses = true;
	assert_int_equal(v1_ask(&h, "", COMMITS), 503);
	assert_v1(&h, 0, 1);
	assert_int_equal(atomic_load(&v1.ran), 3);
	v1_close(&h);
}

#define KEYED "Idempotency-Key: once\r\n"

TEST(dispatch_v1, a_replay_is_answered_as_before_and_refused_to_its_route)
{
	static struct house h;

	v1_open(&h);
	h.store.write_fails = ERR_OVERLOADED;
	assert_int_equal(v1_ask(&h, KEYED, COMMITS), 503);
	assert_v1(&h, 0, 1);
	h.store.write_fails = ERR_NONE;
	assert_int_equal(v1_ask(&h, KEYED, COMMITS), 200);
	assert_v1(&h, 1, 0);
	assert_null(strstr(h.answer, "Idempotency-Replayed"));
	assert_int_equal(v1_ask(&h, KEYED, COMMITS), 200);
	assert_v1(&h, 0, 1);
	assert_non_null(strstr(h.answer, "Idempotency-Replayed: true"));
	assert_int_equal(atomic_load(&v1.ran), 2);
	v1_close(&h);
}

/* ---- the audit log ---- */

static unsigned lines_in(const char *dir)
{
	char     path[128];
	unsigned lines = 0;
	int      c;
	FILE    *f;

	snprintf(path, sizeof(path), "%s/audit.log", dir);
	f = fopen(path, "r");
	if (f == NULL)
		return 0;
	while ((c = fgetc(f)) != EOF)
		lines += c == '\n';
	fclose(f);
	return lines;
}

static void audit_begin(struct house *h, char *dir)
{
	struct err err;

	assert_non_null(mkdtemp(dir));
	assert_int_equal(audit_open(&h->api.parts.audit, dir, &err), ERR_NONE);
}

/* Lines that were written. */
static unsigned audit_end(struct house *h, const char *dir)
{
	char     command[128];
	unsigned lines;

	audit_close(h->api.parts.audit);
	lines = lines_in(dir);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	assert_int_equal(system(command), 0);
	return lines;
}

TEST(dispatch_v1, the_audit_log_has_what_changed_or_may_have_and_nothing_else)
{
	static struct house h;
	char                dir[] = "/tmp/gatehouse-dispatch-XXXXXX";

	v1_open(&h);
	audit_begin(&h, dir);
	v1_ask(&h, KEYED, COMMITS); /* a line */
	v1_ask(&h, KEYED, COMMITS); /* a replay: none */
	v1_ask(&h, "", FAILS);      /* the outcome is unknown: a line */
	v1_ask(&h, "", THROTTLES);  /* none */
	h.plan.fails_at = RUN;
	v1_ask(&h, "", COMMITS); /* none */
	v1_close(&h);
	assert_int_equal(audit_end(&h, dir), 2);
}

#define CREATE                                                                                               \
	"{\"TableName\":\"abc\",\"KeySchema\":[{\"AttributeName\":\"a\",\"KeyType\":\"HASH\"}],"             \
	"\"AttributeDefinitions\":[{\"AttributeName\":\"a\",\"AttributeType\":\"S\"}],"                      \
	"\"BillingMode\":\"PAY_PER_REQUEST\"}"

TEST(dispatch_dynamodb, the_audit_log_has_tables_that_were_made_or_may_have_been)
{
	static struct house h;
	const char         *target = "X-Amz-Target: DynamoDB_20120810.CreateTable\r\n";
	char                dir[] = "/tmp/gatehouse-dispatch-XXXXXX";
	enum ending         endings[] = {COMMITS, FAILS, THROTTLES};
	int                 statuses[] = {200, 500, 400};

	house_open(&h);
	audit_begin(&h, dir);
	h.plan = (struct plan){.handle = dynamodb_handle};
	for (unsigned i = 0; i < 3; i++) {
		int fd = dial(&h);

		send_to(fd, target, CREATE);
		store_end(&h.store, store_take(&h.store), endings[i]);
		assert_int_equal(receive(&h, fd), statuses[i]);
		close(fd);
	}
	house_close(&h);
	assert_int_equal(audit_end(&h, dir), 2);
}
