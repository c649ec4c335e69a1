/* Cognito: a user of a pool of Amazon Cognito's as a record (sync.h). A trigger's event and the answers of its API name the same
 * attributes:
 *
 *   sub                              id
 *   email, email_verified            email, emailVerified
 *   given_name, family_name          firstName, lastName
 *   phone_number                     phone, if it is in E.164
 *   custom:NAME                      attributes.NAME, if that can be one
 *
 * Others are left out, and so is what cannot be stored here: a user is not refused because of its name.
 *
 * What `UserStatus` and `Enabled` mean for its standing (sync.h):
 *
 *   UNCONFIRMED                                    SYNC_UNCONFIRMED, enabled or not
 *   any other, not enabled; ARCHIVED, COMPROMISED  SYNC_BARRED
 *   CONFIRMED, EXTERNAL_PROVIDER                   SYNC_WELCOME
 *   RESET_REQUIRED, FORCE_CHANGE_PASSWORD          SYNC_WELCOME: the pool gives no tokens before there is a new password
 *   UNKNOWN, none, one that we do not know         SYNC_UNKNOWN */
#ifndef SERVICE_COGNITO_H
#define SERVICE_COGNITO_H

#include "service/sync.h"

/* Takes an attribute into the record; its texts are copied into the arena if they are changed, and not otherwise. */
void cognito_attribute(struct arena *a, struct sync_record *q, struct bytes name, struct bytes value);

enum sync_standing cognito_standing(struct bytes status, bool disabled);

/* After the last one: is it a user who can be one here? `q->name` is set. */
bool cognito_complete(struct sync_record *q);

#endif
