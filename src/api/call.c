/* Call: the three steps. */
#include "api/call.h"

#include "dynamo/errors.h"

const struct operation *call_operation(struct bytes target)
{
	struct bytes prefix = BYTES(CALL_TARGET_PREFIX);

	if (!bytes_starts_with(target, prefix))
		return NULL;
	return operation_named((struct bytes){target.data + prefix.len, target.len - prefix.len});
}

enum err_code call_decode(struct call *c, struct arena *a, struct json_reader *reader, struct bytes target,
                          struct bytes body, struct err *err)
{
	struct json *json;

	c->arena = a;
	c->operation = call_operation(target);
	if (c->operation == NULL)
		return err_set(err, ERR_UNKNOWN_OPERATION, "%s", "");
	if (json_read(reader, a, body, &json, err) != ERR_NONE)
		return err->code;
	return c->operation->decode(a, json, &c->request, err);
}

enum err_code call_run(struct call *c, struct table *t, struct err *err)
{
	return c->operation->run(t, c->arena, &c->request, &c->result, err);
}

enum err_code call_encode(struct call *c, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	return c->operation->encode(&w, c->arena, &c->request, &c->result);
}

int call_encode_error(struct arena *a, enum err_code code, const struct err *err, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	error_write(&w, a, code, bytes_of(err->text));
	return err_status(code);
}
