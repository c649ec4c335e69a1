/* Authorise: may this caller do that? A request is taken apart into IAM actions (dynamodb_actions.h), and the caller's
 * policy is asked about each: one refusal refuses the request, before anything is read. */
#ifndef API_AUTHORISE_H
#define API_AUTHORISE_H

#include "api/dynamodb.h"

/* The caller has a key. `t` is a read session, for the key schemas that conditions on leading keys need. ERR_ACCESS names caller,
 * action and resource, as DynamoDB does. */
enum err_code authorise_call(const struct caller *who, struct table *t, const struct dynamodb_call *c,
                             struct err *err);

/* Once more, in the turn, for puts under a condition on attributes: a put replaces the whole item, and so touches the
 * attributes of the one that is there too, which only the turn knows for sure. */
enum err_code authorise_puts(const struct caller *who, struct table *t, const struct dynamodb_call *c,
                             struct err *err);

/* Before the request is decoded: could the caller's policy allow the operation on anything? ERR_ACCESS if never. */
enum err_code authorise_foresee(const struct caller *who, const struct operation *operation, struct err *err);
enum err_code authorise_foresee_v1(const struct caller *who, const char *action, struct err *err);

/* Could the policy of a caller with a key deny the action on something? */
bool authorise_could_deny_v1(const struct caller *who, const char *action);

/* Who asks what, and when, of a call under /v1. */
struct v1_question {
	const struct caller *who;
	int64_t              now_s;
	struct arena        *arena;
	const char          *action; /* "RecordAttempt" */
};

/* The action gatehouse:ACTION on arn:aws:gatehouse:…:RESOURCE; an empty resource is "*". ERR_ACCESS unless it is allowed;
 * *decision says whether somebody denied it. Any thread. */
enum err_code authorise_v1(const struct v1_question *p, struct bytes resource, enum decision *decision,
                           struct err *err);

#endif
