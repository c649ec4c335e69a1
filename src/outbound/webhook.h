/* Webhook: signed messages to one receiver, after Standard Webhooks (standardwebhooks.com), symmetric form:
 *
 *   webhook-id: msg_…               the same for every try of a message, so that a receiver can tell a repeat
 *   webhook-timestamp: 1794789304   of this try: receivers refuse what is more than five minutes off
 *   webhook-signature: v1,<base64>  HMAC-SHA256 over id.timestamp.body; one for each secret, with a space between
 *
 * A secret is "whsec_" and the base64 of 24 to 64 bytes. With two of them every message carries both signatures, so that a
 * receiver can go over from the old one to the new one at any moment.
 *
 * One call sends once: when to try again is the caller's to say, who knows how long a message is worth sending.
 *
 * What always holds
 * (1) Only 2xx means that the message was taken, whatever comes after the head of the answer: its body is read only so far that the connection can be kept.
 *     Redirects are not followed.
 * (2) Plain http goes only to receivers for which private addresses are allowed.
 * (3) No error text and no log line holds a body, a signature, a secret or a header's value.
 *
 * Threads: any number may send at once, up to calls_max. */
#ifndef OUTBOUND_WEBHOOK_H
#define OUTBOUND_WEBHOOK_H

#include "outbound/outbound.h"
#include "outbound/sender.h"

enum {
	WEBHOOK_SECRETS_MAX = 2,
	WEBHOOK_SECRET_BYTES_MIN = 24,
	WEBHOOK_SECRET_BYTES_MAX = 64,
	WEBHOOK_SECRET_FILE_BYTES_MAX = 4096,
	WEBHOOK_URL_BYTES_MAX = 2048,
	WEBHOOK_ID_CHARS = 28, /* "msg_" and 144 random bits */
	WEBHOOK_TRY_S = 15,
	WEBHOOK_HEADERS_MAX = 16,             /* of the caller */
	WEBHOOK_ANSWER_BYTES_MAX = 64 * 1024, /* that are read of an answer */
};

struct webhook_options {
	const char  *name;    /* for logs and error texts: "codes" */
	struct bytes url;     /* copied; so are the others */
	struct bytes secrets; /* the text of a file: one or two lines, and comments (#) */
	const char  *ca_file; /* NULL: the system's */
	bool         allow_private;
	uint32_t     calls_max;
	int64_t      try_s; /* how long a call may take; 0: WEBHOOK_TRY_S */
	const struct outbound_header
	             *headers; /* of every message, besides those above; the caller has checked them */
	uint32_t      header_count;
	struct clock *clock; /* must outlive it */
};

struct webhook;

/* ERR_INVALID: the URL or the secrets are wrong; err->field is `url` or `secrets`. Nothing is connected yet. */
enum err_code webhook_open(const struct webhook_options *options, struct webhook **out, struct err *err);
void          webhook_stop(struct webhook *w);  /* every call returns at once */
void          webhook_close(struct webhook *w); /* nobody may be in a call; NULL is fine */

struct webhook_message {
	struct bytes id;
	struct bytes content_type; /* "application/json" */
	struct bytes body;
	struct bytes trace; /* as outbound_request */
};

enum webhook_end {
	WEBHOOK_TAKEN,
	WEBHOOK_LATER, /* not now, or nobody knows: the message may be sent again */
	WEBHOOK_GONE,  /* the receiver wants none of it, ever (410) */
};

struct webhook_answer {
	enum webhook_end end;
	int              status;                    /* 0: there was no answer */
	int64_t          wait_s;                    /* LATER: what the receiver asked for; 0: nothing */
	char             error[SENDER_ERROR_CHARS]; /* LATER, without an answer: why */
};

struct webhook_answer webhook_send(struct webhook *w, const struct webhook_message *m, struct arena *a);

/* ---- events: one message each, CloudEvents as structured JSON; webhook-id is the event's ---- */

#define WEBHOOK_EVENT_TYPE "application/cloudevents+json"

/* As webhook_open. A status that is about the event is REFUSED; one that may be about the receiver or our access to it (401, 403,
 * 404, 405, 407, 408, 421, 423, 425, 429, redirects and 5xx) is LATER. */
enum err_code webhook_sender_open(const struct webhook_options *options, struct sender **out,
                                  struct err *err);

/* A new id, random. */
void webhook_id_make(char out[WEBHOOK_ID_CHARS]);

/* ---- for tests ---- */

/* The value of webhook-signature. */
struct bytes webhook_signature(const struct webhook *w, const struct webhook_message *m, int64_t now_s,
                               struct arena *a);

#endif
