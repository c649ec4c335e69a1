/* Code messages: what goes from memory to whoever sends codes to people, and to nowhere else: never to a row, an event or a
 * log. server/ plugs a sender in (server/code_sender.h); without one, codes are in the answers. */
#ifndef SERVICE_CODE_MESSAGE_H
#define SERVICE_CODE_MESSAGE_H

#include "base/bytes.h"

/* X(id, name in messages) */
#define CODE_MESSAGES(X)                                                                                     \
	X(CODE_MESSAGE_VERIFY, "verify_email")   /* the code, for the address */                             \
	X(CODE_MESSAGE_IN_USE, "address_in_use") /* somebody else wanted the address: its owner may be told */

enum code_message_kind {
#define X(id, name) id,
	CODE_MESSAGES(X)
#undef X
};

/* Borrowed: a sender copies what it keeps. */
struct code_message {
	enum code_message_kind kind;
	struct bytes           user;     /* who gets it; of IN_USE the owner, or empty */
	struct bytes           email_id; /* VERIFY */
	struct bytes           email;    /* as it was typed; of IN_USE, by its owner */
	struct bytes           code;     /* VERIFY */
	int64_t                expires_s;
	struct bytes           trace; /* the caller's trace id, or empty */
};

struct code_numbers {
	uint64_t sent, failed, dropped, replaced;
	uint32_t queued;
};

/* Any thread may call. All NULL: there is none. */
struct code_post {
	bool (*on)(void *ctx);
	void (*post)(void *ctx, const struct code_message *m); /* never waits */
	struct code_numbers (*read)(void *ctx);
	void *ctx;
};

#endif
