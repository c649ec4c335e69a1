/* Metrics of limits, and of keys that are hot. Policies' names come from our own files, keys from callers: those are escaped, few, and never
 * shown if they look like an address (docs/durability.md, invariant 6). */
#include "api/exposition.h"
#include "api/metrics.h"
#include "service/hot_keys.h"
#include "service/limits.h"

enum { LIMIT_METRICS_KEYS = 10 }; /* of each list */

/* X(field of limit_counts, outcome) */
#define OUTCOMES(X)                                                                                          \
	X(allowed, "allowed")                                                                                \
	X(denied, "denied")                                                                                  \
	X(shadowed, "shadowed")

/* X(field of limit_counts, name, help) */
#define MORE(X)                                                                                              \
	X(remembered, "gatehouse_limit_remembered_total",                                                    \
	  "Denied without a lookup, because the key was denied a moment before.")                            \
	X(degraded, "gatehouse_limit_degraded_total",                                                        \
	  "Allowed without a lookup, because the table failed and the policy fails open.")                   \
	X(near, "gatehouse_limit_near_total", "Answers that warned that the limit is near.")

static void sample(struct buf *out, const char *name, const struct limit_policy *p, const char *outcome,
                   const struct metric_counter *count)
{
	struct label labels[] = {{"policy", p->name},
	                         {"outcome", outcome == NULL ? BYTES("") : bytes_of(outcome)}};

	exposition_sample(out, name, (struct labels){labels, outcome == NULL ? 1 : 2},
	                  (double)metric_value(count));
}

static void write_answers(struct buf *out, const struct limit_policies *set)
{
	exposition_family(out, "gatehouse_limit_answers_total", "counter",
	                  "Answers of limits. shadowed: the policy is in shadow mode and would have denied.");
	for (uint32_t i = 0; i < set->count; i++) {
#define X(field, outcome)                                                                                    \
	sample(out, "gatehouse_limit_answers_total", &set->list[i], outcome, &set->list[i].counts->field);
		OUTCOMES(X)
#undef X
	}
#define X(field, name, help)                                                                                 \
	exposition_family(out, name, "counter", help);                                                       \
	for (uint32_t i = 0; i < set->count; i++)                                                            \
		sample(out, name, &set->list[i], NULL, &set->list[i].counts->field);
	MORE(X)
#undef X
}

static void write_memory(struct buf *out, struct limits *l)
{
	struct limit_map_stats stats = limits_memory_stats(l);
	struct labels          none = {NULL, 0};

	exposition_family(out, "gatehouse_limit_memory_bytes", "gauge",
	                  "Bytes used by limits kept in memory.");
	exposition_sample(out, "gatehouse_limit_memory_bytes", none, (double)stats.bytes);
	exposition_family(out, "gatehouse_limit_memory_keys", "gauge", "Keys of limits kept in memory.");
	exposition_sample(out, "gatehouse_limit_memory_keys", none, (double)stats.entries);
	exposition_family(out, "gatehouse_limit_memory_evicted_total", "counter",
	                  "Keys evicted early because the memory was full.");
	exposition_sample(out, "gatehouse_limit_memory_evicted_total", none, (double)stats.evicted);
}

/* ---- keys ---- */

/* Backslash, quote and line feed, as the text format wants it. */
static struct bytes escaped(struct arena *a, struct bytes key)
{
	struct buf out;

	buf_init(&out, a);
	for (size_t i = 0; i < key.len; i++) {
		if (key.data[i] == '\\' || key.data[i] == '"')
			buf_add_byte(&out, '\\');
		if (key.data[i] == '\n')
			buf_add(&out, "\\n", 2);
		else
			buf_add_byte(&out, (uint8_t)key.data[i]);
	}
	return buf_bytes(&out);
}

/* Metrics need no signature: of keys, only those are shown that are hashes of ours, made in this process from what a
 * caller sent. A text that only looks like one is the caller's. The others are in GET /v1/limits/top. */
static void write_keys(struct buf *out, struct limits *l, enum limits_list which, const char *name,
                       const char *help, int64_t now_us)
{
	struct arena                a;
	unsigned                    count;
	const struct limit_top_key *keys;

	arena_init(&a);
	keys = limit_top_read(limits_top(l, which), &a, LIMIT_METRICS_KEYS, now_us, &count);
	exposition_family(out, name, "gauge", help);
	for (unsigned i = 0; i < count; i++) {
		struct label label = {"key", escaped(&a, keys[i].key)};

		if (keys[i].hashed)
			exposition_sample(out, name, (struct labels){&label, 1}, (double)keys[i].count);
	}
	arena_release(&a);
}

void metrics_write_limits(struct buf *out, struct limits *l, int64_t now_us)
{
	struct limit_policies *set = limits_policies(l);

	write_answers(out, set);
	limit_policies_release(set);
	write_memory(out, l);
	write_keys(out, l, LIMITS_HOT, "gatehouse_limit_hot_keys",
	           "The most requested keys of about the last two minutes (hashed keys only).", now_us);
	write_keys(out, l, LIMITS_DENIED, "gatehouse_limit_denied_keys",
	           "The most denied keys of about the last two minutes (hashed keys only).", now_us);
}

/* ---- hot keys: no key, not even hashed ---- */

void metrics_write_hot_keys(struct buf *out, struct hot_keys *h, int64_t now_us)
{
	struct labels  none = {NULL, 0};
	struct arena   a;
	struct hot_key keys[LIMIT_TOP_MAX];
	uint64_t       highest = 0;

	arena_init(&a);
	for (unsigned i = hot_keys_read(h, &a, LIMIT_TOP_MAX, now_us, keys); i > 0; i--)
		highest = keys[i - 1].rate > highest ? keys[i - 1].rate : highest;
	arena_release(&a);
	exposition_family(out, "gatehouse_hot_key_units", "gauge",
	                  "Write units that one key took in the last second, of the hottest key (tables at "
	                  "an endpoint).");
	exposition_sample(out, "gatehouse_hot_key_units", none, (double)highest);
	exposition_family(out, "gatehouse_hot_key_seconds_total", "counter",
	                  "Seconds in which one key took as many write units as --hot-key-units says.");
	exposition_sample(out, "gatehouse_hot_key_seconds_total", none, (double)hot_keys_seconds(h));
}
