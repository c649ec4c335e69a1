/* Serve options: the defaults, and what may not be served together. Nothing is opened here: --check-config asks the same. */
#include <string.h>

#include "access/policy.h"
#include "api/auth.h"
#include "http/http.h"
#include "remote/remote.h"
#include "server/identity.h"
#include "server/serve.h"
#include "server/services.h"
#include "service/hot_keys.h"
#include "service/outage.h"

struct serve_options serve_options_default(void)
{
	struct serve_options  options = {.listen = "127.0.0.1:8420",
	                                 .data = "data",
	                                 .engine = "embedded",
	                                 .workers = REMOTE_WORKERS_DEFAULT,
	                                 .endpoint_attempt_ms = REMOTE_ATTEMPT_MS,
	                                 .endpoint_call_ms = REMOTE_TURN_MS,
	                                 .known_mb = OUTAGE_KNOWN_MB,
	                                 .processes = 1,
	                                 .spool_mb = OUTAGE_SPOOL_MB,
	                                 .denied_ms = OUTAGE_DENIED_MS,
	                                 .token_known_s = OUTAGE_TOKEN_S,
	                                 .create_tables = "on-demand",
	                                 .region = ACCESS_REGION,
	                                 .queue_mb = 64,
	                                 .expression_mb = 64,
	                                 .clock_jump_max_days = 30,
	                                 .limits_mb = 64,
	                                 .hot_key_units = HOT_KEYS_WARN_UNITS,
	                                 .targets_per_key = TARGETS_PER_KEY,
	                                 .consumers_per_key = CONSUMERS_PER_KEY,
	                                 .followers_per_key = EVENT_FOLLOWERS_PER_KEY,
	                                 .metrics_ms = SCRAPE_MS,
	                                 .email_claims = "verified",
	                                 .device_shards = DEVICE_SHARDS_DEFAULT};
	struct service_tables tables = service_tables_default();

	for (int i = 0; i < SERVICE_TABLE_COUNT; i++)
		options.tables[i] = tables.names[i].data;
	return options;
}

bool serve_is_loopback(const struct serve_options *options)
{
	struct bytes text = bytes_of(options->listen);

	return bytes_starts_with(text, BYTES("127.")) || bytes_starts_with(text, BYTES("[::1]:")) ||
	       bytes_starts_with(text, BYTES("localhost:"));
}

static enum err_code check_tls(const struct serve_options *options, struct err *err)
{
	if ((options->tls_cert == NULL) != (options->tls_key == NULL))
		return err_set(err, ERR_INVALID, "%s is missing: a certificate and its key go together",
		               options->tls_cert == NULL ? "--tls-cert" : "--tls-key");
	if (options->tls_client_ca != NULL && options->tls_cert == NULL)
		return err_set(err, ERR_INVALID, "--tls-client-ca needs --tls-cert and --tls-key");
	return ERR_NONE;
}

static enum err_code check_access(const struct serve_options *options, struct err *err)
{
	if (serve_is_loopback(options))
		return ERR_NONE;
	if (options->no_auth)
		return err_set(err, ERR_INVALID,
		               "--no-auth is refused on %s: without authentication, the server listens on "
		               "loopback only (127.0.0.1, [::1])",
		               options->listen);
	if (options->tls_cert == NULL && !options->plain_http)
		return err_set(err, ERR_INVALID,
		               "%s is not loopback: set --tls-cert and --tls-key, or --plain-http if the "
		               "network is trusted",
		               options->listen);
	return ERR_NONE;
}

bool serve_is_remote(const struct serve_options *options)
{
	return strcmp(options->engine, "dynamodb") == 0;
}

static enum err_code check_engine(const struct serve_options *options, struct err *err)
{
	if (!serve_is_remote(options) && strcmp(options->engine, "embedded") != 0)
		return err_set(err, ERR_INVALID, "engine: must be embedded or dynamodb");
	if (strcmp(options->create_tables, "on-demand") != 0 && strcmp(options->create_tables, "now") != 0 &&
	    strcmp(options->create_tables, "never") != 0)
		return err_set(err, ERR_INVALID, "create-tables: must be on-demand, now or never");
	if (!serve_is_remote(options) && options->event_shards > 1)
		return err_set(
		        err, ERR_INVALID,
		        "event-shards: a new log of events on this machine has one shard: one writer writes "
		        "it, and more would gain nothing. Leave the setting out, or use --engine dynamodb. "
		        "A log that was imported keeps the shards that it has, without the setting");
	return ERR_NONE;
}

enum err_code serve_check(const struct serve_options *options, struct err *err)
{
	if (http_address_check(options->listen, err) != ERR_NONE || check_tls(options, err) != ERR_NONE ||
	    check_engine(options, err) != ERR_NONE ||
	    access_region_check(bytes_of(options->region), "region", err) != ERR_NONE ||
	    services_check(options, err) != ERR_NONE || identity_check(options->identity, err) != ERR_NONE)
		return err->code;
	if (options->host_names != NULL && origin_names_check(bytes_of(options->host_names), err) != ERR_NONE)
		return err->code;
	return check_access(options, err);
}
