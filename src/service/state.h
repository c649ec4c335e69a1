/* States: what other systems say of a subject. Rows FAMILY#STATE#NAME.
 *
 *   intervention   BLOCKED keeps the subject out (assess.c); REPROVE_IDENTITY and RESET_PASSWORD demand something
 *                  of it; SUSPENDED keeps it out unless one of these says how to get back in
 *   email_fraud    PENDING lets through, ALLOWED too, BLOCKED keeps out for a time
 *
 * What always holds
 * (1) Interventions are applied in the order of applied_at, whatever the order they come in: one that is older
 *     than the latest one applied changes nothing.
 * (2) A demand is void once it was met later than its applied_at, whichever of the two Gatehouse hears of
 *     first: a new password meets RESET_PASSWORD, a new proof of identity meets REPROVE_IDENTITY.
 * (3) The suspension that came with a demand (they have the same applied_at) ends when that demand is met, and with
 *     two demands when both are. Every other suspension, and BLOCKED, stays until a person lifts it.
 * (4) Of email_fraud at most one state is there. */
#ifndef SERVICE_STATE_H
#define SERVICE_STATE_H

#include "service/context.h"
#include "service/verdict.h"

enum {
	STATE_AHEAD_MAX_S = 300,    /* an intervention may come from a clock that is so much ahead */
	EMAIL_FRAUD_DENY_S = 900,   /* unless said otherwise */
	EMAIL_FRAUD_STATE_COUNT = 3 /* PENDING, ALLOW, DENY */
};

/* X(id, name in requests, name in keys, block_type or "") */
#define INTERVENTIONS(X)                                                                                     \
	X(INTERVENTION_BLOCKED, "blocked", "BLOCKED", "PERMANENT")                                           \
	X(INTERVENTION_SUSPENDED, "suspended", "SUSPENDED", "PERMANENT")                                     \
	X(INTERVENTION_REPROVE, "reprove_identity", "REPROVE_IDENTITY", "")                                  \
	X(INTERVENTION_RESET, "reset_password", "RESET_PASSWORD", "")

enum intervention_flag {
#define X(id, name, key, block_type) id,
	INTERVENTIONS(X)
#undef X
	        INTERVENTION_COUNT
};

enum flag_change { FLAG_AS_IT_IS, FLAG_OFF, FLAG_ON };

struct intervention {
	struct bytes     subject;
	enum flag_change flags[INTERVENTION_COUNT];
	int64_t          applied_s;
};

struct intervention_result {
	bool    applied;                     /* false: an intervention of latest_s is newer (1) */
	int64_t latest_s;                    /* applied_at of the latest one, this one included */
	bool    flags[INTERVENTION_COUNT];   /* as they are now */
	bool    is_void[INTERVENTION_COUNT]; /* it was to be set, but was met since (2), (3) */
};

const char *intervention_name(enum intervention_flag flag); /* "blocked" */

enum err_code intervention_apply(struct context *ctx, const struct intervention *q,
                                 struct intervention_result *out, struct err *err);

/* In the order of email_fraud_names. */
enum email_fraud { EMAIL_FRAUD_PENDING, EMAIL_FRAUD_ALLOW, EMAIL_FRAUD_DENY };
extern const char *const email_fraud_names[EMAIL_FRAUD_STATE_COUNT + 1]; /* as requests say them; NULL last */

struct email_fraud_new {
	struct bytes     subject;
	enum email_fraud state;
	int64_t          duration_s; /* of EMAIL_FRAUD_DENY */
};

/* *until_s: when it ends by itself, in seconds since 1970; 0: it does not. */
enum err_code email_fraud_set(struct context *ctx, const struct email_fraud_new *q, int64_t *until_s,
                              struct err *err);

/* A family of states: "intervention", "email_fraud"; as requests name them, NULL last. */
enum state_family { FAMILY_INTERVENTION, FAMILY_EMAIL_FRAUD };
extern const char *const state_family_names[];

enum { STATES_MAX = INTERVENTION_COUNT };

/* Those that were there, as requests say them. */
struct states_cleared {
	const char *names[STATES_MAX];
	uint32_t    count;
};

/* Removes all of a family. What was applied latest stays known (1). */
enum err_code states_clear(struct context *ctx, struct bytes subject, enum state_family family,
                           struct states_cleared *out, struct err *err);

/* The subject did what was demanded of it. Ends the demand, and the suspension that came with it (3). */
struct demand_met {
	bool demand_ended, suspension_ended; /* there was one */
};

enum err_code demand_meet(struct context *ctx, struct bytes subject, enum intervention_flag demand,
                          struct demand_met *out, struct err *err);

/* ---- what states mean for an attempt ---- */

/* The rows that may matter. Whoever assesses an attempt reads them together with its own. */
enum state_row {
	STATE_BLOCKED,
	STATE_SUSPENDED,
	STATE_REPROVE,
	STATE_RESET,
	STATE_FRAUD_BLOCKED,
	STATE_FRAUD_PENDING,
	STATE_ROW_COUNT
};

/* Its sort key. */
struct bytes state_row_key(enum state_row row);

/* What does not keep a subject out, but must be told. */
enum { STATES_REQUIRED_MAX = 2 };

struct states_required {
	const char *list[STATES_REQUIRED_MAX]; /* "reset_password", "reprove_identity": each at most once */
	uint32_t    count;
	bool        email_fraud_pending;
};

/* Adds what the other requires, each once. */
void states_required_join(struct states_required *r, const struct states_required *other);

/* Those rows of one subject, and what they are added to. */
struct states_seen {
	struct bytes            subject;
	const struct item      *rows[STATE_ROW_COUNT]; /* NULL: it is not there */
	struct verdict         *verdict;
	struct states_required *required;
};

enum err_code states_judge(struct context *ctx, const struct states_seen *seen, struct err *err);

#endif
