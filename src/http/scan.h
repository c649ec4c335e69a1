/* Scan: finds where a request's head ends, in bytes that arrive in any pieces, and refuses early what no
 * client of ours sends: control bytes (NUL among them), a bare CR or LF, folded lines, a head or a target
 * beyond its limit. Where two programs in a row read one message differently, requests are smuggled.
 *
 * Each byte is looked at once, however it arrives. */
#ifndef HTTP_SCAN_H
#define HTTP_SCAN_H

#include "base/bytes.h"

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

/* `in` starts where the request does, with everything received of it so far. SCAN_END: the head is
 * in[s->head_start, s->at), closing empty line included. SCAN_REFUSED fills *refusal. */
enum scan_result scan_head(struct scan *s, struct bytes in, const struct scan_limits *limits,
                           struct refusal *refusal);

/* How many bytes at its start could be a header's name (a token, RFC 9110 5.6.2). */
size_t scan_token_len(struct bytes text);

#endif
