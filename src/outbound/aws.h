/* AWS: signed calls of one service of AWS's, in its JSON protocols (DynamoDB, SQS, EventBridge, KMS, Cognito), with its ways
 * of saying "later", "too much" and "your clock is wrong".
 *
 * What always holds
 * (1) Each try is signed anew, with the credentials in force and the time corrected by what the service's Date said.
 * (2) A call refused because of the clock is repeated once, with the clock corrected, if it was off by SKEW_MIN_S or more: a
 *     refused signature has changed nothing.
 * (3) Every try of a call carries the same invocation id and its own number, as AWS's SDKs send them. */
#ifndef OUTBOUND_AWS_H
#define OUTBOUND_AWS_H

#include "outbound/credentials.h"
#include "outbound/outbound.h"

enum { AWS_SKEW_MIN_S = 4 * 60, AWS_TYPE_BYTES_MAX = 128 };

struct aws_service {
	const char *name;    /* what signatures are for: "dynamodb" */
	const char *prefix;  /* of the target: "DynamoDB_20120810" */
	const char *version; /* of its JSON: "1.0" */
};

extern const struct aws_service aws_dynamodb;

struct aws;

/* The target must outlive it, and so must the credentials. */
struct aws *aws_open(const struct aws_service *service, struct outbound *target,
                     struct aws_credentials *credentials, const char *region, struct clock *clock);
void        aws_close(struct aws *a);

struct aws_request {
	const char  *operation; /* "GetItem" */
	struct bytes body;
	bool         repeatable;  /* doing it twice is doing it once */
	int64_t      deadline_us; /* in steady time */
	struct bytes trace;       /* as outbound_request */
};

struct aws_answer {
	struct outbound_response http;
	/* Unless the status is 2xx: what the service calls it, without name space: "ThrottlingException"; empty if it did not say. */
	struct bytes type;
};

/* As outbound_call: any answer is a result. */
enum err_code aws_call(struct aws *a, const struct aws_request *r, struct arena *arena,
                       struct aws_answer *out, struct err *err);

/* What an error is called, from the header or the body of an answer. Points into the arena or the answer. */
struct bytes aws_error_type(const struct outbound_response *r, struct arena *a);

enum retry_kind aws_retry_kind(int status, struct bytes type);

#endif
