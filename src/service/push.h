/* Push: messages that wait to be sent, are being sent, or were accepted and wait for their receipt. Rows of the table
 * `gatehouse-push`; each is a batch: up to PUSH_BATCH_MAX messages of one notification (notification.h), which are sent in one
 * call. Batches, and not messages, are rows, so that what a call did fits into one commit.
 *
 * There are two lanes: messages to one user, and broadcasts. A lane has shards of its own, and so workers of its own: a broadcast does
 * not hold up a user's message.
 *
 *   WAIT#<shard>     <when it is due>#<id>   recipients by user and device; tokens are read when it is sent
 *   SENDING#<shard>  <id>                    handed to the network by `owner`
 *   RECEIPT#<shard>  <when it is due>#<id>   tokens and ticket ids
 *   DEAD#<shard>     <id>                    tokens that are to be disabled
 *   COUNT            <shard>                 how many messages of it wait or are being sent
 *   RATE             EXPO                    the rate that processes share (push_rate.h)
 *
 *   enqueue      take         call           settle
 *     |           |            |             |
 *     v           v                          v
 *   WAIT ----> SENDING ---------------> RECEIPT ---> delivered, failed, unconfirmed
 *     ^           |   '---> WAIT, if Expo accepted nothing; dropped, if it was cancelled
 *     |           '-------> failed, unknown; DEAD
 *
 * What always holds
 * (1) A batch is SENDING, durably, before anything of it is sent. Whatever is found there later got no answer that we know
 *     of: it is unknown, and is sent again only if its notification asks for that, and at most PUSH_RESENDS_MAX times.
 * (2) A shard has one sender per process, and a batch is taken and settled on the row as it was read. So of several processes
 *     one sends it.
 * (3) At most `queue_max` messages of a lane wait or are being sent. Past that a notification is refused, and nothing is done.
 * (4) A batch holds messages of one project, once Expo has told us that there are several.
 * (5) What a service knows of sending is here; it knows no network. server/push.h sends. */
#ifndef SERVICE_PUSH_H
#define SERVICE_PUSH_H

#include "service/notification.h"

enum {
	PUSH_LANE_SHARDS = 4,
	PUSH_BATCH_MAX = 100, /* messages of a batch, and of a call */
	PUSH_CALL_BATCHES_MAX = 16,
	PUSH_QUEUE_MAX = 1000000, /* (3), unless set */
	PUSH_LEASE_S = 90,   /* how long another process may be sending a batch; a call takes at most 60 s */
	PUSH_BACK_OFF_S = 1, /* doubled with each try, up to … */
	PUSH_BACK_OFF_S_MAX = 300,
	PUSH_RESENDS_MAX = 8,     /* of a message that got no answer; so often may a phone show it twice */
	PUSH_TRIES_TOGETHER = 4,  /* then a batch is in a call of its own: it may be what Expo fails at */
	PUSH_RECEIPT_S = 15 * 60, /* after it was sent; and again, if it was not ready */
	PUSH_RECEIPT_S_MAX = 24 * 3600,
	PUSH_RECEIPTS_MAX = 1000, /* of one call */
	PUSH_PROJECTS_MAX = 16,   /* that one rejection splits a batch into */
};

enum push_lane { PUSH_LANE_USER, PUSH_LANE_BROADCAST, PUSH_LANES };

/* Shards of all lanes: those of the first, then those of the second. */
enum { PUSH_SHARDS = PUSH_LANES * PUSH_LANE_SHARDS };

struct push_recipient {
	struct bytes user, device; /* empty: the user was erased */
	struct bytes token, ticket;
};

struct push_batch {
	struct bytes           key, id, notification, project;
	bool                   apart; /* in a call of its own: refused, or put off too often */
	bool                   over;  /* of push_due: it may not be sent any more */
	int64_t                tries, since_us, due_us, sent_s;
	int64_t                unanswered; /* tries that got no answer */
	struct push_recipient *list;
	uint32_t               count;
	struct notification    n; /* if it was taken: its message, and since when it waits */
};

struct push_batches {
	struct push_batch *list;
	uint32_t           count;
	uint32_t           messages;  /* that are to be sent */
	int64_t            next_us;   /* when the next one is due; 0: none waits */
	int64_t            oldest_us; /* since when the first one waits; 0: none does */
};

/* What a commit changed. */
struct push_tally {
	uint64_t states[PUSH_STATE_COUNT]; /* messages that came into that state */
	uint64_t errors[PUSH_ERROR_COUNT];
	uint64_t disabled, resent;
};

enum push_end { PUSH_TICKETS, PUSH_LATER, PUSH_REFUSED, PUSH_LOST, PUSH_END_COUNT };
extern const char *const push_end_names[PUSH_END_COUNT];

/* For the metrics: since the server started. Any thread. */
struct push_numbers {
	struct metric_counter states[PUSH_STATE_COUNT], errors[PUSH_ERROR_COUNT], calls[PUSH_END_COUNT];
	struct metric_counter disabled, resent, receipts; /* receipts: asked for */
	_Atomic int64_t       queued;                     /* messages that wait or are being sent */
	_Atomic int64_t       oldest_us[PUSH_SHARDS];     /* since when the oldest one waits; 0: none does */
};

/* ---- the sender, as services see it: services.h has one ---- */

/* Is somebody there who sends? */
bool push_is_on(const struct services *s);
void push_wake(const struct services *s); /* all workers; a commit that queues wakes those of its shards */

/* ---- queueing ---- */

/* In batches; adds to the counts of n, which the caller puts. (3) ERR_OVERLOADED. */
enum err_code push_enqueue(struct context *ctx, struct notification *n, const struct push_recipient *list,
                           uint32_t count, struct err *err);

/* ---- sending: one thread per shard ---- */

struct push_sender {
	uint32_t     shard;
	struct bytes owner; /* of this process, random */
};

/* (1) What is left of calls that nobody waits for any more. out->states[PUSH_UNKNOWN] and out->resent are 0: nothing was left. */
enum err_code push_sweep(struct context *ctx, const struct push_sender *who, struct push_tally *out,
                         struct err *err);

/* What a call may send now: due, of one project, and at most `room` messages; of a batch that is larger, the first `room`. Tokens are
 * filled in; a recipient without one is not active any more. And batches that nobody may send any more (cancelled, expired), whatever the
 * room: they are among the list and not among its messages. On a session that only reads. */
enum err_code push_due(struct context *ctx, uint32_t shard, uint32_t room, struct push_batches *out,
                       struct err *err);

/* Takes them over: afterwards out->list has what is to be sent, with its notifications. May have fewer than were due. What cannot be sent
 * any more leaves the queue. */
struct push_take {
	const struct push_sender  *who;
	const struct push_batches *due;
};

enum err_code push_take(struct context *ctx, const struct push_take *q, struct push_batches *out,
                        struct push_tally *tally, struct err *err);

/* Once they are taken, right before the call, on a session that only reads: recipients that are not to get it any more lose
 * their token, and are not sent to. */
enum err_code push_recheck(struct context *ctx, struct push_batches *taken, struct err *err);

struct push_ticket {
	bool         ok;
	struct bytes id, error;
};

struct push_project {
	struct bytes        name;
	const struct bytes *tokens;
	uint32_t            token_count;
};

/* How a call ended. */
struct push_settle {
	const struct push_sender  *who;
	const struct push_batches *sent;
	uint32_t                   from;         /* the first batch that is not settled yet */
	uint32_t                   first_ticket; /* of that batch */
	enum push_end              end;
	const struct push_ticket
	        *tickets; /* PUSH_TICKETS: one per message, also of those that were not sent (push_recheck) */
	struct bytes               code; /* PUSH_REFUSED */
	const struct push_project *projects;
	uint32_t                   project_count;
	int64_t                    wait_s; /* PUSH_LATER: at least */
};

/* Settles as many batches as there is room for; *next is the first that is left. */
enum err_code push_settle(struct context *ctx, const struct push_settle *q, uint32_t *next,
                          struct push_tally *tally, struct err *err);

/* ---- receipts ---- */

/* On a session that only reads. Up to PUSH_RECEIPTS_MAX of them. */
enum err_code push_receipts_due(struct context *ctx, uint32_t shard, struct push_batches *out,
                                struct err *err);

struct push_receipt {
	bool         found, ok;
	struct bytes error;
};

struct push_receipts {
	uint32_t                   shard;
	const struct push_batches *asked;
	const struct push_receipt *list;        /* one per message that has a ticket */
	uint32_t                   from, first; /* the first batch and receipt that are not settled yet */
};

enum err_code push_receipts_settle(struct context *ctx, const struct push_receipts *q, uint32_t *next,
                                   struct push_tally *tally, struct err *err);

/* ---- dead tokens ---- */

/* Disables some. *more: there are others. */
enum err_code push_dead_take(struct context *ctx, uint32_t shard, bool *more, struct push_tally *tally,
                             struct err *err);

/* ---- reading ---- */

/* How many wait or are being sent. */
enum err_code push_queued(struct context *ctx, int64_t *out, struct err *err);

/* ---- for erase.h ---- */

struct erasing;
bool        push_owns(struct context *ctx, const struct erasing *e, const struct item *row);
struct item push_blank(struct context *ctx, const struct erasing *e, const struct item *row);

#endif
