/* Credential file: DIR/keys.json, read and written whole. Used by keyring.c and credential.c only. */
#ifndef ACCESS_CREDENTIAL_FILE_H
#define ACCESS_CREDENTIAL_FILE_H

#include "access/credential.h"

/* ERR_NO_RESOURCE if there is no file and none was made; ERR_STORAGE if it is lost, or its seal does not match;
 * ERR_INVALID, naming file and key, if it is not what credential_file_write writes, or if the policy of a key in
 * force is not for `region`. The command line leaves the region empty: it must be able to revoke such a key. */
enum err_code credential_file_read(const char *data_dir, struct bytes region, struct credentials **out,
                                   struct err *err);
/* Whatever its seal says, and for any region. */
enum err_code credential_file_read_unsealed(const char *data_dir, struct credentials **out, struct err *err);

/* Written aside, synced and renamed: a crash leaves the old file or the new one. */
enum err_code credential_file_write(const char *data_dir, struct bytes region, const struct credential *list,
                                    uint32_t count, struct err *err);

/* Writes the server's region down, under the lock. */
enum err_code credentials_set_region(const char *data_dir, struct bytes region, struct err *err);

/* Holds DIR/keys.lock until *fd is closed. */
enum err_code credential_file_lock(const char *data_dir, int *fd, struct err *err);

#endif
