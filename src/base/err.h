/* Err: the one error shape. A function that can fail returns an err_code and fills *err exactly when it
 * returns non-zero. Codes come from one list, with the HTTP status and the name DynamoDB's callers know
 * beside each, so that no second mapping exists.
 *
 * "Not found", "condition false", "locked" are results, not errors: they have no code here, except where
 * DynamoDB's protocol itself reports them as one (ERR_CONDITION, ERR_CANCELLED). */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/bytes.h"

/* X(code, HTTP status and public name in DynamoDB's protocol, HTTP status, title and type under /v1). Several codes may
 * share a public name: /v1 tells apart what DynamoDB does not. A type is a promise to programs: it never changes.
 * ERR_THROTTLED: the tables are busy. ERR_CALLER_THROTTLED: the caller asks too much, which is no failure: no limit lets it pass for that. */
#define ERR_CODES(X)                                                                                         \
	X(ERR_INVALID, 400, "ValidationException", 422, "Invalid Value", "invalid-value")                    \
	X(ERR_SERIALIZATION, 400, "SerializationException", 400, "Malformed Request", "malformed-request")   \
	X(ERR_HTTP, 400, "SerializationException", 400, "HTTP Refused", "http")                              \
	X(ERR_UNKNOWN_OPERATION, 400, "UnknownOperationException", 404, "Not Found", "unknown-operation")    \
	X(ERR_CONDITION, 400, "ConditionalCheckFailedException", 409, "Conflict", "conflict")                \
	X(ERR_CANCELLED, 400, "TransactionCanceledException", 409, "Conflict", "transaction-cancelled")      \
	X(ERR_TOKEN_MISMATCH, 400, "IdempotentParameterMismatchException", 422, "Idempotency Key Reused",    \
	  "idempotency-key-reused")                                                                          \
	X(ERR_NO_RESOURCE, 400, "ResourceNotFoundException", 404, "Not Found", "no-such-resource")           \
	X(ERR_RESOURCE_IN_USE, 400, "ResourceInUseException", 409, "Conflict", "resource-in-use")            \
	X(ERR_FINISHED, 400, "ResourceInUseException", 409, "Attempt Is Finished", "attempt-finished")       \
	X(ERR_POLICIES_FILE, 400, "ResourceInUseException", 409, "Policies Come From a File",                \
	  "policies-from-file")                                                                              \
	X(ERR_LOCKS_END, 400, "ResourceInUseException", 409, "Locks Would End", "locks-would-end")           \
	X(ERR_FOREIGN_TABLE, 400, "ResourceInUseException", 409, "Table Has Other Keys",                     \
	  "table-has-other-keys")                                                                            \
	X(ERR_EMAIL_TAKEN, 400, "ResourceInUseException", 409, "Email Not Available", "email-not-available") \
	X(ERR_USER_EXISTS, 400, "ResourceInUseException", 409, "User Exists", "user-exists")                 \
	X(ERR_MODIFIED, 400, "ResourceInUseException", 409, "Resource Modified", "resource-modified")        \
	X(ERR_NOT_NOW, 400, "ResourceInUseException", 409, "Not in This State", "wrong-state")               \
	X(ERR_GONE, 410, "TrimmedDataAccessException", 410, "Events Are Gone", "events-trimmed")             \
	X(ERR_STALE, 412, "PreconditionFailed", 412, "Precondition Failed", "stale-version")                 \
	X(ERR_NO_MATCH, 428, "PreconditionRequired", 428, "Precondition Required", "version-required")       \
	X(ERR_LIMIT, 400, "LimitExceededException", 409, "Limit Exceeded", "limit-exceeded")                 \
	X(ERR_COLLECTION_SIZE, 400, "ItemCollectionSizeLimitExceededException", 409, "Limit Exceeded",       \
	  "collection-too-large")                                                                            \
	X(ERR_ACCESS, 400, "AccessDeniedException", 403, "Forbidden", "forbidden")                           \
	X(ERR_USER_TOKEN, 400, "AccessDeniedException", 401, "Token Refused", "token-refused")               \
	X(ERR_INACTIVE, 400, "AccessDeniedException", 403, "Account Is Not Active", "account-not-active")    \
	X(ERR_ORIGIN, 403, "AccessDeniedException", 403, "Foreign Origin", "foreign-origin")                 \
	X(ERR_NO_CREDENTIAL, 400, "MissingAuthenticationTokenException", 401, "Unauthorized",                \
	  "no-credential")                                                                                   \
	X(ERR_SIGNATURE_INCOMPLETE, 400, "IncompleteSignatureException", 401, "Unauthorized",                \
	  "incomplete-signature")                                                                            \
	X(ERR_SIGNATURE, 400, "InvalidSignatureException", 401, "Unauthorized", "invalid-signature")         \
	X(ERR_THROTTLED, 400, "ThrottlingException", 503, "Tables Are Busy", "tables-busy")                  \
	X(ERR_CALLER_THROTTLED, 400, "ThrottlingException", 429, "Too Many Requests", "too-many-requests")   \
	X(ERR_UNKNOWN_KEY, 400, "UnrecognizedClientException", 401, "Unauthorized", "unknown-key")           \
	X(ERR_NOT_FOUND, 404, "UnknownOperationException", 404, "Not Found", "not-found")                    \
	X(ERR_METHOD, 404, "UnknownOperationException", 405, "Method Not Allowed", "method-not-allowed")     \
	X(ERR_ENCODING, 500, "InternalServerError", 415, "Unsupported Encoding", "unsupported-encoding")     \
	X(ERR_TOO_LARGE, 413, "RequestEntityTooLarge", 413, "Content Too Large", "too-large")                \
	X(ERR_STORAGE, 500, "InternalServerError", 500, "Outcome Unknown", "outcome-unknown")                \
	X(ERR_OVERLOADED, 503, "ServiceUnavailable", 503, "Service Unavailable", "overloaded")               \
	X(ERR_CONTENDED, 503, "ServiceUnavailable", 503, "Service Unavailable", "contended")                 \
	X(ERR_DISK_FULL, 503, "ServiceUnavailable", 503, "Service Unavailable", "disk-full")

enum err_code {
	ERR_NONE = 0,
#define X(code, ...) code,
	ERR_CODES(X)
#undef X
};

/* What a type begins with: "urn:gatehouse:problem:invalid-value". docs/errors.md explains each. */
#define ERR_TYPE_PREFIX "urn:gatehouse:problem:"

enum { ERR_TEXT_MAX = 2048, ERR_FIELD_MAX = 128, ERR_AFTER_MAX = 2112 };

struct err {
	enum err_code code;
	char          text[ERR_TEXT_MAX]; /* for people; never holds a secret, an email or an address */
	char     field[ERR_FIELD_MAX];    /* what it is about: "context.ip"; empty unless err_field set it */
	char     after[ERR_AFTER_MAX];    /* where a reader of events may go on; empty unless ERR_GONE says */
	unsigned count;                   /* of ERR_LOCKS_END: how many locks; and are there more? */
	bool     more;
};

/* Fills *err and returns `code`, so that a failure is one line: return err_set(err, ERR_INVALID, "…"). */
enum err_code err_set(struct err *err, enum err_code code, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* The same, about one field of what was sent. */
enum err_code err_field(struct err *err, enum err_code code, const char *field, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

int         err_status(enum err_code code);
const char *err_name(enum err_code code);
int         err_v1_status(enum err_code code);
const char *err_v1_title(enum err_code code);
const char *err_v1_type(enum err_code code); /* with its prefix */

#ifdef __clang_analyzer__ /* It does not look into err.c, and would follow each failure as a success, too. */
#define ERR_KNOWN(e, c)      ((c) == ERR_NONE ? (__builtin_unreachable(), ERR_NONE) : ((e)->code = (c)))
#define err_set(e, c, ...)   (err_set(e, c, __VA_ARGS__), ERR_KNOWN(e, c))
#define err_field(e, c, ...) (err_field(e, c, __VA_ARGS__), ERR_KNOWN(e, c))
#endif

#endif
