/* Transfer: `gatehouse export` and `gatehouse import`: tables with all their rows into a directory, and back (migrate/export.h). Progress
 * goes to standard error: a line that is drawn again on a terminal, else one per table. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "migrate/export.h"
#include "migrate/secrets.h"
#include "server/serve.h"

enum { REDRAW_US = 200 * 1000, TABLES_MAX = 256 };

/* Of both commands; each uses some. */
struct transfer_options {
	struct place_options place;
	const char          *dir, *tables, *data;
	bool                 gzip, into_existing, check, keys_only, help;
};

#define AT(member) offsetof(struct transfer_options, member)
#define PLACE_OPTIONS                                                                                        \
	{"--endpoint",                                                                                       \
	 OPTION_TEXT,                                                                                        \
	 "URL",                                                                                              \
	 "where the tables are: a Gatehouse, or any DynamoDB endpoint (default: AWS's settings)",            \
	 AT(place.endpoint),                                                                                 \
	 0,                                                                                                  \
	 0},                                                                                                 \
	        {"--region",                                                                                 \
	         OPTION_TEXT,                                                                                \
	         "REGION",                                                                                   \
	         "what requests are signed for (default: AWS's settings; with --endpoint, local)",           \
	         AT(place.region),                                                                           \
	         0,                                                                                          \
	         0},                                                                                         \
	{                                                                                                    \
		"--table-prefix", OPTION_TEXT, "TEXT", "what the names of all tables begin with there",      \
		        AT(place.table_prefix), 0, 0                                                         \
	}

static const struct option_spec export_options[] = {
        {"--to", OPTION_TEXT, "DIR", "the directory to write to", AT(dir), 0, 0},
        PLACE_OPTIONS,
        {"--tables", OPTION_TEXT, "NAME,NAME",
         "which tables, without the prefix (default: those of the identity API that are there)", AT(tables),
         0, 0},
        {"--data", OPTION_TEXT, "DIR", "also take identifiers.key and devices.key from this data directory",
         AT(data), 0, 0},
        {"--gzip", OPTION_FLAG, NULL, "compress the rows", AT(gzip), 0, 0},
        {"--help", OPTION_FLAG, NULL, "print this help", AT(help), 0, 0},
};

static const struct option_spec import_options[] = {
        {"--from", OPTION_TEXT, "DIR", "the directory of an export", AT(dir), 0, 0},
        PLACE_OPTIONS,
        {"--data", OPTION_TEXT, "DIR", "also put identifiers.key and devices.key into this data directory",
         AT(data), 0, 0},
        {"--keys-only", OPTION_FLAG, NULL, "only do that: ask no endpoint, import no rows", AT(keys_only), 0,
         0},
        {"--into-existing", OPTION_FLAG, NULL,
         "also if tables hold rows: those with the same keys are replaced", AT(into_existing), 0, 0},
        {"--check", OPTION_FLAG, NULL, "only compare the tables with the export; write nothing", AT(check), 0,
         0},
        {"--help", OPTION_FLAG, NULL, "print this help", AT(help), 0, 0},
};

/* ---- progress ---- */

struct display {
	bool    terminal;
	int64_t drawn_us;
};

static void on_progress(void *ctx, const char *what, struct bytes table, uint64_t rows, bool over)
{
	struct display *d = ctx;
	int64_t         now_us;

	if (!d->terminal && !over)
		return;
	now_us = clock_steady_us(clock_system());
	if (!over && now_us - d->drawn_us < REDRAW_US)
		return;
	d->drawn_us = now_us;
	fprintf(stderr, "%s%.*s: %" PRIu64 " rows %s%s", d->terminal ? "\r\033[K" : "", BYTES_ARG(table),
	        rows, what, over ? "\n" : "");
}

/* ---- the two commands ---- */

static int failed(const char *command, const struct err *err)
{
	fprintf(stderr, "gatehouse %s: %s\n", command, err->text);
	return err->code == ERR_INVALID ? 2 : 1;
}

/* Those of --tables, or all of the identity API's. */
static enum err_code tables_of(const struct transfer_options *o, struct bytes out[TABLES_MAX],
                               uint32_t *count, struct err *err)
{
	static struct serve_options defaults;
	struct bytes                rest = o->tables == NULL ? (struct bytes){NULL, 0} : bytes_of(o->tables);

	*count = 0;
	if (o->tables == NULL) {
		defaults = serve_options_default();
		for (int i = 0; i < SERVICE_TABLE_COUNT; i++)
			out[(*count)++] = bytes_of(defaults.tables[i]);
		return ERR_NONE;
	}
	for (const char *comma; rest.data != NULL; rest = comma == NULL ? (struct bytes){NULL, 0} : rest) {
		comma = memchr(rest.data, ',', rest.len);
		if (*count == TABLES_MAX)
			return err_set(err, ERR_INVALID, "--tables: at most %d tables", TABLES_MAX);
		out[*count] =
		        (struct bytes){rest.data, comma == NULL ? rest.len : (size_t)(comma - rest.data)};
		if (!schema_name_is(out[*count]))
			return err_set(err, ERR_INVALID, "--tables: \"%.*s\" is not the name of a table",
			               BYTES_ARG(out[*count]));
		if (comma != NULL)
			rest = (struct bytes){comma + 1, rest.len - out[*count].len - 1};
		++*count;
	}
	return ERR_NONE;
}

static enum err_code do_export(struct place *p, const struct transfer_options *o,
                               const struct migrate_watch *watch, struct migrate_total *total,
                               struct err *err)
{
	struct bytes        tables[TABLES_MAX];
	struct export_order order = {.dir = o->dir,
	                             .data = o->data,
	                             .tables = tables,
	                             .lenient = o->tables == NULL,
	                             .gzip = o->gzip};
	enum err_code       rc = tables_of(o, tables, &order.count, err);

	if (rc != ERR_NONE)
		return rc;
	return export_run(p, &order, watch, total, err);
}

static enum err_code do_import(struct place *p, const struct transfer_options *o,
                               const struct migrate_watch *watch, struct migrate_total *total,
                               struct err *err)
{
	struct import_order order = {.dir = o->dir, .into_existing = o->into_existing, .check = o->check};

	if (o->data != NULL && !o->check && secrets_import(o->dir, o->data, err) != ERR_NONE)
		return err->code;
	return import_run(p, &order, watch, total, err);
}

static void say_end(const struct transfer_options *o, bool imports, const struct migrate_total *total)
{
	if (!imports)
		printf("%s: exported %" PRIu64 " rows of %" PRIu64 " tables\n", o->dir, total->rows,
		       total->tables);
	else if (o->check)
		printf("%s: %" PRIu64 " rows of %" PRIu64 " tables are the same\n", o->dir, total->rows,
		       total->tables);
	else
		printf("%s: imported %" PRIu64 " rows of %" PRIu64 " tables, and read them back\n", o->dir,
		       total->rows, total->tables);
	if (total->expired > 0)
		printf("%" PRIu64 " rows have expired since they were exported, and were left out\n",
		       total->expired);
	if (total->one_shard)
		printf("The log of events keeps its one shard. A log that begins at a DynamoDB endpoint has "
		       "16, so "
		       "that processes are not in each other's way; docs/scaling.md says how to begin "
		       "one.\n");
}

static int say_keys(const struct transfer_options *o)
{
	printf("%s: has identifiers.key and devices.key of the export\n", o->data);
	return 0;
}

static int transfer(const struct command *c, const struct transfer_options *o, bool imports)
{
	struct display       d = {.terminal = isatty(STDERR_FILENO) == 1};
	struct migrate_watch watch = {on_progress, &d};
	struct place        *p;
	struct migrate_total total = {0};
	struct err           err;
	enum err_code        rc;

	log_set_level(LOG_WARN);
	if (place_open(&p, &o->place, &err) != ERR_NONE)
		return failed(c->name, &err);
	rc = imports ? do_import(p, o, &watch, &total, &err) : do_export(p, o, &watch, &total, &err);
	place_close(p);
	if (rc != ERR_NONE)
		return failed(c->name, &err);
	say_end(o, imports, &total);
	return 0;
}

static int run(const struct command *c, bool imports, struct arguments rest)
{
	struct transfer_options o = {0};
	struct err              err;

	if (options_parse(c->options, &o, rest.count, rest.list, &err) != ERR_NONE)
		return failed(c->name, &err);
	if (o.help) {
		command_help(c);
		return 0;
	}
	if (o.place.endpoint != NULL && o.place.region == NULL && getenv("AWS_REGION") == NULL &&
	    getenv("AWS_DEFAULT_REGION") == NULL)
		o.place.region = "local";
	if (o.dir == NULL)
		err_set(&err, ERR_INVALID, "%s DIR is missing", imports ? "--from" : "--to");
	else if (o.keys_only && o.data == NULL)
		err_set(&err, ERR_INVALID, "--data DIR is missing");
	else if (o.keys_only && o.check)
		err_set(&err, ERR_INVALID, "--keys-only: not with --check, which writes nothing");
	else if (!o.keys_only)
		return transfer(c, &o, imports);
	else if (secrets_import(o.dir, o.data, &err) == ERR_NONE)
		return say_keys(&o);
	return failed(c->name, &err);
}

static int run_export(int argc, char **argv)
{
	return run(&command_export, false, (struct arguments){argc, argv});
}

static int run_import(int argc, char **argv)
{
	return run(&command_import, true, (struct arguments){argc, argv});
}

const struct command command_export = {
        .name = "export",
        .help = "copy tables with all their rows into files",
        .about =
                "Reads tables over DynamoDB's protocol, from a Gatehouse that keeps them on its own disk or "
                "from\n"
                "any DynamoDB endpoint, into a directory: a file per table with one row per line, as AWS's "
                "own\n"
                "exports have them, and manifest.json with counts and checksums. Stop writing first: rows "
                "that\n"
                "change meanwhile may be exported as they were before or after. `gatehouse import --check`\n"
                "tells whether something has changed since. Credentials are AWS's (AWS_ACCESS_KEY_ID, …).\n\n"
                "The files hold personal data and, with --data, secrets: only their owner may read them.",
        .more = "Exit status 0: done. 1: it failed on the way. 2: it was refused. The last line says why.",
        .options = {export_options, OPTIONS_COUNT(export_options)},
        .run = run_export,
};

const struct command command_import = {
        .name = "import",
        .help = "copy an export back into tables",
        .about = "Reads the whole export first: one that is not finished, damaged or cut off is refused with "
                 "the\n"
                 "line, and nothing is written. Then makes the tables that are not there, puts every row, "
                 "reads\n"
                 "each back and compares it. Tables that hold rows are refused, unless you say "
                 "--into-existing.\n"
                 "No Gatehouse may use the tables meanwhile. If it fails on the way, run it again with\n"
                 "--into-existing: rows are replaced by themselves.",
        .more = "Exit status 0: done, or the same. 1: it failed on the way, or rows differ. 2: it was "
                "refused. The\n"
                "last line says why.",
        .options = {import_options, OPTIONS_COUNT(import_options)},
        .run = run_import,
};
