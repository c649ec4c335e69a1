/* Response: an answer's head as bytes. */
#ifndef HTTP_RESPONSE_H
#define HTTP_RESPONSE_H

#include "http/http.h"

enum { DATE_BYTES = 29 }; /* "Sun, 06 Nov 1994 08:49:37 GMT" */

/* The Date header's text, made anew when the second changes. One thread only. */
struct date {
	int64_t second; /* -1: never made */
	char    text[DATE_BYTES + 1];
};

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

/* Does an answer of this status have a body at all? */
bool response_has_body(int status);

#endif
