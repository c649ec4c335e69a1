/* Answer: what goes back to the peer: the handler's answer, our own refusals, and the rest of either when the
 * socket is slow. http_respond lives here. */
#ifndef HTTP_ANSWER_H
#define HTTP_ANSWER_H

#include "http/conn.h"

/* Answers the request under way with an error of our own; the connection ends after it. The caller calls
 * conn_drive afterwards, or is called by it. */
void answer_refuse(struct conn *c, struct refusal refusal);

/* Tells the peer to go on and send its body. */
void answer_continue(struct conn *c);

/* Small answers to requests that came together wait for each other, OUTBOX_ANSWERS_MAX at most: those requests are all
 * read before the first peer is woken, which on a busy machine costs less than going to and fro. Called before
 * each event; answers_send after the last. */
void answers_gather(struct loop *l);
void answers_send(struct loop *l);

/* The socket takes bytes again. The caller calls conn_drive afterwards. */
void answer_flush(struct conn *c);

/* The head of the answer to the request under way; `stream`: to one that goes on as events. */
void answer_head(struct conn *c, const struct http_response *response, bool stream, struct buf *out);

/* Answers a HEAD with the head of a stream. */
void answer_stream_head(struct conn *c, const struct http_response *response);

/* The body of an error, from the handler or a short text. */
struct http_response answer_error(const struct http_handler *h, struct arena *a, const struct http_error *e);

/* ---- the head as bytes ---- */

void         date_init(struct date *d);
struct bytes date_at(struct date *d, int64_t wall_us);

/* What the connection knows and the handler does not. */
struct response_facts {
	bool         close;       /* the connection ends after this answer */
	bool         version_1_0; /* so that keeping it open must be said */
	bool         stream;      /* no length: in chunks, or until the connection ends */
	struct bytes date;
};

/* Appends status line and headers with the empty line. A header whose name or value could be taken for
 * another line is left out: whatever it holds may have come from a peer. */
void response_head(struct buf *out, const struct http_response *response, const struct response_facts *facts);

/* Does it hold no CR, LF or NUL? */
bool text_is_one_line(struct bytes text);

/* Does an answer of this status have a body at all? */
bool response_has_body(int status);

#endif
