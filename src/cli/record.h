/* Record: what a command did, told to the audit log, with who ran it. False if the line is lost: what was done stays done, which is
 * printed, and the command's exit status is 1. */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H

#include <sys/types.h>

#include "access/credential.h"

/* `act` is "key.create" and the like; `run_by` ran the command; `key` is NULL if it was about all of them. */
bool record_key(const char *data_dir, uid_t run_by, const char *act, const struct credential *key);

/* A new key signs device tokens. Its id is no secret: it stands in every token. */
bool record_device_key(const char *data_dir, uid_t run_by, const char *id);

#endif
