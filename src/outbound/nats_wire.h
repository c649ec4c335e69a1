/* NATS wire: what a NATS server says and what a client says to it, as bytes; and what the answer of a JetStream to a publication means.
 * Pure.
 *
 *   INFO {…}␍␊     MSG subject sid [reply] size␍␊body␍␊     HMSG subject sid [reply] head-size size␍␊head body␍␊
 *   PING␍␊          PONG␍␊          +OK␍␊          -ERR 'text'␍␊ */
#ifndef OUTBOUND_NATS_WIRE_H
#define OUTBOUND_NATS_WIRE_H

#include "base/buf.h"
#include "outbound/sender.h"

enum {
	NATS_LINE_BYTES_MAX = 32 * 1024, /* an INFO lists the servers of a cluster */
	NATS_BODY_BYTES_MAX = 32 * 1024, /* of an answer */
	NATS_INPUT_BYTES_MAX = NATS_LINE_BYTES_MAX + NATS_BODY_BYTES_MAX + 4,
};

enum nats_op { NATS_MORE, NATS_WRONG, NATS_INFO, NATS_MSG, NATS_PING, NATS_PONG, NATS_OK, NATS_ERR };

/* All of it points into the input. */
struct nats_message {
	enum nats_op op;
	size_t       used;       /* bytes of the input; 0 with MORE and WRONG */
	struct bytes text;       /* INFO: its JSON. ERR: what it says, without quotes */
	struct bytes subject;    /* MSG */
	struct bytes head, body; /* MSG; the head of one without headers is empty */
};

/* The first message of what was read so far. MORE: it is not whole yet, and may still become one; never with NATS_INPUT_BYTES_MAX bytes. */
struct nats_message nats_read(struct bytes input);

/* What INFO says that matters here. False: it is no INFO of a server that we can use. */
struct nats_info {
	bool         headers, tls_required, tls_available, auth_required;
	uint64_t     payload_bytes_max;
	struct bytes nonce; /* in the arena; empty: none */
};

bool nats_info_read(struct bytes json, struct arena *a, struct nats_info *out);

/* What became of an event, from the answer to its publication. `subject` is what it was published to. */
void nats_answer_read(const struct nats_message *m, struct bytes subject, struct sender_event *e,
                      struct arena *a);

/* A known error of a server's -ERR, for people; never what the server wrote. */
const char *nats_err_text(struct bytes text);

/* Is it about a publication to that subject alone? Then the connection goes on. */
bool nats_err_is_about(struct bytes text, struct bytes subject);

struct nats_publication {
	struct bytes subject, reply, id, body;
};

/* Its head and body have so many bytes: what the server's maximum is about. */
size_t nats_publication_bytes(const struct nats_publication *p);
void   nats_write(struct buf *out, const struct nats_publication *p);

/* May it be a subject to publish to: tokens of letters, digits, - and _, with dots between them? */
bool nats_subject_is(struct bytes text);

#endif
