/* Answers about items: single ones, pages, batches and transactions; and what they have in common: consumed
 * capacity, as a total or taken apart by index, and item collections. */
#include "dynamo/result.h"

#include <math.h>

#include "dynamo/errors.h"
#include "dynamo/wire.h"

/* ---- capacity ---- */

static void units_write(struct json_writer *w, double read, double write, bool apart)
{
	json_name(w, BYTES("CapacityUnits"));
	json_double(w, read + write);
	if (apart && read > 0) {
		json_name(w, BYTES("ReadCapacityUnits"));
		json_double(w, read);
	}
	if (apart && write > 0) {
		json_name(w, BYTES("WriteCapacityUnits"));
		json_double(w, write);
	}
}

static void indexes_write(struct json_writer *w, struct bytes name, const struct capacity *c, bool local,
                          bool apart)
{
	bool any = false;

	for (uint32_t i = 0; i < c->index_count; i++) {
		const struct index_capacity *index = &c->indexes[i];

		if (index->local != local)
			continue;
		if (!any) {
			json_name(w, name);
			json_begin_object(w);
		}
		any = true;
		json_name(w, index->name);
		json_begin_object(w);
		units_write(w, index->read_units, index->write_units, apart);
		json_end_object(w);
	}
	if (any)
		json_end_object(w);
}

static void one_write(struct json_writer *w, enum capacity_report report, const struct capacity *c,
                      bool apart)
{
	double read = c->read_units, write = c->write_units;

	for (uint32_t i = 0; i < c->index_count; i++) {
		read += c->indexes[i].read_units;
		write += c->indexes[i].write_units;
	}
	json_begin_object(w);
	json_name(w, BYTES("TableName"));
	json_string(w, c->table);
	units_write(w, read, write, apart);
	if (report == CAPACITY_INDEXES) {
		json_name(w, BYTES("Table"));
		json_begin_object(w);
		units_write(w, c->read_units, c->write_units, apart);
		json_end_object(w);
		indexes_write(w, BYTES("LocalSecondaryIndexes"), c, true, apart);
		indexes_write(w, BYTES("GlobalSecondaryIndexes"), c, false, apart);
	}
	json_end_object(w);
}

/* "ConsumedCapacity": {…}; nothing if it was not asked for. */
static void capacity_write(struct json_writer *w, enum capacity_report report, const struct capacity *c)
{
	if (report == CAPACITY_NONE)
		return;
	json_name(w, BYTES("ConsumedCapacity"));
	one_write(w, report, c, false);
}

/* ---- capacity of many ---- */

static void index_sum(struct capacity *to, const struct index_capacity *from)
{
	for (uint32_t i = 0; i < to->index_count; i++) {
		if (!bytes_equal(to->indexes[i].name, from->name))
			continue;
		to->indexes[i].read_units += from->read_units;
		to->indexes[i].write_units += from->write_units;
		return;
	}
	to->indexes[to->index_count++] = *from;
}

static void capacity_sum(struct capacity *to, const struct capacity *from)
{
	to->read_units += from->read_units;
	to->write_units += from->write_units;
	for (uint32_t i = 0; i < from->index_count; i++)
		index_sum(to, &from->indexes[i]);
}

static struct capacity *sum_for(struct arena *a, struct capacity *sums, uint32_t *count, struct bytes table)
{
	for (uint32_t i = 0; i < *count; i++)
		if (bytes_equal(sums[i].table, table))
			return &sums[i];
	sums[*count] = (struct capacity){.table = table};
	sums[*count].indexes = arena_array(a, TABLE_INDEX_MAX, sizeof(struct index_capacity));
	return &sums[(*count)++];
}

struct capacity_list {
	const struct capacity **items;
	uint32_t                count;
};

/* "ConsumedCapacity": […], summed up by table. transact: reads and writes are told apart. */
static void capacities_write(struct json_writer *w, struct arena *a, enum capacity_report report,
                             bool transact, struct capacity_list list)
{
	struct capacity *sums;
	uint32_t         sum_count = 0;

	if (report == CAPACITY_NONE)
		return;
	sums = arena_array(a, list.count, sizeof(*sums));
	for (uint32_t i = 0; i < list.count; i++)
		capacity_sum(sum_for(a, sums, &sum_count, list.items[i]->table), list.items[i]);
	json_name(w, BYTES("ConsumedCapacity"));
	json_begin_array(w);
	for (uint32_t i = 0; i < sum_count; i++)
		one_write(w, report, &sums[i], transact);
	json_end_array(w);
}

/* ---- item collections ---- */

/* {"ItemCollectionKey": …, "SizeEstimateRangeGB": […]} */
static void collection_write(struct json_writer *w, const struct table_write_result *r)
{
	double low = floor(r->collection_gb);

	json_begin_object(w);
	json_name(w, BYTES("ItemCollectionKey"));
	json_begin_object(w);
	json_name(w, r->collection_name);
	wire_value_write(w, &r->collection_key);
	json_end_object(w);
	json_name(w, BYTES("SizeEstimateRangeGB"));
	json_begin_array(w);
	json_double(w, low);
	json_double(w, low + 1);
	json_end_array(w);
	json_end_object(w);
}

/* ---- one item ---- */

enum err_code result_get(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                         const struct dynamo_result *r)
{
	(void)a;
	json_begin_object(w);
	if (r->get.found) {
		json_name(w, BYTES("Item"));
		wire_item_write(w, &r->get.item);
	}
	capacity_write(w, q->capacity, &r->get.capacity);
	json_end_object(w);
	return ERR_NONE;
}

enum err_code result_write(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                           const struct dynamo_result *r)
{
	const struct table_write_result *write = &r->write;

	if (write->condition_failed) {
		error_write_condition(w, a, write->has_item ? &write->item : NULL);
		return ERR_CONDITION;
	}
	json_begin_object(w);
	if (write->has_item) {
		json_name(w, BYTES("Attributes"));
		wire_item_write(w, &write->item);
	}
	capacity_write(w, q->capacity, &write->capacity);
	if (q->collection_metrics && write->has_collection && write->collection_name.len > 0) {
		json_name(w, BYTES("ItemCollectionMetrics"));
		collection_write(w, write);
	}
	json_end_object(w);
	return ERR_NONE;
}

/* ---- pages ---- */

enum err_code result_query(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                           const struct dynamo_result *r)
{
	const struct table_query_result *page = &r->query;

	(void)a;
	json_begin_object(w);
	if (!q->query.count_only) {
		json_name(w, BYTES("Items"));
		json_begin_array(w);
		for (uint32_t i = 0; i < page->count; i++)
			wire_item_write(w, &page->items[i]);
		json_end_array(w);
	}
	json_name(w, BYTES("Count"));
	json_i64(w, page->count);
	json_name(w, BYTES("ScannedCount"));
	json_i64(w, page->scanned);
	if (page->more) {
		json_name(w, BYTES("LastEvaluatedKey"));
		wire_item_write(w, &page->last_key);
	}
	capacity_write(w, q->capacity, &page->capacity);
	json_end_object(w);
	return ERR_NONE;
}

/* ---- batches ---- */

static struct capacity_list gets_capacity(struct arena *a, const struct table_batch_get_result *r,
                                          uint32_t count)
{
	struct capacity_list list = {arena_array(a, count, sizeof(*list.items)), 0};

	for (uint32_t i = 0; i < count; i++)
		if (r->skipped == NULL || !r->skipped[i])
			list.items[list.count++] = &r->results[i].capacity;
	return list;
}

static void found_write(struct json_writer *w, const struct batch_table *t,
                        const struct table_batch_get_result *r)
{
	json_name(w, t->name);
	json_begin_array(w);
	for (uint32_t i = t->first; i < t->first + t->count; i++)
		if (!r->skipped[i] && r->results[i].found)
			wire_item_write(w, &r->results[i].item);
	json_end_array(w);
}

/* The table's part of the request again, with the keys that were skipped. */
static void skipped_write(struct json_writer *w, const struct request_batch *batch,
                          const struct batch_table *t, const bool *skipped)
{
	json_name(w, t->name);
	json_begin_object(w);
	for (const struct json *field = json_children(t->asked); field != NULL; field = field->next) {
		if (bytes_is(field->name, "Keys"))
			continue;
		json_name(w, field->name);
		json_tree(w, field);
	}
	json_name(w, BYTES("Keys"));
	json_begin_array(w);
	for (uint32_t i = t->first; i < t->first + t->count; i++)
		if (skipped[i])
			wire_item_write(w, &batch->gets[i].key);
	json_end_array(w);
	json_end_object(w);
}

static bool any_skipped(const struct batch_table *t, const bool *skipped)
{
	for (uint32_t i = t->first; i < t->first + t->count; i++)
		if (skipped[i])
			return true;
	return false;
}

enum err_code result_batch_get(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                               const struct dynamo_result *r)
{
	const struct request_batch *batch = &q->batch;

	json_begin_object(w);
	json_name(w, BYTES("Responses"));
	json_begin_object(w);
	for (uint32_t i = 0; i < batch->table_count; i++)
		found_write(w, &batch->tables[i], &r->gets);
	json_end_object(w);
	json_name(w, BYTES("UnprocessedKeys"));
	json_begin_object(w);
	for (uint32_t i = 0; i < batch->table_count; i++)
		if (any_skipped(&batch->tables[i], r->gets.skipped))
			skipped_write(w, batch, &batch->tables[i], r->gets.skipped);
	json_end_object(w);
	capacities_write(w, a, q->capacity, false, gets_capacity(a, &r->gets, batch->count));
	json_end_object(w);
	return ERR_NONE;
}

static struct capacity_list writes_capacity(struct arena *a, const struct table_write_result *results,
                                            uint32_t count)
{
	struct capacity_list list = {arena_array(a, count, sizeof(*list.items)), count};

	for (uint32_t i = 0; i < count; i++)
		list.items[i] = &results[i].capacity;
	return list;
}

/* "ItemCollectionMetrics": {table: […]}, for tables that have local indexes. tables[i] names the table of
 * results[i]; each table's list is written where its first write stands. */
static void collections_write(struct json_writer *w, const struct table_write *writes,
                              const struct table_write_result *results, uint32_t count)
{
	json_name(w, BYTES("ItemCollectionMetrics"));
	json_begin_object(w);
	for (uint32_t i = 0; i < count; i++) {
		bool first = results[i].has_collection;

		for (uint32_t j = 0; j < i && first; j++)
			first = !(results[j].has_collection && bytes_equal(writes[j].table, writes[i].table));
		if (!first)
			continue;
		json_name(w, writes[i].table);
		json_begin_array(w);
		for (uint32_t j = i; j < count; j++)
			if (results[j].has_collection && bytes_equal(writes[j].table, writes[i].table))
				collection_write(w, &results[j]);
		json_end_array(w);
	}
	json_end_object(w);
}

enum err_code result_batch_write(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                                 const struct dynamo_result *r)
{
	const struct table_write_result *results = r->batch_write.results;

	json_begin_object(w);
	json_name(w, BYTES("UnprocessedItems"));
	json_begin_object(w);
	json_end_object(w);
	if (q->collection_metrics)
		collections_write(w, q->batch.writes, results, q->batch.count);
	capacities_write(w, a, q->capacity, false, writes_capacity(a, results, q->batch.count));
	json_end_object(w);
	return ERR_NONE;
}

/* ---- transactions ---- */

enum err_code result_transact_get(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                                  const struct dynamo_result *r)
{
	if (r->gets.reasons != NULL) {
		error_write_cancelled(w, a, r->gets.reasons, q->transact_get.count);
		return ERR_CANCELLED;
	}
	json_begin_object(w);
	json_name(w, BYTES("Responses"));
	json_begin_array(w);
	for (uint32_t i = 0; i < q->transact_get.count; i++) {
		json_begin_object(w);
		if (r->gets.results[i].found) {
			json_name(w, BYTES("Item"));
			wire_item_write(w, &r->gets.results[i].item);
		}
		json_end_object(w);
	}
	json_end_array(w);
	capacities_write(w, a, q->capacity, true, gets_capacity(a, &r->gets, q->transact_get.count));
	json_end_object(w);
	return ERR_NONE;
}

enum err_code result_transact_write(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                                    const struct dynamo_result *r)
{
	const struct table_transact_result *transact = &r->transact;
	uint32_t                            count = q->transact_write.count;

	if (transact->cancelled) {
		error_write_cancelled(w, a, transact->reasons, count);
		return ERR_CANCELLED;
	}
	json_begin_object(w);
	if (transact->results != NULL) {
		if (q->collection_metrics)
			collections_write(w, q->transact_write.writes, transact->results, count);
		capacities_write(w, a, q->capacity, true, writes_capacity(a, transact->results, count));
	}
	json_end_object(w);
	return ERR_NONE;
}
