/* Serve: the composition root: the one place that picks a backend and puts the parts together. */
#ifndef SERVER_SERVE_H
#define SERVER_SERVE_H

#include "base/err.h"
#include "api/event_hub.h"
#include "api/scraper.h"
#include "service/consumer.h"
#include "service/tables.h"
#include "service/target.h"

struct serve_options {
	const char *listen; /* "127.0.0.1:8420"; port 0 picks a free one */
	const char *data;
	const char *engine;              /* "embedded", or "dynamodb": tables at an endpoint (endpoint.h) */
	const char *table_prefix;        /* dynamodb: of every table's name there; NULL: none */
	uint64_t    workers;             /* dynamodb: threads that wait for the endpoint */
	uint64_t    endpoint_attempt_ms; /* dynamodb: one try of a request there */
	uint64_t    endpoint_call_ms;    /* dynamodb: all requests that one call waits for */
	uint64_t    processes;           /* dynamodb: that are expected to share the tables */
	uint64_t known_mb, spool_mb; /* dynamodb: for an outage: what was last known, attempts to be merged */
	uint64_t denied_ms;          /* dynamodb: how long it is remembered that a subject is locked */
	uint64_t token_known_s;      /* dynamodb: how old what is known of a token's subject may be */
	const char *
	        create_tables; /* "on-demand", when first written to; "now", at the start; dynamodb: or "never" */
	const char *region; /* in ARNs; what signatures must be for */
	bool        no_auth;
	const char *host_names; /* without authentication: api/auth.h; NULL: loopback's */
	const char *tls_cert;   /* PEM files, read again on SIGHUP; NULL: no TLS */
	const char *tls_key;
	const char *tls_client_ca; /* peers must show a certificate of this CA; NULL: they need none */
	bool        plain_http;    /* without TLS on other addresses than loopback */
	bool        log_requests;  /* a line for each request; else only for those that fail by our fault */
	bool        open_metrics;  /* /metrics, unsigned, on other addresses than loopback */
	const char *identity;      /* a YAML file (identity.h); NULL: none */
	const char *policies;      /* a YAML file; NULL: those that were PUT, or those that ship */
	bool        restarted;     /* the process started itself again, after a failed flush */
	uint64_t    loops;         /* 0: one a core */
	uint64_t    cache_mb;      /* 0: a quarter of what there is */
	uint64_t    queue_mb;
	uint64_t    expression_mb;       /* what the expressions of one request may examine */
	bool        accept_clock;        /* however far it is from the last commit */
	uint64_t    clock_jump_max_days; /* farther is refused */
	uint64_t    limits_mb;           /* what the memory engine of limits may hold */
	const char *sole_writer_region;  /* dynamodb: where alone global tables are written; NULL: not set */
	uint64_t event_shards;  /* dynamodb: of a log of events that is still to begin; 0: EVENT_SHARDS_NEW */
	uint64_t hot_key_units; /* per second, of one key: from there on the log warns */
	const char *email_claims; /* "added" or "verified": when an address is taken */
	uint64_t    targets_per_key, consumers_per_key, followers_per_key; /* what one key may have */
	uint64_t    metrics_ms;      /* the text of /metrics is made at most once in this time */
	bool        private_targets; /* events may be delivered to this machine and this network */
	const char *
	        targets_ca; /* a PEM file: whom targets' certificates are checked against; NULL: the system's */
	bool    device_index;                    /* registered devices by platform */
	uint64_t    device_shards;               /* of that index */
	const char *tables[SERVICE_TABLE_COUNT]; /* what services call theirs, each a name (schema_name_is) */
};

struct serve_options serve_options_default(void);

bool serve_is_loopback(const struct serve_options *options);
bool serve_is_remote(const struct serve_options *options); /* tables are at an endpoint */

/* Can it be served with these together, and are the files of policies and of identity good? Opens nothing else. ERR_INVALID or
 * ERR_SERIALIZATION: no, and why not. */
enum err_code serve_check(const struct serve_options *options, struct err *err);

/* How it ended. */
struct serve_end {
	bool restart; /* after a failed flush: the caller starts the program anew, from what is on the disk */
	unsigned port; /* where it listened: it goes on there, also if it had picked a free one */
};

/* Serves until a SIGTERM or SIGINT, then stops gracefully. ERR_STORAGE after a failed flush, with
 * end->restart set. SIGHUP reads the certificate again. */
enum err_code serve(const struct serve_options *options, struct serve_end *end, struct err *err);

#endif
