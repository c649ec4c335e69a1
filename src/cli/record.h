/* Record: what a command did to the access keys, told to the audit log, with who ran it. */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H

#include "access/credential.h"

/* `act` is "key.create" and the like. A line that cannot be written is logged: what was done stays done. */
void record_key(const char *data_dir, const char *act, const struct credential *key);

#endif
