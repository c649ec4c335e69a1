/* Sender: one way to deliver events: a webhook, Amazon EventBridge, SQS, NATS. Each is opened by its own function, which has its own
 * options; whoever delivers (server/delivery.h) knows only this.
 *
 *   struct sqs_sender { struct sender base; … };        embed it as the first member, and cast
 *
 * What always holds
 * (1) `send` fills the result of every event of the list, whatever happens, and returns within SENDER_CALL_S_MAX.
 * (2) SENT: the target said that it has the event, durably as far as it promises that. Nothing else is SENT.
 * (3) REFUSED is about this event: it would be refused again as it is (too large, malformed, 422). What is wrong with the target or
 *     with our access to it (no answer, 5xx, 429, throttled, access denied, no such queue) is LATER, for all events of the call.
 *     An event that may have been sent, without an answer, is LATER too: it is sent again with the same id.
 * (4) Events of a list are sent in any order and fail one by one. The caller never has two of one subject under way.
 * (5) No error text holds a credential, a header's value or a byte of an answer's body that is not a known code.
 *
 * Threads: any number may send through one sender at once. `stop` makes every call return soon, also those that come later, as
 * LATER. `close` when nobody is in a call. The results hold no pointers; the arena is for what a call needs meanwhile. */
#ifndef OUTBOUND_SENDER_H
#define OUTBOUND_SENDER_H

#include "base/arena.h"
#include "base/bytes.h"

enum {
	SENDER_CALL_S_MAX = 30,
	SENDER_ERROR_CHARS = 160, /* with the NUL */
};

enum sender_end {
	SENDER_LATER, /* so that a result that nobody filled is harmless */
	SENDER_SENT,
	SENDER_REFUSED,
	SENDER_GONE, /* the target wants no events any more, ever: it is disabled (410) */
};

struct sender_event {
	/* from the caller */
	struct bytes id, type, subject;
	struct bytes time;  /* 2026-09-10T00:26:40.123456Z */
	struct bytes json;  /* the CloudEvent, as structured JSON */
	struct bytes trace; /* as outbound_request: 32 digits, or empty */

	/* the result */
	enum sender_end end;
	int             status;         /* of HTTP; 0: none */
	int64_t         wait_s;         /* LATER: what the target asked for; 0: nothing */
	char error[SENDER_ERROR_CHARS]; /* not SENT: what went wrong, for people: "503 ServiceUnavailable" */
};

struct sender;

struct sender_kind {
	const char *name; /* "webhook" */
	/* What one call takes: so many events, and so many bytes of their JSON in sum. A single event may be larger: then it is the sender
	 * who knows whether it fits (3). */
	uint32_t batch_max;
	size_t   batch_bytes_max;
	uint32_t lanes_max; /* calls at once that are of any use; 0: as many as one likes */

	void (*send)(struct sender *s, struct sender_event *list, uint32_t count, struct arena *a);
	void (*stop)(struct sender *s);
	void (*close)(struct sender *s);
};

struct sender {
	const struct sender_kind *kind;
};

/* ---- for senders ---- */

/* What became of one event. The format is for `error`, which is cut where it is too long; NULL: none, for SENT. */
void sender_result(struct sender_event *e, enum sender_end end, int status, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

#endif
