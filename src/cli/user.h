/* What the files of `gatehouse user` share. */
#ifndef CLI_USER_H
#define CLI_USER_H

#include "cli/remote.h"

enum { USERS_PAGE = 500 }; /* the most that one answer lists */

struct user_options {
	struct remote_options remote; /* first */
	const char           *fields; /* NULL: the arguments have them */
	const char           *reason;
	const char           *report, *run; /* of an import; NULL: FILE.report, the digest of the file */
	uint64_t              version, limit;
	bool                  yes, no_wait, no_events;
};

static inline const struct user_options *user_options_of(const struct remote *r)
{
	return (const struct user_options *)r->options;
}

/* user_import.c */
enum err_code user_import_run(struct remote *r, struct err *err);
enum err_code user_export_run(struct remote *r, struct err *err);

#endif
