/* Act: requests that administer tables, told to the audit log (base/audit.h) once they are done. */
#ifndef API_ACT_H
#define API_ACT_H

#include "api/call.h"
#include "base/audit.h"

struct act_note {
	const struct call *call;
	enum err_code      outcome;
	struct bytes       request_id;
	struct bytes       key_id; /* empty: nobody was asked */
};

/* Writes a line if the call changed a table, or may have: an outcome of 5xx does not say. On the loop, after
 * the commit: it never waits. */
void act_write(struct audit *audit, const struct act_note *note);

#endif
