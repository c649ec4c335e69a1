/* Query and Scan. They differ in how they say where to look, and share everything else, so one list of fields
 * serves both. */
#include "dynamo/reader.h"
#include "dynamo/wire.h"
#include "item/messages.h"

enum query_field {
	Q_CAPACITY,
	Q_ATTRIBUTES,
	Q_TABLE,
	Q_INDEX,
	Q_LIMIT,
	Q_SELECT,
	Q_START,
	Q_CONSISTENT,
	Q_FORWARD,
	Q_SEGMENT,
	Q_SEGMENTS,
	Q_PROJECTION,
	Q_FILTER,
	Q_KEY,
	Q_NAMES,
	Q_VALUES,
	Q_LEGACY_FILTER,
	Q_LEGACY_KEYS,
	Q_OPERATOR,
	Q_COUNT
};

static const struct shape shape_limit = {.kind = SHAPE_INTEGER, .checks = SHAPE_MIN, .min = 1};
static const struct shape shape_segment = {
        .kind = SHAPE_INTEGER, .checks = SHAPE_RANGE, .min = 0, .max = TABLE_SEGMENTS_MAX - 1};
static const struct shape shape_segments = {
        .kind = SHAPE_INTEGER, .checks = SHAPE_RANGE, .min = 1, .max = TABLE_SEGMENTS_MAX};
static const struct shape shape_select = {
        .kind = SHAPE_STRING,
        .choices = "[SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES]"};

#define COMMON_FIELDS                                                                                        \
	[Q_CAPACITY] = {BYTES_INIT("ReturnConsumedCapacity"), &shape_capacity, false},                       \
	[Q_ATTRIBUTES] = {BYTES_INIT("AttributesToGet"), &shape_attributes, false},                          \
	[Q_TABLE] = {BYTES_INIT("TableName"), &shape_table, true},                                           \
	[Q_INDEX] = {BYTES_INIT("IndexName"), &shape_index_name, false},                                     \
	[Q_LIMIT] = {BYTES_INIT("Limit"), &shape_limit, false},                                              \
	[Q_SELECT] = {BYTES_INIT("Select"), &shape_select, false},                                           \
	[Q_START] = {BYTES_INIT("ExclusiveStartKey"), &shape_item, false},                                   \
	[Q_CONSISTENT] = {BYTES_INIT("ConsistentRead"), &shape_truth, false},                                \
	[Q_PROJECTION] = {BYTES_INIT("ProjectionExpression"), &shape_text, false},                           \
	[Q_FILTER] = {BYTES_INIT("FilterExpression"), &shape_text, false},                                   \
	[Q_NAMES] = {BYTES_INIT("ExpressionAttributeNames"), &shape_names, false},                           \
	[Q_VALUES] = {BYTES_INIT("ExpressionAttributeValues"), &shape_item, false},                          \
	[Q_OPERATOR] = {BYTES_INIT("ConditionalOperator"), &shape_operator, false}

static const struct shape_field query_fields[Q_COUNT] = {
        COMMON_FIELDS,
        [Q_FORWARD] = {BYTES_INIT("ScanIndexForward"), &shape_truth, false},
        [Q_KEY] = {BYTES_INIT("KeyConditionExpression"), &shape_text, false},
        [Q_LEGACY_FILTER] = {BYTES_INIT("QueryFilter"), &shape_conditions, false},
        [Q_LEGACY_KEYS] = {BYTES_INIT("KeyConditions"), &shape_conditions, false},
};
static const struct shape query_shape = SHAPE_OF("QueryInput", query_fields);

static const struct shape_field scan_fields[Q_COUNT] = {
        COMMON_FIELDS,
        [Q_SEGMENT] = {BYTES_INIT("Segment"), &shape_segment, false},
        [Q_SEGMENTS] = {BYTES_INIT("TotalSegments"), &shape_segments, false},
        [Q_LEGACY_FILTER] = {BYTES_INIT("ScanFilter"), &shape_conditions, false},
};
static const struct shape scan_shape = SHAPE_OF("ScanInput", scan_fields);

/* ---- which parameters go together ---- */

/* KeyConditions may stand beside expressions as long as there is no KeyConditionExpression. */
static enum err_code combination_check(struct request_reader *r, bool query)
{
	const struct json *const *s = r->slots;
	const struct parameter    expressions[] = {{"ProjectionExpression", s[Q_PROJECTION]},
	                                           {"FilterExpression", s[Q_FILTER]},
	                                           {"KeyConditionExpression", s[Q_KEY]}};
	const struct parameter    legacy[] = {{"AttributesToGet", s[Q_ATTRIBUTES]},
	                                      {query ? "QueryFilter" : "ScanFilter", s[Q_LEGACY_FILTER]},
	                                      {"ConditionalOperator", s[Q_OPERATOR]},
	                                      {"KeyConditions", s[Q_LEGACY_KEYS]}};
	bool                      keys_count = query && s[Q_KEY] != NULL;

	return parameters_check(r, &(struct parameters){expressions, query ? 3 : 2, legacy,
	                                                keys_count ? 4 : 3, s[Q_NAMES], s[Q_VALUES]});
}

static enum err_code select_check(struct request_reader *r, struct table_query *out)
{
	const struct json *const *s = r->slots;
	const struct json        *select = s[Q_SELECT];
	const char *named = s[Q_ATTRIBUTES] != NULL ? "AttributesToGet" : "ProjectionExpression";
	bool        projected = s[Q_ATTRIBUTES] != NULL || s[Q_PROJECTION] != NULL;

	out->count_only = text_is(select, "COUNT");
	out->all_attributes = text_is(select, "ALL_ATTRIBUTES");
	if (select == NULL)
		return ERR_NONE;
	if (text_is(select, "SPECIFIC_ATTRIBUTES"))
		return projected ? ERR_NONE : err_set(r->err, ERR_INVALID, MSG_SELECT_SPECIFIC);
	if (projected && out->count_only)
		return err_set(r->err, ERR_INVALID, MSG_SELECT_COUNT, named);
	if (projected)
		return err_set(r->err, ERR_INVALID, MSG_SELECT_ALL, named,
		               out->all_attributes ? "ALL_ATTRIBUTES" : "ALL_PROJECTED_ATTRIBUTES");
	if (s[Q_INDEX] == NULL && text_is(select, "ALL_PROJECTED_ATTRIBUTES"))
		return err_set(r->err, ERR_INVALID, MSG_SELECT_PROJECTED);
	return ERR_NONE;
}

static enum err_code segments_check(struct request_reader *r, struct table_query *out)
{
	const struct json *segment = r->slots[Q_SEGMENT], *segments = r->slots[Q_SEGMENTS];

	if (segment == NULL && segments == NULL)
		return ERR_NONE;
	if (segments == NULL)
		return err_set(r->err, ERR_INVALID, MSG_SEGMENTS_MISSING);
	if (segment == NULL)
		return err_set(r->err, ERR_INVALID, MSG_SEGMENT_MISSING);
	out->segment = (uint32_t)shape_integer(segment);
	out->segments = (uint32_t)shape_integer(segments);
	if (out->segment >= out->segments)
		return err_set(r->err, ERR_INVALID, MSG_SEGMENT_RANGE, (int)out->segment, (int)out->segments);
	return ERR_NONE;
}

/* ---- values and expressions ---- */

static enum err_code start_read(struct request_reader *r, const struct json *json, struct table_query *out)
{
	struct item *start;
	struct err   inner;

	if (json == NULL)
		return ERR_NONE;
	start = arena_zalloc(r->arena, sizeof(*start));
	out->start = start;
	if (wire_item_read(r->arena, json, start, &inner) != ERR_NONE)
		return err_set(r->err, inner.code, MSG_START_KEY_VALUE, inner.text);
	return ERR_NONE;
}

static enum err_code key_condition_read(struct request_reader *r, struct table_query *out)
{
	const struct json         *text = r->slots[Q_KEY], *legacy = r->slots[Q_LEGACY_KEYS];
	struct expr_key_condition *key = arena_zalloc(r->arena, sizeof(*key));

	out->key = key;
	if (text != NULL)
		return expr_parse_key_condition(r->arena, json_text(text), &r->scope, key, r->err);
	if (legacy != NULL)
		return legacy_key_condition(r, legacy, key);
	return err_set(r->err, ERR_INVALID, MSG_KEY_CONDITION);
}

static enum err_code filter_read(struct request_reader *r, struct table_query *out)
{
	const struct json *const *s = r->slots;
	struct expr              *filter = NULL;
	enum err_code             rc;

	if (s[Q_FILTER] == NULL)
		return legacy_filter(r, s[Q_LEGACY_FILTER], s[Q_OPERATOR], &out->filter);
	rc = expr_parse_filter(r->arena, json_text(s[Q_FILTER]), &r->scope, &filter, r->err);
	out->filter = filter;
	return rc;
}

static enum err_code expressions_read(struct request_reader *r, bool query, struct table_query *out)
{
	const struct json *const *s = r->slots;
	enum err_code             rc = scope_read(r, s[Q_NAMES], s[Q_VALUES]);

	if (rc == ERR_NONE)
		rc = filter_read(r, out);
	if (rc == ERR_NONE && query)
		rc = key_condition_read(r, out);
	if (rc == ERR_NONE && s[Q_PROJECTION] != NULL)
		rc = projection_read(r, s[Q_PROJECTION], &out->projection);
	else if (rc == ERR_NONE)
		rc = legacy_projection(r, s[Q_ATTRIBUTES], &out->projection);
	return rc != ERR_NONE ? rc : expr_scope_check_used(&r->scope, r->err);
}

static void plain_read(struct request_reader *r, struct dynamo_request *out)
{
	const struct json *const *s = r->slots;

	capacity_read(s[Q_CAPACITY], out);
	out->query.consistent = truth_of(s[Q_CONSISTENT]);
	out->query.backward = s[Q_FORWARD] != NULL && !json_truth(s[Q_FORWARD]);
	if (s[Q_INDEX] != NULL)
		out->query.index = json_text(s[Q_INDEX]);
	if (s[Q_LIMIT] != NULL)
		out->query.limit = (uint32_t)shape_integer(s[Q_LIMIT]);
}

/* Steps 3 and 4. */
static enum err_code request_read(struct request_reader *r, bool query, struct table_query *out)
{
	enum err_code rc = table_read(r, json_text(r->slots[Q_TABLE]), &out->table);

	if (rc == ERR_NONE)
		rc = combination_check(r, query);
	if (rc == ERR_NONE)
		rc = segments_check(r, out);
	if (rc == ERR_NONE)
		rc = start_read(r, r->slots[Q_START], out);
	if (rc == ERR_NONE)
		rc = select_check(r, out);
	return rc != ERR_NONE ? rc : expressions_read(r, query, out);
}

static enum err_code many_read(struct arena *a, const struct json *body, bool query,
                               struct dynamo_request *out, struct err *err)
{
	struct request_reader reader = {.arena = a, .err = err}, *r = &reader;
	enum err_code         rc = shape_read(a, query ? &query_shape : &scan_shape, body, r->slots, err);

	*out = (struct dynamo_request){0};
	if (rc != ERR_NONE)
		return rc;
	plain_read(r, out);
	rc = request_read(r, query, &out->query);
	return query ? detected(r, rc) : rc;
}

enum err_code request_query(struct arena *a, const struct json *body, struct dynamo_request *out,
                            struct err *err)
{
	return many_read(a, body, true, out, err);
}

enum err_code request_scan(struct arena *a, const struct json *body, struct dynamo_request *out,
                           struct err *err)
{
	return many_read(a, body, false, out, err);
}
