/* Audit: who administered what, and when: one JSON object per line, appended to DIR/audit.log (mode 0600) and
 * synced. docs/operations.md says which lines there are and what they hold.
 *
 * A caller never waits for the disk: lines go to a thread that writes them in order, all that wait at a
 * time. The file is opened for each such writing, so it may be moved away (logrotate) at any moment, and
 * several processes may write to it. What cannot be written is logged, counted and lost: it is no reason to
 * stop serving.
 *
 * No secret, token, email or address is ever passed here. */
#ifndef BASE_AUDIT_H
#define BASE_AUDIT_H

#include "base/err.h"
#include "base/log.h"

enum { AUDIT_PENDING_BYTES_MAX = 1024 * 1024, AUDIT_STOP_MS = 5000 };

struct audit;

/* ERR_STORAGE if there is no thread to be had. The file is not touched yet. */
enum err_code audit_open(struct audit **out, const char *data_dir, struct err *err);

/* Writes what waits, and no more after that. True: every line since it was opened is on the disk. Still to be closed. */
bool audit_stop(struct audit *a);

/* Writes what waits, then ends. False if the disk takes longer than AUDIT_STOP_MS: that is logged, what waits may be lost, and the
 * audit stays as it is, to be closed again or left behind. */
bool audit_close(struct audit *a);

/* `act` is "noun.verb". Any thread. With NULL nothing is written. */
void audit_write(struct audit *a, const char *act, const struct log_field *fields, unsigned count);

/* Lines that could not be written, since it was opened. */
uint64_t audit_lost(const struct audit *a);

#endif
