/* Adopting: addresses of users that others wrote through DynamoDB's protocol, without a marker. A job (job.h) of the kind `adopt`
 * reads the table `users` and makes of each such address what user_email.h promises, if that takes nothing from anybody.
 *
 *   address is free                    its marker is written, GSI1 is set, and the address is normalised        adopted
 *   the marker is its own              what else is wrong is put right, its id among the user's (alias.h) too   repaired
 *   another user or row has it         nothing; it is reported                                                  conflicts
 *   it is no address, or of no user    nothing; it is reported                                                  invalid, orphans
 *   it does not say isVerified         nothing; it is reported                                                  unstated
 *
 * What always holds
 * (1) No marker is taken from an address that is there, but for a claim, which yields to an address that is verified. One whose address is
 *     gone is free.
 * (2) An address that is not verified ends, as a claim does: EMAIL_CLAIM_S after it was adopted, unless it says when. It is not
 *     primary. Where claims have no markers (services.claims_verified) it gets none.
 * (3) A verified address becomes the primary one if its user has none, and is primary no longer if the user has another.
 * (4) A dry run counts and reports the same, and changes nothing. (Of two rows that want the same free address it finds both free.) */
#ifndef SERVICE_ADOPT_H
#define SERVICE_ADOPT_H

#include "service/job.h"

enum {
	ADOPT_RATE = 20000, /* rows per second, read or changed */
	ADOPT_PAGE = 200,
	ADOPT_ROWS_EACH = 8,      /* that one address may change or rest on */
	ADOPT_REPORTED_MAX = 100, /* of what is left as it is */
};

extern const struct job_kind adopt_job;

/* One at a time. ERR_NOT_NOW: a dry run runs, and this is to be none, or the other way round. */
enum err_code adopt_start(struct context *ctx, const struct job_new *terms, struct job_started *out,
                          struct err *err);

#endif
