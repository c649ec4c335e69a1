/* Merger: what this server has for the time when its tables, which are at an endpoint, do not answer (service/outage.h), and the
 * workers that merge what was recorded meanwhile: MERGER_LANES, each with one record at a time; the spool keeps the order of each
 * subject's attempts. They also ask an endpoint that did not answer whether it does again, so that no caller has to, and write a spool anew
 * whose flush failed.
 *
 * Opened before anything else calls a service, closed after it. */
#ifndef SERVER_MERGER_H
#define SERVER_MERGER_H

#include "service/outage.h"
#include "table/store.h"

enum { MERGER_LANES = 8 };

struct merger;

struct merger_options {
	struct services *services; /* gets its outage */
	struct store    *store;
	const char      *data;
	size_t           known_bytes_max, spool_bytes_max;
	int64_t          denied_us, token_us;
	unsigned         processes; /* (outage.h, 7) */
};

/* ERR_STORAGE: the spool cannot be read, or is damaged. */
enum err_code merger_open(struct merger **out, const struct merger_options *options, struct err *err);
void          merger_close(struct merger *m);

/* Attempts can be recorded: the server is of use while its tables do not answer. *why: if they cannot. */
bool merger_ready(struct merger *m, struct err *why);

#endif
