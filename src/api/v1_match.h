/* Matching: which route a path means. */
#ifndef API_V1_MATCH_H
#define API_V1_MATCH_H

#include "api/v1.h"

enum v1_outcome { V1_MATCHED, V1_NO_PATH, V1_OTHER_METHOD, V1_BAD_PATH };

struct v1_match {
	const struct v1_route *route;
	struct bytes           params[V1_PARAMS_MAX]; /* percent-decoded, in the request's arena */
	char                   allowed[64];           /* V1_OTHER_METHOD: for the Allow header */
};

enum v1_outcome v1_match(struct http_request *r, struct v1_match *out);

/* %41 is A; with `plus`, + is a space. False if it is malformed or not UTF-8. */
bool percent_decode(struct arena *a, struct bytes text, bool plus, struct bytes *out);

#endif
