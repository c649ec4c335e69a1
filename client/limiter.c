/* Limiter: see limiter.h. Entries lie in sets of LIMITER_WAYS; a key's hash says which set, and is its name in
 * it. */
#include "limiter.h"

#include <stdlib.h>

static const int64_t SECOND_NS = INT64_C(1000000000);
static const int64_t SPAN_NS_MAX = INT64_MAX / 8;

/* ---- hashing: SipHash-2-4 ---- */

static uint64_t rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], unsigned rounds)
{
	while (rounds-- > 0) {
		v[0] += v[1];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[0] = rotate(v[0], 32);
		v[2] += v[3];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[2] = rotate(v[2], 32);
	}
}

static void sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_rounds(v, 2);
	v[0] ^= word;
}

/* Of the text, and of which limit of which policy it is about. Never 0. */
static uint64_t hash(const struct limiter *l, uint64_t about, const char *key)
{
	uint64_t v[4] = {l->seed[0] ^ UINT64_C(0x736f6d6570736575), l->seed[1] ^ UINT64_C(0x646f72616e646f6d),
	                 l->seed[0] ^ UINT64_C(0x6c7967656e657261),
	                 l->seed[1] ^ UINT64_C(0x7465646279746573)};
	size_t   len = strlen(key), at;
	uint64_t word;

	sip_word(v, about);
	for (at = 0; at + sizeof(word) <= len; at += sizeof(word)) {
		memcpy(&word, key + at, sizeof(word));
		sip_word(v, word);
	}
	word = (uint64_t)(len + sizeof(about)) << 56;
	memcpy(&word, key + at, len - at);
	sip_word(v, word);
	v[2] ^= 0xff;
	sip_rounds(v, 4);
	return (v[0] ^ v[1] ^ v[2] ^ v[3]) | 1;
}

/* ---- entries ---- */

static struct limiter_entry *set_of(struct limiter *l, uint64_t key)
{
	return l->entries + ((key >> 8) & l->mask & ~(uint64_t)(LIMITER_WAYS - 1));
}

static int64_t entry_load(struct limiter *l, uint64_t key)
{
	struct limiter_entry *set = set_of(l, key);

	for (int i = 0; i < LIMITER_WAYS; i++)
		if (set[i].key == key)
			return set[i].full_ns;
	return 0;
}

/* Free entries and expired ones have the smallest instants: (3) is one comparison. */
static void entry_store(struct limiter *l, uint64_t key, int64_t full_ns)
{
	struct limiter_entry *set = set_of(l, key), *chosen = set;

	for (int i = 0; i < LIMITER_WAYS; i++) {
		if (set[i].key == key) {
			chosen = &set[i];
			break;
		}
		if (set[i].full_ns < chosen->full_ns)
			chosen = &set[i];
	}
	*chosen = (struct limiter_entry){key, full_ns};
}

/* ---- policies ---- */

static struct limiter_policy *policy_find(struct limiter *l, const char *name)
{
	for (unsigned i = 0; i < l->policy_count; i++)
		if (strcmp(l->policies[i].name, name) == 0)
			return &l->policies[i];
	return NULL;
}

static struct limiter_policy *policy_make(struct limiter *l, const char *name)
{
	struct limiter_policy *p = policy_find(l, name);

	if (p != NULL)
		return p;
	if (l->policy_count == LIMITER_POLICIES_MAX || strlen(name) >= LIMITER_NAME_BYTES_MAX)
		return NULL;
	p = &l->policies[l->policy_count++];
	memcpy(p->name, name, strlen(name) + 1);
	return p;
}

bool limit_is_sane(const struct limit *limit)
{
	return limit->limit >= 0 && limit->limit <= LIMITER_LIMIT_MAX && limit->window_s >= 1 &&
	       limit->window_s <= LIMITER_WINDOW_S_MAX && limit->burst >= 0 &&
	       limit->burst <= LIMITER_LIMIT_MAX;
}

bool limiter_give(struct limiter *l, const struct gatehouse_limit *given)
{
	struct limit limit = {given->limit, given->window_s, given->burst > 0 ? given->burst : given->limit};
	struct limiter_policy *p;

	if (given->policy == NULL || given->burst < 0 || !limit_is_sane(&limit))
		return false;
	p = policy_make(l, given->policy);
	if (p == NULL || p->count == LIMITER_LIMITS_MAX)
		return false;
	p->given = true;
	p->limits[p->count++] = limit;
	return true;
}

void limiter_learn(struct limiter *l, const char *policy, struct text header)
{
	struct limit           limits[LIMITER_LIMITS_MAX];
	unsigned               count = limit_parse(header, limits);
	struct limiter_policy *p;

	if (count == 0)
		return;
	pthread_mutex_lock(&l->lock);
	p = policy_make(l, policy);
	if (p != NULL && !p->given) {
		p->count = count;
		memcpy(p->limits, limits, sizeof(limits[0]) * count);
	}
	pthread_mutex_unlock(&l->lock);
}

/* ---- GCRA ---- */

/* What `units` take of a limit, as time, rounded up: `limit` units are a window. */
static int64_t span_ns(const struct limit *limit, int64_t units)
{
	__int128 span = (__int128)units * limit->window_s * SECOND_NS;

	span = (span + limit->limit - 1) / limit->limit;
	return span < SPAN_NS_MAX ? (int64_t)span : SPAN_NS_MAX;
}

/* One limit of a key, and what a cost would do to it. */
struct trial {
	uint64_t key;
	int64_t  now_ns, full_ns; /* now or later */
	int64_t  cost_ns, burst_ns, unit_ns;
};

static struct trial trial_of(struct limiter *l, const struct limiter_policy *p, unsigned i, const char *key,
                             int64_t cost, int64_t now_ns)
{
	const struct limit *limit = &p->limits[i];
	struct trial        t = {.now_ns = now_ns, .cost_ns = 1, .unit_ns = 1};
	int64_t             full_ns;

	t.key = hash(l, (uint64_t)(p - l->policies) * LIMITER_LIMITS_MAX + i, key);
	full_ns = entry_load(l, t.key);
	t.full_ns = full_ns > now_ns ? full_ns : now_ns;
	if (limit->limit > 0) {
		t.cost_ns = span_ns(limit, cost);
		t.burst_ns = span_ns(limit, limit->burst);
		t.unit_ns = span_ns(limit, 1);
	}
	return t;
}

/* How long until the cost fits; 0 or less: it does. */
static int64_t trial_wait_ns(const struct trial *t)
{
	return t->full_ns + t->cost_ns - t->burst_ns - t->now_ns;
}

static int64_t seconds_up(int64_t ns)
{
	return ns <= 0 ? 0 : (ns - 1) / SECOND_NS + 1;
}

static void trial_show(const struct trial *t, const struct limiter_policy *p, unsigned i,
                       struct gatehouse_limit_state *state)
{
	int64_t room_ns = t->now_ns + t->burst_ns - t->full_ns;

	text_cut(text_of(p->name), state->policy, sizeof(state->policy));
	state->limit = p->limits[i].limit;
	state->remaining = room_ns > 0 ? room_ns / t->unit_ns : 0;
	state->reset_s = seconds_up(t->full_ns - t->now_ns);
}

/* (2): judges all first. A cost beyond the burst never fits, so there is no time to wait for. */
static bool trials_pass(const struct trial *trials, unsigned count, int64_t *retry_after_s)
{
	bool    passes = true;
	int64_t wait_s;

	for (unsigned i = 0; i < count; i++) {
		if (trial_wait_ns(&trials[i]) <= 0)
			continue;
		passes = false;
		wait_s = trials[i].cost_ns > trials[i].burst_ns ? 0 : seconds_up(trial_wait_ns(&trials[i]));
		if (wait_s > *retry_after_s)
			*retry_after_s = wait_s;
	}
	return passes;
}

static void policy_judge(struct limiter *l, const struct limiter_policy *p, const char *key, int64_t cost,
                         int64_t now_ns, struct gatehouse_allow_answer *answer)
{
	struct trial trials[LIMITER_LIMITS_MAX];

	for (unsigned i = 0; i < p->count; i++)
		trials[i] = trial_of(l, p, i, key, cost > 0 ? cost : 1, now_ns);
	answer->allowed = trials_pass(trials, p->count, &answer->retry_after_s);
	answer->result_count = p->count;
	for (unsigned i = 0; i < p->count; i++) {
		answer->results[i].allowed = trial_wait_ns(&trials[i]) <= 0;
		if (answer->allowed && cost > 0) {
			trials[i].full_ns += trials[i].cost_ns;
			entry_store(l, trials[i].key, trials[i].full_ns);
		}
		trial_show(&trials[i], p, i, &answer->results[i]);
	}
}

bool limiter_decide(struct limiter *l, const char *policy, const char *key, int64_t cost, int64_t now_us,
                    struct gatehouse_allow_answer *answer)
{
	const struct limiter_policy *p;

	pthread_mutex_lock(&l->lock);
	p = policy_find(l, policy);
	if (p != NULL)
		policy_judge(l, p, key, cost, now_us * 1000, answer);
	pthread_mutex_unlock(&l->lock);
	return p != NULL;
}

void limiter_note(struct limiter *l, const char *policy, const char *key, int64_t cost, int64_t now_us)
{
	const struct limiter_policy *p;

	pthread_mutex_lock(&l->lock);
	p = policy_find(l, policy);
	for (unsigned i = 0; p != NULL && cost > 0 && i < p->count; i++) {
		struct trial t = trial_of(l, p, i, key, cost, now_us * 1000);
		int64_t      full_ns = t.full_ns + t.cost_ns, most_ns = t.now_ns + t.burst_ns;

		entry_store(l, t.key, full_ns < most_ns ? full_ns : most_ns);
	}
	pthread_mutex_unlock(&l->lock);
}

/* ---- life ---- */

bool limiter_init(struct limiter *l, size_t keys_max, const uint64_t seed[2])
{
	size_t count = LIMITER_WAYS;

	while (count < keys_max)
		count *= 2;
	memset(l, 0, sizeof(*l));
	memcpy(l->seed, seed, sizeof(l->seed));
	l->mask = count - 1;
	l->entries = calloc(count, sizeof(*l->entries));
	if (l->entries == NULL)
		return false;
	pthread_mutex_init(&l->lock, NULL);
	return true;
}

void limiter_release(struct limiter *l)
{
	free(l->entries);
	pthread_mutex_destroy(&l->lock);
}
