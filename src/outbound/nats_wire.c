/* NATS wire: see nats_wire.h. */
#define _GNU_SOURCE
#include "outbound/nats_wire.h"

#include <strings.h>

#include "json/json.h"

/* ---- reading ---- */

enum { FIELDS_MAX = 5 };

static const struct nats_message wrong = {.op = NATS_WRONG}, more = {.op = NATS_MORE};

/* The next of the fields, which spaces and tabs separate. Empty: there is none. */
static struct bytes field_next(struct bytes *line)
{
	struct bytes field = bytes_trimmed(*line);
	size_t       len = 0;

	while (len < field.len && field.data[len] != ' ' && field.data[len] != '\t')
		len++;
	*line = (struct bytes){field.data + len, field.len - len};
	field.len = len;
	return field;
}

/* MSG subject sid [reply] size, or HMSG subject sid [reply] head-size size. */
static struct nats_message message_read(struct bytes input, size_t line_len, struct bytes args, bool headers)
{
	struct nats_message m = {.op = NATS_MSG};
	struct bytes        fields[FIELDS_MAX];
	size_t              count = 0, least = headers ? 4 : 3, from = line_len + 2;
	uint64_t            head = 0, size;

	while (count < FIELDS_MAX && (fields[count] = field_next(&args)).len > 0)
		count++;
	if ((count != least && count != least + 1) || bytes_trimmed(args).len > 0 ||
	    !bytes_to_u64(fields[count - 1], NATS_BODY_BYTES_MAX, &size) ||
	    (headers && !bytes_to_u64(fields[count - 2], size, &head)))
		return wrong;
	if (input.len < from + size + 2)
		return more;
	if (memcmp(input.data + from + size, "\r\n", 2) != 0)
		return wrong;
	m.used = from + size + 2;
	m.subject = fields[0];
	m.head = (struct bytes){input.data + from, head};
	m.body = (struct bytes){input.data + from + head, size - head};
	return m;
}

static struct bytes quoted(struct bytes text)
{
	text = bytes_trimmed(text);
	if (text.len >= 2 && text.data[0] == '\'' && text.data[text.len - 1] == '\'')
		text = (struct bytes){text.data + 1, text.len - 2};
	return text;
}

struct nats_message nats_read(struct bytes input)
{
	const char         *end = input.len == 0 ? NULL : memmem(input.data, input.len, "\r\n", 2);
	size_t              len = end == NULL ? 0 : (size_t)(end - input.data);
	struct nats_message m = {.used = len + 2};
	struct bytes        line = {input.data, len}, op;

	if (end == NULL || len > NATS_LINE_BYTES_MAX)
		return input.len > NATS_LINE_BYTES_MAX ? wrong : more;
	op = field_next(&line);
	m.text = quoted(line);
	if (bytes_is(op, "MSG") || bytes_is(op, "HMSG"))
		return message_read(input, len, line, op.len == 4);
	if (bytes_is(op, "INFO"))
		m.op = NATS_INFO;
	else if (bytes_is(op, "PING"))
		m.op = NATS_PING;
	else if (bytes_is(op, "PONG"))
		m.op = NATS_PONG;
	else if (bytes_is(op, "+OK"))
		m.op = NATS_OK;
	else if (bytes_is(op, "-ERR"))
		m.op = NATS_ERR;
	else
		return wrong;
	return m;
}

/* ---- what it means ---- */

static const struct json *tree_of(struct bytes text, struct arena *a)
{
	struct json_reader *reader = json_reader_open();
	struct json        *tree = NULL;
	struct err          err;

	if (json_read(reader, a, text, &tree, &err) != ERR_NONE)
		tree = NULL;
	json_reader_close(reader);
	return tree;
}

static bool truth_of(const struct json *object, const char *name)
{
	const struct json *m = json_get(object, bytes_of(name));

	return m != NULL && m->type == JSON_BOOL && json_truth(m);
}

static int64_t number_of(const struct json *object, const char *name)
{
	const struct json *m = json_get(object, bytes_of(name));

	return m != NULL && m->type == JSON_INT ? json_integer(m) : 0;
}

bool nats_info_read(struct bytes json, struct arena *a, struct nats_info *out)
{
	const struct json *tree = tree_of(json, a);
	const struct json *nonce = tree == NULL ? NULL : json_get(tree, BYTES("nonce"));
	int64_t            max;

	if (tree == NULL || tree->type != JSON_OBJECT)
		return false;
	max = number_of(tree, "max_payload");
	*out = (struct nats_info){.headers = truth_of(tree, "headers"),
	                          .tls_required = truth_of(tree, "tls_required"),
	                          .tls_available = truth_of(tree, "tls_available"),
	                          .auth_required = truth_of(tree, "auth_required"),
	                          .payload_bytes_max = max > 0 ? (uint64_t)max : 0};
	if (nonce != NULL && nonce->type == JSON_STRING)
		out->nonce = json_text(nonce);
	return out->headers && out->payload_bytes_max > 0;
}

/* "NATS/1.0 503␍␊…": 0 if there is none. */
static int status_of(struct bytes head)
{
	struct bytes version = BYTES("NATS/1.0 ");
	int          status = 0;

	if (!bytes_starts_with(head, version) || head.len < version.len + 3)
		return 0;
	for (size_t i = version.len; i < version.len + 3; i++) {
		if (head.data[i] < '0' || head.data[i] > '9')
			return 0;
		status = status * 10 + head.data[i] - '0';
	}
	return status;
}

/* Of all errors of a stream one is about the event: that it is larger than the stream takes. */
static void error_read(const struct json *error, struct sender_event *e)
{
	enum { TOO_LARGE = 10054, OTHER_STREAM = 10060, STREAM_FULL = 10077, CODE_MAX = 99999 };
	int64_t code = number_of(error, "err_code");

	if (code == TOO_LARGE)
		sender_result(e, SENDER_REFUSED, 0, "it is larger than the stream takes (error %d)",
		              TOO_LARGE);
	else if (code == STREAM_FULL)
		sender_result(e, SENDER_LATER, 0, "the stream is full, or cannot store it (error %d)",
		              STREAM_FULL);
	else if (code == OTHER_STREAM)
		sender_result(e, SENDER_LATER, 0,
		              "another stream than the one that was named takes it (error %d)", OTHER_STREAM);
	else
		sender_result(e, SENDER_LATER, 0, "the stream answered with error %d",
		              code > 0 && code <= CODE_MAX ? (int)code : 0);
}

void nats_answer_read(const struct nats_message *m, struct bytes subject, struct sender_event *e,
                      struct arena *a)
{
	enum { NO_RESPONDERS = 503 };
	const struct json *tree = m->body.len == 0 ? NULL : tree_of(m->body, a), *error, *stream;

	if (status_of(m->head) == NO_RESPONDERS) {
		sender_result(e, SENDER_LATER, 0, "no stream takes the subject %.*s", BYTES_ARG(subject));
		return;
	}
	error = tree == NULL ? NULL : json_get(tree, BYTES("error"));
	stream = tree == NULL ? NULL : json_get(tree, BYTES("stream"));
	if (error != NULL)
		error_read(error, e);
	else if (stream != NULL && stream->type == JSON_STRING && number_of(tree, "seq") > 0)
		sender_result(e, SENDER_SENT, 0, NULL); /* also "duplicate": it has it already */
	else
		sender_result(e, SENDER_LATER, 0, "the answer is not one of a stream");
}

const char *nats_err_text(struct bytes text)
{
	static const char *const known[] = {"Account Authentication Expired",
	                                    "Authentication Expired",
	                                    "Authentication Revoked",
	                                    "Authentication Timeout",
	                                    "Authorization Violation",
	                                    "Invalid Publish Subject",
	                                    "Invalid Subject",
	                                    "Maximum Account Active Connections Exceeded",
	                                    "Maximum Connections Exceeded",
	                                    "Maximum Control Line Exceeded",
	                                    "Maximum Payload Violation",
	                                    "Parser Error",
	                                    "Permissions Violation",
	                                    "Secure Connection - TLS Required",
	                                    "Server Shutdown",
	                                    "Slow Consumer",
	                                    "Stale Connection",
	                                    "Unknown Protocol Operation",
	                                    "User Authentication Expired",
	                                    "User Authentication Revoked"};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (text.len >= strlen(known[i]) && strncasecmp(text.data, known[i], strlen(known[i])) == 0)
			return known[i];
	return "the server reported an error that Gatehouse does not know";
}

bool nats_err_is_about(struct bytes text, struct bytes subject)
{
	struct bytes prefix = BYTES("Permissions Violation for Publish to \"");

	return text.len == prefix.len + subject.len + 1 && bytes_starts_with(text, prefix) &&
	       bytes_equal((struct bytes){text.data + prefix.len, subject.len}, subject) &&
	       text.data[text.len - 1] == '"';
}

/* ---- writing ---- */

#define HEAD_BEGIN "NATS/1.0\r\nNats-Msg-Id: "
#define HEAD_END   "\r\ncontent-type: application/cloudevents+json\r\n\r\n"

static size_t head_bytes(const struct nats_publication *p)
{
	return strlen(HEAD_BEGIN) + p->id.len + strlen(HEAD_END);
}

size_t nats_publication_bytes(const struct nats_publication *p)
{
	return head_bytes(p) + p->body.len;
}

void nats_write(struct buf *out, const struct nats_publication *p)
{
	buf_reserve(out, p->subject.len + p->reply.len + nats_publication_bytes(p) + 64);
	buf_add_bytes(out, BYTES("HPUB "));
	buf_add_bytes(out, p->subject);
	buf_add_byte(out, ' ');
	buf_add_bytes(out, p->reply);
	buf_add_byte(out, ' ');
	buf_add_i64(out, (int64_t)head_bytes(p));
	buf_add_byte(out, ' ');
	buf_add_i64(out, (int64_t)nats_publication_bytes(p));
	buf_add_bytes(out, BYTES("\r\n" HEAD_BEGIN));
	buf_add_bytes(out, p->id);
	buf_add_bytes(out, BYTES(HEAD_END));
	buf_add_bytes(out, p->body);
	buf_add_bytes(out, BYTES("\r\n"));
}

bool nats_subject_is(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] == '.' && (i == 0 || i + 1 == text.len || text.data[i - 1] == '.'))
			return false;
	return text.len > 0 && bytes_hold_only(text, ".-_");
}
