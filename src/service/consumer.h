/* Consumers: readers of events whose place is kept here. A consumer has a name and a position that its members acknowledge; several
 * members share it by subject, and the order of a subject's events is kept. Rows of the table gatehouse-events:
 *
 *   CONSUMER   <name>       what it reads, its partitions {after, member}, its members {name, until, lease, generation}
 *   HEAD       CONSUMERS    count; generation: the last of those that were deleted
 *
 * Subjects are spread over partitions. A member leases some of them, reads their events, and acknowledges how far it is.
 *
 *     free --a member polls--> leased --it polls, there are more members--> free
 *                                '-----its lease lapses, another polls----> free
 *
 * What always holds
 * (1) A partition has one member at most. It begins where it was acknowledged, so an event is delivered until it is acknowledged:
 *     at least once, and in the order of its subject.
 * (2) A member gives partitions up only when it polls: it has dealt with what it was given by then. It loses them without that only
 *     when its lease has lapsed.
 * (3) An acknowledgement carries the generation that came with the events. If the member has lost or gained partitions since, the
 *     generation is another one, and the acknowledgement is refused: somebody else may have been given the events. So it is if the consumer
 *     got other types, or was deleted and made anew: there may be events before `after` that the member was not given.
 * (4) A position never goes back, except by seek, which refuses all acknowledgements of what was given before.
 * (5) `positions` is the earliest of all partitions: what trimming may rely on. */
#ifndef SERVICE_CONSUMER_H
#define SERVICE_CONSUMER_H

#include "service/event_log.h"

enum {
	CONSUMERS_MAX = 200,
	CONSUMERS_PER_KEY = 100,      /* unless set: that one key created, also after it was revoked */
	CONSUMER_NAME_BYTES_MAX = 64, /* of a consumer, of a member */
	CONSUMER_PARTITIONS = 8,      /* unless set */
	CONSUMER_PARTITIONS_MAX = 64,
	CONSUMER_MEMBERS_MAX = 64,
	CONSUMER_PATTERNS_MAX = 64, /* of types */
	CONSUMER_LEASE_S = 30,      /* unless set */
	CONSUMER_LEASE_S_MIN = 2,
	CONSUMER_LEASE_S_MAX = 3600,
};

struct consumer_member {
	struct bytes name;
	int64_t      until_s, lease_s, generation;
};

struct consumer_partition {
	struct event_cursor after;
	struct bytes        member; /* empty: free */
};

struct consumer {
	struct bytes               name;
	struct bytes              *patterns; /* of types; none: all */
	uint32_t                   pattern_count;
	uint64_t                   types; /* the same, as a set */
	struct consumer_partition *partitions;
	uint32_t                   partition_count;
	struct consumer_member    *members; /* with room for one more */
	uint32_t                   member_count;
	int64_t                    generation;
	struct bytes created_at, created_by, updated_at; /* created_by: a key; empty: of an older program */
	struct item  row;
};

/* Letters, digits, . _ and -. */
bool consumer_name_is(struct bytes name);

/* ERR_NOT_FOUND. */
enum err_code consumer_get(struct context *ctx, struct bytes name, struct consumer *out, struct err *err);

struct consumers {
	struct consumer *list; /* by name */
	uint32_t         count;
};

enum err_code consumers_all(struct context *ctx, struct consumers *out, struct err *err);

/* The earliest of its partitions. (5) */
void consumer_position(const struct consumer *c, struct event_cursor *out);

enum err_code consumer_lag(struct context *ctx, const struct consumer *c, struct event_lag *out,
                           struct err *err);

/* ---- what people change ---- */

struct consumer_new {
	struct bytes        name;
	const struct bytes *patterns; /* none: all types */
	uint32_t            pattern_count;
	uint32_t            partitions; /* 0: as they are, or CONSUMER_PARTITIONS */
	struct event_cursor from;       /* of a new one */
	bool                from_given; /* then it must be a new one */
};

struct consumer_put {
	struct consumer consumer;
	bool            created;
};

/* With another number of partitions all begin at the earliest position, and members share anew. ERR_LIMIT: there are
 * CONSUMERS_MAX, or the caller's key created consumers_per_key (services.h). ERR_NOT_NOW: it has a place already, and `from` is given. */
enum err_code consumer_put(struct context *ctx, const struct consumer_new *q, struct consumer_put *out,
                           struct err *err);
enum err_code consumer_delete(struct context *ctx, struct bytes name, struct err *err);

/* All partitions begin there. (4) ERR_GONE, ERR_INVALID: as events_check. */
struct consumer_seek {
	struct bytes        name;
	struct event_cursor to;
};

enum err_code consumer_seek(struct context *ctx, const struct consumer_seek *q, struct consumer *out,
                            struct event_move *move, struct err *err);

/* ---- what members do ---- */

struct consumer_poll {
	struct bytes name, member;
	int64_t lease_s; /* how long it may take to deal with what it gets; at least half of it is left */
};

/* What a member may read now. */
struct consumer_share {
	uint32_t                   partition_count;
	uint64_t                   mask; /* the member's; 0: none are free for it */
	struct event_cursor        from; /* the earliest of them */
	struct consumer_partition *partitions;
	uint64_t                   types;
	int64_t                    generation;
	int64_t                    until_s;      /* of its lease */
	int64_t                    next_lapse_s; /* of another's; 0: there is none */
	bool                       changed;      /* of consumer_join: who has which partition */
};

/* Is the member's share right as it is, so that it can read without a write? */
bool consumer_holds(const struct consumer *c, const struct consumer_poll *q, int64_t now_s,
                    struct consumer_share *out);

/* Renews its lease, gives up what is too much (2) and takes what is free. ERR_LIMIT: CONSUMER_MEMBERS_MAX. */
enum err_code consumer_join(struct context *ctx, const struct consumer_poll *q, struct consumer_share *out,
                            struct err *err);

/* Is it an event of the share that was not acknowledged? */
bool consumer_wants(const struct consumer_share *s, uint32_t shard, int64_t position, uint64_t subject_hash);

struct consumer_ack {
	struct bytes        name, member;
	int64_t             generation;
	struct event_cursor after;
	bool                leave; /* it gives up all that it has */
};

/* Renews its lease, too. ERR_NOT_NOW: (3). ERR_INVALID, about `after`: the log is not that long. */
enum err_code consumer_ack(struct context *ctx, const struct consumer_ack *q, struct consumer_share *out,
                           struct err *err);

#endif
