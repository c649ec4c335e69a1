/* Events: what happened, in order. A service publishes while it decides; the event is written in the same commit as the
 * change that caused it, or neither is. Readers follow the log (event_log.h).
 *
 *   HEAD        LOG#0                   position                  the last position of the log; of one with several shards (event_shards.h),
 *   HEAD#3      LOG#3                   position                  … of each shard, in a partition of its own: each is written with every event
 *   LOG#0       00000000000000000042    a CloudEvent, its seq     an event
 *   SUBJECT#s   SEQ                     seq                       the last number of a subject's events; of one that was
 *                                                                 erased, s is "erased:" and a keyed hash
 *
 * What always holds
 * (1) No event without its change, no change without its event.
 * (2) The positions of a shard have no gap: a reader that has reached a position has seen every event before it.
 * (3) The numbers (seq) of a subject's events have no gap, and follow the positions. A subject's events are in one shard.
 * (4) A type that is switched off costs nothing.
 *
 * (2) and (3) hold because each commit changes the head and the subject's number that it read. They are read last, so that
 * as little as possible comes in between. Where the table counts (table.h), it does so in the commit itself. */
#ifndef SERVICE_EVENT_H
#define SERVICE_EVENT_H

#include "base/metric.h"
#include "service/context.h"
#include "service/event_policy.h"

enum {
	EVENT_POSITION_DIGITS = 20,
	EVENT_ID_CHARS = 32,
	EVENT_TIME_CHARS = 27, /* 2026-09-10T00:26:40.123456Z */
};

struct event {
	enum event_type type;
	struct bytes    subject;
	struct item     data; /* well-formed; empty: none */
};

/* Shards of the log, at least one. */
uint32_t event_shards(const struct services *services);

/* The one that a subject's events are in, of so many: always alike, or its events would lose their order. */
uint32_t event_shard(struct bytes subject, uint32_t shards);

/* Is the type switched on? Ask before you put its data together. (4) */
static inline bool ctx_publishes(const struct context *ctx, enum event_type type)
{
	return !ctx->degraded && !ctx->quiet &&
	       (atomic_load_explicit(&ctx->services->events.on, memory_order_relaxed) >> type & 1) != 0;
}

/* May events of this type carry addresses and sources? */
bool ctx_publishes_personal(struct context *ctx, enum event_type type);

/* With the changes of this context, if the type is switched on. It is valid until the commit. */
void ctx_publish(struct context *ctx, const struct event *e);

/* After a commit of this context has become durable: whoever waits for events is told, if it published any. */
void ctx_published(struct context *ctx);

/* Of a call with several commits: ctx_published of `to` also tells what this commit has published. */
void ctx_published_join(struct context *to, const struct context *from);

/* The policies of events as this call sees them: those that were in force when it first asked. */
const struct event_policy *ctx_event_policy(struct context *ctx);

/* document_kind's changed: what is switched on is what the policy in force says. ctx: the struct event_settings. */
void event_settings_changed(void *ctx);

/* ---- for the metrics ---- */

struct event_numbers {
	struct metric_spread  published[EVENT_TYPE_COUNT]; /* in commits that are durable */
	struct metric_counter trimmed, trimmed_unread;     /* unread: before a durable reader had them */
};

/* ---- texts ---- */

struct bytes event_seconds_text(struct arena *a, int64_t time_s); /* "2026-09-10T00:26:40Z" */

/* ---- keys of rows ---- */

struct bytes event_log_key(struct arena *a, uint32_t shard);                   /* "LOG#0" */
struct bytes event_head_key(struct arena *a, uint32_t shards, uint32_t shard); /* the partition of its head */
struct bytes event_position_text(struct arena *a, int64_t position);           /* its sort key */

/* ---- for erase.h ---- */

/* What a subject that was erased is called: "erased:…". */
struct bytes event_subject_erased(struct context *ctx, struct bytes subject);

/* Was an event of that subject ever published, since it was last erased? */
enum err_code event_number_exists(struct context *ctx, struct bytes subject, bool *out, struct err *err);

/* Its last number moves there. If its id is used again, the numbers go on. (3) No event of this subject may be published in the same commit. */
enum err_code event_number_move(struct context *ctx, struct bytes subject, struct err *err);

/* ---- for change.h ---- */

/* Numbers what was published and adds its rows to the changes; where the table counts, the commit does so. */
enum err_code events_add(struct changes *c, struct table *t, struct err *err);

#endif
