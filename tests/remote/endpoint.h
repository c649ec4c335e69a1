/* Endpoint: DynamoDB endpoints for tests of remote/, and a remote store over one.
 *
 *   own        this repository's server over an engine, in this process, on loopback. Its clock is one of its own that stands
 *              behind: it keeps what has expired, as DynamoDB does for days, so remote/ has to be exact by itself
 *   aws        the same behind a proxy that refuses as AWS does (aws_like.h): what overlaps, and a share of the transactions that do not
 *   dynoxide   @dynoxide/linux-x64 and dynalite, as bench/ installs them: independent servers. One process serves a whole test
 *   dynalite   program; each world has tables with a prefix of its own
 *
 * ENDPOINT_VARIABLE names one and puts suites on it. */
#ifndef TESTS_REMOTE_ENDPOINT_H
#define TESTS_REMOTE_ENDPOINT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api.h"
#include "engine/engine.h"
#include "http/http.h"
#include "remote/aws_like.h"
#include "remote/remote.h"

#define ENDPOINT_VARIABLE "GATEHOUSE_ENDPOINT"

enum {
	ENDPOINT_START_S = 60,
	ENDPOINT_WORKERS = 4,
	ENDPOINT_CALL_S = 120,
	ENDPOINT_AWS_HOLD_US = 200,
	ENDPOINT_AWS_REFUSED_PERCENT = 5
}; /* the machine may be busy with other tests */

/* ---- our own server over an engine ---- */

struct own_server {
	struct api          api;
	struct http_server *http;
	struct aws_like    *aws; /* before it; NULL: nothing is */
};

static inline bool own_server_ready(void *ctx)
{
	(void)ctx;
	return true;
}

static inline void own_server_open(struct own_server *o, struct engine *engine)
{
	struct http_limits  limits = http_limits_default();
	struct http_handler handler;
	struct err          err;

	api_init(&o->api, &(struct api_parts){.store = engine_store(engine),
	                                      .clock = clock_system(),
	                                      .region = BYTES("local"),
	                                      .ready = own_server_ready,
	                                      .seed = {1, 2}});
	handler = api_handler(&o->api);
	if (http_server_open(&o->http,
	                     &(struct http_server_options){.listen = "127.0.0.1:0",
	                                                   .loops = 1,
	                                                   .limits = &limits,
	                                                   .handler = &handler,
	                                                   .clock = clock_system()},
	                     &err) != ERR_NONE) {
		fprintf(stderr, "own server: %s\n", err.text);
		abort();
	}
}

static inline void own_server_open_aws(struct own_server *o, struct engine *engine)
{
	struct aws_settings s;

	own_server_open(o, engine);
	o->aws = calloc(1, sizeof(*o->aws));
	if (!aws_like_open(o->aws, http_server_port(o->http), 0)) {
		fprintf(stderr, "aws_like did not start\n");
		abort();
	}
	s = aws_like_settings(o->aws);
	s.hold_us = ENDPOINT_AWS_HOLD_US;
	s.refuse_share = ENDPOINT_AWS_REFUSED_PERCENT / 100.0;
	aws_like_set(o->aws, &s);
}

static inline unsigned own_server_port(const struct own_server *o)
{
	return o->aws != NULL ? o->aws->port : http_server_port(o->http);
}

static inline void own_server_close(struct own_server *o)
{
	if (o->aws != NULL)
		aws_like_close(o->aws);
	free(o->aws);
	o->aws = NULL;
	http_server_close(o->http);
}

/* ---- servers of others ---- */

struct other_server {
	const char *name;
	const char *program; /* from the repository's root */
	const char *arguments[8];
};

/* %PORT in an argument is the port. */
static const struct other_server other_servers[] = {
        {"dynoxide",
         "bench/node_modules/@dynoxide/linux-x64/dynoxide",
         {"serve", "--host", "127.0.0.1", "--port", "%PORT"}},
        {"dynalite",
         "/usr/bin/env",
         {"node", "bench/node_modules/dynalite/cli.js", "--host", "127.0.0.1", "--port", "%PORT",
          "--createTableMs=0", "--deleteTableMs=0"}},
};

static inline int loopback_connect(unsigned port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* One that nobody listens on now, below those that the kernel hands out. */
static inline unsigned free_port(void)
{
	for (;;) {
		unsigned port = 10000 + (unsigned)rand() % 20000;
		int      fd = loopback_connect(port);

		if (fd < 0)
			return port;
		close(fd);
	}
}

/* In the child. It ends with its parent, however that ends. */
static inline void other_exec(const struct other_server *o, unsigned port)
{
	char        text[16];
	const char *arguments[12] = {o->program};

	snprintf(text, sizeof(text), "%u", port);
	for (int i = 0; i < 8 && o->arguments[i] != NULL; i++)
		arguments[i + 1] = strcmp(o->arguments[i], "%PORT") == 0 ? text : o->arguments[i];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (freopen("/dev/null", "r", stdin) == NULL || freopen("/dev/null", "w", stdout) == NULL)
		_exit(127);
	execv(o->program, (char **)(uintptr_t)arguments);
	_exit(127);
}

/* Does it listen, before it ends by itself? Another program may have taken the port first. */
static inline bool other_listens(pid_t child, unsigned port)
{
	int status;

	for (int i = 0; i < ENDPOINT_START_S * 20; i++) {
		int fd = loopback_connect(port);

		if (fd >= 0)
			close(fd);
		usleep(fd >= 0 && i == 0 ? 500 * 1000 : 50 * 1000); /* at once: that is somebody else */
		if (waitpid(child, &status, WNOHANG) == child)
			return false;
		if (fd >= 0)
			return true;
	}
	return false;
}

/* Started once; its port. */
static inline unsigned other_server_port(const char *name)
{
	static unsigned            port;
	const struct other_server *o = &other_servers[strcmp(name, "dynalite") == 0];

	srand((unsigned)getpid());
	for (int tries = 0; port == 0 && tries < 3; tries++) {
		unsigned candidate = free_port();
		pid_t    child = fork();

		if (child == 0)
			other_exec(o, candidate);
		if (other_listens(child, candidate))
			port = candidate;
	}
	if (port != 0)
		return port;
	fprintf(stderr, "%s did not start (its package is one of bench/: tools/install test)\n", name);
	abort();
}

/* ---- a remote store ---- */

static inline const char *endpoint_variable(void *ctx, const char *name)
{
	(void)ctx;
	return strcmp(name, "AWS_ACCESS_KEY_ID") == 0       ? "any"
	       : strcmp(name, "AWS_SECRET_ACCESS_KEY") == 0 ? "any"
	                                                    : NULL;
}

struct far {
	struct aws_credentials *credentials;
	struct remote          *remote;
};

/* `own`: our own server, or NULL: that of `name`. */
static inline void far_open(struct far *f, const struct own_server *own, const char *name,
                            struct clock *clock)
{
	static unsigned       worlds;
	char                  url[64], prefix[32] = "";
	struct remote_options options = {.url = url,
	                                 .region = "local",
	                                 .table_prefix = prefix,
	                                 .workers = ENDPOINT_WORKERS,
	                                 .queue_bytes_max = 64 << 20,
	                                 .clock = clock,
	                                 .wire_clock = clock_system(),
	                                 .call_ms = ENDPOINT_CALL_S * 1000,
	                                 .turn_ms = ENDPOINT_CALL_S * 1000,
	                                 .attempt_ms = ENDPOINT_CALL_S * 1000};
	struct err            err;

	if (own == NULL)
		snprintf(prefix, sizeof(prefix), "w%d-%u-", (int)getpid(), worlds++);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u",
	         own != NULL ? own_server_port(own) : other_server_port(name));
	if (aws_credentials_open(&(struct environment){endpoint_variable, NULL}, clock_system(),
	                         &f->credentials, &err) != ERR_NONE) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
	options.credentials = f->credentials;
	if (remote_open(&f->remote, &options, &err) != ERR_NONE) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
}

static inline void far_close(struct far *f)
{
	remote_close(f->remote);
	aws_credentials_close(f->credentials);
}

#endif
