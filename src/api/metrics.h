/* Metrics: GET /metrics, in Prometheus's text format. It needs no signature, and so is refused unless the
 * server listens on loopback, or the operator opened it (api_parts.metrics_open).
 *
 * What always holds: nothing in it tells who asked or whom a row is about: names and labels are constants, or names that
 * operators gave: those of the policies, of consumers and of targets. Values are counts. Every series that can ever appear
 * is there from the first scrape on (of a consumer or a target, from the first after it was made), with 0, so that the first
 * error of its kind already shows as an increase. */
#ifndef API_METRICS_H
#define API_METRICS_H

#include "api/api.h"

/* The text, for scraper.h. */
void metrics_write(struct api *api, struct buf *out);

/* ---- its parts, one file each ---- */

struct event_numbers;
struct hot_keys;
struct limits;
struct outage;
struct target_post;

void metrics_write_identity(struct buf *out, const struct api *api);
void metrics_write_limits(struct buf *out, struct limits *l, int64_t now_us);
void metrics_write_hot_keys(struct buf *out, struct hot_keys *h, int64_t now_us);
void metrics_write_outage(struct buf *out, struct outage *o, struct store *store);

/* Of events: those that were published, those who read them, and targets. */
void metrics_write_published(struct buf *out, const struct event_numbers *n);
void metrics_write_readers(struct buf *out, struct event_hub *hub);
void metrics_write_targets(struct buf *out, const struct target_post *post);

#endif
