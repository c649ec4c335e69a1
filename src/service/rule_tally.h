/* Rule tally: what rules said, for metrics: one set of counters for each type of each journey, in the document's memory.
 * Names come from the policies, never from callers, so there are only as many as the policies have. Any thread may add. */
#ifndef SERVICE_RULE_TALLY_H
#define SERVICE_RULE_TALLY_H

#include "base/metric.h"
#include "service/rules.h"
#include "service/verdict.h"

/* What was asked. X(id, label) */
#define RULE_QUESTIONS(X)                                                                                    \
	X(ASKED_ATTEMPT, "attempts")                                                                         \
	X(ASKED_CHECK, "check")

enum rule_question {
#define X(id, label) id,
	RULE_QUESTIONS(X)
#undef X
	        RULE_QUESTION_COUNT
};

struct rule_tally {
	struct metric_counter verdicts[RULE_QUESTION_COUNT][VERDICT_COUNT];
	struct metric_counter
	        shadows[VERDICT_COUNT];  /* what it would have said of attempts, in shadow mode */
	struct metric_counter locks_set; /* by attempts */
};

/* Rules of one type, whatever the method, share a set. They are sorted already. */
void rule_tally_attach(struct rules *rules);

/* document_kind's inherit: a new version of the policies goes on counting where the last one was. What is added to the old
 * one in this moment is lost. */
void rule_tally_inherit(struct document *next, const struct document *now);

#endif
