/* Metrics of events: how many there were, those who follow the log, consumers, and targets. Names of consumers and targets are the operator's, of a fixed alphabet, and
 * there are at most CONSUMERS_MAX and TARGETS_MAX. */
#include "api/event_hub.h"
#include "api/exposition.h"
#include "api/metrics.h"
#include "service/delivery.h"
#include "service/event.h"

/* ---- the log ---- */

void metrics_write_published(struct buf *out, const struct event_numbers *n)
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

/* ---- those who follow the log, and consumers ---- */

/* X(name, kind, help, value) */
#define EVENT_NUMBERS(X)                                                                                     \
	X("gatehouse_event_polls", "gauge", "Requests that wait for an event.", s.polls)                     \
	X("gatehouse_event_streams_behind", "gauge",                                                         \
	  "Streams that are sent older events, because they begin there or because their reader is slow.",   \
	  s.streams_behind)                                                                                  \
	X("gatehouse_events_followed_total", "counter",                                                      \
	  "New events that were read for those who follow the log, once each.", s.events)                    \
	X("gatehouse_events_streamed_total", "counter", "Events that were sent to streams.", s.sent)         \
	X("gatehouse_event_pages_ring_total", "counter", "Pages of events that were answered from memory.",  \
	  s.ring_hits)                                                                                       \
	X("gatehouse_event_pages_read_total", "counter", "Pages of events that were read from the table.",   \
	  s.ring_misses)

/* X(name, help, value) */
#define LAG_NUMBERS(X)                                                                                       \
	X("gatehouse_consumer_lag_events", "Events that a consumer has not acknowledged, of any type.",      \
	  lags[i].lag.events)                                                                                \
	X("gatehouse_consumer_lag_seconds", "How long a consumer's next event has waited.",                  \
	  lags[i].lag.seconds)                                                                               \
	X("gatehouse_consumer_members", "Members that share a consumer.", lags[i].members)

static void write_lags(struct buf *out, struct event_hub *hub)
{
	struct event_hub_lag *lags;
	struct arena          arena;
	uint32_t              count;

	arena_init(&arena);
	count = event_hub_lags(hub, &arena, &lags);
#define X(family, help, number)                                                                              \
	exposition_family(out, family, "gauge", help);                                                       \
	for (uint32_t i = 0; i < count; i++)                                                                 \
		exposition_sample(out, family,                                                               \
		                  (struct labels){&(struct label){"consumer", lags[i].name}, 1},             \
		                  (double)(number));
	LAG_NUMBERS(X)
#undef X
	arena_release(&arena);
}

void metrics_write_readers(struct buf *out, struct event_hub *hub)
{
	struct event_hub_stats s = event_hub_stats(hub);

#define X(name, kind, help, value)                                                                           \
	exposition_family(out, name, kind, help);                                                            \
	exposition_sample(out, name, (struct labels){NULL, 0}, (double)(value));
	EVENT_NUMBERS(X)
#undef X
	write_lags(out, hub);
}

/* ---- targets ---- */

/* X(name, kind, what it means, the number) */
#define TARGET_NUMBERS(X)                                                                                    \
	X("gatehouse_target_state", "gauge",                                                                 \
	  "Whether a target accepts events: 0 well, 1 failing, 2 disabled.", t->state)                       \
	X("gatehouse_target_lag_events", "gauge",                                                            \
	  "Events of the log, of all types, behind which delivery to a target is.", t->lag_events)           \
	X("gatehouse_target_lag_seconds", "gauge",                                                           \
	  "Age of the oldest event that is on its way to a target; 0: none is.", t->lag_s)                   \
	X("gatehouse_target_waiting", "gauge",                                                               \
	  "Events that a target did not accept, or that wait behind one of their subject.", t->waiting)      \
	X("gatehouse_target_dead_letters", "gauge", "Dead letters of a target.", t->dead)                    \
	X("gatehouse_target_retries_total", "counter", "Deliveries that were not the first of their event.", \
	  t->retries)                                                                                        \
	X("gatehouse_target_died_total", "counter", "Events that became dead letters.", t->died)             \
	X("gatehouse_target_skipped_total", "counter",                                                       \
	  "Events that were trimmed before they were delivered to a target.", t->skipped)

void metrics_write_targets(struct buf *out, const struct target_post *post)
{
	struct target_reading all[TARGETS_MAX];
	unsigned              count = post->read == NULL ? 0 : post->read(post->ctx, all);

#define X(family, kind, help, number)                                                                        \
	exposition_family(out, family, kind, help);                                                          \
	for (const struct target_reading *t = all; t < all + count; t++) {                                   \
		struct label target = {"target", bytes_of(t->name)};                                         \
                                                                                                             \
		exposition_sample(out, family, (struct labels){&target, 1}, (double)(number));               \
	}
	TARGET_NUMBERS(X)
#undef X
	exposition_family(out, "gatehouse_target_deliveries_total", "counter",
	                  "Deliveries to a target, by what came of them.");
	for (unsigned i = 0; i < count; i++)
		for (int end = 0; end < DELIVERY_ENDS; end++) {
			struct label labels[] = {{"target", bytes_of(all[i].name)},
			                         {"result", bytes_of(delivery_end_names[end])}};

			exposition_sample(out, "gatehouse_target_deliveries_total",
			                  (struct labels){labels, 2}, (double)all[i].ends[end]);
		}
}
