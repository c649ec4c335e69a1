/* When the registration of a device lapses: device.expired is published at that second. A due row (due.h) of a device:
 *
 *   DUE#7   001794789304#<hash>   subject (the user), device, platform, until
 *
 * and on the device's own row `expiryDueAt`, the second of its due row.
 *
 * An app registers at every launch, and each time its registration ends later. To move the due row along would double what a launch writes. So it stays where it is, and
 * when its time comes the worker moves it to where the registration ends by then.
 *
 * What always holds
 * (1) A device that is registered while device.expired is on has one due row, not later than its end. One that was registered while the type was off gets its due row with the next
 *     registration; so does one whose row others wrote.
 * (2) The due row goes with the device's: whoever deletes that calls push_due_end. So what was removed, moved or erased does not lapse.
 * (3) If the device lapsed and that was not published yet, the commit that registers it anew publishes it first. */
#ifndef SERVICE_PUSH_DUE_H
#define SERVICE_PUSH_DUE_H

#include "service/due.h"

/* The row of a device is about to be written, with a new end. found: it is there already. (1), (3) */
enum err_code push_due_keep(struct context *ctx, struct row *row, bool found, struct err *err);

/* (2) */
void push_due_end(struct context *ctx, const struct item *row);

/* For the worker: publishes it if the device has lapsed, or follows the device. *told: it was published. */
enum err_code push_due_tell(struct context *ctx, const struct due *d, bool *told, struct err *err);

#endif
