/* The policies of events: which types are published, what they may tell, and for how long they are kept. A document
 * (document.h): immutable, counted.
 *
 *   events:
 *     source: gatehouse
 *     types: [lock.*, user.*]          a type, all of a group, or "*"
 *     personal_data: [email.added]     types that may carry addresses and sources
 *     keep: 604800
 *     lag_max: 259200
 *     near_limit: 1
 *     outbox: false
 */
#ifndef SERVICE_EVENT_POLICY_H
#define SERVICE_EVENT_POLICY_H

#include "service/document.h"

/* X(id, type). A type that begins with `attempt.` is off unless it is switched on: it may come with every attempt. */
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
	X(EVENT_DEVICE_REMOVED, "device.removed")                                                            \
	X(EVENT_DEVICE_EXPIRED, "device.expired")                                                            \
	X(EVENT_STATE_CHANGED, "state.changed")                                                              \
	X(EVENT_ATTEMPT_NEAR_LIMIT, "attempt.near_limit")                                                    \
	X(EVENT_ATTEMPT_NEW_SOURCE, "attempt.new_source")                                                    \
	X(EVENT_POLICY_CHANGED, "policy.changed")                                                            \
	X(EVENT_PUSH_SENT, "push.sent")                                                                      \
	X(EVENT_PUSH_FAILED, "push.failed")                                                                  \
	X(EVENT_TARGET_DISABLED, "target.disabled")                                                          \
	X(EVENT_TEST_PING, "test.ping")

/* The schema of a type: before, the type, after. */
#define EVENT_SCHEMA_BEFORE "urn:gatehouse:event:"
#define EVENT_SCHEMA_AFTER  ":1"

enum event_type {
#define X(id, type) id,
	EVENT_TYPES(X)
#undef X
	        EVENT_TYPE_COUNT
};

#define EVENT_BIT(type) (UINT64_C(1) << (type)) /* in a set of types */
#define EVENT_ALL       (EVENT_BIT(EVENT_TYPE_COUNT) - 1)

enum {
	EVENT_SOURCE_MAX = 256,
	EVENT_PATTERNS_MAX = 64,   /* of one list */
	EVENT_TYPE_CHARS_MAX = 64, /* of a type or pattern */

	EVENT_KEEP_S = 7 * 86400, /* unless set; so with the next ones */
	EVENT_LAG_S = 30 * 86400,
	EVENT_NEAR_LIMIT = 1,

	EVENT_KEEP_S_MIN = 60, /* what may be set; so with the next ones */
	EVENT_KEEP_S_MAX = 10 * 366 * 86400,
	EVENT_NEAR_LIMIT_MAX = 1000000,
};

struct event_policy {
	struct document base;
	struct bytes    source;     /* of the CloudEvents */
	uint64_t        on;         /* a set of types */
	uint64_t        personal;   /* those that may carry addresses and sources */
	int64_t         keep_s;     /* how long an event stays at least */
	int64_t         lag_max_s;  /* … and at most, if a durable reader does not get on */
	int64_t         near_limit; /* tries that remain */
	bool            outbox;     /* each event is also a row of the table `outbox` */
};

/* document_kind's parse. */
enum err_code event_policy_parse(const struct json *tree, struct document **out, struct err *err);

/* What holds where there is no policy. */
extern const struct event_policy event_policy_usual;

/* "lock.set", and back; EVENT_TYPE_COUNT: there is no such type. */
const char     *event_type_name(enum event_type type);
enum event_type event_type_named(struct bytes name);

/* The types that a text stands for: "lock.set", "lock.*" or "*". 0: it is none of these. */
uint64_t event_types_of(struct bytes text);

#endif
