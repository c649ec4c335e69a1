/* Outbound: see outbound.h. */
#include "outbound/outbound.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

#include "base/date.h"
#include "base/log.h"
#include "outbound/transport.h"

struct outbound {
	/* set once */
	struct outbound_options options;
	char                   *name, *url, *ca_file, *proxy, *no_proxy;
	struct bytes            host; /* in url */
	struct transport      **all;  /* calls_max; those that were opened come first */
	struct transport      **idle; /* a stack: the latest is the warmest */
	/* shared under lock */
	pthread_mutex_t         lock;
	pthread_cond_t          changed; /* a place is free, or all must stop */
	uint32_t                opened, idle_count, waiting;
	struct circuit          circuit;
	struct retry_quota      quota;
	uint64_t                random; /* of the pauses: it needs no secrecy */
	bool                    stopping;
	struct outbound_numbers numbers;
};

/* One call on its way. */
struct call {
	struct outbound               *o;
	const struct outbound_request *r;
	struct arena                  *arena;
	struct outbound_response      *out;
	struct transport              *transport;
	enum retry_kind                last; /* of the retry before this try; RETRY_NEVER: there was none */
	bool                           sent; /* something reached the target, in any try */
};

static int64_t now_us(const struct outbound *o)
{
	return clock_steady_us(o->options.clock);
}

/* ---- waiting: for a place, or for the next try ---- */

/* Until something changes or the time is up. Under lock. */
static void wait_us(struct outbound *o, int64_t us)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += us / 1000000;
	until.tv_nsec += (us % 1000000) * 1000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_cond_timedwait(&o->changed, &o->lock, &until);
}

/* Waits until then unless all must stop; true if the time has come. Under lock. */
static bool pause_until(struct outbound *o, int64_t until_us)
{
	int64_t left = until_us - now_us(o);

	for (; left > 0 && !o->stopping; left = until_us - now_us(o))
		wait_us(o, left);
	return !o->stopping;
}

static enum err_code refuse(struct outbound *o, struct err *err, const char *why)
{
	o->numbers.refused++;
	return err_set(err, ERR_OVERLOADED, "%s: %s", o->name, why);
}

/* Under lock. A place is a transport; no more than calls_max are ever opened. */
static enum err_code place_take(struct call *c, struct err *err)
{
	struct outbound *o = c->o;

	if (o->idle_count == 0 && o->opened == o->options.calls_max && o->waiting == o->options.waits_max)
		return refuse(o, err, "too many calls are waiting");
	o->waiting++;
	while (o->idle_count == 0 && o->opened == o->options.calls_max && !o->stopping &&
	       now_us(o) < c->r->deadline_us)
		wait_us(o, c->r->deadline_us - now_us(o));
	o->waiting--;
	if (o->stopping)
		return refuse(o, err, "calls are being stopped");
	if (o->idle_count > 0)
		c->transport = o->idle[--o->idle_count];
	else if (o->opened < o->options.calls_max)
		c->transport = o->all[o->opened++] = transport_open(&o->options);
	else
		return refuse(o, err, "no connection became free in time");
	return ERR_NONE;
}

static void place_give(struct outbound *o, struct transport *t)
{
	o->idle[o->idle_count++] = t;
	pthread_cond_broadcast(&o->changed); /* whoever pauses wakes too, and goes on pausing */
}

/* ---- one try ---- */

static struct transport_try try_once(struct call *c, const struct outbound_request *r)
{
	int64_t left = c->r->deadline_us - now_us(c->o);
	int64_t bound = left < c->o->options.attempt_us ? left : c->o->options.attempt_us;

	return transport_perform(c->transport, r, bound, c->arena, c->out);
}

static enum retry_kind kind_of(const struct call *c, const struct transport_try *end)
{
	const struct outbound_request *r = c->r;

	if (end->end != TRANSPORT_ANSWERED)
		return end->hopeless ? RETRY_NEVER : RETRY_TRANSIENT;
	return r->classify != NULL ? r->classify(r->ctx, c->out) : retry_kind_of_status(c->out->status);
}

/* (3) */
static bool may_repeat(const struct call *c, const struct transport_try *end)
{
	if (c->r->repeatable || end->end == TRANSPORT_UNSENT)
		return true;
	return end->end == TRANSPORT_ANSWERED && (c->out->status == 429 || c->out->status == 503);
}

int64_t outbound_wait_s(const struct outbound_response *r)
{
	struct bytes text = outbound_header_get(r, "retry-after");
	uint64_t     wait_s = 0;
	int64_t      until_s, now_s;

	if (date_read_http(text, &until_s)) {
		if (date_read_http(outbound_header_get(r, "date"), &now_s) && until_s > now_s)
			wait_s = (uint64_t)(until_s - now_s);
	} else if (!bytes_to_u64(text, UINT64_MAX, &wait_s)) {
		return 0;
	}
	return wait_s < OUTBOUND_WAIT_S_MAX ? (int64_t)wait_s : OUTBOUND_WAIT_S_MAX;
}

/* x-amz-retry-after in milliseconds, or Retry-After; 0: neither. */
static int64_t hint_of(const struct outbound_response *r)
{
	uint64_t value;

	if (bytes_to_u64(outbound_header_get(r, "x-amz-retry-after"), OUTBOUND_WAIT_S_MAX * 1000, &value))
		return (int64_t)value * 1000;
	return outbound_wait_s(r) * 1000000;
}

/* xorshift64* */
static uint64_t random_next(struct outbound *o)
{
	o->random ^= o->random >> 12;
	o->random ^= o->random << 25;
	o->random ^= o->random >> 27;
	return o->random * 0x2545f4914f6cdd1d;
}

/* Pauses, if there is to be another try; false if there is none. Under lock. */
static bool pause_before_next(struct call *c, enum retry_kind kind, const struct transport_try *end)
{
	struct outbound            *o = c->o;
	const struct retry_profile *p = o->options.retry;
	int64_t                     hint = end->end == TRANSPORT_ANSWERED ? hint_of(c->out) : 0, until_us;

	if (kind == RETRY_NEVER || c->out->tries >= p->attempts_max || !may_repeat(c, end))
		return false;
	until_us = now_us(o) + retry_delay_us(p, kind, c->out->tries, random_next(o), hint);
	if (until_us >= c->r->deadline_us || !retry_quota_take(&o->quota, p, kind))
		return false;
	c->last = kind;
	return pause_until(o, until_us);
}

/* A target that answers is alive, also when it says that it is busy; one that fails in itself (5xx) is not. */
static bool is_good(const struct call *c, const struct transport_try *end)
{
	return end->end == TRANSPORT_ANSWERED && c->out->status < 500;
}

/* why: of a try that was not good. */
static void circuit_tell(struct outbound *o, bool good, const char *why)
{
	enum circuit_state before = o->circuit.state;

	circuit_note(&o->circuit, good, now_us(o));
	if (before == CIRCUIT_CLOSED && o->circuit.state == CIRCUIT_OPEN)
		log_warn("%s does not answer (%s): no calls for %lld ms", o->name, why,
		         (long long)(o->circuit.pause_us / 1000));
	else if (before != CIRCUIT_CLOSED && o->circuit.state == CIRCUIT_CLOSED)
		log_info("%s answers again", o->name);
}

/* ---- a call ---- */

static uint64_t random_number(void)
{
	uint64_t number = 0;

	while (number == 0 && getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		continue;
	return number | 1;
}

/* Not part of what is signed: a proxy may put its own span there. */
static void trace_add(struct outbound_request *r, struct arena *a)
{
	if (r->trace.len == OUTBOUND_TRACE_CHARS)
		outbound_header_add(
		        r, BYTES("traceparent"),
		        arena_printf(a, "00-%.*s-%016" PRIx64 "-01", BYTES_ARG(r->trace), random_number()));
}

/* Under lock, but for the try itself. */
static enum err_code attempt(struct call *c, struct transport_try *end, struct err *err)
{
	struct outbound        *o = c->o;
	struct outbound_request r = *c->r;
	int64_t                 pause_us;
	char                    status[sizeof("status 2147483647")];

	if (now_us(o) >= c->r->deadline_us)
		return refuse(o, err, "the deadline has passed");
	if (!circuit_admits(&o->circuit, now_us(o), &pause_us))
		return refuse(o, err, "it did not answer recently, and is not called again yet");
	c->out->tries++;
	o->numbers.tries++;
	pthread_mutex_unlock(&o->lock);
	if (r.prepare != NULL && r.prepare(r.ctx, &r, c->out->tries, c->arena, err) != ERR_NONE) {
		pthread_mutex_lock(&o->lock);
		circuit_tell(o, true, ""); /* the target is not to blame */
		return err->code;
	}
	trace_add(&r, c->arena);
	*end = try_once(c, &r);
	pthread_mutex_lock(&o->lock);
	c->sent |= end->end != TRANSPORT_UNSENT;
	if (end->end == TRANSPORT_ANSWERED)
		snprintf(status, sizeof(status), "status %d", c->out->status);
	circuit_tell(o, is_good(c, end), end->end == TRANSPORT_ANSWERED ? status : end->why);
	return ERR_NONE;
}

static enum err_code call_end(struct call *c, const struct transport_try *end, enum retry_kind kind,
                              struct err *err)
{
	struct outbound *o = c->o;

	if (end->end == TRANSPORT_ANSWERED) {
		if (kind == RETRY_NEVER)
			retry_quota_refund(&o->quota, o->options.retry, c->last);
		return ERR_NONE;
	}
	o->numbers.failures++;
	return c->sent ? err_set(err, ERR_STORAGE, "%s: the outcome is unknown: %s", o->name, end->why)
	               : err_set(err, ERR_OVERLOADED, "%s: %s", o->name, end->why);
}

/* Before the next try: may this one have been done? 503 says that it was not. */
static bool note_unsure(struct call *c, const struct transport_try *end)
{
	int status = c->out->status;

	c->out->unsure |= end->end == TRANSPORT_LOST ||
	                  (end->end == TRANSPORT_ANSWERED && status >= 500 && status != 503);
	return true;
}

/* Under lock. A later try that is refused here does not undo an earlier one that was sent. */
static enum err_code call_run(struct call *c, struct err *err)
{
	struct transport_try end = {0};
	enum retry_kind      kind;
	enum err_code        rc;

	do {
		rc = attempt(c, &end, err);
		if (rc != ERR_NONE)
			return c->sent ? err_set(err, ERR_STORAGE, "%s: the outcome is unknown", c->o->name)
			               : rc;
		kind = kind_of(c, &end);
	} while (pause_before_next(c, kind, &end) && note_unsure(c, &end));
	return call_end(c, &end, kind, err);
}

enum err_code outbound_call(struct outbound *o, const struct outbound_request *r, struct arena *a,
                            struct outbound_response *out, struct err *err)
{
	struct call   c = {.o = o, .r = r, .arena = a, .out = out, .last = RETRY_NEVER};
	enum err_code rc;

	*out = (struct outbound_response){0};
	pthread_mutex_lock(&o->lock);
	o->numbers.calls++;
	rc = place_take(&c, err);
	if (rc == ERR_NONE) {
		rc = call_run(&c, err);
		place_give(o, c.transport);
	}
	pthread_mutex_unlock(&o->lock);
	return rc;
}

/* ---- headers ---- */

struct bytes outbound_header_get(const struct outbound_response *r, const char *name)
{
	size_t len = strlen(name);

	for (uint32_t i = 0; i < r->header_count; i++)
		if (r->headers[i].name.len == len && strncasecmp(r->headers[i].name.data, name, len) == 0)
			return r->headers[i].value;
	return (struct bytes){NULL, 0};
}

bool outbound_header_add(struct outbound_request *r, struct bytes name, struct bytes value)
{
	if (r->header_count == OUTBOUND_HEADERS_MAX)
		return false;
	r->headers[r->header_count++] = (struct outbound_header){name, value};
	return true;
}

/* ---- life ---- */

static char *copy_of(const char *text)
{
	size_t len = text == NULL ? 0 : strlen(text) + 1;

	return text == NULL ? NULL : memcpy(mem_alloc(len), text, len);
}

enum err_code outbound_open(const struct outbound_options *options, struct outbound **out, struct err *err)
{
	struct outbound   *o;
	pthread_condattr_t steady;
	struct bytes       host;

	assert(options->calls_max > 0 && options->calls_max <= OUTBOUND_CALLS_MAX);
	if (!transport_url_is(options->url, &host))
		return err_set(err, ERR_INVALID, "%s: not a URL like https://host or http://host:port",
		               options->name); /* without it: it may hold a password */
	o = mem_zalloc(sizeof(*o));
	o->options = *options;
	o->name = copy_of(options->name);
	o->url = copy_of(options->url);
	o->ca_file = copy_of(options->ca_file);
	o->options.name = o->name;
	o->options.url = o->url;
	o->options.ca_file = o->ca_file;
	o->options.proxy = o->proxy = copy_of(options->proxy);
	o->options.no_proxy = o->no_proxy = copy_of(options->no_proxy);
	if (o->options.retry == NULL)
		o->options.retry = &retry_aws;
	transport_url_is(o->url, &o->host);
	o->all = mem_zalloc(options->calls_max * sizeof(struct transport *));
	o->idle = mem_zalloc(options->calls_max * sizeof(struct transport *));
	o->random = random_number();
	pthread_mutex_init(&o->lock, NULL);
	pthread_condattr_init(&steady);
	pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
	pthread_cond_init(&o->changed, &steady);
	pthread_condattr_destroy(&steady);
	circuit_init(&o->circuit, options->circuit);
	retry_quota_init(&o->quota, o->options.retry);
	*out = o;
	return ERR_NONE;
}

void outbound_stop(struct outbound *o)
{
	pthread_mutex_lock(&o->lock);
	o->stopping = true;
	for (uint32_t i = 0; i < o->opened; i++)
		transport_cancel(o->all[i]);
	pthread_cond_broadcast(&o->changed);
	pthread_mutex_unlock(&o->lock);
}

void outbound_close(struct outbound *o)
{
	assert(o->idle_count == o->opened && o->waiting == 0);
	for (uint32_t i = 0; i < o->opened; i++)
		transport_close(o->all[i]);
	pthread_cond_destroy(&o->changed);
	pthread_mutex_destroy(&o->lock);
	free(o->all);
	free(o->idle);
	free(o->name);
	free(o->url);
	free(o->ca_file);
	free(o->proxy);
	free(o->no_proxy);
	free(o);
}

bool outbound_url_is(const char *url)
{
	struct bytes host;

	return transport_url_is(url, &host);
}

struct bytes outbound_host(const struct outbound *o)
{
	return o->host;
}

uint32_t outbound_tries_max(const struct outbound *o)
{
	return o->options.retry->attempts_max;
}

struct outbound_numbers outbound_read(struct outbound *o)
{
	struct outbound_numbers n;

	pthread_mutex_lock(&o->lock);
	n = o->numbers;
	n.circuit_opened = o->circuit.opened;
	n.circuit_closed = o->circuit.state == CIRCUIT_CLOSED;
	n.busy = o->opened - o->idle_count;
	n.waiting = o->waiting;
	pthread_mutex_unlock(&o->lock);
	return n;
}

bool outbound_out(struct outbound *o)
{
	bool out;

	pthread_mutex_lock(&o->lock);
	out = circuit_refuses(&o->circuit, now_us(o));
	pthread_mutex_unlock(&o->lock);
	return out;
}
