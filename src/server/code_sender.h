/* Code sender: has codes sent to people, by a webhook (section `codes` of the identity file). A code goes from memory to the
 * webhook and is kept nowhere else: after a crash the user asks again.
 *
 *   post (any thread) --> queue --> a few threads: sign, send --> taken: forgotten
 *                           ^                        |
 *                           '--- later, with back-off until the code expires or is replaced
 *
 * What always holds
 * (1) The queue holds at most CODE_QUEUE_MAX messages; past it a message is dropped, and counted. post never waits.
 * (2) A newer code takes the place of one for the same address of the same user: the old one is not sent any more.
 * (3) A message is sent again until the receiver has taken it, its code has expired, or the receiver wants none (410).
 * (4) No log line, metric or error text holds an address, a code or an id. Memory that held them is wiped.
 * (5) At a stop, messages that are due are still sent, for at most CODE_STOP_S. */
#ifndef SERVER_CODE_SENDER_H
#define SERVER_CODE_SENDER_H

#include "base/clock.h"
#include "outbound/webhook.h"
#include "service/code_message.h"

enum {
	CODE_QUEUE_MAX = 4096,
	CODE_SENDERS = 4, /* threads, and calls at once */
	CODE_STOP_S = 3,
	CODE_AGAIN_FIRST_MS =
	        500, /* the first back-off; each is twice the one before, and a random part more */
	CODE_AGAIN_LAST_MS = 30000,
};

struct code_sender;

struct code_sender *code_sender_open(struct clock *clock);
void                code_sender_close(struct code_sender *s); /* NULL is fine */

/* The receiver from now on; NULL: none, and codes are in the answers. Takes it over. */
void code_sender_put(struct code_sender *s, struct webhook *receiver);

/* For services. */
struct code_post code_sender_post(struct code_sender *s);

/* How long after a try that failed the next one is due, without the random part. `tried`: how often it was sent, from 1. */
int64_t code_again_us(uint32_t tried, int64_t asked_s);

#endif
