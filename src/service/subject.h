/* Subject: everything that is known of a person, by one query for each of its ids: counts, locks, states, devices; and sums of counts
 * under a prefix of their keys; and what a reset does away with. */
#ifndef SERVICE_SUBJECT_H
#define SERVICE_SUBJECT_H

#include "service/account.h"
#include "service/context.h"
#include "service/device.h"
#include "service/row.h"
#include "service/rules.h"
#include "service/state.h"
#include "service/user_filter.h"

enum { SUBJECT_ROWS_MAX = 1000 };

enum subject_row_kind { ROW_COUNT, ROW_LOCK, ROW_STATE, ROW_DEVICE, ROW_OTHER };

struct subject_row {
	enum subject_row_kind kind;
	struct bytes          pk, sk;
	struct key_parts      key;
	struct item           item;
};

struct subject {
	struct bytes
	         ids[PERSON_IDS_MAX]; /* all of the person (account.h); the one that was asked for first */
	uint32_t id_count;
	struct subject_row *rows; /* id by id, in the order of their keys; expired ones are not there */
	uint32_t            count;
	bool                more; /* than SUBJECT_ROWS_MAX */
};

/* What is asked. */
struct subject_query {
	struct bytes id;
	struct bytes prefix; /* the first parts of the sort key, whole: "A#B" is a prefix of "A#B#c", not of
	                              "A#Bc". Empty: all. */
	struct user_filter denied; /* of these users nothing is shown but what is under the id itself */
};

enum err_code subject_read(struct context *ctx, const struct subject_query *q, struct subject *out,
                           struct err *err);

/* "all MFA errors of this subject", "of this device": the sum of the counts that were read, with those that a lock
 * moved aside. */
int64_t subject_counts_sum(const struct subject *s);

/* ---- resets ----
 *
 * What follows when a credential was replaced. The counts and locks that the rules name are cleared,
 * with every qualifier and in every lane; known devices are forgotten, unless the rules keep them; a demand for a
 * new password, or for a new proof of identity, is met.
 *
 * A lock that a person set stays, unless the request says otherwise. Of a rule whose locks are named, or whose counts, those go too that it
 * set under names that left the policies (heed.h).
 *
 * It is the person's: whatever id is named, all its ids are cleared.
 *
 * One call clears RESET_ROWS_MAX rows at most: what counts first (locks, then counts of the subject and its
 * devices), what sources left last. If rows remain the result says so, and another call clears them. */

enum {
	RESET_ROWS_MAX = 90,
	RESET_NOTES_MAX = RULE_LIST_MAX, /* for attempts that were begun: a row for each id and type */
};

struct reset_row {
	struct bytes pk, sk;
	int64_t      count;
};

/* What is asked. */
struct reset_request {
	const struct rules *rules;
	const struct reset *reset;
	struct bytes        subject;
	const struct bytes
	        *others; /* further ids of the person, and of those that are addresses: normalised, or NULL */
	const struct bytes *emails;
	uint32_t            other_count;    /* fewer than SUBJECTS_MAX */
	bool                operator_locks; /* locks that people set are cleared too */
};

struct reset_result {
	struct reset_row  cleared[RESET_ROWS_MAX];
	uint32_t          count;
	uint32_t          kept; /* locks that people set, and that hold still */
	bool              more;
	struct demand_met met;
	uint32_t          devices; /* known ones that were forgotten */
};

/* Would it end this lock, unless a person set it? */
bool reset_ends(const struct rules *rules, const struct reset *reset, const struct item *lock);

enum err_code subject_reset(struct context *ctx, const struct reset_request *q, struct reset_result *out,
                            struct err *err);

#endif
