/* Query: one page while it is planned (query_plan.c) and read (query.c). Private to these two; read.h has what others
 * call. */
#ifndef ENGINE_QUERY_H
#define ENGINE_QUERY_H

#include "engine/row.h"

struct page {
	/* what was asked */
	struct engine_session    *session;
	struct arena             *arena;
	const struct table_query *q;

	/* the plan */
	const struct table_entry  *table;
	const struct index_schema *index; /* NULL: the table itself */
	uint16_t                   index_id;
	const struct key_schema   *keys; /* of what is queried */
	struct bytes               low, high;
	bool                       fetch;        /* the rest of each item must come from the table */
	bool                       check_expiry; /* the index does not hold the expiry time */

	/* the reading */
	struct rocks_snapshot     *snapshot; /* of entries and rows alike, if both are read */
	struct table_query_result *result;
	uint32_t                   item_cap;
	size_t                     bytes;         /* examined, DynamoDB's sizes */
	size_t                     fetched_bytes; /* fetched from the table for a local index */
	size_t                     stored_bytes;  /* examined or fetched, as stored */
	size_t                     cost_max;      /* the session's cost at which the page ends */
	struct item                last;          /* the row taken last */
};

/* From session, arena and q: the table, the range, and what must be fetched. Reads no rows. */
enum err_code query_plan(struct page *p, struct err *err);

#endif
