/* Client fuzz: the bytes as what a server sends to the client library, twice: whole, and in the pieces that the first
 * bytes choose. Both must come to the same; then everything is looked for in the body, and the RateLimit-Policy header is
 * read: nothing may look outside of its bytes, and what is found must keep its bounds. */
#include <assert.h>
#include <stdlib.h>

#include "answer.h"
#include "ask.h"
#include "json.h"
#include "limiter.h"

enum { SEED_BYTES = 4 };

static size_t piece_len(uint32_t *seed, size_t left)
{
	size_t len;

	if (*seed == 0)
		return left;
	*seed = (*seed * 1664525u + 1013904223u) | 1;
	len = 1 + (*seed >> 16) % ((*seed >> 8) % 8 == 0 ? 700 : 9);
	return len < left ? len : left;
}

static enum answer_step run(struct answer *a, const char *data, size_t len, uint32_t seed)
{
	enum answer_step step = ANSWER_MORE;

	answer_reset(a);
	for (size_t at = 0; at < len && step == ANSWER_MORE;) {
		size_t size, n = piece_len(&seed, len - at);
		char  *room = answer_room(a, &size);

		assert(size > 0);
		n = n < size ? n : size;
		memcpy(room, data + at, n);
		at += n;
		step = answer_took(a, n);
	}
	return step;
}

/* A copy of exactly this size, so that a look one byte past it is caught. */
static struct text copy_of(struct text t)
{
	char *copy = malloc(t.len + 1);

	memcpy(copy + 1, t.data, t.len);
	return (struct text){copy + 1, t.len};
}

static void value_look(struct text value)
{
	char    small[3], large[300];
	int64_t number;
	bool    flag;

	if (json_string(value, small, sizeof(small)) && json_string(value, large, sizeof(large)))
		assert(strlen(small) < sizeof(small) && text_is_utf8(text_of(small)) &&
		       text_is_utf8(text_of(large)));
	(void)json_whole(value, &number);
	(void)json_bool(value, &flag);
}

static void states_look(struct text list)
{
	enum { STATES_MAX = 2 };
	struct gatehouse_limit_state states[STATES_MAX];
	size_t                       count = states_read(list, states, STATES_MAX);

	assert(count <= STATES_MAX);
	for (size_t i = 0; i < count; i++)
		assert(strlen(states[i].policy) < sizeof(states[i].policy) &&
		       text_is_utf8(text_of(states[i].policy)));
}

static void body_look(struct text body)
{
	static const char *const names[] = {"allowed", "verdict",     "lock", "results",
	                                    "limits",  "retry_after", ""};
	struct text              json, value, inner;

	if (!json_check(body, &json))
		return;
	value_look(json);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t at = 0;

		if (!json_find(json, names[i], &value))
			continue;
		value_look(value);
		states_look(value);
		while (json_next(value, &at, &inner)) {
			value_look(inner);
			if (json_find(inner, "limit", &inner))
				value_look(inner);
		}
	}
}

static void policy_look(struct text header)
{
	struct limit limits[LIMITER_LIMITS_MAX];
	unsigned     count = limit_parse(header, limits);

	assert(count <= LIMITER_LIMITS_MAX);
	for (unsigned i = 0; i < count; i++)
		assert(limit_is_sane(&limits[i]));
}

static void parts_look(struct text t)
{
	struct text copy = copy_of(t);

	body_look(copy);
	policy_look(copy);
	free((char *)copy.data - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char    *text = (const char *)data + SEED_BYTES;
	struct answer *whole, *split;
	uint32_t       seed;

	if (size < SEED_BYTES)
		return 0;
	memcpy(&seed, data, sizeof(seed));
	whole = malloc(sizeof(*whole));
	split = malloc(sizeof(*split));
	assert(run(whole, text, size - SEED_BYTES, 0) == run(split, text, size - SEED_BYTES, seed | 1));
	if (run(whole, text, size - SEED_BYTES, 0) == ANSWER_WHOLE) {
		assert(whole->status == split->status && whole->body.len == split->body.len);
		assert(memcmp(whole->body.data, split->body.data, whole->body.len) == 0);
		parts_look(whole->body);
		if (whole->policy.len > 0)
			parts_look(whole->policy);
	}
	parts_look((struct text){text, size - SEED_BYTES});
	free(whole);
	free(split);
	return 0;
}
