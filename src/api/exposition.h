/* Exposition: Prometheus's text format, version 0.0.4: families of samples, one per line. Nothing is checked
 * here: names and labels come from tables of ours, never from a peer. */
#ifndef API_EXPOSITION_H
#define API_EXPOSITION_H

#include "base/buf.h"
#include "base/metric.h"

#define EXPOSITION_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct label {
	const char  *name;
	struct bytes value;
};

struct labels {
	const struct label *list;
	unsigned            count;
};

/* The two lines that precede a family's samples. kind: "counter", "gauge", "histogram". */
void exposition_family(struct buf *out, const char *name, const char *kind, const char *help);

void exposition_sample(struct buf *out, const char *name, struct labels labels, double value);

/* A histogram's lines: cumulated buckets, sum, count. Bounds and sum are divided by `unit`: 1e6 prints
 * microseconds as seconds. */
void exposition_histogram(struct buf *out, const char *name, struct labels labels,
                          const struct metric_bounds *bounds, double unit, const struct metric_reading *r);

#endif
