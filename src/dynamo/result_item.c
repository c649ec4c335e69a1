/* Answers about items: single ones, pages, batches and transactions. */
#include "dynamo/errors.h"
#include "dynamo/result_parts.h"
#include "dynamo/wire.h"

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

static void gets_capacity(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                          bool transact, const struct table_batch_get_result *r, uint32_t count)
{
	const struct capacity **list = arena_array(a, count, sizeof(*list));
	uint32_t                used = 0;

	for (uint32_t i = 0; i < count; i++)
		if (r->skipped == NULL || !r->skipped[i])
			list[used++] = &r->results[i].capacity;
	capacities_write(w, a, q->capacity, transact, list, used);
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
	for (const struct json *field = t->asked->children; field != NULL; field = field->next) {
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
	gets_capacity(w, a, q, false, &r->gets, batch->count);
	json_end_object(w);
	return ERR_NONE;
}

static void writes_capacity(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                            bool transact, const struct table_write_result *results, uint32_t count)
{
	const struct capacity **list = arena_array(a, count, sizeof(*list));

	for (uint32_t i = 0; i < count; i++)
		list[i] = &results[i].capacity;
	capacities_write(w, a, q->capacity, transact, list, count);
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
	writes_capacity(w, a, q, false, results, q->batch.count);
	json_end_object(w);
	return ERR_NONE;
}

/* ---- transactions ---- */

enum err_code result_transact_get(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                                  const struct dynamo_result *r)
{
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
	gets_capacity(w, a, q, true, &r->gets, q->transact_get.count);
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
		writes_capacity(w, a, q, true, transact->results, count);
	}
	json_end_object(w);
	return ERR_NONE;
}
