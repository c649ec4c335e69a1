/* Events: what happened, in order. A service publishes while it decides; the event is written in the same commit as the
 * change that caused it, or neither is. Readers follow the log (event_log.h).
 *
 *   HEAD        LOG#0                   position                  the last position of a shard of the log
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
 * as little as possible comes in between. */
#ifndef SERVICE_EVENT_H
#define SERVICE_EVENT_H

#include "service/context.h"

/* X(id, type) */
#define EVENT_TYPES(X)                                                                                       \
	X(EVENT_LOCK_SET, "lock.set")                                                                        \
	X(EVENT_LOCK_CLEARED, "lock.cleared")                                                                \
	X(EVENT_LOCK_EXPIRED, "lock.expired")                                                                \
	X(EVENT_USER_CREATED, "user.created")                                                                \
	X(EVENT_USER_UPDATED, "user.updated")                                                                \
	X(EVENT_USER_DELETED, "user.deleted")                                                                \
	X(EVENT_USER_SUSPENDED, "user.suspended")                                                            \
	X(EVENT_USER_REACTIVATED, "user.reactivated")                                                        \
	X(EVENT_USER_ERASED, "user.erased")                                                                  \
	X(EVENT_TOKEN_REVOKED, "token.revoked")                                                              \
	X(EVENT_EMAIL_ADDED, "email.added")                                                                  \
	X(EVENT_EMAIL_VERIFIED, "email.verified")                                                            \
	X(EVENT_EMAIL_REMOVED, "email.removed")                                                              \
	X(EVENT_EMAIL_PRIMARY_CHANGED, "email.primary.changed")                                              \
	X(EVENT_DEVICE_REGISTERED, "device.registered")                                                      \
	X(EVENT_DEVICE_MOVED, "device.moved")                                                                \
	X(EVENT_DEVICE_DEACTIVATED, "device.deactivated")                                                    \
	X(EVENT_DEVICE_REMOVED, "device.removed")

enum event_type {
#define X(id, type) id,
	EVENT_TYPES(X)
#undef X
	        EVENT_TYPE_COUNT
};

enum {
	EVENT_SHARDS_MAX = 100,
	EVENT_POSITION_DIGITS = 20,
	EVENT_ID_CHARS = 32,
	EVENT_TIME_CHARS = 27, /* 2026-09-10T00:26:40.123456Z */
};

struct event {
	enum event_type type;
	struct bytes    subject;
	struct item     data; /* well-formed; empty: none */
};

/* "lock.set", and back; EVENT_TYPE_COUNT: there is no such type. */
const char     *event_type_name(enum event_type type);
enum event_type event_type_named(struct bytes name);

/* Of the log, at least one. */
uint32_t event_shards(const struct services *services);

/* With the changes of this context, if the type is switched on. It is valid until the commit. */
void ctx_publish(struct context *ctx, const struct event *e);

/* Tells readers of the log, if this context published something. After its commit, which is durable. Any thread. */
void ctx_published(const struct context *ctx);

/* ---- for erase.h ---- */

/* What a subject that was erased is called: "erased:…". */
struct bytes event_subject_erased(struct context *ctx, struct bytes subject);

/* Its last number moves there. If its id is used again, the numbers go on. (3) */
enum err_code event_number_move(struct context *ctx, struct bytes subject, struct err *err);

/* ---- for change.h ---- */

/* Numbers what was published and adds its rows to the changes. */
enum err_code events_add(struct changes *c, struct table *t, struct err *err);

#endif
