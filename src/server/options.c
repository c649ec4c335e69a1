/* Options: the defaults, and what may not be served together. */
#include "access/policy.h"
#include "api/auth.h"
#include "http/http.h"
#include "server/serve.h"
#include "server/services.h"

struct serve_options serve_options_default(void)
{
	struct serve_options  options = {.listen = "127.0.0.1:8420",
	                                 .data = "data",
	                                 .region = ACCESS_REGION,
	                                 .cache_mb = 64,
	                                 .queue_mb = 64,
	                                 .expression_mb = 64,
	                                 .clock_jump_max_days = 30,
	                                 .limits_mb = 64};
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

enum err_code serve_check(const struct serve_options *options, struct err *err)
{
	if (http_address_check(options->listen, err) != ERR_NONE || check_tls(options, err) != ERR_NONE ||
	    access_region_check(bytes_of(options->region), "region", err) != ERR_NONE ||
	    services_check(options, err) != ERR_NONE)
		return err->code;
	if (options->host_names != NULL && origin_names_check(bytes_of(options->host_names), err) != ERR_NONE)
		return err->code;
	return check_access(options, err);
}
