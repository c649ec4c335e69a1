/* Metrics: what is measured, under which name. */
#include "api/metrics.h"

#include <string.h>

#include "api/dynamodb.h"
#include "api/exposition.h"
#include "api/api.h"
#include "api/v1.h"
#include "base/audit.h"
#include "base/version.h"
#include "base/worker.h"
#include "service/job.h"
#include "service/hot_keys.h"
#include "service/limits.h"
#include "service/policy_store.h"
#include "service/push.h"
#include "service/push_feedback.h"
#include "service/rules.h"
#include "token/verifier.h"
#include "service/services.h"
#include "service/event.h"
#include "service/sync.h"

/* ---- limits ----
 *
 * Policies' names come from our own files, keys from callers: those are escaped, few, and never shown if they look like
 * an address (docs/durability.md, invariant 6). */

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

static void write_limits(struct buf *out, struct limits *l, int64_t now_us)
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

static void write_hot_keys(struct buf *out, struct hot_keys *h, int64_t now_us)
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

/* ---- everything else ---- */

/* Everything that is one number, read once a scrape. */
struct now {
	struct store_stats store;
	struct http_stats  http;
	uint64_t           key_connections_refused, key_requests_refused, audit_lost;
	bool               ready, restarted;
	int64_t            started_us;
};

/* X(name, kind, what it means, the number) */
#define NUMBERS(X)                                                                                           \
	X("process_start_time_seconds", "gauge",                                                             \
	  "Time at which this process began to serve, in Unix seconds.", (double)now->started_us / 1e6)      \
	X("gatehouse_ready", "gauge", "1 if the server accepts writes, as /readyz says.", now->ready)        \
	X("gatehouse_clock_ahead_seconds", "gauge",                                                          \
	  "How far the wall clock is ahead of the server's time; far from 0 after someone set the clock.",   \
	  (double)now->store.clock_ahead_us / 1e6)                                                           \
	X("gatehouse_disk_full", "gauge", "1 while writes are refused because the disk is nearly full.",     \
	  now->store.disk_full)                                                                              \
	X("gatehouse_writing_failed", "gauge",                                                               \
	  "1 after a flush failed; the process writes nothing more until it restarts.", now->store.failed)   \
	X("gatehouse_restarted_after_failed_flush", "gauge",                                                 \
	  "1 if the process restarted itself, after a failed flush or a start on a full disk; its counters " \
	  "began at 0.",                                                                                     \
	  now->restarted)                                                                                    \
	X("gatehouse_queue_bytes", "gauge", "Bytes of requests waiting for the writer.",                     \
	  (double)now->store.queue_bytes)                                                                    \
	X("gatehouse_cache_hits_total", "counter", "Rows found in the row cache.",                           \
	  (double)now->store.cache_hits)                                                                     \
	X("gatehouse_cache_misses_total", "counter", "Rows read from the store.",                            \
	  (double)now->store.cache_misses)                                                                   \
	X("gatehouse_cache_bytes", "gauge", "Bytes in the row cache.", (double)now->store.cache_bytes)       \
	X("gatehouse_expired_rows_total", "counter", "Expired rows that the sweeper removed.",               \
	  (double)now->store.swept_rows)                                                                     \
	X("gatehouse_connections", "gauge", "Open connections.", (double)now->http.connections_now)          \
	X("gatehouse_connections_accepted_total", "counter", "Connections accepted.",                        \
	  (double)now->http.accepted)                                                                        \
	X("gatehouse_connections_refused_total", "counter",                                                  \
	  "Connections refused because there were too many.", (double)now->http.refused)                     \
	X("gatehouse_requests_parked", "gauge", "Requests that wait for something to happen.",               \
	  (double)now->http.parked_now)                                                                      \
	X("gatehouse_streams", "gauge", "Open streams of events.", (double)now->http.streams_now)            \
	X("gatehouse_streams_slow_total", "counter",                                                         \
	  "Streams of events that ended because their reader was too slow.", (double)now->http.streams_slow) \
	X("gatehouse_key_connections_refused_total", "counter",                                              \
	  "Connections closed because their key had reached its limit.",                                     \
	  (double)now->key_connections_refused)                                                              \
	X("gatehouse_key_requests_refused_total", "counter",                                                 \
	  "Requests refused because their key exceeded its limit per second.",                               \
	  (double)now->key_requests_refused)                                                                 \
	X("gatehouse_audit_lines_lost_total", "counter",                                                     \
	  "Lines of the audit log that could not be written.", (double)now->audit_lost)                      \
	X("gatehouse_http_requests_total", "counter", "Complete requests received, on any path.",            \
	  (double)now->http.requests)                                                                        \
	X("gatehouse_http_bad_requests_total", "counter",                                                    \
	  "Requests refused before they were complete: not HTTP, over a limit, or out of memory.",           \
	  (double)now->http.bad_requests)                                                                    \
	X("gatehouse_http_timeouts_total", "counter", "Connections closed because the peer was too slow.",   \
	  (double)now->http.timeouts)

static const struct labels no_labels = {NULL, 0};

static void write_numbers(struct buf *out, const struct now *now)
{
#define X(name, kind, help, number)                                                                          \
	exposition_family(out, name, kind, help);                                                            \
	exposition_sample(out, name, no_labels, number);
	NUMBERS(X)
#undef X
}

static void write_build(struct buf *out)
{
	struct label version = {"version", BYTES(GATEHOUSE_VERSION)};

	exposition_family(out, "gatehouse_build_info", "gauge", "Always 1; the label names the version.");
	exposition_sample(out, "gatehouse_build_info", (struct labels){&version, 1}, 1);
}

/* ---- requests ---- */

/* Several codes can have one public name, and then are one series: that of the first. */
static enum err_code first_named(enum err_code code)
{
	for (enum err_code c = 1; c < code; c++)
		if (strcmp(err_name(c), err_name(code)) == 0)
			return c;
	return code;
}

/* What is counted in a row of the meter, and how it is called. */
struct metered {
	unsigned     row;
	struct bytes name;
	bool         sparse; /* the caller's mistakes are left out until there are some */
};

static void write_outcomes(struct buf *out, const struct meter *m, struct metered what)
{
	uint64_t sums[METER_OUTCOMES] = {0};

	for (unsigned c = 0; c < METER_OUTCOMES; c++)
		sums[first_named(c)] += meter_requests(m, what.row, c);
	for (unsigned c = 0; c < METER_OUTCOMES; c++) {
		struct label labels[] = {{"operation", what.name}, {"outcome", outcome_name(c)}};

		bool ours =
		        c == ERR_NONE || err_status((enum err_code)c) >= 500; /* alarms see only what rises */

		if (first_named(c) == c && (!what.sparse || ours || sums[c] > 0))
			exposition_sample(out, "gatehouse_requests_total", (struct labels){labels, 2},
			                  (double)sums[c]);
	}
}

static void write_latency(struct buf *out, const struct meter *m, struct metered what)
{
	struct label          label = {"operation", what.name};
	struct metric_reading reading = meter_latency(m, what.row);

	exposition_histogram(out, "gatehouse_request_seconds", (struct labels){&label, 1}, &metric_bounds_us,
	                     1e6, &reading);
}

/* DynamoDB's operations and the routes of /v1, one after the other. */
static void write_each(struct buf *out, const struct meter *m,
                       void (*write)(struct buf *, const struct meter *, struct metered))
{
	write(out, m, (struct metered){0, operation_label(NULL), false});
	for (unsigned i = 0; operation_at(i) != NULL; i++)
		write(out, m,
		      (struct metered){meter_operation_row(operation_at(i)), operation_label(operation_at(i)),
		                       false});
	for (unsigned i = 0; v1_route_at(i) != NULL; i++)
		write(out, m, (struct metered){meter_route_row(i), bytes_of(v1_route_at(i)->action), true});
}

static void write_requests(struct buf *out, const struct meter *m)
{
	exposition_family(
	        out, "gatehouse_requests_total", "counter",
	        "Answered requests, by DynamoDB operation or action of /v1. outcome is ok or the error.");
	write_each(out, m, write_outcomes);
	exposition_family(out, "gatehouse_request_seconds", "histogram",
	                  "Time from a complete request to its answer; for a write, to a durable one.");
	write_each(out, m, write_latency);
}

/* ---- verdicts ---- */

/* Everything is there from the first scrape on, for every type of the policies in force. */
static void write_rule(struct buf *out, const char *name, const struct rule *rule, const char *question,
                       const struct metric_counter *first)
{
	for (int v = 0; v < VERDICT_COUNT; v++) {
		struct label labels[] = {{"journey", rule->journey},
		                         {"type", rule->type},
		                         {"verdict", bytes_of(verdict_words[v].name)},
		                         {"source", bytes_of(question == NULL ? "" : question)}};

		exposition_sample(out, name, (struct labels){labels, question == NULL ? 3 : 4},
		                  (double)metric_value(&first[v]));
	}
}

static void write_locks_set(struct buf *out, const char *name, const struct rule *rule)
{
	struct label labels[] = {{"journey", rule->journey}, {"type", rule->type}};

	exposition_sample(out, name, (struct labels){labels, 2},
	                  (double)metric_value(&rule->tally->locks_set));
}

static void write_said(struct buf *out, const char *name, const struct rule *rule)
{
#define X(id, label) write_rule(out, name, rule, label, rule->tally->verdicts[id]);
	RULE_QUESTIONS(X)
#undef X
}

static void write_shadows(struct buf *out, const char *name, const struct rule *rule)
{
	write_rule(out, name, rule, NULL, rule->tally->shadows);
}

/* Rules of one type share their counters: each type is written once. */
static void write_types(struct buf *out, const struct rules *rules, const char *name,
                        void (*write)(struct buf *, const char *, const struct rule *))
{
	for (uint32_t i = 0; i < rules->count; i++)
		if (i == 0 || rules->list[i].tally != rules->list[i - 1].tally)
			write(out, name, &rules->list[i]);
}

static void write_verdicts(struct buf *out, struct document_holder *holder)
{
	struct rules *rules = document_acquire(holder);

	exposition_family(out, "gatehouse_verdicts_total", "counter",
	                  "Verdicts on attempts, and on each action of a check.");
	write_types(out, rules, "gatehouse_verdicts_total", write_said);
	exposition_family(out, "gatehouse_shadow_verdicts_total", "counter",
	                  "Verdicts that rules in shadow mode would have given.");
	write_types(out, rules, "gatehouse_shadow_verdicts_total", write_shadows);
	exposition_family(out, "gatehouse_locks_set_total", "counter", "Locks set by attempts.");
	write_types(out, rules, "gatehouse_locks_set_total", write_locks_set);
	document_release(&rules->base);
}

static void write_policies(struct buf *out, const struct policy_store *policies)
{
	struct policy_health health = policy_store_health(policies);

	exposition_family(
	        out, "gatehouse_policies_refused", "gauge",
	        "1 while the policy file or the stored policies are refused because of a mistake in them.");
	exposition_sample(out, "gatehouse_policies_refused", no_labels, health.refused);
	exposition_family(out, "gatehouse_policy_reload_failures_total", "counter",
	                  "How often a changed policy file was refused.");
	exposition_sample(out, "gatehouse_policy_reload_failures_total", no_labels, (double)health.failures);
}

static void write_devices(struct buf *out, const struct meter *m)
{
	static const char *const events[METER_DEVICES] = {[METER_DEVICE_ISSUED] = "issued",
	                                                  [METER_DEVICE_KNOWN] = "known",
	                                                  [METER_DEVICE_UNKNOWN] = "unknown",
	                                                  [METER_DEVICE_SPENT] = "spent"};

	exposition_family(out, "gatehouse_device_tokens_total", "counter",
	                  "Device tokens: issued; sent and known, or unknown; spent by failures.");
	for (int i = 0; i < METER_DEVICES; i++) {
		struct label label = {"event", bytes_of(events[i])};

		exposition_sample(out, "gatehouse_device_tokens_total", (struct labels){&label, 1},
		                  (double)meter_sum(m, &m->shards[0].devices[i]));
	}
}

/* X(name, kind, what it means, the number) */
#define SYNC_NUMBERS(X)                                                                                      \
	X("gatehouse_sync_dead_letters", "gauge",                                                            \
	  "Records of identity providers that could not be written and wait for a redrive.",                 \
	  atomic_load(&n->dead_letters))                                                                     \
	X("gatehouse_sign_outs_pending", "gauge",                                                            \
	  "Suspended users who are still to be signed out at their provider.",                               \
	  atomic_load(&n->sign_outs_pending))                                                                \
	X("gatehouse_sign_outs_total", "counter", "Users signed out at their provider.",                     \
	  metric_value(&n->sign_outs))                                                                       \
	X("gatehouse_sign_out_failures_total", "counter",                                                    \
	  "Calls to sign a user out that failed; each is made again.", metric_value(&n->sign_out_failures))

static void write_events(struct buf *out, const struct event_numbers *n)
{
	exposition_family(out, "gatehouse_events_published_total", "counter", "Events published, by type.");
	for (int i = 0; i < EVENT_TYPE_COUNT; i++) {
		struct label label = {"type", bytes_of(event_type_name((enum event_type)i))};

		exposition_sample(out, "gatehouse_events_published_total", (struct labels){&label, 1},
		                  (double)metric_spread_value(&n->published[i]));
	}
	exposition_family(out, "gatehouse_events_trimmed_total", "counter",
	                  "Events removed from the log because they were kept long enough.");
	exposition_sample(out, "gatehouse_events_trimmed_total", (struct labels){NULL, 0},
	                  (double)metric_value(&n->trimmed));
	exposition_family(out, "gatehouse_events_trimmed_unread_total", "counter",
	                  "Events removed before every consumer and target had them, because one is further "
	                  "behind than lag_max.");
	exposition_sample(out, "gatehouse_events_trimmed_unread_total", (struct labels){NULL, 0},
	                  (double)metric_value(&n->trimmed_unread));
}

static void write_sync(struct buf *out, const struct sync_numbers *n)
{
	exposition_family(out, "gatehouse_sync_records_total", "counter",
	                  "Records of identity providers, by what became of them.");
	for (int i = 0; i < SYNC_OUTCOME_COUNT; i++) {
		struct label label = {"outcome", bytes_of(sync_outcome_names[i])};

		exposition_sample(out, "gatehouse_sync_records_total", (struct labels){&label, 1},
		                  (double)metric_value(&n->outcomes[i]));
	}
#define X(name, kind, help, number)                                                                          \
	exposition_family(out, name, kind, help);                                                            \
	exposition_sample(out, name, no_labels, (double)(number));
	SYNC_NUMBERS(X)
#undef X
}

/* ---- users ---- */

static void write_users(struct buf *out, const struct meter *m)
{
	static const struct {
		const char *kind, *family, *label, *help;
	} families[] = {{"codes", "gatehouse_email_codes_total", "outcome",
	                 "Requests for a code that proves an email address: a code was made, or the request "
	                 "was refused."},
	                {"entries", "gatehouse_email_entries_total", "outcome",
	                 "Entries of such codes; lost: right, but another user has the address."},
	                {"conflicts", "gatehouse_user_conflicts_total", "about",
	                 "Changes of users refused because of others: the address, the id or the version."},
	                {"revocations", "gatehouse_revocations_total", "kind",
	                 "Calls that revoked tokens: one token, a user's, a client's, or everyone's."}};
	static const struct {
		const char *kind, *label;
	} counters[] = {
#define X(id, kind, label) [id] = {kind, label},
	        METER_USERS(X)
#undef X
	};

	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		exposition_family(out, families[f].family, "counter", families[f].help);
		for (int i = 0; i < METER_USER_COUNT; i++) {
			struct label label = {families[f].label, bytes_of(counters[i].label)};

			if (strcmp(counters[i].kind, families[f].kind) == 0)
				exposition_sample(out, families[f].family, (struct labels){&label, 1},
				                  (double)meter_sum(m, &m->shards[0].users[i]));
		}
	}
}

static void write_code_sender(struct buf *out, const struct code_post *post)
{
	struct code_numbers n = post->read == NULL ? (struct code_numbers){0} : post->read(post->ctx);
	const struct {
		const char *outcome;
		uint64_t    number;
	} ends[] = {{"sent", n.sent}, {"failed", n.failed}, {"dropped", n.dropped}, {"replaced", n.replaced}};

	exposition_family(out, "gatehouse_code_messages_total", "counter",
	                  "Messages to the webhook of codes. failed: not accepted before the code expired. "
	                  "dropped: the "
	                  "queue was full. replaced: a newer code took its place.");
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct label label = {"outcome", bytes_of(ends[i].outcome)};

		exposition_sample(out, "gatehouse_code_messages_total", (struct labels){&label, 1},
		                  (double)ends[i].number);
	}
	exposition_family(out, "gatehouse_code_queue", "gauge",
	                  "Messages that wait for the webhook of codes to accept them.");
	exposition_sample(out, "gatehouse_code_queue", no_labels, n.queued);
}

/* One counter per name, with the name as its label. */
struct named_counters {
	const char                  *family, *help, *label;
	const char *const           *names;
	const struct metric_counter *counters; /* in the first shard */
	int                          count;
};

static void write_named(struct buf *out, const struct meter *m, const struct named_counters *n)
{
	exposition_family(out, n->family, "counter", n->help);
	for (int i = 0; i < n->count; i++) {
		struct label label = {n->label, bytes_of(n->names[i])};

		exposition_sample(out, n->family, (struct labels){&label, 1},
		                  (double)meter_sum(m, &n->counters[i]));
	}
}

static void write_push(struct buf *out, const struct meter *m)
{
	static const char *const events[METER_PUSHES] = {[METER_PUSH_CREATED] = "created",
	                                                 [METER_PUSH_REFRESHED] = "refreshed",
	                                                 [METER_PUSH_MOVED] = "moved",
	                                                 [METER_PUSH_TRIMMED] = "trimmed"};

	write_named(
	        out, m,
	        &(struct named_counters){"gatehouse_devices_total",
	                                 "Registered devices: created, refreshed; moved: a device lost its "
	                                 "push token to another; trimmed: removed to make room.",
	                                 "event", events, m->shards[0].push, METER_PUSHES});
	write_named(out, m,
	            &(struct named_counters){"gatehouse_push_feedback_total",
	                                     "What providers reported of push tokens, by outcome.", "outcome",
	                                     push_feedback_names, m->shards[0].push_feedback,
	                                     FEEDBACK_OUTCOMES});
}

/* ---- the writer ---- */

static void write_writer(struct buf *out, const struct store_stats *store)
{
	exposition_family(out, "gatehouse_batch_requests", "histogram", "Requests per commit.");
	exposition_histogram(out, "gatehouse_batch_requests", no_labels, &metric_bounds_count, 1,
	                     &store->batch_requests);
	exposition_family(out, "gatehouse_flush_seconds", "histogram",
	                  "Time to make a commit durable on the disk.");
	exposition_histogram(out, "gatehouse_flush_seconds", no_labels, &metric_bounds_us, 1e6,
	                     &store->flush_us);
}

/* ---- background work ---- */

/* X(name, kind, what it means, the number) */
#define WORKER_NUMBERS(X)                                                                                    \
	X("gatehouse_worker_runs_total", "counter", "Runs of background work that have ended, by thread.",   \
	  (double)r->runs)                                                                                   \
	X("gatehouse_worker_busy_seconds_total", "counter", "Time spent in runs of background work.",        \
	  (double)r->busy_us / 1e6)                                                                          \
	X("gatehouse_worker_last_run_timestamp_seconds", "gauge",                                            \
	  "Time at which the last run ended, in Unix seconds; 0 if there was none.",                         \
	  (double)r->last_run_us / 1e6)                                                                      \
	X("gatehouse_worker_stuck_seconds", "gauge",                                                         \
	  "How long background work has been at the same step; 0 while it is idle.",                         \
	  (double)r->stuck_us / 1e6)

static void write_workers(struct buf *out)
{
	struct worker_reading all[WORKER_NAMES_MAX];
	unsigned              count = workers_read(all);

#define X(family, kind, help, number)                                                                        \
	exposition_family(out, family, kind, help);                                                          \
	for (const struct worker_reading *r = all; r < all + count; r++) {                                   \
		struct label worker = {"worker", bytes_of(r->name)};                                         \
                                                                                                             \
		exposition_sample(out, family, (struct labels){&worker, 1}, number);                         \
	}
	WORKER_NUMBERS(X)
#undef X
}

/* ---- jobs ---- */

/* X(name, kind, what it means, the number) */
#define JOB_NUMBERS(X)                                                                                       \
	X("gatehouse_jobs_running", "gauge", "Running jobs that the worker has taken on, by kind.",          \
	  (double)atomic_load_explicit(&n->running, memory_order_relaxed))                                   \
	X("gatehouse_job_steps_total", "counter", "Steps of jobs that were committed.",                      \
	  (double)metric_value(&n->steps))                                                                   \
	X("gatehouse_job_retries_total", "counter", "Steps of jobs that failed and were tried again.",       \
	  (double)metric_value(&n->retries))                                                                 \
	X("gatehouse_job_last_step_timestamp_seconds", "gauge",                                              \
	  "Time of the last step, in Unix seconds; 0 if there was none.",                                    \
	  (double)atomic_load_explicit(&n->last_step_us, memory_order_relaxed) / 1e6)

static void write_jobs(struct buf *out, const struct jobs_settings *jobs)
{
#define X(family, type, help, number)                                                                        \
	exposition_family(out, family, type, help);                                                          \
	for (unsigned i = 0; i < jobs->kind_count; i++) {                                                    \
		const struct job_counts *n = &jobs->counts[i];                                               \
		struct label             kind = {"kind", bytes_of(jobs->kinds[i]->name)};                    \
                                                                                                             \
		exposition_sample(out, family, (struct labels){&kind, 1}, number);                           \
	}
	JOB_NUMBERS(X)
#undef X
	exposition_family(out, "gatehouse_jobs_ended_total", "counter",
	                  "Jobs that have ended, by kind and by how.");
	for (unsigned i = 0; i < jobs->kind_count; i++)
		for (int state = JOB_RUNNING + 1; state < JOB_STATE_COUNT; state++) {
			struct label labels[] = {{"kind", bytes_of(jobs->kinds[i]->name)},
			                         {"state", bytes_of(job_state_names[state])}};

			exposition_sample(out, "gatehouse_jobs_ended_total", (struct labels){labels, 2},
			                  (double)metric_value(&jobs->counts[i].ended[state]));
		}
}

/* ---- push messages ---- */

/* Since when the oldest one waits, over all shards; 0: none does. */
static double push_oldest_s(const struct push_numbers *n, int64_t now_us)
{
	int64_t oldest_us = 0;

	for (int i = 0; i < PUSH_SHARDS; i++) {
		int64_t us = atomic_load_explicit(&n->oldest_us[i], memory_order_relaxed);

		if (us > 0 && (oldest_us == 0 || us < oldest_us))
			oldest_us = us;
	}
	return oldest_us == 0 || oldest_us > now_us ? 0 : (double)(now_us - oldest_us) / 1e6;
}

struct push_counters {
	const char                  *family, *help, *label;
	const struct metric_counter *list;
	const char *const           *names;
	int                          first, count;
};

static void write_push_counters(struct buf *out, const struct push_counters *c)
{
	exposition_family(out, c->family, "counter", c->help);
	for (int i = c->first; i < c->count; i++) {
		struct label label = {c->label, bytes_of(c->names[i])};

		exposition_sample(out, c->family, (struct labels){&label, 1},
		                  (double)metric_value(&c->list[i]));
	}
}

static void write_push_messages(struct buf *out, const struct push_numbers *n, int64_t now_us)
{
	if (n == NULL)
		return;
	exposition_family(out, "gatehouse_push_queued", "gauge",
	                  "Push messages that wait or are being sent.");
	exposition_sample(out, "gatehouse_push_queued", (struct labels){NULL, 0},
	                  (double)atomic_load_explicit(&n->queued, memory_order_relaxed));
	exposition_family(out, "gatehouse_push_oldest_seconds", "gauge",
	                  "How long the oldest push message has waited; 0: none waits.");
	exposition_sample(out, "gatehouse_push_oldest_seconds", (struct labels){NULL, 0},
	                  push_oldest_s(n, now_us));
	write_push_counters(out, &(struct push_counters){"gatehouse_push_messages_total",
	                                                 "Push messages by the state that they came into.",
	                                                 "state", n->states, push_state_names, PUSH_ACCEPTED,
	                                                 PUSH_STATE_COUNT});
	write_push_counters(out, &(struct push_counters){"gatehouse_push_errors_total",
	                                                 "Push messages that failed, by Expo's code.", "code",
	                                                 n->errors, push_error_names, 0, PUSH_ERROR_COUNT});
	write_push_counters(out,
	                    &(struct push_counters){"gatehouse_push_calls_total",
	                                            "Calls to Expo that sent messages, by how they ended.",
	                                            "end", n->calls, push_end_names, 0, PUSH_END_COUNT});
	exposition_family(out, "gatehouse_push_receipts_total", "counter",
	                  "Receipts that Expo was asked for.");
	exposition_sample(out, "gatehouse_push_receipts_total", (struct labels){NULL, 0},
	                  (double)metric_value(&n->receipts));
	exposition_family(out, "gatehouse_push_disabled_total", "counter",
	                  "Push tokens that were disabled because Expo said that they are dead.");
	exposition_sample(out, "gatehouse_push_disabled_total", (struct labels){NULL, 0},
	                  (double)metric_value(&n->disabled));
}

/* ---- tokens ---- */

/* X(name, kind, what it means, the number) */
#define ISSUER_NUMBERS(X)                                                                                    \
	X("gatehouse_token_key_fetches_total", "counter", "Fetches of an issuer's keys that were begun.",    \
	  (double)n.fetches)                                                                                 \
	X("gatehouse_token_key_failures_total", "counter",                                                   \
	  "Fetches of an issuer's keys that failed; the last good keys stay in use.", (double)n.failures)    \
	X("gatehouse_token_keys", "gauge", "Keys of an issuer that tokens are verified with.",               \
	  (double)n.keys)                                                                                    \
	X("gatehouse_token_key_age_seconds", "gauge",                                                        \
	  "Time since an issuer's keys were fetched; 0 if they come from a file, or were never fetched.",    \
	  n.fetched_us == 0 ? 0 : (double)(now_us - n.fetched_us) / 1e6)                                     \
	X("gatehouse_token_long_lived", "gauge",                                                             \
	  "1 if an issuer was seen to issue tokens that live longer than an hour.", (double)n.long_lived)

static void write_issuers(struct buf *out, struct issuers *all, int64_t now_us)
{
	struct issuer_numbers n;

#define X(family, kind, help, number)                                                                        \
	exposition_family(out, family, kind, help);                                                          \
	for (uint32_t i = 0; issuers_read(all, i, &n); i++) {                                                \
		struct label issuer = {"issuer", n.issuer};                                                  \
                                                                                                             \
		exposition_sample(out, family, (struct labels){&issuer, 1}, number);                         \
	}
	ISSUER_NUMBERS(X)
#undef X
}

/* Each token once: by what is wrong with it, or by what stands against it. */
static void write_tokens(struct buf *out, struct verifier *v)
{
	exposition_family(out, "gatehouse_tokens_total", "counter", "Tokens that were verified, by outcome.");
	for (int i = TOKEN_VALID + 1; i < TOKEN_OUTCOME_COUNT; i++) {
		struct label outcome = {"outcome", bytes_of(token_outcome_name((enum token_outcome)i))};

		exposition_sample(out, "gatehouse_tokens_total", (struct labels){&outcome, 1},
		                  (double)verifier_count(v, (enum token_outcome)i));
	}
	for (int i = 0; i < TOKEN_JUDGEMENT_COUNT; i++) {
		struct label outcome = {"outcome", bytes_of(token_judgement_name((enum token_judgement)i))};

		exposition_sample(out, "gatehouse_tokens_total", (struct labels){&outcome, 1},
		                  (double)verifier_judgements(v, (enum token_judgement)i));
	}
}

static void write_identity(struct buf *out, const struct api *api)
{
	struct issuers    *all = verifier_issuers(api->parts.verifier);
	struct file_health health = api->parts.identity_health(api->parts.ready_ctx);

	write_tokens(out, api->parts.verifier);
	write_issuers(out, all, clock_steady_us(api->parts.clock));
	issuers_drop(all);
	exposition_family(out, "gatehouse_identity_refused", "gauge",
	                  "1 while the identity file is refused because of a mistake in it.");
	exposition_sample(out, "gatehouse_identity_refused", no_labels, health.refused);
	exposition_family(out, "gatehouse_identity_reload_failures_total", "counter",
	                  "How often a changed identity file was refused.");
	exposition_sample(out, "gatehouse_identity_reload_failures_total", no_labels,
	                  (double)health.failures);
}

void metrics_write(struct api *api, struct buf *out)
{
	const struct http_server *http = atomic_load(&api->http);
	struct store             *store = api->parts.store;
	struct now                now = {.key_connections_refused = metric_value(&api->refused_connections),
	                                 .key_requests_refused = metric_value(&api->refused_requests),
	                                 .audit_lost = audit_lost(api->parts.audit),
	                                 .ready = api->parts.ready(api->parts.ready_ctx),
	                                 .restarted = api->parts.restarted,
	                                 .started_us = api->started_us};

	store->backend->stats(store, &now.store);
	if (http != NULL)
		now.http = http_server_stats(http);
	write_build(out);
	write_numbers(out, &now);
	write_writer(out, &now.store);
	write_workers(out);
	write_requests(out, &api->meter);
	if (api->parts.services != NULL && api->parts.services->policies != NULL) {
		write_policies(out, api->parts.services->policies);
		write_verdicts(out, &api->parts.services->rules);
	}
	write_devices(out, &api->meter);
	if (api->parts.verifier != NULL)
		write_identity(out, api);
	if (api->parts.services != NULL && api->parts.services->event_numbers != NULL)
		write_events(out, api->parts.services->event_numbers);
	if (api->parts.services != NULL && api->parts.services->sync != NULL)
		write_sync(out, api->parts.services->sync);
	if (api->parts.services != NULL)
		write_jobs(out, &api->parts.services->jobs);
	if (api->parts.services != NULL && api->parts.store != NULL)
		write_push_messages(out, api->parts.services->push_post.numbers,
		                    api->parts.store->backend->now_us(api->parts.store));
	if (api->parts.services != NULL)
		metrics_write_targets(out, &api->parts.services->target_post);
	if (api->parts.events != NULL)
		metrics_write_readers(out, api->parts.events);
	if (api->parts.services != NULL)
		metrics_write_outage(out, api->parts.services->outage, store);
	write_users(out, &api->meter);
	if (api->parts.services != NULL)
		write_code_sender(out, &api->parts.services->codes);
	write_push(out, &api->meter);
	if (api->parts.services != NULL && api->parts.services->limits != NULL)
		write_limits(out, api->parts.services->limits, store->backend->now_us(store));
	if (api->parts.services != NULL && api->parts.services->hot_keys != NULL)
		write_hot_keys(out, api->parts.services->hot_keys, store->backend->now_us(store));
}

void metrics_handle(struct api_loop *l, struct http_request *r)
{
	struct http_response response = {.status = 200, .content_type = EXPOSITION_CONTENT_TYPE};
	struct buf          *out;

	if (!l->api->parts.metrics_open) {
		problem_answer(l, r, ERR_ACCESS,
		               "metrics are served on loopback only, unless started with --open-metrics");
		return;
	}
	out = api_loop_answer(l);
	metrics_write(l->api, out);
	response.body = buf_bytes(out);
	http_respond(r, &response);
}
