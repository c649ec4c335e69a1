/* Verdicts: what a caller is told, and why. */
#ifndef SERVICE_VERDICT_H
#define SERVICE_VERDICT_H

#include "base/bytes.h"

/* In order: of several, the greatest counts. X(id, name, HTTP status with ?enforce=status) */
#define VERDICTS(X)                                                                                          \
	X(VERDICT_ALLOW, "allow", 200)                                                                       \
	X(VERDICT_CHALLENGE, "challenge", 403)                                                               \
	X(VERDICT_LIMITED, "limited", 429)                                                                   \
	X(VERDICT_LAPSED, "lapsed", 409)                                                                     \
	X(VERDICT_SIGNED_OUT, "signed_out", 403)                                                             \
	X(VERDICT_LOCKED, "locked", 423)                                                                     \
	X(VERDICT_LOCKED_PERMANENT, "locked_permanent", 423)                                                 \
	X(VERDICT_INVALID_TOKEN, "invalid_token", 401)                                                       \
	X(VERDICT_BLOCKED, "blocked", 403)

enum verdict_kind {
#define X(id, name, status) id,
	VERDICTS(X)
#undef X
	        VERDICT_COUNT
};

#define VERDICT_REASON_RISK "risk" /* of a rule's `at_risk` */

/* A lock that stands, also if something graver does. */
struct verdict_lock {
	bool         stands;
	struct bytes sk, block_type;
	int64_t      until_s; /* 0: it does not end by itself */
};

struct verdict {
	enum verdict_kind kind;
	const char       *reason;  /* for people and code: "lock", "intervention_blocked", … */
	int64_t           until_s; /* when it ends; 0: not by itself, or nothing to end */
	struct bytes      pk, sk;  /* the row that says so */
	struct bytes      block_type;

	/* verdict_add's: of all that was added, also the lesser ones */
	bool                joined;
	int64_t             last_s; /* when the last of it ends; 0: never */
	struct verdict_lock lock;   /* that ends last, if the verdict is not a lock itself */
};

/* What each is called, by its kind. */
extern const struct verdict_words {
	const char *name;
	int         status;
} verdict_words[];

/* How long to wait: two roundings of one moment, each up. */
struct verdict_wait {
	int64_t until_s; /* 0: nothing to wait for, or no end */
	int64_t whole_seconds;
};

struct verdict_wait verdict_wait(const struct verdict *v, int64_t now_us);
/* For all that was added to it, not only for the gravest. */
struct verdict_wait verdict_wait_all(const struct verdict *v, int64_t now_us);

/* The verdict's own lock, or the one that a graver verdict took the place of: of several, the one that ends last. */
struct verdict_lock verdict_lock(const struct verdict *v);

/* Keeps the graver of two; of two alike the one that ends later. Notes when the last of both ends, and the lock. */
void verdict_add(struct verdict *v, const struct verdict *other);

#endif
