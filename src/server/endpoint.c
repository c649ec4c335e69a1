/* Endpoint: see endpoint.h. */
#include "server/endpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/policy.h"
#include "base/log.h"
#include "remote/inspect.h"
#include "server/services.h"
#include "service/row.h"

/* How often, and how far apart, a table is looked at that has no time to live yet. */
enum { TTL_LOOKS_MAX = 3, TTL_LOOK_S = 1 };

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

enum err_code endpoint_region_find(const struct serve_options *options, struct arena *a, const char **out,
                                   struct err *err)
{
	struct endpoint e = {0};
	enum err_code   rc;

	if (strcmp(options->region, ACCESS_REGION) != 0) {
		*out = options->region;
		return ERR_NONE;
	}
	if (aws_credentials_open(&environment_process, clock_system(), &e.credentials, err) != ERR_NONE)
		return err_set(err, ERR_INVALID, "no region is set: set --region");
	rc = region_find(&e, options, err);
	if (rc == ERR_NONE)
		*out = arena_printf(a, "%s", e.region).data;
	aws_credentials_close(e.credentials);
	return rc;
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

	e->url = set != NULL
	                 ? set
	                 : aws_url(&e->arena, "dynamodb", e->region, aws_credentials_network(e->credentials));
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

/* Before anything is sent: a source that gives none has an error of its own. */
static enum err_code credentials_try(struct endpoint *e, struct err *err)
{
	struct aws_credential one;
	struct arena          a;
	struct err            why;
	enum err_code         rc;

	arena_init(&a);
	rc = aws_credentials_get(e->credentials, &a, &one, &why);
	arena_release(&a);
	if (rc == ERR_NONE)
		return rc;
	return err_set(err, rc,
	               "no AWS credentials (from: %s): %s. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
	               "or AWS_PROFILE",
	               aws_credentials_source(e->credentials), why.text);
}

enum err_code endpoint_connect(struct endpoint **out, const struct serve_options *options,
                               struct clock *clock, struct err *err)
{
	struct endpoint *e = mem_zalloc(sizeof(*e));

	arena_init(&e->arena);
	*out = e;
	if (aws_credentials_open(&environment_process, clock_system(), &e->credentials, err) != ERR_NONE ||
	    region_find(e, options, err) != ERR_NONE || credentials_try(e, err) != ERR_NONE)
		return err->code;
	return store_open(e, options, clock, err);
}

/* ---- the tables, before anything is served from them ---- */

/* All that a start looks at. */
struct tables_look {
	struct remote        *remote;
	struct service_tables tables;
	struct arena         *arena;
	const char *region, *sole_writer; /* this one; the one that may write global tables, or NULL */
	struct buf  missing;              /* "a", "b" */
	bool        has_rows;             /* the one that is looked at has no time to live, and rows */
};

/* Ours, as far as the keys tell, but without the time to live that it is to have. */
static bool is_half_made(const struct tables_look *l, enum service_table which,
                         const struct table_schema *there)
{
	struct err why;

	return there->ttl_attribute.len == 0 && service_table_shape(which)->ttl[0] != '\0' &&
	       service_table_check(&l->tables, which, there, &why) == ERR_NONE;
}

struct ttl_turn {
	struct turn_request base; /* first */
	struct table_alter  alter;
	struct arena       *arena;
};

/* One that holds rows may be somebody else's, whose rows would vanish. */
static enum err_code ttl_run(struct turn_request *w, struct table *t)
{
	struct ttl_turn          *x = (struct ttl_turn *)w;
	struct table_query        any = {.table = x->alter.table, .consistent = true, .limit = 1};
	struct table_query_result r;
	struct table_description  now;

	if (t->backend->query(t, x->arena, &any, &r, &w->err) != ERR_NONE)
		return w->err.code;
	if (r.scanned > 0)
		return err_set(&w->err, ERR_CONDITION, "it holds rows, which may not be ours");
	return t->backend->alter(t, x->arena, &x->alter, &now, &w->err);
}

/* A server that was killed between making a table and turning its time to live on left the rest to the next. Where that cannot be done,
 * the check names it. */
static enum err_code ttl_finish(struct tables_look *l, enum service_table which, struct table_schema *there,
                                struct err *err)
{
	struct table_change ttl = {.kind = CHANGE_TTL,
	                           .ttl_attribute = bytes_of(service_table_shape(which)->ttl)};
	struct ttl_turn     x = {.base = {.run = ttl_run, .cost_bytes = 4096},
	                         .alter = {.table = l->tables.names[which], .changes = &ttl, .count = 1},
	                         .arena = l->arena};
	struct err          why;

	enum err_code rc;

	l->has_rows = false;
	if (l->tables.never_made || !is_half_made(l, which, there))
		return ERR_NONE;
	rc = store_run(remote_store(l->remote), &x.base, &why);
	l->has_rows = rc == ERR_CONDITION;
	if (rc != ERR_NONE && !l->has_rows)
		log_warn("the time to live of the table \"%.*s\" is not turned on: %s",
		         BYTES_ARG(l->tables.names[which]), why.text);
	return remote_look(l->remote, l->arena, l->tables.names[which], there, err);
}

/* Whoever makes a table turns its time to live on next: another process may be about to. */
static enum err_code look_patiently(struct tables_look *l, enum service_table which, struct table_schema *out,
                                    struct err *err)
{
	enum err_code rc = remote_look(l->remote, l->arena, l->tables.names[which], out, err);

	for (int i = 0; i < TTL_LOOKS_MAX && rc == ERR_NONE && is_half_made(l, which, out); i++) {
		sleep(TTL_LOOK_S);
		rc = remote_look(l->remote, l->arena, l->tables.names[which], out, err);
	}
	return rc == ERR_NONE ? ttl_finish(l, which, out, err) : rc;
}

static enum err_code ttl_check(const struct tables_look *l, enum service_table which,
                               const struct table_schema *there, struct err *err)
{
	const char *wanted = service_table_shape(which)->ttl;

	if (*wanted == '\0' || bytes_is(there->ttl_attribute, wanted))
		return ERR_NONE;
	if (there->ttl_attribute.len == 0 && l->has_rows)
		return err_set(
		        err, ERR_FOREIGN_TABLE,
		        "the table \"%.*s\" has no time to live, and holds rows. If they are Gatehouse's, "
		        "because a server was killed while it made the table, run `gatehouse tables "
		        "create`, which turns it on for the attribute %s, and start again. If they are "
		        "another program's, use another --table-prefix: rows with such an attribute "
		        "would vanish",
		        BYTES_ARG(l->tables.names[which]), wanted);
	if (there->ttl_attribute.len == 0)
		return err_set(err, ERR_FOREIGN_TABLE,
		               "the table \"%.*s\" has no time to live: rows that have expired would stay "
		               "for ever. Turn it on, for the attribute %s, with `gatehouse tables create`",
		               BYTES_ARG(l->tables.names[which]), wanted);
	return err_set(err, ERR_FOREIGN_TABLE,
	               "the table \"%.*s\" has its time to live in the attribute %.*s, but rows have it in "
	               "%s: turn it off, wait an hour, and run `gatehouse tables create`",
	               BYTES_ARG(l->tables.names[which]), BYTES_ARG(there->ttl_attribute), wanted);
}

static enum err_code index_check(const struct tables_look *l, enum service_table which,
                                 const struct table_schema *there, struct err *err)
{
	if (which != TABLE_DEVICES || !l->tables.device_index || !l->tables.never_made ||
	    schema_index(there, BYTES(DEVICE_INDEX)) != NULL)
		return ERR_NONE;
	return err_set(err, ERR_FOREIGN_TABLE,
	               "the table \"%.*s\" has no index " DEVICE_INDEX
	               ", and --create-tables is never: add it "
	               "with `gatehouse tables create --device-index`",
	               BYTES_ARG(l->tables.names[which]));
}

/* Two regions that write both win: the later write is kept, whatever its condition was. So counts, locks and addresses would be lost. */
static enum err_code replicas_check(const struct tables_look *l, enum service_table which,
                                    const struct table_schema *there, struct err *err)
{
	struct bytes name = l->tables.names[which], regions = there->replicas;

	if (regions.len == 0)
		return ERR_NONE;
	if (l->sole_writer == NULL)
		return err_set(
		        err, ERR_FOREIGN_TABLE,
		        "the table \"%.*s\" is a global table, with replicas in: %.*s. If two regions write, "
		        "one loses what the other counted or locked. If all processes that write are in "
		        "one region, set --sole-writer-region to it",
		        BYTES_ARG(name), BYTES_ARG(regions));
	if (strcmp(l->sole_writer, l->region) != 0)
		return err_set(err, ERR_INVALID,
		               "sole-writer-region: is %s, but this process would write in %s. To fail over, "
		               "stop all "
		               "processes in %s first, and then set it to %s everywhere",
		               l->sole_writer, l->region, l->sole_writer, l->region);
	log_warn(
	        "the table \"%.*s\" is a global table, with replicas in: %.*s. It may be written in %s alone",
	        BYTES_ARG(name), BYTES_ARG(regions), l->region);
	return ERR_NONE;
}

static enum err_code table_look(struct tables_look *l, enum service_table which, struct err *err)
{
	struct table_schema there;
	enum err_code       rc = look_patiently(l, which, &there, err);
	struct err          why;

	if (rc == ERR_NO_RESOURCE) {
		buf_add_bytes(&l->missing,
		              arena_printf(l->arena, "%s\"%.*s\"", l->missing.len > 0 ? ", " : "",
		                           BYTES_ARG(l->tables.names[which])));
		return ERR_NONE;
	}
	if (rc != ERR_NONE)
		return rc;
	if (service_table_check(&l->tables, which, &there, &why) != ERR_NONE)
		return err_set(err, ERR_FOREIGN_TABLE,
		               "%s. Somebody else made it: use another name (--table-…) or another "
		               "--table-prefix. `gatehouse tables check` names every difference",
		               why.text);
	if (ttl_check(l, which, &there, err) != ERR_NONE || replicas_check(l, which, &there, err) != ERR_NONE)
		return err->code;
	return index_check(l, which, &there, err);
}

static enum err_code tables_look(struct endpoint *e, const struct serve_options *options, struct arena *a,
                                 struct err *err)
{
	struct tables_look l = {.remote = e->remote,
	                        .tables = services_tables(options),
	                        .arena = a,
	                        .region = e->region,
	                        .sole_writer = options->sole_writer_region};
	struct table_get   any = {.table = l.tables.names[TABLE_AUTH_STATE],
	                          .key = row_key_in(a, TABLE_AUTH_STATE, BYTES("-"), BYTES("-"))};

	buf_init(&l.missing, a);
	if (remote_transactions_check(e->remote, a, &any, err) != ERR_NONE)
		return err->code;
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++)
		if (table_look(&l, (enum service_table)i, err) != ERR_NONE)
			return err->code;
	if (l.missing.len == 0 || !l.tables.never_made)
		return ERR_NONE;
	return err_set(
	        err, ERR_NO_RESOURCE,
	        "missing tables: %.*s, and --create-tables is never. Create them with `gatehouse tables "
	        "create`, or check region, account and --table-prefix",
	        (int)l.missing.len, l.missing.data);
}

static enum err_code tables_check(struct endpoint *e, const struct serve_options *options, struct err *err)
{
	struct arena  a;
	struct err    why;
	enum err_code rc;

	arena_init(&a);
	rc = tables_look(e, options, &a, &why);
	arena_release(&a);
	if (rc == ERR_NONE)
		return rc;
	if (*prefix_of(options) == '\0')
		return err_set(err, rc, "engine dynamodb, at %s: %s", e->url, why.text);
	return err_set(err, rc, "engine dynamodb, at %s, where table names begin with \"%s\": %s", e->url,
	               prefix_of(options), why.text);
}

enum err_code endpoint_open(struct endpoint **out, const struct serve_options *options, struct clock *clock,
                            struct err *err)
{
	*out = NULL;
	if (data_make(options->data, err) != ERR_NONE ||
	    endpoint_connect(out, options, clock, err) != ERR_NONE ||
	    tables_check(*out, options, err) != ERR_NONE)
		return err->code;
	log_info("tables are at %s, region %s, with the names \"%s…\"; credentials: %s", (*out)->url,
	         (*out)->region, prefix_of(options), aws_credentials_source((*out)->credentials));
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

struct remote *endpoint_remote(struct endpoint *e)
{
	return e->remote;
}

const char *endpoint_region(const struct endpoint *e)
{
	return e->region;
}

const char *endpoint_url(const struct endpoint *e)
{
	return e->url;
}
