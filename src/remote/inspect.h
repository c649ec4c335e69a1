/* Inspect: what tables are at the endpoint, for whoever sets it up: the start of a server, `gatehouse tables`. An error says what is wrong
 * and what to do about it, in words for that person. Any thread. */
#ifndef REMOTE_INSPECT_H
#define REMOTE_INSPECT_H

#include "remote/remote.h"

/* Keys, indexes and time to live, in two requests; what they tell is kept for the calls that follow. ERR_NO_RESOURCE: there is no such
 * table. */
enum err_code remote_look(struct remote *r, struct arena *a, struct bytes table, struct table_schema *out,
                          struct err *err);

/* ERR_INVALID, with what to do: it has no transactions. The key is of any row of that table, and neither need be there. */
enum err_code remote_transactions_check(struct remote *r, struct arena *a, const struct table_get *any,
                                        struct err *err);

/* Whether the endpoint told. */
enum told {
	TOLD,
	TOLD_UNKNOWN, /* it does not know the operation: not every endpoint has it */
	TOLD_DENIED,  /* we may not ask */
};

struct table_state {
	struct table_description there;   /* its tags only if tags_told */
	struct bytes             status;  /* "ACTIVE" */
	struct bytes             kms_key; /* empty: a key that the endpoint owns */
	bool                     recovery;
	enum told                recovery_told, tags_told;
};

/* All there is to know, in four requests. */
enum err_code remote_inspect(struct remote *r, struct arena *a, struct bytes table, struct table_state *out,
                             struct err *err);

/* What went wrong with the last request of a session, and what to do about it: instead of *err, whose code stays. */
struct remote_session;
enum err_code remote_advise(const struct remote_session *s, struct err *err);

#endif
