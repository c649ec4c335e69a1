/* Cognito: a user of a pool of Amazon Cognito's as a record (sync.h). A trigger's event and the answers of its API name the same
 * attributes:
 *
 *   sub                              id
 *   email, email_verified            email, emailVerified
 *   given_name, family_name          firstName, lastName
 *   phone_number                     phone, if it is in E.164
 *   custom:NAME                      attributes.NAME, if that can be one
 *
 * Others are left out, and so is what cannot be stored here: a user is not refused because of its name. */
#ifndef SERVICE_COGNITO_H
#define SERVICE_COGNITO_H

#include "service/sync.h"

/* Takes an attribute into the record; its texts are copied into the arena if they are changed, and not otherwise. */
void cognito_attribute(struct arena *a, struct sync_record *q, struct bytes name, struct bytes value);

/* After the last one: is it a user who can be one here? `q->name` is set. */
bool cognito_complete(struct sync_record *q);

#endif
