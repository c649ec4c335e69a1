/* Client answers about items, and errors. See client.h. */
#include "dynamo/client.h"

#include "dynamo/wire.h"

/* ---- what an answer must be ---- */

static enum err_code wrong(struct err *err, const char *what)
{
	return err_set(err, ERR_STORAGE, "the endpoint's answer is not one of DynamoDB's: %s", what);
}

static enum err_code item_take(struct arena *a, const struct json *json, struct item *out, struct err *err)
{
	if (wire_item_check(json, err) != ERR_NONE || wire_stored_read(a, json, out, err) != ERR_NONE)
		return wrong(err, "an item is none");
	return ERR_NONE;
}

static bool is_object(const struct json *json)
{
	return json != NULL && json->type == JSON_OBJECT;
}

static bool is_array(const struct json *json)
{
	return json != NULL && json->type == JSON_ARRAY;
}

/* A count of items; false if it is there and is none. */
static bool count_take(const struct json *body, struct bytes name, uint32_t otherwise, uint32_t *out)
{
	const struct json *json = json_get(body, name);

	*out = otherwise;
	if (json == NULL)
		return true;
	if (json->type != JSON_INT || json_integer(json) < 0 || json_integer(json) > UINT32_MAX)
		return false;
	*out = (uint32_t)json_integer(json);
	return true;
}

/* ---- one item ---- */

/* Of an answer with "Item" in it, or without. */
static enum err_code found_take(struct arena *a, const struct json *body, struct table_get_result *out,
                                struct err *err)
{
	const struct json *item = json_get(body, BYTES("Item"));

	*out = (struct table_get_result){.found = item != NULL && item->type != JSON_NULL};
	if (!is_object(body))
		return wrong(err, "it is no object");
	if (!out->found)
		return ERR_NONE;
	if (item_take(a, item, &out->item, err) != ERR_NONE)
		return err->code;
	out->size_bytes = item_size(&out->item);
	return ERR_NONE;
}

enum err_code client_read_get(struct arena *a, const struct json *body, struct table_get_result *out,
                              struct err *err)
{
	return found_take(a, body, out, err);
}

enum err_code client_read_write(struct arena *a, const struct json *body, struct table_write_result *out,
                                struct err *err)
{
	const struct json *item = json_get(body, BYTES("Attributes"));

	*out = (struct table_write_result){.has_item = item != NULL && item->type != JSON_NULL};
	if (!is_object(body))
		return wrong(err, "it is no object");
	if (!out->has_item)
		return ERR_NONE;
	if (item_take(a, item, &out->item, err) != ERR_NONE)
		return err->code;
	out->size_bytes = item_size(&out->item);
	return ERR_NONE;
}

/* ---- pages ---- */

static enum err_code items_take(struct arena *a, const struct json *list, struct table_query_result *out,
                                struct err *err)
{
	uint32_t count = 0;

	out->items = arena_array(a, list->count + 1, sizeof(*out->items));
	for (const struct json *item = json_children(list); item != NULL; item = item->next)
		if (item_take(a, item, &out->items[count++], err) != ERR_NONE)
			return err->code;
	out->count = count;
	return ERR_NONE;
}

enum err_code client_read_query(struct arena *a, const struct json *body, struct table_query_result *out,
                                struct err *err)
{
	const struct json *items = json_get(body, BYTES("Items")),
	                  *last = json_get(body, BYTES("LastEvaluatedKey"));
	uint32_t count;

	*out = (struct table_query_result){0};
	if (!is_object(body))
		return wrong(err, "it is no object");
	if (items != NULL && !is_array(items))
		return wrong(err, "Items is no list");
	if (items != NULL && items_take(a, items, out, err) != ERR_NONE)
		return err->code;
	if (!count_take(body, BYTES("Count"), out->count, &count) ||
	    !count_take(body, BYTES("ScannedCount"), count, &out->scanned) ||
	    (items != NULL && count != out->count))
		return wrong(err, "Count or ScannedCount is wrong");
	out->count = count;
	out->more = last != NULL && last->type != JSON_NULL;
	return out->more ? item_take(a, last, &out->last_key, err) : ERR_NONE;
}

/* ---- batches ---- */

/* Does the item have that key? */
static bool has_key(const struct item *item, const struct item *key)
{
	for (uint32_t i = 0; i < key->count; i++) {
		const struct value *v = item_get(item, key->members[i].name);

		if (v == NULL || !value_equal(v, &key->members[i].value))
			return false;
	}
	return true;
}

/* The get of that table with that key which nobody answered yet; count if there is none. */
static uint32_t get_of(const struct table_batch_get *q, const bool *answered, struct bytes table,
                       const struct item *item)
{
	uint32_t i = 0;

	while (i < q->count &&
	       (answered[i] || !bytes_equal(q->gets[i].table, table) || !has_key(item, &q->gets[i].key)))
		i++;
	return i;
}

/* What a batch has answered so far. */
struct gathering {
	struct arena                  *arena;
	const struct table_batch_get  *q;
	struct table_batch_get_result *out;
	bool                          *answered;
};

static enum err_code responses_take(struct gathering *g, const struct json *table, struct err *err)
{
	for (const struct json *json = json_children(table); json != NULL; json = json->next) {
		struct item item;
		uint32_t    i;

		if (item_take(g->arena, json, &item, err) != ERR_NONE)
			return err->code;
		i = get_of(g->q, g->answered, table->name, &item);
		if (i == g->q->count)
			return wrong(err, "Responses has an item that nobody asked for");
		g->answered[i] = true;
		g->out->results[i] = (struct table_get_result){
		        .found = true, .item = item, .size_bytes = item_size(&item)};
	}
	return ERR_NONE;
}

static enum err_code unprocessed_take(struct gathering *g, const struct json *table, struct err *err)
{
	const struct json *keys = json_get(table, BYTES("Keys"));

	if (!is_array(keys))
		return wrong(err, "UnprocessedKeys has no Keys");
	for (const struct json *json = json_children(keys); json != NULL; json = json->next) {
		struct item key;
		uint32_t    i;

		if (item_take(g->arena, json, &key, err) != ERR_NONE)
			return err->code;
		i = get_of(g->q, g->answered, table->name, &key);
		if (i == g->q->count)
			return wrong(err, "UnprocessedKeys has a key that nobody asked for");
		g->answered[i] = g->out->skipped[i] = true;
	}
	return ERR_NONE;
}

enum err_code client_read_batch_get(struct arena *a, const struct json *body, const struct table_batch_get *q,
                                    struct table_batch_get_result *out, struct err *err)
{
	const struct json *responses = json_get(body, BYTES("Responses")),
	                  *left = json_get(body, BYTES("UnprocessedKeys"));
	struct gathering g = {a, q, out, arena_zalloc(a, q->count + 1)};

	out->results = arena_zalloc(a, (q->count + 1) * sizeof(*out->results));
	out->skipped = arena_zalloc(a, q->count + 1);
	if (!is_object(responses))
		return wrong(err, "Responses is no object");
	for (const struct json *table = json_children(responses); table != NULL; table = table->next)
		if (!is_array(table))
			return wrong(err, "Responses has no list for a table");
		else if (responses_take(&g, table, err) != ERR_NONE)
			return err->code;
	for (const struct json *table = is_object(left) ? json_children(left) : NULL; table != NULL;
	     table = table->next)
		if (unprocessed_take(&g, table, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

static enum err_code left_take(struct arena *a, const struct json *table, const struct table_batch_write *q,
                               bool *left, struct err *err)
{
	for (const struct json *one = json_children(table); one != NULL; one = one->next) {
		const struct json     *put = json_get(json_get(one, BYTES("PutRequest")), BYTES("Item"));
		const struct json     *drop = json_get(json_get(one, BYTES("DeleteRequest")), BYTES("Key"));
		enum table_action_kind kind = put != NULL ? TABLE_PUT : TABLE_DELETE;
		struct item            item;
		uint32_t               i = 0;

		if ((put == NULL) == (drop == NULL))
			return wrong(err, "UnprocessedItems has something that is no write");
		if (item_take(a, put != NULL ? put : drop, &item, err) != ERR_NONE)
			return err->code;
		for (; i < q->count; i++) {
			const struct table_write *w = &q->writes[i];

			if (!left[i] && w->kind == kind && bytes_equal(w->table, table->name) &&
			    item_equal(&item, kind == TABLE_PUT ? &w->item : &w->key))
				break;
		}
		if (i == q->count)
			return wrong(err, "UnprocessedItems has a write that nobody asked for");
		left[i] = true;
	}
	return ERR_NONE;
}

enum err_code client_read_batch_write(struct arena *a, const struct json *body,
                                      const struct table_batch_write *q, bool *left, struct err *err)
{
	const struct json *unprocessed = json_get(body, BYTES("UnprocessedItems"));

	memset(left, 0, q->count);
	if (!is_object(body))
		return wrong(err, "it is no object");
	for (const struct json *table = is_object(unprocessed) ? json_children(unprocessed) : NULL;
	     table != NULL; table = table->next)
		if (!is_array(table))
			return wrong(err, "UnprocessedItems has no list for a table");
		else if (left_take(a, table, q, left, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

enum err_code client_read_transact_get(struct arena *a, const struct json *body,
                                       const struct table_batch_get *q, struct table_batch_get_result *out,
                                       struct err *err)
{
	const struct json *responses = json_get(body, BYTES("Responses"));
	uint32_t           i = 0;

	out->results = arena_zalloc(a, (q->count + 1) * sizeof(*out->results));
	out->skipped = arena_zalloc(a, q->count + 1);
	if (!is_array(responses) || responses->count != q->count)
		return wrong(err, "Responses has not one element for each item");
	for (const struct json *one = json_children(responses); one != NULL; one = one->next)
		if (found_take(a, one, &out->results[i++], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

/* ---- errors ---- */

enum err_code client_error_code(struct bytes type)
{
	static const struct {
		const char   *name;
		enum err_code code;
	} codes[] = {
	        {"ValidationException", ERR_INVALID},
	        {"SerializationException", ERR_SERIALIZATION},
	        {"UnknownOperationException", ERR_UNKNOWN_OPERATION},
	        {"ConditionalCheckFailedException", ERR_CONDITION},
	        {"TransactionCanceledException", ERR_CANCELLED},
	        {"IdempotentParameterMismatchException", ERR_TOKEN_MISMATCH},
	        {"ResourceNotFoundException", ERR_NO_RESOURCE},
	        {"TableNotFoundException", ERR_NO_RESOURCE},
	        {"ResourceInUseException", ERR_RESOURCE_IN_USE},
	        {"TableInUseException", ERR_RESOURCE_IN_USE},
	        {"LimitExceededException", ERR_LIMIT},
	        {"ItemCollectionSizeLimitExceededException", ERR_COLLECTION_SIZE},
	        {"AccessDeniedException", ERR_ACCESS},
	        {"UnrecognizedClientException", ERR_UNKNOWN_KEY},
	        {"MissingAuthenticationTokenException", ERR_NO_CREDENTIAL},
	        {"IncompleteSignatureException", ERR_SIGNATURE_INCOMPLETE},
	        {"InvalidSignatureException", ERR_SIGNATURE},
	        {"ExpiredTokenException", ERR_SIGNATURE},
	        {"ThrottlingException", ERR_THROTTLED},
	        {"ProvisionedThroughputExceededException", ERR_THROTTLED},
	        {"RequestLimitExceeded", ERR_THROTTLED},
	        {"TransactionConflictException", ERR_THROTTLED},
	        {"ReplicatedWriteConflictException", ERR_THROTTLED},
	        {"TransactionInProgressException", ERR_STORAGE}, /* it may be done any moment */
	};

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (bytes_is(type, codes[i].name))
			return codes[i].code;
	return ERR_NONE;
}

struct bytes client_error_text(const struct json *body)
{
	const struct json *text = json_get(body, BYTES("message"));

	if (text == NULL)
		text = json_get(body, BYTES("Message"));
	return text != NULL && text->type == JSON_STRING ? json_text(text) : (struct bytes){"", 0};
}

bool client_error_item(struct arena *a, const struct json *body, struct item *out)
{
	const struct json *item = json_get(body, BYTES("Item"));
	struct err         ignored;

	return item != NULL && item->type != JSON_NULL && item_take(a, item, out, &ignored) == ERR_NONE;
}

/* ---- why a transaction was cancelled ---- */

static bool reason_code(struct bytes name, enum err_code *out)
{
	static const struct {
		const char   *name;
		enum err_code code;
	} codes[] = {
	        {"None", ERR_NONE},
	        {"ConditionalCheckFailed", ERR_CONDITION},
	        {"TransactionConflict", ERR_CONDITION},
	        {"ValidationError", ERR_INVALID},
	        {"ItemCollectionSizeLimitExceeded", ERR_COLLECTION_SIZE},
	        {"ThrottlingError", ERR_THROTTLED},
	        {"ProvisionedThroughputExceeded", ERR_THROTTLED},
	};

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (bytes_is(name, codes[i].name)) {
			*out = codes[i].code;
			return true;
		}
	return false;
}

static enum err_code reason_take(struct arena *a, const struct json *json, struct table_reason *out,
                                 struct err *err)
{
	const struct json *code = json_get(json, BYTES("Code"));

	*out = (struct table_reason){0};
	if (code != NULL && code->type == JSON_STRING && !reason_code(json_text(code), &out->code))
		return wrong(err, "CancellationReasons has an unknown Code");
	out->has_item = client_error_item(a, json, &out->item);
	if (out->code != ERR_NONE)
		out->text = arena_printf(a, "%.*s", BYTES_ARG(client_error_text(json))).data;
	return ERR_NONE;
}

enum err_code client_read_reasons(struct arena *a, const struct json *body, uint32_t count,
                                  struct table_reason *out, bool *busy, struct err *err)
{
	const struct json *reasons = json_get(body, BYTES("CancellationReasons"));
	uint32_t           i = 0;

	*busy = false;
	if (!is_array(reasons) || reasons->count != count)
		return wrong(err, "CancellationReasons has not one element for each action");
	for (const struct json *one = json_children(reasons); one != NULL; one = one->next) {
		if (reason_take(a, one, &out[i], err) != ERR_NONE)
			return err->code;
		*busy = *busy || out[i++].code == ERR_THROTTLED;
	}
	return ERR_NONE;
}
