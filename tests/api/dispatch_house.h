/* A house: the dispatcher over a socket, with a clock that stands until a test moves it and a scripted store. Calls are of a protocol that counts what
 * is done with them, or of a real one. */
#ifndef TESTS_API_DISPATCH_HOUSE_H
#define TESTS_API_DISPATCH_HOUSE_H

#include "api/scripted_store.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "api/api.h"
#include "api/dispatch.h"
#include "base/log.h"

enum { START_US = 1000000000, STEPS_MAX_US = 1234, HEAVY_BYTES = 2 * DEBT_HEAVY_BYTES };

/* ---- a house: a loop, a protocol that counts, a caller with a key ---- */

enum step { NOWHERE, IDENTIFY, FORESEE, NAME, AUTHORISE, DECODE, RUN };

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
	atomic_uint   identified, named, decoded, ran, answered, labelled, audited, released;
	atomic_bool   late, had_backend, was_last;
	atomic_uint   asked_again;
	enum err_code outcome; /* the audit's */
	int64_t       ran_us;  /* the table's time */
};

static inline struct house *house_of(const struct call *c)
{
	return (struct house *)c->loop->api;
}

static inline enum err_code fail_at(const struct call *c, enum step step, struct err *err)
{
	if (house_of(c)->plan.fails_at != step)
		return ERR_NONE;
	return err_set(err, ERR_INVALID, "as the plan says");
}

static inline enum err_code probe_identify(struct call *c, struct err *err)
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

static inline enum err_code probe_foresee(struct call *c, struct err *err)
{
	return fail_at(c, FORESEE, err);
}

static inline enum err_code probe_name(struct call *c, struct json_reader *json, struct err *err)
{
	(void)json;
	atomic_fetch_add(&house_of(c)->named, 1);
	return fail_at(c, NAME, err);
}

static inline enum err_code probe_decode(struct call *c, struct json_reader *json, struct err *err)
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

static inline enum err_code probe_authorise(struct call *c, struct err *err)
{
	if (house_of(c)->plan.reads)
		assert_ptr_equal(call_reader(c)->backend, &scripted_table);
	return fail_at(c, AUTHORISE, err);
}

static inline enum err_code probe_run(struct call *c, struct table *t, struct err *err)
{
	struct house *h = house_of(c);

	atomic_fetch_add(&h->ran, 1);
	atomic_store(&h->had_backend, t->backend != NULL);
	h->ran_us = t->now_us;
	return fail_at(c, RUN, err);
}

static inline enum err_code probe_answer(struct call *c, enum err_code rc, struct err *err,
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

static inline struct call_label probe_label(const struct call *c)
{
	atomic_fetch_add(&house_of(c)->labelled, 1);
	return (struct call_label){0, BYTES("Probe")};
}

static inline void probe_audit(const struct call *c, enum err_code outcome, struct audit *audit)
{
	(void)audit;
	atomic_fetch_add(&house_of(c)->audited, 1);
	house_of(c)->outcome = outcome;
}

static inline void probe_release(struct call *c)
{
	atomic_fetch_add(&house_of(c)->released, 1);
}

static inline bool probe_again(struct call *c, enum err_code rc, bool last, int64_t *pause_us)
{
	struct house *h = house_of(c);

	assert_int_not_equal(rc, ERR_NONE);
	*pause_us = last ? 0 : h->plan.pause_us;
	atomic_store(&h->was_last, last);
	return atomic_fetch_add(&h->asked_again, 1) < h->plan.turns;
}

static const struct protocol probe = {.identify = probe_identify,
                                      .foresee = probe_foresee,
                                      .name = probe_name,
                                      .authorise = probe_authorise,
                                      .decode = probe_decode,
                                      .run = probe_run,
                                      .answer = probe_answer,
                                      .again = probe_again,
                                      .label = probe_label,
                                      .audit = probe_audit,
                                      .release = probe_release};

static inline void dummy_run(struct late_work *w, struct json_reader *json)
{
	(void)w;
	(void)json;
}

static inline void house_handle(void *ctx, struct http_request *r)
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

static inline void house_open(struct house *h)
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

static inline void house_close(struct house *h)
{
	http_server_close(h->http);
	assert_int_equal(atomic_load(&h->credentials.refs), 1);
	assert_int_equal(atomic_load(&h->store.sessions), 0);
	key_use_release(h->key.use);
	arena_release(&h->store.arena);
}

static inline void *house_stop(void *house)
{
	http_server_close(((struct house *)house)->http);
	return NULL;
}

/* ---- requests ---- */

static inline int dial(struct house *h)
{
	int                fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in to = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)http_server_port(h->http))};

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static inline void send_to(int fd, const char *headers, const char *body)
{
	char text[1024];
	int  len = snprintf(text, sizeof(text),
	                    "POST / HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n%s", headers,
	                    strlen(body), body);

	assert_int_equal(send(fd, text, (size_t)len, MSG_NOSIGNAL), len);
}

/* One answer, whole; its status. */
static inline int receive(struct house *h, int fd)
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

static inline bool is_silent(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) < 0;
}

static inline int ask(struct house *h)
{
	int fd = dial(h), status;

	send_to(fd, "", "{}");
	status = receive(h, fd);
	close(fd);
	return status;
}

/* A write: the store has it, and nobody is answered; then it ends. */
static inline int ask_ending(struct house *h, enum ending how)
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
static inline void assert_once(struct house *h, enum err_code outcome)
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

#endif
