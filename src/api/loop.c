/* Loop: per-thread state of the API. */
#include "api/loop.h"

#include <stdlib.h>

#include "api/late.h"
#include "dynamo/sigv4.h"

void *api_loop_open(void *ctx)
{
	struct api      *api = ctx;
	struct api_loop *l = mem_zalloc(sizeof(*l));
	unsigned         number = atomic_fetch_add(&api->loop_count, 1);
	struct bytes     own = {(const char *)&number, sizeof(number)};

	l->api = api;
	l->json = json_reader_open();
	l->signatures = sigv4_key_cache_open(api->parts.seed);
	l->late = late_open();
	l->meter = &api->meter.shards[number % METER_SHARDS];
	l->id_state = api->parts.seed.k0;
	l->id_fixed = hash_bytes(api->parts.seed, own);
	buf_init(&l->answer, NULL);
	return l;
}

void api_loop_close(void *ctx, void *loop)
{
	struct api_loop *l = loop;

	(void)ctx;
	late_close(l->late);
	json_reader_close(l->json);
	sigv4_key_cache_close(l->signatures);
	buf_release(&l->answer);
	free(l);
}

struct buf *api_loop_answer(struct api_loop *l)
{
	if (l->answer.cap > ANSWER_KEEP_BYTES_MAX)
		buf_release(&l->answer);
	buf_reset(&l->answer);
	return &l->answer;
}

/* A bijection that spreads every bit (the finalizer of SplitMix64). */
static uint64_t spread(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

enum { ID_DIGITS = 13 }; /* of five bits: all of a 64-bit number */

static void digits_put(char id[ID_DIGITS], uint64_t bits)
{
	static const char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUV";

#pragma GCC unroll 13
	for (unsigned i = 0; i < ID_DIGITS; i++)
		id[i] = alphabet[bits >> 5 * i & 31];
}

/* The first number is the counter, spread, and so never repeats within a loop; the second mixes in what differs
 * between loops; the rest is noise. */
void api_loop_request_id(struct api_loop *l, char id[REQUEST_ID_LENGTH])
{
	uint64_t x = spread(l->id_state++);

	digits_put(id, x);
	digits_put(id + ID_DIGITS, x ^ l->id_fixed);
	digits_put(id + 2 * ID_DIGITS, spread(x + l->id_fixed));
	digits_put(id + 3 * ID_DIGITS, spread(x ^ ~l->id_fixed));
}
