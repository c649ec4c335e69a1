/* Key names: the shape of every sort key in auth-state, in one place.
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
 *   EMAIL_FRAUD#STATE#BLOCKED                              and PENDING, ALLOWED
 *
 *   RESERVATION                                            under ATTEMPT#…: an attempt that was begun
 *   RIGHT_SINCE#pk#sk                                      under ATTEMPT#…: how many in a count that a lock removed were right
 *
 * The partition key is a subject id, or "ip:…" for what is counted of a source whatever the subject. */
#ifndef SERVICE_KEY_NAMES_H
#define SERVICE_KEY_NAMES_H

#include "base/arena.h"

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
#define KEY_EMAIL_FRAUD  "EMAIL_FRAUD"

/* The key of a state that is known beforehand; key_state makes the others. */
#define KEY_OF_STATE(family, state) family "#" KEY_STATE "#" state

/* An empty qualifier is left out. */
struct bytes key_name(struct arena *a, struct bytes journey, struct bytes type, struct bytes classifier,
                      struct bytes qualifier);
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

#endif
