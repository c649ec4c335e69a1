/* Outbound: calls to services elsewhere, over HTTPS. A target is one service at one address: DynamoDB, an issuer of
 * tokens, a webhook's receiver. All of them share this code: deadlines, second tries, a circuit, a bound on calls
 * at once.
 *
 *   outbound_call ->  a place (calls_max, waits_max)  ->  circuit  ->  prepare (sign)  ->  transport (one try)
 *                        ^                                                                    |
 *                        '---------- pause (retry.h), if the kind of failure allows it <------'
 *
 * What always holds
 * (1) No call lasts longer than its deadline, whatever the peer, the resolver or the queue does (if
 *     the resolver does not answer, the connection's time-out ends the call).
 * (2) ERR_OVERLOADED means that nothing reached the target: the caller may try again. ERR_STORAGE means that something
 *     did, and that no answer came back: the outcome is unknown. Any answer, whatever its status, is a result.
 * (3) What is not safe to repeat is sent again only if nothing of it was sent before, or if the target itself
 *     refused it as too much (429, 503).
 * (4) An answer is bounded in head and body (it fails past that, or is cut off there: body_cut), redirects are not followed, certificates are verified, and only http
 *     and https are spoken. Unless allowed, private, loopback and link-local addresses are refused after the name was resolved, so
 *     that a name cannot point back inside.
 * (5) After outbound_stop every call returns at once, and no new one starts.
 *
 * Threads: any number may call one target; the calling thread does the work. An answer lives in the caller's arena.
 * No error text holds a header's value or a body. */
#ifndef OUTBOUND_OUTBOUND_H
#define OUTBOUND_OUTBOUND_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/metric.h"
#include "outbound/retry.h"

enum {
	OUTBOUND_CALLS_MAX = 1024, /* at once, to one target: as many connections */
	OUTBOUND_HEADERS_MAX = 32, /* of a request */
	OUTBOUND_ANSWER_HEADERS_MAX = 64,
	OUTBOUND_ANSWER_HEAD_BYTES_MAX = 32 * 1024,
	OUTBOUND_URL_BYTES_MAX = 2048,
	OUTBOUND_TRACE_CHARS = 32,
	OUTBOUND_WAIT_S_MAX = 3600, /* of what an answer may ask for */
};

struct outbound_options {
	const char *name;     /* for logs, metrics and error texts: "dynamodb" */
	const char *url;      /* scheme, host and port: "https://example.org:8443" */
	const char *ca_file;  /* NULL: the system's */
	const char *proxy;    /* through which https goes out; NULL: none, whatever the environment says */
	const char *no_proxy; /* hosts that are called without it, as curl has them; NULL: none */
	bool        allow_private;  /* (4) */
	uint32_t    calls_max;      /* at once */
	uint32_t    waits_max;      /* calls that wait for a place; further ones are refused */
	int64_t     connect_us;     /* a connection, with TLS */
	int64_t     attempt_us;     /* one try */
	size_t      body_bytes_max; /* of an answer */
	bool        body_cut; /* a longer body is cut off there, with its connection: the status is the answer. Else the call fails */
	const struct retry_profile *retry; /* NULL: retry_aws */
	struct circuit_limits       circuit;
	struct clock               *clock;
};

struct outbound_header {
	struct bytes name, value;
};

struct outbound_response {
	int                    status;
	struct outbound_header headers[OUTBOUND_ANSWER_HEADERS_MAX];
	uint32_t               header_count;
	struct bytes           body;
	uint32_t               tries; /* how often it was sent */
	/* An earlier try got no answer, or one (5xx) after which nobody knows. An answer that says "not now" does not undo it. */
	bool unsure;
};

struct outbound_request {
	struct bytes           method; /* "POST" */
	struct bytes           path;   /* with its query: "/" */
	struct outbound_header headers[OUTBOUND_HEADERS_MAX];
	uint32_t               header_count;
	struct bytes           body;
	bool                   repeatable;  /* (3): doing it twice is doing it once */
	int64_t                deadline_us; /* (1), in steady time */
	/* The trace id of whoever caused the call, 32 digits: each try carries it on, with a span of its own, in `traceparent` (W3C). Empty:
	 * nobody's. */
	struct bytes trace;

	/* Both may be NULL. `prepare` runs before each try on a copy of the request and adds what depends on the time or the try:
	 * a date, a signature. `classify` says what an answer means for another try, where its status does not say enough. */
	enum err_code (*prepare)(void *ctx, struct outbound_request *r, uint32_t tried, struct arena *a,
	                         struct err *err);
	enum retry_kind (*classify)(void *ctx, const struct outbound_response *r);
	void *ctx;
};

struct outbound;

/* ERR_INVALID: the URL is not one of a service. Nothing is connected yet. */
enum err_code outbound_open(const struct outbound_options *options, struct outbound **out, struct err *err);

/* (5). The calls themselves may still be on their way out. */
void outbound_stop(struct outbound *o);

/* Nobody may be in a call. */
void outbound_close(struct outbound *o);

/* Can it be called: scheme, host and port, and nothing else? */
bool outbound_url_is(const char *url);

/* "example.org:8443", as the Host header has it. */
struct bytes outbound_host(const struct outbound *o);

/* How often a call is sent at most. */
uint32_t outbound_tries_max(const struct outbound *o);

enum err_code outbound_call(struct outbound *o, const struct outbound_request *r, struct arena *a,
                            struct outbound_response *out, struct err *err);

/* NULL data if there is none; names in any case. */
struct bytes outbound_header_get(const struct outbound_response *r, const char *name);

/* How many seconds an answer asks to be left alone, OUTBOUND_WAIT_S_MAX at most: Retry-After, which is a number or a date, and a date is compared with
 * the answer's own. 0: it does not ask. */
int64_t outbound_wait_s(const struct outbound_response *r);

/* False if there is no room. */
bool outbound_header_add(struct outbound_request *r, struct bytes name, struct bytes value);

struct outbound_numbers {
	uint64_t calls, tries, failures,
	        refused; /* failures: calls without an answer; refused: without a try */
	uint64_t circuit_opened;
	bool     circuit_closed; /* calls go through */
	uint32_t busy, waiting;
};

struct outbound_numbers outbound_read(struct outbound *o);

/* Would a call be refused now, because the circuit is open? False once its pause is over: that call is the probe. */
bool outbound_out(struct outbound *o);

#endif
