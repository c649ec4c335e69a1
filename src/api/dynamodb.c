/* DynamoDB: what each operation does on a struct table (mostly a single call of the backend), the table of operations, and
 * what the dispatcher asks of the protocol. */
#include "api/dynamodb.h"

#include <inttypes.h>
#include <stdio.h>

#include "api/authorise.h"
#include "api/meter.h"
#include "base/audit.h"
#include "base/crc32.h"
#include "dynamo/errors.h"
#include "item/messages.h"

#define CONTENT_TYPE "application/x-amz-json-1.0"

/* ---- items ---- */

static enum err_code run_get(struct table *t, struct arena *a, const struct dynamo_request *q,
                             struct dynamo_result *r, struct err *err)
{
	return t->backend->get(t, a, &q->get, &r->get, err);
}

static enum err_code run_write(struct table *t, struct arena *a, const struct dynamo_request *q,
                               struct dynamo_result *r, struct err *err)
{
	return t->backend->write(t, a, &q->write, &r->write, err);
}

static enum err_code run_query(struct table *t, struct arena *a, const struct dynamo_request *q,
                               struct dynamo_result *r, struct err *err)
{
	return t->backend->query(t, a, &q->query, &r->query, err);
}

static enum err_code run_batch_get(struct table *t, struct arena *a, const struct dynamo_request *q,
                                   struct dynamo_result *r, struct err *err)
{
	struct table_batch_get batch = {q->batch.gets, q->batch.count};

	return t->backend->batch_get(t, a, &batch, &r->gets, err);
}

static enum err_code run_batch_write(struct table *t, struct arena *a, const struct dynamo_request *q,
                                     struct dynamo_result *r, struct err *err)
{
	struct table_batch_write batch = {q->batch.writes, q->batch.count};

	return t->backend->batch_write(t, a, &batch, &r->batch_write, err);
}

/* One that is cancelled has its reasons in the answer. */
static enum err_code run_transact_get(struct table *t, struct arena *a, const struct dynamo_request *q,
                                      struct dynamo_result *r, struct err *err)
{
	enum err_code rc = t->backend->transact_get(t, a, &q->transact_get, &r->gets, err);

	return rc == ERR_INVALID && r->gets.reasons != NULL ? ERR_NONE : rc;
}

static enum err_code run_transact_write(struct table *t, struct arena *a, const struct dynamo_request *q,
                                        struct dynamo_result *r, struct err *err)
{
	return t->backend->transact_write(t, a, &q->transact_write, &r->transact, err);
}

/* ---- tables ---- */

static enum err_code run_create(struct table *t, struct arena *a, const struct dynamo_request *q,
                                struct dynamo_result *r, struct err *err)
{
	return t->backend->create(t, a, &q->create, &r->table, err);
}

static enum err_code run_describe(struct table *t, struct arena *a, const struct dynamo_request *q,
                                  struct dynamo_result *r, struct err *err)
{
	return t->backend->describe(t, a, q->table, &r->table, err);
}

static enum err_code run_delete(struct table *t, struct arena *a, const struct dynamo_request *q,
                                struct dynamo_result *r, struct err *err)
{
	return t->backend->remove(t, a, q->table, &r->table, err);
}

static enum err_code run_list(struct table *t, struct arena *a, const struct dynamo_request *q,
                              struct dynamo_result *r, struct err *err)
{
	return t->backend->list(t, a, &q->list, &r->list, err);
}

static enum err_code run_alter(struct table *t, struct arena *a, const struct dynamo_request *q,
                               struct dynamo_result *r, struct err *err)
{
	const struct table_alter *alter = &q->alter.alter;

	if (q->alter.provisioned_only) {
		enum err_code rc = t->backend->describe(t, a, alter->table, &r->table, err);

		if (rc != ERR_NONE)
			return rc;
		if (r->table.schema.on_demand)
			return err_set(err, ERR_INVALID, MSG_UNITS_SUPERFLUOUS);
	}
	return t->backend->alter(t, a, alter, &r->table, err);
}

/* DynamoDB refuses a change that changes nothing. The turn makes looking and changing one step. */
static enum err_code ttl_check(const struct request_ttl *wanted, struct bytes now, struct err *err)
{
	if (wanted->enabled && bytes_equal(now, wanted->attribute))
		return err_set(err, ERR_INVALID, MSG_TTL_ENABLED);
	if (!wanted->enabled && now.len == 0)
		return err_set(err, ERR_INVALID, MSG_TTL_DISABLED);
	if (now.len > 0 && !bytes_equal(now, wanted->attribute))
		return err_set(err, ERR_INVALID, MSG_TTL_OTHER, BYTES_ARG(now));
	return ERR_NONE;
}

static enum err_code run_ttl(struct table *t, struct arena *a, const struct dynamo_request *q,
                             struct dynamo_result *r, struct err *err)
{
	struct table_change change = {.kind = CHANGE_TTL};
	struct table_alter  alter = {q->ttl.table, &change, 1};
	enum err_code       rc = t->backend->describe(t, a, q->ttl.table, &r->table, err);

	if (rc == ERR_NONE)
		rc = ttl_check(&q->ttl, r->table.schema.ttl_attribute, err);
	if (rc != ERR_NONE)
		return rc;
	if (q->ttl.enabled)
		change.ttl_attribute = q->ttl.attribute;
	return t->backend->alter(t, a, &alter, &r->table, err);
}

static enum err_code run_nothing(struct table *t, struct arena *a, const struct dynamo_request *q,
                                 struct dynamo_result *r, struct err *err)
{
	(void)t;
	(void)a;
	(void)q;
	(void)r;
	(void)err;
	return ERR_NONE;
}

/* ---- the table ---- */

/* Sorted by how often they are asked for, roughly: looking one up is a walk. */
static const struct operation operations[] = {
        {BYTES_INIT("UpdateItem"), WRITE, FORM_WRITE, request_update, run_write, result_write},
        {BYTES_INIT("GetItem"), READ, FORM_GET, request_get, run_get, result_get},
        {BYTES_INIT("PutItem"), WRITE, FORM_WRITE, request_put, run_write, result_write},
        {BYTES_INIT("Query"), READ, FORM_QUERY, request_query, run_query, result_query},
        {BYTES_INIT("DeleteItem"), WRITE, FORM_WRITE, request_delete, run_write, result_write},
        {BYTES_INIT("TransactWriteItems"), WRITE, FORM_TRANSACT_WRITE, request_transact_write,
         run_transact_write, result_transact_write},
        {BYTES_INIT("TransactGetItems"), READ, FORM_TRANSACT_GET, request_transact_get, run_transact_get,
         result_transact_get},
        {BYTES_INIT("BatchGetItem"), READ, FORM_BATCH, request_batch_get, run_batch_get, result_batch_get},
        {BYTES_INIT("BatchWriteItem"), WRITE, FORM_BATCH, request_batch_write, run_batch_write,
         result_batch_write},
        {BYTES_INIT("Scan"), READ, FORM_QUERY, request_scan, run_query, result_query},
        {BYTES_INIT("DescribeTable"), READ, FORM_TABLE, request_table_name, run_describe,
         result_described_table},
        {BYTES_INIT("ListTables"), READ, FORM_NONE, request_list_tables, run_list, result_list_tables},
        {BYTES_INIT("CreateTable"), WRITE, FORM_CREATE, request_create_table, run_create, result_table},
        {BYTES_INIT("UpdateTable"), WRITE, FORM_ALTER, request_update_table, run_alter, result_table},
        {BYTES_INIT("DeleteTable"), WRITE, FORM_TABLE, request_table_name, run_delete, result_deleted_table},
        {BYTES_INIT("UpdateTimeToLive"), WRITE, FORM_TTL, request_update_ttl, run_ttl, result_ttl_updated},
        {BYTES_INIT("DescribeTimeToLive"), READ, FORM_TABLE, request_table_name, run_describe, result_ttl},
        {BYTES_INIT("TagResource"), WRITE, FORM_ALTER, request_tag, run_alter, result_nothing},
        {BYTES_INIT("UntagResource"), WRITE, FORM_ALTER, request_untag, run_alter, result_nothing},
        {BYTES_INIT("ListTagsOfResource"), READ, FORM_TABLE, request_list_tags, run_describe, result_tags},
        {BYTES_INIT("DescribeLimits"), READ, FORM_NONE, request_nothing, run_nothing, result_limits},
        {BYTES_INIT("DescribeEndpoints"), READ, FORM_NONE, request_nothing, run_nothing, result_endpoints},
        {BYTES_INIT("DescribeContinuousBackups"), READ, FORM_TABLE, request_table_name, run_describe,
         result_backups},
        {BYTES_INIT("DescribeContributorInsights"), READ, FORM_TABLE, request_table_name, run_describe,
         result_insights},
        {BYTES_INIT("DescribeKinesisStreamingDestination"), READ, FORM_TABLE, request_table_name,
         run_describe, result_destinations},
        {BYTES_INIT("DescribeTableReplicaAutoScaling"), READ, FORM_TABLE, request_table_name, run_describe,
         result_scaling},
        {BYTES_INIT("GetResourcePolicy"), READ, FORM_TABLE, request_list_tags, run_describe,
         result_no_policy},
        {BYTES_INIT("DescribeGlobalTable"), READ, FORM_NONE, request_nothing, run_nothing,
         result_no_global_table},
        {BYTES_INIT("DescribeGlobalTableSettings"), READ, FORM_NONE, request_nothing, run_nothing,
         result_no_global_table},
        {BYTES_INIT("DescribeImport"), READ, FORM_NONE, request_nothing, run_nothing, result_no_import},
        {BYTES_INIT("DescribeExport"), READ, FORM_NONE, request_nothing, run_nothing, result_no_export},
        {BYTES_INIT("DescribeBackup"), READ, FORM_NONE, request_nothing, run_nothing, result_no_backup},
        {BYTES_INIT("ListContributorInsights"), READ, FORM_NONE, request_nothing, run_nothing,
         result_empty_insights},
        {BYTES_INIT("ListGlobalTables"), READ, FORM_NONE, request_nothing, run_nothing,
         result_empty_global_tables},
        {BYTES_INIT("ListImports"), READ, FORM_NONE, request_nothing, run_nothing, result_empty_imports},
        {BYTES_INIT("ListExports"), READ, FORM_NONE, request_nothing, run_nothing, result_empty_exports},
        {BYTES_INIT("ListBackups"), READ, FORM_NONE, request_nothing, run_nothing, result_empty_backups},
};

enum { OPERATION_COUNT = sizeof(operations) / sizeof(operations[0]) };

const struct operation *operation_at(unsigned index)
{
	return index < OPERATION_COUNT ? &operations[index] : NULL;
}

const struct operation *operation_named(struct bytes target)
{
	struct bytes prefix = BYTES(DYNAMODB_TARGET_PREFIX), name;

	if (!bytes_starts_with(target, prefix))
		return NULL;
	name = (struct bytes){target.data + prefix.len, target.len - prefix.len};
	for (unsigned i = 0; i < OPERATION_COUNT; i++)
		if (bytes_equal(operations[i].name, name))
			return &operations[i];
	return NULL;
}

struct bytes operation_label(const struct operation *operation)
{
	return operation == NULL ? BYTES("unknown") : operation->name;
}

/* ---- the steps ---- */

enum err_code dynamodb_read(struct dynamodb_call *c, struct json_reader *json, struct bytes target,
                            struct bytes body, struct err *err)
{
	struct json *tree;

	c->operation = operation_named(target);
	if (c->operation == NULL)
		return err_set(err, ERR_UNKNOWN_OPERATION, "%s", "");
	if (json_read(json, c->arena, body, &tree, err) != ERR_NONE)
		return err->code;
	c->body = tree;
	return ERR_NONE;
}

enum err_code dynamodb_decode(struct dynamodb_call *c, struct err *err)
{
	return c->operation->decode(c->arena, c->body, &c->request, err);
}

enum err_code dynamodb_run(struct dynamodb_call *c, struct table *t, struct err *err)
{
	return c->operation->run(t, c->arena, &c->request, &c->result, err);
}

enum err_code dynamodb_encode(struct dynamodb_call *c, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	return c->operation->encode(&w, c->arena, &c->request, &c->result);
}

int dynamodb_encode_error(struct arena *a, enum err_code code, const struct err *err, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	error_write(&w, a, code, bytes_of(err->text));
	return err_status(code);
}

/* ---- for the dispatcher ---- */

static struct bytes target_of(const struct call *c)
{
	return http_header_get(c->http, "x-amz-target");
}

/* Absent, or some JSON: SDKs send application/x-amz-json-1.0, people with curl what they like. */
static bool is_json(struct bytes content_type)
{
	return content_type.data == NULL ||
	       bytes_starts_with(content_type, BYTES("application/x-amz-json-1.")) ||
	       bytes_starts_with(content_type, BYTES("application/json"));
}

static enum err_code identify(struct call *c, struct err *err)
{
	if (!is_json(http_header_get(c->http, "content-type")))
		return err_set(err, ERR_UNKNOWN_OPERATION, "%s", "");
	return auth_identify(c->http, &c->who, err);
}

/* The memory that decoding a large body takes counts like the body's own: about as much as the tree of it. */
static enum err_code foresee(struct call *c, struct err *err)
{
	const struct operation *operation = operation_named(target_of(c));
	struct http_request    *r = c->http;

	if (operation == NULL)
		return ERR_NONE;
	if (authorise_foresee(&c->who, operation, &c->reach, err) != ERR_NONE)
		return err->code;
	if (r->body.len > HTTP_SMALL_BODY_BYTES &&
	    !http_charge(r, r->body.len + 2 * JSON_VALUE_BYTES * json_count(r->body)))
		return err_set(err, ERR_OVERLOADED, "too many large requests at once; try again shortly");
	return ERR_NONE;
}

static enum err_code name(struct call *c, struct json_reader *json, struct err *err)
{
	return dynamodb_read((struct dynamodb_call *)c, json, target_of(c), c->http->body, err);
}

static enum err_code authorise(struct call *c, struct err *err)
{
	return c->reach == REACH_ALL ? ERR_NONE : authorise_named(&c->who, (struct dynamodb_call *)c, err);
}

/* What conditions of a policy look at is known only now. */
static enum err_code decode(struct call *c, struct json_reader *json, struct err *err)
{
	struct dynamodb_call *d = (struct dynamodb_call *)c;
	struct bytes          host = http_header_get(c->http, "host");

	(void)json;
	if (dynamodb_decode(d, err) != ERR_NONE)
		return err->code;
	c->kind = d->operation->kind;
	c->conditional = d->operation->form == FORM_TRANSACT_WRITE ||
	                 (d->operation->form == FORM_WRITE && d->request.write.condition != NULL);
	d->request.host =
	        bytes_is_utf8(host) ? host : BYTES("localhost"); /* it may end up in a JSON answer */
	d->request.arn_home = bytes_of(c->loop->api->arn_home);
	return c->reach == REACH_ALL ? ERR_NONE : authorise_call(&c->who, call_reader(c), d, err);
}

static enum err_code run(struct call *c, struct table *t, struct err *err)
{
	struct dynamodb_call *d = (struct dynamodb_call *)c;

	if (c->kind == WRITE && authorise_puts(&c->who, t, d, err) != ERR_NONE)
		return err->code;
	return dynamodb_run(d, t, err);
}

/* Every answer carries the CRC-32 of its body. */
static enum err_code answer(struct call *c, enum err_code rc, struct err *err, struct http_response *out)
{
	struct dynamodb_call *d = (struct dynamodb_call *)c;
	struct buf           *text = api_loop_answer(c->loop);
	int                   len;

	if (rc == ERR_NONE)
		rc = dynamodb_encode(d, text);
	else
		dynamodb_encode_error(d->arena, rc, err, text);
	len = snprintf(d->crc, sizeof(d->crc), "%" PRIu32, crc32_of(buf_bytes(text)));
	d->headers[0] = (struct http_header){BYTES("x-amzn-RequestId"), c->request_id};
	d->headers[1] = (struct http_header){BYTES("x-amz-crc32"), {d->crc, (size_t)len}};
	d->headers[2] = (struct http_header){BYTES("Retry-After"), BYTES("1")};
	out->status = err_status(rc);
	out->content_type = CONTENT_TYPE;
	out->headers = d->headers;
	out->header_count = out->status == 503 ? 3 : 2;
	out->body = buf_bytes(text);
	return rc;
}

/* A request that was refused before it was decoded is counted with the operation it named. */
static struct call_label label(const struct call *c)
{
	const struct operation *operation = ((const struct dynamodb_call *)c)->operation;

	if (operation == NULL)
		operation = operation_named(target_of(c));
	return (struct call_label){meter_operation_row(operation), operation_label(operation)};
}

/* ---- the audit log: who made, changed or deleted a table ---- */

/* NULL: it does not administer. */
static const char *act_of(const struct operation *o)
{
	if (o == NULL || o->kind != WRITE)
		return NULL;
	switch (o->form) {
	case FORM_CREATE:
		return "table.create";
	case FORM_ALTER:
	case FORM_TTL:
		return "table.update";
	case FORM_TABLE:
		return "table.delete";
	default:
		return NULL;
	}
}

static struct bytes table_of(const struct dynamodb_call *c)
{
	switch (c->operation->form) {
	case FORM_CREATE:
		return c->request.create.name;
	case FORM_ALTER:
		return c->request.alter.alter.table;
	case FORM_TTL:
		return c->request.ttl.table;
	default:
		return c->request.table;
	}
}

/* A line if the call changed a table, or may have: an outcome of 5xx does not say. After the commit: it never waits. */
static void audit_call(const struct call *c, enum err_code outcome, struct audit *audit)
{
	const struct dynamodb_call *d = (const struct dynamodb_call *)c;
	const char                 *act = act_of(d->operation);
	struct log_field            fields[5];
	unsigned                    count = 0;

	if (act == NULL || (outcome != ERR_NONE && outcome != ERR_STORAGE))
		return;
	fields[count++] = (struct log_field){.name = "operation", .text = d->operation->name};
	fields[count++] = (struct log_field){.name = "table", .text = table_of(d)};
	fields[count++] =
	        (struct log_field){.name = "outcome", .text = meter_outcome_name(label(c).row, outcome)};
	fields[count++] = (struct log_field){.name = "request_id", .text = c->request_id};
	if (c->key_id.len > 0)
		fields[count++] = (struct log_field){.name = "key_id", .text = c->key_id};
	audit_write(audit, act, fields, count);
}

/* ---- the protocol ---- */

static const struct protocol protocol = {
        .identify = identify,
        .foresee = foresee,
        .name = name,
        .authorise = authorise,
        .decode = decode,
        .run = run,
        .answer = answer,
        .label = label,
        .audit = audit_call,
};

/* The request and the result are large, and need not be zeroed. */
static struct call *call_begin(struct http_request *r)
{
	struct dynamodb_call *c = arena_alloc(&r->arena, sizeof(*c));

	call_init(&c->call, &protocol, r);
	c->arena = &r->arena;
	c->operation = NULL;
	return &c->call;
}

void dynamodb_handle(struct api_loop *l, struct http_request *r)
{
	struct err err;

	if (l->api->parts.tables_elsewhere) {
		err_set(&err, ERR_UNKNOWN_OPERATION,
		        "this server keeps its tables at a DynamoDB endpoint; send requests for tables "
		        "there (the server's log names it when it starts)");
		dynamodb_refuse(r, &err);
		return;
	}
	dispatch(call_begin(r));
}

void dynamodb_refuse(struct http_request *r, const struct err *err)
{
	dispatch_refuse(call_begin(r), err);
}
