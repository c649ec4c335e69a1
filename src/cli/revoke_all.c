/* Revoke all: `gatehouse revoke-all`: everyone's tokens in one commit, or those of the users that a filter names, as a job with progress. */
#include <stdio.h>
#include <string.h>

#include "cli/job.h"

struct revoke_options {
	struct remote_options remote; /* first */
	const char           *reason, *users, *status, *provider, *created_before, *not_before;
	bool                  yes;
	struct job_start      job;
};

static const struct revoke_options *options_of(const struct remote *r)
{
	return (const struct revoke_options *)r->options;
}

static void write_said(struct json_writer *w, const char *name, const char *value)
{
	if (value != NULL)
		json_member_text(w, bytes_of(name), bytes_of(value));
}

/* One id per line. */
static enum err_code write_users(struct remote *r, struct json_writer *w, struct err *err)
{
	struct bytes text;

	if (input_read(options_of(r)->users, REMOTE_INPUT_BYTES_MAX, &r->arena, &text, err) != ERR_NONE)
		return err->code;
	if (!bytes_is_utf8(text))
		return err_set(err, ERR_INVALID, "%s: must be UTF-8, one id per line", options_of(r)->users);
	json_key(w, BYTES("users"));
	json_begin_array(w);
	while (text.len > 0) {
		const char  *end = memchr(text.data, '\n', text.len);
		size_t       len = end == NULL ? text.len : (size_t)(end - text.data);
		struct bytes id = bytes_trimmed((struct bytes){text.data, len});

		if (id.len > 0)
			json_string(w, id);
		len += end != NULL;
		text = (struct bytes){text.data + len, text.len - len};
	}
	json_end_array(w);
	return ERR_NONE;
}

static enum err_code revoke_some(struct remote *r, struct err *err)
{
	const struct revoke_options *o = options_of(r);
	struct remote_call           q = {.method = "POST", .path = BYTES("/v1/revoke-users")};
	struct json_writer           w;
	struct buf                   body;

	buf_init(&body, &r->arena);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	if (o->users != NULL && write_users(r, &w, err) != ERR_NONE)
		return err->code;
	write_said(&w, "status", o->status);
	write_said(&w, "provider", o->provider);
	write_said(&w, "createdBefore", o->created_before);
	write_said(&w, "notBefore", o->not_before);
	write_said(&w, "reason", o->reason);
	job_start_write(&w, &o->job);
	json_end_object(&w);
	q.body = buf_bytes(&body);
	return job_run(r, &q, o->job.no_wait, NULL, err);
}

static enum err_code revoke_everyone(struct remote *r, struct err *err)
{
	const struct revoke_options *o = options_of(r);
	struct remote_call           q = {.method = "POST", .path = BYTES("/v1/revoke-all")};
	struct remote_answer         answer;
	struct json_writer           w;
	struct buf                   body;

	buf_init(&body, &r->arena);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	write_said(&w, "reason", o->reason);
	write_said(&w, "not_before", o->not_before);
	json_member_bool(&w, BYTES("dry_run"), o->job.dry_run);
	json_end_object(&w);
	q.body = buf_bytes(&body);
	if (remote_call(r, &q, &answer, err) != ERR_NONE)
		return err->code;
	remote_show(r, &answer);
	return ERR_NONE;
}

static enum err_code run_revoke(struct remote *r, struct err *err)
{
	const struct revoke_options *o = options_of(r);
	bool some = o->users != NULL || o->status != NULL || o->provider != NULL || o->created_before != NULL;

	if (o->reason == NULL)
		return err_set(err, ERR_INVALID, "missing --reason TEXT, which is kept with the revocation");
	if (!o->job.dry_run && !o->yes)
		return err_set(err, ERR_INVALID,
		               "%s would have to sign in again; try it with --dry-run, then add --yes",
		               some ? "these users" : "everyone");
	return some ? revoke_some(r, err) : revoke_everyone(r, err);
}

/* ---- the table ---- */

static const struct remote_word function = {run_revoke, 0, 0};

static const struct option_spec options[] = {
        REMOTE_OPTIONS,
        {"--reason", OPTION_TEXT, "TEXT", "why, for those who look later",
         offsetof(struct revoke_options, reason), 0, 0},
        {"--yes", OPTION_FLAG, NULL, "yes, sign them out", offsetof(struct revoke_options, yes), 0, 0},
        {"--users", OPTION_TEXT, "FILE",
         "only these users: a file with one id per line; - reads standard input",
         offsetof(struct revoke_options, users), 0, 0},
        {"--status", OPTION_TEXT, "STATUS", "only users that are active, suspended or deleted",
         offsetof(struct revoke_options, status), 0, 0},
        {"--provider", OPTION_TEXT, "NAME", "only users who came from this identity provider",
         offsetof(struct revoke_options, provider), 0, 0},
        {"--created-before", OPTION_TEXT, "TIME",
         "only users created before 2026-11-15T22:00:00Z or the like",
         offsetof(struct revoke_options, created_before), 0, 0},
        {"--not-before", OPTION_TEXT, "TIME", "tokens issued up to that second (default: now)",
         offsetof(struct revoke_options, not_before), 0, 0},
        JOB_OPTIONS(struct revoke_options, job, "users"),
};

static int run(int argc, char **argv)
{
	struct revoke_options o = {.reason = NULL};

	return remote_run(&command_revoke_all, &function, &o.remote, (struct arguments){argc, argv});
}

const struct command command_revoke_all = {
        .name = "revoke-all",
        .help = "revoke everyone's tokens, or those of many users, at once",
        .about = "Revokes every token that was issued up to now: one commit, and the next check of each "
                 "token\n"
                 "sees it. With --users, --status, --provider or --created-before it revokes the tokens of\n"
                 "those users only: a job, whose progress is shown.",
        .options = {options, OPTIONS_COUNT(options)},
        .more = "Look first, then do it:\n"
                "  gatehouse revoke-all --reason \"keys leaked\" --dry-run\n"
                "  gatehouse revoke-all --reason \"keys leaked\" --yes",
        .run = run,
};
