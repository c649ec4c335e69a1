/* Users: who has an account. Rows of the table `users`:
 *
 *   USER#<id>         PROFILE        the user
 *   USER#<id>         EMAIL#<eid>    one of its addresses (user_email.h)
 *   EMAIL#<address>   MARKER         whose address that is
 *
 * A user's status:
 *
 *                  suspend
 *      active --------------> suspended
 *        |    <--------------     |
 *        |      reactivate        |
 *        +------> deleted <-------+
 *
 * and from each of them `erasing`, until nothing of it is left.
 *
 * What always holds
 * (1) `version` rises by one with every change of the profile. Whoever changes it may say which version it read; then it
 *     changes that one or none.
 * (2) A field that is not sent stays as it is.
 * (3) To be what it is asked to become changes nothing. Nothing leads back from deleted, and a deleted user does not change.
 *     Its addresses stay taken. A user that is being erased does not change either, and its id is not free before it is.
 * (4) Suspending and deleting revoke the user's tokens in the same commit (revocation.h). Reactivating leaves them revoked.
 * (5) `suspendedBy` is in the row exactly while the user is suspended and no person suspended it. Whoever suspends it as a person
 *     takes that away, although it is suspended already: then only a person reactivates it. */
#ifndef SERVICE_USER_H
#define SERVICE_USER_H

#include "service/context.h"
#include "service/event.h"
#include "service/user_email.h"
#include "service/user_filter.h"

struct user_terms;

enum {
	USER_ID_BYTES_MAX = 128,
	USER_ID_CHARS = 36, /* of one that is generated: a UUID */
	USER_NAME_BYTES_MAX = 256,
	USER_ATTRIBUTES_MAX = 50, /* as many as a pool of Cognito's has custom ones */
	USER_ATTRIBUTE_NAME_MAX = 64,
	USER_ATTRIBUTE_TEXT_MAX = 2048,
	USER_ATTRIBUTES_BYTES_MAX = 32 * 1024,
	USER_REASON_BYTES_MAX = 256,
	USER_ETAGS_MAX = 16, /* in one If-Match */
	USERS_PAGE_MAX = 500,
	USERS_EXAMINED_MAX = 2000, /* rows that one page looks at */
	USERS_ROWS_EACH =
	        4, /* so many are read at once per user that is wanted: most have an address or two */
	USERS_UNSTOPPED_MAX =
	        10 * USERS_EXAMINED_MAX, /* rows that it looks at without finding one to stop at */
};

enum user_status { USER_ACTIVE, USER_SUSPENDED, USER_DELETED, USER_ERASING };
extern const char *const user_status_names[]; /* NULL last */

struct user {
	struct bytes     id;
	enum user_status status;
	int64_t          version;
	struct bytes     first_name, last_name, phone, created_at, updated_at; /* empty: it has none */
	struct bytes     email, email_id;                                      /* the primary one */
	struct bytes     email_typed;                                          /* (7) of user_email.h */
	struct bytes     suspended_by;                                         /* (5) */
	struct item      attributes;
	struct item      row; /* PROFILE */

	int64_t tokens_not_before_s; /* user_become's: tokens issued then or before are revoked; 0: none */
};

/* Is it one? Plain, not personal on its face, and not "." or "..", which a path cannot hold. */
bool user_id_is(struct bytes id);

/* ---- reading ---- */

/* ERR_NOT_FOUND. Deleted ones are found. */
enum err_code user_get(struct context *ctx, struct bytes id, struct user *out, struct err *err);

/* Who has that address, normalised. */
struct user_found {
	struct user  user;
	struct bytes email_id;
	struct bytes typed;    /* (7) of user_email.h */
	bool         verified; /* false: a claim that nobody proved yet */
};

enum err_code user_lookup(struct context *ctx, struct bytes email, struct user_found *out, struct err *err);
enum err_code user_unknown(struct err *err); /* how it answers if nobody has it */

struct users_search {
	uint32_t     limit;              /* users per page */
	struct bytes after_pk, after_sk; /* where the page before ended; no data: the first page */
	const struct user_terms *terms;  /* user_terms.h; NULL: all of them */
	struct user_filter       hidden; /* these are as if they were not there */
	bool count_only; /* how many there are among the rows that a page looks at, and no list */
};

/* In the order of the table, which is that of a hash of their ids: a user keeps its place whatever changes about it, so one that is there all the time, and fits
 * all the time, is found exactly once. A page may be short or empty and still not be the last. Its last key becomes a cursor, in a URL or in a job, so
 * it is never that of a marker, which holds an address. */
struct users_page {
	struct user *list; /* unless they are only counted */
	uint32_t     count;
	bool         more;
	struct bytes last_pk, last_sk; /* if more */
};

enum err_code users_find(struct context *ctx, const struct users_search *q, struct users_page *out,
                         struct err *err);

/* ---- changing ---- */

/* Which version the caller read: from If-Match (stale: ERR_STALE), from the body (stale: ERR_MODIFIED), or both. */
struct user_match {
	bool     has_etag, has_version;
	bool     any; /* If-Match: * */
	int64_t  etags[USER_ETAGS_MAX], version;
	uint32_t etag_count;
};

/* Given and empty: it goes. */
struct user_text {
	bool         given;
	struct bytes text;
};

/* Attributes: each is set; one that is VALUE_NULL goes. */
struct user_fields {
	struct user_text first_name, last_name, phone;
	struct item      attributes;
	bool             attributes_go; /* all that are there, before these are set */
};

struct user_new {
	struct bytes              id; /* empty: it is generated */
	struct user_fields        fields;
	struct bytes              email;       /* normalised, to be claimed with it; empty: none */
	struct bytes              email_typed; /* (7) of user_email.h */
	const struct email_terms *terms;       /* of the claim; may be NULL */
};

struct user_created {
	struct user        user;
	bool               claimed;
	struct email_claim claim; /* if claimed. Refused: there is no user either. */
};

enum err_code user_create(struct context *ctx, const struct user_new *q, struct user_created *out,
                          struct err *err);

/* (5) */
#define USER_SUSPENDED_BY "suspendedBy"
#define USER_BY_DISABLED  "provider_disabled" /* its account at the provider is disabled */
#define USER_BY_MISSING   "provider_missing"  /* its account is not there any more */

struct user_patch {
	struct bytes       id;
	struct user_match  match;
	struct user_fields fields;
	struct bytes       reason; /* of suspending and reactivating; empty: not said */
	struct bytes       by;     /* suspending (5); empty: a person */
};

enum err_code user_change(struct context *ctx, const struct user_patch *q, struct user *out, struct err *err);

/* Suspend, reactivate, delete: only id, match, reason and by of the patch count. */
enum err_code user_become(struct context *ctx, const struct user_patch *q, enum user_status status,
                          struct user *out, struct err *err);

/* ---- for user_email.h and sync.h ---- */

/* The user as it is to be changed: there, not deleted, and of the version that was read. */
enum err_code user_take(struct context *ctx, struct bytes id, const struct user_match *match,
                        struct user *out, struct err *err);

/* Sets the status in its row (5). Once that is written, user_became does the rest: the event, tokens (4), the sign-out. `before` is the
 * row with the status that it had; the reason may be empty. */
void          user_status_set(struct row *row, enum user_status status, struct bytes by);
enum err_code user_became(struct context *ctx, struct user *u, const struct item *before, struct bytes reason,
                          struct err *err);

/* Writes its row, one version on (1). */
void user_put(struct context *ctx, struct user *u, struct row *row);

/* Begins the row of a user that is not there yet: active, of version 0 until user_put. */
void user_begin(struct context *ctx, struct bytes id, struct user *out, struct row *row);

/* Sets the fields in its row (2). ERR_INVALID: that would be too many attributes. */
enum err_code user_fields_apply(struct context *ctx, struct row *row, const struct user *u,
                                const struct user_fields *fields, struct err *err);

/* What happened to a user: which fields differ from those of `before` (of one that is new: which there are), who did it, and why. An
 * attribute is named, and nothing of its value is told. */
struct user_event {
	enum event_type    type;
	const struct item *before; /* its row; NULL: there was none */
	struct bytes       reason; /* may be empty */
};

void user_publish(struct context *ctx, const struct user_event *e, const struct user *u);

/* A random id, for users and addresses. */
struct bytes user_id_make(struct context *ctx);

struct bytes user_key(struct arena *a, struct bytes id);

/* Of a row PROFILE. One that is none of ours counts as suspended. */
enum user_status user_status_of(const struct item *profile);
enum err_code    user_erasing(struct err *err); /* ERR_NOT_NOW: it is being erased */

/* What its row PROFILE says. */
struct user user_of_row(const struct item *row);

/* The key of a user's PROFILE, to be looked at. */
void user_profile_key(struct arena *a, struct bytes id, struct looked *out);

/* "2026-11-15T22:00:00Z" */
struct bytes user_time(struct arena *a, int64_t now_us);

#endif
