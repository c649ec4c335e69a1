/* Session: see session.h. */
#include "remote/session.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/crc32.h"
#include "base/log.h"

enum { SAME_LOG_S = 10 }; /* between two lines that say the same */

/* ---- sessions ---- */

int64_t remote_now_us(struct remote *r)
{
	int64_t now = r->began_us + clock_steady_us(r->clock) - r->began_steady_us;
	int64_t last = atomic_load(&r->now_us);

	while (now > last)
		if (atomic_compare_exchange_weak(&r->now_us, &last, now))
			return now;
	return last;
}

void remote_session_init(struct remote_session *s, struct remote *r, struct json_reader *json, bool reads)
{
	*s = (struct remote_session){
	        .base = {.backend = &remote_table_backend, .now_us = remote_now_us(r), .alone = reads},
	        .remote = r,
	        .json = json,
	        .fresh_us = clock_steady_us(r->wire_clock)};
}

void remote_session_release(struct remote_session *s)
{
	if (s->own_json)
		json_reader_close(s->json);
	s->own_json = false;
	s->json = NULL;
}

struct bytes remote_name(const struct remote_session *s, struct arena *a, struct bytes table)
{
	if (s->remote->prefix[0] == '\0')
		return table;
	return arena_printf(a, "%s%.*s", s->remote->prefix, BYTES_ARG(table));
}

void remote_sleep(int64_t us)
{
	struct timespec left = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

	while (nanosleep(&left, &left) != 0)
		continue;
}

/* ---- what the endpoint said ---- */

/* Of an answer that is damaged nobody knows what it said. */
static bool is_whole(const struct outbound_response *r)
{
	struct bytes told = outbound_header_get(r, "x-amz-crc32");
	uint64_t     crc;

	return told.len == 0 || !bytes_to_u64(told, UINT32_MAX, &crc) || crc == crc32_of(r->body);
}

static enum err_code body_read(struct remote_session *s, struct arena *a, struct bytes text,
                               const struct json **out, struct err *err)
{
	struct json *tree;

	if (s->json == NULL) {
		s->json = json_reader_open();
		s->own_json = true;
	}
	*out = NULL;
	if (json_read(s->json, a, text, &tree, err) != ERR_NONE)
		return err_set(err, ERR_STORAGE, "the endpoint's answer is not JSON");
	*out = tree;
	return ERR_NONE;
}

/* Is it time to log this again? */
static bool is_due(struct remote *r, _Atomic int64_t *logged_us)
{
	int64_t now = clock_steady_us(r->wire_clock), last = atomic_load(logged_us);

	return (last == 0 || now - last > (int64_t)SAME_LOG_S * 1000000) &&
	       atomic_compare_exchange_strong(logged_us, &last, now);
}

/* Our credentials or our rights: nobody who calls us is to blame, and nothing was done. */
static enum err_code refused(struct remote *r, struct bytes type, struct bytes text, struct err *err)
{
	if (is_due(r, &r->refused_us))
		log_error("the DynamoDB endpoint refuses our requests: %.*s: %.*s", BYTES_ARG(type),
		          BYTES_ARG(text));
	return err_set(err, ERR_OVERLOADED, "the DynamoDB endpoint refuses our requests: %.*s",
	               BYTES_ARG(type));
}

static enum err_code error_tell(struct remote *r, const struct aws_answer *answer, struct bytes text,
                                struct err *err)
{
	enum err_code code = client_error_code(answer->type);
	int           status = answer->http.status;

	switch (code) {
	case ERR_ACCESS:
	case ERR_UNKNOWN_KEY:
	case ERR_NO_CREDENTIAL:
	case ERR_SIGNATURE_INCOMPLETE:
	case ERR_SIGNATURE:
		return refused(r, answer->type, text, err);
	case ERR_NONE:
		code = status == 503 || status == 429 ? ERR_OVERLOADED
		       : status >= 500                ? ERR_STORAGE
		                                      : ERR_OVERLOADED;
		return err_set(err, code, "the DynamoDB endpoint answered %d %.*s", status,
		               BYTES_ARG(answer->type));
	default:
		return err_set(err, code, "%.*s", BYTES_ARG(text));
	}
}

static void text_take(char *to, size_t room, struct bytes from)
{
	size_t len = from.len < room ? from.len : room - 1;

	for (size_t i = 0; i < len; i++)
		to[i] = (unsigned char)from.data[i] < ' ' || from.data[i] == 0x7F ? ' ' : from.data[i];
	while (len > 0 && (to[len - 1] == ' ' || to[len - 1] == '.'))
		len--;
	to[len] = '\0';
}

static void told_take(struct remote_told *told, const struct aws_answer *a, struct bytes text)
{
	told->status = a->http.status;
	text_take(told->type, sizeof(told->type), a->type);
	text_take(told->text, sizeof(told->text), text);
}

/* ---- asking ---- */

struct client ask_init(struct ask *q, const char *operation, struct arena *a, bool repeatable)
{
	*q = (struct ask){.operation = operation, .repeatable = repeatable, .arena = a};
	buf_init(&q->body, a);
	json_writer_init(&q->writer, &q->body);
	return (struct client){&q->writer, a};
}

static bool is_read(const char *operation)
{
	return strstr(operation, "Get") != NULL || strcmp(operation, "Query") == 0 ||
	       strcmp(operation, "Scan") == 0 || strncmp(operation, "Describe", strlen("Describe")) == 0 ||
	       strncmp(operation, "List", strlen("List")) == 0;
}

/* A read leaves no outcome open: one that got no answer, or one that says nothing, may be tried again. */
static enum err_code settled(const char *operation, enum err_code rc, struct err *err)
{
	if (rc != ERR_STORAGE || !is_read(operation))
		return rc;
	err->code = ERR_OVERLOADED;
	return err->code;
}

enum err_code ask_judge(struct remote_session *s, const char *operation, enum err_code rc, struct err *err)
{
	if (rc == ERR_NONE)
		return ERR_NONE;
	if (is_due(s->remote, &s->remote->wrong_us))
		log_error("the DynamoDB endpoint answered %s with what DynamoDB would not answer, which "
		          "counts as an outage: %s",
		          operation, err->text);
	return settled(operation, rc, err);
}

static enum err_code send(struct remote_session *s, struct ask *q, struct aws_answer *out, struct err *err)
{
	struct remote     *r = s->remote;
	int64_t            call_us = clock_steady_us(r->wire_clock) + r->call_us;
	bool               sooner = s->deadline_us > 0 && s->deadline_us < call_us;
	struct aws_request request = {.operation = q->operation,
	                              .body = buf_bytes(&q->body),
	                              .repeatable = q->repeatable,
	                              .deadline_us = sooner ? s->deadline_us : call_us};

	if (aws_call(r->aws, &request, q->arena, out, err) != ERR_NONE)
		return err->code == ERR_STORAGE && is_read(q->operation)
		               ? err_set(err, ERR_OVERLOADED, "the DynamoDB endpoint did not answer in time")
		               : err->code;
	return is_whole(&out->http)
	               ? ERR_NONE
	               : err_set(err, ERR_STORAGE, "the endpoint's answer was damaged on its way");
}

static enum err_code ask_once(struct remote_session *s, struct ask *q, const struct json **answer,
                              struct err *err)
{
	struct aws_answer a;
	struct err        unread;

	*answer = NULL;
	s->told = (struct remote_told){0};
	if (send(s, q, &a, err) != ERR_NONE)
		return err->code;
	s->told.status = a.http.status;
	s->told.unsure = a.http.unsure;
	if (a.http.status / 100 == 2)
		return a.http.body.len == 0
		               ? ERR_NONE
		               : ask_judge(s, q->operation, body_read(s, q->arena, a.http.body, answer, err),
		                           err);
	body_read(s, q->arena, a.http.body, answer, &unread); /* the status and the name may say enough */
	told_take(&s->told, &a, client_error_text(*answer));
	if (!client_error_fits(q->operation, client_error_code(a.type)))
		return ask_judge(s, q->operation,
		                 err_set(err, ERR_STORAGE, "it refused it with %s", s->told.type), err);
	return error_tell(s->remote, &a, client_error_text(*answer), err);
}

enum err_code ask_send(struct remote_session *s, struct ask *q, const struct json **answer, struct err *err)
{
	return settled(q->operation, ask_once(s, q, answer, err), err);
}
