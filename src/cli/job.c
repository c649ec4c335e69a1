/* Job: `gatehouse job list|show|wait|cancel|resume`: long work of a running server. */
#include "cli/job.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	PAGE = 100,
	FIRST_PAUSE_MS = 100, /* doubles up to the last */
	LAST_PAUSE_MS = 2000,
	LINE_EVERY_US = 10 * 1000 * 1000, /* of progress, where there is no terminal */
	LINE_BYTES_MAX = 512,
};

struct job_options {
	struct remote_options remote; /* first */
	const char           *kind, *state;
	uint64_t              limit;
};

static const struct job_options *options_of(const struct remote *r)
{
	return (const struct job_options *)r->options;
}

/* ---- progress ---- */

/* One line of progress, written over and over at a terminal, and now and then elsewhere. */
struct progress {
	bool    terminal;
	int64_t began_us, shown_us;
};

static bool member_is(const struct json *object, const char *name, const char *text)
{
	const struct json *m = json_get(object, bytes_of(name));

	return m != NULL && m->type == JSON_STRING && bytes_is(json_text(m), text);
}

static struct bytes text_of(const struct json *object, const char *name)
{
	const struct json *m = json_get(object, bytes_of(name));

	return m != NULL && m->type == JSON_STRING ? json_text(m) : (struct bytes){"", 0};
}

static void line_of(const struct json *job, int64_t seconds, char out[LINE_BYTES_MAX])
{
	const struct json *progress = json_get(job, BYTES("progress"));
	size_t             len =
	        (size_t)snprintf(out, LINE_BYTES_MAX, "%.*s: %.*s, %" PRIi64 " s",
	                         BYTES_ARG(text_of(job, "kind")), BYTES_ARG(text_of(job, "state")), seconds);

	if (progress == NULL || progress->type != JSON_OBJECT)
		return;
	for (const struct json *m = json_children(progress); m != NULL && len < LINE_BYTES_MAX; m = m->next)
		if (m->type == JSON_INT)
			len += (size_t)snprintf(out + len, LINE_BYTES_MAX - len, ", %.*s %" PRIi64,
			                        BYTES_ARG(m->name), json_integer(m));
}

static void progress_show(struct progress *p, const struct json *job, bool last)
{
	int64_t now_us = clock_steady_us(clock_system());
	char    line[LINE_BYTES_MAX];

	if (!p->terminal && !last && now_us - p->shown_us < LINE_EVERY_US)
		return;
	p->shown_us = now_us;
	line_of(job, (now_us - p->began_us) / 1000000, line);
	if (p->terminal)
		fprintf(stderr, "\r\033[K");
	show_text(stderr, bytes_of(line));
	if (last || !p->terminal)
		fprintf(stderr, "\n");
	fflush(stderr);
}

static void rest(int64_t ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

/* ---- waiting ---- */

/* Until it has ended; *out is the answer that says so. */
static enum err_code await(struct remote *r, struct bytes id, struct remote_answer *out, struct err *err)
{
	char            text[128];
	const char     *arguments[] = {text, NULL};
	struct progress p = {isatty(STDERR_FILENO) != 0, clock_steady_us(clock_system()), 0};
	int64_t         pause_ms = FIRST_PAUSE_MS;

	snprintf(text, sizeof(text), "%.*s", BYTES_ARG(id));
	p.shown_us = p.began_us;
	for (;;) {
		struct arena       before = r->arena;
		struct remote_call q = {.method = "GET", .path = remote_path(r, "/v1/jobs/%", arguments)};

		if (remote_call(r, &q, out, err) != ERR_NONE)
			return err->code;
		if (!member_is(out->body, "state", "running"))
			break;
		progress_show(&p, out->body, false);
		arena_rewind(&r->arena, before);
		rest(pause_ms);
		pause_ms = 2 * pause_ms > LAST_PAUSE_MS ? LAST_PAUSE_MS : 2 * pause_ms;
	}
	progress_show(&p, out->body, true);
	return ERR_NONE;
}

static enum err_code await_done(struct remote *r, struct bytes id, const struct json **ended, struct err *err)
{
	struct remote_answer last;

	if (await(r, id, &last, err) != ERR_NONE)
		return err->code;
	remote_show(r, &last);
	if (ended != NULL)
		*ended = last.body;
	if (member_is(last.body, "state", "done"))
		return ERR_NONE;
	return err_set(err, ERR_CONDITION,
	               "the job is %.*s; `gatehouse job resume %.*s` goes on where it stopped",
	               BYTES_ARG(text_of(last.body, "state")), BYTES_ARG(id));
}

void job_start_write(struct json_writer *w, const struct job_start *s)
{
	if (s->dry_run)
		json_member_bool(w, BYTES("dryRun"), true);
	if (s->rate > 0)
		json_member_i64(w, BYTES("rate"), (int64_t)s->rate);
}

enum err_code job_run(struct remote *r, const struct remote_call *q, bool no_wait, const struct json **ended,
                      struct err *err)
{
	struct remote_answer started;
	struct bytes         id;

	if (remote_call(r, q, &started, err) != ERR_NONE)
		return err->code;
	id = text_of(started.body, "id");
	if (id.len == 0)
		return err_set(err, ERR_STORAGE,
		               "the answer names no job; does the endpoint lead to Gatehouse?");
	if (!no_wait)
		return await_done(r, id, ended, err);
	remote_show(r, &started);
	if (ended != NULL)
		*ended = started.body;
	return ERR_NONE;
}

/* ---- words ---- */

static enum err_code run_list(struct remote *r, struct err *err)
{
	const struct job_options *o = options_of(r);
	struct show_table table = {.columns = {"id", "kind", "state", "dryRun", "createdAt", "updatedAt"}};

	return remote_list(r,
	                   &(struct remote_list){.path = BYTES("/v1/jobs"),
	                                         .member = "jobs",
	                                         .page = PAGE,
	                                         .rows_max = o->limit,
	                                         .filters = {{"kind", o->kind}, {"state", o->state}}},
	                   &table, err);
}

static enum err_code run_show(struct remote *r, struct err *err)
{
	return remote_simple(r, "GET", "/v1/jobs/%", err);
}

static enum err_code run_wait(struct remote *r, struct err *err)
{
	return await_done(r, bytes_of(r->arguments[0]), NULL, err);
}

static enum err_code run_cancel(struct remote *r, struct err *err)
{
	return remote_simple(r, "POST", "/v1/jobs/%/cancel", err);
}

static enum err_code run_resume(struct remote *r, struct err *err)
{
	return remote_simple(r, "POST", "/v1/jobs/%/resume", err);
}

/* ---- the table ---- */

enum { LIST, SHOW, WAIT, CANCEL, RESUME, WORDS };

static const struct command_word words[WORDS] = {
        [LIST] = {"list", NULL, "list jobs, newest first"},
        [SHOW] = {"show", "ID", "show one job and how far it is"},
        [WAIT] = {"wait", "ID", "wait until it has ended, with its progress"},
        [CANCEL] = {"cancel", "ID", "stop it; what it did stays done"},
        [RESUME] = {"resume", "ID", "go on with one that failed or was cancelled"},
};

static const struct remote_word functions[WORDS] = {
        [LIST] = {run_list, 0, 0},     [SHOW] = {run_show, 1, 1},     [WAIT] = {run_wait, 1, 1},
        [CANCEL] = {run_cancel, 1, 1}, [RESUME] = {run_resume, 1, 1},
};

static const struct option_spec options[] = {
        REMOTE_OPTIONS,
        {"--kind", OPTION_TEXT, "KIND", "list: only jobs of this kind", offsetof(struct job_options, kind), 0,
         0},
        {"--state", OPTION_TEXT, "STATE", "list: only running, done, failed or cancelled ones",
         offsetof(struct job_options, state), 0, 0},
        {"--limit", OPTION_NUMBER, "N", "list: at most so many (default: all)",
         offsetof(struct job_options, limit), 1, INT64_MAX},
};

static int run(int argc, char **argv)
{
	struct job_options o = {.limit = 0};

	return remote_run(&command_job, functions, &o.remote, (struct arguments){argc, argv});
}

const struct command command_job = {
        .name = "job",
        .help = "watch, cancel and resume long work of a running server",
        .about = "Erasing a user, revoking tokens in bulk and comparing users with an identity provider are\n"
                 "jobs. A job survives a restart of the server. `wait` fails if the job failed.",
        .words = words,
        .word_count = WORDS,
        .options = {options, OPTIONS_COUNT(options)},
        .run = run,
};
