/* Heeds: which locks stop the attempts of a rule. The one place that says so: attempts read the rows that it names
 * (assess.c), and lists and explanations ask it whether a lock is enforced.
 *
 * What always holds
 * (1) A rule heeds the locks that it sets (`sets`), those that it is blocked by (`blocked_by`), that of its journey's sources, and that of
 *     failures in a row (`consecutive`) if it is one of those types.
 * (2) A lock that holds stops what it stopped when it was set, until its end, whatever policies say by then. So a rule goes
 *     on heeding what the policies before it heeded for the same type: only locks that were set until the change. What it
 *     is blocked by exists elsewhere, as a type, or as a name in its journey: that ends with it.
 * (3) What is heeded so is kept with the policies, as text, and goes from one version to the next. It is bounded:
 *     HEED_NAMES_MAX locks for a rule, HEEDS_TEXT_MAX in all. What does not fit ends, as if its type were gone (lock_ending.h). */
#ifndef SERVICE_HEED_H
#define SERVICE_HEED_H

#include "service/rules.h"

enum {
	HEED_NAMES_MAX = 32, /* each may be several heeds: of subjects, of their methods, of sources */
	HEEDS_TEXT_MAX = 128 * 1024,
	HEED_MARGIN_S = 10, /* other processes go by the policies before for a moment */
};

/* For heed_until: a rule that is in force heeds it, whenever it was set. */
#define HEED_ALWAYS INT64_MAX

/* For rules_link: (1). */
void heeds_link(struct rules *rules);

/* A lock, for the question whether any rule heeds it. */
struct heed_lock {
	struct rule_ref ref;
	enum lock_reach reach;
	bool            persons; /* a person set it */
	int64_t         set_s;   /* when; HEED_ALWAYS: it is to be set now */
};

bool rules_heed(const struct rules *r, const struct heed_lock *lock);

/* A lock whose name left the policies: does this reset end it, of those that rules set? It does if it ends what the same rule sets now, or
 * counts. `streak`: it is that of failures in a row, which ends with resets that end the one of today, if there is one. */
bool heeds_reset_left(const struct rules *r, const struct reset *reset, const struct rule_ref *lock,
                      bool streak);

/* ---- document_heritage's, of rules ---- */

/* (2) `next` is to come into force in the place of `now`, at this time. May be called again, also with another `now`, and takes
 * what both heed. */
void heeds_inherit(struct document *next, const struct document *now, int64_t now_s);

/* Forgets what was inherited. */
void heeds_drop(struct document *d);

/* (3) */
struct bytes heeds_write(const struct document *d, struct arena *a);
void         heeds_read(struct document *d, struct bytes text);

extern const struct document_heritage rules_heritage;

/* A lock that ends if `next` replaces `now`: only because there was no room for it? (3) */
bool heeds_lost(const struct rules *now, const struct rules *next, const struct heed_lock *lock);

/* Could a lock end if `next` replaced `now`? False: none does, whatever rows there are. */
bool heeds_may_end(const struct rules *now, const struct rules *next, int64_t now_s);

#endif
