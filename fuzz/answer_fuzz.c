/* What a DynamoDB endpoint answers, read as a client. The first byte says to which request. Whatever it is, it is read or refused;
 * what was read can be written again. */
#include <stdlib.h>

#include "dynamo/client.h"
#include "dynamo/wire.h"

enum { ASKED = 2 };

static void item_check(struct arena *a, const struct item *item)
{
	struct json_writer w;
	struct buf         out;

	buf_init(&out, a);
	json_writer_init(&w, &out);
	wire_item_write(&w, item);
}

static void read_items(struct arena *a, const struct json *body, uint8_t which)
{
	struct member                 keys[ASKED] = {{BYTES("p"), value_string(BYTES("a"))},
	                                             {BYTES("p"), value_string(BYTES("b"))}};
	struct table_get              gets[ASKED];
	struct table_write            writes[ASKED];
	struct table_get_result       get;
	struct table_write_result     write;
	struct table_query_result     query;
	struct table_batch_get_result batch;
	struct table_schema           schema = {
	                  .keys = {.hash = {BYTES("p"), VALUE_S}, .range = {BYTES("r"), VALUE_S}}};
	struct expr_key_condition key = {.hash_name = BYTES("p"), .hash = value_string(BYTES("a"))};
	struct table_query        q = {.key = &key, .limit = ASKED};
	struct client_page        page = {&q, &schema, NULL};
	struct client_action      action = {.key = {&keys[0], 1}, .returns = RETURN_ALL_NEW};
	bool                      left[ASKED];
	struct err                err;

	for (int i = 0; i < ASKED; i++) {
		gets[i] = (struct table_get){.table = BYTES("t"), .key = {&keys[i], 1}};
		writes[i] =
		        (struct table_write){.kind = TABLE_PUT, .table = BYTES("t"), .item = {&keys[i], 1}};
	}
	if (which == 0 && client_read_get(a, body, &gets[0].key, &get, &err) == ERR_NONE && get.found)
		item_check(a, &get.item);
	if (which == 1 && client_read_write(a, body, &action, &write, &err) == ERR_NONE && write.has_item)
		item_check(a, &write.item);
	if (which == 2 && client_read_query(a, body, &page, &query, &err) == ERR_NONE && query.items != NULL)
		for (uint32_t i = 0; i < query.count; i++)
			item_check(a, &query.items[i]);
	if (which == 3)
		client_read_batch_get(a, body, &(struct table_batch_get){gets, ASKED}, &batch, &err);
	if (which == 4)
		client_read_batch_write(a, body, &(struct table_batch_write){writes, ASKED}, left, &err);
	if (which == 5)
		client_read_transact_get(a, body, &(struct table_batch_get){gets, ASKED}, &batch, &err);
}

static void read_others(struct arena *a, const struct json *body, uint8_t which)
{
	struct client_table      table;
	struct table_schema      schema = {0};
	struct table_list_result list;
	struct table_reason      reasons[ASKED];
	struct bytes             attribute;
	struct member            key = {BYTES("p"), value_string(BYTES("a"))};
	struct client_action actions[ASKED] = {{.key = {&key, 1}, .conditional = true}, {.key = {&key, 1}}};
	struct table_write_result write;
	struct err                err;
	bool                      busy;

	if (which == 6 && client_read_table(a, body, BYTES("t"), &table, &err) == ERR_NONE)
		schema_copy(a, &table.description.schema);
	if (which == 7) {
		client_read_ttl(a, body, &attribute, &err);
		client_read_recovery(body, &busy, &err);
	}
	if (which == 8)
		client_read_tags(a, body, &schema, &err);
	if (which == 9)
		client_read_list(a, body, &(struct table_list){.limit = ASKED}, &list, &err);
	if (which == 10)
		client_read_reasons(a, body, &(struct client_actions){actions, ASKED}, reasons, &busy, &err);
	client_error_text(body);
	client_read_refusal(a, body, &actions[0], &write, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct json_reader *reader;
	struct json               *body;
	struct arena               a;
	struct err                 err;

	if (size == 0)
		return 0;
	if (reader == NULL)
		reader = json_reader_open();
	arena_init(&a);
	if (json_read(reader, &a, (struct bytes){(const char *)data + 1, size - 1}, &body, &err) ==
	    ERR_NONE) {
		read_items(&a, body, data[0] % 11);
		read_others(&a, body, data[0] % 11);
	}
	arena_release(&a);
	return 0;
}
