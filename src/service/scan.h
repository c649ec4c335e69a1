/* Scans: a table is read for rows that have no key to be looked up by, page by page and outside of any turn: the `fetch` of a
 * job (job.h). The step looks at each row again that was found.
 *
 * What always holds
 * (1) Where a scan stopped is a key that tells nobody who is meant, for it becomes the cursor of a job. So rows behind it may be
 *     read twice: a row that was found must be changed by its step, or have such a key itself. */
#ifndef SERVICE_SCAN_H
#define SERVICE_SCAN_H

#include "service/context.h"

enum { SCAN_FOUND_MAX = 25 };

struct scan {
	enum service_table table;
	uint32_t           page;      /* rows read at a time */
	uint32_t           found_max; /* at most SCAN_FOUND_MAX */
	struct bytes       from;      /* `next` of the one before; empty: the first row */
	bool (*wanted)(struct context *ctx, const void *arg, const struct item *row);
	const void *arg;
};

struct scan_found {
	struct bytes pk[SCAN_FOUND_MAX], sk[SCAN_FOUND_MAX];
	uint32_t     before[SCAN_FOUND_MAX]; /* rows that were read before it */
	uint32_t     count;
	uint32_t     read;  /* rows */
	struct bytes next;  /* where to go on */
	bool         whole; /* the table was read to its end */
};

enum err_code scan_read(struct context *ctx, const struct scan *q, struct scan_found *out, struct err *err);

/* (1) Is no part of the key an address or a number of a person? */
bool scan_key_tells_nobody(struct bytes key);

/* The key of a row that was found, to be looked at. */
void scan_key(const struct scan_found *f, enum service_table table, uint32_t at, struct looked *out);

#endif
