/* Endpoint: see endpoint.h. */
#include "server/endpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "access/policy.h"
#include "base/log.h"
#include "remote/remote.h"

struct endpoint {
	struct arena            arena; /* of the texts */
	struct aws_credentials *credentials;
	struct remote          *remote;
	const char             *url, *region;
};

/* What was said to this server counts for more than what AWS's settings say; `local` is nobody's region. */
static enum err_code region_find(struct endpoint *e, const struct serve_options *options, struct err *err)
{
	e->region = strcmp(options->region, ACCESS_REGION) != 0 ? options->region
	                                                        : aws_credentials_region(e->credentials);
	if (e->region != NULL)
		return ERR_NONE;
	return err_set(
	        err, ERR_INVALID,
	        "engine dynamodb: no region is set: set --region or AWS_REGION, or region in the profile");
}

static enum err_code data_make(const char *path, struct err *err)
{
	if (mkdir(path, 0700) == 0 || errno == EEXIST)
		return ERR_NONE;
	return err_set(err, ERR_STORAGE, "cannot make the data directory %s: %s", path, strerror(errno));
}

static const char *prefix_of(const struct serve_options *options)
{
	return options->table_prefix == NULL ? "" : options->table_prefix;
}

static enum err_code store_open(struct endpoint *e, const struct serve_options *options, struct clock *clock,
                                struct err *err)
{
	const char *set = aws_credentials_dynamodb(e->credentials);

	e->url = set != NULL ? set : remote_url_of_region(&e->arena, e->region);
	return remote_open(&e->remote,
	                   &(struct remote_options){.url = e->url,
	                                            .region = e->region,
	                                            .table_prefix = prefix_of(options),
	                                            .credentials = e->credentials,
	                                            .workers = (unsigned)options->workers,
	                                            .attempt_ms = (int64_t)options->endpoint_attempt_ms,
	                                            .turn_ms = (int64_t)options->endpoint_call_ms,
	                                            .queue_bytes_max = (size_t)options->queue_mb << 20,
	                                            .clock = clock,
	                                            .wire_clock = clock_system()},
	                   err);
}

enum err_code endpoint_open(struct endpoint **out, const struct serve_options *options, struct clock *clock,
                            struct err *err)
{
	struct endpoint *e = mem_zalloc(sizeof(*e));

	arena_init(&e->arena);
	*out = e;
	if (data_make(options->data, err) != ERR_NONE ||
	    aws_credentials_open(&environment_process, clock_system(), &e->credentials, err) != ERR_NONE ||
	    region_find(e, options, err) != ERR_NONE || store_open(e, options, clock, err) != ERR_NONE ||
	    remote_check(e->remote, bytes_of(options->tables[0]), err) != ERR_NONE)
		return err->code;
	log_info("tables are at %s, region %s, with the names \"%s…\"; credentials: %s", e->url, e->region,
	         prefix_of(options), aws_credentials_source(e->credentials));
	return ERR_NONE;
}

void endpoint_close(struct endpoint *e)
{
	if (e == NULL)
		return;
	if (e->remote != NULL)
		remote_close(e->remote);
	if (e->credentials != NULL)
		aws_credentials_close(e->credentials);
	arena_release(&e->arena);
	free(e);
}

struct store *endpoint_store(struct endpoint *e)
{
	return remote_store(e->remote);
}

const char *endpoint_url(const struct endpoint *e)
{
	return e->url;
}
