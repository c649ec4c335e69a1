/* ARN: taken apart at its colons. What always holds: a name that comes out of arn_table is between
 * TABLE_NAME_MIN and TABLE_NAME_MAX long if it came out of an ARN; other text is passed as it is. */
#include "dynamo/arn.h"

#include "table/schema.h"

enum { ARN_COLONS = 5 };

bool arn_is(struct bytes text)
{
	return bytes_starts_with(text, BYTES("arn:"));
}

/* What follows the fifth colon; empty if there are fewer. */
static struct bytes resource_of(struct bytes arn)
{
	unsigned colons = 0;

	for (size_t i = 0; i < arn.len; i++)
		if (arn.data[i] == ':' && ++colons == ARN_COLONS)
			return (struct bytes){arn.data + i + 1, arn.len - i - 1};
	return (struct bytes){arn.data, 0};
}

enum err_code arn_table(struct bytes text, const char *message, struct bytes *name, struct err *err)
{
	struct bytes prefix = BYTES("table/");
	struct bytes resource;
	const char  *slash;

	*name = text;
	if (!arn_is(text))
		return ERR_NONE;
	resource = resource_of(text);
	if (!bytes_starts_with(resource, prefix))
		return err_set(err, ERR_INVALID, "%s", message);
	*name = (struct bytes){resource.data + prefix.len, resource.len - prefix.len};
	slash = memchr(name->data, '/', name->len);
	if (slash != NULL || name->len < TABLE_NAME_MIN || name->len > TABLE_NAME_MAX)
		return err_set(err, ERR_INVALID, "%s", message);
	return ERR_NONE;
}

struct bytes arn_print(struct arena *a, struct bytes home, struct bytes table, struct bytes index)
{
	return arena_printf(a, "%.*stable/%.*s%s%.*s", BYTES_ARG(home), BYTES_ARG(table),
	                    index.len > 0 ? "/index/" : "", BYTES_ARG(index));
}
