/* Revocation: tokens that are no longer taken, although their issuer signed them and they have not expired. Rows of the table
 * `gatehouse-revocations`:
 *
 *   JTI#<hash of issuer and jti>   one token
 *   USER#<id>                      a user's tokens
 *   USER#<hash of an address>      those whose subject is an address that was its owner's, and is so no longer
 *   CLIENT#<client>                a client's
 *   ALL                            everyone's
 *
 * A row but the first has `notBefore`, in seconds: tokens that were issued (`iat`) in that second or before are revoked.
 *
 * What always holds
 * (1) A check looks at four rows at most, and at five if the subject is an address, however much was revoked.
 * (2) Nothing is taken back: `notBefore` and `ttl` of a row only rise, whatever the clock does, until the row expires.
 * (3) A row expires when the tokens that it revokes have expired too: no token is taken that is older than the longest age
 *     of all issuers (services.h). The row of one token expires with that token.
 * (4) A row that cannot be understood, since somebody else wrote it, revokes all of its tokens.
 * (5) Whoever loses an address loses the tokens in its name: they are neither unknown people's nor the next owner's.
 * (6) `notBefore` is a time of our clock, and `iat` one of the issuer's. A token is revoked if it may have been issued by then:
 *     if `iat` is not later than `notBefore` and what the issuer's clock may be ahead. */
#ifndef SERVICE_REVOCATION_H
#define SERVICE_REVOCATION_H

#include "service/context.h"

enum {
	REVOCATION_NAME_BYTES_MAX = 1024, /* of a jti, a client, an issuer */
	REVOCATION_REASON_BYTES_MAX = 256,
	REVOCATION_LEEWAY_S = 600,                 /* issuers' clocks may differ from ours by so much */
	REVOCATION_TOKEN_LIFE_MAX_S = 366 * 86400, /* how far ahead the end of one token may be */
	REVOCATIONS_PAGE_MAX = 500,
	REVOCATIONS_EXAMINED_MAX = 2000, /* rows that one page looks at */
};

enum revocation_kind { REVOKED_NOTHING, REVOKED_TOKEN, REVOKED_USER, REVOKED_CLIENT, REVOKED_ALL };
extern const char *const revocation_kind_names[]; /* "none", "token", "user", "client", "all"; NULL last */

/* ---- revoking ---- */

struct revocation {
	enum revocation_kind kind;
	struct bytes         issuer;       /* TOKEN */
	struct bytes         name;         /* a jti, a user's id, a client; ALL: empty */
	int64_t              not_before_s; /* not TOKEN; 0: now */
	int64_t              expires_s;    /* TOKEN: its `exp`; 0: not known */
	struct bytes         reason;       /* empty: not said */
	bool                 told;         /* another event of the same commit tells it */
};

/* A row. */
struct revoked {
	enum revocation_kind kind;
	struct bytes         name;         /* a token's is the hash; ALL: empty */
	struct bytes         issuer;       /* TOKEN */
	int64_t              not_before_s; /* 0: not said */
	int64_t              revoked_s, ends_s;
	struct bytes         reason, by;
};

/* Can the caller ask for this not-before? At most REVOCATION_LEEWAY_S ahead: further, it would sign out people who are not
 * signed in yet. */
bool revocation_not_before_is(int64_t not_before_s, int64_t now_s);

/* Adds to the changes. *out is the row as it will be (2). */
enum err_code revocation_add(struct context *ctx, const struct revocation *q, struct revoked *out,
                             struct err *err);

/* The tokens in the name of an address that its owner loses (5); `hash`: as attempts name it. */
enum err_code revocation_add_address(struct context *ctx, struct bytes hash, struct bytes reason,
                                     struct err *err);

/* ---- asking ---- */

/* What a verified token says. What is empty is not looked for. */
struct revocation_query {
	struct bytes issuer, jti; /* both, or the token itself is not looked for */
	struct bytes user, client;
	struct bytes address;  /* the hash of one, if the subject is an address */
	int64_t      issued_s; /* iat, rounded down */
	int64_t      ahead_s;  /* by how much the issuer's clock may be ahead of ours (6) */
};

struct revocation_found {
	enum revocation_kind kind; /* REVOKED_NOTHING: it is good */
	int64_t              not_before_s;
	struct bytes         reason;
};

/* (1) Of several, the narrowest is told. */
enum err_code revocation_check(struct context *ctx, const struct revocation_query *q,
                               struct revocation_found *out, struct err *err);

/* The row of a user, a client or everyone. Its kind is REVOKED_NOTHING if there is none. */
enum err_code revocation_get(struct context *ctx, enum revocation_kind kind, struct bytes name,
                             struct revoked *out, struct err *err);

struct revocations_search {
	enum revocation_kind kind; /* REVOKED_NOTHING: all */
	uint32_t             limit;
	struct bytes         after; /* where the page before ended; no data: the first page */
};

/* In no order. A page may be short or empty and still not be the last. */
struct revocations_page {
	struct revoked *list;
	uint32_t        count;
	bool            more;
	struct bytes    last; /* if more */
};

enum err_code revocations_find(struct context *ctx, const struct revocations_search *q,
                               struct revocations_page *out, struct err *err);

#endif
