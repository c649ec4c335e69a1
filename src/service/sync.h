/* Sync: users as an identity provider knows them. A record of the provider's is written here: created if the user is absent,
 * changed if something differs. It comes from a call, from a trigger of the provider's, or from reconciliation
 * (reconcile.h).
 *
 * What always holds
 * (1) The provider's id is the user's id. A user belongs to the first provider that syncs it, and another one is refused.
 * (2) The same record twice is the same as once: nothing is written unless something differs, and `version` stays.
 * (3) A record that says how old it is never replaces a newer one. Of two that say `sequence`, the greater is newer; else the
 *     one with the later time. One that says neither is always applied.
 * (4) A field that the record does not have stays as it is. An address becomes one of the user's if the provider says that it
 *     is verified: then it is verified here too, with its marker in the same commit. Others are left out.
 * (5) A deleted user, and one that is being erased, is refused (ERR_NOT_NOW): nothing is written about it.
 * (6) Whoever is refused has changed nothing: all that can refuse comes before the first write.
 *
 * In the user's row: `provider`, `providerUser` (its name there), `syncTime` (milliseconds), `syncSequence`. */
#ifndef SERVICE_SYNC_H
#define SERVICE_SYNC_H

#include <stdatomic.h>

#include "base/metric.h"
#include "service/user.h"

enum { SYNC_PROVIDER_BYTES_MAX = 64, SYNC_NAME_BYTES_MAX = 128 };

struct sync_record {
	struct bytes       provider, id;
	struct bytes       name;        /* of the user, at the provider; empty: its id */
	struct bytes       email;       /* normalised; empty: none */
	struct bytes       email_typed; /* (7) of user_email.h */
	bool               email_verified;
	struct user_fields fields;
	bool               has_time, has_sequence; /* (3) */
	int64_t            time_ms, sequence;
};

/* X(id, name) */
#define SYNC_OUTCOMES(X)                                                                                     \
	X(SYNC_CREATED, "created")                                                                           \
	X(SYNC_UPDATED, "updated")                                                                           \
	X(SYNC_UNCHANGED, "unchanged")                                                                       \
	X(SYNC_STALE, "stale")                                                                               \
	X(SYNC_DEAD_LETTERED, "dead_lettered")                                                               \
	X(SYNC_REFUSED, "refused")

enum sync_outcome {
#define X(id, name) id,
	SYNC_OUTCOMES(X)
#undef X
	        SYNC_OUTCOME_COUNT
};

extern const char *const sync_outcome_names[SYNC_OUTCOME_COUNT];

struct sync_result {
	enum sync_outcome outcome; /* one of the first four */
	struct user       user;    /* as it is now */
};

/* 1 to SYNC_PROVIDER_BYTES_MAX letters, digits, '-', '_' and '.'. */
bool sync_provider_is(struct bytes name);

/* ERR_EMAIL_TAKEN, ERR_LIMIT, ERR_USER_EXISTS (1), ERR_NOT_NOW (5), ERR_INVALID: too many attributes. */
enum err_code sync_apply(struct context *ctx, const struct sync_record *q, struct sync_result *out,
                         struct err *err);

/* (3) Is the record older than the one that this row was written from? */
bool sync_is_stale(const struct sync_record *q, const struct item *row);

/* ---- for the metrics ---- */

struct sync_numbers {
	struct metric_counter outcomes[SYNC_OUTCOME_COUNT];
	_Atomic uint64_t      dead_letters;      /* that wait, when somebody last looked */
	_Atomic uint64_t      sign_outs_pending; /* the same */
	struct metric_counter sign_outs, sign_out_failures;
};

/* A record ended like this, and that is durable. */
void sync_count(struct services *s, enum sync_outcome outcome);

#endif
