/* Request fuzz: the first byte chooses the operation, the rest is the body. Decoding must refuse or accept,
 * never crash; a refusal must become an error body that is valid JSON; the items of an accepted put must come
 * back from the wire unchanged. */
#include <stdio.h>
#include <stdlib.h>

#include "api/dynamodb_actions.h"
#include "dynamo/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static const struct operation *chosen(uint8_t byte)
{
	unsigned count = 0;

	while (operation_at(count) != NULL)
		count++;
	return operation_at(byte % count);
}

/* Well-formed items are the same after a trip over the wire. */
static void item_returns(struct json_reader *reader, struct arena *a, const struct item *item)
{
	struct json_writer w;
	struct buf         out;
	struct json       *json;
	struct item        again;
	struct err         err;

	buf_init(&out, a);
	json_writer_init(&w, &out);
	wire_item_write(&w, item);
	require(json_read(reader, a, buf_bytes(&out), &json, &err) == ERR_NONE, "not JSON");
	require(wire_item_check(json, &err) == ERR_NONE, "wrong types");
	require(wire_item_read(a, json, &again, &err) == ERR_NONE, "refused its own");
	require(item_equal(item, &again), "another item came back");
}

static void error_reads(struct json_reader *reader, struct arena *a, enum err_code rc, const struct err *err)
{
	struct buf   out;
	struct json *json;
	struct err   inner;

	require(rc == err->code, "code");
	require(rc == ERR_SERIALIZATION || err->text[0] != '\0', "error without text");
	buf_init(&out, a);
	require(dynamodb_encode_error(a, rc, err, &out) == 400, "status");
	require(json_read(reader, a, buf_bytes(&out), &json, &inner) == ERR_NONE, "the error is not JSON");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct json_reader  *reader; /* reused, as a loop thread reuses its own */
	const struct operation     *op = chosen(size > 0 ? data[0] : 0);
	char                        target[64];
	struct arena                a;
	static struct dynamodb_call c;
	struct err                  err = {0};
	enum err_code               rc;

	if (reader == NULL)
		reader = json_reader_open();
	arena_init(&a);
	snprintf(target, sizeof(target), DYNAMODB_TARGET_PREFIX "%.*s", BYTES_ARG(op->name));
	c.arena = &a;
	rc = dynamodb_read(&c, reader, bytes_of(target),
	                   (struct bytes){(const char *)data + (size > 0), size > 0 ? size - 1 : 0}, &err);
	if (rc == ERR_NONE) {
		iam_actions_named(&c);
		rc = dynamodb_decode(&c, &err);
	}
	if (rc != ERR_NONE)
		error_reads(reader, &a, rc, &err);
	else if (op->decode == request_put)
		item_returns(reader, &a, &c.request.write.item);
	arena_release(&a);
	return 0;
}
