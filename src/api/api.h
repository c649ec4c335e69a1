/* API: what the server serves. It gives http/ a handler, which finds the route and answers: by a protocol and the dispatcher
 * (dispatch.h), or on the spot. */
#ifndef API_API_H
#define API_API_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/late.h"
#include "api/meter.h"
#include "base/buf.h"
#include "base/debt.h"
#include "base/hash.h"
#include "http/http.h"
#include "json/json.h"
#include "table/store.h"

enum { ARN_HOME_BYTES = 64 };

struct audit;
struct event_hub;
struct keyring;
struct services;
struct scraper;
struct verifier;

/* What an API is made of; set once. */
/* Of a file that is read again when it changes. */
struct file_health {
	bool     refused;  /* it is not in effect because of a mistake in it */
	uint64_t failures; /* how often it was read again in vain */
};

struct api_parts {
	struct store     *store;
	struct keyring   *keyring;    /* who may sign; NULL: no authentication */
	struct services  *services;   /* behind /v1 */
	struct verifier  *verifier;   /* of tokens; NULL: no token is valid */
	struct event_hub *events;     /* for those who follow the log of events; NULL: nobody can */
	struct scraper   *scraper;    /* renders the metrics: scraper_open sets it */
	struct audit     *audit;      /* NULL: nothing is audited */
	struct bytes      region;     /* of ARNs and signatures */
	struct bytes      host_names; /* besides loopback's, separated by commas (auth.h) */
	struct clock     *clock;
	/* also for /readyz: tables do not answer, and it goes on without, or it could not go on without them: then *why says why; NULL:
	 * never */
	bool (*degraded)(void *ctx, struct err *why);
	bool (*ready)(void *ctx); /* for /readyz: serving, not stopping, no failed flush */
	struct file_health (*identity_health)(void *ctx); /* of the identity file, if there is a verifier */
	void           *ready_ctx;                        /* of both */
	struct hash_key seed;                             /* random, for request ids */
	bool            log_requests;                     /* all of them; else only failures of ours */
	bool            metrics_open;                     /* /metrics answers: it needs no signature */
	unsigned        metrics_ms; /* the text of /metrics is made at most once in this time; 0: SCRAPE_MS */
	bool            tables_elsewhere; /* at a DynamoDB endpoint: DynamoDB's protocol is refused here */
	bool            restarted;        /* by itself, after a failed flush: for the metrics */
};

struct api {
	struct api_parts parts;
	int64_t          started_us;               /* wall clock */
	char             arn_home[ARN_HOME_BYTES]; /* what ARNs of tables begin with */
	atomic_uint      loop_count;               /* loops opened so far: makes their seeds differ */
	struct meter     meter;

	/* Every two loops share a late thread, so that half of the cores is left to callers who are not in debt. */
	pthread_mutex_t late_lock;
	struct {
		struct late *late;
		unsigned     loops;
	} shared[LATE_THREADS_MAX]; /* under late_lock */

	struct metric_counter refused_connections, refused_requests; /* at a key's limit: auth.c */

	_Atomic(const struct http_server *) http; /* NULL until api_watch */
};

void api_init(struct api *api, const struct api_parts *parts);

/* Tells the metrics which server's connections to count, once it is open. */
void api_watch(struct api *api, const struct http_server *http);

/* The handler for http_server_open; the api must outlive the server. */
struct http_handler api_handler(struct api *api);

/* ---- what each loop thread has of its own: a JSON reader, a buffer for answers, a source of request ids ---- */

enum {
	REQUEST_ID_LENGTH = 52,
	ANSWER_KEEP_BYTES_MAX = 256 * 1024, /* a longer answer's buffer is given back */
};

struct sigv4_key_cache;

struct api_loop {
	struct api             *api;
	struct json_reader     *json;
	struct sigv4_key_cache *signatures;
	struct buf              answer; /* of the request being answered; reused */
	struct debts            debts;  /* of callers whose requests were heavy */
	struct late        *late; /* where the work for these is done, shared with another loop; NULL: here */
	unsigned            number;   /* of the loop */
	struct meter_shard *meter;    /* in the api; shared with other loops if there are many */
	uint64_t            id_state; /* moves with each request id, through all 2^64 values */
	uint64_t            id_fixed; /* differs from loop to loop */
};

/* Like DynamoDB's: 52 digits and capitals, never twice from one process. */
void api_loop_request_id(struct api_loop *l, char id[REQUEST_ID_LENGTH]);

/* An empty buffer for the next answer. */
struct buf *api_loop_answer(struct api_loop *l);

/* ---- problems: errors outside DynamoDB's protocol, as application/problem+json (RFC 9457) ---- */

#define PROBLEM_CONTENT_TYPE "application/problem+json"

/* {"type": "urn:gatehouse:problem:…", "title": …, "status": …, "detail": …, "field": …}. What belongs to a code is in
 * base/err.h; docs/errors.md says what a program does about each. */
void problem_write_err(struct buf *out, enum err_code code, const struct err *err);

/* What the HTTP server refuses before there is a request; its statuses are its own. */
void problem_write_http(struct buf *out, int status, const char *detail);

void problem_answer(struct api_loop *l, struct http_request *r, enum err_code code, const char *detail);

/* 405, with the methods that the path has. */
void problem_answer_method(struct api_loop *l, struct http_request *r, const char *allowed);

/* ---- routes: which path and method is answered by what, but for /v1 (v1_routes.h). For the test that says every one is
 * covered ---- */

struct route {
	enum http_method method;
	struct bytes     path;
	void (*handle)(struct api_loop *l, struct http_request *r);
};

/* In the order of the table; NULL past its end. */
const struct route *route_at(unsigned index);

#endif
