/* Err: the one error shape. A function that can fail returns an err_code and fills *err exactly when it
 * returns non-zero. Codes come from one list, with the HTTP status and the name DynamoDB's callers know
 * beside each, so that no second mapping exists.
 *
 * "Not found", "condition false", "locked" are results, not errors: they have no code here, except where
 * DynamoDB's protocol itself reports them as one (ERR_CONDITION, ERR_CANCELLED). */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/bytes.h"

/* X(code, HTTP status, public name) */
#define ERR_CODES(X)                                                                                         \
	X(ERR_INVALID, 400, "ValidationException")                                                           \
	X(ERR_SERIALIZATION, 400, "SerializationException")                                                  \
	X(ERR_UNKNOWN_OPERATION, 400, "UnknownOperationException")                                           \
	X(ERR_CONDITION, 400, "ConditionalCheckFailedException")                                             \
	X(ERR_CANCELLED, 400, "TransactionCanceledException")                                                \
	X(ERR_TOKEN_MISMATCH, 400, "IdempotentParameterMismatchException")                                   \
	X(ERR_NO_RESOURCE, 400, "ResourceNotFoundException")                                                 \
	X(ERR_RESOURCE_IN_USE, 400, "ResourceInUseException")                                                \
	X(ERR_LIMIT, 400, "LimitExceededException")                                                          \
	X(ERR_COLLECTION_SIZE, 400, "ItemCollectionSizeLimitExceededException")                              \
	X(ERR_ACCESS, 400, "AccessDeniedException")                                                          \
	X(ERR_NO_CREDENTIAL, 400, "MissingAuthenticationTokenException")                                     \
	X(ERR_SIGNATURE_INCOMPLETE, 400, "IncompleteSignatureException")                                     \
	X(ERR_SIGNATURE, 400, "InvalidSignatureException")                                                   \
	X(ERR_UNKNOWN_KEY, 400, "UnrecognizedClientException")                                               \
	X(ERR_NOT_FOUND, 404, "UnknownOperationException")                                                   \
	X(ERR_TOO_LARGE, 413, "RequestEntityTooLarge")                                                       \
	X(ERR_STORAGE, 500, "InternalServerError")                                                           \
	X(ERR_OVERLOADED, 503, "ServiceUnavailable")                                                         \
	X(ERR_DISK_FULL, 503, "ServiceUnavailable")

enum err_code {
	ERR_NONE = 0,
#define X(code, status, name) code,
	ERR_CODES(X)
#undef X
};

enum { ERR_TEXT_MAX = 2048 };

struct err {
	enum err_code code;
	char          text[ERR_TEXT_MAX]; /* for people; never holds a secret, an email or an address */
};

/* Fills *err and returns `code`, so that a failure is one line: return err_set(err, ERR_INVALID, "…"). */
enum err_code err_set(struct err *err, enum err_code code, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

int         err_status(enum err_code code);
const char *err_name(enum err_code code);

#endif
