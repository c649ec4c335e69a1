/* Assess: what holds for an attempt before it is counted: which counters it touches, which locks and states
 * stand against it, and what the status of its user says (account.h). attempt.c counts on top of it, check.c only reports it: so both say the same.
 *
 * An attempt runs in one of two lanes. A known device (device.h) has a budget of its own, so that nobody else's
 * failures keep its owner out; everyone else shares the subject's. Beside the subject, a source may be counted: with
 * this subject (pair), and with all. */
#ifndef SERVICE_ASSESS_H
#define SERVICE_ASSESS_H

#include "service/account.h"
#include "service/device.h"
#include "service/rules.h"
#include "service/state.h"
#include "service/streak.h"

enum {
	METHOD_ID_MAX = 128,
	COUNTERS_MAX = 4,     /* of one attempt: subject or lanes, pair, source, its network */
	COUNTER_ROWS_FEW = 4, /* for which there is room at first */
	COUNTER_ROWS_MAX =
	        64, /* qualifiers of a type that a lock or a success removes at once; all are counted */
};

/* LANES: all known devices of the subject together; each one's own count is in device.h. */
/* SOURCE: a source, or a network of sources: whichever the counter's pk is. */
enum scope { SCOPE_SUBJECT, SCOPE_LANES, SCOPE_PAIR, SCOPE_SOURCE };

struct reservation;

/* Who tries what, from where. */
struct attempt {
	struct bytes        subjects[PERSON_IDS_MAX]; /* the first is the one that is written to */
	uint32_t            subject_count;
	uint32_t            main_count; /* states and locks are those of the first so many; 0: of all */
	const struct bytes *owners;     /* the user of each, empty if none is known; NULL: of none */
	bool                alone;      /* only the ids that it names count, not the person's others */
	struct bytes       *emails; /* of subjects that came as an address, for account.h; NULL: none did */
	struct bytes       *users;  /* of subjects whose user is known; NULL: of none */
	const struct rules *rules;
	const struct rule  *rule;
	struct bytes        method_id, method_type, notification_type; /* empty: not said */
	struct bytes        source;                                    /* hashed; empty: not said */
	struct bytes        network;        /* of the source, hashed; empty: it has none */
	bool                source_allowed; /* it is not counted */
	bool    source_spared;    /* only a part of it is allowed: what others of it did stops others */
	bool    network_spared;   /* the same of its network */
	bool    source_denied;    /* it may do nothing */
	bool    challenge_passed; /* what `challenge` asked for was done */
	int64_t risk;             /* that the caller sees in it, up to RISK_MAX; 0: none, or not said */

	/* Known devices. */
	bool                        token_sent;
	struct bytes                token;  /* … and not looked at yet; empty: it was, or there is none */
	const struct device_keys   *keys;   /* for it */
	struct bytes                device; /* the name in the token; empty: none, or not valid */
	struct bytes                device_of; /* the id that it is good for; empty: the first */
	bool                        remembers; /* the caller wants a token, if there is one */
	const struct device_making *making;    /* NULL: a success issues no token */
	struct bytes                device_id; /* the registered device that it comes from; empty: not said */

	const struct account *account; /* found and judged already (attempt_whole); NULL: not yet */

	/* Attempts in two steps (reservation.h). */
	struct bytes        reservation; /* it begins under this name; empty: it is recorded at once */
	struct reservation *finishing;   /* this success finishes it; NULL: none */
};

/* Of a count that a reservation is in: the name of the first one. Another one there since is another count. */
#define ROW_BEGUN_SINCE "begun_since"

/* What a lock of one qualifier took off its count. It still counts in the sum over all. */
#define ROW_LOCKED_COUNT "locked_count"

/* What a lock in shadow mode of one qualifier took off its count: while that lock would hold, it is over its line. */
#define ROW_SHADOW_COUNT "shadow_count"
#define ROW_SHADOW_UNTIL "shadow_until"

/* All that a row of a count says: what counts for its qualifier, and what a lock moved aside. */
int64_t count_of_row(const struct item *item);

struct count_row {
	struct bytes pk, sk;
	struct item  item;
	int64_t      count;
};

struct counter {
	enum scope              scope;
	struct bytes            pk;        /* where it is counted */
	struct bytes            name;      /* the key without qualifier */
	struct bytes            sk;        /* the key */
	struct bytes            qualifier; /* of its rows and its lock */
	int64_t                 max, max_each;
	struct count_row       *rows;                         /* those that count together, of all subjects */
	uint32_t                row_count, row_room, row_max; /* room: for so many there is memory */
	int64_t                 total, each;                  /* of all rows; of those with this very key */
	int64_t                 ends_s; /* when the earliest of its rows expires; 0: there is none */
	const struct count_row *own;    /* the row that is counted in, if it is there */
};

/* What a caller is told of counts: of the counter that is nearest to its maximum. max 0: of none. */
struct count_shown {
	int64_t      count, max, remaining, ends_s;
	struct bytes of; /* failures in a row (streak.h): the lock that they set. Empty: the type's own */
};

/* Takes the counter's place in *shown if it is nearer. */
void counter_show(const struct counter *c, struct count_shown *shown);
void lane_show(const struct device_lane *lane, const struct rule *rule, struct count_shown *shown);

struct assessment {
	const struct account *account;
	struct device_lane    lane; /* open: it runs there */
	struct counter        counters[COUNTERS_MAX];
	uint32_t              counter_count;
	struct streak         streak;  /* of a rule in `consecutive` */
	struct verdict        verdict; /* what stands against it now */
	struct verdict        shadow;  /* the same of a rule in shadow mode */
	struct counter *due; /* full, and without the lock that it sets: that is what stands. NULL: none */
	bool            due_each;        /* the lock is for one qualifier */
	struct states_required required; /* what does not, but must be told */
};

/* Of all its counters, the lane, and the failures in a row. */
void assessment_show(const struct assessment *now, const struct attempt *q, struct count_shown *shown);

/* So many in a row, of q->rule. If as many remain as of another count, these are shown: what they set is worse. */
void streak_show(const struct attempt *q, int64_t count, int64_t ends_s, struct count_shown *shown);

/* Which locks a counter that reached its maximum sets, and is stopped by: the classifier type and the
 * qualifier of their keys. */
struct lock_shape {
	const char  *type;
	struct bytes qualifier;
};

/* `each`: the lock is for one qualifier only. */
struct lock_shape counter_lock_shape(const struct counter *c, const struct rule *rule, bool each);

const struct lock_kind *counter_lock_kind(const struct counter *c, const struct rule *rule);

/* The attempt of a person, with all ids that the person has (account.h). To be made before it is assessed. The one that it is made of may be
 * `whole` already. */
enum err_code attempt_whole(struct context *ctx, const struct attempt *q, struct attempt *out,
                            struct err *err);

/* What tells the rows of q->rule's type apart; empty: nothing does. */
struct bytes attempt_qualifier(const struct attempt *q);

/* The names of those locks; and does a full count set them, or bar by itself? */
const struct rule_refs *counter_sets(const struct counter *c, const struct rule *rule);
bool                    counter_locks(const struct counter *c, const struct rule *rule);

enum err_code assess(struct context *ctx, const struct attempt *q, struct assessment *out, struct err *err);

#endif
