/* Secrets: the key files of a data directory that rows depend on, as part of an export: identifiers.key (addresses and emails are stored as
 * hashes made with it) and devices.key (it signs the tokens of known devices). In a data directory they are sealed to it (base/seal.h); in an
 * export they are not, so that another directory can take them. Worth as much there as here: files are for their owner only. */
#ifndef MIGRATE_SECRETS_H
#define MIGRATE_SECRETS_H

#include "base/err.h"

/* Copies those that DATA has into DIR. */
enum err_code secrets_export(const char *data, const char *dir, struct err *err);

/* Copies those of DIR into DATA, which is made if it is not there. ERR_INVALID: DATA has others already; nothing was changed. */
enum err_code secrets_import(const char *dir, const char *data, struct err *err);

#endif
