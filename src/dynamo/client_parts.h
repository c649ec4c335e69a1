/* What the readers of a client's answers share. Internal to dynamo/. */
#ifndef DYNAMO_CLIENT_PARTS_H
#define DYNAMO_CLIENT_PARTS_H

#include "dynamo/client.h"

/* ERR_STORAGE: DynamoDB would not have answered that. */
enum err_code client_wrong(struct err *err, const char *what);

enum err_code client_item_take(struct arena *a, const struct json *json, struct item *out, struct err *err);

/* Is it there, and not null? */
static inline bool client_has(const struct json *json)
{
	return json != NULL && json->type != JSON_NULL;
}

#endif
