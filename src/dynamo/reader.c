/* Reader: shapes and steps that several requests have in common, in the order in which a request is decoded. */
#include "dynamo/reader.h"

#include "base/buf.h"
#include "dynamo/wire.h"
#include "item/messages.h"

static const struct shape shape_value = {.kind = SHAPE_VALUE};
static const struct shape shape_values = {.kind = SHAPE_LIST, .member = &shape_value};
static const struct shape shape_comparison = {
        .kind = SHAPE_STRING,
        .choices =
                "[IN, NULL, BETWEEN, LT, NOT_CONTAINS, EQ, GT, NOT_NULL, NE, LE, BEGINS_WITH, GE, CONTAINS]"};
static const struct shape shape_attribute_action = {.kind = SHAPE_STRING, .choices = "[ADD, DELETE, PUT]"};

const struct shape shape_text = {.kind = SHAPE_STRING};
const struct shape shape_truth = {.kind = SHAPE_BOOLEAN};
const struct shape shape_table = {SHAPE_STRING,
                                  SHAPE_RANGE | SHAPE_NAME | SHAPE_ARN,
                                  TABLE_NAME_MIN,
                                  TABLE_NAME_MAX,
                                  NULL,
                                  NULL,
                                  NULL,
                                  NULL,
                                  0};
const struct shape shape_new_table = {
        SHAPE_STRING, SHAPE_RANGE | SHAPE_NAME, TABLE_NAME_MIN, TABLE_NAME_MAX, NULL, NULL, NULL, NULL, 0};
const struct shape shape_index_name = {
        SHAPE_STRING, SHAPE_RANGE | SHAPE_NAME, TABLE_NAME_MIN, TABLE_NAME_MAX, NULL, NULL, NULL, NULL, 0};
const struct shape shape_item = {.kind = SHAPE_MAP, .member = &shape_value};
const struct shape shape_names = {.kind = SHAPE_MAP, .member = &shape_text};
const struct shape shape_attributes = {
        .kind = SHAPE_LIST, .checks = SHAPE_MIN, .min = 1, .member = &shape_text};
const struct shape shape_capacity = {.kind = SHAPE_STRING, .choices = "[INDEXES, TOTAL, NONE]"};
const struct shape shape_metrics = {.kind = SHAPE_STRING, .choices = "[SIZE, NONE]"};
const struct shape shape_on_failure = {.kind = SHAPE_STRING, .choices = "[ALL_OLD, NONE]"};
const struct shape shape_operator = {.kind = SHAPE_STRING, .choices = "[OR, AND]"};

static const struct shape_field condition_fields[] = {
        {BYTES_INIT("AttributeValueList"), &shape_values, false},
        {BYTES_INIT("ComparisonOperator"), &shape_comparison, true},
};
static const struct shape shape_condition = SHAPE_OF("Condition", condition_fields);
const struct shape        shape_conditions = {.kind = SHAPE_MAP, .member = &shape_condition};

static const struct shape_field expected_fields[] = {
        {BYTES_INIT("AttributeValueList"), &shape_values, false},
        {BYTES_INIT("ComparisonOperator"), &shape_comparison, false},
        {BYTES_INIT("Value"), &shape_value, false},
        {BYTES_INIT("Exists"), &shape_truth, false},
};
static const struct shape shape_expectation = SHAPE_OF("ExpectedAttributeValue", expected_fields);
const struct shape        shape_expected = {.kind = SHAPE_MAP, .member = &shape_expectation};

static const struct shape_field update_fields[] = {
        {BYTES_INIT("Value"), &shape_value, false},
        {BYTES_INIT("Action"), &shape_attribute_action, false},
};
static const struct shape shape_attribute_update = SHAPE_OF("AttributeValueUpdate", update_fields);
const struct shape        shape_updates = {.kind = SHAPE_MAP, .member = &shape_attribute_update};

/* ---- small things ---- */

bool text_is(const struct json *json, const char *text)
{
	return json != NULL && bytes_is(json_text(json), text);
}

bool truth_of(const struct json *json)
{
	return json != NULL && json_truth(json);
}

void capacity_read(const struct json *json, struct dynamo_request *out)
{
	out->capacity = CAPACITY_NONE;
	if (text_is(json, "TOTAL"))
		out->capacity = CAPACITY_TOTAL;
	if (text_is(json, "INDEXES"))
		out->capacity = CAPACITY_INDEXES;
}

/* ---- table names ---- */

enum { ARN_COLONS = 5 };

/* What follows the fifth colon; empty if there are fewer. */
static struct bytes resource_of(struct bytes arn)
{
	unsigned colons = 0;

	for (size_t i = 0; i < arn.len; i++)
		if (arn.data[i] == ':' && ++colons == ARN_COLONS)
			return (struct bytes){arn.data + i + 1, arn.len - i - 1};
	return (struct bytes){arn.data, 0};
}

enum err_code arn_table(struct bytes text, const char *message, struct bytes *name, struct err *err)
{
	struct bytes prefix = BYTES("table/");
	struct bytes resource;
	const char  *slash;

	*name = text;
	if (!arn_is(text))
		return ERR_NONE;
	resource = resource_of(text);
	if (!bytes_starts_with(resource, prefix))
		return err_set(err, ERR_INVALID, "%s", message);
	*name = (struct bytes){resource.data + prefix.len, resource.len - prefix.len};
	slash = memchr(name->data, '/', name->len);
	if (slash != NULL || name->len < TABLE_NAME_MIN || name->len > TABLE_NAME_MAX)
		return err_set(err, ERR_INVALID, "%s", message);
	return ERR_NONE;
}

enum err_code table_read(struct request_reader *r, struct bytes name_or_arn, struct bytes *out)
{
	return arn_table(name_or_arn, MSG_ARN_BAD, out, r->err);
}

/* ---- how it is said ---- */

enum err_code detected(struct request_reader *r, enum err_code rc)
{
	struct err inner;

	if (rc != ERR_INVALID || strcmp(r->err->text, MSG_VALUE_EMPTY) == 0 ||
	    strcmp(r->err->text, MSG_VALUE_MANY) == 0)
		return rc;
	inner = *r->err;
	return err_set(r->err, rc, MSG_DETECTED "%s", inner.text);
}

/* ---- which parameters go together ---- */

/* The names of those present (or of all), with `between` between them. */
static struct bytes parameters_print(struct arena *a, const struct parameter *p, unsigned count,
                                     bool present_only, const char *between)
{
	struct buf out;

	buf_init(&out, a);
	for (unsigned i = 0; i < count; i++) {
		if (present_only && p[i].json == NULL)
			continue;
		if (out.len > 0)
			buf_add_bytes(&out, bytes_of(between));
		buf_add_bytes(&out, bytes_of(p[i].name));
	}
	return buf_bytes(&out);
}

static bool any_present(const struct parameter *p, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (p[i].json != NULL)
			return true;
	return false;
}

/* A projection, which comes first where there is one, cannot use values. */
static enum err_code values_check(struct request_reader *r, const struct parameter *p, unsigned count,
                                  const struct json *values)
{
	if (count > 0 && strcmp(p[0].name, "ProjectionExpression") == 0) {
		p++;
		count--;
	}
	if (!any_present(p, count)) {
		struct bytes all = parameters_print(r->arena, p, count, false, " and ");

		return err_set(r->err, ERR_INVALID, MSG_VALUES_ALONE, BYTES_ARG(all),
		               count > 1 ? "are" : "is");
	}
	return values->count > 0 ? ERR_NONE : err_set(r->err, ERR_INVALID, MSG_VALUES_NONE);
}

enum err_code parameters_check(struct request_reader *r, const struct parameters *p)
{
	bool expressed = any_present(p->expressions, p->expression_count);

	if (expressed && any_present(p->legacy, p->legacy_count)) {
		struct bytes one = parameters_print(r->arena, p->legacy, p->legacy_count, true, ", ");
		struct bytes two =
		        parameters_print(r->arena, p->expressions, p->expression_count, true, ", ");

		return err_set(r->err, ERR_INVALID, MSG_PARAMETERS_MIXED, BYTES_ARG(one), BYTES_ARG(two));
	}
	if (p->names != NULL && !expressed)
		return err_set(r->err, ERR_INVALID, MSG_NAMES_ALONE);
	if (p->names != NULL && p->names->count == 0)
		return err_set(r->err, ERR_INVALID, MSG_NAMES_NONE);
	if (p->values != NULL)
		return values_check(r, p->expressions, p->expression_count, p->values);
	return ERR_NONE;
}

/* ---- expressions ---- */

static enum err_code names_read(struct request_reader *r, const struct json *names)
{
	struct expr_name *to = arena_array(r->arena, names->count, sizeof(*to));

	r->scope.names = to;
	r->scope.name_count = names->count;
	for (const struct json *child = json_children(names); child != NULL; child = child->next) {
		struct err inner;

		*to++ = (struct expr_name){child->name, json_text(child), false};
		if (name_check(json_text(child), &inner) != ERR_NONE)
			return err_set(r->err, inner.code, MSG_NAMES_INVALID, inner.text,
			               BYTES_ARG(child->name));
	}
	return ERR_NONE;
}

static enum err_code values_read(struct request_reader *r, const struct json *values)
{
	struct expr_value *to = arena_array(r->arena, values->count, sizeof(*to));

	r->scope.values = to;
	r->scope.value_count = values->count;
	for (const struct json *child = json_children(values); child != NULL; child = child->next, to++) {
		struct err inner;

		to->placeholder = child->name;
		to->used = false;
		if (wire_value_read(r->arena, child, &to->value, &inner) != ERR_NONE)
			return err_set(r->err, inner.code, MSG_VALUES_INVALID, inner.text,
			               BYTES_ARG(child->name));
	}
	return ERR_NONE;
}

enum err_code scope_read(struct request_reader *r, const struct json *names, const struct json *values)
{
	enum err_code rc = ERR_NONE;

	r->scope = (struct expr_scope){0};
	if (names != NULL)
		rc = names_read(r, names);
	if (values != NULL && rc == ERR_NONE)
		rc = values_read(r, values);
	return rc != ERR_NONE ? rc : expr_scope_sort(&r->scope, r->err);
}

enum err_code projection_read(struct request_reader *r, const struct json *text,
                              const struct expr_projection **out)
{
	struct expr_projection *projection;

	*out = NULL;
	if (text == NULL)
		return ERR_NONE;
	projection = arena_zalloc(r->arena, sizeof(*projection));
	*out = projection;
	return expr_parse_projection(r->arena, json_text(text), &r->scope, projection, r->err);
}
