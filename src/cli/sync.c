/* Sync: `gatehouse sync …`: what an identity provider told a running server and it could not write, and how to repair it. */
#include <inttypes.h>
#include <string.h>

#include "cli/job.h"

#define LETTERS "/v1/sync/dead-letters"

enum { PAGE = 100 };

struct sync_options {
	struct remote_options remote; /* first */
	const char           *error, *missing;
	uint64_t              limit, percent;
	bool                  all;
	struct job_start      job;
};

static const struct sync_options *options_of(const struct remote *r)
{
	return (const struct sync_options *)r->options;
}

/* ---- looking ---- */

static enum err_code run_status(struct remote *r, struct err *err)
{
	struct remote_call   q = {.method = "GET", .path = BYTES(LETTERS "?limit=1")};
	struct show_table    table = {.columns = {"error", "count", "oldest"}};
	struct remote_answer answer;
	const struct json   *count, *groups;

	if (remote_call(r, &q, &answer, err) != ERR_NONE)
		return err->code;
	if (r->options->json) {
		remote_show(r, &answer);
		return ERR_NONE;
	}
	count = json_get(answer.body, BYTES("count"));
	groups = json_get(answer.body, BYTES("groups"));
	if (count == NULL || count->type != JSON_INT || groups == NULL || groups->type != JSON_ARRAY)
		return err_set(err, ERR_STORAGE,
		               "the answer has no groups; does the endpoint lead to Gatehouse?");
	printf("dead letters: %" PRIi64 "\n", json_integer(count));
	if (json_integer(count) > 0)
		show_rows(&table, groups);
	return ERR_NONE;
}

static enum err_code run_letters(struct remote *r, struct err *err)
{
	struct show_table  table = {.columns = {"provider", "id", "error", "failures", "lastAt"}};
	struct remote_list q = {.path = BYTES(LETTERS),
	                        .member = "deadLetters",
	                        .page = PAGE,
	                        .rows_max = options_of(r)->limit,
	                        .filters = {{"error", options_of(r)->error}}};

	return remote_list(r, &q, &table, err);
}

static enum err_code run_letter(struct remote *r, struct err *err)
{
	return remote_simple(r, "GET", LETTERS "/%/%", err);
}

static enum err_code run_drop(struct remote *r, struct err *err)
{
	return remote_simple(r, "DELETE", LETTERS "/%/%", err);
}

static enum err_code run_missing(struct remote *r, struct err *err)
{
	struct show_table  table = {.columns = {"id", "provider", "foundAt", "suspended"}};
	struct remote_list q = {.path = BYTES("/v1/sync/missing"),
	                        .member = "missing",
	                        .page = PAGE,
	                        .rows_max = options_of(r)->limit};

	return remote_list(r, &q, &table, err);
}

/* ---- repairing ---- */

/* A call with these members, where they are said, and those of every job. */
static struct remote_call job_call(struct remote *r, struct bytes path, const char *const members[][2])
{
	struct buf         body;
	struct json_writer w;

	buf_init(&body, &r->arena);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	for (; (*members)[0] != NULL; members++)
		if ((*members)[1] != NULL)
			json_member_text(&w, bytes_of((*members)[0]), bytes_of((*members)[1]));
	if (options_of(r)->percent > 0)
		json_member_i64(&w, BYTES("missingPercentMax"), (int64_t)options_of(r)->percent);
	job_start_write(&w, &options_of(r)->job);
	json_end_object(&w);
	return (struct remote_call){.method = "POST", .path = path, .body = buf_bytes(&body)};
}

/* Are there letters among what it did that are dead still? */
static enum err_code check_dead(const struct json *answer, struct err *err)
{
	const struct json *outcome = json_get(answer, BYTES("outcome")),
	                  *dead = show_member(answer, "progress.dead_lettered");

	if ((outcome == NULL || outcome->type != JSON_STRING ||
	     !bytes_is(json_text(outcome), "dead_lettered")) &&
	    (dead == NULL || dead->type != JSON_INT || json_integer(dead) == 0))
		return ERR_NONE;
	return err_set(err, ERR_CONDITION,
	               "some records could still not be written; `gatehouse sync status` says why");
}

static enum err_code run_redrive(struct remote *r, struct err *err)
{
	const struct sync_options *o = options_of(r);
	const char *const          members[][2] = {{"error", o->error}, {NULL, NULL}};
	struct remote_call         q = job_call(r, BYTES(LETTERS "/redrive"), members);
	struct remote_answer       answer;

	if (r->count != (o->all ? 0 : 2))
		return err_set(err, ERR_INVALID, "say PROVIDER and ID of one letter, or --all");
	if (o->all)
		return job_run(r, &q, o->job.no_wait, &answer.body, err) != ERR_NONE
		               ? err->code
		               : check_dead(answer.body, err);
	q = (struct remote_call){.method = "POST",
	                         .path = remote_path(r, LETTERS "/%/%/redrive", r->arguments)};
	if (remote_call(r, &q, &answer, err) != ERR_NONE)
		return err->code;
	remote_show(r, &answer);
	return check_dead(answer.body, err);
}

static enum err_code run_reconcile(struct remote *r, struct err *err)
{
	const struct sync_options *o = options_of(r);
	const char *const          members[][2] = {
	                 {"provider", r->arguments[0]}, {"missing", o->missing}, {NULL, NULL}};
	struct remote_call q = job_call(r, BYTES("/v1/sync/reconcile"), members);

	return job_run(r, &q, o->job.no_wait, NULL, err);
}

static enum err_code run_restore(struct remote *r, struct err *err)
{
	const struct sync_options *o = options_of(r);
	const char *const          members[][2] = {{"provider", r->arguments[0]}, {NULL, NULL}};
	struct remote_call         q = job_call(r, BYTES("/v1/sync/missing/restore"), members);

	return job_run(r, &q, o->job.no_wait, NULL, err);
}

/* ---- the table ---- */

enum { STATUS, DEAD_LETTERS, SHOW, REDRIVE, DROP, RECONCILE, MISSING, RESTORE, WORDS };

static const struct command_word words[WORDS] = {
        [STATUS] = {"status", NULL, "how many dead letters there are, by error"},
        [DEAD_LETTERS] = {"dead-letters", NULL, "list them, without personal data"},
        [SHOW] = {"show", "PROVIDER ID", "show one, with what the provider said of the user"},
        [REDRIVE] = {"redrive", "PROVIDER ID | --all", "write it again, or each of them"},
        [DROP] = {"drop", "PROVIDER ID", "give one up"},
        [RECONCILE] = {"reconcile", "[PROVIDER]", "compare the providers' users with those here, and repair"},
        [MISSING] = {"missing", NULL, "list users here whom reconciliation did not find there"},
        [RESTORE] = {"restore", "[PROVIDER]", "reactivate all whom reconciliation suspended as missing"},
};

static const struct remote_word functions[WORDS] = {
        [STATUS] = {run_status, 0, 0},   [DEAD_LETTERS] = {run_letters, 0, 0},
        [SHOW] = {run_letter, 2, 2},     [REDRIVE] = {run_redrive, 0, 2},
        [DROP] = {run_drop, 2, 2},       [RECONCILE] = {run_reconcile, 0, 1},
        [MISSING] = {run_missing, 0, 0}, [RESTORE] = {run_restore, 0, 1},
};

static const struct option_spec options[] = {
        REMOTE_OPTIONS,
        {"--error", OPTION_TEXT, "TYPE", "dead-letters, redrive --all: only those of this error",
         offsetof(struct sync_options, error), 0, 0},
        {"--all", OPTION_FLAG, NULL, "redrive: every letter", offsetof(struct sync_options, all), 0, 0},
        {"--limit", OPTION_NUMBER, "N", "dead-letters, missing: at most so many (default: all)",
         offsetof(struct sync_options, limit), 1, INT64_MAX},
        {"--missing", OPTION_TEXT, "WHAT",
         "reconcile: report or suspend users here who are missing there (default: report)",
         offsetof(struct sync_options, missing), 0, 0},
        {"--missing-max", OPTION_NUMBER, "PERCENT",
         "reconcile --missing suspend: suspend nobody if more are missing (default: 5)",
         offsetof(struct sync_options, percent), 1, 100},
        JOB_OPTIONS(struct sync_options, job, "redrive --all, reconcile, restore: letters or users"),
};

static int run(int argc, char **argv)
{
	struct sync_options o = {.error = NULL};

	return remote_run(&command_sync, functions, &o.remote, (struct arguments){argc, argv});
}

const struct command command_sync = {
        .name = "sync",
        .help = "dead letters of identity providers, and comparing users with them",
        .about =
                "A record of an identity provider that could not be written after a few tries is kept as a "
                "dead\n"
                "letter. Remove the cause, then redrive it. A letter holds personal data; the list does not\n"
                "show it.",
        .words = words,
        .word_count = WORDS,
        .options = {options, OPTIONS_COUNT(options)},
        .run = run,
};
