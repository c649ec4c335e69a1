/* Addresses of users. An address is taken when it is added: its marker is written in the same commit. Whoever adds it proves
 * that it is his with a code that was sent to it.
 *
 * What always holds
 * (1) An address has one marker at most, so it has one user. Address and marker are written, kept and removed together.
 * (2) A user has no primary address until one is verified. From then on it has exactly one; it is verified, and cannot be
 *     removed.
 * (3) An address that was not verified expires, together with its marker. Another code does not prolong that.
 * (4) A code is random, and kept only as a keyed hash. It works once, for a while, and for a few entries; a newer one
 *     replaces it.
 * (5) A user has at most USER_EMAILS_MAX addresses. Whoever adds one changes PROFILE, so of two at once one counts again. */
#ifndef SERVICE_USER_EMAIL_H
#define SERVICE_USER_EMAIL_H

#include "service/context.h"

enum {
	USER_EMAILS_MAX = 20,
	USER_EMAIL_BYTES_MAX = 1024, /* normalised */
	EMAIL_CLAIM_S = 24 * 3600,
	EMAIL_CODE_S = 15 * 60,
	EMAIL_CODE_CHARS = 8, /* 40 bits: too many to guess, whatever is counted */
	EMAIL_CODE_TRIES_MAX = 5,
};

struct user;
struct user_match;

struct user_email {
	struct bytes id, email, created_at, verified_at;
	bool         verified, primary;
	int64_t      expires_s; /* unless it is verified */
	struct item  row;
};

struct user_emails {
	struct user_email *list;
	uint32_t           count;
};

/* A code that was asked for. It is told once. */
struct email_claim {
	struct user_email email;
	bool              again; /* the user had added the address before */
	char              code[EMAIL_CODE_CHARS];
	int64_t           code_expires_s;
};

/* ERR_NOT_FOUND if there is no such user; here and below. */
enum err_code user_emails_find(struct context *ctx, struct bytes user, struct user_emails *out,
                               struct err *err);

/* Adds a normalised address, or makes another code for it. ERR_EMAIL_TAKEN, ERR_LIMIT. */
enum err_code user_email_add(struct context *ctx, struct bytes user, struct bytes email,
                             struct email_claim *out, struct err *err);

/* The same for a user that is being created: nobody else knows it yet. */
enum err_code user_email_claim(struct context *ctx, const struct user *u, struct bytes email,
                               struct email_claim *out, struct err *err);

enum email_entry_outcome { ENTRY_RIGHT, ENTRY_WRONG, ENTRY_NO_CODE };

/* One of a user's addresses; and what is said of it. */
struct email_entry {
	struct bytes user, email_id;
	struct bytes code; /* as it was typed */
};

struct email_verdict {
	enum email_entry_outcome outcome;
	unsigned                 tries_left; /* ENTRY_WRONG */
	struct user_email        email;
};

/* A wrong code is a result, and counts. */
enum err_code user_email_verify(struct context *ctx, const struct email_entry *q, struct email_verdict *out,
                                struct err *err);

/* ERR_NOT_NOW if it is the primary one. */
enum err_code user_email_remove(struct context *ctx, const struct email_entry *q, struct err *err);

/* ERR_NOT_NOW if it is not verified. */
enum err_code user_email_prefer(struct context *ctx, const struct email_entry *q,
                                const struct user_match *match, struct user *out, struct err *err);

/* Whose address is it? */
struct email_owner {
	bool         found;
	struct bytes user, email_id;
	bool         verified;
};

enum err_code email_owner_find(struct context *ctx, struct bytes email, struct email_owner *out,
                               struct err *err);

#endif
