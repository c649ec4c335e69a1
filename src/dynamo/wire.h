/* Wire: attribute values and items as DynamoDB's JSON, both ways: {"S": "text"}, {"N": "1.5"}, {"B": "AAE="},
 * …
 *
 * Reading takes two steps, because DynamoDB reports wrong JSON types anywhere in a request before anything
 * else: wire_value_check looks at types only; wire_value_read, which relies on that, at what the values say.
 */
#ifndef DYNAMO_WIRE_H
#define DYNAMO_WIRE_H

#include "item/value.h"
#include "json/json.h"
#include "json/write.h"

/* ERR_SERIALIZATION if the JSON types are not those of an attribute value, or text is not base64 where it
 * must be. */
enum err_code wire_value_check(const struct json *json, struct err *err);
enum err_code wire_item_check(const struct json *json, struct err *err);

/* ERR_SERIALIZATION with the text that DynamoDB gives where `wanted` (String, Boolean, …) is due. */
enum err_code wire_scalar_wrong(const struct json *json, const char *wanted, struct err *err);

/* Values of JSON that was checked. Text in the result points into the JSON tree. ERR_INVALID with DynamoDB's
 * text if there is no type or more than one, a number is not one, a set is empty or repeats itself, a name is empty or
 * too long, or it nests too deep. The result is well-formed (V1 to V3 in item/value.h). */
enum err_code wire_value_read(struct arena *a, const struct json *json, struct value *out, struct err *err);
enum err_code wire_item_read(struct arena *a, const struct json *json, struct item *out, struct err *err);

/* An item as a server has it: whatever its names. Servers of ours once stored names that no request may have, and such rows
 * must be readable to be repaired or moved. */
enum err_code wire_stored_read(struct arena *a, const struct json *json, struct item *out, struct err *err);

void wire_value_write(struct json_writer *w, const struct value *v);
void wire_item_write(struct json_writer *w, const struct item *item);

#endif
