/* Parse: where a request's head ends, and what it says. Pure functions over bytes: no sockets, and what they give points
 * into the text they were given. Strict: where two programs in a row read one message differently, requests are
 * smuggled. So control bytes (NUL among them), a bare CR or LF, folded lines, two lengths and the like are refused, and so is
 * a head or a target beyond its limit, as early as can be told. */
#ifndef HTTP_PARSE_H
#define HTTP_PARSE_H

#include "http/http.h"

/* Why a request is not served. status 0: it is. text is a literal. */
struct refusal {
	int         status;
	const char *text;
};

struct scan_limits {
	size_t head_bytes_max;
	size_t target_bytes_max;
};

struct scan {
	size_t   at;         /* everything before has been looked at */
	size_t   line_start; /* of the line that `at` is in */
	size_t   head_start; /* past an empty line before the request line */
	unsigned lines;      /* complete, not counting that empty one */
};

enum scan_result { SCAN_MORE, SCAN_END, SCAN_REFUSED };

void scan_init(struct scan *s);

/* `in` starts where the request does, with everything received of it so far. Each byte is looked at once, however it
 * arrives. SCAN_END: the head is in[s->head_start, s->at), closing empty line included. SCAN_REFUSED fills *refusal. */
enum scan_result scan_head(struct scan *s, struct bytes in, const struct scan_limits *limits,
                           struct refusal *refusal);

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
