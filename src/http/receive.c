/* Receive: head, then body, each within its limits. Body memory grows with what has come, not with what was
 * announced, so a peer that only announces costs nothing. */
#include "http/receive.h"

#include <assert.h>

enum {
	BODY_DIRECT_BYTES_MIN = 16 * 1024, /* less than this left: not worth its own read */
	BODY_READ_BYTES_MAX = 64 * 1024,   /* one read, so that one connection cannot hold up its loop */
};

/* ---- the budget ---- */

static size_t budget_cost(size_t cap)
{
	return cap > BUDGET_FREE_BYTES ? cap : 0;
}

bool budget_move(struct budget *b, size_t cap_from, size_t cap_to)
{
	size_t held = b->held_bytes - budget_cost(cap_from) + budget_cost(cap_to);

	assert(b->held_bytes >= budget_cost(cap_from));
	if (cap_to > cap_from && held > b->held_bytes_max)
		return false;
	b->held_bytes = held;
	return true;
}

bool budget_take(struct budget *b, size_t own, size_t bytes)
{
	assert(b->held_bytes >= own);
	if (b->held_bytes > own && b->held_bytes + bytes > b->held_bytes_max)
		return false;
	b->held_bytes += bytes;
	return true;
}

bool budget_park(struct budget *b, size_t bytes)
{
	if (bytes > b->held_bytes_max / 2 - b->parked_bytes)
		return false;
	b->parked_bytes += bytes;
	return true;
}

void budget_unpark(struct budget *b, size_t bytes)
{
	assert(b->parked_bytes >= bytes);
	b->parked_bytes -= bytes;
}

/* ---- a request ---- */

void receive_init(struct receive *r, struct http_request *request, const struct http_limits *limits,
                  struct budget *budget)
{
	*r = (struct receive){.limits = limits, .request = request, .budget = budget};
	buf_init(&r->body, NULL);
	arena_init(&request->arena);
}

static void body_release(struct receive *r)
{
	budget_move(r->budget, r->body.cap, 0);
	buf_release(&r->body);
}

static void charges_release(struct receive *r)
{
	r->budget->held_bytes -= r->charged_bytes;
	r->charged_bytes = 0;
}

bool receive_charge(struct receive *r, size_t bytes)
{
	if (!budget_take(r->budget, budget_cost(r->body.cap) + r->charged_bytes, bytes))
		return false;
	r->charged_bytes += bytes;
	return true;
}

void receive_reset(struct receive *r)
{
	r->part = RECEIVE_HEAD;
	scan_init(&r->scan);
	r->refusal = (struct refusal){0};
	r->continue_wanted = false;
	r->admitted = r->digests = false;
	r->digested_bytes = 0;
	r->head = (struct head){0};
	charges_release(r);
	if (r->body.cap > BUDGET_FREE_BYTES)
		body_release(r);
	buf_reset(&r->body);
	arena_reset(&r->request->arena);
	r->request->path = (struct bytes){NULL, 0};
	r->request->method = HTTP_OTHER;
	r->request->header_count = 0;
	r->request->body = (struct bytes){0};
	r->request->body_sha256 = NULL;
	r->request->body_refused = false;
}

void receive_release(struct receive *r)
{
	charges_release(r);
	body_release(r);
	arena_release(&r->request->arena);
}

static enum receive_step refuse(struct receive *r, int status, const char *text)
{
	r->refusal = (struct refusal){status, text};
	return RECEIVE_REFUSED;
}

/* "http://host/path", which a server must take as well as "/path" (RFC 9112 3.2.2). */
static struct bytes target_without_authority(struct bytes target)
{
	const char *scheme_end, *at, *end = target.data + target.len;

	if (target.len == 0 || target.data[0] == '/' || target.data[0] == '*')
		return target;
	scheme_end = memchr(target.data, ':', target.len);
	if (scheme_end == NULL)
		return target;
	at = end - scheme_end < 3 ? end : scheme_end + 3;
	while (at < end && *at != '/' && *at != '?')
		at++;
	return at == end ? BYTES("/") : (struct bytes){at, (size_t)(end - at)};
}

static void target_split(struct http_request *q, struct bytes target)
{
	struct bytes rest = target_without_authority(target);
	const char  *mark = memchr(rest.data, '?', rest.len);

	q->target = target;
	q->path = rest;
	q->query = (struct bytes){rest.data + rest.len, 0};
	if (mark == NULL)
		return;
	q->path.len = (size_t)(mark - rest.data);
	q->query = (struct bytes){mark + 1, rest.len - q->path.len - 1};
	if (q->path.len == 0)
		q->path = BYTES("/");
}

/* The head is known; what of the body? */
static enum receive_step body_begin(struct receive *r)
{
	r->part = RECEIVE_BODY;
	r->continue_wanted = r->head.expects_continue;
	if (r->head.content_length > r->limits->body_bytes_max)
		return refuse(r, 413, "the request's body is too large");
	chunk_init(&r->chunk);
	return RECEIVE_MORE;
}

static enum receive_step head_take(struct receive *r, struct bytes text)
{
	struct http_request *q = r->request;
	struct bytes         copy = arena_copy(&q->arena, text);

	if (!parse_head(copy, q->headers, &r->head, &r->refusal))
		return RECEIVE_REFUSED;
	q->header_count = r->head.header_count;
	q->method = r->head.method;
	if (r->head.target.len > r->limits->target_bytes_max)
		return refuse(r, 414, "the request target is too long");
	target_split(q, r->head.target);
	return body_begin(r);
}

static enum receive_step head_feed(struct receive *r, struct bytes in, size_t *used)
{
	struct scan_limits limits = {r->limits->head_bytes_max, r->limits->target_bytes_max};

	switch (scan_head(&r->scan, in, &limits, &r->refusal)) {
	case SCAN_MORE:
		return RECEIVE_MORE;
	case SCAN_REFUSED:
		return RECEIVE_REFUSED;
	case SCAN_END:
		break;
	}
	*used = r->scan.at;
	return head_take(r, (struct bytes){in.data + r->scan.head_start, r->scan.at - r->scan.head_start});
}

/* Room for `more` bytes, if the budget has it. buf_grow doubles, and the budget must know beforehand. */
static bool body_reserve(struct receive *r, size_t more)
{
	struct buf *b = &r->body;
	size_t      cap = b->cap * 2 > b->len + more ? b->cap * 2 : b->len + more;

	if (b->cap - b->len >= more)
		return true;
	if (!budget_move(r->budget, b->cap, cap))
		return false;
	b->data = mem_realloc(b->data, cap);
	b->cap = cap;
	return true;
}

void receive_admit(struct receive *r, bool digests)
{
	r->admitted = true;
	r->digests = digests;
	if (digests)
		sha256_begin(&r->digest);
}

static void digest_more(struct receive *r)
{
	if (!r->digests)
		return;
	sha256_add(&r->digest,
	           (struct bytes){r->body.data + r->digested_bytes, r->body.len - r->digested_bytes});
	r->digested_bytes = r->body.len;
}

static enum receive_step body_add(struct receive *r, struct bytes piece)
{
	if (piece.len > r->limits->body_bytes_max - r->body.len)
		return refuse(r, 413, "the request's body is too large");
	if (!body_reserve(r, piece.len))
		return refuse(r, 503, "too many large requests at once; try again shortly");
	buf_add_bytes(&r->body, piece);
	digest_more(r);
	return RECEIVE_MORE;
}

static enum receive_step body_finish(struct receive *r)
{
	r->continue_wanted = false;
	r->request->body = buf_bytes(&r->body);
	if (r->digests) {
		digest_more(r);
		sha256_end(&r->digest, r->sha256);
		r->request->body_sha256 = r->sha256;
	}
	return RECEIVE_DONE;
}

static enum receive_step chunked_feed(struct receive *r, struct bytes in, size_t *used)
{
	for (;;) {
		struct bytes    piece;
		size_t          took = 0;
		enum chunk_step step = chunk_next(&r->chunk, in, &took, &piece);

		*used += took;
		in = (struct bytes){in.data + took, in.len - took};
		if (step == CHUNK_STEP_BAD)
			return refuse(r, 400, "malformed chunked body");
		if (step == CHUNK_STEP_DONE)
			return body_finish(r);
		if (step == CHUNK_STEP_MORE)
			return RECEIVE_MORE;
		if (body_add(r, piece) == RECEIVE_REFUSED)
			return RECEIVE_REFUSED;
		if (!r->admitted && r->body.len > HTTP_SMALL_BODY_BYTES)
			return RECEIVE_LARGE;
	}
}

static size_t body_left(const struct receive *r)
{
	return (size_t)r->head.content_length - r->body.len;
}

static enum receive_step body_feed(struct receive *r, struct bytes in, size_t *used)
{
	if (r->head.chunked)
		return chunked_feed(r, in, used);
	if (!r->admitted && r->head.content_length > HTTP_SMALL_BODY_BYTES)
		return RECEIVE_LARGE;
	if (in.len > body_left(r))
		in.len = body_left(r);
	*used += in.len;
	if (in.len > 0 && body_add(r, in) == RECEIVE_REFUSED)
		return RECEIVE_REFUSED;
	return body_left(r) == 0 ? body_finish(r) : RECEIVE_MORE;
}

enum receive_step receive_feed(struct receive *r, struct bytes in, size_t *used)
{
	*used = 0;
	if (r->part == RECEIVE_HEAD) {
		enum receive_step step = head_feed(r, in, used);

		if (step != RECEIVE_MORE || r->part == RECEIVE_HEAD)
			return step;
	}
	return body_feed(r, (struct bytes){in.data + *used, in.len - *used}, used);
}

char *receive_room(struct receive *r, size_t *room)
{
	if (r->part != RECEIVE_BODY || r->head.chunked || body_left(r) < BODY_DIRECT_BYTES_MIN)
		return NULL;
	*room = body_left(r) < BODY_READ_BYTES_MAX ? body_left(r) : BODY_READ_BYTES_MAX;
	/* No budget: the small way will say so. */
	return body_reserve(r, *room) ? r->body.data + r->body.len : NULL;
}

enum receive_step receive_took(struct receive *r, size_t len)
{
	r->body.len += len;
	digest_more(r);
	return body_left(r) == 0 ? body_finish(r) : RECEIVE_MORE;
}

/* ---- chunks: one byte at a time through the framing, whole pieces through the data ---- */

void chunk_init(struct chunk *c)
{
	*c = (struct chunk){0};
}

static bool size_byte(struct chunk *c, uint8_t byte)
{
	int value = hex_digit((char)byte);

	if (value >= 0) {
		c->left = c->left * 16 + (unsigned)value;
		return ++c->digits <= CHUNK_SIZE_DIGITS_MAX;
	}
	if (c->digits == 0)
		return false;
	c->line_bytes = 0;
	c->state = byte == '\r' ? CHUNK_SIZE_LF : CHUNK_EXTENSION;
	return byte == '\r' || byte == ';';
}

static bool text_byte_is_right(uint8_t byte)
{
	return (byte >= 0x20 && byte != 0x7f) || byte == '\t';
}

static bool extension_byte(struct chunk *c, uint8_t byte)
{
	if (byte == '\r') {
		c->state = CHUNK_SIZE_LF;
		return true;
	}
	return text_byte_is_right(byte) && ++c->line_bytes <= CHUNK_EXTENSION_BYTES_MAX;
}

static bool size_lf_byte(struct chunk *c, uint8_t byte)
{
	c->state = c->left > 0 ? CHUNK_DATA : CHUNK_TRAILER;
	c->line_bytes = 0;
	return byte == '\n';
}

static bool data_lf_byte(struct chunk *c, uint8_t byte)
{
	c->state = CHUNK_SIZE;
	c->left = 0;
	c->digits = 0;
	return byte == '\n';
}

static bool trailer_byte(struct chunk *c, uint8_t byte)
{
	if (byte == '\r') {
		c->state = CHUNK_TRAILER_LF;
		return true;
	}
	c->line_bytes++;
	return text_byte_is_right(byte) && ++c->trailer_bytes <= CHUNK_TRAILER_BYTES_MAX;
}

static bool trailer_lf_byte(struct chunk *c, uint8_t byte)
{
	c->state = c->line_bytes == 0 ? CHUNK_DONE : CHUNK_TRAILER;
	c->line_bytes = 0;
	return byte == '\n';
}

/* Moves the framing by one byte; false if it cannot stand there. */
static bool framing_byte(struct chunk *c, uint8_t byte)
{
	switch (c->state) {
	case CHUNK_SIZE:
		return size_byte(c, byte);
	case CHUNK_EXTENSION:
		return extension_byte(c, byte);
	case CHUNK_SIZE_LF:
		return size_lf_byte(c, byte);
	case CHUNK_DATA_CR:
		c->state = CHUNK_DATA_LF;
		return byte == '\r';
	case CHUNK_DATA_LF:
		return data_lf_byte(c, byte);
	case CHUNK_TRAILER:
		return trailer_byte(c, byte);
	case CHUNK_TRAILER_LF:
		return trailer_lf_byte(c, byte);
	case CHUNK_DATA:
	case CHUNK_DONE:
		break;
	}
	return false;
}

static struct bytes data_piece(struct chunk *c, struct bytes in)
{
	size_t len = in.len < c->left ? in.len : (size_t)c->left;

	c->left -= len;
	if (c->left == 0)
		c->state = CHUNK_DATA_CR;
	return (struct bytes){in.data, len};
}

enum chunk_step chunk_next(struct chunk *c, struct bytes in, size_t *used, struct bytes *piece)
{
	size_t at = 0;

	while (at < in.len && c->state != CHUNK_DATA && c->state != CHUNK_DONE)
		if (!framing_byte(c, (uint8_t)in.data[at++]))
			return CHUNK_STEP_BAD;
	*used = at;
	if (c->state == CHUNK_DONE)
		return CHUNK_STEP_DONE;
	if (at == in.len)
		return CHUNK_STEP_MORE;
	*piece = data_piece(c, (struct bytes){in.data + at, in.len - at});
	*used = at + piece->len;
	return CHUNK_STEP_PIECE;
}
