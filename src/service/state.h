/* States: what other systems say of a subject. Rows FAMILY#STATE#NAME.
 *
 *   intervention   BLOCKED keeps the subject out (assess.c); REPROVE_IDENTITY and RESET_PASSWORD demand something
 *                  of it; SUSPENDED keeps it out unless one of these says how to get back in
 *   email_fraud    PENDING lets through, ALLOWED too, BLOCKED keeps out for a time
 *
 * What always holds
 * (1) Interventions are applied in the order of applied_at, whatever the order they come in: one that is older
 *     than the latest one applied changes nothing.
 * (2) A demand for a new password is void once the password was reset later than its applied_at, whichever
 *     of the two comes first.
 * (3) Of email_fraud at most one state is there. */
#ifndef SERVICE_STATE_H
#define SERVICE_STATE_H

#include "service/change.h"

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
	bool    applied;                   /* false: an intervention of latest_s is newer (1) */
	int64_t latest_s;                  /* applied_at of the latest one, this one included */
	bool    is_void;                   /* it demanded a new password, which was set since (2) */
	bool    flags[INTERVENTION_COUNT]; /* as they are now */
};

const char *intervention_name(enum intervention_flag flag); /* "blocked" */

enum err_code intervention_apply(const struct intervention *q, struct bytes table, struct table *t,
                                 struct changes *c, struct intervention_result *out, struct err *err);

/* In the order of email_fraud_names. */
enum email_fraud { EMAIL_FRAUD_PENDING, EMAIL_FRAUD_ALLOW, EMAIL_FRAUD_DENY };
extern const char *const email_fraud_names[EMAIL_FRAUD_STATE_COUNT + 1]; /* as requests say them; NULL last */

/* *until_s: when it ends by itself; 0: it does not. */
void email_fraud_set(struct bytes subject, enum email_fraud state, int64_t duration_s, struct bytes table,
                     int64_t now_us, struct changes *c, int64_t *until_s);

/* A family of states: "intervention", "email_fraud"; as requests name them, NULL last. */
enum state_family { FAMILY_INTERVENTION, FAMILY_EMAIL_FRAUD };
extern const char *const state_family_names[];

enum { STATES_MAX = INTERVENTION_COUNT };

/* Removes all of a family; `names` are those that were there, as requests say them. What was applied latest
 * stays known (1). */
enum err_code states_clear(struct bytes subject, enum state_family family, struct bytes table,
                           struct table *t, struct changes *c, const char *names[STATES_MAX], uint32_t *count,
                           struct err *err);

/* ---- what does not keep a subject out, but must be told ---- */

enum { STATES_REQUIRED_MAX = 2 };

struct states_required {
	const char *list[STATES_REQUIRED_MAX]; /* "reset_password", "reprove_identity": each at most once */
	uint32_t    count;
	bool        email_fraud_pending;
};

/* Of all these subjects together. */
enum err_code states_required(const struct bytes *subjects, uint32_t count, struct bytes table,
                              struct table *t, struct arena *a, struct states_required *out, struct err *err);

#endif
