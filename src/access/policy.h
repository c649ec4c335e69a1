/* Policy: who may do what. IAM policy documents are parsed once and then asked, for each request, whether it
 * is allowed: an explicit Deny wins, and what nobody allows is denied.
 *
 * Threads: a policy is immutable once parsed; any number of threads may evaluate it at once.
 * Ownership: a policy owns its memory and depends neither on the text nor on the reader. A request only
 * borrows. What cannot be understood whole is refused when parsed, with a text that names the statement, the
 * element and the value: no document is ever half in force. */
#ifndef ACCESS_POLICY_H
#define ACCESS_POLICY_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct json;
struct json_reader;

enum {
	POLICY_BYTES_MAX = 10 * 1024, /* the document, as text */
	POLICY_STATEMENTS_MAX = 100,
	POLICY_LIST_MAX = 200,           /* actions or resources of a statement, values of a condition */
	POLICY_CONDITIONS_MAX = 32,      /* pairs of operator and key in a statement */
	POLICY_SID_BYTES_MAX = 128,      /* also Id */
	POLICY_PATTERN_BYTES_MAX = 1024, /* an action or a resource */
	POLICY_VALUE_BYTES_MAX = 2048,   /* a value of a condition: as long as a partition key may be */
	POLICY_SEARCH_BYTES_MAX = 256,   /* all that stands between two `*` and holds a `?`, in a policy */
	ACCESS_ACTION_BYTES_MAX = 128,   /* the action of a request */
	ACCESS_REGION_BYTES_MAX = 32,    /* the name of the server's region */
};

#define ACCESS_ACCOUNT "000000000000" /* of everything here */
#define ACCESS_REGION  "local"        /* unless set */

/* What a request can say about itself beyond action and resource. A new key is one line here.
 * X(id, name, type, traits). ACCESS_MANY: several values, so a condition needs ForAllValues: or ForAnyValue:.
 * ACCESS_ITEMS: a request that touches items and does not say which values is taken to touch all of them. */
#define ACCESS_KEYS(X)                                                                                       \
	X(ACCESS_LEADING_KEYS, "dynamodb:LeadingKeys", ACCESS_TEXT, ACCESS_MANY | ACCESS_ITEMS)              \
	X(ACCESS_ATTRIBUTES, "dynamodb:Attributes", ACCESS_TEXT, ACCESS_MANY | ACCESS_ITEMS)                 \
	X(ACCESS_SELECT, "dynamodb:Select", ACCESS_TEXT, ACCESS_ONE)                                         \
	X(ACCESS_RETURN_VALUES, "dynamodb:ReturnValues", ACCESS_TEXT, ACCESS_ONE)                            \
	X(ACCESS_RETURN_CAPACITY, "dynamodb:ReturnConsumedCapacity", ACCESS_TEXT, ACCESS_ONE)                \
	X(ACCESS_ENCLOSING_OPERATION, "dynamodb:EnclosingOperation", ACCESS_TEXT, ACCESS_ONE)                \
	X(ACCESS_SOURCE_IP, "aws:SourceIp", ACCESS_IP, ACCESS_ONE)                                           \
	X(ACCESS_SECURE_TRANSPORT, "aws:SecureTransport", ACCESS_TRUTH, ACCESS_ONE)                          \
	X(ACCESS_CURRENT_TIME, "aws:CurrentTime", ACCESS_TIME, ACCESS_ONE)                                   \
	X(ACCESS_EPOCH_TIME, "aws:EpochTime", ACCESS_EPOCH, ACCESS_ONE)

enum access_key {
#define X(id, name, type, traits) id,
	ACCESS_KEYS(X)
#undef X
	        ACCESS_KEY_COUNT
};

/* Which operators a key takes: String*, IpAddress, Bool, Date*, and Date* as well as Numeric*. */
enum access_type { ACCESS_TEXT, ACCESS_IP, ACCESS_TRUTH, ACCESS_TIME, ACCESS_EPOCH };

enum access_trait { ACCESS_ONE = 0, ACCESS_MANY = 1, ACCESS_ITEMS = 2 };

/* IPv6, in network order; IPv4 is ::ffff:a.b.c.d, as a socket that listens on both has it. */
struct access_address {
	uint8_t bytes[16];
};

/* What a request says of one key; which member counts follows from the key's type. An empty list is as good
 * as not saying anything. */
struct access_value {
	enum access_key key;
	union {
		struct {
			const struct bytes *list; /* exactly one unless the key is ACCESS_MANY */
			size_t              count;
		} texts;
		struct access_address address;
		bool                  truth;
		int64_t               seconds; /* since 1970 */
	};
};

struct access_request {
	struct bytes               action;   /* "dynamodb:GetItem"; case does not count */
	struct bytes               resource; /* an ARN, or "*" for actions that have none */
	const struct access_value *values;   /* each key at most once */
	size_t                     count;
};

enum decision { DECISION_DENIED_BY_DEFAULT, DECISION_DENIED_EXPLICITLY, DECISION_ALLOWED };

/* Which statement decided; neither number means anything if it was denied by default. */
struct explanation {
	enum decision decision;
	size_t        policy;
	size_t        statement;
};

struct policy;

/* ERR_SERIALIZATION: not JSON. ERR_INVALID: JSON, but not a policy that this server can honour in full. */
enum err_code policy_parse(struct json_reader *reader, struct bytes text, struct policy **out,
                           struct err *err);
void          policy_close(struct policy *p); /* NULL is fine */

/* Could each of its resources name something of a server in that region? ERR_INVALID names the first that could
 * not, for its partition, region or account: such a Deny would silently do nothing. */
enum err_code policy_check_home(const struct policy *p, struct bytes region, struct err *err);

/* ERR_INVALID, about `what`, unless it is 1 to ACCESS_REGION_BYTES_MAX letters, digits and '-'. */
enum err_code access_region_check(struct bytes region, const char *what, struct err *err);

/* The decision of all policies together. Allocates nothing. `why` may be NULL. */
enum decision policy_evaluate(const struct policy *const *policies, size_t count,
                              const struct access_request *request, struct explanation *why);

/* How far it reaches with an action ("dynamodb:PutItem"), whatever else the request says. */
enum reach {
	REACH_NOTHING, /* it is sure that nothing is allowed: a request may be refused before it is read */
	REACH_DENIES,  /* something may be allowed, and something denied */
	REACH_SOME,    /* something may be allowed, and no Deny names the action */
	REACH_ALL,     /* every resource, without a condition: nothing else need be asked */
};

enum reach policy_reach(const struct policy *p, struct bytes action);

/* Could it allow the action on that resource, whatever conditions say? False only if it is sure that it does not. */
bool policy_could_allow(const struct policy *p, struct bytes action, struct bytes resource);

/* Could it deny the action on a resource that begins like this? */
bool policy_could_deny(const struct policy *p, struct bytes action, struct bytes start);

/* Does it allow the request on every resource there could be? The request's own is not looked at. */
bool policy_allows_all(const struct policy *p, const struct access_request *request);

/* Calls `each` with every action of the policy, in lower case, that matches none of these names ("dynamodb:PutItem"): it never
 * applies to anything, so it is misspelt, maybe. */
void policy_idle_actions(const struct policy *p, const struct bytes *names, size_t count,
                         void (*each)(void *ctx, struct bytes action), void *ctx);

/* Does any statement have a condition on that key? If not, a request need not say anything of it. */
bool policy_asks(const struct policy *const *policies, size_t count, enum access_key key);

/* The decision, then a line for each statement: whether it applies, and if not why. Values of the request are
 * not repeated, so the text may go anywhere. */
void policy_explain(const struct policy *const *policies, size_t count, const struct access_request *request,
                    struct buf *out);

/* A request as people write it: {"action": …, "resource": …, "context": {"aws:SourceIp": …, …}}. The result
 * borrows from the tree and lives in the arena. ERR_INVALID names what is wrong. */
enum err_code access_request_read(struct arena *a, const struct json *json, struct access_request *out,
                                  struct err *err);

/* "10.0.0.1" or "fe80::1"; false if it is neither. */
bool access_address_parse(struct bytes text, struct access_address *out);

#endif
