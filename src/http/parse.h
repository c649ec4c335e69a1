/* Parse: a complete head, taken apart. A pure function over bytes: no sockets, no state between calls.
 * What it gives points into the text it was given. */
#ifndef HTTP_PARSE_H
#define HTTP_PARSE_H

#include "http/http.h"
#include "http/scan.h"

/* Limits above this are refused when the server opens. */
enum { PARSE_HEAD_BYTES_MAX = 64 * 1024 };

struct head {
	enum http_method method;
	struct bytes     target;
	unsigned         header_count;
	uint64_t         content_length; /* 0 if there is none */
	bool             chunked;
	bool             keep_alive; /* what version and Connection header add up to */
	bool             version_1_0;
	bool             expects_continue;
};

/* `text` is one head as scan_head found it: whole lines, each with its CR LF, the last one empty. Fills *out and headers,
 * or *refusal and returns false. */
bool parse_head(struct bytes text, struct http_header headers[HTTP_HEADERS_MAX], struct head *out,
                struct refusal *refusal);

/* Are they the same but for case? */
bool parse_name_is(struct bytes name, struct bytes other);

#endif
