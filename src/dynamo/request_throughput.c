/* OnDemandThroughput and WarmThroughput, of tables and indexes, when they are made and when they are changed. */
#include "dynamo/reader.h"
#include "item/messages.h"

enum { PART_READ, PART_WRITE, PART_COUNT };

static const struct shape shape_part = {.kind = SHAPE_LONG};

static const struct shape_field demand_fields[PART_COUNT] = {
        [PART_READ] = {BYTES_INIT("MaxReadRequestUnits"), &shape_part, false},
        [PART_WRITE] = {BYTES_INIT("MaxWriteRequestUnits"), &shape_part, false},
};
const struct shape shape_demand = SHAPE_OF("OnDemandThroughput", demand_fields);

static const struct shape_field warm_fields[PART_COUNT] = {
        [PART_READ] = {BYTES_INIT("ReadUnitsPerSecond"), &shape_part, false},
        [PART_WRITE] = {BYTES_INIT("WriteUnitsPerSecond"), &shape_part, false},
};
const struct shape shape_warm = SHAPE_OF("WarmThroughput", warm_fields);

/* -1 takes a maximum away. */
static enum err_code maximum_read(struct request_reader *r, const struct json *json, const char *name,
                                  int64_t *out)
{
	*out = json == NULL ? 0 : shape_integer(json);
	if (json != NULL && *out != -1 && *out < 1)
		return err_set(r->err, ERR_INVALID, MSG_DEMAND_RANGE, name);
	return ERR_NONE;
}

static enum err_code demand_read(struct request_reader *r, const struct json *json, struct throughput *out)
{
	const struct json *slots[PART_COUNT];
	enum err_code      rc;

	if (json == NULL)
		return ERR_NONE;
	shape_slots(&shape_demand, json, slots);
	rc = maximum_read(r, slots[PART_READ], "MaxReadRequestUnits", &out->max_read);
	return rc != ERR_NONE ? rc
	                      : maximum_read(r, slots[PART_WRITE], "MaxWriteRequestUnits", &out->max_write);
}

/* What is less than one is less than any table is ready for. */
static int64_t rate_of(const struct json *json)
{
	int64_t rate = json == NULL ? 0 : shape_integer(json);

	return json != NULL && rate < 1 ? -1 : rate;
}

static enum err_code warm_read(struct request_reader *r, const struct json *json, struct throughput *out)
{
	const struct json *slots[PART_COUNT];

	if (json == NULL)
		return ERR_NONE;
	shape_slots(&shape_warm, json, slots);
	if (slots[PART_READ] == NULL && slots[PART_WRITE] == NULL)
		return err_set(r->err, ERR_INVALID, MSG_WARM_NONE);
	out->warm_read = rate_of(slots[PART_READ]);
	out->warm_write = rate_of(slots[PART_WRITE]);
	return ERR_NONE;
}

enum err_code throughput_read(struct request_reader *r, const struct json *demand, const struct json *warm,
                              struct throughput *out)
{
	enum err_code rc;

	*out = (struct throughput){0};
	rc = demand_read(r, demand, out);
	return rc != ERR_NONE ? rc : warm_read(r, warm, out);
}
