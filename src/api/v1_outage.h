/* V1 without tables: how a call goes on while its tables, which are elsewhere, do not answer (service/outage.h), and one about a subject that
 * was refused a moment ago. Only calls that say whom they are about (v1_call.who); all others fail as their tables do.
 *
 *   v1_is_out ------ yes --> v1_run_degraded                    the circuit is open, or attempts of the subject wait to be merged
 *   v1_is_denied --- yes --> answered                           from what was read a moment ago
 *   the call itself -- v1_may_take_over --> v1_run_degraded     nobody answered, and nothing of it can have been done
 *
 * On a thread of the store's. */
#ifndef API_V1_OUTAGE_H
#define API_V1_OUTAGE_H

#include "api/v1.h"

bool v1_is_out(const struct v1_call *c, const struct table *t);

/* Then it has run, and refuses. */
bool v1_is_denied(struct v1_call *c, const struct table *t);

/* It has run; if it refuses, that is remembered. */
void v1_note_denied(const struct v1_call *c, const struct table *t);

/* It failed: may it be decided here instead? */
bool v1_may_take_over(const struct v1_call *c, enum err_code rc);

/* Decides on what was last known, and records what that changes. */
enum err_code v1_run_degraded(struct v1_call *c, struct table *t, struct err *err);

#endif
