/* Rows: where services keep what they know. The key of every row, and rows as services build and read them: attributes by name, texts
 * and whole numbers, and conditions on them. */
#ifndef SERVICE_ROW_H
#define SERVICE_ROW_H

#include "service/tables.h"

/* ---- keys ----
 *
 * The shape of every sort key in auth-state, in one place.
 *
 *   JOURNEY#CLASSIFIER_TYPE#CLASSIFIER[#QUALIFIER]
 *
 *   SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY                     failures of a subject
 *   SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY#SMS                 … by method or device
 *   SIGN_IN#REQUEST_COUNT#MFA_CODE_REQUEST#MFA_SMS         codes asked for, by notification type
 *   SIGN_IN#LOCK#PASSWORD_ENTRY[#QUALIFIER]                a lock
 *   SIGN_IN#SHADOW_LOCK#PASSWORD_ENTRY                     one of a rule in shadow mode: nothing heeds it
 *   SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY                      how many locks there were, for those that grow
 *   SIGN_IN#SOURCE_ERROR_COUNT#PASSWORD_ENTRY#ip:…         failures from one source
 *   SIGN_IN#SOURCE_LOCK#PASSWORD_ENTRY#ip:…
 *   SIGN_IN#DEVICE_ERROR_COUNT#PASSWORD_ENTRY              failures of all known devices together
 *   DEVICE#COOKIE#…                                        a known device, and its own failures
 *   DEVICE#ISSUED#COUNT                                    how many tokens were issued
 *   ACCOUNT_INTERVENTION#STATE#BLOCKED                     and SUSPENDED, REPROVE_IDENTITY, RESET_PASSWORD
 *   ACCOUNT_INTERVENTION#APPLIED#LATEST                    when the last intervention was applied
 *   ACCOUNT_INTERVENTION#RESET#PASSWORD                    when the password was last reset; and IDENTITY: proved again
 *   SIGN_IN#RESET#PASSWORD_ENTRY                           its credential was reset lately: ends what was begun before (reservation.h)
 *   EMAIL_FRAUD#STATE#BLOCKED                              and PENDING, ALLOWED
 *   SOURCE#SEEN#RECENT                                     where a subject's attempts came from (attempt_event.h)
 *
 *   RESERVATION                                            under ATTEMPT#…: an attempt that was begun
 *   RIGHT_SINCE#pk#sk                                      under ATTEMPT#…: how many in a count that a lock removed were right
 *
 * The partition key is a subject id, or "ip:…" for what is counted of a source whatever the subject. */

#define KEY_LOCK         "LOCK"
#define KEY_SHADOW_LOCK  "SHADOW_LOCK"
#define KEY_LOCK_LEVEL   "LOCK_LEVEL"
#define KEY_SOURCE_COUNT "SOURCE_ERROR_COUNT"
#define KEY_SOURCE_LOCK  "SOURCE_LOCK"
#define KEY_DEVICE_COUNT "DEVICE_ERROR_COUNT"
#define KEY_DEVICE_LOCK  "DEVICE_LOCK" /* of the scheme before device tokens: nothing heeds it */
#define KEY_STATE        "STATE"
#define KEY_COOKIE       "COOKIE"
#define KEY_ISSUED       "ISSUED"
#define KEY_RESERVATION  "RESERVATION"
#define KEY_RIGHT_SINCE  "RIGHT_SINCE"
#define KEY_APPLIED      "APPLIED"
#define KEY_RESET        "RESET"
#define KEY_INTERVENTION "ACCOUNT_INTERVENTION"
#define KEY_SEEN         "SEEN"
#define KEY_EMAIL_FRAUD  "EMAIL_FRAUD"

/* The key of a state that is known beforehand; key_state makes the others. */
#define KEY_OF_STATE(family, state) family "#" KEY_STATE "#" state

/* An empty qualifier is left out. */
struct bytes key_name(struct arena *a, struct bytes journey, struct bytes type, struct bytes classifier,
                      struct bytes qualifier);
struct bytes key_under(struct arena *a, struct bytes name,
                       struct bytes qualifier);              /* of such a key without one */
struct bytes key_device(struct arena *a, struct bytes name); /* an empty name: what all begin with */
struct bytes key_devices_issued(struct arena *a);
struct bytes key_reservation(struct arena *a, struct bytes name); /* a partition key */
struct bytes key_state(struct arena *a, const char *family, const char *state);
struct bytes key_applied(struct arena *a);                      /* of the last intervention */
struct bytes key_demand_met(struct arena *a, const char *what); /* "PASSWORD", "IDENTITY": the last time */

/* A key taken apart; parts that are not there are empty. */
struct key_parts {
	struct bytes journey, type, classifier, qualifier;
};

struct key_parts key_split(struct bytes sk);

/* Is it a key of that name, with or without a qualifier? "A#B#C" and "A#B#C#d" are of "A#B#C"; "A#B#CD" is not. */
bool key_is_under(struct bytes sk, struct bytes name);

/* Is it that of a lock: of a subject, a source, both, or in shadow mode? */
bool key_is_lock(struct bytes sk);

/* ---- rows by attribute ---- */

/* A row under construction. */
struct row {
	struct arena *arena;
	struct item   item;
	uint32_t      room; /* how many attributes it can hold before it grows */
};

void row_init(struct row *r, struct arena *a);
void row_from(struct row *r, struct arena *a, const struct item *item); /* begins as a copy of an item */
void row_remove(struct row *r, const char *name);
struct item row_item(struct row *r); /* sorted */

/* The value of that name; if there was none there is one now, to be set. Valid until the next is set. */
struct value *row_attribute(struct row *r, struct bytes name);

/* Inline, as all that takes names: the compiler computes their length. */
static inline void row_set(struct row *r, const char *name, struct value value)
{
	*row_attribute(r, bytes_of(name)) = value;
}

static inline void row_set_text(struct row *r, const char *name, struct bytes text)
{
	row_set(r, name, value_string(text));
}

static inline void row_set_i64(struct row *r, const char *name, int64_t number)
{
	row_set(r, name, value_i64(number));
}

/* Keys. */
struct item row_key_one(struct arena *a, struct bytes pk);
struct item row_key_two(struct arena *a, struct bytes pk, struct bytes sk);

/* The same, with the names that a table's keys have; sk is not looked at if it has no range key. */
struct item row_key_in(struct arena *a, enum service_table which, struct bytes pk, struct bytes sk);

/* The rows of a partition whose sort keys begin like that; empty: all. */
struct expr_key_condition row_prefix(struct bytes pk, struct bytes prefix);

/* Attributes; empty or `otherwise` if absent or of another type. */
struct bytes value_text(const struct value *v);
int64_t      value_to_i64(const struct value *v, int64_t otherwise);

static inline struct bytes row_text(const struct item *item, const char *name)
{
	return value_text(item_get(item, bytes_of(name)));
}

/* Somebody else may have written a number at the very end of its range, where one more is none: none is further out than this. */
#define ROW_I64_MAX (INT64_MAX / 2)

static inline int64_t row_i64(const struct item *item, const char *name, int64_t otherwise)
{
	int64_t number = value_to_i64(item_get(item, bytes_of(name)), otherwise);

	return number > ROW_I64_MAX ? ROW_I64_MAX : number < -ROW_I64_MAX ? -ROW_I64_MAX : number;
}

/* Expired = absent, at the second, whether or not the backend hides it. */
static inline bool row_expired(const struct item *item, const char *ttl, int64_t now_us)
{
	int64_t end_s = row_i64(item, ttl, 0);

	return end_s > 0 && end_s <= now_us / 1000000;
}

/* A row that is looked at: its key, and what was there. */
struct looked {
	struct looked *next; /* of a list */
	struct bytes   pk, sk;
	struct member  key[2]; /* the same, as a key: filled when it is looked at */
	bool           loose;  /* nothing rests on it unless ctx_rests_on says so */
	bool           answered;
	bool           blind; /* "absent" is a guess about a row of which nothing is known (foresight.h) */
	bool           found;
	bool           no_table; /* nor is there a table */
	uint32_t       round;    /* of foresight.h that it was read in; 0: it was read at once */
	struct item    item;     /* if found */
};

void looked_init(struct looked *l, struct bytes pk, struct bytes sk); /* sk.data NULL: there is none */

/* Conditions. Absent: there is no such row, or an expired one (ttl "": none expires). Same: these attributes are as they were read. */
const struct expr *row_absent(struct arena *a, const char *hash, const char *ttl, int64_t now_us);
const struct expr *row_same(struct arena *a, const struct item *read, const char *const *names);

/* The same, and a number is at most so large: for counts that others may raise meanwhile. */
const struct expr *row_same_up_to(struct arena *a, const struct item *read, const char *const *names,
                                  const char *number, int64_t most);

/* The condition, if there is one, and that the row does not have that text there. */
const struct expr *row_and_other(struct arena *a, const struct expr *condition, const char *name,
                                 struct bytes text);

/* For scans: rows that may be locks. Those that say there is none (`count` 0), as rows of failures in a row mostly do, are not. */
const struct expr *row_is_lock(struct arena *a);

#endif
