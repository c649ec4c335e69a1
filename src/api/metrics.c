/* Metrics: what is measured, under which name: here what the server itself does, its requests, verdicts, threads and jobs. */
#include "api/metrics.h"

#include <stdio.h>
#include <string.h>

#include "api/dynamodb.h"
#include "api/exposition.h"
#include "api/api.h"
#include "api/v1.h"
#include "base/audit.h"
#include "base/version.h"
#include "base/worker.h"
#include "service/job.h"
#include "service/policy_store.h"
#include "service/rules.h"
#include "service/services.h"

/* ---- numbers ---- */

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
	X("gatehouse_expired_rows_total", "counter", "Expired rows that are gone for good.",                 \
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

/* Several codes can have one name in DynamoDB's protocol, and then are one series: that of the first. */
static enum err_code first_named(unsigned row, enum err_code code)
{
	for (enum err_code c = 1; c < code && !meter_is_route(row); c++)
		if (strcmp(err_name(c), err_name(code)) == 0)
			return c;
	return code;
}

/* What is counted in a row of the meter, and how it is called. */
struct metered {
	unsigned     row;
	struct bytes name;
};

/* Of routes there are many: what their callers did wrong is left out until it happens. gatehouse_errors_total has it from the start. */
static bool is_sparse(unsigned row, enum err_code code)
{
	return meter_is_route(row) && code != ERR_NONE && meter_outcome_status(row, code) < 500;
}

static void write_outcomes(struct buf *out, const struct meter *m, struct metered what)
{
	uint64_t sums[METER_OUTCOMES] = {0};

	for (unsigned c = 0; c < METER_OUTCOMES; c++)
		sums[first_named(what.row, c)] += meter_requests(m, what.row, c);
	for (unsigned c = 0; c < METER_OUTCOMES; c++) {
		struct label labels[] = {{"operation", what.name},
		                         {"outcome", meter_outcome_name(what.row, c)}};

		if (first_named(what.row, c) == c && (!is_sparse(what.row, c) || sums[c] > 0))
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
	write(out, m, (struct metered){0, operation_label(NULL)});
	for (unsigned i = 0; operation_at(i) != NULL; i++)
		write(out, m,
		      (struct metered){meter_operation_row(operation_at(i)),
		                       operation_label(operation_at(i))});
	for (unsigned i = 0; v1_route_at(i) != NULL; i++)
		write(out, m, (struct metered){meter_route_row(i), bytes_of(v1_route_at(i)->action)});
}

/* ---- errors ---- */

/* Codes of one name and one status are one series: that of the first. */
static enum err_code first_alike(unsigned row, enum err_code code)
{
	for (enum err_code c = 1; c < code; c++)
		if (first_named(row, c) == first_named(row, code) &&
		    meter_outcome_status(row, c) == meter_outcome_status(row, code))
			return c;
	return code;
}

/* Of the rows from `first` to before `end`, which are all of one protocol. */
static void write_errors_of(struct buf *out, const struct meter *m, const char *protocol, unsigned first,
                            unsigned end)
{
	uint64_t sums[METER_OUTCOMES] = {0};
	char     status[16];

	for (unsigned c = 1; c < METER_OUTCOMES; c++) {
		enum err_code as = first_alike(first, c);

		for (unsigned row = first; row < end; row++)
			sums[as] += meter_requests(m, row, c);
	}
	for (unsigned c = 1; c < METER_OUTCOMES; c++) {
		struct label labels[] = {{"protocol", bytes_of(protocol)},
		                         {"outcome", meter_outcome_name(first, c)},
		                         {"status", {NULL, 0}}};

		snprintf(status, sizeof(status), "%d", meter_outcome_status(first, c));
		labels[2].value = bytes_of(status);
		if (first_alike(first, c) == c)
			exposition_sample(out, "gatehouse_errors_total", (struct labels){labels, 3},
			                  (double)sums[c]);
	}
}

static void write_errors(struct buf *out, const struct meter *m)
{
	exposition_family(out, "gatehouse_errors_total", "counter",
	                  "Requests answered with an error, over all operations, by protocol, error and "
	                  "HTTP status.");
	write_errors_of(out, m, "dynamodb", 0, meter_route_row(0));
	write_errors_of(out, m, "v1", meter_route_row(0), METER_ROWS);
}

static void write_requests(struct buf *out, const struct meter *m)
{
	exposition_family(
	        out, "gatehouse_requests_total", "counter",
	        "Answered requests, by DynamoDB operation or action of /v1. outcome is ok or the error.");
	write_each(out, m, write_outcomes);
	write_errors(out, m);
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

static void write_of_type(struct buf *out, const char *name, const struct rule *rule,
                          const struct metric_counter *counter)
{
	struct label labels[] = {{"journey", rule->journey}, {"type", rule->type}};

	exposition_sample(out, name, (struct labels){labels, 2}, (double)metric_value(counter));
}

static void write_locks_set(struct buf *out, const char *name, const struct rule *rule)
{
	write_of_type(out, name, rule, &rule->tally->locks_set);
}

static void write_sources_locked(struct buf *out, const char *name, const struct rule *rule)
{
	write_of_type(out, name, rule, &rule->tally->sources_locked);
}

/* Only outcomes that this type can have. */
static bool has_outcome(const struct rule *rule, int outcome)
{
	return outcome == OUTCOME_SUCCESS || (outcome == OUTCOME_SENT) == (rule->counts == COUNT_SENT);
}

static void write_attempts(struct buf *out, const char *name, const struct rule *rule)
{
	static const char *const outcomes[] = {
#define X(id, label) [id] = (label),
	        TALLY_OUTCOMES(X)
#undef X
	};

	for (int o = 0; o <= OUTCOME_COUNT; o++)
		for (int refused = o == OUTCOME_COUNT; refused < 2 && has_outcome(rule, o); refused++) {
			struct label labels[] = {{"journey", rule->journey},
			                         {"type", rule->type},
			                         {"outcome", bytes_of(outcomes[o])},
			                         {"refused", bytes_of(refused ? "true" : "false")}};

			exposition_sample(out, name, (struct labels){labels, 4},
			                  (double)metric_value(&rule->tally->attempts[o][refused]));
		}
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

/* Only of types that look at risk. */
static void write_risks(struct buf *out, const char *name, const struct rule *rule)
{
	static const enum verdict_kind kinds[] = {VERDICT_CHALLENGE, VERDICT_BLOCKED};

	for (size_t i = 0; rule->tally->at_risk && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct label labels[] = {{"journey", rule->journey},
		                         {"type", rule->type},
		                         {"verdict", bytes_of(verdict_words[kinds[i]].name)}};

		exposition_sample(out, name, (struct labels){labels, 3},
		                  (double)metric_value(&rule->tally->risks[kinds[i]]));
	}
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
	exposition_family(out, "gatehouse_risk_verdicts_total", "counter",
	                  "Of the verdicts, those because of the risk that the caller sent (at_risk).");
	write_types(out, rules, "gatehouse_risk_verdicts_total", write_risks);
	exposition_family(out, "gatehouse_locks_set_total", "counter", "Locks set by attempts.");
	write_types(out, rules, "gatehouse_locks_set_total", write_locks_set);
	exposition_family(out, "gatehouse_source_locks_set_total", "counter",
	                  "Of these, locks of a source (a network address).");
	write_types(out, rules, "gatehouse_source_locks_set_total", write_sources_locked);
	exposition_family(out, "gatehouse_attempts_total", "counter",
	                  "Attempts by outcome, and whether they were refused (locked, limited, blocked). "
	                  "unknown: refused when they began, before the outcome was known.");
	write_types(out, rules, "gatehouse_attempts_total", write_attempts);
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
	metrics_write_identity(out, api);
	if (api->parts.services != NULL && api->parts.services->event_numbers != NULL)
		metrics_write_published(out, api->parts.services->event_numbers);
	if (api->parts.services != NULL)
		write_jobs(out, &api->parts.services->jobs);
	if (api->parts.services != NULL)
		metrics_write_targets(out, &api->parts.services->target_post);
	if (api->parts.events != NULL)
		metrics_write_readers(out, api->parts.events);
	if (api->parts.services != NULL)
		metrics_write_outage(out, api->parts.services->outage, store);
	if (api->parts.services != NULL && api->parts.services->limits != NULL)
		metrics_write_limits(out, api->parts.services->limits, store->backend->now_us(store));
	if (api->parts.services != NULL && api->parts.services->hot_keys != NULL)
		metrics_write_hot_keys(out, api->parts.services->hot_keys, store->backend->now_us(store));
}
