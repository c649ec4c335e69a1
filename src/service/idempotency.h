/* Idempotency: an answer kept for a day under the key that its caller chose, so that a retry gets the same
 * answer and nothing happens twice. The row is written in the same commit as what the request changed. */
#ifndef SERVICE_IDEMPOTENCY_H
#define SERVICE_IDEMPOTENCY_H

#include "base/crypto.h"
#include "service/context.h"

enum {
	IDEMPOTENCY_KEY_MAX = 255,
	IDEMPOTENCY_LIFE_S = 24 * 3600,
	/* So long a row stays on a table that is not alone: its request may wait in a spool, and be merged days later (outage.h, 1). The answer is
	 * told no longer for that: a key may be used again after IDEMPOTENCY_LIFE_S. */
	IDEMPOTENCY_MARK_S = 8 * 86400,
};

struct idempotency {
	struct bytes key;                  /* a keyed hash of what was sent; empty: the request has none */
	struct bytes caller;               /* whose key it is: two callers may choose the same */
	uint8_t      digest[SHA256_BYTES]; /* of method, path and body, keyed */
	int64_t mark_s; /* how long the row stays at least, from the table's time on; 0: as is said above */
	struct bytes
	        about; /* the subject of the answer, if there is one: its row is found when that is erased */
};

struct kept_answer {
	bool         found;
	int          status;
	struct bytes body;
};

/* ERR_TOKEN_MISMATCH if the key was used for another request. */
enum err_code idempotency_find(struct context *ctx, const struct idempotency *i, struct kept_answer *out,
                               struct err *err);

/* Its partition. */
struct bytes idempotency_key(const struct idempotency *i, struct arena *a);

/* When the answer in a row was kept. */
int64_t idempotency_kept_s(const struct item *row);

/* What a row says of its subject: a keyed hash. */
struct bytes idempotency_about(struct context *ctx, struct bytes subject);

/* Adds the row that keeps this answer, after idempotency_find of the same context found none: what that read is the condition. */
void idempotency_keep(struct context *ctx, const struct idempotency *i, int status, struct bytes body);

#endif
