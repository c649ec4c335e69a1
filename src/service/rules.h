/* Rules: the policies of attempts, as data: for each journey and type of attempt its maximum, how long a
 * count lives, what happens at the maximum, which locks it sets, what success clears. New journeys, types and
 * locks are new lines in a YAML file, not code. defaults.yaml ships with the program.
 *
 * A rule set is a document (document.h): immutable, counted. */
#ifndef SERVICE_RULES_H
#define SERVICE_RULES_H

#include "base/metric.h"
#include "json/json.h"
#include "service/document.h"
#include "service/identifier.h"
#include "service/state.h"
#include "service/verdict.h"

enum {
	RULE_NAME_MAX = 64,
	RULE_COUNT_MAX = 1000,
	RULE_MAX_MAX = 1000000,
	RULE_SECONDS_MAX = 10 * 366 * 24 * 3600,
	RULE_LIST_MAX = 32, /* locks that a rule sets, counts that success clears, … */
	LOCK_KIND_MAX = 32,
	JOURNEY_MAX = 200,
	RISK_MAX = 100, /* a caller's score */
	RESET_MAX = 50,
	SOURCE_RANGES_MAX = 256, /* in each list */
	KNOWN_DEVICES_MAX = 50,  /* of a subject */
	LAPSE_MAX_S = 3600,
	LOCK_ROWS_MAX =
	        80, /* that one attempt sets at the maximum: with its counts they fit into one transaction */
};

/* How long a lock holds. */
struct lock_kind {
	struct bytes            name;       /* "STANDARD" */
	int64_t                 duration_s; /* 0: until someone clears it */
	int64_t                 factor; /* of each lock to the one before, up to cap_s; 1: they do not grow */
	int64_t                 cap_s;
	int64_t                 forget_s; /* after which the next one is a first one again */
	const struct lock_kind *then;     /* what follows after so many in a row; NULL: nothing does */
	int64_t                 after;
};

/* What the lock of a source is called. It stops every type of its journey. */
#define LOCK_OF_SOURCE "SOURCE"

/* A count ("SIGN_IN", "PASSWORD_ENTRY") or a lock. */
struct rule_ref {
	struct bytes journey, name;
};

struct rule_refs {
	struct rule_ref *list;
	uint32_t         count;
};

/* Whom a lock is of, by its key. */
enum lock_reach {
	REACH_SUBJECT,   /* a subject: PK is its id */
	REACH_QUALIFIER, /* one method or notification type of it */
	REACH_SOURCE,    /* a source, whatever the subject: PK is "ip:…" */
	REACH_PAIR,      /* a subject from one source */
};

enum rule_counts { COUNT_FAILURE, COUNT_SENT };
enum rule_qualifier { QUALIFY_NONE, QUALIFY_METHOD, QUALIFY_NOTIFICATION };
enum rule_end { AT_MAX_LOCK, AT_MAX_SIGN_OUT, AT_MAX_RESET, AT_MAX_CHALLENGE };

/* A lock that stops attempts of a rule (heed.h). */
struct rule_heed {
	struct rule_ref     lock;
	struct bytes        sk; /* of its row, without a qualifier */
	enum lock_reach     reach;
	enum rule_qualifier qualifier;    /* REACH_QUALIFIER: what its rows are told apart by */
	bool                own;          /* the rule sets it, or did */
	bool                only_persons; /* if people set it */
	bool                streak;       /* its row has the failures in a row, too (streak.h) */
	int64_t             until_s;      /* set until then; HEED_ALWAYS: whenever */
};

struct rule {
	struct bytes            journey, type;
	struct bytes            method;          /* only for this method type; empty: any */
	struct bytes            classifier_type; /* in the row's key: "ERROR_COUNT" */
	enum rule_counts        counts;          /* which outcome is counted */
	enum rule_qualifier     qualifier;       /* what tells rows of one type apart */
	int64_t                 max;             /* of all qualifiers together; 0: subjects are not counted */
	int64_t                 max_each;        /* of one; 0: no such bound */
	int64_t                 max_pair;        /* of one subject from one source */
	int64_t                 max_source;      /* of one source, whatever the subject */
	int64_t                 max_network;     /* of one IPv6 network of 48 bits: of all its sources */
	bool                    skips_source;    /* attempts without one are taken, and not counted by it */
	int64_t                 max_device; /* of a known device: its own budget; 0: there is no such lane */
	int64_t                 max_lanes;  /* of all known devices of a subject together */
	int64_t                 known_s;    /* of that lane: how long a device stays known */
	uint32_t                devices;    /* of that lane: known ones that a subject may have */
	int64_t                 remember_s; /* a success makes the device known, so long; 0: it does not */
	uint32_t                remember_devices; /* the same: the least `devices` of these lanes */
	int64_t                 life_s;
	int64_t                 lapse_s; /* in which an attempt that was begun can be finished */
	bool                    renewed; /* each failure begins the life anew; else it runs from the first */
	enum rule_end           at_max;
	int64_t                 lock_at; /* AT_MAX_CHALLENGE: so many of a subject lock after all; 0: never */
	const struct lock_kind *lock;    /* AT_MAX_LOCK, lock_at */
	int64_t                 source_life_s; /* of counts by source, from their first; 0: as the others */
	const struct lock_kind *source_lock;   /* of counts by source */
	bool                    locks_sources; /* at their maximum, whatever at_max says of subjects */
	struct rule_refs        source_sets;   /* the lock of a source, of the whole journey */
	struct rule_refs        sets;          /* locks */
	struct rule_refs        blocked_by;    /* locks set by others that block this too */
	struct rule_heed       *heeds;         /* what stops it: by these policies, then by those before */
	uint32_t                heeds_now, heed_count; /* by these alone; all */
	uint32_t           heed_room, heed_names; /* for so many there is memory; locks of those before */
	struct rule_refs   clears;                /* counts */
	struct rule_refs   known_after;           /* of that lane: whose success makes a device known */
	struct bytes      *notifications;         /* known notification types; none: any */
	uint32_t           notification_count;
	struct bytes       name;           /* "SIGN_IN/PASSWORD_ENTRY" */
	bool               streak;         /* its failures are consecutive ones (streak.h) */
	bool               ends_streak;    /* its success ends all of them */
	int64_t            challenge_from; /* a risk from which on a challenge is to be passed; 0: none */
	int64_t            blocked_from;   /* … from which on nothing is; 0: none */
	bool               shadow;
	bool               fails_closed; /* without tables, a subject that is not known is refused */
	struct rule_tally *tally;        /* for metrics; shared by the rules of a type */
};

struct journey {
	struct bytes  name;
	struct bytes *locks; /* names of locks, beside those that rules set */
	uint32_t      lock_count;
};

/* A lock that there may be: its sort key, without a qualifier. */
struct lock_known {
	struct bytes sk;
	bool         only_people; /* no rule sets it, or did: its journey has no types */
};

/* What a reset of a credential clears. */
struct reset {
	struct bytes           name;
	struct rule_refs       counts, locks;
	bool                   ends_demand;
	enum intervention_flag demand;        /* which */
	bool                   keeps_devices; /* known ones; else they are forgotten */
};

/* Failures of a person in a row, over several types (streak.h). */
struct consecutive {
	int64_t                 max; /* 0: they are not counted */
	int64_t                 life_s;
	const struct lock_kind *lock;
	struct rule_ref         sets;         /* the lock */
	struct bytes            sk, name;     /* … its sort key; "JOURNEY/NAME" */
	struct rule_refs        of, ended_by; /* types */
};

struct rules {
	struct document    base;
	struct lock_kind  *kinds;
	uint32_t           kind_count;
	struct journey    *journeys;
	uint32_t           journey_count;
	struct rule       *list; /* sorted by journey, type, method */
	uint32_t           count;
	struct lock_known *locks; /* each once */
	uint32_t           lock_count, lock_room;
	size_t             heeds_bytes; /* of what is heeded by the policies before, as text */
	struct reset      *resets;
	uint32_t           reset_count;
	struct consecutive consecutive;
	bool fails_closed; /* what rules say unless they say otherwise, and what tokens are judged by */
	struct network *allowed, *denied; /* sources that are not counted; that may do nothing */
	uint32_t        allowed_count, denied_count;
};

/* The rule for an attempt with that method type (or empty): the one for the method, or the one for any. */
const struct rule *rules_find(const struct rules *r, struct bytes journey, struct bytes type,
                              struct bytes method);

/* The rules of a type, whatever the method: `count` of them in a row. */
const struct rule *rules_of_type(const struct rules *r, struct bytes journey, struct bytes type,
                                 uint32_t *count);

/* A rule of the type that was probably meant, for "did you mean"; NULL: none is close. */
const struct rule *rules_type_meant(const struct rules *r, struct bytes journey, struct bytes type);

/* How many rows the locks of all its maxima take, at worst: a lock, and its level if it grows, for each name and subject. */
uint32_t rule_lock_rows(const struct rule *rule, uint32_t subjects);
uint32_t rule_lock_count(const struct rule *rule, uint32_t subjects); /* the same, without their levels */

/* Does it count by source: with the subject, of all subjects, or of a whole network? */
static inline bool rule_counts_sources(const struct rule *rule)
{
	return rule->max_pair > 0 || rule->max_source > 0 || rule->max_network > 0;
}

bool rule_refs_have(const struct rule_refs *refs, struct bytes journey, struct bytes name);

const struct journey   *rules_journey(const struct rules *r, struct bytes name);
const struct lock_kind *rules_kind(const struct rules *r, struct bytes name);
const struct reset     *rules_reset(const struct rules *r, struct bytes name);

/* Is it a lock that a rule sets or a journey names? */
bool rules_has_lock(const struct rules *r, struct bytes journey, struct bytes name);

/* While a set is made: adds it to `locks`. `by_rule`: a rule sets it, or did. */
void rules_list_lock(struct rules *rules, const struct rule_ref *lock, bool by_rule);

/* Each lock of this kind takes a row more, for how many there were. */
bool lock_kind_grows(const struct lock_kind *kind);

/* How many bits the widest allowed network has that an address is in; -1: it is in none, and counted. */
int  rules_allowed_bits(const struct rules *r, const uint8_t address[16]);
bool rules_deny_source(const struct rules *r, const uint8_t address[16]);

/* A name that may stand in a row's key: capitals, digits, underscores, a letter first. */
bool rule_name_is(struct bytes text);

/* document_kind's parse. */
enum err_code rules_parse(const struct json *tree, struct document **out, struct err *err);

/* What ships with the program: YAML, with a section for each kind of policies. */
struct bytes policy_defaults(void);

/* For rules_read.c, when all are read: sorts the rules, as rules_find needs them, sees to it that none is there twice and that what they refer to exists,
 * and tells each whose success makes a device known. Errors go into f, the set's outermost object. */
void rules_link(struct rules *rules, struct fields *f);

/* ---- tallies ----
 *
 * What rules said, for metrics: one set of counters for each type of each journey, in the document's memory.
 * Names come from the policies, never from callers, so there are only as many as the policies have. Any thread may add. */

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

/* What a caller says of an attempt. */
enum outcome { OUTCOME_FAILURE, OUTCOME_SUCCESS, OUTCOME_SENT, OUTCOME_COUNT };

/* Attempts by outcome. The last: refused when they began, so the outcome is never known. X(id, label) */
#define TALLY_OUTCOMES(X)                                                                                    \
	X(OUTCOME_FAILURE, "failure")                                                                        \
	X(OUTCOME_SUCCESS, "success")                                                                        \
	X(OUTCOME_SENT, "sent")                                                                              \
	X(OUTCOME_COUNT, "unknown")

struct rule_tally {
	struct metric_counter verdicts[RULE_QUESTION_COUNT][VERDICT_COUNT];
	struct metric_counter
	        shadows[VERDICT_COUNT]; /* what it would have said of attempts, in shadow mode */
	struct metric_counter attempts[OUTCOME_COUNT + 1][2]; /* the second: refused */
	struct metric_counter locks_set;                      /* by attempts */
	struct metric_counter sources_locked;                 /* by attempts, too: locks of a source */
	bool                  at_risk;                        /* a rule of the type looks at risk */
	struct metric_counter risks[VERDICT_COUNT];           /* of the verdicts, those because of risk */
};

/* What became of an attempt. */
struct tally_note {
	enum verdict_kind verdict, shadow;
	bool              locked, source_locked;
};

void rule_tally_note(const struct rule *rule, const struct tally_note *note);

/* Each attempt once: at its end, or when it is refused before that. A challenge is not a refusal. */
void rule_tally_attempt(const struct rule *rule, enum outcome outcome, enum verdict_kind verdict);

/* A verdict that was answered: counted if it is because of risk. */
void rule_tally_risk(const struct rule *rule, const struct verdict *v);

/* document_kind's inherit: a new version of the policies goes on counting where the last one was. What is added to the old
 * one in this moment is lost. */
void rule_tally_inherit(struct document *next, const struct document *now);

#endif
