/* Err: the one error shape. A function that can fail returns an err_code and fills *err exactly when it
 * returns non-zero. Codes come from one list, with the HTTP status and the name DynamoDB's callers know
 * beside each, so that no second mapping exists.
 *
 * "Not found", "condition false", "locked" are results, not errors: they have no code here, except where
 * DynamoDB's protocol itself reports them as one (ERR_CONDITION, ERR_CANCELLED). */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/bytes.h"

/* X(code, HTTP status and public name at DynamoDB's door, HTTP status and title under /v1) */
#define ERR_CODES(X)                                                                                         \
	X(ERR_INVALID, 400, "ValidationException", 422, "Invalid Value")                                     \
	X(ERR_SERIALIZATION, 400, "SerializationException", 400, "Malformed Request")                        \
	X(ERR_UNKNOWN_OPERATION, 400, "UnknownOperationException", 404, "Not Found")                         \
	X(ERR_CONDITION, 400, "ConditionalCheckFailedException", 409, "Conflict")                            \
	X(ERR_CANCELLED, 400, "TransactionCanceledException", 409, "Conflict")                               \
	X(ERR_TOKEN_MISMATCH, 400, "IdempotentParameterMismatchException", 422, "Idempotency Key Reused")    \
	X(ERR_NO_RESOURCE, 400, "ResourceNotFoundException", 404, "Not Found")                               \
	X(ERR_RESOURCE_IN_USE, 400, "ResourceInUseException", 409, "Conflict")                               \
	X(ERR_STALE, 412, "PreconditionFailed", 412, "Precondition Failed")                                  \
	X(ERR_NO_MATCH, 428, "PreconditionRequired", 428, "Precondition Required")                           \
	X(ERR_LIMIT, 400, "LimitExceededException", 409, "Limit Exceeded")                                   \
	X(ERR_COLLECTION_SIZE, 400, "ItemCollectionSizeLimitExceededException", 409, "Limit Exceeded")       \
	X(ERR_ACCESS, 400, "AccessDeniedException", 403, "Forbidden")                                        \
	X(ERR_NO_CREDENTIAL, 400, "MissingAuthenticationTokenException", 401, "Unauthorized")                \
	X(ERR_SIGNATURE_INCOMPLETE, 400, "IncompleteSignatureException", 401, "Unauthorized")                \
	X(ERR_SIGNATURE, 400, "InvalidSignatureException", 401, "Unauthorized")                              \
	X(ERR_THROTTLED, 400, "ThrottlingException", 429, "Too Many Requests")                               \
	X(ERR_UNKNOWN_KEY, 400, "UnrecognizedClientException", 401, "Unauthorized")                          \
	X(ERR_NOT_FOUND, 404, "UnknownOperationException", 404, "Not Found")                                 \
	X(ERR_TOO_LARGE, 413, "RequestEntityTooLarge", 413, "Content Too Large")                             \
	X(ERR_STORAGE, 500, "InternalServerError", 500, "Outcome Unknown")                                   \
	X(ERR_OVERLOADED, 503, "ServiceUnavailable", 503, "Service Unavailable")                             \
	X(ERR_DISK_FULL, 503, "ServiceUnavailable", 503, "Service Unavailable")

enum err_code {
	ERR_NONE = 0,
#define X(code, status, name, v1_status, v1_title) code,
	ERR_CODES(X)
#undef X
};

enum { ERR_TEXT_MAX = 2048, ERR_FIELD_MAX = 128 };

struct err {
	enum err_code code;
	char          text[ERR_TEXT_MAX]; /* for people; never holds a secret, an email or an address */
	char field[ERR_FIELD_MAX];        /* what it is about: "context.ip"; empty unless err_field set it */
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

#endif
