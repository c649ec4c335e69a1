/* Events: `gatehouse events …`: what happened, who reads it, where it is delivered, and what could not be, through a running server. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "cli/job.h"

#define CONSUMERS "/v1/consumers"
#define TARGETS   "/v1/targets"
#define LETTERS   "/v1/dead-letters"

enum { PAGE = 100, WAIT_S = 20 };

struct events_options {
	struct remote_options remote; /* first */
	const char           *after, *from, *types, *subject, *target, *type, *settings;
	uint64_t              limit;
	bool                  all, once;
	struct job_start      job;
};

static const struct events_options *options_of(const struct remote *r)
{
	return (const struct events_options *)r->options;
}

/* ---- tail ---- */

/* Where it has come to: the cursor of the last page, which the next one follows. */
struct tail {
	char     after[REMOTE_CURSOR_BYTES_MAX];
	uint64_t seen;
	bool     more;
};

/* One more parameter, after the first. */
static void query_add(struct buf *path, const char *name, const char *value)
{
	if (value == NULL || *value == '\0')
		return;
	buf_add_byte(path, '&');
	buf_add_bytes(path, bytes_of(name));
	buf_add_byte(path, '=');
	for (; *value != '\0'; value++)
		buf_add_percent(path, *value);
}

static struct bytes tail_path(struct remote *r, const struct tail *at)
{
	const struct events_options *o = options_of(r);
	uint64_t   left = o->limit == 0 || o->limit - at->seen > PAGE ? PAGE : o->limit - at->seen;
	struct buf path;

	buf_init(&path, &r->arena);
	buf_add_bytes(&path, arena_printf(&r->arena, "/v1/events?limit=%" PRIu64, left));
	query_add(&path, "types", o->types);
	query_add(&path, "subject", o->subject);
	if (at->after[0] != '\0')
		query_add(&path, "after", at->after);
	else
		query_add(&path, "from", o->from != NULL ? o->from : o->once ? "first" : "last");
	if (!o->once)
		query_add(&path, "wait", arena_printf(&r->arena, "%d", WAIT_S).data);
	return buf_bytes(&path);
}

static void print_member(const struct json *event, const char *name)
{
	const struct json *member = json_get(event, bytes_of(name));

	if (member == NULL)
		printf("-");
	else if (member->type == JSON_INT)
		printf("%" PRIi64, json_integer(member));
	else if (member->type == JSON_STRING)
		show_text(stdout, json_text(member));
	printf("  ");
}

/* One line: time, type, subject, its number, and the data as it is. */
static void print_event(struct remote *r, const struct json *event)
{
	const struct json *shown = r->options->json ? event : json_get(event, BYTES("data"));
	struct json_writer w;
	struct buf         text;

	buf_init(&text, &r->arena);
	json_writer_init(&w, &text);
	if (shown != NULL)
		json_tree(&w, shown);
	if (!r->options->json) {
		print_member(event, "time");
		print_member(event, "type");
		print_member(event, "subject");
		print_member(event, "seq");
	}
	show_text(stdout, buf_bytes(&text));
	printf("\n");
}

static enum err_code tail_page(struct remote *r, struct tail *at, struct err *err)
{
	struct remote_call   get = {.method = "GET", .path = tail_path(r, at)};
	struct remote_answer answer;
	const struct json   *events, *after, *more;

	if (remote_call(r, &get, &answer, err) != ERR_NONE)
		return err->code;
	events = json_get(answer.body, BYTES("events"));
	after = json_get(answer.body, BYTES("after"));
	more = json_get(answer.body, BYTES("more"));
	if (events == NULL || events->type != JSON_ARRAY || after == NULL || after->type != JSON_STRING ||
	    json_text(after).len >= sizeof(at->after))
		return err_set(err, ERR_STORAGE,
		               "the answer has no events; does the endpoint lead to Gatehouse?");
	for (const struct json *e = json_children(events); e != NULL; e = e->next)
		print_event(r, e);
	fflush(stdout);
	snprintf(at->after, sizeof(at->after), "%.*s", BYTES_ARG(json_text(after)));
	at->seen += events->count;
	at->more = more != NULL && more->type == JSON_BOOL && json_truth(more);
	return ERR_NONE;
}

static enum err_code run_tail(struct remote *r, struct err *err)
{
	const struct events_options *o = options_of(r);
	struct tail                  at = {.seen = 0};

	if (o->after != NULL && o->from != NULL)
		return err_set(err, ERR_INVALID, "say --after or --from, not both");
	if (!o->once && r->options->timeout_s <= WAIT_S)
		return err_set(err, ERR_INVALID,
		               "--timeout: must be more than %d: the server waits so long for an event",
		               WAIT_S);
	snprintf(at.after, sizeof(at.after), "%s", o->after == NULL ? "" : o->after);
	do {
		struct arena before = r->arena;

		if (tail_page(r, &at, err) != ERR_NONE)
			return err->code;
		arena_rewind(&r->arena, before);
	} while ((o->limit == 0 || at.seen < o->limit) && (at.more || !o->once));
	return ERR_NONE;
}

/* ---- settings: FIELD=VALUE, or a file ---- */

static bool is_number(const char *value)
{
	size_t digits = strspn(value, "0123456789");

	return digits > 0 && digits < 19 && value[digits] == '\0';
}

/* Of "a," the second one is empty, which the server refuses. */
static void put_list(struct json_writer *w, const char *value)
{
	bool more = *value != '\0';

	json_begin_array(w);
	while (more) {
		size_t len = strcspn(value, ",");

		json_string(w, (struct bytes){value, len});
		more = value[len] == ',';
		value += len + more;
	}
	json_end_array(w);
}

static void put_setting(struct json_writer *w, struct bytes name, const char *value)
{
	json_name(w, name);
	if (bytes_is(name, "types"))
		put_list(w, value);
	else if (is_number(value) || strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
		json_raw(w, bytes_of(value));
	else
		json_string(w, bytes_of(value));
}

/* Every user of the machine can see arguments. */
static bool is_secret(struct bytes name)
{
	static const char *const secrets[] = {"secret", "password", "token", "credentials", NULL};

	for (const char *const *s = secrets; *s != NULL; s++)
		if (bytes_is(name, *s))
			return true;
	return false;
}

static enum err_code put_argument(struct json_writer *w, const char *argument, struct err *err)
{
	const char  *equals = strchr(argument, '=');
	struct bytes name = {argument, equals == NULL ? 0 : (size_t)(equals - argument)};

	if (name.len == 0)
		return err_set(err, ERR_INVALID,
		               "\"%s\" is not of the form FIELD=VALUE, as in url=https://example.org/hook",
		               argument);
	if (!bytes_is_utf8(bytes_of(argument)))
		return err_set(err, ERR_INVALID, "%.*s: must be UTF-8", BYTES_ARG(name));
	if (is_secret(name))
		return err_set(err, ERR_INVALID,
		               "%.*s: other users of this machine can see arguments; put it into a file, "
		               "as JSON, and name that with --settings",
		               BYTES_ARG(name));
	put_setting(w, name, equals + 1);
	return ERR_NONE;
}

/* What --settings names, and over it the arguments after the name, as the body. */
static enum err_code run_with_settings(struct remote *r, const char *method, const char *pattern,
                                       struct err *err)
{
	struct remote_call   q = {.method = method, .path = remote_path(r, pattern, r->arguments)};
	struct remote_answer answer;
	struct json_writer   w;
	struct buf           body;

	buf_init(&body, &r->arena);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	if (remote_members(r, options_of(r)->settings, "{\"type\": \"webhook\"}", &w, err) != ERR_NONE)
		return err->code;
	for (int i = 1; i < r->count; i++)
		if (put_argument(&w, r->arguments[i], err) != ERR_NONE)
			return err->code;
	json_end_object(&w);
	q.body = buf_bytes(&body);
	if (remote_call(r, &q, &answer, err) != ERR_NONE)
		return err->code;
	remote_show(r, &answer);
	return ERR_NONE;
}

/* ---- consumers ---- */

static enum err_code run_consumers(struct remote *r, struct err *err)
{
	struct show_table table = {
	        .columns = {"name", "after", "lag.events", "lag.seconds", "partitions", "updatedAt"}};

	return remote_list(r, &(struct remote_list){.path = BYTES(CONSUMERS), .member = "consumers"}, &table,
	                   err);
}

static enum err_code run_consumer(struct remote *r, struct err *err)
{
	return remote_simple(r, "GET", CONSUMERS "/%", err);
}

static enum err_code run_set_consumer(struct remote *r, struct err *err)
{
	return run_with_settings(r, "PUT", CONSUMERS "/%", err);
}

static enum err_code run_seek_consumer(struct remote *r, struct err *err)
{
	return run_with_settings(r, "POST", CONSUMERS "/%/seek", err);
}

static enum err_code run_drop_consumer(struct remote *r, struct err *err)
{
	return remote_simple(r, "DELETE", CONSUMERS "/%", err);
}

/* ---- targets ---- */

static enum err_code run_targets(struct remote *r, struct err *err)
{
	struct show_table table = {.columns = {"name", "type", "state", "position", "lagEvents", "waiting",
	                                       "deadLetters", "sent"}};

	return remote_list(r, &(struct remote_list){.path = BYTES(TARGETS), .member = "targets"}, &table,
	                   err);
}

static enum err_code run_target(struct remote *r, struct err *err)
{
	return remote_simple(r, "GET", TARGETS "/%", err);
}

static enum err_code run_set_target(struct remote *r, struct err *err)
{
	return run_with_settings(r, "PUT", TARGETS "/%", err);
}

static enum err_code run_test_target(struct remote *r, struct err *err)
{
	struct remote_call   q = {.method = "POST", .path = remote_path(r, TARGETS "/%/test", r->arguments)};
	struct remote_answer answer;
	const struct json   *sent;

	if (remote_call(r, &q, &answer, err) != ERR_NONE)
		return err->code;
	remote_show(r, &answer);
	sent = json_get(answer.body, BYTES("sent"));
	if (sent == NULL || sent->type != JSON_BOOL || !json_truth(sent))
		return err_set(err, ERR_CONDITION, "the target did not accept the test event");
	return ERR_NONE;
}

static enum err_code run_tries(struct remote *r, struct err *err)
{
	struct show_table table = {
	        .columns = {"at", "outcome", "status", "milliseconds", "type", "event", "error"}};

	return remote_list(r,
	                   &(struct remote_list){.path = remote_path(r, TARGETS "/%/tries", r->arguments),
	                                         .member = "tries"},
	                   &table, err);
}

static enum err_code run_seek_target(struct remote *r, struct err *err)
{
	return run_with_settings(r, "POST", TARGETS "/%/seek", err);
}

static enum err_code run_enable_target(struct remote *r, struct err *err)
{
	return remote_simple(r, "POST", TARGETS "/%/enable", err);
}

static enum err_code run_disable_target(struct remote *r, struct err *err)
{
	return remote_simple(r, "POST", TARGETS "/%/disable", err);
}

static enum err_code run_rotate_secret(struct remote *r, struct err *err)
{
	return run_with_settings(r, "POST", TARGETS "/%/rotate-secret", err);
}

static enum err_code run_drop_target(struct remote *r, struct err *err)
{
	return remote_simple(r, "DELETE", TARGETS "/%", err);
}

/* ---- dead letters ---- */

static enum err_code run_letters(struct remote *r, struct err *err)
{
	const struct events_options *o = options_of(r);
	struct show_table            table = {
	                   .columns = {"target", "id", "type", "subject", "status", "error", "tries", "time"}};
	struct remote_list q = {
	        .path = BYTES(LETTERS),
	        .member = "deadLetters",
	        .page = PAGE,
	        .rows_max = o->limit,
	        .filters = {{"target", o->target}, {"type", o->type}, {"subject", o->subject}}};

	return remote_list(r, &q, &table, err);
}

static enum err_code run_letter(struct remote *r, struct err *err)
{
	return remote_simple(r, "GET", LETTERS "/%/%", err);
}

static enum err_code run_drop_letter(struct remote *r, struct err *err)
{
	return remote_simple(r, "DELETE", LETTERS "/%/%", err);
}

static enum err_code redrive_all(struct remote *r, struct err *err)
{
	const struct events_options *o = options_of(r);
	struct remote_call           q = {.method = "POST", .path = BYTES(LETTERS "/redrive")};
	struct json_writer           w;
	struct buf                   body;

	buf_init(&body, &r->arena);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	json_member_text(&w, BYTES("target"), bytes_of(o->target == NULL ? "" : o->target));
	json_member_text(&w, BYTES("type"), bytes_of(o->type == NULL ? "" : o->type));
	json_member_text(&w, BYTES("subject"), bytes_of(o->subject == NULL ? "" : o->subject));
	job_start_write(&w, &o->job);
	json_end_object(&w);
	q.body = buf_bytes(&body);
	return job_run(r, &q, o->job.no_wait, NULL, err);
}

static enum err_code run_redrive(struct remote *r, struct err *err)
{
	if (r->count != (options_of(r)->all ? 0 : 2))
		return err_set(err, ERR_INVALID,
		               "say TARGET and ID of one letter, or --all (with --target, --type or "
		               "--subject: those only)");
	return options_of(r)->all ? redrive_all(r, err)
	                          : remote_simple(r, "POST", LETTERS "/%/%/redrive", err);
}

/* ---- the table ---- */

enum {
	TAIL,
	LIST_CONSUMERS,
	CONSUMER,
	SET_CONSUMER,
	SEEK_CONSUMER,
	DROP_CONSUMER,
	LIST_TARGETS,
	TARGET,
	SET_TARGET,
	TARGET_TRIES,
	TEST_TARGET,
	SEEK_TARGET,
	ENABLE_TARGET,
	DISABLE_TARGET,
	ROTATE_SECRET,
	DROP_TARGET,
	DEAD_LETTERS,
	DEAD_LETTER,
	REDRIVE,
	DROP_LETTER,
	WORDS
};

static const struct command_word words[WORDS] = {
        [TAIL] = {"tail", NULL, "print events as they happen, one per line"},
        [LIST_CONSUMERS] = {"consumers", NULL, "list consumers, and how far behind they are"},
        [CONSUMER] = {"consumer", "NAME", "show one, with its members"},
        [SET_CONSUMER] = {"set-consumer", "NAME [FIELD=VALUE ...]", "make a consumer, or change it"},
        [SEEK_CONSUMER] = {"seek-consumer", "NAME FIELD=VALUE",
                           "move it: from=TIME|first|last or after=CURSOR"},
        [DROP_CONSUMER] = {"drop-consumer", "NAME", "forget a consumer and its position"},
        [LIST_TARGETS] = {"targets", NULL, "list targets, and how far behind they are"},
        [TARGET] = {"target", "NAME", "show one, with its last errors"},
        [SET_TARGET] = {"set-target", "NAME FIELD=VALUE ...", "make a target, or change it"},
        [TARGET_TRIES] = {"tries", "NAME", "list its last tries: what it answered, and when"},
        [SEEK_TARGET] = {"seek-target", "NAME FIELD=VALUE", "move it: from=TIME|first|last or after=CURSOR"},
        [TEST_TARGET] = {"test-target", "NAME", "send it a test event now"},
        [ENABLE_TARGET] = {"enable-target", "NAME", "deliver to it again, from where it was"},
        [DISABLE_TARGET] = {"disable-target", "NAME", "stop delivering to it; events wait"},
        [ROTATE_SECRET] = {"rotate-secret", "NAME [FIELD=VALUE]",
                           "a new secret for a webhook; keepOld=SECONDS"},
        [DROP_TARGET] = {"drop-target", "NAME", "forget a target, its position and what waits for it"},
        [DEAD_LETTERS] = {"dead-letters", NULL, "list events that could not be delivered"},
        [DEAD_LETTER] = {"dead-letter", "TARGET ID", "show one, with the event"},
        [REDRIVE] = {"redrive", "TARGET ID | --all", "deliver it again, or each of them"},
        [DROP_LETTER] = {"drop-dead-letter", "TARGET ID", "give one up"},
};

static const struct remote_word functions[WORDS] = {
        [TAIL] = {run_tail, 0, 0},
        [LIST_CONSUMERS] = {run_consumers, 0, 0},
        [CONSUMER] = {run_consumer, 1, 1},
        [SET_CONSUMER] = {run_set_consumer, 1, REMOTE_ARGUMENTS_MAX},
        [SEEK_CONSUMER] = {run_seek_consumer, 1, REMOTE_ARGUMENTS_MAX},
        [DROP_CONSUMER] = {run_drop_consumer, 1, 1},
        [LIST_TARGETS] = {run_targets, 0, 0},
        [TARGET] = {run_target, 1, 1},
        [SET_TARGET] = {run_set_target, 1, REMOTE_ARGUMENTS_MAX},
        [TARGET_TRIES] = {run_tries, 1, 1},
        [SEEK_TARGET] = {run_seek_target, 1, REMOTE_ARGUMENTS_MAX},
        [TEST_TARGET] = {run_test_target, 1, 1},
        [ENABLE_TARGET] = {run_enable_target, 1, 1},
        [DISABLE_TARGET] = {run_disable_target, 1, 1},
        [ROTATE_SECRET] = {run_rotate_secret, 1, REMOTE_ARGUMENTS_MAX},
        [DROP_TARGET] = {run_drop_target, 1, 1},
        [DEAD_LETTERS] = {run_letters, 0, 0},
        [DEAD_LETTER] = {run_letter, 2, 2},
        [REDRIVE] = {run_redrive, 0, 2},
        [DROP_LETTER] = {run_drop_letter, 2, 2},
};

#define AT(member) offsetof(struct events_options, member)

static const struct option_spec options[] = {
        REMOTE_OPTIONS,
        {"--after", OPTION_TEXT, "CURSOR", "tail: begin after this one, as an answer or a consumer gave it",
         AT(after), 0, 0},
        {"--from", OPTION_TEXT, "TIME",
         "tail: begin at a time (2026-11-17T08:00:00Z), first or last (default: last; with --once first)",
         AT(from), 0, 0},
        {"--once", OPTION_FLAG, NULL, "tail: end with the newest event instead of waiting for more", AT(once),
         0, 0},
        {"--types", OPTION_TEXT, "LIST", "tail: only these types, with commas between them", AT(types), 0, 0},
        {"--subject", OPTION_TEXT, "ID", "tail, dead-letters, redrive --all: only of this subject",
         AT(subject), 0, 0},
        {"--target", OPTION_TEXT, "NAME", "dead-letters, redrive --all: only of this target", AT(target), 0,
         0},
        {"--type", OPTION_TEXT, "TYPE", "dead-letters, redrive --all: only of this type", AT(type), 0, 0},
        {"--settings", OPTION_TEXT, "FILE",
         "set-…, rotate-secret: a file with a JSON object (-: standard input)", AT(settings), 0, 0},
        {"--limit", OPTION_NUMBER, "N", "tail, dead-letters: at most so many (default: all)", AT(limit), 1,
         INT64_MAX},
        {"--all", OPTION_FLAG, NULL, "redrive: every letter", AT(all), 0, 0},
        JOB_OPTIONS(struct events_options, job, "redrive --all: letters"),
};

static int run(int argc, char **argv)
{
	struct events_options o = {.limit = 0};

	return remote_run(&command_events, functions, &o.remote, (struct arguments){argc, argv});
}

const struct command command_events = {
        .name = "events",
        .help = "what happened: follow it, and see to consumers, targets and dead letters",
        .about = "Follows the events of a running server. Consumers read them at their own pace and keep\n"
                 "their position on the server. Targets get them delivered: webhooks, EventBridge, SQS, "
                 "NATS.\n"
                 "An event that a target refuses becomes a dead letter; remove the cause, then redrive it.",
        .words = words,
        .word_count = WORDS,
        .options = {options, OPTIONS_COUNT(options)},
        .run = run,
};
