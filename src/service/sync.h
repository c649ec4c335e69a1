/* Sync: users as an identity provider knows them. A record of the provider's is written here: created if the user is absent,
 * changed if something differs. It comes from a call, from a trigger of the provider's, or from reconciliation
 * (reconcile.h).
 *
 * What always holds
 * (1) The provider's id is the user's id. A user belongs to the first provider that syncs it, and another one is refused.
 * (2) The same record twice is the same as once: nothing is written unless something differs, and `version` stays.
 * (3) A record that says how old it is never replaces a newer one. Of two that say `sequence`, the greater is newer; else the
 *     one with the later time. One that says neither is always applied.
 * (4) A field that the record does not have stays as it is, unless the record is complete (7). An address becomes one of the user's
 *     if the provider says that it is verified: then it is verified here too, with its marker in the same commit. Others are left
 *     out.
 * (5) A deleted user, one that is being erased, and one that was erased (erased.h) is refused (ERR_NOT_NOW): nothing is written
 *     about it.
 * (6) Whoever is refused has changed nothing: all that can refuse comes before the first write.
 * (7) A complete record is all that the provider knows. Its verified address becomes the primary one. What came from the provider
 *     before and is not in it goes, unless it is to be kept: fields, and the address that it replaces. What others set here stays.
 * (8) A record whose standing is SYNC_BARRED suspends the user, and one that is SYNC_WELCOME reactivates it if the row says that no
 *     person suspended it (user.h, 5). Nobody is created who is not known to be confirmed.
 * (9) A time further ahead than SYNC_LEEWAY_MS counts as now, in a record and in a row: it would be the newest for ever.
 *
 * In the user's row: `provider`, `providerUser` (its name there), `syncTime` (milliseconds), `syncSequence`, and what came from the
 * provider: `syncFields` ("firstName attributes.tier"), `syncEmailId`. */
#ifndef SERVICE_SYNC_H
#define SERVICE_SYNC_H

#include <stdatomic.h>

#include "base/metric.h"
#include "service/user.h"

enum {
	SYNC_PROVIDER_BYTES_MAX = 64,
	SYNC_NAME_BYTES_MAX = 128,
	SYNC_LEEWAY_MS = 60 * 1000, /* (9), as for tokens */
};

/* What the provider says of the account itself (8). */
enum sync_standing {
	SYNC_SAYS_NOTHING, /* a user who is created is active */
	SYNC_WELCOME,      /* it may sign in */
	SYNC_BARRED,       /* it may not: created as suspended, because tokens of it may be about */
	SYNC_UNCONFIRMED,  /* a sign-up that was not finished: left out */
	SYNC_UNKNOWN,      /* not created; one that is there is written, and its status stays */
};

struct sync_record {
	struct bytes       provider, id;
	struct bytes       name;        /* of the user, at the provider; empty: its id */
	struct bytes       email;       /* normalised; empty: none */
	struct bytes       email_typed; /* (7) of user_email.h */
	bool               email_verified;
	struct user_fields fields;
	bool               has_time, has_sequence; /* (3) */
	int64_t            time_ms, sequence;
	enum sync_standing standing;
	bool               fresh;    /* read from the provider just now: its standing is not stale (3) */
	bool               complete; /* (7) */
	bool               keeps;    /* … but what it does not have stays */
};

/* X(id, name) */
#define SYNC_OUTCOMES(X)                                                                                     \
	X(SYNC_CREATED, "created")                                                                           \
	X(SYNC_UPDATED, "updated")                                                                           \
	X(SYNC_UNCHANGED, "unchanged")                                                                       \
	X(SYNC_STALE, "stale")                                                                               \
	X(SYNC_LEFT_OUT, "left_out")                                                                         \
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
	enum sync_outcome outcome; /* one of the first five; SYNC_LEFT_OUT: there may be no user (8) */
	struct user       user;    /* as it is now */
};

/* 1 to SYNC_PROVIDER_BYTES_MAX letters, digits, '-', '_' and '.'. */
bool sync_provider_is(struct bytes name);

/* ERR_EMAIL_TAKEN, ERR_LIMIT, ERR_USER_EXISTS (1), ERR_NOT_NOW (5), ERR_INVALID: too many attributes, or an id or address
 * that is refused by now. */
enum err_code sync_apply(struct context *ctx, const struct sync_record *q, struct sync_result *out,
                         struct err *err);

/* (8) Of a record that was refused: who is barred there is suspended all the same, and created without anything else if it is absent. */
enum err_code sync_bar(struct context *ctx, const struct sync_record *q, struct err *err);

/* (3), (9) Is the record older than the one that this row was written from? */
bool sync_is_stale(const struct context *ctx, const struct sync_record *q, const struct item *row);

/* (9) The record as it is to be taken. */
struct sync_record sync_bounded(const struct context *ctx, const struct sync_record *q);

/* (5) ERR_NOT_NOW: a user of this id was erased. */
enum err_code sync_check_erased(struct context *ctx, struct bytes id, struct err *err);

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
