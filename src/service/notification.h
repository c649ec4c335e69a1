/* Notifications: what was sent to whom, and what became of it. A notification is one row of the table `gatehouse-push`; its
 * messages, one per device, wait in batches (push.h).
 *
 *   NOTIFICATIONS  <id>   userId or platform, message, counts, errors, …      ids are sorted by time
 *
 * A message is in one of these states, and `counts` has the number of each:
 *
 *   queued --> sending --> accepted --> delivered      Apple or Google took it from Expo
 *     |  ^        |           |                          (accepted --> queued, if its receipt says MessageRateExceeded)
 *     |  '--------+           +-------> failed         `errors` has the codes
 *     |   later   |           '-------> unconfirmed    Expo had no receipt within a day
 *     |           +-------------------> failed
 *     |           +-------------------> unknown        no answer: Expo may have it; or queued again, if `onUnknown` is retry
 *     |           '-------------------> cancelled      by a person; what was being sent then, if Expo did not take it
 *     +-------------------------------> cancelled      all that waited, at once
 *     +-------------------------------> skipped        the device or its user is not active any more
 *     '-------------------------------> expired        it could not be sent in time
 *
 * What always holds
 * (1) The counts add up to `messages`, in every commit.
 * (2) The text of the message is kept until nothing is left that may have to be sent, and is shown to nobody.
 * (3) A user that is not active gets nothing: it is refused here, and looked at again when a message is sent. */
#ifndef SERVICE_NOTIFICATION_H
#define SERVICE_NOTIFICATION_H

#include "service/job.h"
#include "service/push_device.h"

enum {
	NOTIFICATION_BYTES_MAX = 4096, /* of a message without its recipients, as JSON */
	NOTIFICATION_KEPT_S = 30 * 86400,
	NOTIFICATION_WAIT_S = 86400, /* then what was not sent has expired, whatever its `ttl` */
	NOTIFICATION_GRACE_S = 30,   /* that a message with a shorter `ttl` may wait here all the same */
	NOTIFY_DEVICES_MAX = 500,    /* of one call */
	NOTIFY_LISTED_MAX = 100,     /* that it may name */
	BROADCAST_PAGE = 500,        /* devices per step */
	NOTIFICATIONS_PAGE_MAX = 500,
};

/* X(id, name) */
#define PUSH_STATES(X)                                                                                       \
	X(PUSH_QUEUED, "queued")                                                                             \
	X(PUSH_SENDING, "sending")                                                                           \
	X(PUSH_ACCEPTED, "accepted")                                                                         \
	X(PUSH_DELIVERED, "delivered")                                                                       \
	X(PUSH_FAILED, "failed")                                                                             \
	X(PUSH_UNKNOWN, "unknown")                                                                           \
	X(PUSH_UNCONFIRMED, "unconfirmed")                                                                   \
	X(PUSH_SKIPPED, "skipped")                                                                           \
	X(PUSH_EXPIRED, "expired")                                                                           \
	X(PUSH_CANCELLED, "cancelled")

enum push_state {
#define X(id, name) id,
	PUSH_STATES(X)
#undef X
	        PUSH_STATE_COUNT
};

extern const char *const push_state_names[PUSH_STATE_COUNT];

/* Expo's codes, of tickets, receipts and requests. */
#define PUSH_ERRORS(X)                                                                                       \
	X("DeviceNotRegistered")                                                                             \
	X("MessageTooBig")                                                                                   \
	X("MessageRateExceeded")                                                                             \
	X("MismatchSenderId")                                                                                \
	X("InvalidCredentials")                                                                              \
	X("DeveloperError")                                                                                  \
	X("ProviderError")                                                                                   \
	X("ExpoError")                                                                                       \
	X("PUSH_TOO_MANY_EXPERIENCE_IDS")                                                                    \
	X("PUSH_TOO_MANY_NOTIFICATIONS")                                                                     \
	X("VALIDATION_ERROR")                                                                                \
	X("Other")

enum { PUSH_ERROR_COUNT = 12, PUSH_NOT_REGISTERED = 0, PUSH_RATE_EXCEEDED = 2 };
extern const char *const push_error_names[PUSH_ERROR_COUNT];
unsigned                 push_error_of(struct bytes code); /* the last: any other */

/* Devices that get no message, and why. X(id, name) */
#define PUSH_LEFT_OUTS(X)                                                                                    \
	X(PUSH_NO_EXPO_TOKEN, "noExpoToken") /* tokens of FCM or APNs alone */                               \
	X(PUSH_BAD_EXPO_TOKEN, "badExpoToken")                                                               \
	X(PUSH_SIGNED_OUT, "inactive")                                                                       \
	X(PUSH_NOT_FOUND, "notFound") /* named in the request */

enum push_left_out {
#define X(id, name) id,
	PUSH_LEFT_OUTS(X)
#undef X
	        PUSH_LEFT_OUT_COUNT
};

/* What becomes of a message whose call got no answer, unless the message says so itself. */
enum push_on_unknown {
	PUSH_ON_UNKNOWN_AUTO, /* it is sent again if it is urgent, or if a second one replaces the first on the phone */
	PUSH_ON_UNKNOWN_RETRY,
	PUSH_ON_UNKNOWN_GIVE_UP,
};

struct notification {
	struct bytes id, user, platform, job, caller, created_at, updated_at, ended_at;
	struct bytes cancelled_at; /* no data: it was not */
	struct bytes message;      /* members of a JSON object (2) */
	int64_t      ttl_s;        /* of the message, for Expo; -1: not said */
	int64_t      created_s;    /* from these: what is left of it */
	int64_t      expires_s;    /* what was not sent by then is not sent */
	bool         listed;       /* all its messages are queued */
	int64_t      messages, counts[PUSH_STATE_COUNT];
	bool         retries;  /* what got no answer is sent again */
	int64_t      resent;   /* messages that were, each time counted */
	int64_t      devices;  /* that were looked at */
	struct item  left_out; /* of these, reason: number */
	struct item  errors;   /* code: number */
	int64_t      disabled; /* tokens that were, because of it */
	struct item  row;
};

/* Is nothing to come any more? */
bool notification_ended(const struct notification *n);

/* May its messages not be sent any more? */
bool notification_is_over(const struct context *ctx, const struct notification *n);

/* What is to be sent. */
struct notification_message {
	struct bytes members;      /* JSON, without `to` and `ttl`; at most NOTIFICATION_BYTES_MAX */
	int64_t      ttl_s;        /* -1: not said */
	int64_t      expiration_s; /* 0: not said */
	bool         retries;      /* if there is no answer, it is sent again */
};

/* ---- one user ---- */

struct notify_request {
	struct bytes                user;
	struct notification_message message;
	const struct bytes         *devices; /* their ids; NULL: all active ones */
	uint32_t                    device_count;
};

/* ERR_NOT_NOW if the user is not active, or nobody sends (push.h). ERR_OVERLOADED if too much waits: nothing is done. */
enum err_code notify_user(struct context *ctx, const struct notify_request *q, struct notification *out,
                          struct err *err);

/* ---- all devices of a platform: a job ---- */

extern const struct job_kind broadcast_job;

struct broadcast {
	struct bytes                platform; /* empty: all of them */
	struct notification_message message;
	bool                        dry_run; /* counts */
	int64_t                     rate;
};

struct broadcast_started {
	struct notification notification;
	struct job          job;
};

/* ERR_NOT_NOW also if there is no index of devices by platform. */
enum err_code broadcast_start(struct context *ctx, const struct broadcast *q, struct broadcast_started *out,
                              struct err *err);

/* ---- cancelling ---- */

/* Drops what waits, and ends the job of a broadcast. To be cancelled already changes nothing. ERR_NOT_NOW: nothing is left to send. */
enum err_code notification_cancel(struct context *ctx, struct bytes id, struct notification *out,
                                  struct err *err);

/* ---- reading ---- */

/* ERR_NOT_FOUND, as of one that does not exist. */
enum err_code notification_unknown(struct err *err);
enum err_code notification_get(struct context *ctx, struct bytes id, struct notification *out,
                               struct err *err);

struct notifications_search {
	uint32_t     limit;
	struct bytes before; /* the last id of the page before; empty: the first page */
};

/* The newest first. */
struct notifications_page {
	struct notification *list;
	uint32_t             count;
	bool                 more;
	struct bytes         last; /* if more */
};

enum err_code notifications_find(struct context *ctx, const struct notifications_search *q,
                                 struct notifications_page *out, struct err *err);

/* ---- for push.h ---- */

/* NULL data in out->id: there is none any more. */
enum err_code notification_look(struct context *ctx, struct bytes id, struct notification *out,
                                struct err *err);

/* Moves so many from one state to another. */
void notification_move(struct notification *n, enum push_state from, enum push_state to, int64_t count);
void notification_error(struct context *ctx, struct notification *n, unsigned error, int64_t count);

/* Writes it, with its end if it has ended. */
void notification_put(struct context *ctx, struct notification *n);

#endif
