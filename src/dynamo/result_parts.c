/* Parts of answers: consumed capacity, as a total or taken apart by index, and item collections. */
#include "dynamo/result_parts.h"

#include <math.h>

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

void capacity_write(struct json_writer *w, enum capacity_report report, const struct capacity *c)
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

void capacities_write(struct json_writer *w, struct arena *a, enum capacity_report report, bool transact,
                      const struct capacity *const *list, uint32_t count)
{
	struct capacity *sums;
	uint32_t         sum_count = 0;

	if (report == CAPACITY_NONE)
		return;
	sums = arena_array(a, count, sizeof(*sums));
	for (uint32_t i = 0; i < count; i++)
		capacity_sum(sum_for(a, sums, &sum_count, list[i]->table), list[i]);
	json_name(w, BYTES("ConsumedCapacity"));
	json_begin_array(w);
	for (uint32_t i = 0; i < sum_count; i++)
		one_write(w, report, &sums[i], transact);
	json_end_array(w);
}

/* ---- item collections ---- */

void collection_write(struct json_writer *w, const struct table_write_result *r)
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
