/* Dead letters: records of an identity provider that could not be written (sync.h), kept until somebody repairs the cause and
 * redrives them. Rows of the table gatehouse-sync:
 *
 *   DEAD_LETTER   <user>#<provider>    the record, error, detail, failures, firstAt, lastAt, ttl
 *
 * What always holds
 * (1) A user has one letter of a provider at most: a newer record that fails too takes the place of the older one.
 * (2) A record that is written removes the letter, in the same commit, unless the letter is newer.
 * (3) A letter holds what the provider said of a person. It is erased with the user, none is written of one that is being erased,
 *     and it expires after DEAD_LETTER_KEPT_S.
 *     Of a user who is barred at the provider the suspension is written all the same (sync_bar).
 * (4) `error` is the type of a problem (base/err.h), and groups letters by their cause. */
#ifndef SERVICE_DEAD_LETTER_H
#define SERVICE_DEAD_LETTER_H

#include "service/sync.h"
#include "service/user_filter.h"

enum {
	DEAD_LETTER_KEPT_S = 90 * 86400,
	DEAD_LETTERS_PAGE_MAX = 500,
	DEAD_LETTERS_EXAMINED_MAX = 2000, /* rows that one page looks at */
	DEAD_LETTERS_READ_MIN = 50,       /* rows that are read at once, or as many as are wanted */
	DEAD_LETTER_GROUPS_MAX = 32,
};

struct dead_letter {
	struct sync_record record;
	struct bytes       error, detail, first_at, last_at;
	int64_t            failures;
};

/* ---- delivering: for triggers, webhooks and redrives, whose senders do not come back ---- */

struct sync_delivery {
	struct sync_result result; /* the outcome may be SYNC_DEAD_LETTERED; then there is no user */
	struct bytes       error;  /* why (4) */
};

/* Writes the record, or a letter if it can never be written as things are. ERR_NOT_NOW: the user is deleted or being erased, and
 * nothing is kept. Any other error is for the moment. */
enum err_code sync_deliver(struct context *ctx, const struct sync_record *q, struct sync_delivery *out,
                           struct err *err);

/* As sync_apply, but a record whose address is another user's, or one too many, becomes a letter: for callers who must not learn
 * which addresses have an account. */
enum err_code sync_apply_neutral(struct context *ctx, const struct sync_record *q, struct sync_delivery *out,
                                 struct err *err);

/* The last try failed for the moment, too: a letter, whatever stands in the way. ERR_NOT_NOW as above. */
enum err_code sync_give_up(struct context *ctx, const struct sync_record *q, enum err_code why,
                           struct sync_delivery *out, struct err *err);

/* ---- letters ---- */

/* Which one. */
struct dead_letter_key {
	struct bytes provider, id;
};

/* ERR_NOT_FOUND. */
enum err_code dead_letter_get(struct context *ctx, const struct dead_letter_key *key, struct dead_letter *out,
                              struct err *err);
enum err_code dead_letter_delete(struct context *ctx, const struct dead_letter_key *key, struct err *err);

/* Delivers it once more. */
enum err_code dead_letter_redrive(struct context *ctx, const struct dead_letter_key *key,
                                  struct sync_delivery *out, struct err *err);

struct dead_letters_search {
	struct bytes error; /* of this group only; empty: of all */
	uint32_t     limit;
	struct bytes after; /* the last key of the page before; empty: the first page */
};

/* By user id. A page may be short or empty and still not be the last. */
struct dead_letters_page {
	struct dead_letter *list;
	uint32_t            count;
	bool                more;
	struct bytes        last; /* if more */
};

enum err_code dead_letters_find(struct context *ctx, const struct dead_letters_search *q,
                                struct dead_letters_page *out, struct err *err);

struct dead_letter_groups {
	struct {
		struct bytes error, oldest;
		uint64_t     count;
	} list[DEAD_LETTER_GROUPS_MAX];
	uint32_t count;
	uint64_t letters;
};

/* Without letters of users who are hidden. */
enum err_code dead_letters_group(struct context *ctx, const struct user_filter *users,
                                 struct dead_letter_groups *out, struct err *err);

/* (2) For sync.h. */
enum err_code dead_letter_settle(struct context *ctx, const struct sync_record *q, struct err *err);

/* (3) For erasing: those of a user, as many as there is room for. */
enum err_code dead_letters_erase(struct context *ctx, struct bytes user, struct err *err);

#endif
