/* Streaks: the failures of a person in a row, over all types that the policies name in `consecutive`, whatever locks came between
 * and however long it takes. NIST SP 800-63B allows 100; then only a reset or an operator helps.
 *
 * What always holds
 * (1) A streak and the lock that ends it are one row, JOURNEY#LOCK#NAME, of which every such attempt reads the lock anyway. While its
 *     count is 0 it is no lock (lock.h). So clearing the lock clears the streak, and so does a reset that names the lock.
 * (2) It is counted by type. A success ends the part of its own type and of those that its rule clears: who knows the password and
 *     guesses codes cannot begin anew by entering the password again. A success of a type in `ended_by`, which is the last
 *     factor of a sign-in, ends all of it.
 * (3) Known devices have a part of their own, which nothing that strangers do adds to or ends, but for a full sign-in. At the maximum
 *     their lanes close (device.h): there is no lock, and nothing of it stops strangers.
 * (4) The rows of the ids that a call names, and of the user whose they are, count together. The user's is written to, or else the first:
 *     so a person has one streak, and not one under each name. All are locked, and all are ended.
 * (5) A row without a failure for `life` seconds is gone. Rules in shadow mode count nothing here. */
#ifndef SERVICE_STREAK_H
#define SERVICE_STREAK_H

#include "service/account.h"
#include "service/context.h"
#include "service/rules.h"

struct attempt;

/* What an assessment found. */
struct streak {
	const struct looked *rows[PERSON_IDS_MAX]; /* one of each id that is named, and of the user's */
	uint32_t             count;
	bool                 lane; /* of known devices */
	int64_t              total;
	int64_t              ends_s; /* when the first of the rows expires that have some; 0: none does */
};

static inline bool streak_counts(const struct rule *rule)
{
	return rule->streak && !rule->shadow;
}

/* Takes the row of the next subject in. */
void streak_see(struct streak *s, const struct looked *row);

/* So many failures a row has: of known devices, or of everyone else. */
int64_t streak_of_row(const struct item *row, bool lane);

/* How many a success of the rule leaves. (2) */
int64_t streak_left(const struct streak *s, const struct rule *rule);

/* One more. */
void streak_fail(struct context *ctx, const struct attempt *q, const struct streak *s);

/* The lock was set, by changes of this commit: it takes the place of what strangers failed, under whichever id. What known devices
 * failed stays. */
void streak_locked(struct context *ctx, const struct streak *s);

/* What known devices fail is in the row whatever else becomes of it. So a row is as it was left also if that part is not; */
bool streak_row_is(struct arena *a, const struct item *row, const struct item *left);

/* and that part stays if the row is put back as it was before. `there`: it was; else *before is written to, if something stays. */
bool streak_row_back(struct context *ctx, const struct attempt *q, const struct item *row, bool there,
                     struct item *before);

/* (2) After a success of q->rule. */
void streak_succeed(struct context *ctx, const struct attempt *q, const struct streak *s);

#endif
