/* Serve: opens the engine and the HTTP server, waits for a signal, closes them in the other order. */
#define _GNU_SOURCE
#include "server/serve.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "access/credential.h"
#include "api/api.h"
#include "api/event_hub.h"
#include "api/scraper.h"
#include "base/audit.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/version.h"
#include "base/worker.h"
#include "engine/engine.h"
#include "http/http.h"
#include "server/code_sender.h"
#include "server/delivery.h"
#include "server/event_trim.h"
#include "server/lock_expiry.h"
#include "server/merger.h"
#include "server/endpoint.h"
#include "server/identity.h"
#include "server/jobs.h"
#include "server/notify.h"
#include "server/policy_follow.h"
#include "server/pools.h"
#include "server/push.h"
#include "server/services.h"
#include "server/sign_outs.h"
#include "service/push_device.h"
#include "token/verifier.h"

#define TEST_CLOCK "GATEHOUSE_TEST_CLOCK"

enum { POLICY_LOOK_S = 1, CACHE_SHARE = 4, CACHE_BYTES_MIN = 16 << 20 };

struct server {
	struct clock            *clock;
	struct audit            *audit;
	struct push_settings     devices; /* for the engine: what completes rows of devices */
	struct engine           *engine;  /* one of the two; the other is NULL */
	struct endpoint         *endpoint;
	struct store            *store;   /* its: what all else knows of it */
	struct keyring          *keyring; /* NULL: no authentication */
	struct server_services   services;
	struct merger           *merger; /* NULL: tables are here */
	struct verifier         *verifier;
	struct identity         *identity;
	struct code_sender      *codes;
	struct jobs             *jobs;
	struct pools            *pools;
	struct event_hub        *events;
	struct scraper          *scraper;
	struct push             *push;
	struct sign_outs_worker *sign_outs;
	struct delivery         *delivery;
	struct lock_expiry      *expiry;
	struct event_trimmer    *trimmer;
	struct policy_follower  *follower;
	struct api               api;
	struct http_tls         *tls; /* NULL: plain HTTP */
	struct http_server      *http;
	atomic_bool              stopping;
	atomic_bool              failed;
	pthread_t                main_thread;
	struct notify            notify;
	/* under lock */
	pthread_mutex_t lock;
	bool            serving; /* engine and http are open, and may be asked how they are */
};

/* ---- signals: the main thread waits for them, all others never see them ---- */

static sigset_t awaited_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	return set;
}

/* Before any thread starts. A peer that is gone is an error code, not a signal. */
static void signals_prepare(void)
{
	sigset_t set = awaited_signals();

	signal(SIGPIPE, SIG_IGN);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* ---- what the audit log is told: see docs/operations.md ---- */

static void audit_server(struct server *s, const char *what, const char *name, const char *value)
{
	struct log_field fields[] = {{.name = "version", .text = BYTES(GATEHOUSE_VERSION)},
	                             {.name = name, .text = bytes_of(value)}};

	audit_write(s->audit, what, fields, name == NULL ? 1 : 2);
}

static void audit_first_key(struct server *s)
{
	const struct credentials *keys = keyring_acquire(s->keyring);
	struct log_field          fields[] = {{.name = "key_id", .text = keys->list[0].id},
	                                      {.name = "key_name", .text = keys->list[0].name}};

	audit_write(s->audit, "key.create", fields, 2);
	credentials_release(keys);
}

/* Connections keep the certificate they have; new ones get the new, or the old if the files are not good. */
static void certificates_reload(struct server *s)
{
	struct err err;
	bool       good;

	if (s->tls == NULL) {
		log_info("SIGHUP: TLS is off, so there is no certificate to reload");
		return;
	}
	good = http_tls_reload(s->tls, &err) == ERR_NONE;
	if (good)
		log_info("SIGHUP: reloaded the certificate");
	else
		log_error("SIGHUP: the old certificate stays in use: %s", err.text);
	audit_server(s, "certificate.reload", "outcome", good ? "ok" : "failed");
}

/* Returns when it is time to stop. Meanwhile, looks whether the policy file, the device keys or the identity file changed. */
static void signals_wait(struct server *s)
{
	struct timespec look = {.tv_sec = POLICY_LOOK_S};
	sigset_t        set = awaited_signals();
	int             which;

	for (;;) {
		which = sigtimedwait(&set, NULL, &look);
		services_refresh(&s->services, s->store);
		identity_refresh(s->identity);
		if (which == SIGHUP)
			certificates_reload(s);
		else if (which > 0)
			return;
	}
}

/* ---- the parts ---- */

/* From a thread of the engine's, which is to start anew: wakes the main thread, which stops the server. */
static void on_failure(void *ctx)
{
	struct server *s = ctx;

	atomic_store(&s->failed, true);
	pthread_kill(s->main_thread, SIGTERM);
}

/* The endpoint does not answer, and attempts are recorded here; or it does, and they could not be. */
static bool is_degraded(void *ctx, struct err *why)
{
	struct server *s = ctx;

	return s->merger != NULL && (!merger_ready(s->merger, why) || !s->store->backend->ready(s->store));
}

static bool is_ready(void *ctx)
{
	struct server *s = ctx;
	struct err     why;

	return !atomic_load(&s->stopping) &&
	       (s->store->backend->ready(s->store) || (s->merger != NULL && merger_ready(s->merger, &why)));
}

static struct file_health identity_is(void *ctx)
{
	const struct server   *s = ctx;
	struct identity_health health = identity_health(s->identity);

	return (struct file_health){health.refused, health.failures};
}

static void set_serving(struct server *s, bool serving)
{
	pthread_mutex_lock(&s->lock);
	s->serving = serving;
	pthread_mutex_unlock(&s->lock);
}

/* For the watchdog, twice in its time: no flush failed, and every loop and every vital worker made progress since it was
 * asked last. Not is_ready: a full disk must not have the process killed, it still reads and recovers by
 * itself. While it starts or stops, which may take long, there is nothing to ask. */
static bool is_alive(void *ctx)
{
	struct server *s = ctx;
	bool           alive = true;

	pthread_mutex_lock(&s->lock);
	if (s->serving) {
		bool loops = http_server_beats(s->http);

		if (!loops)
			log_error("a loop hangs: the watchdog gets no sign of life");
		alive = workers_beat() && loops;
	}
	pthread_mutex_unlock(&s->lock);
	return alive && !atomic_load(&s->failed);
}

/* A test may move the clock of a real server (tests/README.md). Nobody is to find out by accident what that does to data: it needs a
 * file that says what it is for, a server that only this machine reaches, and is said in the log. */
static enum err_code open_clock(struct server *s, const struct serve_options *options, struct err *err)
{
	const char *path = getenv(TEST_CLOCK);

	s->clock = clock_system();
	if (path == NULL)
		return ERR_NONE;
	if (!serve_is_loopback(options))
		return err_set(err, ERR_INVALID,
		               TEST_CLOCK
		               " is set, which is for tests: it is refused on %s, which is not loopback",
		               options->listen);
	if (clock_file_open(&s->clock, path, err) != ERR_NONE)
		return err->code;
	log_warn(TEST_CLOCK
	         " is set: this server's time is what %s says, and its data is good for tests only",
	         path);
	return ERR_NONE;
}

/* Unless it was set: a share of what there is. */
static size_t cache_bytes(const struct serve_options *options)
{
	uint64_t bytes = options->cache_mb << 20;

	if (bytes == 0) {
		bytes = memory_limit(&(struct memory_site){"/proc", "/sys/fs/cgroup"}) / CACHE_SHARE;
		bytes = bytes < CACHE_BYTES_MIN ? CACHE_BYTES_MIN : bytes;
		log_info("caches may take %llu MB", (unsigned long long)(bytes >> 20));
	}
	return (size_t)bytes;
}

static enum err_code open_engine(struct server *s, const struct serve_options *options, struct err *err)
{
	struct engine_options engine = engine_options_default(options->data);

	memory_keep();
	engine_options_set_memory(&engine, cache_bytes(options));
	engine.queue_bytes_max = (size_t)options->queue_mb << 20;
	engine.expression_bytes_max = (size_t)options->expression_mb << 20;
	engine.clock = s->clock;
	engine.accept_clock = options->accept_clock;
	engine.clock_jump_max_us = (int64_t)options->clock_jump_max_days * 86400 * 1000000;
	engine.checks_absent = fault_fires(FAULT_CHECK);
	engine.on_failure = on_failure;
	engine.failure_ctx = s;
	s->devices = (struct push_settings){.shards = (uint32_t)options->device_shards};
	if (options->device_index)
		engine.completion = (struct engine_completion){bytes_of(options->tables[TABLE_DEVICES]),
		                                               push_row_complete, &s->devices};
	if (engine_open(&s->engine, &engine, err) != ERR_NONE)
		return err->code;
	s->store = engine_store(s->engine);
	return ERR_NONE;
}

static enum err_code open_store(struct server *s, const struct serve_options *options, struct err *err)
{
	if (!serve_is_remote(options))
		return open_engine(s, options, err);
	if (endpoint_open(&s->endpoint, options, s->clock, err) != ERR_NONE)
		return err->code;
	s->store = endpoint_store(s->endpoint);
	return ERR_NONE;
}

/* What the identity file says, at the start and after each change. */
static void identity_apply(void *ctx, void *made[IDENTITY_SECTION_COUNT])
{
	struct server    *s = ctx;
	struct providers *none = made[IDENTITY_PROVIDERS] == NULL ? document_make(sizeof(*none)) : NULL;

	atomic_store(&s->services.all.token_age_s, issuers_age_max_s(made[IDENTITY_ISSUERS]));
	verifier_put(s->verifier, made[IDENTITY_ISSUERS]);
	push_put(s->push, made[IDENTITY_PUSH]);
	document_put(&s->services.providers, none == NULL ? made[IDENTITY_PROVIDERS] : &none->base);
	code_sender_put(s->codes, made[IDENTITY_CODES]);
}

static enum err_code open_identity(struct server *s, const struct serve_options *options, struct err *err)
{
	struct push_options push = {.services = &s->services.all, .store = s->store};

	if (verifier_open(&s->verifier, s->clock, err) != ERR_NONE ||
	    push_open(&s->push, &push, err) != ERR_NONE)
		return err->code;
	s->codes = code_sender_open(s->clock);
	s->services.all.codes = code_sender_post(s->codes);
	return identity_open(&s->identity, options->identity, s->clock,
	                     (struct identity_target){identity_apply, s}, err);
}

static enum err_code open_tls(struct server *s, const struct serve_options *options, struct err *err)
{
	struct http_tls_files files = {options->tls_cert, options->tls_key, options->tls_client_ca};

	return options->tls_cert != NULL ? http_tls_open(&s->tls, &files, err) : ERR_NONE;
}

static enum err_code open_http(struct server *s, const struct serve_options *options, struct err *err)
{
	struct http_limits  limits = http_limits_default();
	struct http_handler handler;
	struct hash_key     seed;
	long                cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned loops = options->loops > 0 ? (unsigned)options->loops : cores > 0 ? (unsigned)cores : 1;

	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		return err_set(err, ERR_STORAGE, "cannot get random bytes from the system");
	api_init(&s->api,
	         &(struct api_parts){.store = s->store,
	                             .keyring = s->keyring,
	                             .services = &s->services.all,
	                             .verifier = s->verifier,
	                             .events = s->events,
	                             .audit = s->audit,
	                             .region = bytes_of(options->region),
	                             .host_names =
	                                     bytes_of(options->host_names == NULL ? "" : options->host_names),
	                             .clock = s->clock,
	                             .ready = is_ready,
	                             .degraded = is_degraded,
	                             .identity_health = identity_is,
	                             .ready_ctx = s,
	                             .seed = seed,
	                             .log_requests = options->log_requests,
	                             .tables_elsewhere = s->endpoint != NULL,
	                             .metrics_open = options->open_metrics || serve_is_loopback(options),
	                             .metrics_ms = (unsigned)options->metrics_ms,
	                             .restarted = options->restarted});
	if (scraper_open(&s->scraper, &s->api, err) != ERR_NONE)
		return err->code;
	handler = api_handler(&s->api);
	if (http_server_open(&s->http,
	                     &(struct http_server_options){.listen = options->listen,
	                                                   .loops = loops,
	                                                   .limits = &limits,
	                                                   .handler = &handler,
	                                                   .tls = s->tls,
	                                                   .clock = s->clock},
	                     err) != ERR_NONE)
		return err->code;
	api_watch(&s->api, s->http);
	return ERR_NONE;
}

static enum err_code open_keyring(struct server *s, const struct serve_options *options, struct err *err)
{
	bool made;

	if (options->no_auth)
		return ERR_NONE;
	if (keyring_open(&s->keyring, options->data, bytes_of(options->region), &made, err) != ERR_NONE)
		return err->code;
	if (made)
		audit_first_key(s);
	if (made)
		printf("Created the first access key, \"administrator\", in %s/keys.json (only its owner can "
		       "read "
		       "it).\n\n",
		       options->data);
	return ERR_NONE;
}

static enum err_code open_jobs(struct server *s, struct err *err)
{
	struct jobs_options options = {.services = &s->services.all, .store = s->store};

	options.kinds = jobs_kinds(&options.kind_count);
	return jobs_open(&s->jobs, &options, err);
}

/* Identity providers: how they are called, and who is to be signed out there. */
static enum err_code open_providers(struct server *s, struct err *err)
{
	s->pools = pools_open(s->clock);
	s->services.all.provider_calls = pools_calls(s->pools);
	return sign_outs_open(&s->sign_outs, &s->services.all, s->store, err);
}

static enum err_code open_delivery(struct server *s, const struct serve_options *options, struct err *err)
{
	struct delivery_options delivery = {.services = &s->services.all,
	                                    .store = s->store,
	                                    .clock = s->clock,
	                                    .allow_private = options->private_targets,
	                                    .ca_file = options->targets_ca};

	return delivery_open(&s->delivery, &delivery, err);
}

static enum err_code open_merger(struct server *s, const struct serve_options *options, struct err *err)
{
	struct merger_options merger = {.services = &s->services.all,
	                                .store = s->store,
	                                .data = options->data,
	                                .processes = (unsigned)options->processes,
	                                .known_bytes_max = (size_t)options->known_mb << 20,
	                                .spool_bytes_max = (size_t)options->spool_mb << 20,
	                                .denied_us = (int64_t)options->denied_ms * 1000,
	                                .token_us = (int64_t)options->token_known_s * 1000000};

	return s->endpoint == NULL ? ERR_NONE : merger_open(&s->merger, &merger, err);
}

static enum err_code open_events(struct server *s, const struct serve_options *options, struct err *err)
{
	return event_hub_open(
	        &s->events,
	        &(struct event_hub_options){.services = &s->services.all,
	                                    .store = s->store,
	                                    .keyring = s->keyring,
	                                    .clock = s->clock,
	                                    .followers_per_key = (unsigned)options->followers_per_key},
	        err);
}

static void greet(const struct server *s, const struct serve_options *options)
{
	int      host = (int)(strrchr(options->listen, ':') - options->listen); /* there is one: it listens */
	unsigned port = http_server_port(s->http);
	char     url[256];

	snprintf(url, sizeof(url), "%s://%.*s:%u", s->tls != NULL ? "https" : "http", host, options->listen,
	         port);
	printf("Gatehouse is listening on %s (%s %s, %s)\n\nTry this in another terminal:\n", url,
	       s->endpoint != NULL ? "tables at" : "data in",
	       s->endpoint != NULL ? endpoint_url(s->endpoint) : options->data,
	       options->no_auth ? "no authentication" : "every request needs an access key");
	if (options->no_auth)
		printf("  export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_DEFAULT_REGION=%s\n",
		       options->region);
	else
		printf("  eval \"$(gatehouse key show administrator --data %s)\"; export "
		       "AWS_DEFAULT_REGION=%s\n",
		       options->data, options->region);
	if (s->endpoint == NULL)
		printf("  aws dynamodb list-tables --endpoint-url %s\n", url);
	printf("  curl %s%s/v1/attempts -d '{\"subject\": \"ann\", \"journey\": \"SIGN_IN\", "
	       "\"type\": \"PASSWORD_ENTRY\", \"outcome\": \"failure\"}'\n\n"
	       "README.md continues from there. Ctrl-C stops the server; every acknowledged write is %s.\n",
	       options->no_auth ? ""
	                        : "-H \"Authorization: Bearer $AWS_ACCESS_KEY_ID.$AWS_SECRET_ACCESS_KEY\" ",
	       url, s->endpoint != NULL ? "at the endpoint" : "on disk");
	fflush(stdout);
}

/* In the other order, as far as it came. */
static void close_all(struct server *s)
{
	set_serving(s, false);
	scraper_stop(s->scraper);
	if (s->http != NULL)
		http_server_close(s->http);
	scraper_close(s->scraper);
	if (s->tls != NULL)
		http_tls_close(s->tls);
	pools_stop(s->pools); /* or the two that follow would wait for providers */
	if (s->jobs != NULL)
		jobs_close(s->jobs);
	sign_outs_close(s->sign_outs); /* after everything that queues one */
	push_close(s->push);
	lock_expiry_close(s->expiry);
	event_trim_close(s->trimmer);
	policy_follow_close(s->follower);
	delivery_close(s->delivery); /* nobody publishes any more */
	pools_close(s->pools);
	event_hub_close(s->events); /* after everything that publishes */
	identity_close(s->identity);
	code_sender_close(s->codes);
	verifier_close(s->verifier);
	merger_close(s->merger); /* after everything that calls services */
	services_close(&s->services);
	if (s->keyring != NULL)
		keyring_close(s->keyring);
	if (s->engine != NULL)
		engine_close(s->engine);
	endpoint_close(s->endpoint);
	if (s->audit != NULL)
		audit_close(s->audit);
	notify_close(&s->notify);
	pthread_mutex_destroy(&s->lock);
}

/* The store first: it makes the data directory, and makes sure of having it alone. */
static enum err_code open_all(struct server *s, const struct serve_options *options, struct err *err)
{
	if (open_clock(s, options, err) != ERR_NONE || open_tls(s, options, err) != ERR_NONE ||
	    open_store(s, options, err) != ERR_NONE ||
	    audit_open(&s->audit, options->data, err) != ERR_NONE ||
	    open_keyring(s, options, err) != ERR_NONE ||
	    services_open(&s->services, options, s->store, err) != ERR_NONE ||
	    open_merger(s, options, err) != ERR_NONE || open_events(s, options, err) != ERR_NONE ||
	    open_delivery(s, options, err) != ERR_NONE || open_identity(s, options, err) != ERR_NONE ||
	    open_providers(s, err) != ERR_NONE || open_jobs(s, err) != ERR_NONE ||
	    lock_expiry_open(&s->expiry, &s->services.all, s->store, err) != ERR_NONE ||
	    event_trim_open(&s->trimmer, &s->services.all, s->store, err) != ERR_NONE ||
	    (s->endpoint != NULL &&
	     policy_follow_open(&s->follower, &s->services.all, s->store, err) != ERR_NONE))
		return err->code;
	return open_http(s, options, err);
}

static void run(struct server *s, const struct serve_options *options)
{
	set_serving(s, true);
	greet(s, options);
	audit_server(s, options->restarted ? "server.restart" : "server.start", NULL, "");
	notify_send(&s->notify, "READY=1");
	signals_wait(s);
	atomic_store(&s->stopping, true);
	if (!atomic_load(&s->failed)) /* else the same process starts again, and is still wanted */
		notify_send(&s->notify, "STOPPING=1");
	log_info("stopping: finishing the requests that were accepted");
	audit_server(s, "server.stop", "why",
	             !atomic_load(&s->failed)                         ? "a signal asked for it"
	             : s->engine != NULL && engine_starved(s->engine) ? "there is room on the disk again"
	                                                              : "a flush failed");
}

enum err_code serve(const struct serve_options *options, struct serve_end *end, struct err *err)
{
	struct server s = {.main_thread = pthread_self(), .lock = PTHREAD_MUTEX_INITIALIZER};

	*end = (struct serve_end){0};
	if (serve_check(options, err) != ERR_NONE || file_become_owner(options->data, err) != ERR_NONE)
		return err->code;
	signals_prepare();
	notify_open(&s.notify, is_alive, &s);
	if (open_all(&s, options, err) != ERR_NONE) {
		close_all(&s);
		return err->code;
	}
	end->port = http_server_port(s.http);
	run(&s, options);
	close_all(&s);
	log_info("stopped");
	if (!atomic_load(&s.failed))
		return ERR_NONE;
	end->restart = true;
	return err_set(err, ERR_STORAGE, "a flush failed");
}
