/* Answer: see answer.h.
 *
 *    HEAD --> BODY                                          a length
 *      |  --> CHUNK_SIZE --> CHUNK --> CHUNK_END --.        chunks
 *      |          ^  |                             |
 *      |          |  '--0--> TRAILER               |
 *      |          '--------------------------------'
 *      '--> HEAD                                            1xx: the answer is still to come
 *
 * The data of chunks is moved together in the buffer as it comes, so that the body is one piece; it can only
 * move to the left, over sizes that have been read. */
#include "answer.h"

enum { CHUNK_LINE_BYTES_MAX = 256, TRAILER_LINES_MAX = 32 };

static enum answer_step step(struct answer *a);

void answer_reset(struct answer *a)
{
	memset(a, 0, offsetof(struct answer, buffer));
}

char *answer_room(struct answer *a, size_t *size)
{
	*size = ANSWER_BYTES_MAX - a->used;
	return a->buffer + a->used;
}

enum answer_step answer_took(struct answer *a, size_t len)
{
	enum answer_step rc;
	size_t           before;

	a->used += len;
	do {
		enum answer_state state = a->state;

		before = a->at;
		rc = step(a);
		if (rc == ANSWER_MORE && a->at == before && a->state == state)
			break;
	} while (rc == ANSWER_MORE);
	if (rc == ANSWER_MORE && a->used == ANSWER_BYTES_MAX)
		return ANSWER_BAD;
	if (rc == ANSWER_WHOLE && a->at != a->used)
		a->keep = false; /* bytes that nobody asked for */
	return rc;
}

/* ---- lines ---- */

/* The line at a->at, without its CR LF, if it is all there: moves behind it. Longer than `max`, or with a CR or LF
 * where none belongs, it is bad. */
static enum answer_step take_line(struct answer *a, size_t max, struct text *line)
{
	const char *start = a->buffer + a->at, *lf;
	size_t      from = a->scanned > a->at ? a->scanned : a->at;

	lf = memchr(a->buffer + from, '\n', a->used - from);
	a->scanned = a->used;
	if (lf == NULL)
		return a->used - a->at > max ? ANSWER_BAD : ANSWER_MORE;
	*line = (struct text){start, (size_t)(lf - start)};
	if (line->len == 0 || lf[-1] != '\r' || line->len + 1 > max)
		return ANSWER_BAD;
	line->len--;
	if (memchr(line->data, '\r', line->len) != NULL || memchr(line->data, '\0', line->len) != NULL)
		return ANSWER_BAD;
	a->at += line->len + 2;
	a->scanned = a->at;
	return ANSWER_WHOLE;
}

static bool is_digits(struct text t)
{
	for (size_t i = 0; i < t.len; i++)
		if (t.data[i] < '0' || t.data[i] > '9')
			return false;
	return t.len > 0;
}

/* Digits only, and within what a buffer or an hour of waiting can hold. */
static bool parse_number(struct text t, int64_t *out)
{
	if (!is_digits(t) || t.len > 12)
		return false;
	*out = 0;
	for (size_t i = 0; i < t.len; i++)
		*out = *out * 10 + (t.data[i] - '0');
	return true;
}

/* ---- the head ---- */

/* HTTP/1.1 SP 3DIGIT SP reason */
static bool parse_status(struct answer *a, struct text line)
{
	int64_t status;

	if (line.len < 12 || memcmp(line.data, "HTTP/1.", 7) != 0 ||
	    (line.data[7] != '1' && line.data[7] != '0'))
		return false;
	if (line.data[8] != ' ' || (line.len > 12 && line.data[12] != ' '))
		return false;
	if (!parse_number((struct text){line.data + 9, 3}, &status) || status < 100 || status > 599)
		return false;
	a->status = (int)status;
	a->keep = line.data[7] == '1';
	return true;
}

static bool parse_length(struct answer *a, struct text value)
{
	int64_t length;

	if (a->sized || !parse_number(value, &length) || length > ANSWER_BYTES_MAX)
		return false;
	a->sized = true;
	a->left = (size_t)length;
	return true;
}

/* The type without its parameters. */
static void parse_type(struct answer *a, struct text value)
{
	const char *semicolon = memchr(value.data, ';', value.len);

	if (semicolon != NULL)
		value.len = (size_t)(semicolon - value.data);
	while (value.len > 0 && value.data[value.len - 1] == ' ')
		value.len--;
	a->problem = text_is_name(value, "application/problem+json");
	a->json = a->problem || text_is_name(value, "application/json");
}

/* A list of words; only "close" matters. */
static void parse_connection(struct answer *a, struct text value)
{
	size_t at = 0;

	while (at < value.len) {
		size_t start = at;

		while (at < value.len && value.data[at] != ',' && value.data[at] != ' ')
			at++;
		if (text_is_name((struct text){value.data + start, at - start}, "close"))
			a->keep = false;
		at++;
	}
}

static bool parse_header(struct answer *a, struct text name, struct text value)
{
	if (text_is_name(name, "content-length"))
		return parse_length(a, value);
	if (text_is_name(name, "transfer-encoding")) {
		bool twice = a->chunked;

		a->chunked = true;
		return !twice && text_is_name(value, "chunked");
	}
	if (text_is_name(name, "connection"))
		parse_connection(a, value);
	else if (text_is_name(name, "content-type"))
		parse_type(a, value);
	else if (text_is_name(name, "retry-after"))
		(void)parse_number(value, &a->retry_after);
	else if (text_is_name(name, "ratelimit-policy"))
		a->policy = value;
	return true;
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/* name ":" blanks value blanks */
static bool parse_header_line(struct answer *a, struct text line)
{
	struct text name = {line.data, 0}, value;

	while (name.len < line.len && is_name_char(line.data[name.len]))
		name.len++;
	if (name.len == 0 || name.len == line.len || line.data[name.len] != ':')
		return false;
	value = (struct text){line.data + name.len + 1, line.len - name.len - 1};
	while (value.len > 0 && (*value.data == ' ' || *value.data == '\t')) {
		value.data++;
		value.len--;
	}
	while (value.len > 0 && (value.data[value.len - 1] == ' ' || value.data[value.len - 1] == '\t'))
		value.len--;
	return parse_header(a, name, value);
}

/* Where the head was is free for the next one: what a 1xx answer said does not matter. */
static enum answer_step head_again(struct answer *a)
{
	unsigned interim = a->interim + 1;
	size_t   rest = a->used - a->at;

	if (interim > ANSWER_INTERIM_MAX || a->sized || a->chunked)
		return ANSWER_BAD;
	memmove(a->buffer, a->buffer + a->at, rest);
	answer_reset(a);
	a->interim = interim;
	a->used = rest;
	return ANSWER_MORE;
}

static enum answer_step head_end(struct answer *a)
{
	if (a->status < 200)
		return a->status == 101 ? ANSWER_BAD : head_again(a);
	if (a->sized == a->chunked)
		return ANSWER_BAD;
	a->body_at = a->at;
	a->state = a->chunked ? ANSWER_CHUNK_SIZE : ANSWER_BODY;
	return a->left > ANSWER_BYTES_MAX - a->at ? ANSWER_BAD : ANSWER_MORE;
}

/* A line of the head at a time; `status` is 0 before the first. */
static enum answer_step step_head(struct answer *a)
{
	struct text      line;
	enum answer_step rc = take_line(a, ANSWER_HEAD_BYTES_MAX - a->at, &line);
	bool             good;

	if (rc != ANSWER_WHOLE)
		return rc;
	if (a->status != 0 && line.len == 0)
		return head_end(a);
	good = a->status == 0 ? parse_status(a, line) : parse_header_line(a, line);
	return good ? ANSWER_MORE : ANSWER_BAD;
}

/* ---- the body ---- */

static enum answer_step body_end(struct answer *a)
{
	a->body = (struct text){a->buffer + a->body_at, a->body_len};
	return ANSWER_WHOLE;
}

static enum answer_step step_body(struct answer *a)
{
	if (a->used - a->at < a->left)
		return ANSWER_MORE;
	a->body_len = a->left;
	a->at += a->left;
	return body_end(a);
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* chunk-size [ ";" what nobody reads ] */
static enum answer_step step_chunk_size(struct answer *a)
{
	struct text      line;
	enum answer_step rc = take_line(a, CHUNK_LINE_BYTES_MAX, &line);
	size_t           i, size = 0;

	if (rc != ANSWER_WHOLE)
		return rc;
	for (i = 0; i < line.len && hex_value(line.data[i]) >= 0 && size <= ANSWER_BYTES_MAX; i++)
		size = size * 16 + (size_t)hex_value(line.data[i]);
	if (i == 0 || size > ANSWER_BYTES_MAX || (i < line.len && line.data[i] != ';'))
		return ANSWER_BAD;
	a->left = size;
	a->state = size == 0 ? ANSWER_TRAILER : ANSWER_CHUNK;
	if (size == 0)
		a->left = TRAILER_LINES_MAX;
	return ANSWER_MORE;
}

/* Moves what there is of a chunk to the body's end. */
static enum answer_step step_chunk(struct answer *a)
{
	size_t n = a->used - a->at < a->left ? a->used - a->at : a->left;

	memmove(a->buffer + a->body_at + a->body_len, a->buffer + a->at, n);
	a->body_len += n;
	a->at += n;
	a->left -= n;
	if (a->left == 0)
		a->state = ANSWER_CHUNK_END;
	return ANSWER_MORE;
}

static enum answer_step step_chunk_end(struct answer *a)
{
	struct text      line;
	enum answer_step rc = take_line(a, CHUNK_LINE_BYTES_MAX, &line);

	if (rc != ANSWER_WHOLE)
		return rc;
	a->state = ANSWER_CHUNK_SIZE;
	return line.len == 0 ? ANSWER_MORE : ANSWER_BAD;
}

/* Lines that nobody reads, up to an empty one. */
static enum answer_step step_trailer(struct answer *a)
{
	struct text      line;
	enum answer_step rc = take_line(a, ANSWER_HEAD_BYTES_MAX, &line);

	if (rc != ANSWER_WHOLE)
		return rc;
	if (line.len == 0)
		return body_end(a);
	return a->left-- == 0 ? ANSWER_BAD : ANSWER_MORE;
}

static enum answer_step step(struct answer *a)
{
	switch (a->state) {
	case ANSWER_HEAD:
		return step_head(a);
	case ANSWER_BODY:
		return step_body(a);
	case ANSWER_CHUNK_SIZE:
		return step_chunk_size(a);
	case ANSWER_CHUNK:
		return step_chunk(a);
	case ANSWER_CHUNK_END:
		return step_chunk_end(a);
	case ANSWER_TRAILER:
		return step_trailer(a);
	}
	return ANSWER_BAD;
}
