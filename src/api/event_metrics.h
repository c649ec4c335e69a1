/* Event metrics: those who follow the log of events, for GET /metrics. */
#ifndef API_EVENT_METRICS_H
#define API_EVENT_METRICS_H

#include "api/event_hub.h"

void event_metrics_write(struct buf *out, struct event_hub *hub);

#endif
