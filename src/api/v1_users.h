/* What the routes of users and of their addresses share. */
#ifndef API_V1_USERS_H
#define API_V1_USERS_H

#include "api/v1_read.h"
#include "service/user.h"

/* The {id} of a path: a user, and the resource that policies are asked about. */
enum err_code v1_user_param(struct v1_call *c, struct bytes *id, struct err *err);

/* If-Match, if it was sent: "3", the ETag of GET. */
enum err_code v1_user_match(struct v1_call *c, struct user_match *out, struct err *err);

/* A member that is an address, normalised; required. */
struct bytes v1_read_email(struct v1_call *c, struct fields *f, const char *name);

/* The user, as an object with its ETag. */
void v1_write_user(struct v1_call *c, struct json_writer *w, const struct user *u);
void v1_user_etag(struct v1_call *c, const struct user *u);

/* A claim, as an object; the code is left out of what a replay is answered. */
void v1_write_claim(struct v1_call *c, struct json_writer *w, const struct email_claim *claim);

#endif
