/* Remote: calls over outbound/, refusals as texts, answers and lists on standard output, what standard input says. */
#include "cli/remote.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/version.h"
#include "outbound/outbound.h"

/* ---- calls ---- */

struct bytes remote_random(struct remote *r)
{
	uint8_t bytes[OUTBOUND_TRACE_CHARS / 2];
	char   *text = arena_alloc(&r->arena, 2 * sizeof(bytes));

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		abort();
	hex_write((struct bytes){(const char *)bytes, sizeof(bytes)}, text);
	return (struct bytes){text, 2 * sizeof(bytes)};
}

static const char *text_of(struct remote *r, const struct json *problem, const char *name)
{
	const struct json *member = problem == NULL ? NULL : json_get(problem, bytes_of(name));

	if (member == NULL || member->type != JSON_STRING)
		return NULL;
	return arena_printf(&r->arena, "%.*s", BYTES_ARG(json_text(member))).data;
}

/* What to do about it, where the server's own text cannot know. */
static const char *advice(const struct remote *r, int status)
{
	if (status == 401 && r->key.len == 0)
		return "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (eval \"$(gatehouse key show "
		       "NAME)\")";
	if (status == 401)
		return "; `gatehouse key list` on the server shows its keys";
	if (status == 412)
		return "; it has changed since it was read: look at it and try again";
	return "";
}

static enum err_code code_of(int status)
{
	if (status == 400 || status == 413 || status == 422)
		return ERR_INVALID;
	if (status == 409 || status == 412)
		return ERR_CONDITION;
	return status == 404 ? ERR_NOT_FOUND : ERR_STORAGE;
}

static enum err_code refused(struct remote *r, const struct outbound_response *a, struct err *err)
{
	struct json *body = NULL;
	struct err   ignored;
	const char  *title, *detail;

	if (json_read(r->reader, &r->arena, a->body, &body, &ignored) != ERR_NONE)
		body = NULL;
	title = text_of(r, body, "title");
	detail = text_of(r, body, "detail");
	if (title == NULL)
		return err_set(err, ERR_STORAGE,
		               "answered %d, but not as Gatehouse does; does the endpoint lead to it?",
		               a->status);
	return err_set(err, code_of(a->status), "%s%s%s (%d)%s%s%.*s", title, detail == NULL ? "" : ": ",
	               detail == NULL ? "" : detail, a->status, advice(r, a->status),
	               a->status < 500 ? "" : "; the server's log has it as trace ",
	               a->status < 500 ? 0 : (int)r->trace.len, r->trace.data);
}

static void add_headers(struct remote *r, const struct remote_call *q, struct outbound_request *request)
{
	if (r->key.len > 0)
		outbound_header_add(request, BYTES("Authorization"), r->key);
	if (q->body.len > 0)
		outbound_header_add(request, BYTES("Content-Type"), BYTES("application/json"));
	if (q->if_match.len > 0)
		outbound_header_add(request, BYTES("If-Match"), q->if_match);
	if (strcmp(q->method, "GET") != 0) /* (2) */
		outbound_header_add(request, BYTES("Idempotency-Key"), remote_random(r));
	outbound_header_add(request, BYTES("User-Agent"), BYTES("gatehouse-cli/" GATEHOUSE_VERSION));
}

enum err_code remote_call(struct remote *r, const struct remote_call *q, struct remote_answer *out,
                          struct err *err)
{
	struct outbound_response answer;
	struct outbound_request  request = {.method = bytes_of(q->method),
	                                    .path = q->path,
	                                    .body = q->body,
	                                    .repeatable = true,
	                                    .trace = r->trace};
	struct json             *body = NULL;

	*out = (struct remote_answer){0};
	request.deadline_us = clock_steady_us(clock_system()) + (int64_t)r->options->timeout_s * 1000000;
	add_headers(r, q, &request);
	if (outbound_call(r->target, &request, &r->arena, &answer, err) != ERR_NONE) {
		struct err why = *err;

		return err_set(err, why.code,
		               "%.*s: %s; is it running there? --endpoint or GATEHOUSE_ENDPOINT says where",
		               BYTES_ARG(outbound_host(r->target)), why.text);
	}
	if (answer.status < 200 || answer.status > 299)
		return refused(r, &answer, err);
	if (answer.body.len > 0 && json_read(r->reader, &r->arena, answer.body, &body, err) != ERR_NONE)
		return err_set(err, ERR_STORAGE,
		               "the answer is not JSON; does the endpoint lead to Gatehouse?");
	*out = (struct remote_answer){answer.status, answer.body, body, outbound_header_get(&answer, "etag")};
	return ERR_NONE;
}

struct bytes remote_path(struct remote *r, const char *pattern, const char *const *arguments)
{
	struct buf path;

	buf_init(&path, &r->arena);
	for (; *pattern != '\0'; pattern++) {
		if (*pattern != '%') {
			buf_add_byte(&path, (uint8_t)*pattern);
			continue;
		}
		for (const char *c = *arguments++; *c != '\0'; c++)
			buf_add_percent(&path, *c);
	}
	return buf_bytes(&path);
}

/* ---- answers ---- */

void remote_show(const struct remote *r, const struct remote_answer *a)
{
	if (a->body == NULL)
		return;
	if (r->options->json) { /* the server's answer ends with a newline */
		struct bytes text = a->text;

		while (text.len > 0 && text.data[text.len - 1] == '\n')
			text.len--;
		printf("%.*s\n", BYTES_ARG(text));
	} else {
		show_object(a->body);
	}
}

enum err_code remote_end(const struct remote *r, const struct remote_answer *a, struct err *err)
{
	const struct json *verdict = a->body == NULL ? NULL : json_get(a->body, BYTES("verdict"));

	remote_show(r, a);
	if (verdict == NULL || verdict->type != JSON_STRING ||
	    bytes_equal(json_text(verdict), BYTES("allow")))
		return ERR_NONE;
	return err_set(err, ERR_CONDITION, "nothing was done: the verdict is not `allow`");
}

enum err_code remote_simple(struct remote *r, const char *method, const char *pattern, struct err *err)
{
	struct remote_call   q = {.method = method, .path = remote_path(r, pattern, r->arguments)};
	struct remote_answer answer;

	if (remote_call(r, &q, &answer, err) != ERR_NONE)
		return err->code;
	return remote_end(r, &answer, err);
}

enum err_code remote_simple_with(struct remote *r, const struct remote_call *q, const char *name,
                                 struct bytes value, struct err *err)
{
	struct remote_call   with = *q;
	struct remote_answer answer;
	struct json_writer   w;
	struct buf           body;

	if (!bytes_is_utf8(value))
		return err_set(err, ERR_INVALID, "%s: must be UTF-8", name);
	buf_init(&body, &r->arena);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	json_key(&w, bytes_of(name));
	json_string(&w, value);
	json_end_object(&w);
	with.body = buf_bytes(&body);
	if (remote_call(r, &with, &answer, err) != ERR_NONE)
		return err->code;
	return remote_end(r, &answer, err);
}

static void print_lines(const struct json *rows, struct arena *a)
{
	for (const struct json *row = json_children(rows); row != NULL; row = row->next) {
		struct json_writer w;
		struct buf         line;

		buf_init(&line, a);
		json_writer_init(&w, &line);
		json_tree(&w, row);
		printf("%.*s\n", BYTES_ARG(buf_bytes(&line)));
	}
}

static void add_query(struct buf *path, const char *name, struct bytes value)
{
	buf_add_byte(path, bytes_contains(buf_bytes(path), BYTES("?")) ? '&' : '?');
	buf_add_bytes(path, bytes_of(name));
	buf_add_byte(path, '=');
	for (size_t i = 0; i < value.len; i++)
		buf_add_percent(path, value.data[i]);
}

/* The path of a page: after the cursor, with at most as many rows as are still wanted. */
static struct bytes page_path(struct remote *r, const struct remote_list *q, const struct remote_place *at)
{
	uint64_t   left = q->rows_max == 0 ? UINT64_MAX : q->rows_max - at->seen;
	struct buf path;

	buf_init(&path, &r->arena);
	buf_add_bytes(&path, q->path);
	if (q->page > 0)
		add_query(&path, "limit",
		          arena_printf(&r->arena, "%" PRIu64, left < q->page ? left : q->page));
	for (int i = 0; i < REMOTE_FILTERS_MAX; i++)
		if (q->filters[i].value != NULL)
			add_query(&path, q->filters[i].name, bytes_of(q->filters[i].value));
	if (at->cursor_len > 0)
		add_query(&path, "cursor", (struct bytes){at->cursor, at->cursor_len});
	return buf_bytes(&path);
}

enum err_code remote_page(struct remote *r, const struct remote_list *q, struct remote_place *at,
                          const struct json **rows, struct err *err)
{
	struct remote_call   get = {.method = "GET", .path = page_path(r, q, at)};
	struct remote_answer answer;
	const struct json   *cursor;

	if (remote_call(r, &get, &answer, err) != ERR_NONE)
		return err->code;
	*rows = json_get(answer.body, bytes_of(q->member));
	cursor = json_get(answer.body, BYTES("cursor"));
	if (*rows == NULL || (*rows)->type != JSON_ARRAY)
		return err_set(err, ERR_STORAGE, "the answer has no %s; does the endpoint lead to Gatehouse?",
		               q->member);
	at->seen += (*rows)->count;
	at->cursor_len = 0;
	if (cursor != NULL && cursor->type == JSON_STRING && json_text(cursor).len <= sizeof(at->cursor)) {
		memcpy(at->cursor, json_text(cursor).data, json_text(cursor).len);
		at->cursor_len = json_text(cursor).len;
	}
	return ERR_NONE;
}

enum err_code remote_list(struct remote *r, const struct remote_list *q, struct show_table *table,
                          struct err *err)
{
	struct remote_place at = {0};

	do {
		struct arena       before = r->arena;
		const struct json *rows;

		if (remote_page(r, q, &at, &rows, err) != ERR_NONE)
			return err->code;
		if (r->options->json)
			print_lines(rows, &r->arena);
		else
			show_rows(table, rows);
		arena_rewind(&r->arena, before);
	} while (at.cursor_len > 0 && (q->rows_max == 0 || at.seen < q->rows_max));
	return ERR_NONE;
}

/* ---- standard input ---- */

void remote_ask(const char *question)
{
	if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
		fprintf(stderr, "%s", question);
}

enum err_code remote_secret(struct remote *r, const char *path, const char *what, struct bytes *out,
                            struct err *err)
{
	struct bytes text;
	size_t       len = 0;

	if (input_read(path, REMOTE_INPUT_BYTES_MAX, &r->arena, &text, err) != ERR_NONE)
		return err->code;
	while (len < text.len && text.data[len] != '\n' && text.data[len] != '\r')
		len++;
	*out = bytes_trimmed((struct bytes){text.data, len});
	if (out->len == 0)
		return err_set(err, ERR_INVALID, "%s: the first line must hold %s",
		               strcmp(path, "-") == 0 ? "standard input" : path, what);
	return ERR_NONE;
}

enum err_code remote_value(struct remote *r, const char *argument, const char *what, struct bytes *out,
                           struct err *err)
{
	if (strcmp(argument, "-") == 0)
		return remote_secret(r, argument, what, out, err);
	*out = bytes_of(argument);
	return ERR_NONE;
}

enum err_code remote_members(struct remote *r, const char *path, const char *like, struct json_writer *w,
                             struct err *err)
{
	struct bytes text;
	struct json *tree;

	if (path == NULL)
		return ERR_NONE;
	if (input_read(path, REMOTE_INPUT_BYTES_MAX, &r->arena, &text, err) != ERR_NONE)
		return err->code;
	if (json_read(r->reader, &r->arena, text, &tree, err) != ERR_NONE || tree->type != JSON_OBJECT)
		return err_set(err, ERR_INVALID, "%s: must hold a JSON object, as in %s",
		               strcmp(path, "-") == 0 ? "standard input" : path, like);
	for (const struct json *m = json_children(tree); m != NULL; m = m->next) {
		json_name(w, m->name);
		json_tree(w, m);
	}
	return ERR_NONE;
}
