/* Client answers about items, and errors. See client.h. */
#include "dynamo/client_parts.h"
#include "dynamo/wire.h"

/* ---- what an answer must be ---- */

enum err_code client_wrong(struct err *err, const char *what)
{
	return err_set(err, ERR_STORAGE, "the endpoint's answer is not one of DynamoDB's: %s", what);
}

enum err_code client_item_take(struct arena *a, const struct json *json, struct item *out, struct err *err)
{
	if (wire_item_check(json, err) != ERR_NONE || wire_stored_read(a, json, out, err) != ERR_NONE)
		return client_wrong(err, "an item is none");
	return ERR_NONE;
}

/* ---- one item ---- */

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

/* Of an answer with "Item" in it, or without: the one with that key. */
static enum err_code found_take(struct arena *a, const struct json *body, const struct item *key,
                                struct table_get_result *out, struct err *err)
{
	const struct json *item = json_get(body, BYTES("Item"));

	*out = (struct table_get_result){.found = client_has(item)};
	if (!json_is(body, JSON_OBJECT))
		return client_wrong(err, "it is no object");
	if (!out->found)
		return ERR_NONE;
	if (client_item_take(a, item, &out->item, err) != ERR_NONE)
		return err->code;
	if (!has_key(&out->item, key))
		return client_wrong(err, "Item has another key");
	out->size_bytes = item_size(&out->item);
	return ERR_NONE;
}

enum err_code client_read_get(struct arena *a, const struct json *body, const struct item *key,
                              struct table_get_result *out, struct err *err)
{
	return found_take(a, body, key, out, err);
}

enum err_code client_read_write(struct arena *a, const struct json *body, const struct client_action *q,
                                struct table_write_result *out, struct err *err)
{
	const struct json *item = json_get(body, BYTES("Attributes"));
	bool               whole = q->returns == RETURN_ALL_OLD || q->returns == RETURN_ALL_NEW;

	*out = (struct table_write_result){.has_item = client_has(item) && q->returns != RETURN_NONE};
	if (!json_is(body, JSON_OBJECT))
		return client_wrong(err, "it is no object");
	if (!out->has_item)
		return ERR_NONE;
	if (client_item_take(a, item, &out->item, err) != ERR_NONE)
		return err->code;
	if (whole && !has_key(&out->item, &q->key))
		return client_wrong(err, "Attributes has another key");
	out->size_bytes = item_size(&out->item);
	return ERR_NONE;
}

enum err_code client_read_done(const struct json *body, struct err *err)
{
	return json_is(body, JSON_OBJECT) ? ERR_NONE : client_wrong(err, "it is no object");
}

enum err_code client_read_refusal(struct arena *a, const struct json *body, const struct client_action *q,
                                  struct table_write_result *out, struct err *err)
{
	const struct json *item = json_get(body, BYTES("Item"));

	*out = (struct table_write_result){.condition_failed = true, .has_item = client_has(item)};
	if (!q->conditional)
		return client_wrong(err, "a condition is false that was not sent");
	if (!out->has_item)
		return ERR_NONE;
	if (client_item_take(a, item, &out->item, err) != ERR_NONE)
		return err->code;
	return has_key(&out->item, &q->key) ? ERR_NONE : client_wrong(err, "Item has another key");
}

/* ---- batches ---- */

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

		if (client_item_take(g->arena, json, &item, err) != ERR_NONE)
			return err->code;
		i = get_of(g->q, g->answered, table->name, &item);
		if (i == g->q->count)
			return client_wrong(err, "Responses has an item that nobody asked for");
		g->answered[i] = true;
		g->out->results[i] = (struct table_get_result){
		        .found = true, .item = item, .size_bytes = item_size(&item)};
	}
	return ERR_NONE;
}

static enum err_code unprocessed_take(struct gathering *g, const struct json *table, struct err *err)
{
	const struct json *keys = json_get(table, BYTES("Keys"));

	if (!json_is(keys, JSON_ARRAY))
		return client_wrong(err, "UnprocessedKeys has no Keys");
	for (const struct json *json = json_children(keys); json != NULL; json = json->next) {
		struct item key;
		uint32_t    i;

		if (client_item_take(g->arena, json, &key, err) != ERR_NONE)
			return err->code;
		i = get_of(g->q, g->answered, table->name, &key);
		if (i == g->q->count)
			return client_wrong(err, "UnprocessedKeys has a key that nobody asked for");
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
	if (!json_is(responses, JSON_OBJECT))
		return client_wrong(err, "Responses is no object");
	for (const struct json *table = json_children(responses); table != NULL; table = table->next)
		if (!json_is(table, JSON_ARRAY))
			return client_wrong(err, "Responses has no list for a table");
		else if (responses_take(&g, table, err) != ERR_NONE)
			return err->code;
	if (client_has(left) && left->type != JSON_OBJECT)
		return client_wrong(err, "UnprocessedKeys is no object");
	for (const struct json *table = json_children(left); table != NULL; table = table->next)
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
			return client_wrong(err, "UnprocessedItems has something that is no write");
		if (client_item_take(a, put != NULL ? put : drop, &item, err) != ERR_NONE)
			return err->code;
		for (; i < q->count; i++) {
			const struct table_write *w = &q->writes[i];

			if (!left[i] && w->kind == kind && bytes_equal(w->table, table->name) &&
			    item_equal(&item, kind == TABLE_PUT ? &w->item : &w->key))
				break;
		}
		if (i == q->count)
			return client_wrong(err, "UnprocessedItems has a write that nobody asked for");
		left[i] = true;
	}
	return ERR_NONE;
}

enum err_code client_read_batch_write(struct arena *a, const struct json *body,
                                      const struct table_batch_write *q, bool *left, struct err *err)
{
	const struct json *unprocessed = json_get(body, BYTES("UnprocessedItems"));

	memset(left, 0, q->count);
	if (!json_is(body, JSON_OBJECT))
		return client_wrong(err, "it is no object");
	if (client_has(unprocessed) && unprocessed->type != JSON_OBJECT)
		return client_wrong(err, "UnprocessedItems is no object");
	for (const struct json *table = json_children(unprocessed); table != NULL; table = table->next)
		if (!json_is(table, JSON_ARRAY))
			return client_wrong(err, "UnprocessedItems has no list for a table");
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
	if (!json_is(responses, JSON_ARRAY) || responses->count != q->count)
		return client_wrong(err, "Responses has not one element for each item");
	for (const struct json *one = json_children(responses); one != NULL; one = one->next)
		if (found_take(a, one, &q->gets[i].key, &out->results[i], err) != ERR_NONE)
			return err->code;
		else
			i++;
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
	        {"TransactionConflictException", ERR_CONTENDED},
	        {"ReplicatedWriteConflictException", ERR_THROTTLED},
	        {"TransactionInProgressException", ERR_STORAGE}, /* it may be done any moment */
	};

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (bytes_is(type, codes[i].name))
			return codes[i].code;
	return ERR_NONE;
}

bool client_error_fits(const char *operation, enum err_code code)
{
	bool writes_one = strcmp(operation, "PutItem") == 0 || strcmp(operation, "UpdateItem") == 0 ||
	                  strcmp(operation, "DeleteItem") == 0;

	switch (code) {
	case ERR_CONDITION:
		return writes_one;
	case ERR_CANCELLED:
		return strncmp(operation, "Transact", strlen("Transact")) == 0;
	case ERR_TOKEN_MISMATCH:
		return strcmp(operation, "TransactWriteItems") == 0;
	default:
		return true;
	}
}

struct bytes client_error_text(const struct json *body)
{
	const struct json *text = json_get(body, BYTES("message"));

	if (text == NULL)
		text = json_get(body, BYTES("Message"));
	return json_text(text);
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

static enum err_code reason_take(struct arena *a, const struct json *json, const struct client_action *q,
                                 struct table_reason *out, struct err *err)
{
	const struct json *code = json_get(json, BYTES("Code")), *item = json_get(json, BYTES("Item"));

	*out = (struct table_reason){.has_item = q != NULL && client_has(item)};
	if (client_has(code) && !reason_code(json_text(code), &out->code))
		return client_wrong(err, "CancellationReasons has an unknown Code");
	if (q != NULL && !q->conditional && bytes_is(json_text(code), "ConditionalCheckFailed"))
		return client_wrong(err, "a condition is false that was not sent");
	out->in_the_way = bytes_is(json_text(code), "TransactionConflict");
	if (out->code != ERR_NONE)
		out->text = arena_printf(a, "%.*s", BYTES_ARG(client_error_text(json))).data;
	if (q == NULL || !out->has_item)
		return ERR_NONE;
	if (client_item_take(a, item, &out->item, err) != ERR_NONE)
		return err->code;
	return has_key(&out->item, &q->key) ? ERR_NONE : client_wrong(err, "Item has another key");
}

enum err_code client_read_reasons(struct arena *a, const struct json *body, const struct client_actions *q,
                                  struct table_reason *out, bool *busy, struct err *err)
{
	const struct json *reasons = json_get(body, BYTES("CancellationReasons"));
	bool               any = false;
	uint32_t           i = 0;

	*busy = false;
	if (!json_is(reasons, JSON_ARRAY) || reasons->count != q->count)
		return client_wrong(err, "CancellationReasons has not one element for each action");
	for (const struct json *one = json_children(reasons); one != NULL; one = one->next, i++) {
		if (reason_take(a, one, q->list == NULL ? NULL : &q->list[i], &out[i], err) != ERR_NONE)
			return err->code;
		*busy = *busy || out[i].code == ERR_THROTTLED;
		any = any || out[i].code != ERR_NONE;
	}
	return any ? ERR_NONE : client_wrong(err, "CancellationReasons has no reason");
}
