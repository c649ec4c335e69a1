/* Limit metrics: what limits answered, by policy; what the memory engine holds; the hottest keys.
 *
 * Policies' names come from our own files, keys from callers: those are escaped, few, and never shown if they look like
 * an address (docs/durability.md, invariant 6). */
#ifndef API_LIMIT_METRICS_H
#define API_LIMIT_METRICS_H

#include "base/buf.h"
#include "service/limits.h"

enum { LIMIT_METRICS_KEYS = 10 }; /* of each list */

void limit_metrics_write(struct buf *out, struct limits *l, int64_t now_us);

#endif
