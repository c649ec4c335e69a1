/* The small requests about tables: DescribeTable, DeleteTable, ListTables, time to live, tags, and those that
 * ask nothing. */
#include <ctype.h>
#include <stdlib.h>

#include "dynamo/reader.h"
#include "item/messages.h"

enum {
	TAG_KEY_MAX = 128,   /* characters */
	TAG_VALUE_MAX = 256, /* characters */
	TTL_NAME_MAX = 255,
};

/* What tags are made of, beside letters, digits and characters beyond ASCII. */
#define TAG_MARKS " _.:/=+-@"

/* ---- a table's name and nothing else ---- */

static const struct shape_field name_fields[] = {{BYTES_INIT("TableName"), &shape_table, true}};
static const struct shape       name_shape = SHAPE_OF("TableInput", name_fields);

enum err_code request_table_name(struct arena *a, const struct json *body, struct dynamo_request *out,
                                 struct err *err)
{
	struct request_reader r = {.arena = a, .err = err};
	enum err_code         rc = shape_read(a, &name_shape, body, r.slots, err);

	*out = (struct dynamo_request){0};
	return rc != ERR_NONE ? rc : table_read(&r, json_text(r.slots[0]), &out->table);
}

/* DescribeLimits, DescribeEndpoints. */
enum err_code request_nothing(struct arena *a, const struct json *body, struct dynamo_request *out,
                              struct err *err)
{
	static const struct shape nothing = {.kind = SHAPE_STRUCT, .java = "Input"};
	const struct json        *slots[1];

	*out = (struct dynamo_request){0};
	return shape_read(a, &nothing, body, slots, err);
}

/* ---- ListTables ---- */

enum { LIST_START, LIST_LIMIT, LIST_COUNT };

static const struct shape shape_list_limit = {
        .kind = SHAPE_INTEGER, .checks = SHAPE_RANGE, .min = 1, .max = TABLE_LIST_MAX};
static const struct shape_field list_fields[LIST_COUNT] = {
        [LIST_START] = {BYTES_INIT("ExclusiveStartTableName"), &shape_new_table, false},
        [LIST_LIMIT] = {BYTES_INIT("Limit"), &shape_list_limit, false},
};
static const struct shape list_shape = SHAPE_OF("ListTablesInput", list_fields);

enum err_code request_list_tables(struct arena *a, const struct json *body, struct dynamo_request *out,
                                  struct err *err)
{
	const struct json *slots[LIST_COUNT];
	enum err_code      rc = shape_read(a, &list_shape, body, slots, err);

	*out = (struct dynamo_request){0};
	if (rc != ERR_NONE)
		return rc;
	out->list.limit = TABLE_LIST_MAX;
	if (slots[LIST_LIMIT] != NULL)
		out->list.limit = (uint32_t)shape_integer(slots[LIST_LIMIT]);
	if (slots[LIST_START] != NULL)
		out->list.after = json_text(slots[LIST_START]);
	return ERR_NONE;
}

/* ---- time to live ---- */

enum { TTL_TABLE, TTL_SPECIFICATION, TTL_COUNT };

static const struct shape shape_ttl_name = {
        .kind = SHAPE_STRING, .checks = SHAPE_RANGE, .min = 1, .max = TTL_NAME_MAX};
static const struct shape_field specification_fields[] = {
        {BYTES_INIT("Enabled"), &shape_truth, true},
        {BYTES_INIT("AttributeName"), &shape_ttl_name, true},
};
static const struct shape shape_specification = SHAPE_OF("TimeToLiveSpecification", specification_fields);
static const struct shape_field ttl_fields[TTL_COUNT] = {
        [TTL_TABLE] = {BYTES_INIT("TableName"), &shape_table, true},
        [TTL_SPECIFICATION] = {BYTES_INIT("TimeToLiveSpecification"), &shape_specification, true},
};
static const struct shape ttl_shape = SHAPE_OF("UpdateTimeToLiveInput", ttl_fields);

enum err_code request_update_ttl(struct arena *a, const struct json *body, struct dynamo_request *out,
                                 struct err *err)
{
	struct request_reader r = {.arena = a, .err = err};
	enum err_code         rc = shape_read(a, &ttl_shape, body, r.slots, err);
	const struct json    *specification = r.slots[TTL_SPECIFICATION];

	*out = (struct dynamo_request){0};
	if (rc != ERR_NONE)
		return rc;
	out->ttl.enabled = json_truth(json_get(specification, BYTES("Enabled")));
	out->ttl.attribute = json_text(json_get(specification, BYTES("AttributeName")));
	return table_read(&r, json_text(r.slots[TTL_TABLE]), &out->ttl.table);
}

/* ---- tags ---- */

enum { RESOURCE_ARN, RESOURCE_TAGS, RESOURCE_KEYS, RESOURCE_COUNT };

static const struct shape shape_arn = {.kind = SHAPE_STRING, .checks = SHAPE_RANGE, .min = 1, .max = 1283};
static const struct shape_field tag_fields[] = {
        {BYTES_INIT("Key"), &shape_text, true},
        {BYTES_INIT("Value"), &shape_text, true},
};
static const struct shape shape_tag = SHAPE_OF("Tag", tag_fields);
const struct shape        shape_tags = {.kind = SHAPE_LIST, .member = &shape_tag};
static const struct shape shape_tag_keys = {.kind = SHAPE_LIST, .member = &shape_text};

static const struct shape_field tag_resource_fields[RESOURCE_COUNT] = {
        [RESOURCE_ARN] = {BYTES_INIT("ResourceArn"), &shape_arn, true},
        [RESOURCE_TAGS] = {BYTES_INIT("Tags"), &shape_tags, true},
};
static const struct shape       tag_resource_shape = SHAPE_OF("ResourceInput", tag_resource_fields);
static const struct shape_field untag_resource_fields[RESOURCE_COUNT] = {
        [RESOURCE_ARN] = {BYTES_INIT("ResourceArn"), &shape_arn, true},
        [RESOURCE_KEYS] = {BYTES_INIT("TagKeys"), &shape_tag_keys, true},
};
static const struct shape       untag_resource_shape = SHAPE_OF("ResourceInput", untag_resource_fields);
static const struct shape_field list_tags_fields[RESOURCE_COUNT] = {
        [RESOURCE_ARN] = {BYTES_INIT("ResourceArn"), &shape_arn, true},
};
static const struct shape list_tags_shape = SHAPE_OF("ResourceInput", list_tags_fields);

static int tags_order(const void *a, const void *b)
{
	return bytes_compare(((const struct tag *)a)->key, ((const struct tag *)b)->key);
}

static enum err_code tags_sort(struct request_reader *r, struct tag *tags, uint32_t count)
{
	qsort(tags, count, sizeof(tags[0]), tags_order);
	for (uint32_t i = 1; i < count; i++)
		if (bytes_equal(tags[i - 1].key, tags[i].key))
			return err_set(r->err, ERR_INVALID, MSG_TAG_TWICE);
	return ERR_NONE;
}

/* Of this many characters at most, each of which tags may have. Characters beyond ASCII are taken for letters. */
static bool tag_text_is(struct bytes text, size_t characters_max)
{
	size_t characters = 0;

	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.data[i];

		if (c < 0x80 && !isalnum(c) && (c == '\0' || strchr(TAG_MARKS, c) == NULL))
			return false;
		characters += (c & 0xC0) != 0x80; /* the first byte of one */
	}
	return characters <= characters_max;
}

static struct bytes echo_of(struct bytes text)
{
	return (struct bytes){text.data, text.len < SHAPE_ECHO_BYTES_MAX ? text.len : SHAPE_ECHO_BYTES_MAX};
}

static enum err_code tag_check(struct request_reader *r, const struct tag *tag)
{
	struct bytes key = echo_of(tag->key), value = echo_of(tag->value);

	if (tag->key.len == 0 || !tag_text_is(tag->key, TAG_KEY_MAX))
		return err_set(r->err, ERR_INVALID, MSG_TAG_KEY, BYTES_ARG(key));
	if (!tag_text_is(tag->value, TAG_VALUE_MAX))
		return err_set(r->err, ERR_INVALID, MSG_TAG_VALUE, BYTES_ARG(value));
	return ERR_NONE;
}

/* From a list of tags, or of keys alone. */
enum err_code tags_read(struct request_reader *r, const struct json *list, struct tag **out, uint32_t *count)
{
	struct tag *tags;

	*out = NULL;
	*count = 0;
	if (list == NULL)
		return ERR_NONE;
	if (list->count > TABLE_TAG_MAX)
		return err_set(r->err, ERR_INVALID, MSG_TAGS_MANY, TABLE_TAG_MAX);
	*out = tags = arena_zalloc(r->arena, list->count * sizeof(*tags));
	*count = list->count;
	for (const struct json *tag = json_children(list); tag != NULL; tag = tag->next, tags++) {
		bool key_only = tag->type == JSON_STRING;

		tags->key = key_only ? json_text(tag) : json_text(json_get(tag, BYTES("Key")));
		tags->value = key_only ? BYTES("") : json_text(json_get(tag, BYTES("Value")));
		if (tag_check(r, tags) != ERR_NONE)
			return r->err->code;
	}
	return tags_sort(r, *out, *count);
}

/* Reads the ARN of a table; unlike TableName, a plain name will not do. */
static enum err_code resource_read(struct request_reader *r, const struct json *body,
                                   const struct shape *shape, struct bytes *table)
{
	enum err_code rc = shape_read(r->arena, shape, body, r->slots, r->err);

	if (rc != ERR_NONE)
		return rc;
	if (!arn_is(json_text(r->slots[RESOURCE_ARN])))
		return err_set(r->err, ERR_INVALID, MSG_RESOURCE_ARN);
	return arn_table(json_text(r->slots[RESOURCE_ARN]), MSG_RESOURCE_ARN, table, r->err);
}

static enum err_code tags_change(struct request_reader *r, enum table_change_kind kind,
                                 const struct json *list, struct table_alter *out)
{
	struct table_change *change = arena_zalloc(r->arena, sizeof(*change));

	change->kind = kind;
	out->changes = change;
	out->count = 1;
	if (list->count == 0)
		return err_set(r->err, ERR_INVALID, "%s",
		               kind == CHANGE_TAGS_ADD ? MSG_TAGS_NONE : MSG_TAG_KEYS_NONE);
	return tags_read(r, list, &change->tags, &change->tag_count);
}

enum err_code request_tag(struct arena *a, const struct json *body, struct dynamo_request *out,
                          struct err *err)
{
	struct request_reader r = {.arena = a, .err = err};
	struct table_alter   *alter = &out->alter.alter;
	enum err_code         rc;

	*out = (struct dynamo_request){0};
	rc = resource_read(&r, body, &tag_resource_shape, &alter->table);
	return rc != ERR_NONE ? rc : tags_change(&r, CHANGE_TAGS_ADD, r.slots[RESOURCE_TAGS], alter);
}

enum err_code request_untag(struct arena *a, const struct json *body, struct dynamo_request *out,
                            struct err *err)
{
	struct request_reader r = {.arena = a, .err = err};
	struct table_alter   *alter = &out->alter.alter;
	enum err_code         rc;

	*out = (struct dynamo_request){0};
	rc = resource_read(&r, body, &untag_resource_shape, &alter->table);
	return rc != ERR_NONE ? rc : tags_change(&r, CHANGE_TAGS_REMOVE, r.slots[RESOURCE_KEYS], alter);
}

enum err_code request_list_tags(struct arena *a, const struct json *body, struct dynamo_request *out,
                                struct err *err)
{
	struct request_reader r = {.arena = a, .err = err};

	*out = (struct dynamo_request){0};
	return resource_read(&r, body, &list_tags_shape, &out->table);
}
