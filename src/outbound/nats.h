/* NATS: events to a stream of NATS JetStream, as a sender (sender.h), over one connection.
 *
 *   subject       <subject>.<type>: "gatehouse.events.user.created"
 *   Nats-Msg-Id   the event's id: what is sent again within the stream's duplicate window (two minutes unless set) is stored once
 *   content-type  application/cloudevents+json
 *   body          the CloudEvent, as JSON
 *
 * The stream must exist, and take `<subject>.>`: Gatehouse makes none. A publication counts as sent when the stream has said that it stored
 * it. A receiver deduplicates by the CloudEvent's `id` and drops what is stale by its `seq`, because an event may be sent again after the
 * window.
 *
 *   NONE -> connect, INFO, (TLS), CONNECT and PING, PONG -> READY: publish all, collect the answers -> READY
 *    ^                                                        |
 *    '-------- a failure, no answer in time, idle for long ---'
 *
 * What always holds (and what sender.h says)
 * (1) Unless private addresses are allowed, a server must speak TLS: nothing secret goes over a plain connection.
 * (2) Servers that INFO names are not connected to.
 * (3) What came before TLS was agreed on is not read after it.
 * (4) What a server says is bounded: a line, a message, and the time that a call may take.
 * (5) Calls take turns at the connection. So more than two at once would only wait: one has the connection, and one is ready for it. A call has its whole
 *     time once it has the connection. */
#ifndef OUTBOUND_NATS_H
#define OUTBOUND_NATS_H

#include "base/clock.h"
#include "base/err.h"
#include "outbound/sender.h"

#define NATS_SUBJECT "gatehouse.events"

enum {
	NATS_EVENTS_MAX = 64, /* of one call */
	NATS_LANES_MAX = 2,   /* (5) */
	NATS_SEND_S = 15,
	NATS_IDLE_S = 30, /* after which a connection is not trusted any more */
	NATS_URL_CHARS_MAX = 300,
	NATS_SUBJECT_CHARS_MAX = 200,
	NATS_SECRET_CHARS_MAX = 512, /* a token, a name, a password */
};

/* At most one of token, user with password, seed and credentials. Texts are copied. */
struct nats_options {
	const char *name; /* for logs: of the target */
	struct bytes
	        url; /* tls://example.org:4222; nats:// if private addresses are allowed. 4222 unless set */
	struct bytes  subject;        /* empty: NATS_SUBJECT */
	struct bytes  token;          /* an authorization token */
	struct bytes  user, password; /* together */
	struct bytes  seed;           /* of a user's nkey: "SU…" */
	struct bytes  credentials;    /* the text of a file with credentials: a user's JWT and seed */
	const char   *ca_file;        /* NULL: the system's */
	bool          allow_private;
	int64_t       within_us; /* one send; 0: NATS_SEND_S */
	struct clock *clock;     /* must outlive it */
};

/* ERR_INVALID: err->field is url, subject, token, user, password, seed or credentials. Nothing is connected yet. */
enum err_code nats_open(const struct nats_options *options, struct sender **out, struct err *err);

#endif
