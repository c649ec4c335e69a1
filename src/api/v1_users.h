/* What the routes of users and of their addresses share. */
#ifndef API_V1_USERS_H
#define API_V1_USERS_H

#include "api/v1.h"
#include "service/user.h"

/* The {id} of a path: a user. */
enum err_code v1_user_param(struct v1_call *c, struct bytes *id, struct err *err);

/* If-Match, if it was sent: "3", the ETag of GET. */
enum err_code v1_user_match(struct v1_call *c, struct user_match *out, struct err *err);

/* A member that is an address, normalised; required. */
struct bytes v1_read_email(struct v1_call *c, struct fields *f, const char *name, struct bytes *typed);

/* firstName, lastName, phone, attributes; null takes a field away if it may go. */
void v1_read_user_fields(struct v1_call *c, struct fields *f, bool may_go, struct user_fields *out);

/* `id`, required, of a user. */
struct bytes v1_read_user_id(struct fields *f);

/* An address of a user, as an object. */
void v1_write_email(struct json_writer *w, const struct user_email *e);

/* The user, as an object with its ETag; or only its members. */
void v1_write_user(struct v1_call *c, struct json_writer *w, const struct user *u);
void v1_write_user_members(struct json_writer *w, const struct user *u);
void v1_write_attributes(struct json_writer *w, const struct item *attributes);
void v1_user_etag(struct v1_call *c, const struct user *u);

/* `context`, of a request for a code or its entry: where it comes from, as attempts say it. */
const struct attempt *v1_read_from(struct v1_call *c, struct fields *f);

/* On which terms this caller adds or verifies an address: the policies in force, where it comes from, and whether it may learn who has one.
 * ERR_ACCESS: it may not, and there is nobody else to send the code. */
enum err_code v1_email_terms(struct v1_call *c, const struct attempt *from, const struct email_terms **out,
                             struct err *err);

/* Is the code part of the answer? Else it is sent from here. */
bool v1_tells_code(const struct v1_call *c, const struct email_terms *terms, const struct email_claim *claim);

/* A claim, as an object. The code is left out if it is sent from here, and of what a replay is answered. */
void v1_write_claim(struct v1_call *c, struct json_writer *w, const struct email_claim *claim);

/* A request or an entry that was refused or set a lock: the verdict, as members; and as status, if asked for. */
void v1_write_standing(struct v1_call *c, struct json_writer *w, const struct code_standing *s, bool enforce);

/* After the commit: meters it, and has the code sent. */
void v1_claim_committed(struct v1_call *c, struct bytes user, const struct email_claim *claim);

#endif
