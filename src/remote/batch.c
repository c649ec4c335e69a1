/* Batches. What the endpoint leaves unprocessed of a read is the caller's to ask for again; of a write it is sent again here. */
#include "remote/items.h"

enum { RESENDS_MAX = 8, RESEND_FIRST_US = 25 * 1000, RESEND_MOST_US = 1000 * 1000 };

/* ---- reading ---- */

/* Most batches have one table, or two. */
enum err_code items_schemas(struct remote_session *s, struct arena *a, const struct table_batch_get *q,
                            struct table_schema *out, struct err *err)
{
	for (uint32_t i = 0; i < q->count; i++) {
		if (i > 0 && bytes_equal(q->gets[i].table, q->gets[i - 1].table))
			out[i] = out[i - 1];
		else if (schemas_get(s, a, q->gets[i].table, &out[i], err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

static enum err_code gets_send(struct remote_session *s, struct arena *a, const struct table_batch_get *q,
                               struct table_batch_get_result *r, struct err *err)
{
	struct table_get  *gets = arena_array(a, q->count + 1, sizeof(*gets));
	const struct json *answer;
	struct ask         ask;

	for (uint32_t i = 0; i < q->count; i++)
		gets[i] = (struct table_get){.table = remote_name(s, a, q->gets[i].table),
		                             .key = q->gets[i].key,
		                             .consistent = true};
	client_batch_get(ask_init(&ask, "BatchGetItem", a, true), &(struct table_batch_get){gets, q->count});
	if (ask_send(s, &ask, &answer, err) != ERR_NONE) {
		for (uint32_t i = 0; i < q->count; i++)
			items_failed(s, q->gets[i].table, err->code);
		return err->code;
	}
	return ask_judge(s, ask.operation,
	                 client_read_batch_get(a, answer, &(struct table_batch_get){gets, q->count}, r, err),
	                 err);
}

/* If the endpoint processed nothing it is busy: whoever asks again at once would do so for ever. */
enum err_code items_batch_get(struct table *t, struct arena *a, const struct table_batch_get *q,
                              struct table_batch_get_result *r, struct err *err)
{
	struct remote_session *s = session_of(t);
	struct table_schema   *schemas = arena_array(a, q->count + 1, sizeof(*schemas));
	uint32_t               skipped = 0;

	*r = (struct table_batch_get_result){0};
	if (items_schemas(s, a, q, schemas, err) != ERR_NONE || gets_send(s, a, q, r, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < q->count; i++) {
		skipped += r->skipped[i];
		items_settle(s, a, &schemas[i], &q->gets[i], &r->results[i]);
	}
	return skipped == q->count && q->count > 0
	               ? err_set(err, ERR_THROTTLED, "the DynamoDB endpoint processed none of the batch")
	               : ERR_NONE;
}

/* ---- writing ---- */

/* One request; what is left of the list is moved to its front. Repeatable: puts and deletes without conditions are. */
static enum err_code writes_send(struct remote_session *s, struct arena *a, struct table_write *list,
                                 uint32_t *count, struct err *err)
{
	struct table_batch_write q = {list, *count};
	bool                    *left = arena_zalloc(a, *count + 1);
	const struct json       *answer;
	struct ask               ask;

	client_batch_write(ask_init(&ask, "BatchWriteItem", a, true), &q);
	if (ask_send(s, &ask, &answer, err) != ERR_NONE ||
	    ask_judge(s, ask.operation, client_read_batch_write(a, answer, &q, left, err), err) != ERR_NONE)
		return err->code;
	*count = 0;
	for (uint32_t i = 0; i < q.count; i++)
		if (left[i])
			list[(*count)++] = list[i];
	return ERR_NONE;
}

/* "All are done, or the call fails": if some were done, nobody can say which of them last. */
static enum err_code writes_all(struct remote_session *s, struct arena *a, struct table_write *list,
                                uint32_t count, struct err *err)
{
	uint32_t      left = count;
	int64_t       pause = RESEND_FIRST_US;
	enum err_code rc;

	for (int i = 0; i < RESENDS_MAX; i++) {
		rc = writes_send(s, a, list, &left, err);
		if (rc != ERR_NONE)
			return i == 0 ? rc : err_set(err, ERR_STORAGE, "a part of the batch was written");
		if (left == 0)
			return ERR_NONE;
		remote_sleep(pause);
		pause = pause * 2 < RESEND_MOST_US ? pause * 2 : RESEND_MOST_US;
	}
	return left == count
	               ? err_set(err, ERR_THROTTLED, "the DynamoDB endpoint processed none of the batch")
	               : err_set(err, ERR_STORAGE, "a part of the batch was written");
}

enum err_code items_batch_write(struct table *t, struct arena *a, const struct table_batch_write *q,
                                struct table_batch_write_result *r, struct err *err)
{
	struct remote_session *s = session_of(t);
	struct table_write    *list = arena_array(a, q->count + 1, sizeof(*list));
	enum err_code          rc;

	*r = (struct table_batch_write_result){0};
	for (uint32_t i = 0; i < q->count; i++) {
		list[i] = q->writes[i];
		list[i].table = remote_name(s, a, q->writes[i].table);
	}
	rc = writes_all(s, a, list, q->count, err);
	if (rc != ERR_NONE) {
		for (uint32_t i = 0; i < q->count; i++)
			items_failed(s, q->writes[i].table, rc);
		return rc;
	}
	r->results = arena_zalloc(a, (q->count + 1) * sizeof(*r->results));
	for (uint32_t i = 0; i < q->count; i++)
		r->results[i].capacity.table = q->writes[i].table;
	return ERR_NONE;
}
