/* Metrics of outages: what a server does while its tables, which are elsewhere, do not answer. */
#include "api/exposition.h"
#include "api/metrics.h"
#include "service/outage.h"

/* X(name, kind, what it means, the number) */
#define OUTAGE_NUMBERS(X)                                                                                    \
	X("gatehouse_degraded", "gauge",                                                                     \
	  "1 while the endpoint of the tables does not answer, and calls are decided on what was last "      \
	  "known.",                                                                                          \
	  degraded)                                                                                          \
	X("gatehouse_degraded_answers_total", "counter", "Calls decided on what was last known.",            \
	  metric_value(&o->answers))                                                                         \
	X("gatehouse_denied_answers_total", "counter",                                                       \
	  "Calls refused without asking the endpoint, because their subject was refused a moment ago.",      \
	  metric_value(&o->denied))                                                                          \
	X("gatehouse_spool_records", "gauge", "Attempts in the spool, waiting to be merged.", spool.records) \
	X("gatehouse_spool_bytes", "gauge", "Their bytes.", spool.bytes)                                     \
	X("gatehouse_spool_oldest_seconds", "gauge",                                                         \
	  "How long ago the attempt was made that waits for longest.", oldest_s)                             \
	X("gatehouse_spool_failed", "gauge",                                                                 \
	  "1 after a flush of the spool failed; it takes nothing more until it can be written again.",       \
	  spool.failed)                                                                                      \
	X("gatehouse_spool_recorded_total", "counter", "Attempts written to the spool.",                     \
	  metric_value(&o->spooled))                                                                         \
	X("gatehouse_spool_merged_total", "counter", "Attempts of the spool that were merged.",              \
	  metric_value(&o->merged))                                                                          \
	X("gatehouse_spool_found_total", "counter",                                                          \
	  "Attempts of the spool that turned out to be counted already.", metric_value(&o->found))           \
	X("gatehouse_spool_void_total", "counter",                                                           \
	  "Attempts of the spool that no longer count: their subject was locked or erased, their type is "   \
	  "gone, they are too old.",                                                                         \
	  metric_value(&o->void_))                                                                           \
	X("gatehouse_spool_retried_total", "counter",                                                        \
	  "Merges of attempts that failed, and were tried again later.", metric_value(&o->retried))          \
	X("gatehouse_spool_refused_total", "counter", "Attempts answered 503 because the spool was full.",   \
	  metric_value(&o->refused))                                                                         \
	X("gatehouse_known_bytes", "gauge", "Memory of what was last known.", known.bytes)                   \
	X("gatehouse_known_forgotten_total", "counter", "Partitions forgotten because memory was full.",     \
	  known.forgotten)                                                                                   \
	X("gatehouse_known_locks_forgotten_total", "counter",                                                \
	  "Of these, partitions with a lock, a state or a revocation.", known.guards_forgotten)

/* Of a server whose tables are here, all are 0. */
void metrics_write_outage(struct buf *out, struct outage *real, struct store *store)
{
	static const struct outage none;
	const struct outage       *o = real == NULL ? &none : real;
	struct spool_numbers       spool = {0};
	struct known_numbers       known = {0};
	bool                       degraded = false;
	double                     oldest_s = 0;

	if (real != NULL) {
		int64_t oldest_us = outage_oldest_us(real), now_us = store->backend->now_us(store);

		degraded = !store->backend->ready(store);
		spool = spool_read(real->spool);
		known = known_read(real->known);
		oldest_s = oldest_us > 0 && oldest_us < now_us ? (double)(now_us - oldest_us) / 1e6 : 0;
	}
#define X(name, kind, help, value)                                                                           \
	exposition_family(out, name, kind, help);                                                            \
	exposition_sample(out, name, (struct labels){NULL, 0}, (double)(value));
	OUTAGE_NUMBERS(X)
#undef X
}
