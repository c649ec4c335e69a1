/* Act: requests that administer tables, subjects or policies, told to the audit log (base/audit.h) once they are
 * done. */
#ifndef API_ACT_H
#define API_ACT_H

#include "api/call.h"
#include "base/audit.h"

struct v1_call;

struct act_note {
	const struct call *call;
	enum err_code      outcome;
	struct bytes       request_id;
	struct bytes       key_id; /* empty: nobody was asked */
};

/* Writes a line if the call changed a table, or may have: an outcome of 5xx does not say. On the loop, after
 * the commit: it never waits. */
void act_write(struct audit *audit, const struct act_note *note);

/* The same for a route of /v1 that administers; one that changed several locks (POST /v1/unlock) has a line for each, all
 * with one request id. The subject is told if it can be no email or address: letters,
 * digits, - and _, or a hash of one. */
struct act_v1_note {
	const struct v1_call *call;
	enum err_code         outcome;
	struct bytes          request_id;
	struct bytes          key_id;
};

void act_write_v1(struct audit *audit, const struct act_v1_note *note);

#endif
