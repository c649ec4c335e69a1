/* Addresses of users. Whoever adds an address proves that it is his with a code that was sent to it (email_code.h).
 *
 * When it is taken is a setting (services.claims_verified):
 *   added      an address is taken when it is added: its marker is written in the same commit
 *   verified   it is taken once it is verified; until then any number of users may claim it, without a marker
 * A caller that must not learn whether an address is taken claims it without a marker in either case, and is answered the same
 * whether or not somebody has it: a claim of an address that is taken has a code that nobody is told.
 *
 * What always holds
 * (1) An address has one marker at most, and a verified one exactly one, so it has one user. A row with GSI1PK has a marker, and
 *     both are written, kept and removed together; a claim without a marker has no GSI1PK either.
 * (2) A user has no primary address until one is verified. From then on it has exactly one; it is verified, and cannot be
 *     removed.
 * (3) An address that was not verified expires, together with its marker. Another code does not prolong that.
 * (4) A code is random, and kept only as a keyed hash. It works once, for a while, and for a few entries; a newer one
 *     replaces it.
 * (5) A user has at most so many addresses (user_policy.h). Whoever adds one changes PROFILE, so of two at once one counts again.
 * (6) A marker that stands for a proof is never taken over. One that stands for a claim (it has a ttl) is, by a proof, under
 *     `verified`; under `added` the claim holds against anyone but an import (user_import.h). So both settings may follow each
 *     other: rows of either are right under both.
 * (7) What is compared is the normal form, `email`. Mail goes to the address as it was typed, which is beside it (`emailAsTyped`)
 *     where it differs: in the address's row, its marker and the profile. A code proves the address as it was typed last.
 * (8) An address that is not exactly one mailbox (email.h) may be in a row from before they were refused. It can be read and
 *     removed, and neither be verified nor become the primary one.
 * (9) A row that other code wrote without a marker holds its address as if it had one, if the index GSI1 has it: unless it says that it is
 *     not verified, as a proof. The job `adopt` (adopt.h) writes the marker. */
#ifndef SERVICE_USER_EMAIL_H
#define SERVICE_USER_EMAIL_H

#include "service/email_code.h"

enum { USER_EMAIL_BYTES_MAX = 1024 }; /* normalised */

/* Beside `email` in rows and answers (7). */
#define EMAIL_TYPED "emailAsTyped"

struct row;
struct user;
struct user_match;

struct user_email {
	struct bytes id, email, created_at, verified_at;
	struct bytes typed; /* (7) empty: as `email` */
	bool         verified, primary;
	int64_t      expires_s; /* unless it is verified */
	struct item  row;
};

struct user_emails {
	struct user_email *list;
	uint32_t           count;
};

/* An address that was asked for, and its code, which is told once. */
struct email_claim {
	struct code_standing standing; /* refused: there is no claim, and no code */
	struct user_email    email;
	bool                 again; /* the user had added the address before */
	struct code          code;
	int64_t              code_expires_s;
	bool                 hidden; /* a neutral claim of an address that is taken: its code is for nobody */
	struct bytes         owner;  /* of a hidden one: who verified the address; empty: nobody has */
	struct bytes         owner_typed; /* … and how that user wrote it (7) */
};

/* Those that are there, whether or not there is such a user. */
enum err_code user_emails_read(struct context *ctx, struct bytes user, struct user_emails *out,
                               struct err *err);

/* ERR_NOT_FOUND if there is no such user; here and below. */
enum err_code user_emails_find(struct context *ctx, struct bytes user, struct user_emails *out,
                               struct err *err);

/* A normalised address for a user. */
struct email_add {
	struct bytes              user, email;
	const struct email_terms *terms; /* may be NULL */
	struct bytes              typed; /* (7) */
};

/* Adds it, or makes another code for it. ERR_EMAIL_TAKEN, ERR_LIMIT. */
enum err_code user_email_add(struct context *ctx, const struct email_add *q, struct email_claim *out,
                             struct err *err);

/* The same for a user that is being created: nobody else knows it yet. Nothing is published before the user is: then call the second. */
enum err_code user_email_claim(struct context *ctx, const struct email_add *q, struct email_claim *out,
                               struct err *err);
void          user_email_claimed(struct context *ctx, struct bytes user, const struct email_claim *claim);

/* LOST: the code was right, but another user has the address. The claim is gone. */
enum email_entry_outcome { ENTRY_RIGHT, ENTRY_WRONG, ENTRY_NO_CODE, ENTRY_LOST };

/* One of a user's addresses; and what is said of it. */
struct email_entry {
	struct bytes              user, email_id;
	struct bytes              code;  /* as it was typed */
	const struct email_terms *terms; /* may be NULL */
};

struct email_verdict {
	struct code_standing standing; /* refused: the code was not looked at, and the outcome says nothing */
	enum email_entry_outcome outcome;
	unsigned                 tries_left; /* ENTRY_WRONG */
	struct user_email        email;
};

/* A wrong code is a result, and counts. */
enum err_code user_email_verify(struct context *ctx, const struct email_entry *q, struct email_verdict *out,
                                struct err *err);

/* An address that a caller whom we trust brings along: of an identity provider (sync.h), of another user service (user_import.h). */
struct email_trust {
	const struct user *user;
	struct bytes       email;    /* normalised */
	struct bytes       typed;    /* (7) */
	struct row        *profile;  /* the user's row, which the caller writes */
	bool               prefer;   /* it is to be the primary one, whether or not it is the first */
	struct bytes       replaces; /* the id of the address that goes for it; empty: none does */
	bool               evicts;   /* it takes the place of a claim under `added`, too (6) */

	/* Of an address that the user does not have yet; empty: a new id, now */
	struct bytes wanted_id, created_at, verified_at;

	struct bytes      id;      /* of the address */
	bool              changed; /* else the user had it, verified, before, and as primary as it is to be */
	bool              added;   /* the user had not even claimed it */
	bool              verified; /* by this: the user did not have it, or had only claimed it */
	bool              primary;  /* it has become the primary one */
	struct user_email dropped;  /* what went for it; without an id: nothing */
};

/* Written as a verified address, with its marker; as the primary one if it is the first, or is to be. ERR_EMAIL_TAKEN, ERR_LIMIT;
 * ERR_INVALID (8). */
enum err_code user_email_trust(struct context *ctx, struct email_trust *t, struct err *err);

/* The same for an address that was not verified there: a claim without a code, unless the user has the address. ERR_EMAIL_TAKEN, ERR_LIMIT. */
enum err_code user_email_note(struct context *ctx, struct email_trust *t, struct err *err);

/* Publishes what that has changed, once the user itself was published. */
void user_email_trusted(struct context *ctx, const struct email_trust *t);

/* A proof takes the place of the claim that this marker names: its row goes, if it is not verified, and that is published. The marker is the
 * caller's to write. (6) */
enum err_code user_email_evict(struct context *ctx, const struct looked *marker, struct err *err);

/* ERR_NOT_NOW if it is the primary one. */
enum err_code user_email_remove(struct context *ctx, const struct email_entry *q, struct err *err);

/* ERR_NOT_NOW if it is not verified. */
enum err_code user_email_prefer(struct context *ctx, const struct email_entry *q,
                                const struct user_match *match, struct user *out, struct err *err);

/* Whose address is it? */
struct email_owner {
	bool         found;
	struct bytes user, email_id;
	struct bytes typed; /* (7) */
	bool         verified;
};

/* The key of the marker of a normalised address, to be looked at. */
void user_marker_key(struct arena *a, struct bytes email, struct looked *out);

enum err_code email_owner_find(struct context *ctx, struct bytes email, struct email_owner *out,
                               struct err *err);

#endif
