/* Serve: opens the engine and the HTTP server, waits for a signal, closes them in the other order. */
#define _GNU_SOURCE
#include "server/serve.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "api/api.h"
#include "base/log.h"
#include "engine/engine.h"
#include "http/http.h"

struct server {
	struct engine      *engine;
	struct api          api;
	struct http_server *http;
	atomic_bool         stopping;
	atomic_bool         failed;
	pthread_t           main_thread;
};

struct serve_options serve_options_default(void)
{
	return (struct serve_options){
	        .listen = "127.0.0.1:8420", .data = "data", .cache_mb = 64, .queue_mb = 64};
}

/* ---- signals: the main thread waits for them, all others never see them ---- */

static sigset_t stop_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	return set;
}

/* Before any thread starts. A peer that is gone is an error code, not a signal. */
static void signals_prepare(void)
{
	sigset_t set = stop_signals();

	signal(SIGPIPE, SIG_IGN);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void signals_wait(void)
{
	sigset_t set = stop_signals();
	int      which;

	sigwait(&set, &which);
}

/* ---- the parts ---- */

/* From the writer's thread: wakes the main thread, which stops the server. */
static void on_failure(void *ctx)
{
	struct server *s = ctx;

	atomic_store(&s->failed, true);
	pthread_kill(s->main_thread, SIGTERM);
}

static bool is_ready(void *ctx)
{
	struct server *s = ctx;

	return !atomic_load(&s->stopping) && engine_ready(s->engine);
}

static enum err_code open_engine(struct server *s, const struct serve_options *options, struct err *err)
{
	struct engine_options engine = engine_options_default(options->data);

	engine.cache_bytes_max = (size_t)options->cache_mb << 20;
	engine.queue_bytes_max = (size_t)options->queue_mb << 20;
	engine.on_failure = on_failure;
	engine.failure_ctx = s;
	return engine_open(&s->engine, &engine, err);
}

static enum err_code open_http(struct server *s, const struct serve_options *options, struct err *err)
{
	struct http_limits  limits = http_limits_default();
	struct http_handler handler;
	struct hash_key     seed;
	long                cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned loops = options->loops > 0 ? (unsigned)options->loops : cores > 0 ? (unsigned)cores : 1;

	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		return err_set(err, ERR_STORAGE, "the system gives no random bytes");
	api_init(&s->api, s->engine, is_ready, s, seed);
	handler = api_handler(&s->api);
	return http_server_open(&s->http, options->listen, loops, &limits, &handler, clock_system(), err);
}

static void greet(const struct server *s, const struct serve_options *options)
{
	int      host = (int)(strrchr(options->listen, ':') - options->listen); /* there is one: it listens */
	unsigned port = http_server_port(s->http);

	printf("Gatehouse is listening on http://%.*s:%u (data in %s, no authentication)\n\n"
	       "Try, in another terminal:\n"
	       "  export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_DEFAULT_REGION=local\n"
	       "  aws dynamodb list-tables --endpoint-url http://%.*s:%u\n"
	       "  curl http://%.*s:%u/readyz\n\n"
	       "README.md goes on from there. Ctrl-C stops it; what was acknowledged is on the disk.\n",
	       host, options->listen, port, options->data, host, options->listen, port, host, options->listen,
	       port);
	fflush(stdout);
}

static enum err_code check_access(const struct serve_options *options, struct err *err)
{
	struct bytes listen = bytes_of(options->listen);

	if (!options->no_auth)
		return err_set(err, ERR_INVALID,
		               "authentication is not built yet: start with --no-auth, on loopback");
	if (!bytes_starts_with(listen, BYTES("127.")) && !bytes_starts_with(listen, BYTES("[::1]:")) &&
	    !bytes_starts_with(listen, BYTES("localhost:")))
		return err_set(
		        err, ERR_INVALID,
		        "--no-auth is refused on %s: without authentication it listens on loopback only "
		        "(127.0.0.1, [::1])",
		        options->listen);
	return ERR_NONE;
}

enum err_code serve(const struct serve_options *options, bool *restart, struct err *err)
{
	struct server s = {.main_thread = pthread_self()};

	*restart = false;
	if (check_access(options, err) != ERR_NONE)
		return err->code;
	signals_prepare();
	if (open_engine(&s, options, err) != ERR_NONE)
		return err->code;
	if (open_http(&s, options, err) != ERR_NONE) {
		engine_close(s.engine);
		return err->code;
	}
	greet(&s, options);
	signals_wait();
	atomic_store(&s.stopping, true);
	log_info("stopping: finishing what was accepted");
	http_server_close(s.http);
	engine_close(s.engine);
	log_info("stopped");
	if (!atomic_load(&s.failed))
		return ERR_NONE;
	*restart = true;
	return err_set(err, ERR_STORAGE, "a flush failed");
}
