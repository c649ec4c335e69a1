/* Authorise: may this caller do that? In two steps (docs/decisions/052): first by the operation or route alone, before
 * anything of the body is read; then on the resources that it names. A request is taken apart into IAM actions
 * (dynamodb_actions.h), and the caller's policy is asked about each: one refusal refuses the request, before anything is looked up. */
#ifndef API_AUTHORISE_H
#define API_AUTHORISE_H

#include "api/dynamodb.h"

enum { V1_RESOURCE_START_MAX = 128, V1_RESOURCE_NAME_MAX = 512 };

/* ---- before anything is decoded ---- */

/* How far does the caller's policy reach with the operation? ERR_ACCESS if nothing could be allowed. */
enum err_code authorise_foresee(const struct caller *who, const struct operation *operation,
                                enum reach *reach, struct err *err);
enum err_code authorise_foresee_v1(const struct caller *who, const char *action, enum reach *reach,
                                   struct err *err);

/* ---- DynamoDB's protocol; the caller has a key ---- */

/* Could the tables that the body names be allowed, whatever conditions say? */
enum err_code authorise_named(const struct caller *who, const struct dynamodb_call *c, struct err *err);

/* Once it is decoded. `t` is a read session, for the key schemas that conditions on leading keys need. ERR_ACCESS names caller,
 * action and resource, as DynamoDB does. */
enum err_code authorise_call(const struct caller *who, struct table *t, const struct dynamodb_call *c,
                             struct err *err);

/* Once more, in the turn, for puts under a condition on attributes: a put replaces the whole item, and so touches the
 * attributes of the one that is there too, which only the turn knows for sure. */
enum err_code authorise_puts(const struct caller *who, struct table *t, const struct dynamodb_call *c,
                             struct err *err);

/* ---- /v1 ---- */

/* Who asks what, and when. */
struct v1_question {
	const struct caller *who;
	int64_t              now_s;
	struct arena        *arena;
	const char          *action; /* "RecordAttempt" */
};

/* The action gatehouse:ACTION on arn:aws:gatehouse:…:KIND/NAME; no kind: on "*". Unless it is allowed, *err is filled; err may be
 * NULL. Any thread. */
enum decision authorise_v1(const struct v1_question *p, const char *kind, struct bytes name, struct err *err);

/* Is it allowed on everything, without a Deny for anything? */
bool authorise_all_v1(const struct v1_question *p);

/* Could it be denied on something of that kind? */
bool authorise_could_deny_v1(const struct v1_question *p, const char *kind);

/* The same question about many names, for threads without an arena. It is as good as long as the caller's credentials are held. */
struct v1_denial {
	const struct policy  *policy;
	struct access_request request;
	struct access_value   values[ACCESS_KEY_COUNT];
	char                  action[ACCESS_ACTION_BYTES_MAX], start[V1_RESOURCE_START_MAX]; /* "…:user/" */
	size_t                start_len;
};

void v1_denial_init(struct v1_denial *d, const struct v1_question *p, const char *kind);
void v1_denial_copy(struct v1_denial *d, const struct v1_denial *from);
bool v1_denial_names(const struct v1_denial *d, struct bytes name); /* by a Deny */

#endif
