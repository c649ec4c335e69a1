/* Request: see request.h. */
#include "request.h"

#include <stdio.h>

#include "error.h"

void request_init(struct request *q)
{
	q->fault = q->field = NULL;
	q->comma = false;
	q->start = q->end = REQUEST_HEAD_BYTES_MAX;
}

/* ---- bytes ---- */

static void put(struct request *q, const char *data, size_t len)
{
	if (len > sizeof(q->bytes) - q->end) {
		q->fault = "the request is too long";
		return;
	}
	memcpy(q->bytes + q->end, data, len);
	q->end += len;
}

static void put_char(struct request *q, char c)
{
	put(q, &c, 1);
}

static void put_escaped(struct request *q, char c)
{
	char escape[8];

	if (c == '"' || c == '\\') {
		put_char(q, '\\');
		put_char(q, c);
	} else if ((unsigned char)c < 0x20) {
		snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)c);
		put(q, escape, 6);
	} else {
		put_char(q, c);
	}
}

static void put_string(struct request *q, const char *value)
{
	put_char(q, '"');
	for (; *value != '\0'; value++)
		put_escaped(q, *value);
	put_char(q, '"');
}

/* ---- members ---- */

static void begin(struct request *q, const char *name)
{
	if (q->comma)
		put_char(q, ',');
	q->comma = true;
	if (name == NULL)
		return;
	put_string(q, name);
	put_char(q, ':');
}

void request_open(struct request *q, const char *name, char bracket)
{
	begin(q, name);
	put_char(q, bracket);
	q->comma = false;
}

void request_close(struct request *q, char bracket)
{
	put_char(q, bracket);
	q->comma = true;
}

static const char *text_fault(const char *value)
{
	if (value == NULL || *value == '\0')
		return "missing";
	if (strnlen(value, GATEHOUSE_TEXT_BYTES_MAX + 1) > GATEHOUSE_TEXT_BYTES_MAX)
		return "too long";
	return text_is_utf8(text_of(value)) ? NULL : "not UTF-8";
}

void request_text(struct request *q, const char *name, const char *value)
{
	const char *fault = text_fault(value);

	if (fault != NULL) {
		q->fault = fault;
		q->field = name == NULL ? "actions" : name;
		return;
	}
	begin(q, name);
	put_string(q, value);
}

void request_optional(struct request *q, const char *name, const char *value)
{
	if (value != NULL)
		request_text(q, name, value);
}

static const char *kind_name(enum gatehouse_kind kind)
{
	switch (kind) {
	case GATEHOUSE_EMAIL:
		return "email";
	case GATEHOUSE_PHONE:
		return "phone";
	case GATEHOUSE_IP:
		return "ip";
	case GATEHOUSE_PLAIN:
		break;
	}
	return NULL;
}

void request_identifier(struct request *q, const char *name, const char *value, enum gatehouse_kind kind)
{
	const char *member = kind_name(kind);

	if (kind == GATEHOUSE_PLAIN || text_fault(value) != NULL) {
		request_text(q, name, value);
		return;
	}
	if (member == NULL) {
		q->fault = "of an unknown kind";
		q->field = name;
		return;
	}
	request_open(q, name, '{');
	request_text(q, member, value);
	request_close(q, '}');
}

void request_whole(struct request *q, const char *name, int64_t value)
{
	char digits[24];
	int  len = snprintf(digits, sizeof(digits), "%lld", (long long)value);

	begin(q, name);
	put(q, digits, (size_t)len);
}

void request_flag(struct request *q, const char *name, bool value)
{
	begin(q, name);
	put(q, value ? "true" : "false", value ? 4 : 5);
}

/* ---- the head ---- */

static int head_write(const struct request *q, const struct gatehouse *g, const char *path, const char *once,
                      char *out, size_t size)
{
	return snprintf(out, size,
	                "POST %s HTTP/1.1\r\n"
	                "Host: %s\r\n"
	                "User-Agent: libgatehouse/" GATEHOUSE_VERSION "\r\n"
	                "Accept: application/json\r\n"
	                "Content-Type: application/json\r\n"
	                "Content-Length: %zu\r\n"
	                "%s%s%s%s%s%s\r\n",
	                path, g->names.authority, q->end - REQUEST_HEAD_BYTES_MAX,
	                g->key[0] != '\0' ? "Authorization: Bearer " : "", g->key,
	                g->key[0] != '\0' ? "\r\n" : "", once != NULL ? "Idempotency-Key: " : "",
	                once != NULL ? once : "", once != NULL ? "\r\n" : "");
}

enum gatehouse_code request_finish(struct request *q, const struct gatehouse *g, const char *path,
                                   const char *once, struct gatehouse_error *error)
{
	char head[REQUEST_HEAD_BYTES_MAX];
	int  len;

	if (q->fault != NULL) {
		error_set(error, GATEHOUSE_INVALID, "%s%s%s", q->field != NULL ? q->field : "",
		          q->field != NULL ? ": " : "", q->fault);
		snprintf(error->field, sizeof(error->field), "%s", q->field != NULL ? q->field : "");
		return GATEHOUSE_INVALID;
	}
	/* Host, key and idempotency key are bounded so that it always fits. */
	len = head_write(q, g, path, once, head, sizeof(head));
	q->start = REQUEST_HEAD_BYTES_MAX - (size_t)len;
	memcpy(q->bytes + q->start, head, (size_t)len);
	return GATEHOUSE_OK;
}
