/* The fields that a write of one item can have, alone (request_item.c) or in a transaction
 * (request_transact.c). An operation without one of them has no shape for it, and its slot stays NULL. */
#ifndef DYNAMO_REQUEST_WRITE_H
#define DYNAMO_REQUEST_WRITE_H

#include "dynamo/reader.h"

enum write_field {
	WRITE_CAPACITY,
	WRITE_TABLE,
	WRITE_ITEM,
	WRITE_KEY,
	WRITE_METRICS,
	WRITE_RETURNS,
	WRITE_ON_FAILURE,
	WRITE_UPDATE,
	WRITE_CONDITION,
	WRITE_NAMES,
	WRITE_VALUES,
	WRITE_EXPECTED,
	WRITE_OPERATOR,
	WRITE_UPDATES,
	WRITE_COUNT
};

/* Steps 3 and 4 for one write, whose slots are filled and were checked. *out must be zero. */
enum err_code write_read(struct request_reader *r, enum table_action_kind kind, struct table_write *out);

#endif
