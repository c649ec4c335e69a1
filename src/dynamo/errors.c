/* Errors: the bodies. What always holds: the body is valid JSON, whatever bytes the text holds (an error text
 * is cut at a fixed length, which may split a character). */
#include "dynamo/errors.h"

#include "dynamo/wire.h"
#include "item/messages.h"

#define SPACE_DYNAMO   "com.amazonaws.dynamodb.v20120810#"
#define SPACE_SERVICE  "com.amazon.coral.service#"
#define SPACE_BUSY     "com.amazon.coral.availability#"
#define SPACE_VALIDATE "com.amazon.coral.validate#"

static const char *space_of(enum err_code code)
{
	switch (code) {
	case ERR_INVALID:
		return SPACE_VALIDATE;
	case ERR_THROTTLED:
	case ERR_CALLER_THROTTLED:
		return SPACE_BUSY;
	case ERR_SERIALIZATION:
	case ERR_UNKNOWN_OPERATION:
	case ERR_NOT_FOUND:
	case ERR_ACCESS:
	case ERR_NO_CREDENTIAL:
	case ERR_SIGNATURE_INCOMPLETE:
	case ERR_SIGNATURE:
	case ERR_UNKNOWN_KEY:
	case ERR_TOO_LARGE:
		return SPACE_SERVICE;
	default:
		return SPACE_DYNAMO;
	}
}

/* DynamoDB is of two minds about the spelling; clients accept both. */
static struct bytes message_name(enum err_code code)
{
	if (code == ERR_SERIALIZATION || code == ERR_CANCELLED || code == ERR_TOKEN_MISMATCH ||
	    code == ERR_ACCESS)
		return BYTES("Message");
	return BYTES("message");
}

/* How many bytes at the front are one character; 0 if they are none. */
static size_t character_length(struct bytes text)
{
	for (size_t len = 1; len <= 4 && len <= text.len; len++)
		if (bytes_is_utf8((struct bytes){text.data, len}))
			return len;
	return 0;
}

static struct bytes text_clean(struct arena *a, struct bytes text)
{
	struct buf out;

	if (bytes_is_utf8(text))
		return text;
	buf_init(&out, a);
	while (text.len > 0) {
		size_t len = character_length(text);

		if (len > 0)
			buf_add(&out, text.data, len);
		else
			buf_add_byte(&out, '?');
		len = len > 0 ? len : 1;
		text = (struct bytes){text.data + len, text.len - len};
	}
	return buf_bytes(&out);
}

/* Opens the object; the caller may add fields and closes it. */
static void error_open(struct json_writer *w, struct arena *a, enum err_code code, struct bytes text)
{
	json_begin_object(w);
	json_name(w, BYTES("__type"));
	json_string(w, arena_printf(a, "%s%s", space_of(code), err_name(code)));
	if (text.len == 0)
		return;
	json_name(w, message_name(code));
	json_string(w, text_clean(a, text));
}

void error_write(struct json_writer *w, struct arena *a, enum err_code code, struct bytes text)
{
	error_open(w, a, code, text);
	json_end_object(w);
}

void error_write_named(struct json_writer *w, struct arena *a, const char *name, struct bytes text)
{
	json_begin_object(w);
	json_name(w, BYTES("__type"));
	json_string(w, arena_printf(a, "%s%s", SPACE_DYNAMO, name));
	json_name(w, BYTES("message"));
	json_string(w, text);
	json_end_object(w);
}

static void item_add(struct json_writer *w, const struct item *item)
{
	json_name(w, BYTES("Item"));
	wire_item_write(w, item);
}

void error_write_condition(struct json_writer *w, struct arena *a, const struct item *item)
{
	error_open(w, a, ERR_CONDITION, BYTES(MSG_CONDITION_FAILED));
	if (item != NULL)
		item_add(w, item);
	json_end_object(w);
}

/* ---- transactions ---- */

static const char *reason_code(enum err_code code)
{
	switch (code) {
	case ERR_NONE:
		return "None";
	case ERR_CONDITION:
		return "ConditionalCheckFailed";
	case ERR_COLLECTION_SIZE:
		return "ItemCollectionSizeLimitExceeded";
	default:
		return "ValidationError";
	}
}

static struct bytes cancelled_text(struct arena *a, const struct table_reason *reasons, uint32_t count)
{
	struct buf text;

	buf_init(&text, a);
	buf_add_bytes(&text, BYTES(MSG_CANCELLED " ["));
	for (uint32_t i = 0; i < count; i++) {
		if (i > 0)
			buf_add_bytes(&text, BYTES(", "));
		buf_add_bytes(&text, bytes_of(reason_code(reasons[i].code)));
	}
	buf_add_byte(&text, ']');
	return buf_bytes(&text);
}

static void reason_write(struct json_writer *w, struct arena *a, const struct table_reason *reason)
{
	json_begin_object(w);
	json_name(w, BYTES("Code"));
	json_string(w, bytes_of(reason_code(reason->code)));
	if (reason->has_item)
		item_add(w, &reason->item);
	if (reason->code != ERR_NONE && reason->text != NULL) {
		json_name(w, BYTES("Message"));
		json_string(w, text_clean(a, bytes_of(reason->text)));
	}
	json_end_object(w);
}

void error_write_cancelled(struct json_writer *w, struct arena *a, const struct table_reason *reasons,
                           uint32_t count)
{
	error_open(w, a, ERR_CANCELLED, cancelled_text(a, reasons, count));
	json_name(w, BYTES("CancellationReasons"));
	json_begin_array(w);
	for (uint32_t i = 0; i < count; i++)
		reason_write(w, a, &reasons[i]);
	json_end_array(w);
	json_end_object(w);
}
