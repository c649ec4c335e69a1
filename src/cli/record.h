/* Record: what a command did to the access keys, told to the audit log, with who ran it. */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H

#include <sys/types.h>

#include "access/credential.h"

/* `act` is "key.create" and the like; `run_by` ran the command; `key` is NULL if it was about all of them. A line that cannot be written is logged: what was done stays done. */
void record_key(const char *data_dir, uid_t run_by, const char *act, const struct credential *key);

#endif
