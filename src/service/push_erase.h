/* Erasing the devices of a user: a job (job.h) of the kind `device-erase`.
 *
 *   the call           as many devices as a commit has room for, with their tokens and lanes; the job starts
 *   devices            the others, but none that was registered after the call
 *   each sweep         what is kept about them elsewhere: markers of devices that somebody deleted without us, recipients of
 *                      messages, answers kept for retries
 *
 * Once it is done it is the receipt: it counts what went, and names the user by a keyed hash alone. Events stay as they are, with
 * the ids of devices and no tokens: erase.h takes those too. */
#ifndef SERVICE_PUSH_ERASE_H
#define SERVICE_PUSH_ERASE_H

#include "service/job.h"
#include "service/push_device.h"

extern const struct job_kind push_erase;

/* Erases what it can, and starts the job that goes on from there. Calls of one second share it. */
enum err_code push_erase_start(struct context *ctx, struct bytes user, struct push_erased *out,
                               struct job_started *receipt, struct err *err);

#endif
