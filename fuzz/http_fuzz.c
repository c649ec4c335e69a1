/* HTTP fuzz: the bytes as a stream of requests into the receiving layer, without a socket, twice: whole, and
 * in the random splits that the first bytes choose. Both must accept the same requests and refuse
 * alike: how bytes arrive never changes what they mean. */
#include <assert.h>
#include <stdlib.h>

#include "http/receive.h"

enum { SPLIT_SEED_BYTES = 4, REQUESTS_MAX = 64 };

/* What a run saw, condensed: enough to tell two runs apart. */
struct trace {
	unsigned requests;
	bool     refused;
	size_t   used;
	uint64_t sum;
};

static uint64_t mix(uint64_t sum, struct bytes b)
{
	sum = sum * 1099511628211u + b.len;
	for (size_t i = 0; i < b.len; i++)
		sum = (sum ^ (uint8_t)b.data[i]) * 1099511628211u;
	return sum;
}

/* Everything a request shows is within bounds (the sanitizer looks) and within the limits. */
static void request_check(struct trace *t, const struct http_request *q, const struct http_limits *limits)
{
	assert(q->target.len > 0 && q->target.len <= limits->target_bytes_max);
	assert(q->body.len <= limits->body_bytes_max && q->header_count <= HTTP_HEADERS_MAX);
	assert(q->path.len + q->query.len <= q->target.len + 1);
	t->sum = mix(mix(mix(mix(t->sum, q->target), q->path), q->query), q->body);
	for (unsigned i = 0; i < q->header_count; i++) {
		assert(q->headers[i].name.len > 0);
		t->sum = mix(mix(t->sum, q->headers[i].name), q->headers[i].value);
	}
}

/* The next of a row of pseudo-random piece sizes; 0 in the seed: everything at once. */
static size_t piece_len(uint32_t *seed, size_t left)
{
	size_t len;

	if (*seed == 0)
		return left;
	*seed = *seed * 1664525u + 1013904223u;
	len = 1 + (*seed >> 16) % ((*seed >> 8) % 8 == 0 ? 700 : 9);
	*seed |= 1;
	return len < left ? len : left;
}

/* Reads straight into the body when offered, as a connection does. */
static enum receive_step feed(struct receive *r, struct bytes in, size_t *used)
{
	size_t room;
	char  *place = receive_room(r, &room);

	if (place == NULL)
		return receive_feed(r, in, used);
	*used = in.len < room ? in.len : room;
	memcpy(place, in.data, *used);
	return receive_took(r, *used);
}

/* Feeds a copy of exactly this size, so that a look one byte past it is caught. */
static enum receive_step feed_copy(struct receive *r, struct bytes in, size_t *used)
{
	char             *copy = malloc(in.len);
	enum receive_step step;

	memcpy(copy, in.data, in.len);
	step = feed(r, (struct bytes){copy, in.len}, used);
	free(copy);
	assert(*used <= in.len);
	return step;
}

static void run_stream(struct receive *r, struct bytes text, uint32_t seed, struct trace *t)
{
	size_t shown = 0, used = 0;

	while (t->used < text.len && t->requests < REQUESTS_MAX) {
		enum receive_step step;

		shown += piece_len(&seed, text.len - shown);
		step = feed_copy(r, (struct bytes){text.data + t->used, shown - t->used}, &used);
		t->used += used;
		t->refused = step == RECEIVE_REFUSED;
		if (t->refused || (step == RECEIVE_MORE && used == 0 && shown == text.len))
			return;
		if (step == RECEIVE_LARGE)
			receive_admit(r, true);
		if (step == RECEIVE_MORE || step == RECEIVE_LARGE)
			continue;
		request_check(t, r->request, r->limits);
		t->requests++;
		receive_reset(r);
	}
}

static struct trace run(struct bytes text, uint32_t seed)
{
	struct http_limits   limits = http_limits_default();
	struct budget        budget = {.held_bytes_max = 64 * 1024 * 1024};
	struct http_request *q = calloc(1, sizeof(*q));
	struct trace         t = {0};
	struct receive       r;

	limits.head_bytes_max = 2048;
	limits.target_bytes_max = 512;
	limits.body_bytes_max = 40000;
	receive_init(&r, q, &limits, &budget);
	receive_reset(&r);
	run_stream(&r, text, seed, &t);
	receive_release(&r);
	assert(budget.held_bytes == 0);
	free(q);
	return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace whole, split;
	struct bytes text;
	uint32_t     seed;

	if (size < SPLIT_SEED_BYTES)
		return 0;
	memcpy(&seed, data, sizeof(seed));
	text = (struct bytes){(const char *)data + SPLIT_SEED_BYTES, size - SPLIT_SEED_BYTES};
	whole = run(text, 0);
	split = run(text, seed | 1);
	assert(whole.requests == split.requests && whole.refused == split.refused && whole.sum == split.sum);
	return 0;
}
