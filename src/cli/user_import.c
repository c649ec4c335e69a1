/* `gatehouse user import FILE` and `gatehouse user export`: users as JSONL, one object per line.
 *
 * An import reads lines, has the server import up to IMPORT_ROWS at a time, and appends what became of each to a report, which is JSONL too:
 *
 *   {"run":"3f…"}                                                        which file it is of: the digest of its bytes, or --run
 *   {"line":1,"id":"ann","outcome":"created"}
 *   {"line":2,"id":"bob","outcome":"refused","type":…,"field":…,"detail":…}
 *
 * What always holds
 * (1) The report has one line for each line of the file that is not blank, in their order, up to where the import is.
 * (2) A line is in the report only once it is durable on the server. Lines whose answer was lost are sent again, with the same run: the server
 *     then answers as it did (service/user_import.h, 2). So after a kill of either side the same command goes on, to the same report.
 * (3) Bounded memory, whatever the file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/file.h"
#include "cli/user.h"

enum {
	IMPORT_ROWS = 100, /* of a call, as the server takes them */
	IMPORT_BYTES = 512 * 1024,
	LINE_BYTES_MAX = 256 * 1024,
	RUN_CHARS = 32,
	PROGRESS_US = 1000000,
};

#define OUTCOMES(X) X(created) X(updated) X(unchanged) X(refused)

enum outcome {
#define X(name) OUTCOME_##name,
	OUTCOMES(X)
#undef X
	        OUTCOME_COUNT
};

static const char *const outcome_names[OUTCOME_COUNT] = {
#define X(name) #name,
        OUTCOMES(X)
#undef X
};

struct import {
	struct remote *remote;
	const char    *path, *report_path;
	FILE          *file, *report;
	struct bytes   run;
	uint64_t       line;                     /* the last that was read from the file */
	uint64_t       counts[OUTCOME_COUNT];    /* of the lines in the report */
	char           text[LINE_BYTES_MAX + 1]; /* the line, without its end */
	size_t         len;
	bool           too_long;
	int64_t        told_us;

	/* The lines of the next call. */
	struct buf users;
	uint64_t   first;
	unsigned   count;
};

static enum err_code failed(const char *what, const char *path, struct err *err)
{
	return err_set(err, ERR_STORAGE, "%s %s: %s", what, path, strerror(errno));
}

/* ---- lines ---- */

/* False: there is none any more. (3) */
static bool line_read(struct import *m, FILE *from)
{
	int c = getc_unlocked(from);

	m->len = 0;
	m->too_long = false;
	if (c == EOF)
		return false;
	for (; c != EOF && c != '\n'; c = getc_unlocked(from)) {
		m->too_long = m->len == LINE_BYTES_MAX;
		if (!m->too_long)
			m->text[m->len++] = (char)c;
	}
	m->line++;
	return true;
}

static struct bytes line_text(const struct import *m)
{
	return bytes_trimmed((struct bytes){m->text, m->len});
}

/* ---- the report ---- */

static void count(struct import *m, const struct json *result)
{
	struct bytes said = json_text(json_get(result, BYTES("outcome")));

	for (int i = 0; i < OUTCOME_COUNT; i++)
		m->counts[i] += bytes_is(said, outcome_names[i]);
}

static void report_add(struct import *m, const struct json *result)
{
	struct json_writer w;
	struct buf         line;

	buf_init(&line, &m->remote->arena);
	json_writer_init(&w, &line);
	json_tree(&w, result);
	fprintf(m->report, "%.*s\n", BYTES_ARG(buf_bytes(&line)));
	count(m, result);
}

static enum err_code report_keep(struct import *m, struct err *err)
{
	if (fflush(m->report) != 0 || fdatasync(fileno(m->report)) != 0)
		return failed("write", m->report_path, err);
	return ERR_NONE;
}

/* One line of a report that is there. Sets how far the import is. */
static enum err_code report_take(struct import *m, uint64_t at, struct err *err)
{
	struct json *tree;
	int64_t      line;

	if (json_read(m->remote->reader, &m->remote->arena, line_text(m), &tree, err) != ERR_NONE)
		return err_set(err, ERR_INVALID, "%s, line %" PRIu64 ": not a line of a report",
		               m->report_path, at);
	if (at == 1 && !bytes_equal(json_text(json_get(tree, BYTES("run"))), m->run))
		return err_set(err, ERR_INVALID,
		               "%s is the report of another file or run; name another one with --report",
		               m->report_path);
	if (at == 1)
		return ERR_NONE;
	if (!json_whole(json_get(tree, BYTES("line")), &line) || line < 1)
		return err_set(err, ERR_INVALID, "%s, line %" PRIu64 ": has no `line`", m->report_path, at);
	count(m, tree);
	m->first = (uint64_t)line + 1;
	return ERR_NONE;
}

/* What was reported before (1). A last line that is not whole was being written when the command was killed: it is cut off. */
static enum err_code report_read(struct import *m, struct err *err)
{
	struct arena before = m->remote->arena;
	off_t        whole = 0;

	m->first = 1;
	m->line = 0;
	while (line_read(m, m->report) && !m->too_long) {
		off_t end = ftello(m->report);

		if (end - whole == (off_t)m->len)
			break;
		whole = end;
		if (report_take(m, m->line, err) != ERR_NONE)
			return err->code;
		arena_rewind(&m->remote->arena, before);
	}
	if (ftruncate(fileno(m->report), whole) != 0 || fseeko(m->report, whole, SEEK_SET) != 0)
		return failed("write", m->report_path, err);
	if (whole == 0)
		fprintf(m->report, "{\"run\":\"%.*s\"}\n", BYTES_ARG(m->run));
	return ERR_NONE;
}

static enum err_code report_open(struct import *m, struct err *err)
{
	const char *said = user_options_of(m->remote)->report;
	int         fd;

	m->report_path =
	        said != NULL ? said : arena_printf(&m->remote->arena, "%s.report%c", m->path, '\0').data;
	if (file_open_now(m->report_path, O_RDWR | O_CREAT | O_CLOEXEC, &fd, err) != ERR_NONE)
		return err->code;
	m->report = fdopen(fd, "r+");
	if (m->report == NULL) {
		close(fd);
		return failed("open", m->report_path, err);
	}
	return report_read(m, err);
}

/* ---- progress ---- */

static uint64_t handled(const struct import *m)
{
	uint64_t sum = 0;

	for (int i = 0; i < OUTCOME_COUNT; i++)
		sum += m->counts[i];
	return sum;
}

static void progress(struct import *m)
{
	int64_t now_us = clock_steady_us(clock_system());

	if (now_us - m->told_us < PROGRESS_US)
		return;
	m->told_us = now_us;
	fprintf(stderr, "line %" PRIu64 ": %" PRIu64 " users, %" PRIu64 " refused\n", m->line, handled(m),
	        m->counts[OUTCOME_refused]);
}

/* ---- calls ---- */

static struct bytes call_body(struct import *m)
{
	struct json_writer w;
	struct buf         body;

	buf_init(&body, &m->remote->arena);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	json_member_text(&w, BYTES("run"), m->run);
	json_member_i64(&w, BYTES("line"), (int64_t)m->first);
	if (user_options_of(m->remote)->no_events)
		json_member_text(&w, BYTES("events"), BYTES("none"));
	json_key(&w, BYTES("users"));
	json_raw(&w, buf_bytes(&m->users));
	json_end_object(&w);
	return buf_bytes(&body);
}

static enum err_code stopped(const struct import *m, const struct err *why, struct err *err)
{
	struct err copy = *why;

	return err_set(err, copy.code,
	               "%s (stopped at line %" PRIu64 "; the same command goes on from there)", copy.text,
	               m->first);
}

static void users_begin(struct import *m)
{
	buf_init(&m->users, &m->remote->arena);
	buf_add_byte(&m->users, '[');
	m->count = 0;
}

/* The lines that were gathered. (2) */
static enum err_code send(struct import *m, struct arena before, struct err *err)
{
	struct remote_call   q = {.method = "POST", .path = BYTES("/v1/users/import")};
	struct remote_answer answer;
	const struct json   *results;

	if (m->count == 0) {
		arena_rewind(&m->remote->arena, before);
		users_begin(m);
		return ERR_NONE;
	}
	buf_add_byte(&m->users, ']');
	q.body = call_body(m);
	if (remote_call(m->remote, &q, &answer, err) != ERR_NONE)
		return stopped(m, err, err);
	results = json_get(answer.body, BYTES("results"));
	if (!json_is(results, JSON_ARRAY) || results->count != m->count)
		return err_set(err, ERR_STORAGE,
		               "the answer is not of an import; does the endpoint lead to Gatehouse?");
	for (const struct json *result = json_children(results); result != NULL; result = result->next)
		report_add(m, result);
	if (report_keep(m, err) != ERR_NONE)
		return err->code;
	arena_rewind(&m->remote->arena, before);
	users_begin(m);
	progress(m);
	return ERR_NONE;
}

/* A line that the server is not asked about. */
static enum err_code refuse_here(struct import *m, struct arena before, const char *type, const char *why,
                                 struct err *err)
{
	if (send(m, before, err) != ERR_NONE)
		return err->code;
	fprintf(m->report,
	        "{\"line\":%" PRIu64 ",\"outcome\":\"refused\",\"type\":\"" ERR_TYPE_PREFIX
	        "%s\",\"detail\":\"%s\"}\n",
	        m->line, type, why);
	m->counts[OUTCOME_refused]++;
	return ERR_NONE;
}

static enum err_code take_line(struct import *m, struct arena before, struct err *err)
{
	struct json *tree;
	struct err   ignored;
	struct bytes text = line_text(m);

	if (m->too_long)
		return refuse_here(m, before, "too-large", "the line has more than 262144 bytes", err);
	if (json_read(m->remote->reader, &m->remote->arena, text, &tree, &ignored) != ERR_NONE)
		return refuse_here(m, before, "malformed-request", "the line is not JSON", err);
	/* The lines of a call follow each other. */
	if ((m->count > 0 && m->first + m->count != m->line) || m->count == IMPORT_ROWS ||
	    m->users.len + text.len > IMPORT_BYTES) {
		if (send(m, before, err) != ERR_NONE)
			return err->code;
	}
	if (m->count == 0)
		m->first = m->line;
	else
		buf_add_byte(&m->users, ',');
	m->count++;
	buf_add_bytes(&m->users, text);
	return ERR_NONE;
}

static enum err_code lines_import(struct import *m, struct err *err)
{
	uint64_t     from = m->first;
	struct arena before = m->remote->arena;

	m->line = 0;
	users_begin(m);
	while (line_read(m, m->file)) {
		if (m->line < from || line_text(m).len == 0)
			continue;
		if (take_line(m, before, err) != ERR_NONE)
			return err->code;
	}
	if (ferror(m->file))
		return failed("read", m->path, err);
	return send(m, before, err) != ERR_NONE ? err->code : report_keep(m, err);
}

/* ---- import ---- */

/* Which file it is: another one is another run. */
static enum err_code run_name(struct import *m, struct err *err)
{
	struct sha256_stream s;
	uint8_t              digest[SHA256_BYTES];
	char                *hex = arena_alloc(&m->remote->arena, 2 * sizeof(digest));
	size_t               len;

	if (user_options_of(m->remote)->run != NULL) {
		m->run = bytes_of(user_options_of(m->remote)->run);
		return ERR_NONE;
	}
	sha256_begin(&s);
	while ((len = fread(m->text, 1, sizeof(m->text), m->file)) > 0)
		sha256_add(&s, (struct bytes){m->text, len});
	sha256_end(&s, digest);
	if (ferror(m->file) || fseeko(m->file, 0, SEEK_SET) != 0)
		return failed("read", m->path, err);
	hex_write((struct bytes){(const char *)digest, sizeof(digest)}, hex);
	m->run = (struct bytes){hex, RUN_CHARS};
	return ERR_NONE;
}

static enum err_code summary(const struct import *m, struct err *err)
{
	const uint64_t *n = m->counts;

	if (m->remote->options->json)
		printf("{\"created\":%" PRIu64 ",\"updated\":%" PRIu64 ",\"unchanged\":%" PRIu64
		       ",\"refused\":%" PRIu64 "}\n",
		       n[OUTCOME_created], n[OUTCOME_updated], n[OUTCOME_unchanged], n[OUTCOME_refused]);
	else
		printf("%" PRIu64 " users: %" PRIu64 " created, %" PRIu64 " updated, %" PRIu64
		       " unchanged, %" PRIu64 " refused\n",
		       handled(m), n[OUTCOME_created], n[OUTCOME_updated], n[OUTCOME_unchanged],
		       n[OUTCOME_refused]);
	return n[OUTCOME_refused] == 0
	               ? ERR_NONE
	               : err_set(err, ERR_CONDITION, "%" PRIu64 " lines were refused; %s says why",
	                         n[OUTCOME_refused], m->report_path);
}

static enum err_code import_all(struct import *m, struct err *err)
{
	if (run_name(m, err) != ERR_NONE || report_open(m, err) != ERR_NONE ||
	    lines_import(m, err) != ERR_NONE)
		return err->code;
	return summary(m, err);
}

enum err_code user_import_run(struct remote *r, struct err *err)
{
	struct import *m = calloc(1, sizeof(*m));
	enum err_code  rc;

	if (m == NULL)
		abort();
	*m = (struct import){
	        .remote = r, .path = r->arguments[0], .told_us = clock_steady_us(clock_system())};
	m->file = fopen(m->path, "re");
	rc = m->file == NULL ? err_set(err, ERR_INVALID, "open %s: %s", m->path, strerror(errno))
	                     : import_all(m, err);
	if (m->file != NULL)
		fclose(m->file);
	if (m->report != NULL && fclose(m->report) != 0 && rc == ERR_NONE)
		rc = failed("write", m->report_path, err);
	free(m);
	return rc;
}

/* ---- export ---- */

static struct bytes page_body(struct remote *r, struct bytes cursor)
{
	struct json_writer w;
	struct buf         body;

	buf_init(&body, &r->arena);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	json_member_i64(&w, BYTES("limit"), USERS_PAGE);
	json_member_text(&w, BYTES("cursor"), cursor);
	json_end_object(&w);
	return buf_bytes(&body);
}

static void print_users(struct remote *r, const struct json *users)
{
	for (const struct json *u = json_children(users); u != NULL; u = u->next) {
		struct json_writer w;
		struct buf         line;

		buf_init(&line, &r->arena);
		json_writer_init(&w, &line);
		json_tree(&w, u);
		printf("%.*s\n", BYTES_ARG(buf_bytes(&line)));
	}
}

/* All pages, on standard output. */
enum err_code user_export_run(struct remote *r, struct err *err)
{
	char               cursor[REMOTE_CURSOR_BYTES_MAX];
	struct bytes       at = {cursor, 0}, next;
	struct remote_call q = {.method = "POST", .path = BYTES("/v1/users/export")};

	do {
		struct arena         before = r->arena;
		struct remote_answer answer;

		q.body = page_body(r, at);
		if (remote_call(r, &q, &answer, err) != ERR_NONE)
			return err->code;
		if (!json_is(json_get(answer.body, BYTES("users")), JSON_ARRAY))
			return err_set(err, ERR_STORAGE,
			               "the answer has no users; does the endpoint lead to Gatehouse?");
		print_users(r, json_get(answer.body, BYTES("users")));
		next = json_text(json_get(answer.body, BYTES("cursor")));
		at.len = next.len <= sizeof(cursor) ? next.len : 0;
		memcpy(cursor, next.data, at.len);
		arena_rewind(&r->arena, before);
	} while (at.len > 0);
	return fflush(stdout) == 0 ? ERR_NONE : failed("write", "standard output", err);
}
