/* Parts of answers that several operations have: capacity and item collections. */
#ifndef DYNAMO_RESULT_PARTS_H
#define DYNAMO_RESULT_PARTS_H

#include "dynamo/result.h"

/* "ConsumedCapacity": {…}; nothing if it was not asked for. */
void capacity_write(struct json_writer *w, enum capacity_report report, const struct capacity *c);

/* "ConsumedCapacity": […], summed up by table. transact: reads and writes are told apart. */
void capacities_write(struct json_writer *w, struct arena *a, enum capacity_report report, bool transact,
                      const struct capacity *const *list, uint32_t count);

/* {"ItemCollectionKey": …, "SizeEstimateRangeGB": […]} */
void collection_write(struct json_writer *w, const struct table_write_result *r);

#endif
