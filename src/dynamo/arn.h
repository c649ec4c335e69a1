/* ARN: Amazon's names for resources. A table is arn:aws:dynamodb:REGION:ACCOUNT:table/NAME. This server has
 * one region and one account, which its caller knows; where a request names others, only the table's name counts. */
#ifndef DYNAMO_ARN_H
#define DYNAMO_ARN_H

#include "base/arena.h"
#include "base/err.h"

bool arn_is(struct bytes text);

/* The table's name: `text` itself, or the name within an ARN. ERR_INVALID with `message` if it is an ARN of
 * something else. */
enum err_code arn_table(struct bytes text, const char *message, struct bytes *name, struct err *err);

/* home: what this server's ARNs begin with, "arn:aws:dynamodb:REGION:ACCOUNT:". index: empty for the table itself. */
struct bytes arn_print(struct arena *a, struct bytes home, struct bytes table, struct bytes index);

#endif
