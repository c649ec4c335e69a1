/* Limiter: rate limits in this process's memory, for the time when the server cannot be asked. GCRA: a key's
 * state is one instant, the time at which it would be as good as unused again.
 *
 * (1) Memory is taken once, at opening, and never grows. (2) A key under several limits passes all of them and is
 * counted by all, or by none. (3) An entry whose instant has passed says what an absent one says, so it is the
 * first to give way, and then the one whose instant is nearest: the key that loses least.
 *
 * The time is passed in, in microseconds of a clock that never goes back. Any thread may call anything. */
#ifndef CLIENT_LIMITER_H
#define CLIENT_LIMITER_H

#include <pthread.h>

#include "gatehouse.h"
#include "text.h"

enum {
	LIMITER_POLICIES_MAX = 512, /* given and learned together; past it nothing is learned */
	LIMITER_LIMITS_MAX = 4,     /* of one policy */
	LIMITER_NAME_BYTES_MAX = 128,
	LIMITER_WAYS = 8, /* entries that a key may be in */
};

static const int64_t LIMITER_LIMIT_MAX = INT64_C(1000000000);
static const int64_t LIMITER_WINDOW_S_MAX = INT64_C(400) * 86400;

/* `limit` in a window, `burst` at once. Kept between 0 and the maxima. */
struct limit {
	int64_t limit, window_s, burst;
};

struct limiter_policy {
	char         name[LIMITER_NAME_BYTES_MAX];
	bool         given; /* in the options: not changed by what the server says */
	unsigned     count;
	struct limit limits[LIMITER_LIMITS_MAX];
};

struct limiter_entry {
	uint64_t key;     /* 0: free */
	int64_t  full_ns; /* when it is as good as unused */
};

struct limiter {
	/* set once */
	uint64_t seed[2]; /* so that nobody outside can choose keys that meet in one place */
	size_t   mask;    /* entries - 1 */
	/* shared under lock */
	pthread_mutex_t       lock;
	struct limiter_policy policies[LIMITER_POLICIES_MAX];
	unsigned              policy_count;
	struct limiter_entry *entries;
};

/* False: no memory. `keys_max` is rounded up to a power of two. */
bool limiter_init(struct limiter *l, size_t keys_max, const uint64_t seed[2]);
void limiter_release(struct limiter *l);

/* Adds a limit from the options. False: it makes no sense, or there are too many. */
bool limiter_give(struct limiter *l, const struct gatehouse_limit *given);

/* Takes over what the server says of a policy in its RateLimit-Policy header. */
void limiter_learn(struct limiter *l, const char *policy, struct text header);

/* Counts what the server allowed, so that a take-over does not begin with a clean slate. */
void limiter_note(struct limiter *l, const char *policy, const char *key, int64_t cost, int64_t now_us);

/* Decides. Cost 0 only looks. False: the limits of this policy are not known, and *answer is as it was. */
bool limiter_decide(struct limiter *l, const char *policy, const char *key, int64_t cost, int64_t now_us,
                    struct gatehouse_allow_answer *answer);

bool limit_is_sane(const struct limit *limit);

/* The limits in a RateLimit-Policy header, at most LIMITER_LIMITS_MAX; 0: it says none that can be kept. */
unsigned limit_parse(struct text header, struct limit limits[LIMITER_LIMITS_MAX]);

#endif
