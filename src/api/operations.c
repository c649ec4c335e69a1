/* Operations: the table, and between decoding and encoding the one step each takes on a struct table. Most
 * are a single call of the backend. */
#include "api/operations.h"

#include "item/messages.h"

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

static enum err_code run_transact_get(struct table *t, struct arena *a, const struct dynamo_request *q,
                                      struct dynamo_result *r, struct err *err)
{
	return t->backend->transact_get(t, a, &q->transact_get, &r->gets, err);
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
};

enum { OPERATION_COUNT = sizeof(operations) / sizeof(operations[0]) };

const struct operation *operation_at(unsigned index)
{
	return index < OPERATION_COUNT ? &operations[index] : NULL;
}

const struct operation *operation_named(struct bytes name)
{
	for (unsigned i = 0; i < OPERATION_COUNT; i++)
		if (bytes_equal(operations[i].name, name))
			return &operations[i];
	return NULL;
}
