/* IAM actions: what a request of DynamoDB's protocol does, as a policy sees it: an action, its resource, and the values
 * that conditions look at. A request has one per table, or one per item of a transaction. */
#ifndef API_DYNAMODB_ACTIONS_H
#define API_DYNAMODB_ACTIONS_H

#include "api/dynamodb.h"

struct iam_action {
	struct bytes        action;       /* "PutItem" */
	struct bytes        table, index; /* no table: the action has no resource */
	const struct bytes *leading;      /* values of the hash key; none: unsaid */
	uint32_t            leading_count;
	const struct bytes *attributes; /* top-level names that it reads or writes; none: unsaid, or all */
	uint32_t            attribute_count;
	struct bytes        select, return_values, enclosing; /* empty: unsaid */
};

struct iam_actions {
	struct iam_action *list;
	uint32_t           count;
};

/* What is looked up for it in the tables. */
struct iam_asked {
	bool leading;  /* the values of hash keys, by the tables' schemas */
	bool replaced; /* the attributes of items that a put would replace */
};

/* What the body of a call names, before it is decoded: actions and tables, without what conditions look at. What is malformed is left
 * out: decoding refuses it. In the call's arena. */
struct iam_actions iam_actions_named(const struct dynamodb_call *c);

/* Takes a decoded call apart. A table that is not there leaves leading keys unsaid: whether it exists is told only to those who may
 * have it. Everything lives in the call's arena. */
enum err_code iam_actions_of(const struct dynamodb_call *c, struct table *t, struct iam_asked asked,
                             struct iam_actions *out, struct err *err);

/* Does it put an item, alone or among others? */
bool iam_actions_put(const struct dynamodb_call *c);

#endif
