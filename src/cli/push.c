/* Push: `gatehouse push …`: push messages through a running server, and what became of them. */
#include <inttypes.h>

#include "cli/job.h"

#define NOTIFICATIONS "/v1/notifications"

enum { PAGE = 100 };

struct push_cli_options {
	struct remote_options remote; /* first */
	const char           *title, *body, *data, *priority, *platform, *on_unknown;
	uint64_t              limit, ttl;
	bool                  all;
};

static const struct push_cli_options *options_of(const struct remote *r)
{
	return (const struct push_cli_options *)r->options;
}

static void text_member(struct json_writer *w, const char *name, const char *text)
{
	if (text != NULL)
		json_member_text(w, bytes_of(name), bytes_of(text));
}

/* A user, a platform, or all: exactly one of them. */
static enum err_code check_whom(const struct remote *r, struct err *err)
{
	const struct push_cli_options *o = options_of(r);

	if ((r->arguments[0] != NULL) + (o->platform != NULL) + o->all != 1)
		return err_set(err, ERR_INVALID, "whom to? Name a USER, or set --platform or --all");
	return ERR_NONE;
}

static enum err_code run_send(struct remote *r, struct err *err)
{
	const struct push_cli_options *o = options_of(r);
	struct remote_call             q = {.method = "POST", .path = BYTES(NOTIFICATIONS)};
	struct remote_answer           answer;
	struct json_writer             w;
	struct buf                     body;

	if (check_whom(r, err) != ERR_NONE)
		return err->code;
	if (r->arguments[0] != NULL)
		q.path = remote_path(r, "/v1/users/%/notify", r->arguments);
	buf_init(&body, &r->arena);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	text_member(&w, "title", o->title);
	text_member(&w, "body", o->body);
	text_member(&w, "priority", o->priority);
	text_member(&w, "platform", o->platform);
	text_member(&w, "onUnknown", o->on_unknown);
	if (o->ttl > 0)
		json_member_i64(&w, BYTES("ttl"), (int64_t)o->ttl);
	if (o->data != NULL) {
		json_key(&w, BYTES("data"));
		json_raw(&w, bytes_of(o->data));
	}
	json_end_object(&w);
	q.body = buf_bytes(&body);
	if (remote_call(r, &q, &answer, err) != ERR_NONE)
		return err->code;
	remote_show(r, &answer);
	return ERR_NONE;
}

static enum err_code run_show(struct remote *r, struct err *err)
{
	return remote_simple(r, "GET", NOTIFICATIONS "/%", err);
}

static enum err_code run_cancel(struct remote *r, struct err *err)
{
	return remote_simple(r, "POST", NOTIFICATIONS "/%/cancel", err);
}

static enum err_code run_list(struct remote *r, struct err *err)
{
	struct show_table  table = {.columns = {"id", "state", "messages", "counts.accepted",
	                                        "counts.delivered", "counts.failed", "counts.unknown",
	                                        "createdAt"}};
	struct remote_list q = {.path = BYTES(NOTIFICATIONS),
	                        .member = "notifications",
	                        .page = PAGE,
	                        .rows_max = options_of(r)->limit};

	return remote_list(r, &q, &table, err);
}

/* ---- the table ---- */

enum { SEND, SHOW, LIST, CANCEL, WORDS };

static const struct command_word words[WORDS] = {
        [SEND] = {"send", "[USER]", "send a message to a user's devices, a platform or all"},
        [SHOW] = {"show", "ID", "show what became of a notification"},
        [LIST] = {"list", NULL, "list notifications, the newest first"},
        [CANCEL] = {"cancel", "ID", "drop what still waits of a notification"},
};

static const struct remote_word functions[WORDS] = {
        [SEND] = {run_send, 0, 1},
        [SHOW] = {run_show, 1, 1},
        [LIST] = {run_list, 0, 0},
        [CANCEL] = {run_cancel, 1, 1},
};

#define AT(member) offsetof(struct push_cli_options, member)

static const struct option_spec options[] = {
        REMOTE_OPTIONS,
        {"--title", OPTION_TEXT, "TEXT", "send: the title", AT(title), 0, 0},
        {"--body", OPTION_TEXT, "TEXT", "send: the text", AT(body), 0, 0},
        {"--data", OPTION_TEXT, "JSON", "send: an object for the app", AT(data), 0, 0},
        {"--priority", OPTION_TEXT, "NAME", "send: default, normal or high", AT(priority), 0, 0},
        {"--ttl", OPTION_NUMBER, "SECONDS", "send: how long it is worth delivering", AT(ttl), 1, 2419200},
        {"--on-unknown", OPTION_TEXT, "NAME", "send: if there is no answer: retry or give_up", AT(on_unknown),
         0, 0},
        {"--platform", OPTION_TEXT, "NAME", "send: to all devices of ios or android", AT(platform), 0, 0},
        {"--all", OPTION_FLAG, NULL, "send: to all devices", AT(all), 0, 0},
        {"--limit", OPTION_NUMBER, "N", "list: at most so many (default: all)", AT(limit), 1, INT64_MAX},
};

static int run(int argc, char **argv)
{
	struct push_cli_options o = {.limit = 0};

	return remote_run(&command_push, functions, &o.remote, (struct arguments){argc, argv});
}

const struct command command_push = {
        .name = "push",
        .help = "push messages through a running server: send, show, list, cancel",
        .about = "Sends push messages to registered devices through a running server, and shows what became "
                 "of them.",
        .words = words,
        .word_count = WORDS,
        .options = {options, OPTIONS_COUNT(options)},
        .run = run,
};
