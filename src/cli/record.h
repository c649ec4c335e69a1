/* Record: what a command did, told to the audit log, with who ran it. A line that cannot be written is logged: what was done stays
 * done. */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H

#include <sys/types.h>

#include "access/credential.h"

/* `act` is "key.create" and the like; `run_by` ran the command; `key` is NULL if it was about all of them. */
void record_key(const char *data_dir, uid_t run_by, const char *act, const struct credential *key);

/* A new key signs device tokens. Its id is no secret: it stands in every token. */
void record_device_key(const char *data_dir, uid_t run_by, const char *id);

#endif
