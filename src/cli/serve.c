/* Serve: the settings of `gatehouse serve`, and the restart after a failed flush. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/settings.h"
#include "cli/table_options.h"
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
 * failing ends it, for whoever supervises the process to see. It goes on with the settings that it has: a
 * configuration file that was changed meanwhile waits for a start that somebody asked for. */
static int start_again(struct settings *settings, const char *listen, unsigned port)
{
	char **again = arena_array(&settings->arena, settings->options.count + 4, sizeof(*again));
	size_t count = 0;
	char   where[128];

	if (count_restart() > RESTARTS_MAX) {
		log_error("flushes failed in %d starts in a row: giving up", RESTARTS_MAX);
		return 1;
	}
	again[count++] = "gatehouse";
	again[count++] = "serve";
	count += settings_arguments(settings, again + count);
	/* the last one counts: on the port that its clients know, also if it was a free one */
	snprintf(where, sizeof(where), "--listen=%.*s:%u", (int)(strrchr(listen, ':') - listen), listen,
	         port);
	again[count++] = where;
	again[count] = NULL;
	unsetenv(SETTINGS_CONFIG_VARIABLE);
	log_info("restarting from what is on the disk");
	execv("/proc/self/exe", again);
	log_error("cannot restart: %s", strerror(errno));
	return 1;
}

/* 2: what was given is wrong. */
static int refuse(const struct err *err)
{
	bool wrong = err->code == ERR_INVALID || err->code == ERR_SERIALIZATION;

	fprintf(stderr, "gatehouse serve: %s\n", err->text);
	return wrong ? 2 : 1;
}

struct serve_arguments {
	struct serve_options o;
	const char          *config;
	const char          *fault;
	bool                 check_config;
	bool                 help;
};

#define AT(field) offsetof(struct serve_arguments, field)

static const struct option_spec options[] = {
        {"--config", OPTION_CONFIG, "FILE", "settings in YAML: the options below, without the dashes",
         AT(config), 0, 0},
        {"--listen", OPTION_TEXT, "ADDRESS:PORT",
         "address to listen on; port 0 picks a free port (default: 127.0.0.1:8420)", AT(o.listen), 0, 0},
        {"--data", OPTION_TEXT, "DIR", "data directory, created if missing (default: data)", AT(o.data), 0,
         0},
        {"--engine", OPTION_TEXT, "KIND",
         "where tables are: `embedded`, on this machine, or `dynamodb`, at a DynamoDB endpoint, which AWS's "
         "own "
         "settings name (default: embedded)",
         AT(o.engine), 0, 0},
        TABLE_PREFIX_OPTION,
        {"--workers", OPTION_NUMBER, "N",
         "with --engine dynamodb: threads that call the endpoint, one call each at a time (default: 64)",
         AT(o.workers), 1, 512},
        {"--endpoint-attempt-ms", OPTION_NUMBER, "N",
         "with --engine dynamodb: how long one try of a request to the endpoint may take, in ms (default: "
         "2000)",
         AT(o.endpoint_attempt_ms), 1, 60000},
        {"--endpoint-call-ms", OPTION_NUMBER, "N",
         "with --engine dynamodb: how long all requests to the endpoint that one call makes may take "
         "together (default: 8000)",
         AT(o.endpoint_call_ms), 1, 600000},
        {"--known-mb", OPTION_NUMBER, "N",
         "with --engine dynamodb: memory for what was last read, which answers while the endpoint does not, "
         "in MB (default: 64)",
         AT(o.known_mb), 1, 1 << 20},
        {"--spool-mb", OPTION_NUMBER, "N",
         "with --engine dynamodb: attempts kept in the data directory until the endpoint answers again, in "
         "MB (default: 64)",
         AT(o.spool_mb), 1, 4096},
        {"--processes", OPTION_NUMBER, "N",
         "with --engine dynamodb: how many processes share the tables: during an outage each allows that "
         "part of "
         "the attempts that are left (default: 1)",
         AT(o.processes), 1, 1000},
        {"--denied-ms", OPTION_NUMBER, "N",
         "with --engine dynamodb: how long a locked subject is refused without asking the endpoint again, in "
         "ms (default: 1000)",
         AT(o.denied_ms), 0, 60000},
        {"--token-known-s", OPTION_NUMBER, "N",
         "with --engine dynamodb: while the endpoint does not answer, how old what is known of a token's "
         "subject may be, in seconds (default: 60)",
         AT(o.token_known_s), 0, 86400},
        {"--create-tables", OPTION_TEXT, "MODE",
         "`on-demand`: when Gatehouse first writes to them; `now`: at the start, for code that uses them "
         "over "
         "the DynamoDB API; with --engine dynamodb also `never`: a start without them is refused (default: "
         "on-demand)",
         AT(o.create_tables), 0, 0},
        {"--region", OPTION_TEXT, "NAME", "region that ARNs use and signatures must be for (default: local)",
         AT(o.region), 0, 0},
        {"--policies", OPTION_TEXT, "FILE",
         "policies for attempts, limits, users and events, in YAML; reloaded when the file changes (default: "
         "the "
         "ones set "
         "with PUT /v1/policies, else the built-in ones)",
         AT(o.policies), 0, 0},
        {"--identity", OPTION_TEXT, "FILE",
         "issuers of tokens, identity providers, the webhook for codes and push messages, in YAML; reloaded "
         "when the file changes (default: none)",
         AT(o.identity), 0, 0},
        {"--no-auth", OPTION_FLAG, NULL, "serve without authentication, on loopback only", AT(o.no_auth), 0,
         0},
        {"--host-names", OPTION_TEXT, "NAME,NAME",
         "with --no-auth: further names to accept in Host and Origin headers, besides localhost, 127.0.0.1 "
         "and [::1]",
         AT(o.host_names), 0, 0},
        {"--plain-http", OPTION_FLAG, NULL, "allow plain HTTP on addresses other than loopback",
         AT(o.plain_http), 0, 0},
        {"--log-requests", OPTION_FLAG, NULL, "log every request, not only those that fail with 5xx",
         AT(o.log_requests), 0, 0},
        {"--open-metrics", OPTION_FLAG, NULL,
         "serve /metrics, which needs no signature, on addresses other than loopback", AT(o.open_metrics), 0,
         0},
        {"--targets-per-key", OPTION_NUMBER, "N",
         "event targets that one key may have created, of 32 in all (default: 16)", AT(o.targets_per_key), 1,
         TARGETS_MAX},
        {"--consumers-per-key", OPTION_NUMBER, "N",
         "event consumers that one key may have created, of 200 in all (default: 100)",
         AT(o.consumers_per_key), 1, CONSUMERS_MAX},
        {"--followers-per-key", OPTION_NUMBER, "N",
         "event streams and waiting requests for events that one key may have at a time, of 20000 streams in "
         "all (default: 2000)",
         AT(o.followers_per_key), 1, EVENT_FOLLOWERS_MAX},
        {"--metrics-ms", OPTION_NUMBER, "N", "render /metrics at most once in N milliseconds (default: 1000)",
         AT(o.metrics_ms), 1, SCRAPE_MS_MAX},
        {"--private-targets", OPTION_FLAG, NULL,
         "deliver events also to this machine and this network, and over plain HTTP", AT(o.private_targets),
         0, 0},
        {"--targets-ca", OPTION_TEXT, "FILE",
         "check the certificates of event targets against this CA, PEM (default: the system's)",
         AT(o.targets_ca), 0, 0},
        {"--tls-cert", OPTION_TEXT, "FILE", "certificate and its chain, PEM; turns on HTTPS", AT(o.tls_cert),
         0, 0},
        {"--tls-key", OPTION_TEXT, "FILE", "private key of the certificate, PEM", AT(o.tls_key), 0, 0},
        {"--tls-client-ca", OPTION_TEXT, "FILE", "require client certificates signed by this CA, PEM",
         AT(o.tls_client_ca), 0, 0},
        {"--loops", OPTION_NUMBER, "N", "threads that serve connections (default: one per core)", AT(o.loops),
         0, 256},
        {"--cache-mb", OPTION_NUMBER, "N",
         "memory for caches of rows, in MB; 0 takes a quarter of the machine's memory, or of the cgroup's "
         "limit "
         "(default: 0)",
         AT(o.cache_mb), 0, 1 << 20},
        {"--queue-mb", OPTION_NUMBER, "N", "memory for requests waiting to be written, in MB (default: 64)",
         AT(o.queue_mb), 1, 1 << 20},
        {"--expression-mb", OPTION_NUMBER, "N",
         "data that the conditions or filter of one request may examine, in MB (default: 64)",
         AT(o.expression_mb), 1, 1 << 20},
        {"--clock-jump-max-days", OPTION_NUMBER, "N",
         "refuse to start if the clock is farther than this from the last commit (default: 30)",
         AT(o.clock_jump_max_days), 1, 36500},
        {"--accept-clock", OPTION_FLAG, NULL,
         "for one start: accept the clock, however far it is from the last commit", AT(o.accept_clock), 0, 0},
        {"--limits-mb", OPTION_NUMBER, "N", "memory for limits kept in memory, in MB (default: 64)",
         AT(o.limits_mb), 1, 1 << 20},
        {"--sole-writer-region", OPTION_TEXT, "REGION",
         "with --engine dynamodb, if the tables are global tables: the one region in which processes write "
         "(default: "
         "global tables are refused)",
         AT(o.sole_writer_region), 0, 0},
        {"--event-shards", OPTION_NUMBER, "N",
         "with --engine dynamodb: number of event-log shards, fixed once the log exists; 0: what the log "
         "has, "
         "or 16 if it is new (default: 0)",
         AT(o.event_shards), 0, EVENT_SHARDS_MAX},
        {"--hot-key-units", OPTION_NUMBER, "N",
         "with --engine dynamodb: log a warning when one key takes this many write units per second "
         "(default: 500)",
         AT(o.hot_key_units), 1, 1000000},
        {"--email-claims", OPTION_TEXT, "WHEN",
         "when an email address is taken: `verified`, once it is verified, or `added`, when a user adds it "
         "(default: verified)",
         AT(o.email_claims), 0, 0},
        TABLE_NAME_OPTIONS,
        {"--device-shards", OPTION_NUMBER, "N", "shards of that index per platform (default: 16)",
         AT(o.device_shards), 1, DEVICE_SHARDS_MAX},
        {"--check-config", OPTION_ACTION, NULL,
         "check settings, policies and the identity file, print each setting and its origin, and exit",
         AT(check_config), 0, 0},
        {"--fault", OPTION_TEXT, "NAME:N", NULL, AT(fault), 0, 0}, /* for tests: base/fault.h */
        {"--help", OPTION_ACTION, NULL, "print this help", AT(help), 0, 0},
};

static int print_settings(const struct settings *settings)
{
	struct buf out;

	buf_init(&out, NULL);
	settings_print(settings, &out);
	fwrite(out.data, 1, out.len, stdout);
	buf_release(&out);
	return 0;
}

static int serve_or_check(struct settings *settings, struct serve_arguments *arguments)
{
	struct serve_end end;
	struct err       err;

	if (arguments->fault != NULL && !fault_parse(arguments->fault)) {
		err_set(&err, ERR_INVALID, "--fault: unknown fault point \"%s\"", arguments->fault);
		return refuse(&err);
	}
	if (arguments->check_config)
		return serve_check(&arguments->o, &err) == ERR_NONE ? print_settings(settings) : refuse(&err);
	arguments->o.restarted = getenv(RESTARTS_VARIABLE) != NULL;
	if (serve(&arguments->o, &end, &err) == ERR_NONE)
		return 0;
	return end.restart ? start_again(settings, arguments->o.listen, end.port) : refuse(&err);
}

static int run(int argc, char **argv)
{
	struct serve_arguments arguments = {.o = serve_options_default()};
	struct settings        settings;
	struct err             err;
	enum err_code          rc;
	int                    status = 0;

	settings_init(&settings, OPTIONS(options), &arguments);
	settings.others = command_tables.options;
	rc = settings_read(&settings, environ, argc, argv, &err);
	if (arguments.help)
		command_help(&command_serve);
	else
		status = rc == ERR_NONE ? serve_or_check(&settings, &arguments) : refuse(&err);
	settings_release(&settings);
	return status;
}

const struct command command_serve = {
        .name = "serve",
        .help = "serve the identity API and tables over HTTP",
        .about = "Serves the identity API (/v1) and DynamoDB-compatible tables, durably.",
        .options = {options, OPTIONS_COUNT(options)},
        .more = "Every request needs an access key from `gatehouse key`: as an AWS signature or, under /v1,\n"
                "as a bearer token. The first start creates the key \"administrator\".\n"
                "With --no-auth, anyone who can reach the port can do anything, so the server then listens\n"
                "on loopback only.\n"
                "SIGTERM or Ctrl-C stops the server once it has finished the requests it accepted. SIGHUP\n"
                "reloads the certificate files without dropping a connection.\n"
                "\n"
                "An argument overrides the environment, which overrides the --config file:\n"
                "  gatehouse serve --tls-cert FILE             argument\n"
                "  GATEHOUSE_TLS_CERT=FILE gatehouse serve     environment\n"
                "  tls-cert: FILE                              config file, YAML\n"
                "As an argument, a flag stands alone, or has =false to turn it off again. In the other two\n"
                "places it is true or false:\n"
                "  GATEHOUSE_LOG_REQUESTS=true gatehouse serve\n"
                "  log-requests: true\n"
                "GATEHOUSE_CONFIG can name the file. A wrong or unknown setting stops the start before\n"
                "anything is opened, and the message says where it is. --check-config shows the settings\n"
                "that would be in force.",
        .run = run,
};
