/* Metrics: GET /metrics, in Prometheus's text format. It needs no signature, and so is refused unless the
 * server listens on loopback, or the operator opened it (api_parts.metrics_open).
 *
 * What always holds: nothing in it comes from a peer or from a table: names and labels are constants, or
 * names that the policies have, and values are counts. Every series that can ever appear is there from the first
 * scrape on, with 0, so that the first error of its kind already shows as an increase. */
#ifndef API_METRICS_H
#define API_METRICS_H

#include "api/api.h"

void metrics_handle(struct api_loop *l, struct http_request *r);

/* The text itself. */
void metrics_write(struct api *api, struct buf *out);

/* Those of event targets (metrics_targets.c). */
struct buf;
struct target_post;
void metrics_write_targets(struct buf *out, const struct target_post *post);

#endif
