/* Event metrics: see event_metrics.h. */
#include "api/event_metrics.h"

#include "api/exposition.h"

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

void event_metrics_write(struct buf *out, struct event_hub *hub)
{
	struct event_hub_stats s = event_hub_stats(hub);

#define X(name, kind, help, value)                                                                           \
	exposition_family(out, name, kind, help);                                                            \
	exposition_sample(out, name, (struct labels){NULL, 0}, (double)(value));
	EVENT_NUMBERS(X)
#undef X
	write_lags(out, hub);
}
