/* User: `gatehouse user …`: accounts and their addresses, through a running server. */
#include <inttypes.h>
#include <string.h>

#include "cli/job.h"
#include "cli/user.h"

/* ---- one call, one answer ---- */

static enum err_code show(struct remote *r, const struct remote_call *q, struct err *err)
{
	struct remote_answer answer;

	if (remote_call(r, q, &answer, err) != ERR_NONE)
		return err->code;
	return remote_end(r, &answer, err);
}

static enum err_code run_show(struct remote *r, struct err *err)
{
	return remote_simple(r, "GET", "/v1/users/%", err);
}

/* With --reason, if it is given. */
static enum err_code run_reasoned(struct remote *r, const char *path, struct err *err)
{
	struct remote_call q = {.method = "POST", .path = remote_path(r, path, r->arguments)};

	if (user_options_of(r)->reason == NULL)
		return remote_simple(r, "POST", path, err);
	return remote_simple_with(r, &q, "reason", bytes_of(user_options_of(r)->reason), err);
}

static enum err_code run_suspend(struct remote *r, struct err *err)
{
	return run_reasoned(r, "/v1/users/%/suspend", err);
}

static enum err_code run_reactivate(struct remote *r, struct err *err)
{
	return run_reasoned(r, "/v1/users/%/reactivate", err);
}

static enum err_code run_delete(struct remote *r, struct err *err)
{
	return remote_simple(r, "DELETE", "/v1/users/%", err);
}

static enum err_code run_erase(struct remote *r, struct err *err)
{
	struct remote_call q = {.method = "POST", .path = remote_path(r, "/v1/users/%/erase", r->arguments)};

	if (!user_options_of(r)->yes)
		return err_set(err, ERR_INVALID,
		               "everything known of the user would go, for good; add --yes if you mean it");
	return job_run(r, &q, user_options_of(r)->no_wait, NULL, err);
}

static enum err_code run_revoke_tokens(struct remote *r, struct err *err)
{
	return run_reasoned(r, "/v1/users/%/revoke-tokens", err);
}

static enum err_code run_remove_email(struct remote *r, struct err *err)
{
	return remote_simple(r, "DELETE", "/v1/users/%/emails/%", err);
}

static enum err_code run_find(struct remote *r, struct err *err)
{
	struct bytes email;

	if (remote_value(r, r->arguments[0], "an email address", &email, err) != ERR_NONE)
		return err->code;
	return remote_simple_with(r,
	                          &(struct remote_call){.method = "POST", .path = BYTES("/v1/users/lookup")},
	                          "email", email, err);
}

static enum err_code run_add_email(struct remote *r, struct err *err)
{
	struct remote_call q = {.method = "POST", .path = remote_path(r, "/v1/users/%/emails", r->arguments)};
	struct bytes       email;

	if (remote_value(r, r->arguments[1], "an email address", &email, err) != ERR_NONE)
		return err->code;
	return remote_simple_with(r, &q, "email", email, err);
}

/* A wrong code is an answer to the server, and a failure to whoever typed it. */
static enum err_code run_verify_email(struct remote *r, struct err *err)
{
	struct remote_answer answer;
	const struct json   *verified;
	struct json_writer   w;
	struct bytes         code;
	struct buf           body;
	struct remote_call   q = {.method = "POST",
	                          .path = remote_path(r, "/v1/users/%/emails/%/verify", r->arguments)};

	remote_ask("code: ");
	if (remote_secret(r, "-", "the code", &code, err) != ERR_NONE)
		return err->code;
	buf_init(&body, &r->arena);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	json_member_text(&w, BYTES("code"), code);
	json_end_object(&w);
	q.body = buf_bytes(&body);
	if (remote_call(r, &q, &answer, err) != ERR_NONE)
		return err->code;
	if (remote_end(r, &answer, err) != ERR_NONE)
		return err->code;
	verified = json_get(answer.body, BYTES("verified"));
	if (verified == NULL || verified->type != JSON_BOOL || !json_truth(verified))
		return err_set(err, ERR_CONDITION,
		               "the address is not verified; add-email makes another code for it");
	return ERR_NONE;
}

static enum err_code run_set_primary(struct remote *r, struct err *err)
{
	struct remote_call q = {.method = "PUT",
	                        .path = remote_path(r, "/v1/users/%/primary-email", r->arguments)};

	return remote_simple_with(r, &q, "emailId", bytes_of(r->arguments[1]), err);
}

/* ---- lists ---- */

static enum err_code run_list(struct remote *r, struct err *err)
{
	struct show_table table = {.columns = {"id", "status", "email", "version", "updatedAt"}};

	return remote_list(r,
	                   &(struct remote_list){.path = BYTES("/v1/users"),
	                                         .member = "users",
	                                         .page = USERS_PAGE,
	                                         .rows_max = user_options_of(r)->limit},
	                   &table, err);
}

static enum err_code run_emails(struct remote *r, struct err *err)
{
	struct show_table table = {.columns = {"id", "email", "isVerified", "isPrimary", "createdAt"}};
	struct bytes      path = remote_path(r, "/v1/users/%/emails", r->arguments);

	return remote_list(r, &(struct remote_list){.path = path, .member = "emails"}, &table, err);
}

/* ---- fields: firstName=Ann attributes.plan=gold phone= ---- */

#define ATTRIBUTES "attributes."

/* An empty value takes the field away. */
static void put_field(struct json_writer *w, struct bytes name, const char *value)
{
	json_name(w, name);
	if (*value == '\0')
		json_null(w);
	else
		json_string(w, bytes_of(value));
}

static enum err_code check_field(const char *argument, struct err *err)
{
	const char *equals = strchr(argument, '=');

	if (equals == NULL || equals == argument)
		return err_set(err, ERR_INVALID, "\"%s\" is not of the form FIELD=VALUE, as in firstName=Ann",
		               argument);
	if (!bytes_is_utf8(bytes_of(argument)))
		return err_set(err, ERR_INVALID, "%.*s: must be UTF-8", (int)(equals - argument), argument);
	return ERR_NONE;
}

static void put_fields(struct json_writer *w, const char *const *arguments, bool attributes)
{
	size_t skip = attributes ? strlen(ATTRIBUTES) : 0;

	for (; *arguments != NULL; arguments++) {
		const char *equals = strchr(*arguments, '=');

		if ((strncmp(*arguments, ATTRIBUTES, strlen(ATTRIBUTES)) == 0) == attributes)
			put_field(w, (struct bytes){*arguments + skip, (size_t)(equals - *arguments) - skip},
			          equals + 1);
	}
}

static bool has_attributes(const char *const *arguments)
{
	for (; *arguments != NULL; arguments++)
		if (strncmp(*arguments, ATTRIBUTES, strlen(ATTRIBUTES)) == 0)
			return true;
	return false;
}

/* What --fields names, and over it what the arguments say. `id`: empty, or the member that a new user has. `from`: the first argument
 * that is a field. */
static enum err_code write_body(struct remote *r, const char *id, int from, struct bytes *out,
                                struct err *err)
{
	struct buf         body;
	struct json_writer w;

	buf_init(&body, &r->arena);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	for (int i = from; i < r->count; i++)
		if (check_field(r->arguments[i], err) != ERR_NONE)
			return err->code;
	json_member_text(&w, BYTES("id"), bytes_of(id));
	if (remote_members(r, user_options_of(r)->fields, "{\"firstName\": \"Ann\"}", &w, err) != ERR_NONE)
		return err->code;
	put_fields(&w, r->arguments + from, false);
	if (has_attributes(r->arguments + from)) {
		json_key(&w, BYTES("attributes"));
		json_begin_object(&w);
		put_fields(&w, r->arguments + from, true);
		json_end_object(&w);
	}
	json_end_object(&w);
	*out = buf_bytes(&body);
	return ERR_NONE;
}

static enum err_code run_create(struct remote *r, struct err *err)
{
	struct remote_call q = {.method = "POST", .path = BYTES("/v1/users")};
	bool               has_id = r->count > 0 && strchr(r->arguments[0], '=') == NULL;

	if (write_body(r, has_id ? r->arguments[0] : "", has_id ? 1 : 0, &q.body, err) != ERR_NONE)
		return err->code;
	return show(r, &q, err);
}

/* Unless --version says which version the change is for, it is for the one that is there now. */
static enum err_code run_set(struct remote *r, struct err *err)
{
	struct remote_call   q = {.method = "PATCH", .path = remote_path(r, "/v1/users/%", r->arguments)};
	struct remote_answer before;

	if (write_body(r, "", 1, &q.body, err) != ERR_NONE)
		return err->code;
	if (user_options_of(r)->version > 0)
		q.if_match = arena_printf(&r->arena, "\"%" PRIu64 "\"", user_options_of(r)->version);
	else if (remote_call(r, &(struct remote_call){.method = "GET", .path = q.path}, &before, err) !=
	         ERR_NONE)
		return err->code;
	else
		q.if_match = before.etag;
	return show(r, &q, err);
}

/* ---- the table ---- */

enum {
	CREATE,
	SHOW,
	LIST,
	FIND,
	SET,
	SUSPEND,
	REACTIVATE,
	DELETE,
	ERASE,
	EMAILS,
	ADD_EMAIL,
	VERIFY_EMAIL,
	REMOVE_EMAIL,
	SET_PRIMARY,
	REVOKE_TOKENS,
	IMPORT,
	EXPORT,
	WORDS
};

static const struct command_word words[WORDS] = {
        [CREATE] = {"create", "[ID] [FIELD=VALUE ...]", "create a user; without an ID, one is generated"},
        [SHOW] = {"show", "ID", "show one user"},
        [LIST] = {"list", NULL, "list users, by id"},
        [FIND] = {"find", "EMAIL|-", "find the user of an address"},
        [SET] = {"set", "ID FIELD=VALUE ...", "change fields; an empty VALUE removes one"},
        [SUSPEND] = {"suspend", "ID", "block the account and its tokens at once"},
        [REACTIVATE] = {"reactivate", "ID", "unblock a suspended account"},
        [DELETE] = {"delete", "ID", "mark the account deleted; its rows and addresses stay"},
        [ERASE] = {"erase", "ID --yes", "remove everything known of the user, from every table"},
        [EMAILS] = {"emails", "ID", "list a user's addresses"},
        [ADD_EMAIL] = {"add-email", "ID EMAIL|-", "add an address, or make another code for it"},
        [VERIFY_EMAIL] = {"verify-email", "ID EMAIL_ID", "enter the code, from standard input"},
        [REMOVE_EMAIL] = {"remove-email", "ID EMAIL_ID", "remove an address that is not the primary one"},
        [SET_PRIMARY] = {"set-primary", "ID EMAIL_ID", "make a verified address the primary one"},
        [REVOKE_TOKENS] = {"revoke-tokens", "ID", "revoke all tokens issued to the user up to now"},
        [IMPORT] = {"import", "FILE", "import users, one JSON object per line; again: goes on"},
        [EXPORT] = {"export", NULL, "print all users with their addresses, one JSON object per line"},
};

static const struct remote_word functions[WORDS] = {
        [CREATE] = {run_create, 0, REMOTE_ARGUMENTS_MAX},
        [SHOW] = {run_show, 1, 1},
        [LIST] = {run_list, 0, 0},
        [FIND] = {run_find, 1, 1},
        [SET] = {run_set, 1, REMOTE_ARGUMENTS_MAX},
        [SUSPEND] = {run_suspend, 1, 1},
        [REACTIVATE] = {run_reactivate, 1, 1},
        [DELETE] = {run_delete, 1, 1},
        [ERASE] = {run_erase, 1, 1},
        [EMAILS] = {run_emails, 1, 1},
        [ADD_EMAIL] = {run_add_email, 2, 2},
        [VERIFY_EMAIL] = {run_verify_email, 2, 2},
        [REMOVE_EMAIL] = {run_remove_email, 2, 2},
        [SET_PRIMARY] = {run_set_primary, 2, 2},
        [REVOKE_TOKENS] = {run_revoke_tokens, 1, 1},
        [IMPORT] = {user_import_run, 1, 1},
        [EXPORT] = {user_export_run, 0, 0},
};

static const struct option_spec options[] = {
        REMOTE_OPTIONS,
        {"--fields", OPTION_TEXT, "FILE", "create, set: fields as a JSON object; - reads standard input",
         offsetof(struct user_options, fields), 0, 0},
        {"--version", OPTION_NUMBER, "N", "set: only if the user still has this version",
         offsetof(struct user_options, version), 1, INT64_MAX},
        {"--limit", OPTION_NUMBER, "N", "list: at most so many users (default: all)",
         offsetof(struct user_options, limit), 1, INT64_MAX},
        {"--reason", OPTION_TEXT, "TEXT", "suspend, reactivate, revoke-tokens: why, for those who look later",
         offsetof(struct user_options, reason), 0, 0},
        {"--report", OPTION_TEXT, "FILE", "import: what became of each line (default: FILE.report)",
         offsetof(struct user_options, report), 0, 0},
        {"--run", OPTION_TEXT, "NAME", "import: the same name, the same answers (default: the file's digest)",
         offsetof(struct user_options, run), 0, 0},
        {"--no-events", OPTION_FLAG, NULL, "import: publish nothing",
         offsetof(struct user_options, no_events), 0, 0},
        {"--yes", OPTION_FLAG, NULL, "erase: yes, for good", offsetof(struct user_options, yes), 0, 0},
        {"--no-wait", OPTION_FLAG, NULL, "erase: start the job and do not wait for it",
         offsetof(struct user_options, no_wait), 0, 0},
};

static int run(int argc, char **argv)
{
	struct user_options o = {.fields = NULL};

	return remote_run(&command_user, functions, &o.remote, (struct arguments){argc, argv});
}

const struct command command_user = {
        .name = "user",
        .help = "create, find, change, suspend and erase users of a running server",
        .about = "Manages users and their email addresses through a running server. The key comes from\n"
                 "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, as `gatehouse key show NAME` prints it.\n"
                 "FIELD is firstName, lastName, phone, email (create only) or attributes.NAME.",
        .words = words,
        .word_count = WORDS,
        .options = {options, OPTIONS_COUNT(options)},
        .more = "Other users of this machine can see arguments while the command runs. To keep personal "
                "data\n"
                "out of them, write - for an address, or give --fields -, and use standard input:\n"
                "  echo ann@example.org | gatehouse user find -\n"
                "  gatehouse user create ann --fields - <ann.json\n"
                "Exit status 0: done. 1: refused or failed. 2: an argument is wrong.",
        .run = run,
};
