/* Known rows: what known_table.c asks of the memory in last_known.c. Internal to both. */
#ifndef SERVICE_KNOWN_ROWS_H
#define SERVICE_KNOWN_ROWS_H

#include "service/last_known.h"

struct known_write {
	enum service_table which;
	struct bytes       pk, sk;
	const struct item *item;   /* NULL: it is absent */
	bool               prefix; /* not a row: sk is a prefix of which all rows were put */
	bool               lost;   /* of that prefix: there are too many to put, so not all are known */
	bool               ours;   /* put also if the partition is pinned */
	int64_t            now_us;
};

/* Is anything known of that table at all? */
bool known_keeps(enum service_table which);

void known_put(struct known *k, const struct known_write *w);

/* Several of one partition, at one moment; at most KNOWN_ROWS_MAX. */
void known_put_all(struct known *k, const struct known_write *list, uint32_t count);

struct known_ask {
	enum service_table which;
	struct bytes       pk, sk; /* of known_rows: the prefix */
	int64_t            since_us;
	int64_t           *oldest_us; /* is set back to when what is answered was learned; NULL: whatever */
	struct arena      *arena;
};

/* False: nothing is known of it, and *found is false. */
bool known_get(struct known *k, const struct known_ask *q, bool *found, struct item *out);

/* False: not all of them are known. In no order. */
bool known_rows(struct known *k, const struct known_ask *q, struct table_query_result *out);

#endif
