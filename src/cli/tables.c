/* Tables: `gatehouse tables plan|create|check|policy`: sets up the tables at a DynamoDB endpoint, for servers with --engine dynamodb. Has the
 * settings of `serve`, from the same file and environment, as far as they are about tables; server/table_plan.h does the work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/settings.h"
#include "cli/table_options.h"
#include "cli/tables.h"
#include "server/table_policy.h"

enum { WAIT_S_DEFAULT = 600, WAIT_S_MAX = 24 * 3600 };

struct tables_arguments {
	struct serve_options       o;
	struct table_settings_text t;
	const char                *config, *account, *policy_for;
	uint64_t                   wait_s;
	bool                       json, offline, help;
};

/* What the functions of the words work on. */
struct tables_run {
	const struct tables_arguments *arguments;
	struct arena                   arena;
	struct table_plan              plan;
	struct endpoint               *endpoint; /* NULL: it was not asked */
};

extern char **environ;

static int failed(const char *word, const struct err *err)
{
	fprintf(stderr, "gatehouse tables %s: %s\n", word, err->text);
	return err->code == ERR_INVALID ? 2 : 1;
}

/* ---- text ---- */

static void print_wanted(const struct plan_table *t, const struct table_plan *p)
{
	struct arena              *a = p->arena;
	const struct table_schema *w = &t->wanted;

	printf("    keys: %s\n", plan_keys_text(a, &w->keys));
	if (w->ttl_attribute.len > 0)
		printf("    expired rows are removed, by the attribute %.*s\n", BYTES_ARG(w->ttl_attribute));
	for (uint32_t i = 0; i < w->index_count; i++)
		printf("    index %.*s: keys %s\n", BYTES_ARG(w->indexes[i].name),
		       plan_keys_text(a, &w->indexes[i].keys));
	printf("    billing: %s\n", plan_billing_text(a, w));
	if (p->settings.recovery)
		printf("    point-in-time recovery: on\n");
	if (p->settings.kms_key.len > 0)
		printf("    encryption: with %.*s\n", BYTES_ARG(p->settings.kms_key));
	if (p->settings.protection)
		printf("    deletion protection: on\n");
	for (uint32_t i = 0; i < w->tag_count; i++)
		printf("    tag %.*s=%.*s\n", BYTES_ARG(w->tags[i].key), BYTES_ARG(w->tags[i].value));
}

static void print_differences(const struct plan_table *t)
{
	for (uint32_t i = 0; i < t->count; i++) {
		const struct plan_difference *d = &t->differences[i];

		printf("    %s: %s; wanted: %s\n        %s\n", d->what, d->there, d->wanted,
		       d->by_hand != NULL ? d->by_hand : "`gatehouse tables create` does this");
	}
	for (uint32_t i = 0; i < t->note_count; i++)
		printf("    note: %s\n", t->notes[i]);
}

static void print_table(const struct plan_table *t, const struct table_plan *p, bool creates)
{
	printf("  %.*s (%s): %s\n", BYTES_ARG(t->name), service_table_shape(t->which)->holds,
	       !t->present    ? creates ? "will be created" : "missing"
	       : t->count > 0 ? "differs"
	                      : "as wanted");
	if (!t->present && creates)
		print_wanted(t, p);
	else if (!t->present)
		printf("    create it with `gatehouse tables create`\n");
	print_differences(t);
}

static void print_notes(const struct table_plan *p)
{
	for (uint32_t i = 0; i < p->note_count; i++)
		printf("Note: %s.\n", p->notes[i]);
}

static void print_head(const struct tables_run *r)
{
	if (r->endpoint != NULL)
		printf("Tables at %s, region %s:\n", endpoint_url(r->endpoint), endpoint_region(r->endpoint));
	else
		printf("Tables, without asking an endpoint:\n");
}

static void print_plan(const struct tables_run *r, const struct tables_sum *sum)
{
	print_head(r);
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++)
		print_table(&r->plan.tables[i], &r->plan, true);
	print_notes(&r->plan);
	printf("%u to create, %u to change, %u as wanted.\n", sum->missing, sum->different, sum->good);
	if (sum->by_hand > 0)
		printf("%u differences need your hand: see above.\n", sum->by_hand);
	if (sum->missing + sum->different > 0)
		printf("Nothing was done yet. `gatehouse tables create`, with the same settings, does it.\n");
}

static void print_check(const struct tables_run *r, const struct tables_sum *sum)
{
	print_head(r);
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++)
		print_table(&r->plan.tables[i], &r->plan, false);
	print_notes(&r->plan);
	printf("%u missing, %u different, %u as wanted.\n", sum->missing, sum->different, sum->good);
}

struct tables_sum tables_sum(const struct table_plan *p)
{
	struct tables_sum sum = {0};

	for (int i = 0; i < SERVICE_TABLE_COUNT; i++) {
		const struct plan_table *t = &p->tables[i];

		sum.missing += !t->present;
		sum.different += t->present && t->count > 0;
		sum.good += t->present && t->count == 0;
		for (uint32_t d = 0; d < t->count; d++)
			sum.by_hand += t->differences[d].by_hand != NULL;
	}
	return sum;
}

/* ---- the words ---- */

static void put_json(struct buf *out)
{
	buf_add_byte(out, '\n');
	fwrite(out->data, 1, out->len, stdout);
}

static int shown(struct tables_run *r, void (*print)(const struct tables_run *, const struct tables_sum *))
{
	struct tables_sum  sum = tables_sum(&r->plan);
	struct json_writer w;
	struct buf         out;

	if (!r->arguments->json) {
		print(r, &sum);
		return 0;
	}
	buf_init(&out, &r->arena);
	json_writer_init(&w, &out);
	tables_json(&w, &r->plan, r->endpoint, &sum);
	put_json(&out);
	return 0;
}

static enum err_code plan(struct tables_run *r, int *status, struct err *err)
{
	if (r->endpoint != NULL && table_plan_look(&r->plan, r->endpoint, err) != ERR_NONE)
		return err->code;
	*status = shown(r, print_plan);
	return ERR_NONE;
}

static enum err_code check(struct tables_run *r, int *status, struct err *err)
{
	struct tables_sum sum;

	if (table_plan_look(&r->plan, r->endpoint, err) != ERR_NONE)
		return err->code;
	shown(r, print_check);
	sum = tables_sum(&r->plan);
	*status = sum.missing + sum.different > 0;
	return ERR_NONE;
}

static void step_begins(void *ctx, const struct plan_table *t, const char *what)
{
	*(bool *)ctx = true;
	printf("%.*s: %s …", BYTES_ARG(t->name), what);
	fflush(stdout);
}

static void step_goes_on(void *ctx, struct bytes table, struct bytes status, int64_t waited_s)
{
	(void)ctx;
	(void)table;
	printf(" %.*s, %lld s …", BYTES_ARG(status), (long long)waited_s);
	fflush(stdout);
}

static void step_ended(void *ctx, const struct plan_table *t, enum plan_outcome outcome)
{
	(void)t;
	*(bool *)ctx = false;
	printf(" %s\n", outcome == PLAN_DONE ? "done" : "this endpoint does not have it: not done");
}

/* What is not as wanted afterwards is said as `check` says it. */
static enum err_code create(struct tables_run *r, int *status, struct err *err)
{
	bool              in_step = false;
	struct plan_watch watch = {
	        .ctx = &in_step,
	        .wait = {.most_s = (int64_t)r->arguments->wait_s, .progress = step_goes_on},
	        .begins = step_begins,
	        .ended = step_ended};
	struct tables_sum sum;

	if (table_plan_look(&r->plan, r->endpoint, err) != ERR_NONE)
		return err->code;
	if (table_plan_apply(&r->plan, r->endpoint, &watch, err) != ERR_NONE) {
		if (in_step)
			printf("\n");
		return err->code;
	}
	if (table_plan_look(&r->plan, r->endpoint, err) != ERR_NONE)
		return err->code;
	sum = tables_sum(&r->plan);
	if (sum.missing + sum.different > 0) {
		print_check(r, &sum);
	} else {
		printf("All %d tables are there, as wanted.\n", SERVICE_TABLE_COUNT);
		print_notes(&r->plan);
	}
	*status = sum.missing + sum.different > 0;
	return ERR_NONE;
}

static enum err_code policy(struct tables_run *r, int *status, struct err *err)
{
	const struct tables_arguments *o = r->arguments;
	struct table_policy_place      place = {.account = o->account};
	int                            what = 0;
	struct json_writer             w;
	struct buf                     out;

	while (what < POLICY_FOR_KINDS && strcmp(o->policy_for, table_policy_names[what]) != 0)
		what++;
	if (what == POLICY_FOR_KINDS)
		return err_set(err, ERR_INVALID, "--for: must be serve, create or import");
	if (o->account == NULL)
		return err_set(err, ERR_INVALID,
		               "set --account, the account's 12 digits: aws sts get-caller-identity --query "
		               "Account");
	if (endpoint_region_find(&o->o, &r->arena, &place.region, err) != ERR_NONE ||
	    table_policy_place_check(&place, err) != ERR_NONE)
		return err->code;
	buf_init(&out, &r->arena);
	json_writer_init(&w, &out);
	table_policy_write(&w, &r->plan, (enum table_policy_for)what, &place);
	put_json(&out);
	*status = 0;
	return ERR_NONE;
}

static const struct command_word words[] = {
        {"plan", NULL, "print what would be created or changed"},
        {"create", NULL, "create what is missing, turn on what is wanted, and wait"},
        {"check", NULL, "name every difference; exit with 1 if there are any"},
        {"policy", NULL, "print the least IAM policy, as JSON"},
};

static enum err_code (*const functions[])(struct tables_run *, int *, struct err *) = {plan, create, check,
                                                                                       policy};

enum { WORDS = OPTIONS_COUNT(words) };

/* ---- running ---- */

/* `plan --offline` and `policy` need no endpoint. */
static enum err_code connect(struct tables_run *r, int word, struct err *err)
{
	if (functions[word] == policy || (functions[word] == plan && r->arguments->offline))
		return ERR_NONE;
	return endpoint_connect(&r->endpoint, &r->arguments->o, clock_system(), err);
}

/* An option that the word does not have would be thought to do something: `create --offline` must not create. */
static enum err_code word_check(const struct tables_arguments *o, int word, struct err *err)
{
	if (o->offline && functions[word] != plan)
		return err_set(err, ERR_INVALID, "--offline: only for `gatehouse tables plan`");
	if (o->json && functions[word] != plan && functions[word] != check)
		return err_set(err, ERR_INVALID, "--json: only for `gatehouse tables plan` and `check`");
	return ERR_NONE;
}

static int run_word(struct tables_arguments *o, int word)
{
	struct tables_run     r = {.arguments = o};
	struct table_settings settings;
	struct service_tables names;
	struct err            err;
	int                   status = 1;

	arena_init(&r.arena);
	names = services_tables(&o->o);
	if (word_check(o, word, &err) != ERR_NONE || service_tables_check(&names, &err) != ERR_NONE ||
	    table_settings_read(&o->t, &r.arena, &settings, &err) != ERR_NONE) {
		status = failed(words[word].name, &err);
	} else {
		table_plan_init(&r.plan, &o->o, &settings, &r.arena);
		if (connect(&r, word, &err) != ERR_NONE || functions[word](&r, &status, &err) != ERR_NONE)
			status = failed(words[word].name, &err);
	}
	endpoint_close(r.endpoint);
	arena_release(&r.arena);
	return status;
}

#define AT(field) offsetof(struct tables_arguments, field)

static const struct option_spec options[] = {
        {"--config", OPTION_CONFIG, "FILE",
         "settings in YAML, the same file as that of `gatehouse serve`: the options below, without the "
         "dashes",
         AT(config), 0, 0},
        TABLE_PREFIX_OPTION,
        {"--region", OPTION_TEXT, "NAME",
         "region of the tables (default: AWS_REGION, AWS_DEFAULT_REGION or the profile's)", AT(o.region), 0,
         0},
        {"--table-billing", OPTION_TEXT, "KIND",
         "`on-demand` or `provisioned` (default: new tables on demand, others as they are)", AT(t.billing), 0,
         0},
        {"--table-units", OPTION_TEXT, "LIST",
         "provisioned: READ/WRITE units per second of every table, or TABLE=READ/WRITE of one; several with "
         "commas (default: 5/5)",
         AT(t.units), 0, 0},
        {"--table-recovery", OPTION_FLAG, NULL, "turn on point-in-time recovery", AT(t.recovery), 0, 0},
        {"--table-kms-key", OPTION_TEXT, "ARN",
         "encrypt with this key of yours (default: a key that DynamoDB owns)", AT(t.kms_key), 0, 0},
        {"--table-protection", OPTION_FLAG, NULL, "turn on deletion protection", AT(t.protection), 0, 0},
        {"--table-tags", OPTION_TEXT, "KEY=VALUE,…", "tags that each table has, beside any others",
         AT(t.tags), 0, 0},
        TABLE_NAME_OPTIONS,
        {"--wait-s", OPTION_NUMBER, "N", "create: seconds to wait for one step (default: 600)", AT(wait_s), 1,
         WAIT_S_MAX},
        {"--offline", OPTION_ACTION, NULL, "plan: print what is wanted, without asking the endpoint",
         AT(offline), 0, 0},
        {"--for", OPTION_TEXT, "WHOM",
         "policy: `serve`, for a server whose tables are there, `create`, for whoever runs this command, "
         "or `import`, for import and export (default: serve)",
         AT(policy_for), 0, 0},
        {"--account", OPTION_TEXT, "DIGITS", "policy: the AWS account that the tables are in", AT(account), 0,
         0},
        {"--json", OPTION_ACTION, NULL, "plan, check: print JSON", AT(json), 0, 0},
        {"--help", OPTION_ACTION, NULL, "print this help", AT(help), 0, 0},
};

static int run(int argc, char **argv)
{
	struct tables_arguments arguments = {
	        .o = serve_options_default(), .policy_for = "serve", .wait_s = WAIT_S_DEFAULT};
	const char     *said = argc > 0 && argv[0][0] != '-' ? argv[0] : NULL;
	struct settings settings;
	struct err      err;
	int             word = 0, status;

	arguments.o.engine = "dynamodb";
	settings_init(&settings, OPTIONS(options), &arguments);
	settings.others = command_serve.options;
	status = settings_read(&settings, environ, argc - (said != NULL), argv + (said != NULL), &err) ==
	                         ERR_NONE
	                 ? 0
	                 : 2;
	while (said != NULL && word < WORDS && strcmp(said, words[word].name) != 0)
		word++;
	if (arguments.help || said == NULL) {
		command_help(&command_tables);
		status = arguments.help ? 0 : 2;
	} else if (word == WORDS) {
		status = command_word_unknown(&command_tables, said);
	} else {
		status = status == 0 ? run_word(&arguments, word) : failed(said, &err);
	}
	settings_release(&settings);
	return status;
}

const struct command command_tables = {
        .name = "tables",
        .help = "set up the tables at a DynamoDB endpoint",
        .about = "Sets up the tables at a DynamoDB endpoint, for servers that run with --engine dynamodb.\n"
                 "Credentials, region and endpoint are found where the AWS SDKs look for them.",
        .words = words,
        .word_count = WORDS,
        .options = {options, OPTIONS_COUNT(options)},
        .more = "No command deletes anything or touches rows. `create` can be run again at any time: it "
                "only\n"
                "does what is left to do. What it must not do, like changing keys, `plan` and `check` "
                "explain.\n"
                "What you do not set is not compared, and stays as it is on tables that are there.\n"
                "\n"
                "Settings come from arguments, the environment and the --config file, as those of\n"
                "`gatehouse serve` do:\n"
                "  gatehouse tables plan --table-prefix prod- --table-recovery\n"
                "  GATEHOUSE_TABLE_PREFIX=prod- gatehouse tables create\n"
                "  gatehouse tables check --config /etc/gatehouse/gatehouse.yaml\n"
                "  gatehouse tables policy --account 123456789012 --region eu-west-1 >policy.json",
        .run = run,
};
