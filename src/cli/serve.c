/* Serve: the arguments of `gatehouse serve`, and the restart after a failed flush. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "server/serve.h"

enum { RESTARTS_MAX = 5, RESTARTS_APART_S = 60 };

#define RESTARTS_VARIABLE "GATEHOUSE_RESTARTS"

/* How many restarts came shortly after one another, this one included; kept in the environment, across exec.
 */
static int count_restart(void)
{
	const char *before = getenv(RESTARTS_VARIABLE);
	long        now = (long)time(NULL), last = 0;
	int         count = 0;
	char        text[64];

	if (before == NULL || sscanf(before, "%d@%ld", &count, &last) != 2 || now - last > RESTARTS_APART_S)
		count = 0;
	snprintf(text, sizeof(text), "%d@%ld", count + 1, now);
	setenv(RESTARTS_VARIABLE, text, 1);
	return count + 1;
}

/* Only the disk knows what survived a failed flush: the program starts anew and reads it. A disk that goes on
 * failing ends it, for whoever supervises the process to see. */
static int start_again(int argc, char **argv, const char *listen, unsigned port)
{
	char **again = calloc((size_t)argc + 5, sizeof(*again));
	char   where[128];

	if (again == NULL || count_restart() > RESTARTS_MAX) {
		log_error("flushes failed in %d starts in a row: giving up", RESTARTS_MAX);
		free(again);
		return 1;
	}
	again[0] = "gatehouse";
	again[1] = "serve";
	for (int i = 0; i < argc; i++)
		again[i + 2] = argv[i];
	/* the last one counts: on the port that its clients know, also if it was a free one */
	snprintf(where, sizeof(where), "%.*s:%u", (int)(strrchr(listen, ':') - listen), listen, port);
	again[argc + 2] = "--listen";
	again[argc + 3] = where;
	log_info("starting again from what is on the disk");
	execv("/proc/self/exe", again);
	log_error("cannot start again: %s", strerror(errno));
	return 1;
}

static int refuse(const struct err *err)
{
	fprintf(stderr, "gatehouse serve: %s\n", err->text);
	return err->code == ERR_INVALID ? 2 : 1;
}

struct serve_arguments {
	struct serve_options o;
	const char          *fault;
	bool                 help;
};

#define AT(field) offsetof(struct serve_arguments, field)

static const struct option_spec options[] = {
        {"--listen", OPTION_TEXT, "ADDRESS:PORT",
         "where to listen (default: 127.0.0.1:8420; port 0: a free one)", AT(o.listen), 0, 0},
        {"--data", OPTION_TEXT, "DIR", "the data directory, made if absent (default: data)", AT(o.data), 0,
         0},
        {"--policies", OPTION_TEXT, "FILE",
         "policies for attempts and limits, YAML, read again when it changes (default: those of PUT "
         "/v1/policies, or those that ship)",
         AT(o.policies), 0, 0},
        {"--no-auth", OPTION_FLAG, NULL, "serve without authentication, on loopback", AT(o.no_auth), 0, 0},
        {"--plain-http", OPTION_FLAG, NULL, "listen without TLS also where it is not loopback",
         AT(o.plain_http), 0, 0},
        {"--log-requests", OPTION_FLAG, NULL, "log every request, not only those that fail with 5xx",
         AT(o.log_requests), 0, 0},
        {"--open-metrics", OPTION_FLAG, NULL,
         "serve /metrics, which needs no signature, also where it is not loopback", AT(o.open_metrics), 0, 0},
        {"--tls-cert", OPTION_TEXT, "FILE", "serve https: the certificate, with its chain, PEM",
         AT(o.tls_cert), 0, 0},
        {"--tls-key", OPTION_TEXT, "FILE", "the certificate's key, PEM", AT(o.tls_key), 0, 0},
        {"--tls-client-ca", OPTION_TEXT, "FILE", "ask peers for a certificate that this CA signed",
         AT(o.tls_client_ca), 0, 0},
        {"--loops", OPTION_NUMBER, "N", "threads that serve connections (default: one a core)", AT(o.loops),
         0, 256},
        {"--cache-mb", OPTION_NUMBER, "N", "memory for hot rows (default: 64)", AT(o.cache_mb), 1, 1 << 20},
        {"--queue-mb", OPTION_NUMBER, "N", "requests that may wait to be written (default: 64)",
         AT(o.queue_mb), 1, 1 << 20},
        {"--fault", OPTION_TEXT, "NAME:N", NULL, AT(fault), 0, 0}, /* for tests: base/fault.h */
        {"--help", OPTION_FLAG, NULL, "this text", AT(help), 0, 0},
};

static int run(int argc, char **argv)
{
	struct serve_arguments arguments = {.o = serve_options_default()};
	struct serve_end       end;
	struct err             err;

	if (options_parse(options, OPTIONS_COUNT(options), &arguments, argc, argv, &err) != ERR_NONE)
		return refuse(&err);
	if (arguments.fault != NULL && !fault_parse(arguments.fault)) {
		err_set(&err, ERR_INVALID, "--fault: there is no fault point \"%s\"", arguments.fault);
		return refuse(&err);
	}
	if (arguments.help) {
		command_help(&command_serve);
		return 0;
	}
	arguments.o.restarted = getenv(RESTARTS_VARIABLE) != NULL;
	if (serve(&arguments.o, &end, &err) == ERR_NONE)
		return 0;
	if (end.restart)
		return start_again(argc, argv, arguments.o.listen, end.port);
	return refuse(&err);
}

const struct command command_serve = {
        .name = "serve",
        .help = "serves tables over HTTP",
        .about = "Serves durable, DynamoDB-compatible tables over HTTP.",
        .options = options,
        .option_count = OPTIONS_COUNT(options),
        .more = "Requests must be signed with a key of `gatehouse key`; the first start makes one, "
                "\"administrator\".\n"
                "With --no-auth anyone who can reach the port may do anything, so it is refused on any "
                "address but\n"
                "loopback. SIGTERM or Ctrl-C stops it after it has finished what it accepted; SIGHUP has it\n"
                "read the certificate files again, without a connection lost.",
        .run = run,
};
